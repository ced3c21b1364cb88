//! A processor's page table, in pages of memory: four levels of 512 entries, as x86-64 and arm64 with 4 KiB pages have it.

use std::sync::Arc;

use bus::{CpuAddr, DmaAddr};
use parking_lot::Mutex;

use crate::pool::Flags;

use super::super::error::ChunkError;
use super::PAGE;
use super::buddy::Buddy;

/// Bits of an address that one level looks at.
const BITS: u32 = 9;
const LEVELS: u32 = 4;
/// An entry leads to a page.
const PRESENT: u64 = 1;

/// A page table whose pages come from a [`Buddy`]; they stay until it is dropped.
pub(super) struct PageTable {
    pages: Arc<Buddy>,
    root: CpuAddr,
    /// Pages of the lower levels. Who adds one holds the lock, so that no two threads add the same.
    lower: Mutex<Vec<CpuAddr>>,
}

impl PageTable {
    pub(super) fn new(pages: Arc<Buddy>) -> Result<Self, ChunkError> {
        let root = pages.alloc_pages(0, ZEROED)?;
        Ok(Self { pages, root, lower: Mutex::default() })
    }

    /// Maps pages one behind the other, from `at` on.
    pub(super) fn map(&self, at: CpuAddr, pages: &[CpuAddr]) -> Result<(), ChunkError> {
        let memory = self.pages.memory();
        let addresses = (0..).map(|index| at.offset(index * PAGE)).zip(pages);
        self.each_entry(addresses, |entry, &page| {
            let physical = memory.dma(page).map_or(0, |physical| physical.0 | PRESENT);
            Ok(memory.write_u64(entry, physical)?)
        })
    }

    /// Takes the mapping of so many pages away.
    pub(super) fn unmap(&self, at: CpuAddr, pages: usize) -> Result<(), ChunkError> {
        let addresses = (0..pages as u64).map(|index| (at.offset(index * PAGE), ()));
        self.each_entry(addresses, |entry, ()| Ok(self.pages.memory().write_u64(entry, 0)?))
    }

    /// Has `each` work on the entries of neighbouring addresses. The walk from the root is done once for a table.
    fn each_entry<T>(
        &self,
        addresses: impl Iterator<Item = (CpuAddr, T)>,
        mut each: impl FnMut(CpuAddr, T) -> Result<(), ChunkError>,
    ) -> Result<(), ChunkError> {
        let mut last: Option<(u64, CpuAddr)> = None;
        for (at, item) in addresses {
            let reach = at.0 >> shift(0) >> BITS;
            let table = match last {
                Some((reached, table)) if reached == reach => table,
                _ => self.last_table(at)?,
            };
            last = Some((reach, table));
            each(entry(table, at, 0), item)?;
        }
        Ok(())
    }

    /// The table with the entry of `at`, made if it is not there.
    fn last_table(&self, at: CpuAddr) -> Result<CpuAddr, ChunkError> {
        let memory = self.pages.memory();
        let mut table = self.root;
        for level in (1..LEVELS).rev() {
            let entry = entry(table, at, level);
            table = match self.page(memory.read_u64(entry)?) {
                Some(lower) => lower,
                None => self.add_table(entry)?,
            };
        }
        Ok(table)
    }

    fn add_table(&self, entry: CpuAddr) -> Result<CpuAddr, ChunkError> {
        let memory = self.pages.memory();
        let mut lower = self.lower.lock();
        if let Some(table) = self.page(memory.read_u64(entry)?) {
            // Another thread was faster.
            return Ok(table);
        }
        let table = self.pages.alloc_pages(0, ZEROED)?;
        lower.push(table);
        memory.write_u64(entry, memory.dma(table).map_or(0, |physical| physical.0 | PRESENT))?;
        Ok(table)
    }

    /// Where a byte is in the linear mapping: what the processor does at each access that its TLB does not know.
    pub(super) fn walk(&self, at: CpuAddr) -> Option<CpuAddr> {
        let mut page = self.root;
        for level in (0..LEVELS).rev() {
            page = self.page(self.pages.memory().read_u64(entry(page, at, level)).ok()?)?;
        }
        Some(page.offset(at.0 % PAGE))
    }

    fn page(&self, entry: u64) -> Option<CpuAddr> {
        if entry & PRESENT == 0 { None } else { self.pages.memory().cpu(DmaAddr(entry & !PRESENT)) }
    }
}

const ZEROED: Flags = Flags { zero: true, may_sleep: true };

const fn shift(level: u32) -> u32 {
    PAGE.trailing_zeros() + BITS * level
}

/// The address of the entry for `at` in a table of that level.
const fn entry(table: CpuAddr, at: CpuAddr, level: u32) -> CpuAddr {
    table.offset((at.0 >> shift(level) & ((1 << BITS) - 1)) * 8)
}

impl Drop for PageTable {
    fn drop(&mut self) {
        let lower = std::mem::take(&mut *self.lower.lock());
        for page in lower.into_iter().chain([self.root]) {
            // Pages that were taken can be given back.
            let _ = self.pages.free_pages(page, 0);
        }
    }
}
