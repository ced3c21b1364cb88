//! Preemption points: where the other side may run in the middle of a driver's work.

/// What the driver is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Read the register at this offset.
    RegisterRead(u64),
    /// Write the register at this offset.
    RegisterWrite(u64),
    /// Read a descriptor word.
    DescriptorRead,
    /// Write a descriptor word.
    DescriptorWrite,
}

/// Called before every register and descriptor access of a driver.
///
/// A schedule may put wire traffic here ("before access n: a SETUP"). It must not call the driver.
pub trait Preempt: Send + Sync {
    /// The driver stands at `point`.
    fn at(&self, point: Point);
}
