//! What a DMA pool is (Linux: include/linux/dmapool.h).

use bus::{CpuAddr, DmaAddr};

use crate::error::{AllocError, CreateError, DestroyError, FreeError};
use crate::finding::Promise;

/// How to allocate (Linux: `gfp_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Flags {
    /// The block must be zeroed (`__GFP_ZERO`).
    pub zero: bool,
    /// The caller may sleep (`GFP_KERNEL`); otherwise not (`GFP_ATOMIC`).
    pub may_sleep: bool,
}

impl Flags {
    /// `GFP_KERNEL`
    pub const KERNEL: Self = Self { zero: false, may_sleep: true };
    /// `GFP_ATOMIC`
    pub const ATOMIC: Self = Self { zero: false, may_sleep: false };

    /// The same with `__GFP_ZERO`.
    #[must_use]
    pub const fn zeroed(self) -> Self {
        Self { zero: true, ..self }
    }
}

/// A block of memory, by both its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Block {
    /// The processor's address.
    pub cpu: CpuAddr,
    /// The devices' address.
    pub dma: DmaAddr,
}

/// What a driver asks of a pool (`dma_pool_create`). All in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Size of a block.
    pub size: u64,
    /// Alignment of a block, a power of two; 0 means 1.
    pub align: u64,
    /// No block crosses a multiple of this, a power of two not under `size`; 0 means no such limit.
    pub boundary: u64,
}

/// A [`Geometry`] as a pool lays it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Distance between blocks: the size, at least the policy's smallest, rounded up to the alignment.
    pub size: u64,
    /// Alignment.
    pub align: u64,
    /// Size of an allocation from the page source: a page, or a block if that is larger.
    pub allocation: u64,
    /// Boundary, at most `allocation`.
    pub boundary: u64,
}

impl Geometry {
    /// Checks and rounds as `dma_pool_create` does (mm/dmapool.c), for a policy whose smallest block is `smallest`.
    ///
    /// # Errors
    /// [`CreateError`] with the operand that is wrong.
    pub fn layout(self, smallest: u64, page_size: u64) -> Result<Layout, CreateError> {
        let align = self.align.max(1);
        if !align.is_power_of_two() {
            return Err(CreateError::Align { align });
        }
        if self.size == 0 || self.size > i32::MAX as u64 {
            return Err(CreateError::Size { size: self.size });
        }
        let size = self.size.max(smallest).next_multiple_of(align);
        let allocation = size.max(page_size);
        let boundary = if self.boundary == 0 { allocation } else { self.boundary };
        if boundary < size {
            return Err(CreateError::BoundaryBelowSize { boundary, size });
        }
        // Without a boundary the allocation is one, whatever its size.
        if self.boundary != 0 && !boundary.is_power_of_two() {
            return Err(CreateError::Boundary { boundary });
        }
        Ok(Layout { size, align, allocation, boundary: boundary.min(allocation) })
    }
}

impl Layout {
    /// Offsets of the blocks of a fresh page, ascending. A block that would cross a boundary begins behind it.
    pub fn offsets(self) -> impl Iterator<Item = u64> {
        let mut offset = 0_u64;
        let mut next_boundary = self.boundary;
        std::iter::from_fn(move || {
            // A block of 2^63 bytes is a layout too.
            if offset.saturating_add(self.size) > next_boundary {
                offset = next_boundary;
                next_boundary = next_boundary.saturating_add(self.boundary);
            }
            let block = offset;
            offset = offset.saturating_add(self.size);
            (offset <= self.allocation).then_some(block)
        })
    }
}

/// Part of a free block that a pool keeps its own data in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataField {
    /// First byte in the block.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// What it is, such as `next pointer`.
    pub name: &'static str,
}

/// Where a pool keeps its own data.
///
/// Blame rests on it: see [`Policy::metadata`](crate::Policy::metadata) for what a wrong one leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// Outside the memory that devices reach.
    OutOfBand,
    /// In free blocks, where a device can read and damage it.
    InBlock(&'static [MetadataField]),
}

/// What a pool has to say beside its answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// It printed a message, as a kernel's pool does.
    Printed {
        /// The kernel's level: 3 is an error, 4 a warning.
        level: u8,
        /// One line.
        text: String,
    },
    /// It was seen to break a promise.
    Broke {
        /// Which.
        promise: Promise,
        /// What was seen.
        seen: String,
    },
}

/// A DMA pool.
///
/// # What it promises
/// Live blocks do not overlap, are aligned, cross no boundary, and lie in pages that the source gave it; a zeroed block
/// is zero; without [`Flags::may_sleep`] nothing sleeps; a failure leaves the pool as it was. It promises **no order**
/// and no adjacency.
pub trait Pool: Send + Sync {
    /// Hands out a block (`dma_pool_alloc`).
    ///
    /// # Errors
    /// [`AllocError`]: no page, or a free list that leads nowhere.
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError>;

    /// Takes a block back (`dma_pool_free`).
    ///
    /// # Errors
    /// [`FreeError`], as far as the policy notices: some notice nothing.
    fn free(&self, block: Block) -> Result<(), FreeError>;

    /// Gives all pages back (`dma_pool_destroy`). The pool is not used afterwards.
    ///
    /// # Errors
    /// [`DestroyError`] if blocks are in use; what becomes of their pages is the policy's choice.
    fn destroy(&self) -> Result<(), DestroyError>;

    /// Pages that the pool holds.
    fn pages(&self) -> usize;

    /// What it has to say since it was asked last. A pool of Rust says all in its answers.
    fn remarks(&self) -> Vec<Remark> {
        Vec::new()
    }
}
