//! Pages (Linux: `__get_free_pages`, mm/page_alloc.c).

use std::fmt;
use std::sync::Arc;

use bus::{CpuAddr, DmaAddr};

use crate::memory::{Memory, Span};
use crate::page::{PageError, PageSource, Pages};
use crate::pool::Flags;

use super::super::error::ChunkError;
use super::frames::{Frame, Frames, NONE, ORDERS};
use super::{ChunkSource, PAGE};

/// A buddy allocator: runs of 1 to 1024 pages, a free list for each power of two, all under one lock, as in a zone of
/// Linux. A run is split as it is needed, and merged with its other half as soon as that is free too.
///
/// Lists are kept outside of the memory.
pub struct Buddy {
    memory: Arc<Memory>,
    span: Span,
    frames: Frames,
}

impl Buddy {
    /// The pages of `span`, which is part of `memory`.
    ///
    /// # Errors
    /// [`ChunkError::NoMemory`] unless it is one run of 1 to 2^32 - 1 whole pages for both sides.
    pub fn new(memory: Arc<Memory>, span: Span) -> Result<Arc<Self>, ChunkError> {
        let Span { cpu, dma, len } = span;
        let is_memory = len != 0 && (cpu.0 | dma.0 | len).is_multiple_of(PAGE) && memory.run(cpu, len) == Some(dma);
        let count = u32::try_from(len / PAGE).ok().filter(|&count| is_memory && count != NONE);
        let count = count.ok_or(ChunkError::NoMemory { at: cpu, len })?;
        Ok(Arc::new(Self { memory, span, frames: Frames::new(dma.0 / PAGE, count) }))
    }

    /// A run of 2^order pages, aligned to its size for devices (`__get_free_pages`).
    ///
    /// # Errors
    /// [`ChunkError::Size`] beyond the largest order, 10; [`ChunkError::NoPages`].
    pub fn alloc_pages(&self, order: usize, flags: Flags) -> Result<CpuAddr, ChunkError> {
        let len = PAGE << order.min(ORDERS);
        if order >= ORDERS {
            return Err(ChunkError::Size { len, most: Self::LARGEST });
        }
        let page = self.frames.zone.lock().take(order).ok_or(ChunkError::NoPages { len })?;
        let at = self.address(page);
        if flags.zero {
            self.memory.fill(at, len, 0)?;
        }
        Ok(at)
    }

    /// Takes such a run back (`free_pages`).
    ///
    /// # Errors
    /// [`ChunkError::NotHandedOut`]
    pub fn free_pages(&self, at: CpuAddr, order: usize) -> Result<(), ChunkError> {
        let wrong = ChunkError::NotHandedOut { at, len: PAGE << order.min(ORDERS) };
        let page = self.page(at).filter(|_| at.0.is_multiple_of(PAGE)).ok_or(wrong)?;
        if self.frames.zone.lock().give(page, order) { Ok(()) } else { Err(wrong) }
    }

    /// Longest run in bytes.
    pub(super) const LARGEST: u64 = PAGE << (ORDERS - 1);

    /// The smallest order whose runs have `len` bytes (`get_order`).
    pub(super) fn order(len: u64) -> Result<usize, ChunkError> {
        if len == 0 || len > Self::LARGEST {
            return Err(ChunkError::Size { len, most: Self::LARGEST });
        }
        Ok(len.div_ceil(PAGE).next_power_of_two().trailing_zeros() as usize)
    }

    /// Pages that are free.
    #[must_use]
    pub fn free_count(&self) -> u64 {
        self.frames.zone.lock().free()
    }

    /// Free runs of each order.
    #[must_use]
    pub fn free_runs(&self) -> [usize; ORDERS] {
        self.frames.zone.lock().runs()
    }

    /// Number of the page with that byte.
    pub(super) fn page(&self, at: CpuAddr) -> Option<u32> {
        let offset = at.0.wrapping_sub(self.span.cpu.0);
        // There are fewer than 2^32.
        (offset < self.span.len).then_some((offset / PAGE) as u32)
    }

    pub(super) const fn address(&self, page: u32) -> CpuAddr {
        self.span.cpu.offset(page as u64 * PAGE)
    }

    /// The first page of the aligned run of that order which a page lies in.
    pub(super) const fn head(&self, page: u32, order: usize) -> Option<u32> {
        let first = self.span.dma.0 / PAGE;
        let head = (first + page as u64) >> order << order;
        match head.checked_sub(first) {
            Some(head) => Some(head as u32),
            None => None,
        }
    }

    pub(super) const fn frames(&self) -> &Frames {
        &self.frames
    }

    pub(super) fn frame(&self, page: u32) -> Option<&Frame> {
        self.frames.slabs.get(page as usize)
    }

    pub(super) const fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}

impl ChunkSource for Buddy {
    fn alloc(&self, len: u64, flags: Flags) -> Result<CpuAddr, ChunkError> {
        self.alloc_pages(Self::order(len)?, flags)
    }

    fn free(&self, at: CpuAddr, len: u64) -> Result<(), ChunkError> {
        self.free_pages(at, Self::order(len)?)
    }
}

/// Pools can have their pages from here too. The page size is 4 KiB, and there is no DMA mask.
impl PageSource for Buddy {
    fn page_size(&self) -> u64 {
        PAGE
    }

    fn alloc(&self, len: u64, flags: Flags) -> Result<Pages, PageError> {
        let exhausted = PageError::Exhausted { len, mask: u64::MAX };
        let order = Self::order(len.max(1)).map_err(|_| exhausted)?;
        let cpu = self.alloc_pages(order, Flags { zero: true, ..flags }).map_err(|_| exhausted)?;
        let dma = DmaAddr(self.span.dma.0 + (cpu.0 - self.span.cpu.0));
        Ok(Pages { cpu, dma, len: PAGE << order })
    }

    fn free(&self, pages: Pages) {
        // A source takes no run back that it has not given, and says nothing about it.
        if let Ok(order) = Self::order(pages.len) {
            let _ = self.free_pages(pages.cpu, order);
        }
    }
}

impl fmt::Debug for Buddy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buddy").field("span", &self.span).field("free", &self.free_count()).finish_non_exhaustive()
    }
}
