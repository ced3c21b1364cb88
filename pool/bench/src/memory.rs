//! The memory that pools are measured in, the same for every subject.

use std::sync::Arc;

use bus::{CpuAddr, DmaAddr};
use pool::{Block, Memory, MemoryError, PageAllocator, PageOrder, PageSource, Span};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, VolatileSlice};

use crate::error::BenchError;
use crate::sets::{PAGE, Set};

/// A machine's memory and its pages, which every pool gives back before the next one takes them: all are measured on the
/// same pages, as warm for one as for the other.
#[derive(Clone)]
pub struct BenchMemory {
    memory: Arc<Memory>,
    source: Arc<dyn PageSource>,
    span: Span,
}

impl BenchMemory {
    /// Memory with room for any of `sets`.
    ///
    /// # Errors
    /// [`BenchError::Memory`] if the operating system has none.
    pub fn new(sets: &[Set]) -> Result<Self, BenchError> {
        let len = sets.iter().map(Set::memory).max().unwrap_or(PAGE);
        let span = Span { cpu: CpuAddr(0xffff_8000_0000_0000), dma: DmaAddr(0x8000_0000), len };
        let memory = Memory::new(&[span])?;
        let source = PageAllocator::new(Arc::clone(&memory), PAGE, u64::MAX, PageOrder::Forward);
        Ok(Self { memory, source, span })
    }

    /// What pools are created from.
    pub(crate) fn parts(&self) -> (Arc<Memory>, Arc<dyn PageSource>) {
        (Arc::clone(&self.memory), Arc::clone(&self.source))
    }

    /// What a client of a pool with this set writes into its blocks.
    pub(crate) fn contents(&self, set: &Set) -> Result<Contents<'_>, BenchError> {
        let base = self.span.dma;
        let slice = self.memory.guest().get_slice(GuestAddress(base.0), self.span.len as usize);
        let slice = slice.map_err(|error| MemoryError::Os(error.to_string()))?;
        Ok(Contents { slice, base, bytes: vec![0x5a; set.geometry().size as usize] })
    }
}

/// A client's writes to whole blocks, as cheap as memset and the same for each kind of pool.
pub(crate) struct Contents<'a> {
    slice: VolatileSlice<'a>,
    base: DmaAddr,
    bytes: Vec<u8>,
}

impl Contents<'_> {
    /// Writes a whole block.
    #[inline]
    pub(crate) fn write(&self, block: Block) -> Result<(), BenchError> {
        let offset = block.dma.0.wrapping_sub(self.base.0) as usize;
        self.slice.write_slice(&self.bytes, offset).map_err(|_| BenchError::Outside(block))
    }
}
