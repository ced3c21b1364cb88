//! `index-stack`: a stack of block numbers outside DMA memory, with every free checked.
//!
//! What made the forms of the 2024 RFC slow was the walk over the pages, not that their data lies outside DMA memory.
//! Here every block has a number: that of its page, and its slot in the page. The free ones are a stack of 32-bit numbers. A
//! number leads to its page by an array, an address by a hash of its page frame, and a byte for each block tells whether
//! it is in use: both ways are O(1), take no lock, and a free is checked against all of it.
//!
//! Numbers are taken from the stack and put back several at a time, and the thread keeps them meanwhile ([`core`]): most
//! calls take no lock. A thread keeps less than a page's blocks, the last ones that it freed, out of reach for the others;
//! pools with few blocks to a page do without. `pool/kernel/dmapool.c` is the same design for a kernel.
//!
#![doc = include_str!("figures.md")]

mod core;
mod directory;
mod sync;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thread_local::ThreadLocal;

use self::core::{Cache, MOST_KEPT, Stack, State};
use self::directory::{Directory, Page};
use super::busy;
use super::slots::Slots;
use crate::error::{AllocError, CreateError, DestroyError, FreeError};
use crate::memory::Memory;
use crate::page::PageSource;
use crate::policy::Policy;
use crate::pool::{Block, Flags, Geometry, Layout, Metadata, Pool};

const SMALLEST: u64 = 1;
/// Pages of no more blocks than that are not worth a cache.
const FEW_BLOCKS: usize = 8;
/// Offsets and sizes of slots are below 2^20 where there are two or more: exact for them.
const INVERSE_SHIFT: u32 = 40;
/// No block begins in the slot, because it would cross a boundary.
const NO_BLOCK: u32 = u32::MAX;

pub(super) fn policy() -> Policy {
    Policy::new(
        "index-stack",
        "a stack of block numbers outside DMA memory, O(1), every free checked",
        Metadata::OutOfBand,
        SMALLEST,
        |memory, source, geometry| Ok(Box::new(IndexStack::new(memory, source, geometry)?)),
    )
    .of_source(concat!(
        include_str!("mod.rs"),
        include_str!("core.rs"),
        include_str!("directory.rs"),
        include_str!("sync.rs"),
        include_str!("../slots.rs"),
    ))
}

struct IndexStack {
    /// What every call reads.
    starts: Starts,
    directory: Directory,
    caches: Option<ThreadLocal<Cache>>,
    stack: Stack,
    memory: Arc<Memory>,
    source: Arc<dyn PageSource>,
    layout: Layout,
    slots: Slots,
    destroyed: AtomicBool,
}

/// Where the blocks of a page begin. A slot is an offset divided by the size; a block's number is its page's, and the slot
/// in the low bits.
struct Starts {
    /// By slot.
    offsets: Box<[u32]>,
    /// 2^[`INVERSE_SHIFT`] / size, rounded up.
    inverse: u64,
    slot_bits: u32,
}

impl Starts {
    fn new(layout: Layout) -> Self {
        let mut offsets = vec![NO_BLOCK; layout.allocation.div_ceil(layout.size) as usize].into_boxed_slice();
        // With one block only, it begins at 0.
        layout.offsets().for_each(|offset| offsets[(offset / layout.size) as usize] = offset as u32);
        let slot_bits = offsets.len().next_power_of_two().trailing_zeros();
        Self { offsets, inverse: (1_u64 << INVERSE_SHIFT).div_ceil(layout.size), slot_bits }
    }

    /// The slot of an offset in a page's first frame.
    fn slot(&self, offset: u64) -> usize {
        (offset * self.inverse >> INVERSE_SHIFT) as usize
    }

    fn is_start(&self, slot: usize, offset: u64) -> bool {
        self.offsets.get(slot).is_some_and(|&start| u64::from(start) == offset)
    }

    fn number(&self, page: u32, slot: usize) -> u32 {
        page << self.slot_bits | slot as u32
    }

    fn parts(&self, number: u32) -> (u32, usize) {
        (number >> self.slot_bits, (number & ((1 << self.slot_bits) - 1)) as usize)
    }

    /// Slots of blocks, by rising offset.
    fn blocks(&self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.offsets.len()).filter(|&slot| self.offsets[slot] != NO_BLOCK)
    }
}

impl IndexStack {
    fn new(memory: Arc<Memory>, source: Arc<dyn PageSource>, geometry: Geometry) -> Result<Self, CreateError> {
        let layout = geometry.layout(SMALLEST, source.page_size())?;
        let slots = Slots::new(layout);
        let keep = if slots.count() <= FEW_BLOCKS { 0 } else { (slots.count() - 1).min(MOST_KEPT) };
        Ok(Self {
            starts: Starts::new(layout),
            directory: Directory::new(source.page_size().trailing_zeros()),
            caches: (keep > 0).then(ThreadLocal::new),
            stack: Stack::new(keep),
            memory,
            source,
            layout,
            slots,
            destroyed: AtomicBool::new(false),
        })
    }

