//! What a driver does to memory itself.

use std::fmt;

use bus::{AccessKind, CpuAddr, DmaAddr};

/// One access of the processor, by a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverAccess {
    /// First byte for the processor.
    pub cpu: CpuAddr,
    /// The same byte for devices.
    pub dma: DmaAddr,
    /// Length in bytes.
    pub len: u64,
    /// Which way.
    pub kind: AccessKind,
}

/// What a driver reached that is not its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wild {
    /// Memory that is neither a block of a pool, nor coherent, nor mapped, nor a buffer.
    Unowned,
    /// A buffer that was freed.
    FreedBuffer,
    /// What lies behind a live buffer.
    BehindBuffer {
        /// Bytes of the access inside the buffer.
        inside: u64,
    },
    /// Memory of a pool that is in none of its blocks.
    PoolMemory {
        /// The pool.
        pool: String,
        /// The pool's own data in free blocks that a write ran into.
        damaged: Vec<&'static str>,
    },
}

impl fmt::Display for DriverAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.kind {
            AccessKind::Read => "read",
            AccessKind::Write => "wrote",
        };
        write!(f, "the driver {verb} {} / {} ({} bytes)", self.cpu, self.dma, self.len)
    }
}

impl fmt::Display for Wild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unowned => f.write_str("memory that is not its own"),
            Self::FreedBuffer => f.write_str("a buffer that it freed"),
            Self::BehindBuffer { inside } => write!(f, "its buffer ends after {inside} of them"),
            Self::PoolMemory { pool, .. } => write!(f, "memory of pool {pool} that it never handed out"),
        }
    }
}
