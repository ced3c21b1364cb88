//! The pages of a pool, found by number and by address without a lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use bus::{CpuAddr, DmaAddr};
use parking_lot::Mutex;

use super::core::State;
use crate::page::Pages;

/// Pages of the first segment; each further one has twice as many.
const FIRST_SEGMENT: u32 = 8;
/// Tables have a length of 2 to their generation.
const FIRST_TABLE: usize = 4;

/// Pages only come, until the pool goes: who looks one up needs no lock.
pub(super) struct Directory {
    frame_shift: u32,
    frame_len: u64,
    slot_bits: u32,
    /// By generation, open addressing, at most half full: number and 1 of the page whose first frame it is. One that became
    /// too small stays, as somebody may be reading it; all of them together are smaller than the one in use.
    tables: [OnceLock<Box<[AtomicU32]>>; 32],
    generation: AtomicUsize,
    segments: [OnceLock<Segment>; 32],
    given: Mutex<Vec<Pages>>,
}

/// Places for pages, which are filled one by one.
struct Segment {
    places: Box<[Place]>,
    /// By place and slot.
    states: Box<[State]>,
}

#[derive(Default)]
struct Place {
    cpu: AtomicU64,
    dma: AtomicU64,
}

/// A page that was found, and where in its segment it is.
#[derive(Clone, Copy)]
pub(super) struct Page<'a> {
    segment: &'a Segment,
    index: usize,
    place: &'a Place,
    slot_bits: u32,
}

impl<'a> Page<'a> {
    #[inline]
    pub(super) fn cpu(self) -> CpuAddr {
        CpuAddr(self.place.cpu.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn dma(self) -> DmaAddr {
        DmaAddr(self.place.dma.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn state(self, slot: usize) -> Option<&'a State> {
        self.segment.states.get(self.index << self.slot_bits | slot)
    }
}

impl Directory {
    pub(super) fn new(frame_shift: u32, slot_bits: u32) -> Self {
        Self {
            frame_shift,
            frame_len: 1 << frame_shift,
            slot_bits,
            tables: [const { OnceLock::new() }; _],
            generation: AtomicUsize::new(FIRST_TABLE),
            segments: [const { OnceLock::new() }; _],
            given: Mutex::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.given.lock().len()
    }

    /// All pages, as the source gave them.
    pub(super) fn pages(&self) -> Vec<Pages> {
        self.given.lock().clone()
    }

    /// The segment of a page, and its place there.
    #[inline]
    const fn split(number: u32) -> (usize, usize) {
        let at = number as u64 + FIRST_SEGMENT as u64;
        let level = at.ilog2();
        ((level - FIRST_SEGMENT.ilog2()) as usize, (at ^ 1 << level) as usize)
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<Page<'_>> {
        let (segment, index) = Self::split(number);
        let segment = self.segments[segment & 31].get()?;
        Some(Page { segment, index, place: segment.places.get(index)?, slot_bits: self.slot_bits })
    }

    /// The page whose first frame an address is in, its number, and the offset in it.
    #[inline]
    pub(super) fn find(&self, dma: DmaAddr) -> Option<(u32, Page<'_>, u64)> {
        let generation = self.generation.load(Ordering::Acquire);
        let table = self.tables[generation & 31].get()?;
        let mut at = self.home(dma, generation);
        loop {
            let number = table.get(at)?.load(Ordering::Acquire).checked_sub(1)?;
            let page = self.get(number)?;
            let offset = dma.0.wrapping_sub(page.dma().0);
            if offset < self.frame_len {
                return Some((number, page, offset));
            }
            at = (at + 1) & (table.len() - 1);
        }
    }

    /// Any page that an address is in, and the offset in it: a look at each.
    pub(super) fn search(&self, dma: DmaAddr) -> Option<(Pages, u64)> {
        let within = |pages: &Pages| dma.0.checked_sub(pages.dma.0).filter(|&offset| offset < pages.len);
        self.given.lock().iter().find_map(|pages| Some((*pages, within(pages)?)))
    }

    /// Fibonacci hashing: the top bits.
    #[inline]
    fn home(&self, dma: DmaAddr, generation: usize) -> usize {
        let spread = (dma.0 >> self.frame_shift).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (spread >> ((u64::BITS as usize - generation) & 63)) as usize
    }

    /// Takes pages over as one page of the pool. Gives its number, and how many there are then.
    ///
    /// # Errors
    /// There are so many that a block's number would not have 32 bits.
    pub(super) fn add(&self, pages: Pages) -> Result<(u32, usize), TooMany> {
        let mut given = self.given.lock();
        let most = (u32::MAX >> self.slot_bits) - FIRST_SEGMENT;
        let number = u32::try_from(given.len()).ok().filter(|&number| number < most).ok_or(TooMany(most))?;
        let (segment, index) = Self::split(number);
        let segment = self.segments[segment].get_or_init(|| {
            let places = (FIRST_SEGMENT as usize) << segment;
            let states = (0..places << self.slot_bits).map(|_| State::free()).collect();
            Segment { places: (0..places).map(|_| Place::default()).collect(), states }
        });
        segment.places[index].cpu.store(pages.cpu.0, Ordering::Relaxed);
        segment.places[index].dma.store(pages.dma.0, Ordering::Relaxed);
        given.push(pages);

        let mut generation = self.generation.load(Ordering::Relaxed);
        if given.len() * 2 > 1 << generation {
            generation += 1;
        }
        match self.tables[generation].get() {
            Some(table) => self.place(table, generation, pages.dma, number),
            None => {
                let table: Box<[AtomicU32]> = (0..1_usize << generation).map(|_| AtomicU32::new(0)).collect();
                given.iter().zip(0..).for_each(|(pages, number)| self.place(&table, generation, pages.dma, number));
                self.tables[generation].get_or_init(|| table);
                self.generation.store(generation, Ordering::Release);
            }
        }
        Ok((number, given.len()))
    }

    fn place(&self, table: &[AtomicU32], generation: usize, dma: DmaAddr, number: u32) {
        let home = self.home(dma, generation);
        let mut probes = (home..table.len()).chain(0..home);
        // At least half of the table is empty.
        if let Some(at) = probes.find(|&at| table[at].load(Ordering::Relaxed) == 0) {
            // Who finds the page finds its addresses too.
            table[at].store(number + 1, Ordering::Release);
        }
    }
}

/// A pool has at most that many pages.
#[derive(Debug)]
pub(super) struct TooMany(pub(super) u32);
