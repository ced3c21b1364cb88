//! `page-list`: a list of free blocks in each page, linked by offsets inside the free blocks (Linux up to 6.3).
//!
//! mm/dmapool.c as it was from 2.6.25 on: `pool_initialise_page`, `dma_pool_alloc`, `pool_find_page`, `dma_pool_free`.
//! A free block's first four bytes hold the offset of the next free one. An allocation walks the pages, the newest
//! first, to one that has a free block, and believes the offset that it finds there.
//!
//! Two of its habits are kept here because a device can meet them:
//! - `next + size >= boundary` skips to the next boundary, so that of blocks that fill a boundary the last is lost: 63
//!   of 64 in a 4 KiB page.
//! - the boundary is not limited to the page. With one beyond it, a block of a size that does not divide the page begins
//!   in the page and ends behind it.

use std::sync::Arc;

use bus::{CpuAddr, DmaAddr};
use parking_lot::Mutex;

use super::busy;
use crate::error::{AllocError, CreateError, DestroyError, FreeError};
use crate::memory::{CpuFault, Memory};
use crate::page::{PageSource, Pages};
use crate::policy::Policy;
use crate::pool::{Block, Flags, Geometry, Layout, Metadata, MetadataField, Pool};

const SMALLEST: u64 = 4;
const METADATA: Metadata = Metadata::InBlock(&[MetadataField { start: 0, len: 4, name: "next offset" }]);

pub(super) fn policy() -> Policy {
    let policy = Policy::new(
        "page-list",
        "a free list in each page, the newest page first (Linux up to 6.3)",
        METADATA,
        SMALLEST,
        |memory, source, geometry| Ok(Box::new(PageList::new(memory, source, geometry)?)),
    );
    Policy { loses_last: true, ..policy }
}

struct PageList {
    memory: Arc<Memory>,
    source: Arc<dyn PageSource>,
    layout: Layout,
    /// As the driver gave it; not limited to the page.
    boundary: u64,
    /// The kernel puts a new page at the head of its list; here the newest is the last.
    pages: Mutex<Vec<Page>>,
}

struct Page {
    pages: Pages,
    /// Offset of the first free block; at or beyond the allocation there is none.
    offset: u32,
    in_use: i64,
}

impl PageList {
    fn new(memory: Arc<Memory>, source: Arc<dyn PageSource>, geometry: Geometry) -> Result<Self, CreateError> {
        let layout = geometry.layout(SMALLEST, source.page_size())?;
        let boundary = if geometry.boundary == 0 { layout.allocation } else { geometry.boundary };
        Ok(Self { memory, source, layout, boundary, pages: Mutex::default() })
    }

    fn link(&self, page: CpuAddr, offset: u32) -> Result<u32, CpuFault> {
        self.memory.read_u32(page.offset(offset.into()))
    }

    fn set_link(&self, block: CpuAddr, next: u32) -> Result<(), CpuFault> {
        self.memory.write_u32(block, next)
    }

    /// Links a fresh page's blocks in ascending order.
    fn initialise(&self, page: CpuAddr) -> Result<(), CpuFault> {
        let mut offset = 0;
        let mut next_boundary = self.boundary;
        while offset < self.layout.allocation {
            let mut next = offset + self.layout.size;
            if next + self.layout.size >= next_boundary {
                next = next_boundary;
                next_boundary += self.boundary;
            }
            // An allocation is below 2^31 bytes, and so is every offset that counts: beyond it none is followed.
            self.set_link(page.offset(offset), u32::try_from(next).unwrap_or(u32::MAX))?;
            offset = next;
        }
        Ok(())
    }

    fn has_block(&self, page: &Page) -> bool {
        u64::from(page.offset) < self.layout.allocation
    }

    fn take(&self, page: &mut Page) -> Result<Block, AllocError> {
        let offset = page.offset;
        let link = page.pages.cpu.offset(offset.into());
        page.offset = self.link(page.pages.cpu, offset).map_err(|fault| AllocError::DamagedList { link, fault })?;
        page.in_use += 1;
        Ok(Block { cpu: link, dma: page.pages.dma.offset(offset.into()) })
    }

    fn contains(&self, page: &Page, dma: DmaAddr) -> bool {
        dma.0.wrapping_sub(page.pages.dma.0) < self.layout.allocation
    }
}

impl Pool for PageList {
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        let mut pages = self.pages.lock();
        let block = match pages.iter_mut().rev().find(|page| self.has_block(page)) {
            Some(page) => self.take(page)?,
            None => {
                // The kernel drops its lock here, and afterwards uses its own page, whatever others have freed.
                drop(pages);
                let fresh = self.source.alloc(self.layout.allocation, Flags { zero: false, ..flags })?;
                if let Err(fault) = self.initialise(fresh.cpu) {
                    self.source.free(fresh);
                    return Err(AllocError::DamagedList { link: fresh.cpu, fault });
                }
                let mut page = Page { pages: fresh, offset: 0, in_use: 0 };
                pages = self.pages.lock();
                let block = self.take(&mut page);
                pages.push(page);
                block?
            }
        };
        drop(pages);
        if flags.zero {
            let damaged = |fault| AllocError::DamagedList { link: block.cpu, fault };
            self.memory.fill(block.cpu, self.layout.size, 0).map_err(damaged)?;
        }
        Ok(block)
    }

    fn free(&self, block: Block) -> Result<(), FreeError> {
        let mut pages = self.pages.lock();
        // "bad dma" in the kernel's log. Only a debug build compares the two addresses or looks for a double free.
        let page = pages.iter_mut().rev().find(|page| self.contains(page, block.dma));
        let page = page.ok_or(FreeError::Foreign(block))?;
        self.set_link(block.cpu, page.offset)?;
        page.offset = block.cpu.0.wrapping_sub(page.pages.cpu.0) as u32;
        page.in_use -= 1;
        Ok(())
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        let mut pages = self.pages.lock();
        // "busy" in the kernel's log, once for every such page; these are leaked, the others given back.
        let (leaked, idle): (Vec<_>, Vec<_>) = pages.drain(..).partition(|page| page.in_use != 0);
        idle.into_iter().for_each(|page| self.source.free(page.pages));
        *pages = leaked;
        if pages.is_empty() { Ok(()) } else { Err(busy(pages.iter().map(|page| page.in_use).sum())) }
    }

    fn pages(&self) -> usize {
        self.pages.lock().len()
    }
}
