//! `index-stack`: a stack of block numbers outside DMA memory, with every free checked.
//!
//! What made the forms of the 2024 RFC slow was the walk over the pages, not that their data lies outside DMA memory.
//! Here every block has a number; the free ones are a stack of 32-bit numbers, and a directory from page frame to page
//! makes the way from an address to its number as short as the way back. Both directions are O(1). A block's number
//! leads to both its addresses and to whether it is in use, so that a free can be checked against all three.

use std::sync::Arc;

use bus::DmaAddr;
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
        "index-stack",
        "a stack of block numbers outside DMA memory, O(1), every free checked",
        Metadata::OutOfBand,
        SMALLEST,
        |memory, source, geometry| Ok(Box::new(IndexStack::new(memory, source, geometry)?)),
    )
}

struct IndexStack {
    memory: Arc<Memory>,
    source: Arc<dyn PageSource>,
    layout: Layout,
    slots: Slots,
    frame_shift: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Numbers of the free blocks; the next one to hand out is the last.
    free: Vec<u32>,
    /// By number. The n-th page's blocks begin at n times the blocks of a page.
    blocks: Vec<Entry>,
    pages: Vec<Pages>,
    directory: Directory,
}

struct Entry {
    block: Block,
    in_use: bool,
}

/// Page frame to number of the page: open addressing, at most half full.
#[derive(Default)]
struct Directory {
    entries: Vec<(u64, u32)>,
    used: usize,
}

impl Directory {
    /// No page frame: a frame is an address divided by at least 4096.
    const EMPTY: u64 = u64::MAX;

    fn home(&self, frame: u64) -> usize {
        // Fibonacci hashing takes the top bits; the length is a power of two, at least 16.
        (frame.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - self.entries.len().trailing_zeros())) as usize
    }

    /// Where a frame's entry is looked for, one after the other: every entry once, whatever is in them.
    fn probes(&self, frame: u64) -> impl Iterator<Item = usize> + use<> {
        let (home, len) = (self.home(frame), self.entries.len());
        (home..len).chain(0..home)
    }

    fn get(&self, frame: u64) -> Option<u32> {
        if self.entries.is_empty() {
            return None;
        }
        // At least half of the entries are empty: the search is short.
        let at = self.probes(frame).find(|&at| [frame, Self::EMPTY].contains(&self.entries[at].0))?;
        let (key, page) = self.entries[at];
        (key == frame).then_some(page)
    }

    fn insert(&mut self, frame: u64, page: u32) {
        if (self.used + 1) * 2 > self.entries.len() {
            let larger = vec![(Self::EMPTY, 0); (self.entries.len() * 2).max(16)];
            let old = std::mem::replace(&mut self.entries, larger);
            old.into_iter().filter(|&(key, _)| key != Self::EMPTY).for_each(|(key, page)| self.place(key, page));
        }
        self.place(frame, page);
        self.used += 1;
    }

    fn place(&mut self, frame: u64, page: u32) {
        let free = self.probes(frame).find(|&at| self.entries[at].0 == Self::EMPTY);
        if let Some(at) = free {
            self.entries[at] = (frame, page);
        }
    }
}

impl IndexStack {
    fn new(memory: Arc<Memory>, source: Arc<dyn PageSource>, geometry: Geometry) -> Result<Self, CreateError> {
        let layout = geometry.layout(SMALLEST, source.page_size())?;
        let frame_shift = source.page_size().trailing_zeros();
        Ok(Self { memory, source, layout, slots: Slots::new(layout), frame_shift, state: Mutex::default() })
    }

    fn add_page(&self, state: &mut State, page: Pages) -> Result<(), AllocError> {
        let (first, count) = (state.blocks.len(), self.slots.count());
        let (Ok(first), Ok(end)) = (u32::try_from(first), u32::try_from(first + count)) else {
            self.source.free(page);
            return Err(AllocError::Other(format!("a pool has at most {} blocks", u32::MAX)));
        };
        let number = state.pages.len() as u32;
        let frame = page.dma.0 >> self.frame_shift;
        (0..page.len >> self.frame_shift).for_each(|i| state.directory.insert(frame + i, number));
        state.blocks.extend(self.layout.offsets().map(|offset| Entry {
            block: Block { cpu: page.cpu.offset(offset), dma: page.dma.offset(offset) },
            in_use: false,
        }));
        // Room for every block: no free has to make any.
        state.free.reserve(end as usize - state.free.len());
        state.free.extend((first..end).rev());
        state.pages.push(page);
        Ok(())
    }
}

impl State {
    fn pop(&mut self) -> Option<Block> {
        let entry = &mut self.blocks[self.free.pop()? as usize];
        entry.in_use = true;
        Some(entry.block)
    }

    /// Number of the page that an address is in, and the offset in it.
    fn locate(&self, dma: DmaAddr, frame_shift: u32) -> Option<(usize, u64)> {
        let page = self.directory.get(dma.0 >> frame_shift)? as usize;
        Some((page, dma.0.checked_sub(self.pages[page].dma.0)?))
    }
}

impl Pool for IndexStack {
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        let mut state = self.state.lock();
        let block = match state.pop() {
            Some(block) => block,
            None => {
                // The source may sleep; another thread's free may fill the stack meanwhile.
                drop(state);
                let page = self.source.alloc(self.layout.allocation, Flags { zero: false, ..flags })?;
                state = self.state.lock();
                self.add_page(&mut state, page)?;
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
        let (page, offset) = state.locate(block.dma, self.frame_shift).ok_or(FreeError::Foreign(block))?;
        let (slot, start) = self.slots.containing(offset).ok_or(FreeError::Foreign(block))?;
        let number = page * self.slots.count() + slot;
        let entry = &mut state.blocks[number];
        if start != offset {
            return Err(FreeError::Interior { block, start: entry.block.dma });
        }
        if entry.block.cpu != block.cpu {
            return Err(FreeError::Mismatched { block, expected: entry.block.cpu });
        }
        if !entry.in_use {
            return Err(FreeError::Double(block));
        }
        entry.in_use = false;
        state.free.push(number as u32);
        Ok(())
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        let mut state = self.state.lock();
        let live = state.blocks.len() - state.free.len();
        if live > 0 {
            return Err(busy(live as i64));
        }
        let pages = std::mem::take(&mut *state).pages;
        drop(state);
        pages.into_iter().for_each(|page| self.source.free(page));
        Ok(())
    }

    fn pages(&self) -> usize {
        self.state.lock().pages.len()
    }
}
