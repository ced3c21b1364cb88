//! A pool that numbers its blocks outside DMA memory and gives idle pages back, with its faults.
//!
//! Without a fault it checks every free, as `index-stack` does, and keeps an idle page only while no other block is free.

mod fault;

use std::collections::BTreeMap;
use std::sync::Arc;

use bus::CpuAddr;
use parking_lot::Mutex;
use pool::{
    AllocError, Block, CreateError, DestroyError, Flags, FreeError, Geometry, Layout, Memory, Metadata, PageSource,
    Pages, Policy, Pool,
};

use fault::Fault;

const SMALLEST: u64 = 1;
/// "Now and then": one time in so many.
const SELDOM: u64 = 7;

/// The pool as it should be.
pub(crate) fn right() -> Policy {
    policy("numbered", "numbered blocks, every free checked, idle pages given back", None)
}

/// The pool with each of its faults.
pub(crate) fn faulty() -> impl Iterator<Item = Policy> {
    Fault::ALL.iter().map(|&fault| policy(fault.name(), fault.about(), Some(fault)))
}

fn policy(name: &'static str, about: &'static str, fault: Option<Fault>) -> Policy {
    Policy::new(name, about, Metadata::OutOfBand, SMALLEST, move |memory, source, geometry| {
        Ok(Box::new(Numbered::new(memory, source, geometry, fault)?))
    })
}

struct Numbered {
    memory: Arc<Memory>,
    source: Arc<dyn PageSource>,
    layout: Layout,
    offsets: Vec<u64>,
    fault: Option<Fault>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Numbers of the free blocks; the next one to hand out is the last.
    free: Vec<usize>,
    /// By number: whether it is in use. The n-th page's blocks begin at n times the blocks of a page.
    in_use: Vec<bool>,
    /// By number of the page; one that was given back leaves its number for another.
    pages: Vec<Option<Page>>,
    /// Page frame to number of the page.
    directory: BTreeMap<u64, usize>,
    frees: u64,
    /// Of what was given back.
    gone: Vec<Pages>,
    /// The page to give back next.
    idle: Option<usize>,
}

struct Page {
    pages: Pages,
    in_use: usize,
}

