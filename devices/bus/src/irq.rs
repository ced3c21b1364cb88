//! Interrupts.

/// One interrupt of a device: a level-triggered wire, or one message (an MSI or MSI-X vector).
///
/// A device with several vectors holds several lines. A model calls them after it has released its lock, so an
/// implementation may access the device's registers.
pub trait IrqLine: Send + Sync {
    /// The wire's level. Called on every change, and harmless when called without one.
    fn set(&self, asserted: bool);

    /// A message: an edge that needs no release (MSI, MSI-X).
    fn message(&self) {
        self.set(true);
        self.set(false);
    }
}

/// A line that leads nowhere, for a device that is polled.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoIrq;

impl IrqLine for NoIrq {
    fn set(&self, _asserted: bool) {}
}
