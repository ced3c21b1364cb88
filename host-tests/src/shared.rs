//! A gadget with two holders: the driver that calls it and the scenario that looks at it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use usb::SetupPacket;
use usb::gadget::{Completion, End, Gadget, Stall, Udc};

/// A gadget that a scenario keeps a hold of.
#[derive(Debug)]
pub struct Shared<G>(Arc<Mutex<G>>);

impl<G> Shared<G> {
    /// Shares `gadget`.
    pub fn new(gadget: G) -> Self {
        Self(Arc::new(Mutex::new(gadget)))
    }

    /// Looks at the gadget, or changes it. Not to be called from the gadget itself.
    pub fn with<R>(&self, look: impl FnOnce(&mut G) -> R) -> R {
        look(&mut self.0.lock())
    }
}

impl<G> Clone for Shared<G> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<G: Gadget> Gadget for Shared<G> {
    fn setup(&mut self, udc: &mut dyn Udc, setup: SetupPacket) -> Result<(), Stall> {
        self.0.lock().setup(udc, setup)
    }

    fn complete(&mut self, udc: &mut dyn Udc, completion: Completion) {
        self.0.lock().complete(udc, completion);
    }

    fn reset(&mut self, udc: &mut dyn Udc) {
        self.0.lock().reset(udc);
    }

    fn disconnect(&mut self, udc: &mut dyn Udc) {
        self.0.lock().disconnect(udc);
    }

    fn suspend(&mut self, udc: &mut dyn Udc) {
        self.0.lock().suspend(udc);
    }

    fn resume(&mut self, udc: &mut dyn Udc) {
        self.0.lock().resume(udc);
    }

    fn step(&mut self, udc: &mut dyn Udc, now: Duration) -> Option<Duration> {
        self.0.lock().step(udc, now)
    }

    fn end(&mut self) -> Option<End> {
        self.0.lock().end()
    }
}