impl Numbered {
    fn new(
        memory: Arc<Memory>,
        source: Arc<dyn PageSource>,
        asked: Geometry,
        fault: Option<Fault>,
    ) -> Result<Self, CreateError> {
        let early = (fault == Some(Fault::CreateKeepsPage)).then(|| source.alloc(source.page_size(), Flags::KERNEL));
        let layout = asked.layout(SMALLEST, source.page_size())?;
        if let Some(Ok(page)) = early {
            source.free(page);
        }
        let offsets = layout.offsets().collect();
        Ok(Self { memory, source, layout, offsets, fault, state: Mutex::default() })
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn frame(&self, dma: u64) -> u64 {
        let frame = dma / self.source.page_size();
        if self.has(Fault::FramesCollide) { frame & 0xff } else { frame }
    }

    fn frames(&self, page: Pages) -> impl Iterator<Item = u64> {
        (0..page.len).step_by(self.source.page_size() as usize).map(move |at| self.frame(page.dma.0 + at))
    }

    /// The number that a page gets which is added now.
    fn next_number(state: &State) -> usize {
        state.pages.iter().position(Option::is_none).unwrap_or(state.pages.len())
    }

    fn add_page(&self, state: &mut State, number: usize, pages: Pages) {
        let (first, count) = (number * self.offsets.len(), self.offsets.len());
        if number == state.pages.len() {
            state.pages.push(None);
            state.in_use.resize(first + count, false);
        }
        state.pages[number] = Some(Page { pages, in_use: 0 });
        let listed = if self.has(Fault::NarrowPage) { number & 0xff } else { number };
        state.directory.extend(self.frames(pages).map(|frame| (frame, listed)));
        state.free.extend((first..first + count).rev());
    }

    fn block(&self, state: &State, number: usize) -> Option<Block> {
        let offset = self.offsets[number % self.offsets.len()];
        let (page, base) = if self.has(Fault::PagesAdjacent) {
            let page = state.pages.iter().flatten().next()?;
            (page, (number / self.offsets.len()) as u64 * page.pages.len)
        } else {
            (state.pages[number / self.offsets.len()].as_ref()?, 0)
        };
        Some(Block { cpu: page.pages.cpu.offset(base + offset), dma: page.pages.dma.offset(base + offset) })
    }

    fn pop(&self, state: &mut State) -> Option<Block> {
        let mut number = state.free.pop()?;
        if self.has(Fault::NarrowNumber) {
            number &= 0xffff;
        }
        state.in_use[number] = true;
        let block = match self.block(state, number) {
            Some(block) => block,
            // Of a page that is gone.
            None => gone_block(state.gone.last()?, self.offsets[number % self.offsets.len()]),
        };
        if let Some(page) = &mut state.pages[number / self.offsets.len()] {
            page.in_use += 1;
        }
        Some(block)
    }

    /// Gives a page back that is idle while others have free blocks.
    fn trim(&self, state: &mut State, number: usize) {
        let count = self.offsets.len();
        let least = usize::from(self.has(Fault::PageFreedInUse));
        if state.pages[number].as_ref().is_none_or(|page| page.in_use > least) || state.free.len() <= count {
            return;
        }
        let number = if self.has(Fault::PageFreedLate) {
            match state.idle.replace(number) {
                Some(earlier) if earlier != number => earlier,
                _ => return,
            }
        } else {
            number
        };
        let Some(page) = state.pages[number].take() else { return };
        if !self.has(Fault::FreedPageListed) {
            state.free.retain(|free| free / count != number);
        }
        for frame in self.frames(page.pages) {
            state.directory.remove(&frame);
        }
        if self.has(Fault::FreedPageListed) || self.has(Fault::PageFreedTwice) {
            state.gone.push(page.pages);
        }
        self.source.free(page.pages);
    }

    /// The number of the block that begins there.
    fn find(&self, state: &State, block: Block) -> Result<usize, FreeError> {
        let foreign = FreeError::Foreign(block);
        let listed = state.directory.get(&self.frame(block.dma.0)).copied();
        let listed = listed.or(self.has(Fault::ForeignAccepted).then_some(0));
        let number = listed.ok_or_else(|| foreign.clone())?;
        let page = state.pages.get(number).and_then(Option::as_ref).ok_or_else(|| foreign.clone())?;
        let mut offset = block.dma.0.wrapping_sub(page.pages.dma.0);
        if self.has(Fault::ForeignAccepted) {
            offset %= page.pages.len;
        }
        let slot = self.offsets.partition_point(|&begin| begin <= offset).checked_sub(1).ok_or(foreign)?;
        let number = number * self.offsets.len() + slot;
        let start = page.pages.dma.offset(self.offsets[slot]);
        if offset != self.offsets[slot] {
            return Err(FreeError::Interior { block, start });
        }
        let expected = page.pages.cpu.offset(self.offsets[slot]);
        if expected != block.cpu && !self.has(Fault::ForeignAccepted) {
            return Err(FreeError::Mismatched { block, expected });
        }
        Ok(number)
    }
}

/// Where the block of a page that was given back would be.
fn gone_block(page: &Pages, offset: u64) -> Block {
    Block { cpu: CpuAddr(page.cpu.0.wrapping_add(offset)), dma: page.dma.offset(offset) }
}

impl Pool for Numbered {
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        let mut state = self.state.lock();
        let block = match self.pop(&mut state) {
            Some(block) => block,
            None => {
                let before = Self::next_number(&state);
                drop(state);
                let pages = self.source.alloc(self.layout.allocation, Flags { zero: false, ..flags })?;
                state = self.state.lock();
                let number = if self.has(Fault::NumbersBeforeWait) { before } else { Self::next_number(&state) };
                self.add_page(&mut state, number, pages);
                self.pop(&mut state).ok_or_else(|| AllocError::Other("a fresh page gave no block".into()))?
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
        let mut number = self.find(&state, block)?;
        state.frees += 1;
        if self.has(Fault::FreesNeighbour) && state.frees.is_multiple_of(SELDOM) {
            number = (number + 1).min(state.in_use.len() - 1);
        }
        let was_in_use = std::mem::replace(&mut state.in_use[number], false);
        if was_in_use || self.has(Fault::RefusalPushes) {
            state.free.push(number);
        }
        let page = number / self.offsets.len();
        if (was_in_use || self.has(Fault::RefusalCounts))
            && let Some(page) = &mut state.pages[page]
        {
            page.in_use = page.in_use.saturating_sub(1);
        }
        if !was_in_use {
            return Err(FreeError::Double(block));
        }
        self.trim(&mut state, page);
        Ok(())
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        let mut state = self.state.lock();
        let mut in_use = state.pages.iter().flatten().map(|page| page.in_use);
        let live = if self.has(Fault::DestroyLooksOnce) { in_use.next_back().unwrap_or(0) } else { in_use.sum() };
        DestroyError::check_idle(live)?;
        let State { pages, gone, .. } = std::mem::take(&mut *state);
        drop(state);
        pages.into_iter().flatten().for_each(|page| self.source.free(page.pages));
        if self.has(Fault::PageFreedTwice) {
            gone.into_iter().for_each(|page| self.source.free(page));
        }
        Ok(())
    }

    fn pages(&self) -> usize {
        self.state.lock().pages.iter().flatten().count()
    }
}
