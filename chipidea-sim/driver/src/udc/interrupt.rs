//! The interrupt handler (`ci_irq_handler`, `udc_irq`, `isr_reset_handler`, `isr_tr_complete_handler`).

use usb::{Direction, EndpointAddress, Gadget, UdcDriver};

use super::ChipideaUdc;

impl ChipideaUdc {
    /// One run (`ci_irq_handler`). The line is level triggered: what comes meanwhile calls it again.
    pub(super) fn handle_interrupt(&mut self, gadget: &mut dyn Gadget) {
        self.deliver_all(gadget);
        if self.engine.is_shut_down() {
            return;
        }
        if self.engine.take_vbus_change() {
            self.handle_vbus_change(gadget);
        } else {
            self.handle_device(gadget);
        }
    }

    /// Hands out what came back.
    pub(super) fn deliver_all(&mut self, gadget: &mut dyn Gadget) {
        self.deliver(gadget);
    }

    /// What happened on the bus (`udc_irq`).
    fn handle_device(&mut self, gadget: &mut dyn Gadget) {
        let interrupts = self.engine.take_interrupts();
        // The order is the handler's priority.
        if interrupts.reset() {
            self.handle_bus_reset(gadget);
        }
        if interrupts.port_change() {
            self.speed = Some(self.engine.speed());
            if self.suspended {
                self.suspended = false;
                gadget.resume(self);
                self.deliver_all(gadget);
            }
        }
        if interrupts.transfer() || interrupts.error() {
            self.handle_completions(gadget);
        }
        if interrupts.suspend() && !self.suspended {
            self.suspended = true;
            if self.speed.is_some() {
                gadget.suspend(self);
                self.deliver_all(gadget);
            }
        }
    }

    /// Bus reset (`isr_reset_handler`).
    fn handle_bus_reset(&mut self, gadget: &mut dyn Gadget) {
        if self.speed.is_some() {
            gadget.reset(self);
            self.deliver_all(gadget);
        }
        self.stop_activity();
        self.deliver_all(gadget);
        if let Err(error) = self.engine.restart_after_bus_reset() {
            self.engine.warn(format!("error: {error}"));
        }
        self.status_ready = true;
    }

    /// Endpoints that completed something, and SETUP (`isr_tr_complete_handler`): all OUT, then all IN.
    fn handle_completions(&mut self, gadget: &mut dyn Gadget) {
        let numbers = 0..self.engine.endpoints();
        let all = numbers.clone().map(EndpointAddress::out).chain(numbers.map(EndpointAddress::r#in));
        for endpoint in all {
            if self.engine.endpoint_setup(endpoint).is_some() && self.engine.take_complete(endpoint) {
                self.handle_complete(gadget, endpoint);
            }
            let is_first = endpoint.is_ep0() && endpoint.direction == Direction::Out;
            if is_first && self.engine.acknowledge_setup() {
                self.handle_setup(gadget);
            }
        }
    }

    /// Gives back what an endpoint is done with (`isr_tr_complete_low`), and queues the status stage after data.
    fn handle_complete(&mut self, gadget: &mut dyn Gadget, endpoint: EndpointAddress) {
        // What the gadget queues meanwhile waits for its own interrupt.
        for _ in 0..self.engine.queued(endpoint) {
            let completion = match self.engine.retire(endpoint) {
                Ok(Some(completion)) => completion,
                Ok(None) => break,
                Err(error) => {
                    self.engine.warn(format!("{endpoint}: {error}"));
                    break;
                }
            };
            let status = completion.status;
            self.give_back(completion);
            self.deliver_all(gadget);
            if !endpoint.is_ep0() {
                continue;
            }
            let answered = match status {
                Ok(0) => Ok(()),
                Ok(_) => self.queue_status_stage().map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            if answered.is_err() {
                self.stall_ep0(endpoint);
            }
        }
    }
}
