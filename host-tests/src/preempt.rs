//! Registers with somebody at their preemption points.

use std::sync::Arc;

use bus::{Mmio, Point, Preempt, Width};

/// A register window that shows every access to `preempt` before it takes place.
pub(crate) struct PreemptedMmio {
    pub(crate) mmio: Arc<dyn Mmio>,
    pub(crate) preempt: Arc<dyn Preempt>,
}

impl Mmio for PreemptedMmio {
    fn read(&self, offset: u64, width: Width) -> u64 {
        self.preempt.at(Point::RegisterRead(offset));
        self.mmio.read(offset, width)
    }

    fn write(&self, offset: u64, width: Width, value: u64) {
        self.preempt.at(Point::RegisterWrite(offset));
        self.mmio.write(offset, width, value);
    }
}
