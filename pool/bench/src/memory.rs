//! The memory that pools are measured in, the same for every subject.

use std::sync::Arc;

use bus::{CpuAddr, DmaAddr};
use pool::{Memory, MemoryError, PageAllocator, PageOrder, PageSource, Span};
use vm_memory::{GuestAddress, GuestMemoryBackend, VolatileSlice};

use crate::error::BenchError;
use crate::sets::{PAGE, Set};

/// Where it lies, for the processor and for devices.
pub(crate) const BASE: (CpuAddr, DmaAddr) = (CpuAddr(0xffff_8000_0000_0000), DmaAddr(0x8000_0000));

/// A machine's memory and its pages, which every pool gives back before the next one takes them: all are measured on the
/// same pages, as warm for one as for the other.
#[derive(Clone)]
pub struct BenchMemory {
    memory: Arc<Memory>,
    source: Arc<dyn PageSource>,
    len: usize,
}

impl BenchMemory {
    /// Memory with room for any of `sets`.
    ///
    /// # Errors
    /// [`BenchError::Memory`] if the operating system has none.
    pub fn new(sets: &[Set]) -> Result<Self, BenchError> {
        let len = sets.iter().map(Set::memory).max().unwrap_or(PAGE);
        let memory = memory(&[Span { cpu: BASE.0, dma: BASE.1, len }])?;
        let source = PageAllocator::new(Arc::clone(&memory), PAGE, u64::MAX, PageOrder::Forward);
        Ok(Self { memory, source, len: len as usize })
    }

    /// The bytes.
    pub(crate) const fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The pages.
    pub(crate) fn source(&self) -> Arc<dyn PageSource> {
        Arc::clone(&self.source)
    }

    /// All bytes as one slice, and the devices' address of the first.
    ///
    /// # Errors
    /// [`BenchError::Memory`]
    pub(crate) fn whole(&self) -> Result<(VolatileSlice<'_>, DmaAddr), BenchError> {
        let slice = self.memory.guest().get_slice(GuestAddress(BASE.1.0), self.len);
        Ok((slice.map_err(|error| MemoryError::Os(error.to_string()))?, BASE.1))
    }
}

/// In a file, as kernel files can be given it under valgrind too.
#[cfg(target_os = "linux")]
pub(crate) fn memory(spans: &[Span]) -> Result<Arc<Memory>, MemoryError> {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    let file = memfd_create(c"poolproof-bench", MFdFlags::MFD_CLOEXEC);
    let file = file.map_err(|error| MemoryError::Os(error.to_string()))?;
    Memory::in_file(spans, file.into())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn memory(spans: &[Span]) -> Result<Arc<Memory>, MemoryError> {
    Memory::new(spans)
}
