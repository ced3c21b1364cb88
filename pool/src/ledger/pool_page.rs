//! A page that a pool cut into blocks.

use std::ops::RangeInclusive;

use bus::{CpuAddr, DmaAddr, Owner};

use super::map::FRAME;
use crate::page::Pages;
use crate::pool::Block;

/// A page that a pool cut into blocks: which block is at an address, in O(1).
///
/// A pool may put blocks where it likes, and a broken one may hand out blocks that overlap. The first costs a finer grid,
/// the second the O(1): from then on this page's records are searched one by one.
pub(super) struct PoolPage {
    pub(super) pool: usize,
    /// The processor's address of the first byte, as its source gave it.
    cpu: CpuAddr,
    pub(super) base: u64,
    pub(super) len: u64,
    granule_shift: u32,
    /// For every granule the number of its block plus one, 0 if none was ever handed out there.
    slots: Vec<u32>,
    /// At most one for each address that a block began at.
    blocks: Vec<BlockRecord>,
    /// Whether two records share a byte, so that the slots do not tell everything.
    recut: bool,
}

/// A block that was handed out at least once.
#[derive(Clone, Copy)]
pub(super) struct BlockRecord {
    pub(super) start: u64,
    pub(super) size: u64,
    /// The processor's address, as it was handed out.
    pub(super) cpu: CpuAddr,
    /// How many have it: 0 when it is free, more than one only by a pool's mistake.
    pub(super) holders: u32,
    pub(super) generation: u32,
    pub(super) owner: Option<Owner>,
}

impl BlockRecord {
    fn take(&mut self, cpu: CpuAddr) {
        self.cpu = cpu;
        self.holders = self.holders.saturating_add(1);
        self.generation = self.generation.saturating_add(1);
        self.owner = None;
    }

    pub(super) const fn is_live(&self) -> bool {
        self.holders > 0
    }

    pub(super) const fn contains(&self, addr: u64) -> bool {
        addr.wrapping_sub(self.start) < self.size
    }

    const fn overlaps(&self, start: u64, size: u64) -> bool {
        self.start < start + size && start < self.start + self.size
    }
}

impl PoolPage {
    /// A page for blocks that begin at multiples of `granule`, as far as is known.
    pub(super) fn new(pool: usize, pages: Pages, granule: u64) -> Self {
        let Pages { cpu, dma: DmaAddr(base), len } = pages;
        // Up to the end of addresses at most, so that the sum of the two is one.
        let len = len.min(u64::MAX - base);
        let granule_shift = granule.clamp(1, FRAME).trailing_zeros();
        let slots = vec![0; (len >> granule_shift) as usize];
        Self { pool, cpu, base, len, granule_shift, slots, blocks: Vec::new(), recut: false }
    }

    /// The processor's address of a byte of this page.
    pub(super) const fn cpu_of(&self, addr: u64) -> CpuAddr {
        CpuAddr(self.cpu.0.wrapping_add(addr - self.base))
    }

    /// Whether the range lies in this page.
    pub(super) fn holds(&self, start: u64, size: u64) -> bool {
        start.checked_sub(self.base).and_then(|offset| offset.checked_add(size)).is_some_and(|end| end <= self.len)
    }

    pub(super) fn blocks(&self) -> &[BlockRecord] {
        &self.blocks
    }

    /// The live block at `addr`, or else the one that was there last.
    pub(super) fn block(&self, addr: u64) -> Option<&BlockRecord> {
        if self.recut
            && let Some(live) = self.blocks.iter().rev().find(|block| block.is_live() && block.contains(addr))
        {
            return Some(live);
        }
        let number = *self.slots.get((addr.wrapping_sub(self.base) >> self.granule_shift) as usize)?;
        self.blocks.get((number as usize).checked_sub(1)?)
    }

    /// Whether the range lies in a live block.
    #[inline]
    pub(super) fn is_in_live_block(&self, addr: u64, len: u64) -> bool {
        let holds = |block: &BlockRecord| block.contains(addr) && len <= block.start + block.size - addr;
        self.block(addr).is_some_and(|block| block.is_live() && holds(block))
    }

    /// The record of the block that begins at `start`.
    pub(super) fn beginning_at(&mut self, start: u64) -> Option<&mut BlockRecord> {
        let number = self.number_of(start)?;
        self.blocks.get_mut(number)
    }

    fn number_of(&self, start: u64) -> Option<usize> {
        if self.recut {
            return self.blocks.iter().position(|block| block.start == start);
        }
        let slot = *self.slots.get((start.wrapping_sub(self.base) >> self.granule_shift) as usize)?;
        let number = (slot as usize).checked_sub(1)?;
        (self.blocks.get(number)?.start == start).then_some(number)
    }

    /// Records that a block of this page was handed out; gives a live block that it overlaps, as it was before.
    pub(super) fn hand_out(&mut self, block: Block, size: u64) -> Option<BlockRecord> {
        match self.number_of(block.dma.0).filter(|_| !self.recut) {
            Some(number) => {
                // No other record shares a byte with it.
                let record = &mut self.blocks[number];
                let before = *record;
                record.take(block.cpu);
                before.is_live().then_some(before)
            }
            None if self.is_untouched(block.dma.0, size) => {
                self.add(block, size);
                None
            }
            None => self.hand_out_slowly(block, size),
        }
    }

    /// Whether the slots tell that no record shares a byte with a block there, and can hold one.
    fn is_untouched(&self, start: u64, size: u64) -> bool {
        let on_grid = (start - self.base).trailing_zeros() >= self.granule_shift;
        !self.recut && on_grid && self.slots[self.granules(start, size)].iter().all(|&slot| slot == 0)
    }

    fn add(&mut self, Block { cpu, dma }: Block, size: u64) {
        self.blocks.push(BlockRecord { start: dma.0, size, cpu, holders: 1, generation: 1, owner: None });
        self.mark(self.blocks.len() - 1);
    }

    fn hand_out_slowly(&mut self, block: Block, size: u64) -> Option<BlockRecord> {
        let Block { cpu, dma: DmaAddr(start) } = block;
        let other = self.blocks.iter().find(|block| block.is_live() && block.overlaps(start, size)).copied();
        match self.blocks.iter().position(|block| block.start == start) {
            Some(number) => {
                self.blocks[number].take(cpu);
                self.mark(number);
            }
            None => {
                self.recut |= self.blocks.iter().any(|block| block.overlaps(start, size));
                let fits = (start - self.base).trailing_zeros();
                if fits < self.granule_shift {
                    self.granule_shift = fits;
                    self.slots = vec![0; (self.len >> fits) as usize];
                    (0..self.blocks.len()).for_each(|number| self.mark(number));
                }
                self.add(block, size);
            }
        }
        other
    }

    fn mark(&mut self, number: usize) {
        let block = &self.blocks[number];
        let granules = self.granules(block.start, block.size);
        self.slots[granules].fill(number as u32 + 1);
    }

    /// The slots of a range within the page.
    const fn granules(&self, start: u64, size: u64) -> RangeInclusive<usize> {
        let first = ((start - self.base) >> self.granule_shift) as usize;
        let last = ((start + size - 1 - self.base) >> self.granule_shift) as usize;
        first..=last
    }
}
