//! What every page of memory is, found in O(1).

use std::collections::HashMap;

use bus::{AccessKind, DmaAddr, Owner};

use super::buffers::{Buffer, Buffers};
use super::pool_page::PoolPage;
use crate::api::Direction;
use crate::memory::Span;

pub(super) const FRAME: u64 = 4096;

/// Memory that a driver mapped for a device; coherent memory is bidirectional.
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) direction: Direction,
    /// Claims on parts of it, none overlapping another: start, length, owner.
    pub(super) claims: Vec<(u64, u64, Owner)>,
}

impl Mapping {
    pub(super) const fn contains(&self, addr: u64) -> bool {
        addr.wrapping_sub(self.start) < self.len
    }
}

/// What a frame of memory is. A driver can map what lies in a pool's page, and map one frame many times.
#[derive(Default)]
struct Frame {
    /// Number of the pool page in the slab plus one, 0 for none.
    pool_page: u32,
    /// Numbers of the mappings that touch the frame, the oldest first.
    mappings: Vec<u32>,
    buffers: Option<Box<Buffers>>,
}

/// What is at an address.
pub(super) enum At<'a> {
    Nothing,
    Pool(&'a PoolPage),
    Mapping(&'a Mapping),
}

pub(super) struct Map {
    /// Base address and frames of every span, by rising address.
    spans: Vec<(u64, Frames)>,
    /// Frames outside of them, by their number: of a log that tells addresses and has no memory. Only pages of pools.
    elsewhere: HashMap<u64, Frame>,
    pool_pages: Slots<PoolPage>,
    mappings: Slots<Mapping>,
}

/// The frames of a span. Those that nothing ever lay in are not there: a memory has thousands, a run uses a few.
struct Frames {
    count: usize,
    /// Frame n is number n % [`CHUNK`] of chunk n / [`CHUNK`].
    chunks: Vec<Option<Box<[Frame; CHUNK]>>>,
}

/// Frames that come together.
const CHUNK: usize = 32;

impl Frames {
    fn new(count: usize) -> Self {
        Self { count, chunks: std::iter::repeat_with(|| None).take(count.div_ceil(CHUNK)).collect() }
    }

    fn get(&self, number: usize) -> Option<&Frame> {
        let chunk = self.chunks.get(number / CHUNK)?.as_deref()?;
        (number < self.count).then(|| &chunk[number % CHUNK])
    }

    /// These frames, which are there from now on.
    fn range_mut(&mut self, from: usize, to: usize) -> impl Iterator<Item = &mut Frame> {
        let to = to.min(self.count);
        let chunks = (0..).zip(&mut self.chunks).take(to.div_ceil(CHUNK)).skip(from / CHUNK);
        chunks.filter(move |_| from < to).flat_map(move |(number, chunk)| {
            let chunk = chunk.get_or_insert_with(|| Box::new(std::array::from_fn(|_| Frame::default())));
            let begin = number * CHUNK;
            &mut chunk[from.saturating_sub(begin)..(to - begin).min(CHUNK)]
        })
    }

    /// All that are there.
    fn iter(&self) -> impl Iterator<Item = &Frame> {
        self.chunks.iter().flatten().flat_map(|chunk| chunk.iter())
    }
}

/// Numbered things; numbers are used again.
struct Slots<T> {
    things: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    const fn new() -> Self {
        Self { things: Vec::new(), free: Vec::new() }
    }

    fn get(&self, number: u32) -> Option<&T> {
        self.things.get(number as usize)?.as_ref()
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.things.get_mut(number as usize)?.as_mut()
    }

    fn insert(&mut self, thing: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.things[number as usize] = Some(thing);
                number
            }
            None => {
                self.things.push(Some(thing));
                self.things.len() as u32 - 1
            }
        }
    }

    fn remove(&mut self, number: u32) -> Option<T> {
        let thing = self.things.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(thing)
    }
}

impl Map {
    pub(super) fn new(spans: &[Span]) -> Self {
        let frames = |span: &Span| (span.dma.0, Frames::new((span.len / FRAME) as usize));
        Self {
            spans: spans.iter().map(frames).collect(),
            elsewhere: HashMap::new(),
            pool_pages: Slots::new(),
            mappings: Slots::new(),
        }
    }

