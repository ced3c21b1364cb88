//! Memory-mapped registers.

/// Width of a register access in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Width {
    /// One byte.
    U8 = 1,
    /// Two bytes.
    U16 = 2,
    /// Four bytes.
    U32 = 4,
    /// Eight bytes (NVMe's queue base addresses).
    U64 = 8,
}

/// A window of registers. Implemented by models, used by drivers; a bench may put itself in between.
///
/// An access happens at one instant: self-clearing bits have cleared, or clear within a bounded number of reads.
pub trait Mmio: Send + Sync {
    /// Reads the register at byte `offset`. Unknown offsets read as 0.
    fn read(&self, offset: u64, width: Width) -> u64;

    /// Writes the register at byte `offset`. Unknown offsets take no notice.
    fn write(&self, offset: u64, width: Width, value: u64);

    /// Reads 32 bits.
    fn read32(&self, offset: u64) -> u32 {
        // A 32-bit read has 32 bits.
        self.read(offset, Width::U32) as u32
    }

    /// Writes 32 bits.
    fn write32(&self, offset: u64, value: u32) {
        self.write(offset, Width::U32, u64::from(value));
    }
}
