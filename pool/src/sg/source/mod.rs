//! Where chunks come from.

mod buddy;
mod frames;
mod page_table;
mod ranges;
mod size_classes;
mod slab_cache;
mod virtual_mapping;

use std::sync::Arc;

use bus::CpuAddr;

use crate::pool::Flags;

use super::error::ChunkError;

pub use buddy::Buddy;
pub use size_classes::SizeClasses;
pub use slab_cache::SlabCache;
pub use virtual_mapping::VirtualMapping;

/// A page in bytes.
pub const PAGE: u64 = 4096;

/// Gives memory in pieces of any size, and takes them back with the size that was asked for.
pub trait ChunkSource: Send + Sync {
    /// At least `len` bytes, aligned to 8 at least, and to `len` if that is a power of two of up to a page. Zeroed only with
    /// [`Flags::zero`].
    ///
    /// # Errors
    /// [`ChunkError`]
    fn alloc(&self, len: u64, flags: Flags) -> Result<CpuAddr, ChunkError>;

    /// Takes back what was asked for with `len`.
    ///
    /// # Errors
    /// [`ChunkError::NotHandedOut`], as far as the source notices; nothing is taken then.
    fn free(&self, at: CpuAddr, len: u64) -> Result<(), ChunkError>;

    /// Where an address that the source handed out lies in the linear mapping of memory: there, unless the source has
    /// addresses of its own. `None`: no page is mapped there.
    fn linear(&self, at: CpuAddr) -> Option<CpuAddr> {
        Some(at)
    }
}

/// Chunks of a page from one source and shorter ones from another, as `sg_kmalloc` has them: pages, and kmalloc.
pub struct FullAndShort {
    full: Arc<dyn ChunkSource>,
    short: Arc<dyn ChunkSource>,
}

impl FullAndShort {
    /// Chunks of a page from `full`, the others from `short`. Addresses of both must be in the linear mapping.
    #[must_use]
    pub fn new(full: Arc<dyn ChunkSource>, short: Arc<dyn ChunkSource>) -> Self {
        Self { full, short }
    }

    fn of(&self, len: u64) -> &dyn ChunkSource {
        if len == PAGE { &*self.full } else { &*self.short }
    }
}

impl ChunkSource for FullAndShort {
    fn alloc(&self, len: u64, flags: Flags) -> Result<CpuAddr, ChunkError> {
        self.of(len).alloc(len, flags)
    }

    fn free(&self, at: CpuAddr, len: u64) -> Result<(), ChunkError> {
        self.of(len).free(at, len)
    }
}

#[cfg(test)]
mod tests {
    use bus::{CpuAddr, DmaAddr};

    use super::{Arc, Buddy, PAGE};
    use crate::memory::{Memory, Span};

    /// So many pages.
    pub(super) fn memory(pages: u64) -> (Arc<Memory>, Arc<Buddy>) {
        let span = Span { cpu: CpuAddr(0xffff_8000_0000_0000), dma: DmaAddr(0x8000_0000), len: pages * PAGE };
        let memory = Memory::new(&[span]).expect("memory");
        let buddy = Buddy::new(Arc::clone(&memory), span).expect("whole pages");
        (memory, buddy)
    }
}
