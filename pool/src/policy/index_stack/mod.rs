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
mod processor;
mod sync;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use self::core::{Cache, MOST_KEPT, Stack, State};
use self::directory::Directory;
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
        include_str!("processor.rs"),
        include_str!("sync.rs"),
        include_str!("../slots.rs"),
    ))
}

struct IndexStack {
    /// What every call reads.
    starts: Starts,
    directory: Directory,
    /// By the thread's number; empty if a page has few blocks.
    caches: Box<[Cache]>,
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
        ((offset * self.inverse) >> INVERSE_SHIFT) as usize
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
        let starts = Starts::new(layout);
        let caches = if keep > 0 { processor::MOST } else { 0 };
        Ok(Self {
            directory: Directory::new(source.page_size().trailing_zeros(), starts.offsets.len()),
            starts,
            caches: (0..caches).map(|_| Cache::default()).collect(),
            stack: Stack::new(keep),
            memory,
            source,
            layout,
            slots,
            destroyed: AtomicBool::new(false),
        })
    }

    /// This thread's cache, if it has one by now.
    #[inline]
    fn known_cache(&self) -> Option<&Cache> {
        self.caches.get(processor::known())
    }

    fn cache(&self) -> Option<&Cache> {
        self.caches.get(processor::number())
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
        page.state(slot)?.hand_out();
        let offset = u64::from(*self.starts.offsets.get(slot)?);
        Some(Block { cpu: page.cpu().offset(offset), dma: page.dma().offset(offset) })
    }

    /// What most allocations are, without a call.
    #[inline]
    fn take_at_once(&self) -> Option<Block> {
        let number = match self.known_cache() {
            Some(cache) => cache.pop()?,
            None if self.caches.is_empty() => self.stack.take(None)?,
            None => return None,
        };
        self.hand_out(number)
    }

    #[cold]
    #[inline(never)]
    fn take_or_grow(&self, flags: Flags) -> Result<Block, AllocError> {
        let block = self.stack.take(self.cache()).and_then(|number| self.hand_out(number));
        let block = block.map_or_else(|| self.grow(flags), Ok)?;
        if flags.zero { self.zeroed(block) } else { Ok(block) }
    }

    /// No block is in reach. The source may sleep; another thread's free may fill the stack meanwhile.
    fn grow(&self, flags: Flags) -> Result<Block, AllocError> {
        if self.destroyed.load(Ordering::Relaxed) {
            return Err(AllocError::Other("the pool is destroyed".into()));
        }
        let pages = self.source.alloc(self.layout.allocation, Flags { zero: false, ..flags })?;
        // A block's number has 32 bits, and so has an index.
        let most = (u32::MAX >> self.starts.slot_bits).min(1 << 30);
        let Some((page, count)) = self.directory.add(pages, most) else {
            self.source.free(pages);
            return Err(AllocError::Other(format!("a pool has at most {most} pages of such blocks")));
        };
        // The lowest block is the caller's; the others will be handed out by rising address.
        let others = self.starts.blocks().skip(1).map(|slot| self.starts.number(page, slot)).collect::<Vec<_>>();
        self.stack.add(others.into_iter().rev(), count * self.slots.count());
        self.hand_out(self.starts.number(page, 0)).ok_or_else(|| AllocError::Other("a fresh page gave no block".into()))
    }

    /// The state and number of a block, if one begins there and both addresses are its own.
    #[inline(always)]
    fn block_at(&self, block: Block) -> Option<(&State, u32)> {
        let (number, page, offset) = self.directory.find(block.dma)?;
        let slot = self.starts.slot(offset);
        let is_block = self.starts.is_start(slot, offset) && page.cpu().offset(offset) == block.cpu;
        Some((page.state(slot).filter(|_| is_block)?, self.starts.number(number, slot)))
    }

    /// What most frees are, without a call. False, and nothing done, if it is not one of those.
    #[inline(always)]
    fn free_at_once(&self, block: Block) -> bool {
        let Some((state, number)) = self.block_at(block) else { return false };
        match self.known_cache() {
            Some(cache) => self.stack.give_cached(cache, state, number),
            None => self.caches.is_empty() && self.stack.give_locked(state, number),
        }
    }

    #[cold]
    #[inline(never)]
    fn free_or_refuse(&self, block: Block) -> Result<(), FreeError> {
        let Some((state, number)) = self.block_at(block) else { return Err(self.refusal(block)) };
        if self.stack.give(self.cache(), state, number) { Ok(()) } else { Err(FreeError::Double(block)) }
    }

    /// What is wrong with a block that does not begin where it was said to.
    #[cold]
    #[inline(never)]
    fn refusal(&self, block: Block) -> FreeError {
        let Some((pages, offset)) = self.directory.search(block.dma) else { return FreeError::Foreign(block) };
        match self.slots.containing(offset) {
            None => FreeError::Foreign(block),
            Some((_, start)) if start != offset => FreeError::Interior { block, start: pages.dma.offset(start) },
            Some(_) => FreeError::Mismatched { block, expected: pages.cpu.offset(offset) },
        }
    }
}

impl Pool for IndexStack {
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        match self.take_at_once() {
            Some(block) if !flags.zero => Ok(block),
            Some(block) => self.zeroed(block),
            None => self.take_or_grow(flags),
        }
    }

    fn free(&self, block: Block) -> Result<(), FreeError> {
        if self.free_at_once(block) { Ok(()) } else { self.free_or_refuse(block) }
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        if self.destroyed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let free = self.stack.len() + self.caches.iter().map(Cache::len).sum::<usize>();
        let live = (self.directory.len() * self.slots.count()) as i64 - free as i64;
        if live != 0 {
            return Err(busy(live));
        }
        self.destroyed.store(true, Ordering::Relaxed);
        self.stack.clear();
        self.caches.iter().for_each(Cache::clear);
        self.directory.pages().into_iter().for_each(|pages| self.source.free(pages));
        Ok(())
    }

    fn pages(&self) -> usize {
        if self.destroyed.load(Ordering::Relaxed) { 0 } else { self.directory.len() }
    }
}
