//! Pages by themselves, one behind the other for the processor (Linux: `vmalloc`, mm/vmalloc.c).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bus::CpuAddr;
use parking_lot::Mutex;

use crate::pool::Flags;

use super::super::error::ChunkError;
use super::page_table::PageTable;
use super::ranges::Ranges;
use super::{Buddy, ChunkSource, PAGE};

/// Where the mapping begins (`VMALLOC_START` of x86-64).
const START: u64 = 0xffff_c900_0000_0000;
/// 64 GiB of addresses.
const LEN: u64 = 1 << 36;

/// Any number of single pages of a [`Buddy`] under addresses that follow each other, with a page between two areas that is
/// not mapped.
///
/// What that costs is done and not estimated: a free range of addresses is looked for, and a page table in memory written.
/// TLB flushes are not here, which Linux does for many areas at once.
pub struct VirtualMapping {
    pages: Arc<Buddy>,
    ranges: Mutex<Ranges>,
    /// Areas that are handed out: start to pages.
    areas: Mutex<BTreeMap<u64, Vec<CpuAddr>>>,
    table: PageTable,
}

impl VirtualMapping {
    /// A mapping of nothing, with a page for its page table.
    ///
    /// # Errors
    /// [`ChunkError::NoPages`]
    pub fn new(pages: Arc<Buddy>) -> Result<Self, ChunkError> {
        let table = PageTable::new(Arc::clone(&pages))?;
        Ok(Self { pages, ranges: Mutex::new(Ranges::new(START, LEN)), areas: Mutex::default(), table })
    }

    /// So many pages; none if they are not all there.
    fn single_pages(&self, count: usize, flags: Flags) -> Result<Vec<CpuAddr>, ChunkError> {
        let mut pages = Vec::with_capacity(count);
        for _ in 0..count {
            match self.pages.alloc_pages(0, flags) {
                Ok(page) => pages.push(page),
                Err(error) => {
                    self.give_pages(&pages)?;
                    return Err(error);
                }
            }
        }
        Ok(pages)
    }

    fn give_pages(&self, pages: &[CpuAddr]) -> Result<(), ChunkError> {
        pages.iter().try_for_each(|&page| self.pages.free_pages(page, 0))
    }
}

/// Pages of an area.
const fn pages_of(len: u64) -> u64 {
    len.div_ceil(PAGE)
}

/// Addresses of an area, with the page behind it.
const fn range_of(pages: u64) -> u64 {
    (pages + 1) * PAGE
}

impl ChunkSource for VirtualMapping {
    fn alloc(&self, len: u64, flags: Flags) -> Result<CpuAddr, ChunkError> {
        if len == 0 || len > LEN - PAGE {
            return Err(ChunkError::Size { len, most: LEN - PAGE });
        }
        let count = pages_of(len);
        let start = self.ranges.lock().take(range_of(count)).ok_or(ChunkError::NoRange { len })?;
        let at = CpuAddr(start);
        let mapped = self.single_pages(count as usize, flags).and_then(|pages| match self.table.map(at, &pages) {
            Ok(()) => Ok(pages),
            Err(error) => self.table.unmap(at, pages.len()).and(self.give_pages(&pages)).and(Err(error)),
        });
        match mapped {
            Ok(pages) => {
                self.areas.lock().insert(start, pages);
                Ok(at)
            }
            Err(error) => {
                self.ranges.lock().give(start, range_of(count));
                Err(error)
            }
        }
    }

    fn free(&self, at: CpuAddr, len: u64) -> Result<(), ChunkError> {
        let count = pages_of(len);
        let mut areas = self.areas.lock();
        if areas.get(&at.0).is_none_or(|pages| len == 0 || pages.len() as u64 != count) {
            return Err(ChunkError::NotHandedOut { at, len });
        }
        let pages = areas.remove(&at.0).unwrap_or_default();
        drop(areas);
        self.table.unmap(at, pages.len())?;
        self.give_pages(&pages)?;
        self.ranges.lock().give(at.0, range_of(count));
        Ok(())
    }

    fn linear(&self, at: CpuAddr) -> Option<CpuAddr> {
        self.table.walk(at)
    }
}

impl fmt::Debug for VirtualMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualMapping").field("areas", &self.areas.lock().len()).finish_non_exhaustive()
    }
}
