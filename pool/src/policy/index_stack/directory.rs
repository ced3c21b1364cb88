//! The pages of a pool, found by number and by address without a lock.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bus::{CpuAddr, DmaAddr};
use parking_lot::Mutex;

use super::core::State;
use crate::page::Pages;

/// An index has room for 2 to its generation of pages.
const FIRST: usize = 3;

/// Pages only come, until the pool goes: who looks one up needs no lock.
pub(super) struct Directory {
    frame_shift: u32,
    frame_len: u64,
    slots: usize,
    /// Of the index in use.
    generation: AtomicUsize,
    /// By generation. One that became too small stays, as somebody may be reading it; all of them together are smaller than
    /// the one in use.
    indices: [OnceLock<Index>; 32],
    given: Mutex<Vec<Pages>>,
}

struct Index {
    /// By the page's first frame: open addressing, half full at most.
    by_frame: Box<[Page]>,
    by_number: Box<[Page]>,
    /// Of a hash, so that the top bits are left.
    shift: u32,
}

/// A page, or a place for one. A page has several: what is looked up is there, and not behind one more pointer.
#[derive(Default)]
pub(super) struct Page {
    /// Its number and 1; 0 where no page is yet.
    entry: AtomicU32,
    cpu: AtomicU64,
    dma: AtomicU64,
    states: OnceLock<Arc<[State]>>,
}

impl Page {
    #[inline]
    pub(super) fn cpu(&self) -> CpuAddr {
        CpuAddr(self.cpu.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn dma(&self) -> DmaAddr {
        DmaAddr(self.dma.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn state(&self, slot: usize) -> Option<&State> {
        self.states.get()?.get(slot)
    }

    /// Makes this the page `number`, at `pages`.
    fn set(&self, number: u32, pages: &Pages, states: &Arc<[State]>) {
        self.cpu.store(pages.cpu.0, Ordering::Relaxed);
        self.dma.store(pages.dma.0, Ordering::Relaxed);
        self.states.get_or_init(|| Arc::clone(states));
        // Who finds the page finds all of it.
        self.entry.store(number + 1, Ordering::Release);
    }
}

impl Index {
    fn new(generation: usize) -> Self {
        let len = 1_usize << generation;
        Self {
            by_frame: (0..2 * len).map(|_| Page::default()).collect(),
            by_number: (0..len).map(|_| Page::default()).collect(),
            shift: u64::BITS - 1 - generation as u32,
        }
    }

    /// Fibonacci hashing: the top bits.
    #[inline]
    fn home(&self, frame: u64) -> usize {
        (frame.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (self.shift & 63)) as usize
    }

    fn add(&self, number: u32, pages: &Pages, frame: u64, states: &Arc<[State]>) {
        self.by_number[number as usize].set(number, pages, states);
        let home = self.home(frame);
        let mut probes = (home..self.by_frame.len()).chain(0..home).map(|at| &self.by_frame[at]);
        // At least half of them are empty.
        if let Some(place) = probes.find(|place| place.entry.load(Ordering::Relaxed) == 0) {
            place.set(number, pages, states);
        }
    }
}

impl Directory {
    /// For pages of so many slots.
    pub(super) fn new(frame_shift: u32, slots: usize) -> Self {
        let indices = [const { OnceLock::new() }; _];
        indices[FIRST].get_or_init(|| Index::new(FIRST));
        Self {
            frame_shift,
            frame_len: 1 << frame_shift,
            slots,
            generation: AtomicUsize::new(FIRST),
            indices,
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

    #[inline]
    fn index(&self) -> Option<&Index> {
        // The mask leaves any generation as it is, and an index in bounds without a look.
        self.indices[self.generation.load(Ordering::Acquire) & 31].get()
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&Page> {
        self.index()?.by_number.get(number as usize)
    }

    /// The page whose first frame an address is in, its number, and the offset in it.
    #[inline(always)]
    pub(super) fn find(&self, dma: DmaAddr) -> Option<(u32, &Page, u64)> {
        let index = self.index()?;
        let mut at = index.home(dma.0 >> self.frame_shift);
        loop {
            let page = index.by_frame.get(at)?;
            let number = page.entry.load(Ordering::Acquire).checked_sub(1)?;
            let offset = dma.0.wrapping_sub(page.dma().0);
            if offset < self.frame_len {
                return Some((number, page, offset));
            }
            at = (at + 1) & (index.by_frame.len() - 1);
        }
    }

    /// Any page that an address is in, and the offset in it: a look at each.
    pub(super) fn search(&self, dma: DmaAddr) -> Option<(Pages, u64)> {
        let within = |pages: &Pages| dma.0.checked_sub(pages.dma.0).filter(|&offset| offset < pages.len);
        self.given.lock().iter().find_map(|pages| Some((*pages, within(pages)?)))
    }

    /// Takes pages over as one page of the pool, unless there are `most`. Gives its number, and how many there are then.
    pub(super) fn add(&self, pages: Pages, most: u32) -> Option<(u32, usize)> {
        let mut given = self.given.lock();
        let number = u32::try_from(given.len()).ok().filter(|&number| number < most)?;
        given.push(pages);
        let generation = self.generation.load(Ordering::Relaxed);
        if given.len() > 1 << generation {
            let (smaller, larger) = (self.index()?, Index::new(generation + 1));
            for ((pages, page), number) in given.iter().zip(&smaller.by_number).zip(0..) {
                larger.add(number, pages, pages.dma.0 >> self.frame_shift, page.states.get()?);
            }
            self.indices[generation + 1].get_or_init(|| larger);
            self.generation.store(generation + 1, Ordering::Release);
        }
        let states = (0..self.slots).map(|_| State::free()).collect();
        self.index()?.add(number, &pages, pages.dma.0 >> self.frame_shift, &states);
        Some((number, given.len()))
    }
}
