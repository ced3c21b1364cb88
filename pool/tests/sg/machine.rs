//! A machine with the four sources over one zone of pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bus::{CpuAddr, DmaAddr};
use pool::sg::{
    Buddy, ChunkError, ChunkSource, FullAndShort, PAGE, PageRun, Segment, SizeClasses, SlabCache, Table, VirtualMapping,
};
use pool::{Flags, Memory, Span};

pub(crate) const CPU: CpuAddr = CpuAddr(0xffff_8000_0000_0000);
pub(crate) const DMA: DmaAddr = DmaAddr(0x8000_0000);

pub(crate) struct Machine {
    pub(crate) memory: Arc<Memory>,
    pub(crate) pages: Arc<Buddy>,
}

impl Machine {
    /// So many pages.
    pub(crate) fn new(pages: u64) -> Self {
        let span = Span { cpu: CPU, dma: DMA, len: pages * PAGE };
        let memory = Memory::new(&[span]).expect("memory");
        let pages = Buddy::new(Arc::clone(&memory), span).expect("whole pages");
        Self { memory, pages }
    }

    /// A new source of each kind, when its turn comes.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&'static str, Arc<dyn ChunkSource>)> {
        let names = ["pages", "size classes", "slab cache", "virtual mapping", "pages and size classes"];
        names.into_iter().map(|name| (name, self.source(name)))
    }

    fn source(&self, name: &str) -> Arc<dyn ChunkSource> {
        match name {
            "pages" => Arc::clone(&self.pages) as _,
            "size classes" => Arc::new(self.size_classes()),
            "slab cache" => Arc::new(self.slab_cache(PAGE)),
            "virtual mapping" => Arc::new(VirtualMapping::new(Arc::clone(&self.pages)).expect("a page")),
            _ => self.kernels(),
        }
    }

    pub(crate) fn size_classes(&self) -> SizeClasses {
        SizeClasses::new(Arc::clone(&self.pages)).expect("classes")
    }

    pub(crate) fn slab_cache(&self, size: u64) -> SlabCache {
        SlabCache::new(Arc::clone(&self.pages), size).expect("a size")
    }

    /// As the kernel has it.
    pub(crate) fn kernels(&self) -> Arc<dyn ChunkSource> {
        Arc::new(FullAndShort::new(Arc::clone(&self.pages) as _, Arc::new(self.size_classes())))
    }

    pub(crate) fn table(&self, source: &Arc<dyn ChunkSource>) -> Table {
        Table::new(Arc::clone(&self.memory), Arc::clone(source))
    }
}

/// Fails when it was asked so often.
pub(crate) struct Failing {
    pub(crate) source: Arc<dyn ChunkSource>,
    pub(crate) left: AtomicU64,
}

impl ChunkSource for Failing {
    fn alloc(&self, len: u64, flags: Flags) -> Result<CpuAddr, ChunkError> {
        if self.left.load(Ordering::Relaxed) == 0 {
            return Err(ChunkError::Injected);
        }
        self.left.fetch_sub(1, Ordering::Relaxed);
        self.source.alloc(len, flags)
    }

    fn free(&self, at: CpuAddr, len: u64) -> Result<(), ChunkError> {
        self.source.free(at, len)
    }

    fn linear(&self, at: CpuAddr) -> Option<CpuAddr> {
        self.source.linear(at)
    }
}

/// The machine's page of that number.
pub(crate) const fn page(number: u64) -> CpuAddr {
    CPU.offset(number * PAGE)
}

/// Data in a page of its own, from its beginning.
pub(crate) const fn segment(number: u64, length: u32) -> Segment {
    Segment { page: page(number), offset: 0, length }
}

/// Whole pages that are all there are.
pub(crate) const fn whole(pages: &[CpuAddr]) -> PageRun<'_> {
    let size = pages.len() as u64 * PAGE;
    PageRun { pages, offset: 0, size, max_segment: u32::MAX, left_pages: 0 }
}

/// Page number, offset and length of every entry.
pub(crate) fn shown(table: &Table) -> Vec<(u64, u32, u32)> {
    let shown = |(_, entry): (CpuAddr, pool::sg::Entry)| {
        ((entry.page().0 - CPU.0) / PAGE, entry.offset.get(), entry.length.get())
    };
    table.entries().take(table.orig_nents() as usize).map(|entry| shown(entry.expect("it is there"))).collect()
}
