//! Endpoints: enable, disable, flush, halt (`ep_enable`, `ep_disable`, `hw_ep_flush`, `hw_ep_set_halt`).

use usb::{Direction, EndpointAddress, TransferType};

use super::{Engine, MOST_ROUNDS};
use crate::dqh::Capabilities;
use crate::endpoint::EndpointSetup;
use crate::error::EngineError;
use crate::fault::Fault;
use crate::registers::{ENDPTFLUSH, ENDPTSTAT, endpoint_bit};

impl Engine {
    /// How an endpoint is set up, `None` while it is disabled or does not exist.
    #[must_use]
    pub fn endpoint_setup(&self, address: EndpointAddress) -> Option<EndpointSetup> {
        self.endpoint(address).ok()?.setup
    }

    /// Requests that are queued on an endpoint.
    #[must_use]
    pub fn queued(&self, address: EndpointAddress) -> usize {
        self.endpoint(address).map_or(0, |endpoint| endpoint.queue.len())
    }

    /// Id of the request that is first in an endpoint's queue.
    #[must_use]
    pub fn first_queued(&self, address: EndpointAddress) -> Option<u64> {
        Some(self.endpoint(address).ok()?.queue.front()?.request.id)
    }

    /// Sets an endpoint up: dQH capabilities, type, data toggle 0, no halt (`ep_enable`). Endpoint 0 is always enabled
    /// in the controller, and still needs its dQHs set up, each direction for itself.
    ///
    /// # Errors
    /// No such endpoint; it is enabled; a control endpoint other than 0.
    pub fn enable(&mut self, address: EndpointAddress, setup: EndpointSetup) -> Result<(), EngineError> {
        if !self.live {
            return Err(EngineError::ShutDown);
        }
        let endpoint = self.endpoint(address)?;
        if endpoint.setup.is_some() || !endpoint.queue.is_empty() {
            return Err(EngineError::Busy(address));
        }
        let control = setup.transfer_type == TransferType::Control;
        if control != address.is_ep0() {
            return Err(EngineError::NoEndpoint(address));
        }
        // For an isochronous IN endpoint the dTD's MultO rules, up to this.
        let isochronous_in = setup.transfer_type == TransferType::Isochronous && address.direction == Direction::In;
        let capabilities = Capabilities::new()
            .with_interrupt_on_setup(control && !self.has(Fault::NoIos))
            .with_zlt(true)
            .with_max_packet(if self.has(Fault::WrongMaxPacket) { 64 } else { setup.max_packet & 0x7ff })
            .with_mult(if isochronous_in { 3 } else { 0 });
        let head = endpoint.head;
        head.set_capabilities(&self.dma, capabilities)?;
        head.terminate(&self.dma)?;
        if !address.is_ep0() {
            self.registers.update_endpoint(address, |control| {
                control
                    .with_stall(false)
                    .with_transfer_type(setup.transfer_type as u8)
                    .with_toggle_reset(true)
                    .with_enable(true)
            });
        }
        let endpoint = self.endpoint_mut(address)?;
        endpoint.setup = Some(setup);
        endpoint.named = true;
        Ok(())
    }

    /// Disables an endpoint whose queue is empty: [`Engine::nuke`] comes first (`ep_disable`).
    ///
    /// # Errors
    /// No such endpoint, or not enabled; requests are queued.
    pub fn disable(&mut self, address: EndpointAddress) -> Result<(), EngineError> {
        self.forget(address)?;
        if !address.is_ep0() {
            self.registers.update_endpoint(address, |control| control.with_enable(false));
        }
        Ok(())
    }

    /// Disables an endpoint whose queue is empty, and leaves its registers alone.
    pub(crate) fn forget(&mut self, address: EndpointAddress) -> Result<(), EngineError> {
        let endpoint = self.endpoint_mut(address)?;
        if endpoint.setup.is_none() {
            return Err(EngineError::NoEndpoint(address));
        }
        if !endpoint.queue.is_empty() {
            return Err(EngineError::Busy(address));
        }
        endpoint.setup = None;
        Ok(())
    }

    /// Takes back what is primed on an endpoint (`hw_ep_flush`). Its queue stays, and is not primed.
    ///
    /// # Errors
    /// No such endpoint, or the controller does not finish.
    pub fn flush(&mut self, address: EndpointAddress) -> Result<(), EngineError> {
        self.endpoint(address)?;
        let bit = endpoint_bit(address);
        for _ in 0..MOST_ROUNDS {
            self.registers.store(ENDPTFLUSH, bit);
            self.wait_clear(ENDPTFLUSH, bit)?;
            if self.registers.load(ENDPTSTAT) & bit == 0 {
                return Ok(());
            }
        }
        Err(EngineError::Timeout { register: "ENDPTSTAT", bits: bit, state: "set", polls: MOST_ROUNDS })
    }

    /// [`Engine::flush`], as a function asks for it (`ep_fifo_flush`). ci_hdrc does not know the number of an endpoint
    /// that was never enabled, and takes it for endpoint 0 OUT.
    pub(crate) fn flush_fifo(&mut self, address: EndpointAddress) -> Result<(), EngineError> {
        let named = self.endpoint(address)?.named;
        self.flush(if named { address } else { EndpointAddress::out(0) })
    }

    /// Halts an endpoint, or ends its halt and resets its data toggle; a control endpoint both ways
    /// (`_ep_set_halt`, `hw_ep_set_halt`).
    ///
    /// # Errors
    /// Not enabled, or ENDPTCTRL does not take it.
    pub fn set_halt(&mut self, address: EndpointAddress, halt: bool) -> Result<(), EngineError> {
        self.endpoint(address)?.setup.ok_or(EngineError::NoEndpoint(address))?;
        self.directions(address).try_for_each(|direction| self.set_halt_bit(direction, halt))
    }

    fn set_halt_bit(&self, address: EndpointAddress, halt: bool) -> Result<(), EngineError> {
        for _ in 0..MOST_ROUNDS {
            let reset = !halt && !self.has(Fault::ToggleNotReset);
            self.registers.update_endpoint(address, |control| control.with_stall(halt).with_toggle_reset(reset));
            if self.registers.endpoint(address).stall() == halt {
                return Ok(());
            }
        }
        let state = if halt { "clear" } else { "set" };
        let bits = if address.direction == Direction::Out { 1 } else { 1 << 16 };
        Err(EngineError::Timeout { register: "ENDPTCTRL", bits, state, polls: MOST_ROUNDS })
    }

    /// Whether an endpoint is halted (`hw_ep_get_halt`).
    ///
    /// # Errors
    /// No such endpoint.
    pub fn halted(&self, address: EndpointAddress) -> Result<bool, EngineError> {
        self.endpoint(address)?;
        Ok(self.registers.endpoint(address).stall())
    }

    /// Resets an endpoint's data toggle.
    ///
    /// # Errors
    /// Not enabled.
    pub fn reset_toggle(&mut self, address: EndpointAddress) -> Result<(), EngineError> {
        self.endpoint(address)?.setup.ok_or(EngineError::NoEndpoint(address))?;
        self.registers.update_endpoint(address, |control| control.with_toggle_reset(true));
        Ok(())
    }
}
