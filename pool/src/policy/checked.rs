//! A pool whose every block is known outside DMA memory, and every free checked; what comes next is an [`Order`]'s choice.
//!
//! What the hostile policies share: they differ in which places of a page they use, where they ask for pages, and in their
//! order.

use std::collections::BTreeMap;
use std::sync::Arc;

use bus::DmaAddr;
use parking_lot::Mutex;

use super::busy;
use super::slots::Slots;
use crate::error::{AllocError, CreateError, DestroyError, FreeError};
use crate::memory::Memory;
use crate::page::{PageSource, Pages};
use crate::pool::{Block, Flags, Geometry, Layout, Pool};

pub(super) const SMALLEST: u64 = 1;

/// Which places of a page hold blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Places {
    /// All.
    Every,
    /// Every second one, so that a place behind each block stays unused. Where a block fills an allocation from the page
    /// source, the pool asks for twice as much.
    Apart,
    /// The first.
    First,
}

/// Where a pool asks for its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// Anywhere.
    Anywhere,
    /// At the highest addresses.
    Highest,
}

/// The free blocks of a pool, and which of them comes next.
pub(super) trait Order: Send {
    /// Blocks of a page that has just come, by rising address.
    fn add(&mut self, blocks: impl DoubleEndedIterator<Item = Block>);

    /// A block that was freed.
    fn put(&mut self, block: Block);

    /// The block to hand out.
    fn next(&mut self) -> Option<Block>;

    /// The pages of all blocks are gone.
    fn clear(&mut self);
}

/// The last freed block first, and a fresh page by rising address.
#[derive(Default)]
pub(super) struct Stack(Vec<Block>);

impl Order for Stack {
    fn add(&mut self, blocks: impl DoubleEndedIterator<Item = Block>) {
        self.0.extend(blocks.rev());
    }

    fn put(&mut self, block: Block) {
        self.0.push(block);
    }

    fn next(&mut self) -> Option<Block> {
        self.0.pop()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

pub(super) struct Checked<O> {
    memory: Arc<Memory>,
    source: Arc<dyn PageSource>,
    layout: Layout,
    slots: Slots,
    places: Places,
    from: From,
    state: Mutex<State<O>>,
}

struct State<O> {
    order: O,
    /// By the devices' address of its first byte.
    pages: BTreeMap<DmaAddr, Page>,
    live: usize,
}

struct Page {
    pages: Pages,
    /// By place; a place that holds no block is never in use.
    in_use: Vec<bool>,
}

impl<O: Order> Checked<O> {
    pub(super) fn new(
        memory: Arc<Memory>,
        source: Arc<dyn PageSource>,
        geometry: Geometry,
        (places, from): (Places, From),
        order: impl FnOnce(Layout) -> O,
    ) -> Result<Self, CreateError> {
        let layout = geometry.layout(SMALLEST, source.page_size())?;
        let state = State { order: order(layout), pages: BTreeMap::new(), live: 0 };
        Ok(Self { memory, source, layout, slots: Slots::new(layout), places, from, state: Mutex::new(state) })
    }

    /// Places of a page that hold blocks.
    fn used(&self) -> impl DoubleEndedIterator<Item = u64> + use<O> {
        let count = self.slots.count();
        let (blocks, step) = match self.places {
            Places::Every => (count, 1),
            Places::Apart => ((count / 2).max(1), 2),
            Places::First => (1, 1),
        };
        (0..blocks as u64).map(move |block| block * step)
    }

    fn pages_from_source(&self, flags: Flags) -> Result<Pages, AllocError> {
        let alone = self.places == Places::Apart && self.slots.count() == 1;
        let bytes = self.layout.allocation.saturating_mul(if alone { 2 } else { 1 });
        let flags = Flags { zero: false, ..flags };
        Ok(match self.from {
            From::Anywhere => self.source.alloc(bytes, flags)?,
            From::Highest => self.source.alloc_highest(bytes, flags)?,
        })
    }

    fn add(&self, state: &mut State<O>, pages: Pages) {
        let block = |place| {
            let offset = self.slots.offset(place);
            Block { cpu: pages.cpu.offset(offset), dma: pages.dma.offset(offset) }
        };
        state.order.add(self.used().map(block));
        state.pages.insert(pages.dma, Page { pages, in_use: vec![false; self.slots.count()] });
    }

    fn take(&self, state: &mut State<O>) -> Result<Option<Block>, AllocError> {
        let Some(block) = state.order.next() else { return Ok(None) };
        let lost = || AllocError::Other(format!("{} is in no page of this pool", block.dma));
        let (page, slot, _) = self.find(state, block.dma).ok_or_else(lost)?;
        page.in_use[slot] = true;
        state.live += 1;
        Ok(Some(block))
    }

    /// The page that an address is in, the place, and the place's first byte.
    fn find<'a>(&self, state: &'a mut State<O>, dma: DmaAddr) -> Option<(&'a mut Page, usize, u64)> {
        let (base, page) = state.pages.range_mut(..=dma).next_back()?;
        let offset = dma.0 - base.0;
        if offset >= page.pages.len {
            return None;
        }
        let (slot, start) = self.slots.containing(offset)?;
        Some((page, slot, start))
    }
}

impl<O: Order> Pool for Checked<O> {
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        let mut state = self.state.lock();
        let block = match self.take(&mut state)? {
            Some(block) => block,
            None => {
                // The source may sleep; another thread's free may bring blocks meanwhile.
                drop(state);
                let pages = self.pages_from_source(flags)?;
                state = self.state.lock();
                self.add(&mut state, pages);
                self.take(&mut state)?.ok_or_else(|| AllocError::Other("a fresh page gave no block".into()))?
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
        let (page, slot, start) = self.find(&mut state, block.dma).ok_or(FreeError::Foreign(block))?;
        let (cpu, dma) = (page.pages.cpu.offset(start), page.pages.dma.offset(start));
        if !page.in_use[slot] && !self.used().any(|used| used == slot as u64) {
            return Err(FreeError::Foreign(block));
        }
        if dma != block.dma {
            return Err(FreeError::Interior { block, start: dma });
        }
        if cpu != block.cpu {
            return Err(FreeError::Mismatched { block, expected: cpu });
        }
        if !page.in_use[slot] {
            return Err(FreeError::Double(block));
        }
        page.in_use[slot] = false;
        state.live -= 1;
        state.order.put(block);
        Ok(())
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        let mut state = self.state.lock();
        if state.live > 0 {
            return Err(busy(state.live as i64));
        }
        state.order.clear();
        let pages = std::mem::take(&mut state.pages);
        drop(state);
        pages.into_values().for_each(|page| self.source.free(page.pages));
        Ok(())
    }

    fn pages(&self) -> usize {
        self.state.lock().pages.len()
    }
}
