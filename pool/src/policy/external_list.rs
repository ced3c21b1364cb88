//! `external-list`: one stack over the whole pool, in records outside DMA memory (RFC of November 2024).
//!
//! "dmapool: Move pool metadata into non-DMA memory": every block has a 24-byte record (next, processor's address, DMA
//! address). An allocation pops a record; a free has to find the record, and walks the pages to it. A device cannot
//! damage the list; a double free links a record to itself and is not noticed.

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
        "external-list",
        "one stack over all pages, in records outside DMA memory (RFC, November 2024)",
        Metadata::OutOfBand,
        SMALLEST,
        |memory, source, geometry| Ok(Box::new(ExternalList::new(memory, source, geometry)?)),
    )
}

struct ExternalList {
    memory: Arc<Memory>,
    source: Arc<dyn PageSource>,
    layout: Layout,
    slots: Slots,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The record on top of the stack.
    next: Option<usize>,
    records: Vec<Record>,
    /// The n-th page's records begin at n times the blocks of a page.
    pages: Vec<Pages>,
    active: i64,
}

struct Record {
    next: Option<usize>,
    block: Block,
}

impl ExternalList {
    fn new(memory: Arc<Memory>, source: Arc<dyn PageSource>, geometry: Geometry) -> Result<Self, CreateError> {
        let layout = geometry.layout(SMALLEST, source.page_size())?;
        Ok(Self { memory, source, layout, slots: Slots::new(layout), state: Mutex::default() })
    }
}

impl State {
    fn pop(&mut self) -> Option<Block> {
        let record = self.records.get(self.next?)?;
        self.next = record.next;
        self.active += 1;
        Some(record.block)
    }

    fn add_page(&mut self, page: Pages, layout: Layout) {
        let first = self.records.len();
        self.records.extend(layout.offsets().enumerate().map(|(slot, offset)| Record {
            next: Some(first + slot + 1),
            block: Block { cpu: page.cpu.offset(offset), dma: page.dma.offset(offset) },
        }));
        if let Some(last) = self.records.last_mut() {
            last.next = self.next;
        }
        self.next = Some(first);
        self.pages.push(page);
    }

    /// The record of the block that the processor's address is in: a walk over the pages, the newest first.
    fn find(&self, block: Block, slots: &Slots) -> Option<usize> {
        let offset = |page: &Pages| block.cpu.0.wrapping_sub(page.cpu.0);
        let number = self.pages.iter().rposition(|page| offset(page) < page.len)?;
        let (slot, _) = slots.containing(offset(&self.pages[number]))?;
        Some(number * slots.count() + slot)
    }
}

impl Pool for ExternalList {
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        let mut state = self.state.lock();
        let block = match state.pop() {
            Some(block) => block,
            None => {
                drop(state);
                let page = self.source.alloc(self.layout.allocation, Flags { zero: false, ..flags })?;
                state = self.state.lock();
                state.add_page(page, self.layout);
                state.pop().ok_or_else(|| AllocError::Other("a fresh page gave no block".into()))?
            }
        };
        drop(state);
        if flags.zero {
            let fault = |fault| AllocError::DamagedList { link: block.cpu, fault };
            self.memory.fill(block.cpu, self.layout.size, 0).map_err(fault)?;
        }
        Ok(block)
    }

    fn free(&self, block: Block) -> Result<(), FreeError> {
        let mut state = self.state.lock();
        let record = state.find(block, &self.slots).ok_or(FreeError::Foreign(block))?;
        state.records[record].next = state.next;
        state.next = Some(record);
        state.active -= 1;
        Ok(())
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        let mut state = self.state.lock();
        if state.active != 0 {
            return Err(busy(state.active));
        }
        state.next = None;
        state.records.clear();
        state.pages.drain(..).for_each(|page| self.source.free(page));
        Ok(())
    }

    fn pages(&self) -> usize {
        self.state.lock().pages.len()
    }
}
