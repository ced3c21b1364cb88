//! What every page of memory is, found in O(1).

use bus::{DmaAddr, Owner};

use crate::api::Direction;
use crate::memory::Span;

pub(super) const FRAME: u64 = 4096;

/// A page that a pool cut into blocks.
pub(super) struct PoolPage {
    pub(super) pool: usize,
    pub(super) base: u64,
    pub(super) len: u64,
    granule_shift: u32,
    /// For every granule the number of its block plus one, 0 if none was ever handed out there.
    slots: Vec<u32>,
    pub(super) blocks: Vec<BlockRecord>,
}

/// A block that was handed out at least once.
#[derive(Clone, Copy)]
pub(super) struct BlockRecord {
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) live: bool,
    pub(super) generation: u32,
    pub(super) owner: Option<Owner>,
}

/// Memory that a driver mapped for a device; coherent memory is bidirectional.
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) direction: Direction,
    /// Claims on parts of it: start, length, owner.
    pub(super) claims: Vec<(u64, u64, Owner)>,
}

enum Frame {
    Nothing,
    /// Number of the pool page in the slab.
    Pool(usize),
    /// Numbers of the mappings that touch the frame.
    Mapped(Vec<usize>),
}

/// What is at an address.
pub(super) enum At<'a> {
    Nothing,
    Pool(&'a PoolPage),
    Mapping(&'a Mapping),
}

pub(super) struct Map {
    /// Base address and frames of every span, by rising address.
    spans: Vec<(u64, Vec<Frame>)>,
    pool_pages: Vec<Option<PoolPage>>,
    mappings: Vec<Option<Mapping>>,
    free_mappings: Vec<usize>,
}

impl PoolPage {
    pub(super) fn new(pool: usize, base: u64, len: u64, granule: u64) -> Self {
        let granule = granule.clamp(1, FRAME);
        let granule_shift = granule.trailing_zeros();
        let slots = vec![0; (len >> granule_shift) as usize];
        Self { pool, base, len, granule_shift, slots, blocks: Vec::new() }
    }

    fn slot(&self, addr: u64) -> Option<usize> {
        let slot = ((addr - self.base) >> self.granule_shift) as usize;
        (slot < self.slots.len()).then_some(slot)
    }

    /// The block at `addr`, if one was ever handed out there.
    pub(super) fn block(&self, addr: u64) -> Option<&BlockRecord> {
        let number = self.slots[self.slot(addr)?];
        self.blocks.get((number as usize).checked_sub(1)?)
    }

    pub(super) fn block_mut(&mut self, addr: u64) -> Option<&mut BlockRecord> {
        let number = self.slots[self.slot(addr)?];
        self.blocks.get_mut((number as usize).checked_sub(1)?)
    }

    /// A live block that overlaps the range.
    pub(super) fn overlapping(&self, start: u64, size: u64) -> Option<&BlockRecord> {
        let first = self.slot(start)?;
        let last = self.slot((start + size - 1).min(self.base + self.len - 1))?;
        self.slots[first..=last]
            .iter()
            .filter_map(|&number| self.blocks.get((number as usize).checked_sub(1)?))
            .find(|block| block.live && block.start < start + size && start < block.start + block.size)
    }

    /// Records that a block was handed out.
    pub(super) fn hand_out(&mut self, start: u64, size: u64) {
        if let Some(block) = self.block_mut(start)
            && block.start == start
            && block.size == size
        {
            block.live = true;
            block.generation += 1;
            block.owner = None;
            return;
        }
        self.blocks.push(BlockRecord { start, size, live: true, generation: 1, owner: None });
        let number = self.blocks.len() as u32;
        let last = (start + size - 1).min(self.base + self.len - 1);
        if let (Some(first), Some(last)) = (self.slot(start), self.slot(last)) {
            self.slots[first..=last].fill(number);
        }
    }
}

impl Map {
    pub(super) fn new(spans: &[Span]) -> Self {
        let frames = |span: &Span| (span.dma.0, (0..span.len / FRAME).map(|_| Frame::Nothing).collect());
        Self {
            spans: spans.iter().map(frames).collect(),
            pool_pages: Vec::new(),
            mappings: Vec::new(),
            free_mappings: Vec::new(),
        }
    }

    fn frame(&self, addr: u64) -> Option<&Frame> {
        self.spans.iter().find_map(|(base, frames)| frames.get((addr.checked_sub(*base)? / FRAME) as usize))
    }

    fn frame_mut(&mut self, addr: u64) -> Option<&mut Frame> {
        self.spans.iter_mut().find_map(|(base, frames)| frames.get_mut((addr.checked_sub(*base)? / FRAME) as usize))
    }

    fn frames_of(start: u64, len: u64) -> impl Iterator<Item = u64> {
        let first = start / FRAME;
        let last = start.saturating_add(len.max(1) - 1) / FRAME;
        (first..=last).map(|frame| frame * FRAME)
    }

    pub(super) fn at(&self, addr: u64) -> At<'_> {
        match self.frame(addr) {
            Some(Frame::Pool(number)) => match &self.pool_pages[*number] {
                Some(page) => At::Pool(page),
                None => At::Nothing,
            },
            Some(Frame::Mapped(numbers)) => numbers
                .iter()
                .filter_map(|&number| self.mappings[number].as_ref())
                .find(|mapping| addr.wrapping_sub(mapping.start) < mapping.len)
                .map_or(At::Nothing, At::Mapping),
            Some(Frame::Nothing) | None => At::Nothing,
        }
    }

    pub(super) fn pool_page_mut(&mut self, addr: u64) -> Option<&mut PoolPage> {
        let Some(&Frame::Pool(number)) = self.frame(addr) else { return None };
        self.pool_pages[number].as_mut()
    }

    pub(super) fn pool_pages(&self) -> impl Iterator<Item = &PoolPage> {
        self.pool_pages.iter().flatten()
    }

    pub(super) fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.mappings.iter().flatten()
    }

    pub(super) fn add_pool_page(&mut self, page: PoolPage) {
        let (base, len) = (page.base, page.len);
        let number = self.pool_pages.iter().position(Option::is_none).unwrap_or(self.pool_pages.len());
        if number == self.pool_pages.len() {
            self.pool_pages.push(None);
        }
        self.pool_pages[number] = Some(page);
        for addr in Self::frames_of(base, len) {
            if let Some(frame) = self.frame_mut(addr) {
                *frame = Frame::Pool(number);
            }
        }
    }

    pub(super) fn remove_pool_page(&mut self, base: DmaAddr) {
        let Some(&Frame::Pool(number)) = self.frame(base.0) else { return };
        let Some(page) = self.pool_pages[number].take() else { return };
        for addr in Self::frames_of(page.base, page.len) {
            if let Some(frame) = self.frame_mut(addr) {
                *frame = Frame::Nothing;
            }
        }
    }

    pub(super) fn add_mapping(&mut self, start: u64, len: u64, direction: Direction) {
        let mapping = Mapping { start, len, direction, claims: Vec::new() };
        let number = match self.free_mappings.pop() {
            Some(number) => {
                self.mappings[number] = Some(mapping);
                number
            }
            None => {
                self.mappings.push(Some(mapping));
                self.mappings.len() - 1
            }
        };
        for addr in Self::frames_of(start, len) {
            match self.frame_mut(addr) {
                Some(Frame::Mapped(numbers)) => numbers.push(number),
                Some(frame @ Frame::Nothing) => *frame = Frame::Mapped(vec![number]),
                Some(Frame::Pool(_)) | None => {}
            }
        }
    }

    /// Removes the mapping that begins at `start`; `None` if there is none.
    pub(super) fn remove_mapping(&mut self, start: u64) -> Option<Mapping> {
        let Some(Frame::Mapped(numbers)) = self.frame(start) else { return None };
        let begins_here = |&&number: &&usize| self.mappings[number].as_ref().is_some_and(|m| m.start == start);
        let number = *numbers.iter().find(begins_here)?;
        let mapping = self.mappings[number].take()?;
        for addr in Self::frames_of(mapping.start, mapping.len) {
            if let Some(Frame::Mapped(numbers)) = self.frame_mut(addr) {
                // The room is kept: buffers come and go in the same frames.
                numbers.retain(|&other| other != number);
            }
        }
        self.free_mappings.push(number);
        Some(mapping)
    }

    pub(super) fn claim_mapping(&mut self, start: u64, len: u64, owner: Owner) -> bool {
        let Some(Frame::Mapped(numbers)) = self.frame(start) else { return false };
        let within =
            |&&number: &&usize| self.mappings[number].as_ref().is_some_and(|m| start.wrapping_sub(m.start) < m.len);
        let Some(&number) = numbers.iter().find(within) else { return false };
        let Some(mapping) = self.mappings[number].as_mut() else { return false };
        mapping.claims.retain(|&(claimed, _, _)| claimed != start);
        mapping.claims.push((start, len, owner));
        true
    }
}
