//! `external-bitmap`: a bit a block, outside DMA memory (RFC of November 2024).
//!
//! The other form of "dmapool: Move pool metadata into non-DMA memory": an allocation walks the pages, the newest first,
//! and in each the bits, to the first clear one; a free walks the pages to the block's. Reuse is therefore not LIFO: the
//! lowest free block of the newest page that has one comes next. Clearing a clear bit changes nothing, so a double free
//! is harmless until the block has a new holder, and is not noticed.

use std::sync::Arc;

use parking_lot::Mutex;

use super::busy;
use super::slots::Slots;
use crate::error::{AllocError, CreateError, DestroyError, FreeError};
use crate::memory::Memory;
use crate::page::{PageSource, Pages};
use crate::policy::Policy;
use crate::pool::{Block, Flags, Geometry, Layout, Metadata, Pool};

const SMALLEST: u64 = 1;

pub(super) fn policy() -> Policy {
    Policy::new(
        "external-bitmap",
        "a bit a block, outside DMA memory (RFC, November 2024)",
        Metadata::OutOfBand,
        SMALLEST,
        |memory, source, geometry| Ok(Box::new(ExternalBitmap::new(memory, source, geometry)?)),
    )
}

struct ExternalBitmap {
    memory: Arc<Memory>,
    source: Arc<dyn PageSource>,
    layout: Layout,
    slots: Slots,
    /// The newest is the last.
    pages: Mutex<Vec<Page>>,
}

struct Page {
    pages: Pages,
    /// A set bit is a block in use, or no block.
    bits: Vec<u64>,
}

impl ExternalBitmap {
    fn new(memory: Arc<Memory>, source: Arc<dyn PageSource>, geometry: Geometry) -> Result<Self, CreateError> {
        let layout = geometry.layout(SMALLEST, source.page_size())?;
        Ok(Self { memory, source, layout, slots: Slots::new(layout), pages: Mutex::default() })
    }

    fn fresh(&self, pages: Pages) -> Page {
        let count = self.slots.count();
        let mut bits = vec![0; count.div_ceil(64)];
        if let Some(last) = bits.last_mut().filter(|_| !count.is_multiple_of(64)) {
            *last = u64::MAX << (count % 64);
        }
        Page { pages, bits }
    }

    fn take(&self, page: &mut Page) -> Option<Block> {
        let number = page.bits.iter().position(|&word| word != u64::MAX)?;
        let bit = page.bits[number].trailing_ones();
        page.bits[number] |= 1 << bit;
        let offset = self.slots.offset(number as u64 * 64 + u64::from(bit));
        Some(Block { cpu: page.pages.cpu.offset(offset), dma: page.pages.dma.offset(offset) })
    }

    fn in_use(&self, pages: &[Page]) -> i64 {
        let padding = self.slots.count().next_multiple_of(64) - self.slots.count();
        let set = |page: &Page| page.bits.iter().map(|word| i64::from(word.count_ones())).sum::<i64>();
        pages.iter().map(|page| set(page) - padding as i64).sum()
    }
}

impl Pool for ExternalBitmap {
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        let mut pages = self.pages.lock();
        let block = match pages.iter_mut().rev().find_map(|page| self.take(page)) {
            Some(block) => block,
            None => {
                drop(pages);
                let page = self.source.alloc(self.layout.allocation, Flags { zero: false, ..flags })?;
                let mut page = self.fresh(page);
                let block = self.take(&mut page);
                self.pages.lock().push(page);
                block.ok_or_else(|| AllocError::Other("a fresh page gave no block".into()))?
            }
        };
        if flags.zero {
            let fault = |fault| AllocError::DamagedList { link: block.cpu, fault };
            self.memory.fill(block.cpu, self.layout.size, 0).map_err(fault)?;
        }
        Ok(block)
    }

    fn free(&self, block: Block) -> Result<(), FreeError> {
        let mut pages = self.pages.lock();
        let foreign = FreeError::Foreign(block);
        let offset = |page: &Page| block.cpu.0.wrapping_sub(page.pages.cpu.0);
        let page = pages.iter_mut().rev().find(|page| offset(page) < page.pages.len).ok_or(foreign.clone())?;
        let (slot, _) = self.slots.containing(offset(page)).ok_or(foreign)?;
        page.bits[slot / 64] &= !(1 << (slot % 64));
        Ok(())
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        let mut pages = self.pages.lock();
        let in_use = self.in_use(&pages);
        if in_use != 0 {
            return Err(busy(in_use));
        }
        pages.drain(..).for_each(|page| self.source.free(page.pages));
        Ok(())
    }

    fn pages(&self) -> usize {
        self.pages.lock().len()
    }
}