    /// Room that is held for pool pages and mappings.
    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.pool_pages.things.len() + self.mappings.things.len()
    }

    /// The frame of an address; `None` if nothing ever lay there.
    fn frame(&self, addr: u64) -> Option<&Frame> {
        let in_memory =
            self.spans.iter().find_map(|(base, frames)| frames.get((addr.checked_sub(*base)? / FRAME) as usize));
        in_memory.or_else(|| self.elsewhere.get(&(addr / FRAME)))
    }

    /// The frames of a range, as far as there is memory.
    fn frames_mut(&mut self, start: u64, len: u64) -> impl Iterator<Item = &mut Frame> {
        let last = start.saturating_add(len.max(1) - 1);
        self.spans.iter_mut().flat_map(move |(base, frames)| {
            let from = (start.saturating_sub(*base) / FRAME) as usize;
            let to = last.checked_sub(*base).map_or(0, |offset| (offset / FRAME) as usize + 1);
            frames.range_mut(from, to)
        })
    }

    /// What a device finds at an address: of several mappings one that allows the access.
    pub(super) fn at(&self, addr: u64, kind: AccessKind) -> At<'_> {
        let Some(frame) = self.frame(addr) else { return At::Nothing };
        if let Some(page) = self.pool_page_in(frame, addr) {
            return At::Pool(page);
        }
        let mut other = At::Nothing;
        for mapping in self.mappings_in(frame).filter(|mapping| mapping.contains(addr)) {
            if mapping.direction.allows(kind) {
                return At::Mapping(mapping);
            }
            other = At::Mapping(mapping);
        }
        other
    }

    fn mappings_in<'a>(&'a self, frame: &'a Frame) -> impl DoubleEndedIterator<Item = &'a Mapping> {
        frame.mappings.iter().filter_map(|&number| self.mappings.get(number))
    }

    /// The page of a pool that an address is in.
    pub(super) fn pool_page(&self, addr: u64) -> Option<&PoolPage> {
        self.pool_page_in(self.frame(addr)?, addr)
    }

    /// A source may give less than a frame: not all of a frame need be the page's.
    fn pool_page_in(&self, frame: &Frame, addr: u64) -> Option<&PoolPage> {
        self.pool_pages.get(frame.pool_page.checked_sub(1)?).filter(|page| page.holds(addr, 1))
    }

    pub(super) fn pool_page_mut(&mut self, addr: u64) -> Option<&mut PoolPage> {
        let number = self.frame(addr)?.pool_page.checked_sub(1)?;
        self.pool_pages.get_mut(number).filter(|page| page.holds(addr, 1))
    }

    pub(super) fn pool_pages(&self) -> impl Iterator<Item = &PoolPage> {
        self.pool_pages.things.iter().flatten()
    }

    /// The mappings that an address is in.
    pub(super) fn mappings_at(&self, addr: u64) -> impl Iterator<Item = &Mapping> {
        let frame = self.frame(addr).into_iter();
        frame.flat_map(|frame| self.mappings_in(frame)).filter(move |mapping| mapping.contains(addr))
    }

    pub(super) fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.mappings.things.iter().flatten()
    }

    pub(super) fn add_pool_page(&mut self, page: PoolPage) {
        let (base, len) = (page.base, page.len);
        let number = self.pool_pages.insert(page);
        self.frames_mut(base, len).for_each(|frame| frame.pool_page = number + 1);
    }

    /// Adds a page that no memory need stand behind. What lies in its frames already stays.
    pub(super) fn add_observed_page(&mut self, page: PoolPage) {
        let (first, last) = (page.base / FRAME, (page.base + (page.len - 1)) / FRAME);
        let number = self.pool_pages.insert(page);
        (first..=last).for_each(|frame| self.elsewhere.entry(frame).or_default().pool_page = number + 1);
    }

    /// Removes those pages that [`Map::add_observed_page`] added.
    pub(super) fn remove_observed_pages(&mut self, those: impl Fn(&PoolPage) -> bool) {
        let bases: Vec<u64> = self.pool_pages().filter(|page| those(page)).map(|page| page.base).collect();
        for base in bases {
            if let Some(page) = self.remove_pool_page(DmaAddr(base)) {
                let (first, last) = (page.base / FRAME, (page.base + (page.len - 1)) / FRAME);
                (first..=last).for_each(|frame| drop(self.elsewhere.remove(&frame)));
            }
        }
    }

    pub(super) fn remove_pool_page(&mut self, base: DmaAddr) -> Option<PoolPage> {
        let number = self.frame(base.0)?.pool_page.checked_sub(1)?;
        let page = self.pool_pages.remove(number)?;
        self.frames_mut(page.base, page.len)
            .filter(|frame| frame.pool_page == number + 1)
            .for_each(|frame| frame.pool_page = 0);
        Some(page)
    }

    /// Whether the range begins in a frame where it lies in one live block, one buffer or one mapping, found at once.
    #[inline]
    pub(super) fn is_one_object(&self, addr: u64, len: u64) -> bool {
        let Some(frame) = self.frame(addr) else { return false };
        if let Some(number) = frame.pool_page.checked_sub(1) {
            return self.pool_pages.get(number).is_some_and(|page| page.is_in_live_block(addr, len));
        }
        let offset = addr % FRAME;
        let part = len.min(FRAME - offset);
        match frame.buffers.as_deref().map_or(Buffer::None, |buffers| buffers.at(offset, part, false)) {
            Buffer::Live => part == len,
            Buffer::EndsAfter(_) => false,
            Buffer::None | Buffer::Freed => self
                .mappings_in(frame)
                .any(|mapping| mapping.contains(addr) && len <= mapping.len - (addr - mapping.start)),
        }
    }

    /// What `len` bytes in one frame are to a slab; `inside`: the bytes before them are in a live buffer.
    pub(super) fn buffer(&self, addr: u64, len: u64, inside: bool) -> Buffer {
        match self.frame(addr).and_then(|frame| frame.buffers.as_deref()) {
            Some(buffers) => buffers.at(addr % FRAME, len, inside),
            None if inside => Buffer::EndsAfter(0),
            None => Buffer::None,
        }
    }

    /// Records that a slab gave a buffer.
    pub(super) fn add_buffer(&mut self, start: u64, len: u64) {
        self.buffers_mut(start, len, |buffers, offset, len, begins| buffers.give(offset, len, begins));
    }

    /// Records that a buffer was freed, and whether its memory stays the slab's.
    pub(super) fn remove_buffer(&mut self, start: u64, len: u64, stays: bool) {
        self.buffers_mut(start, len, |buffers, offset, len, _| buffers.take_back(offset, len, stays));
    }

    /// Buffers of slabs that are in use.
    pub(super) fn live_buffers(&self) -> usize {
        let frames = self.spans.iter().flat_map(|(_, frames)| frames.iter());
        frames.filter_map(|frame| frame.buffers.as_deref()).map(Buffers::live).sum()
    }

    /// Every frame of a buffer: the offset and length of the buffer's part in it, and whether that is its begin.
    fn buffers_mut(&mut self, start: u64, len: u64, mut each: impl FnMut(&mut Buffers, u64, u64, bool)) {
        let (mut at, mut left) = (start, len);
        for frame in self.frames_mut(start, len) {
            let part = left.min(FRAME - at % FRAME);
            each(frame.buffers.get_or_insert_default(), at % FRAME, part, at == start);
            at += part;
            left -= part;
        }
    }

    pub(super) fn add_mapping(&mut self, start: u64, len: u64, direction: Direction) {
        // Up to the end of addresses at most, so that the sum of the two is one.
        let len = len.min(u64::MAX - start);
        let number = self.mappings.insert(Mapping { start, len, direction, claims: Vec::new() });
        self.frames_mut(start, len).for_each(|frame| frame.mappings.push(number));
    }

    /// Removes the newest mapping that begins at `start`; `None` if there is none.
    pub(super) fn remove_mapping(&mut self, start: u64) -> Option<Mapping> {
        let begins = |number: &u32| self.mappings.get(*number).is_some_and(|mapping| mapping.start == start);
        let number = match self.frame(start) {
            Some(frame) => frame.mappings.iter().rev().copied().find(begins)?,
            // What no memory stands behind is in no frame.
            None => (0..self.mappings.things.len() as u32).rev().find(begins)?,
        };
        let mapping = self.mappings.remove(number)?;
        // The room is kept: buffers come and go in the same frames.
        self.frames_mut(mapping.start, mapping.len).for_each(|frame| frame.mappings.retain(|&other| other != number));
        Some(mapping)
    }

    /// Puts a claim on part of the newest mapping that has room for it, in place of what it overlaps.
    pub(super) fn claim_mapping(&mut self, start: u64, len: u64, owner: Owner) -> bool {
        let Some(frame) = self.frame(start) else { return false };
        let fits = |mapping: &Mapping| mapping.contains(start) && len <= mapping.len - (start - mapping.start);
        let number = frame.mappings.iter().rev().copied().find(|&number| self.mappings.get(number).is_some_and(fits));
        let Some(mapping) = number.and_then(|number| self.mappings.get_mut(number)) else { return false };
        mapping.claims.retain(|&(claimed, claimed_len, _)| claimed + claimed_len <= start || start + len <= claimed);
        mapping.claims.push((start, len, owner));
        true
    }
}