    #[inline]
    fn cache(&self) -> Option<&Cache> {
        let caches = self.caches.as_ref()?;
        Some(caches.get().unwrap_or_else(|| Self::first_cache(caches)))
    }

    // Not where every call would make room for it.
    #[cold]
    #[inline(never)]
    fn first_cache(caches: &ThreadLocal<Cache>) -> &Cache {
        caches.get_or_default()
    }

    #[inline(never)]
    fn zeroed(&self, block: Block) -> Result<Block, AllocError> {
        let fault = |fault| AllocError::DamagedList { link: block.cpu, fault };
        self.memory.fill(block.cpu, self.layout.size, 0).map(|()| block).map_err(fault)
    }

    /// Until the caller has the block, nobody else changes its state.
    #[inline]
    fn hand_out(&self, number: u32) -> Option<Block> {
        let (page, slot) = self.starts.parts(number);
        let page = self.directory.get(page)?;
        page.states.get(slot)?.hand_out();
        let offset = u64::from(*self.starts.offsets.get(slot)?);
        Some(Block { cpu: page.pages.cpu.offset(offset), dma: page.pages.dma.offset(offset) })
    }

    /// No block is in reach. The source may sleep; another thread's free may fill the stack meanwhile.
    #[inline(never)]
    fn grow(&self, flags: Flags) -> Result<Block, AllocError> {
        if self.destroyed.load(Ordering::Relaxed) {
            return Err(AllocError::Other("the pool is destroyed".into()));
        }
        let pages = self.source.alloc(self.layout.allocation, Flags { zero: false, ..flags })?;
        let states = self.starts.offsets.iter().map(|_| State::free()).collect();
        let most = u32::MAX >> self.starts.slot_bits;
        let page = match self.directory.add(Page { pages, states }, most) {
            Ok(page) => page,
            Err(refused) => {
                self.source.free(refused.pages);
                return Err(AllocError::Other(format!("a pool has at most {most} pages of such blocks")));
            }
        };
        // The lowest block is the caller's; the others will be handed out by rising address.
        let others = self.starts.blocks().skip(1).map(|slot| self.starts.number(page, slot));
        self.stack.add(others.collect::<Vec<_>>().into_iter().rev(), self.blocks());
        self.hand_out(self.starts.number(page, 0)).ok_or_else(|| AllocError::Other("a fresh page gave no block".into()))
    }

    /// Blocks of all pages.
    fn blocks(&self) -> usize {
        self.directory.len() * self.slots.count()
    }

    /// What is wrong with a block that does not begin where it was said to.
    #[cold]
    #[inline(never)]
    fn refusal(&self, block: Block) -> FreeError {
        let Some((page, offset)) = self.directory.search(block.dma) else { return FreeError::Foreign(block) };
        match self.slots.containing(offset) {
            None => FreeError::Foreign(block),
            Some((_, start)) if start != offset => {
                FreeError::Interior { block, start: page.pages.dma.offset(start) }
            }
            Some(_) => FreeError::Mismatched { block, expected: page.pages.cpu.offset(offset) },
        }
    }
}

impl Pool for IndexStack {
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        match self.stack.take(self.cache()).and_then(|number| self.hand_out(number)) {
            Some(block) if flags.zero => self.zeroed(block),
            Some(block) => Ok(block),
            None if flags.zero => self.grow(flags).and_then(|block| self.zeroed(block)),
            None => self.grow(flags),
        }
    }

    fn free(&self, block: Block) -> Result<(), FreeError> {
        let Some((number, page, offset)) = self.directory.find(block.dma) else { return Err(self.refusal(block)) };
        let slot = self.starts.slot(offset);
        let Some(state) = page.states.get(slot) else { return Err(self.refusal(block)) };
        if !self.starts.is_start(slot, offset) || page.pages.cpu.offset(offset) != block.cpu {
            return Err(self.refusal(block));
        }
        if !self.stack.give(self.cache(), state, self.starts.number(number, slot)) {
            return Err(FreeError::Double(block));
        }
        Ok(())
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        let kept = || self.caches.iter().flat_map(ThreadLocal::iter);
        let free = self.stack.len() + kept().map(Cache::len).sum::<usize>();
        if self.destroyed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let live = self.blocks() as i64 - free as i64;
        if live != 0 {
            return Err(busy(live));
        }
        self.destroyed.store(true, Ordering::Relaxed);
        self.stack.clear();
        kept().for_each(Cache::clear);
        self.directory.iter().for_each(|page| self.source.free(page.pages));
        Ok(())
    }

    fn pages(&self) -> usize {
        if self.destroyed.load(Ordering::Relaxed) { 0 } else { self.directory.len() }
    }
}
