//! What the controller has to tell: bus resets, suspend and resume, VBUS, packets that came or went, SETUP.

use usb::Direction;
use usb::gadget::Completion;

use super::{EP0_IN, EP0_OUT, Packets, Power};

impl Packets {
    /// Looks at what the controller has to tell.
    pub(crate) fn service(&mut self) {
        if !self.started || self.engine.is_shut_down() {
            return;
        }
        if self.engine.take_vbus_change() {
            self.vbus_changed();
        }
        let interrupts = self.engine.take_interrupts();
        if interrupts.reset() {
            self.bus_reset();
        }
        if interrupts.port_change() && self.suspended {
            self.suspended = false;
            self.power = Some(Power::Resumed);
        }
        if interrupts.transfer() || interrupts.error() {
            self.completions();
        }
        if interrupts.suspend() && !self.suspended {
            self.suspended = true;
            self.power = Some(Power::Suspended);
        }
        // Again what could not be primed when its packet was read.
        self.prime_all();
    }

    fn vbus_changed(&mut self) {
        let vbus = self.engine.vbus();
        if vbus == self.vbus {
            return;
        }
        self.vbus = vbus;
        self.engine.set_pullup(vbus && self.attached);
        if vbus {
            self.power = Some(Power::Detected);
        } else {
            self.stop_activity();
            self.power = Some(Power::Removed);
        }
    }

    fn bus_reset(&mut self) {
        self.stop_activity();
        if let Err(error) = self.engine.restart_after_bus_reset() {
            self.warn(format!("bus reset: {error}"));
        }
        self.reset = true;
        self.power = None;
    }

    fn completions(&mut self) {
        for index in 0..self.endpoints.len() {
            let address = self.endpoints[index].address;
            if !self.engine.take_complete(address) {
                continue;
            }
            match self.engine.retire(address) {
                Ok(Some(completion)) => self.completed(index, completion),
                Ok(None) => {}
                Err(error) => self.warn(format!("{address}: {error}")),
            }
        }
        if self.engine.setup_waits() {
            self.setup_came();
        }
    }

    fn completed(&mut self, index: usize, completion: Completion) {
        let Completion { endpoint: address, request, status } = completion;
        let endpoint = &mut self.endpoints[index];
        match (status, address.direction) {
            (Ok(length), Direction::Out) => endpoint.received = Some((request.data, length)),
            (Ok(_), Direction::In) => {
                self.sent |= 1 << address.number;
                endpoint.spare = request.data;
            }
            (Err(error), _) => {
                endpoint.spare = request.data;
                self.warn(format!("{address}: {error}"));
                return;
            }
        }
        self.news = true;
    }

    /// A SETUP ends whatever endpoint 0 was about.
    fn setup_came(&mut self) {
        for address in [EP0_OUT, EP0_IN] {
            self.drop_packets(address);
        }
        self.engine.acknowledge_setup();
        self.sent &= !1;
        self.expected = 0;
        self.current = None;
        match self.engine.read_setup() {
            Ok(setup) => {
                self.setup = Some(setup);
                self.news = true;
            }
            Err(error) => {
                self.warn(format!("setup: {error}"));
                self.set_stalled(EP0_OUT, true);
            }
        }
    }
}
