//! `linked` and `linked-descending`: one stack of free blocks over the whole pool, linked through the blocks.
//!
//! Descending is linux-next of January 2023 (ced6d06a81fb, "dmapool: link blocks across pages"): a fresh page's blocks
//! are pushed one by one, so that the last comes out first. Ascending is what was merged for 6.4 (da9619a30e73) after
//! "dmapool: push new blocks in ascending order". A free block holds the processor's address of the next one and its
//! own DMA address, 16 bytes; an allocation believes both.

use std::sync::Arc;

use bus::{CpuAddr, DmaAddr};
use parking_lot::Mutex;

use super::busy;
use crate::error::{AllocError, CreateError, DestroyError, FreeError};
use crate::memory::{CpuFault, Memory};
use crate::page::{PageSource, Pages};
use crate::policy::Policy;
use crate::pool::{Block, Flags, Geometry, Layout, Metadata, MetadataField, Pool};

const NEXT: u64 = 0;
const DMA: u64 = 8;
const SMALLEST: u64 = 16;
const METADATA: Metadata = Metadata::InBlock(&[
    MetadataField { start: NEXT, len: 8, name: "next pointer" },
    MetadataField { start: DMA, len: 8, name: "DMA address" },
]);

pub(super) fn ascending() -> Policy {
    Policy::new(
        "linked",
        "one stack over all pages, fresh pages ascending (Linux 6.4 to 7.x)",
        METADATA,
        SMALLEST,
        |m, s, g| Ok(Box::new(Linked::new(m, s, g, Fresh::Ascending)?)),
    )
}

pub(super) fn descending() -> Policy {
    Policy::new(
        "linked-descending",
        "one stack over all pages, fresh pages descending (linux-next, January 2023)",
        METADATA,
        SMALLEST,
        |m, s, g| Ok(Box::new(Linked::new(m, s, g, Fresh::Descending)?)),
    )
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fresh {
    Ascending,
    Descending,
}

struct Linked {
    memory: Arc<Memory>,
    source: Arc<dyn PageSource>,
    layout: Layout,
    fresh: Fresh,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Top of the stack; 0 when it is empty, as a null pointer.
    next: CpuAddr,
    pages: Vec<Pages>,
    /// `nr_active`: what was handed out less what was freed, right or wrong.
    active: i64,
}

impl Linked {
    fn new(
        memory: Arc<Memory>,
        source: Arc<dyn PageSource>,
        geometry: Geometry,
        fresh: Fresh,
    ) -> Result<Self, CreateError> {
        let layout = geometry.layout(SMALLEST, source.page_size())?;
        Ok(Self { memory, source, layout, fresh, state: Mutex::default() })
    }

    fn write_links(&self, block: CpuAddr, next: CpuAddr, dma: DmaAddr) -> Result<(), CpuFault> {
        self.memory.write_u64(block.offset(NEXT), next.0)?;
        self.memory.write_u64(block.offset(DMA), dma.0)
    }

    fn push(&self, state: &mut State, block: Block) -> Result<(), CpuFault> {
        self.write_links(block.cpu, state.next, block.dma)?;
        state.next = block.cpu;
        Ok(())
    }

    fn pop(&self, state: &mut State) -> Result<Option<Block>, AllocError> {
        let cpu = state.next;
        if cpu == CpuAddr(0) {
            return Ok(None);
        }
        let links = || Ok((self.memory.read_u64(cpu.offset(NEXT))?, self.memory.read_u64(cpu.offset(DMA))?));
        let (next, dma) = links().map_err(|fault| AllocError::DamagedList { link: cpu, fault })?;
        state.next = CpuAddr(next);
        state.active += 1;
        Ok(Some(Block { cpu, dma: DmaAddr(dma) }))
    }

    fn add_page(&self, state: &mut State, page: Pages) -> Result<(), CpuFault> {
        let blocks: Vec<u64> = self.layout.offsets().collect();
        let push = |state: &mut State, &offset: &u64| {
            self.push(state, Block { cpu: page.cpu.offset(offset), dma: page.dma.offset(offset) })
        };
        state.pages.push(page);
        match self.fresh {
            Fresh::Descending => blocks.iter().try_for_each(|offset| push(state, offset)),
            Fresh::Ascending => blocks.iter().rev().try_for_each(|offset| push(state, offset)),
        }
    }
}

impl Pool for Linked {
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        let mut state = self.state.lock();
        let block = match self.pop(&mut state)? {
            Some(block) => block,
            None => {
                // The kernel drops its lock here; another processor's block may be on the stack afterwards.
                drop(state);
                let page = self.source.alloc(self.layout.allocation, Flags { zero: false, ..flags })?;
                state = self.state.lock();
                let damaged = |fault| AllocError::DamagedList { link: page.cpu, fault };
                self.add_page(&mut state, page).map_err(damaged)?;
                self.pop(&mut state)?.ok_or_else(|| AllocError::Other("a fresh page gave no block".into()))?
            }
        };
        drop(state);
        if flags.zero {
            let damaged = |fault| AllocError::DamagedList { link: block.cpu, fault };
            self.memory.fill(block.cpu, self.layout.size, 0).map_err(damaged)?;
        }
        Ok(block)
    }

    fn free(&self, block: Block) -> Result<(), FreeError> {
        let mut state = self.state.lock();
        self.push(&mut state, block)?;
        state.active -= 1;
        Ok(())
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        let mut state = self.state.lock();
        if state.active != 0 {
            // "busy" in the kernel's log; every page is leaked.
            return Err(busy(state.active));
        }
        state.next = CpuAddr(0);
        state.pages.drain(..).for_each(|page| self.source.free(page));
        Ok(())
    }

    fn pages(&self) -> usize {
        self.state.lock().pages.len()
    }
}
