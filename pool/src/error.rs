//! Errors of pools, with their operands.

use bus::{CpuAddr, DmaAddr};
use thiserror::Error;

use crate::memory::CpuFault;
use crate::page::PageError;
use crate::pool::Block;

/// Why a pool cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CreateError {
    /// Size 0, or beyond what the kernel takes.
    #[error("size {size}: a block has 1 to {max} bytes", max = i32::MAX)]
    Size {
        /// As asked for.
        size: u64,
    },
    /// Alignment is not a power of two.
    #[error("align {align} is not a power of two")]
    Align {
        /// As asked for.
        align: u64,
    },
    /// Boundary is not a power of two.
    #[error("boundary {boundary} is not a power of two")]
    Boundary {
        /// As asked for.
        boundary: u64,
    },
    /// A block could not help crossing the boundary.
    #[error("boundary {boundary} is smaller than a block, {size} bytes after rounding")]
    BoundaryBelowSize {
        /// As asked for.
        boundary: u64,
        /// After rounding.
        size: u64,
    },
    /// The pool's code did not come back: a fault, a deadlock or an endless loop.
    #[error("{0}")]
    Crashed(String),
    /// The pool could not be made for a reason of its own.
    #[error("{0}")]
    Other(String),
}

/// Why a block cannot be handed out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AllocError {
    /// The page source gave nothing.
    #[error("no page for the pool: {0}")]
    Page(#[from] PageError),
    /// The pool's own list led to an address that is not mapped: something damaged it. A kernel would oops.
    #[error("the free list leads to {link}, where no memory is: {fault}")]
    DamagedList {
        /// Where the list led to.
        link: CpuAddr,
        /// What happened there.
        fault: CpuFault,
    },
    /// The pool's code did not come back: a fault, a deadlock or an endless loop. The pool is dead.
    #[error("{words}")]
    Crashed {
        /// The address that a fault was about, if it was one.
        at: CpuAddr,
        /// What happened where.
        words: String,
    },
    /// The pool failed for a reason of its own.
    #[error("{0}")]
    Other(String),
}

/// Why a block cannot be taken back.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FreeError {
    /// It is free already.
    #[error("double free of {} / {}", .0.cpu, .0.dma)]
    Double(Block),
    /// It lies in no page of this pool.
    #[error("{} / {} is not in this pool", .0.cpu, .0.dma)]
    Foreign(Block),
    /// It lies in a page of this pool, but no block begins there.
    #[error("{} / {} is inside a block that begins at {start}", .block.cpu, .block.dma)]
    Interior {
        /// What was given.
        block: Block,
        /// Where the block begins for devices.
        start: DmaAddr,
    },
    /// The two addresses are not those of one block.
    #[error("{} is not the processor's address of {}, {expected} is", .block.cpu, .block.dma)]
    Mismatched {
        /// What was given.
        block: Block,
        /// The processor's address that belongs to the devices' address.
        expected: CpuAddr,
    },
    /// The pool wrote its own data into the block, and no memory was there. A kernel would oops.
    #[error("{0}")]
    Fault(#[from] CpuFault),
    /// The pool's code did not come back: a fault, a deadlock or an endless loop. The pool is dead.
    #[error("{0}")]
    Crashed(String),
    /// The pool failed for a reason of its own.
    #[error("{0}")]
    Other(String),
}

/// Why a pool cannot be destroyed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DestroyError {
    /// Blocks are in use.
    #[error("{live} blocks are in use{}{}", if .owners.is_empty() { "" } else { ": " }, .owners.join(", "))]
    Busy {
        /// How many.
        live: usize,
        /// Who holds them, as far as it is known; the ledger fills this in.
        owners: Vec<String>,
    },
    /// The pool's code did not come back: a fault, a deadlock or an endless loop.
    #[error("{0}")]
    Crashed(String),
}

impl DestroyError {
    /// The answer of a pool that has `live` blocks in use.
    ///
    /// # Errors
    /// [`DestroyError::Busy`] unless there are none.
    pub fn check_idle(live: usize) -> Result<(), Self> {
        if live == 0 { Ok(()) } else { Err(Self::Busy { live, owners: Vec::new() }) }
    }
}
