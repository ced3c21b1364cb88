//! The sources that are measured, over one zone of pages.

use std::sync::Arc;

use bus::CpuAddr;
use pool::sg::{Buddy, ChunkSource, FullAndShort, PAGE, SizeClasses, SlabCache, Table, VirtualMapping};
use pool::{Flags, Memory, Span};

use super::subject::{ChunkClient, SgSubject, TableClient};
use super::{Procedure, SgError};
use crate::memory::{BASE, memory};

/// 16 MiB: several times what is in use at once, so that no source meets its end.
const ZONE: u64 = 4096 * PAGE;

/// A zone of pages that every subject has to itself while it is measured, and gives back whole: all are measured on the
/// same pages.
pub struct Zone {
    pub(super) memory: Arc<Memory>,
    pub(super) pages: Arc<Buddy>,
}

impl Zone {
    /// 16 MiB.
    ///
    /// # Errors
    /// [`SgError`] if the operating system has none.
    pub fn new() -> Result<Self, SgError> {
        let span = Span { cpu: BASE.0, dma: BASE.1, len: ZONE };
        let memory = memory(&[span])?;
        let pages = Buddy::new(Arc::clone(&memory), span)?;
        Ok(Self { memory, pages })
    }

    /// As Linux has it: full chunks are pages, shorter ones kmalloc's.
    pub(super) fn page_and_kmalloc(&self) -> Result<FullAndShort, SgError> {
        Ok(FullAndShort::new(Arc::clone(&self.pages) as _, self.kmalloc()?))
    }

    fn kmalloc(&self) -> Result<Arc<SizeClasses>, SgError> {
        Ok(Arc::new(SizeClasses::new(Arc::clone(&self.pages))?))
    }
}

/// One of the four sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Pages, under the zone's lock.
    Page,
    /// Size classes.
    Kmalloc,
    /// A slab cache of objects of a page.
    Slab,
    /// A virtual mapping.
    Vmalloc,
}

impl Source {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Page, Self::Kmalloc, Self::Slab, Self::Vmalloc];

    fn chunks(self, zone: &Zone) -> Result<Arc<dyn ChunkSource>, SgError> {
        let pages = || Arc::clone(&zone.pages);
        Ok(match self {
            Self::Page => pages(),
            Self::Kmalloc => zone.kmalloc()?,
            Self::Slab => Arc::new(SlabCache::new(pages(), PAGE)?),
            Self::Vmalloc => Arc::new(VirtualMapping::new(pages())?),
        })
    }

    /// For tables; short chunks are kmalloc's in any case.
    fn chunks_of_tables(self, zone: &Zone) -> Result<Arc<dyn ChunkSource>, SgError> {
        Ok(match self {
            Self::Page => Arc::new(zone.page_and_kmalloc()?),
            Self::Slab => Arc::new(FullAndShort::new(self.chunks(zone)?, zone.kmalloc()?)),
            Self::Kmalloc | Self::Vmalloc => self.chunks(zone)?,
        })
    }
}

impl SgSubject for Source {
    fn name(&self) -> &str {
        match self {
            Self::Page => "page",
            Self::Kmalloc => "kmalloc",
            Self::Slab => "slab",
            Self::Vmalloc => "vmalloc",
        }
    }

    /// Entries of a table are reached by the processor's TLB; here each access would walk the page table.
    fn is_measured_by(&self, procedure: Procedure) -> bool {
        procedure == Procedure::Pages || *self != Self::Vmalloc
    }

    fn run(
        &self,
        zone: &Zone,
        procedure: Procedure,
        entries: u32,
        rounds: u64,
    ) -> Result<std::time::Duration, SgError> {
        match procedure {
            Procedure::Pages if *self == Self::Vmalloc => {
                super::procedure::in_one_call(&Chunks(self.chunks(zone)?), rounds)
            }
            Procedure::Pages => super::procedure::page_by_page(&Chunks(self.chunks(zone)?), rounds),
            Procedure::Tables => {
                let tables = Tables { memory: Arc::clone(&zone.memory), source: self.chunks_of_tables(zone)? };
                super::procedure::tables(&tables, entries, rounds)
            }
        }
    }
}

/// A source called as a table calls it.
struct Chunks(Arc<dyn ChunkSource>);

impl ChunkClient for Chunks {
    #[inline]
    fn alloc(&self, len: u64) -> Result<CpuAddr, SgError> {
        Ok(self.0.alloc(len, Flags::KERNEL)?)
    }

    #[inline]
    fn free(&self, at: CpuAddr, len: u64) -> Result<(), SgError> {
        Ok(self.0.free(at, len)?)
    }
}

/// Our own tables.
struct Tables {
    memory: Arc<Memory>,
    source: Arc<dyn ChunkSource>,
}

impl TableClient for Tables {
    type Held = Table;

    #[inline]
    fn alloc(&self, entries: u32) -> Result<Table, SgError> {
        let mut table = Table::new(Arc::clone(&self.memory), Arc::clone(&self.source));
        table.alloc(entries, Flags::KERNEL)?;
        Ok(table)
    }

    #[inline]
    fn free(&self, mut table: Table) -> Result<(), SgError> {
        Ok(table.free()?)
    }
}
