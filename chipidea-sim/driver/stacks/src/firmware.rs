//! A stack with its classes as a board's driver.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use usb::ch9::EndpointDescriptor;
use usb::gadget::{Completion, QueueError, Request, Stall, UdcError};
use usb::{EndpointAddress, Gadget, SetupPacket, Speed, Udc, UdcDriver};

use crate::packets::Packets;

const NOT_OURS: UdcError = UdcError::Unsupported("a gadget on a firmware stack: its functions are its classes");

/// Polls in a row that still find news, after which the processor turns to something else first.
const MOST_POLLS: u32 = 256;

/// A stack with its classes as a driver. The gadget beside it is called for nothing but its own steps, and every call
/// of a gadget is refused.
pub struct Firmware {
    packets: Arc<Mutex<Packets>>,
    poll: Box<dyn FnMut() + Send>,
    /// Whether the stack is to be polled, although nothing interrupts.
    wants_poll: fn(&Packets) -> bool,
}

impl Firmware {
    /// The stack on `packets`, polled by `poll` when something interrupts and while it `wants_poll`.
    pub(crate) fn on(
        packets: Arc<Mutex<Packets>>,
        poll: impl FnMut() + Send + 'static,
        wants_poll: fn(&Packets) -> bool,
    ) -> Self {
        Self { packets, poll: Box::new(poll), wants_poll }
    }

    fn wants_poll(&self) -> bool {
        (self.wants_poll)(&self.packets.lock())
    }
}

impl fmt::Debug for Firmware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Firmware").finish_non_exhaustive()
    }
}

/// The gadget of a board whose functions are a stack's classes: none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoGadget;

impl Gadget for NoGadget {
    fn setup(&mut self, _udc: &mut dyn Udc, _setup: SetupPacket) -> Result<(), Stall> {
        Err(Stall)
    }

    fn complete(&mut self, _udc: &mut dyn Udc, _completion: Completion) {}

    fn reset(&mut self, _udc: &mut dyn Udc) {}

    fn disconnect(&mut self, _udc: &mut dyn Udc) {}
}

impl UdcDriver for Firmware {
    fn irq(&mut self, _gadget: &mut dyn Gadget) {
        for _ in 0..MOST_POLLS {
            (self.poll)();
            if !self.wants_poll() {
                return;
            }
        }
    }

    fn deliver(&mut self, gadget: &mut dyn Gadget) -> bool {
        let wanted = self.wants_poll();
        if wanted {
            self.irq(gadget);
        }
        wanted
    }

    fn take_log(&mut self) -> Vec<String> {
        self.packets.lock().take_log()
    }

    fn shutdown(&mut self) -> Result<(), UdcError> {
        Ok(self.packets.lock().shutdown()?)
    }
}

impl Udc for Firmware {
    fn name(&self) -> &str {
        "firmware"
    }

    fn max_speed(&self) -> Speed {
        Speed::High
    }

    fn endpoints(&self) -> u8 {
        0
    }

    fn speed(&self) -> Option<Speed> {
        None
    }

    fn enable(&mut self, _descriptor: &EndpointDescriptor) -> Result<(), UdcError> {
        Err(NOT_OURS)
    }

    fn disable(&mut self, _endpoint: EndpointAddress) -> Result<(), UdcError> {
        Err(NOT_OURS)
    }

    fn queue(&mut self, _endpoint: EndpointAddress, request: Request) -> Result<(), QueueError> {
        Err(QueueError { error: NOT_OURS, request })
    }

    fn dequeue(&mut self, _endpoint: EndpointAddress, _id: u64) -> Result<(), UdcError> {
        Err(NOT_OURS)
    }

    fn set_halt(&mut self, _endpoint: EndpointAddress, _halt: bool) -> Result<(), UdcError> {
        Err(NOT_OURS)
    }

    fn set_wedge(&mut self, _endpoint: EndpointAddress) -> Result<(), UdcError> {
        Err(NOT_OURS)
    }

    fn flush(&mut self, _endpoint: EndpointAddress) -> Result<(), UdcError> {
        Err(NOT_OURS)
    }

    fn set_self_powered(&mut self, _on: bool) {}

    /// The pull-up is the stack's, which has it on from its start.
    fn pullup(&mut self, _on: bool) -> Result<(), UdcError> {
        Ok(())
    }

    fn wakeup(&mut self) -> Result<(), UdcError> {
        Err(NOT_OURS)
    }
}
