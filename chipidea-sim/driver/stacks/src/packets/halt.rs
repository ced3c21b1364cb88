//! Halts and data toggles, and the standard requests that change them unsaid.

use usb::ch9::{Feature, Recipient, Request as Standard};
use usb::{EndpointAddress, SetupPacket};

use super::Packets;

impl Packets {
    /// Halts an endpoint, or ends its halt. Endpoint 0 halts both ways, until the next SETUP.
    ///
    /// A halt that the host clears starts the data toggle again, also where there was none (USB 2.0 §9.4.5); a stack's
    /// own call does so only if there was one.
    pub(crate) fn set_stalled(&mut self, address: EndpointAddress, stalled: bool) {
        if self.position(address).is_none() || !self.is_enabled(address) {
            return;
        }
        let by_host = !stalled && self.host_clears(address);
        if self.is_stalled(address) == stalled && !by_host {
            return;
        }
        // A SETUP that came meanwhile keeps endpoint 0 from stalling, and the stack is told of it next.
        if let Err(error) = self.engine.set_halt(address, stalled)
            && !address.is_ep0()
        {
            self.warn(format!("{address}: halt: {error}"));
        }
    }

    /// Whether an endpoint is halted.
    pub(crate) fn is_stalled(&self, address: EndpointAddress) -> bool {
        self.position(address).is_some() && self.engine.halted(address).unwrap_or(false)
    }

    /// Whether the host is about to clear this endpoint's halt.
    fn host_clears(&self, address: EndpointAddress) -> bool {
        self.current.is_some_and(|setup| {
            setup.request_type == Recipient::Endpoint.0
                && Standard(setup.request) == Standard::ClearFeature
                && Feature(setup.value.get()) == Feature::EndpointHalt
                && EndpointAddress::from_byte(setup.index.get().to_le_bytes()[0]) == address
        })
    }

    /// Whether the transfer on endpoint 0 selects a configuration.
    pub(super) fn configures(&self) -> bool {
        let selects = |setup: SetupPacket| {
            setup.request_type == 0 && Standard(setup.request) == Standard::SetConfiguration && setup.value.get() != 0
        };
        self.current.is_some_and(selects)
    }

    /// SET_CONFIGURATION ends halts and starts data toggles again (USB 2.0 §9.1.1.5). Stacks tell their bus nothing
    /// of it.
    pub(super) fn forget_halts(&mut self) {
        for index in 0..self.endpoints.len() {
            let address = self.endpoints[index].address;
            if !address.is_ep0()
                && self.is_enabled(address)
                && let Err(error) = self.engine.set_halt(address, false)
            {
                self.warn(format!("{address}: halt: {error}"));
            }
        }
    }
}
