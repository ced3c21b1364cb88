//! The interrupt line between a model and the bench's processor.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bus::IrqLine;
use tokio::sync::Notify;

/// A level-triggered line. Raising it wakes the processor's task; it never calls the driver itself, so the driver may
/// be in the middle of anything.
#[derive(Default)]
pub(crate) struct Line {
    level: AtomicBool,
    /// The processor sees no interrupt for now.
    held: AtomicBool,
    raised: AtomicU64,
    changed: Notify,
}

impl Line {
    pub(crate) fn is_asserted(&self) -> bool {
        self.level.load(Ordering::Acquire) && !self.held.load(Ordering::Acquire)
    }

    /// Lets interrupts wait.
    pub(crate) fn hold(&self) {
        self.held.store(true, Ordering::Release);
    }

    /// Interrupts that waited come.
    pub(crate) fn release(&self) {
        if self.held.swap(false, Ordering::AcqRel) {
            self.changed.notify_one();
        }
    }

    /// How often the line rose.
    pub(crate) fn raised(&self) -> u64 {
        self.raised.load(Ordering::Relaxed)
    }

    /// Waits for a rise, or for [`Line::poke`].
    pub(crate) async fn wait(&self) {
        self.changed.notified().await;
    }

    /// Wakes the processor without an interrupt.
    pub(crate) fn poke(&self) {
        self.changed.notify_one();
    }
}

impl IrqLine for Line {
    fn set(&self, asserted: bool) {
        if self.level.swap(asserted, Ordering::AcqRel) != asserted && asserted {
            self.raised.fetch_add(1, Ordering::Relaxed);
            self.changed.notify_one();
        }
    }
}
