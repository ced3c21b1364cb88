//! The board's processor: one thread at a time runs the driver and its gadget.

use std::thread::{self, ThreadId};

use parking_lot::{Mutex, MutexGuard};
use usb::gadget::{Gadget, UdcDriver};

/// What a board runs: one driver, one gadget on it.
pub(crate) struct Software {
    pub(crate) driver: Box<dyn UdcDriver>,
    pub(crate) gadget: Box<dyn Gadget>,
}

/// The processor with what it runs.
#[derive(Default)]
pub(crate) struct Processor {
    software: Mutex<Option<Software>>,
    /// The thread that runs it now.
    taken_by: Mutex<Option<ThreadId>>,
}

/// The processor, taken by one thread.
pub(crate) struct Taken<'a> {
    processor: &'a Processor,
    pub(crate) software: MutexGuard<'a, Option<Software>>,
}

impl Processor {
    /// Takes the processor; waits while another thread has it. `None` from inside code that runs on it.
    pub(crate) fn take(&self) -> Option<Taken<'_>> {
        let me = thread::current().id();
        if *self.taken_by.lock() == Some(me) {
            return None;
        }
        let software = self.software.lock();
        *self.taken_by.lock() = Some(me);
        Some(Taken { processor: self, software })
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.processor.taken_by.lock() = None;
    }
}
