//! The pages of a pool, found by number and by address without a lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use bus::DmaAddr;
use parking_lot::Mutex;

use super::core::State;
use crate::page::Pages;

/// A page, and by slot whether the block there is in use.
pub(super) struct Page {
    pub(super) pages: Pages,
    pub(super) states: Box<[State]>,
}

/// Pages only come, until the pool goes: who looks one up needs no lock.
pub(super) struct Directory {
    frame_shift: u32,
    frame_len: u64,
    pages: boxcar::Vec<Page>,
    /// Generation of the table in use; its length is 2 to that power.
    generation: AtomicUsize,
    /// By generation, open addressing, at most half full: number and 1 of the page whose first frame it is. One that became
    /// too small stays, as somebody may be reading it; all of them together are smaller than the one in use.
    by_frame: [OnceLock<Box<[AtomicU32]>>; u32::BITS as usize],
    adding: Mutex<()>,
}

const FIRST_GENERATION: usize = 4;

impl Directory {
    pub(super) fn new(frame_shift: u32) -> Self {
        Self {
            frame_shift,
            frame_len: 1 << frame_shift,
            pages: boxcar::Vec::new(),
            generation: AtomicUsize::new(FIRST_GENERATION),
            by_frame: [const { OnceLock::new() }; _],
            adding: Mutex::new(()),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.pages.count()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Page> {
        self.pages.iter().map(|(_, page)| page)
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&Page> {
        self.pages.get(number as usize)
    }

    /// The page whose first frame an address is in, its number, and the offset in it.
    #[inline]
    pub(super) fn find(&self, dma: DmaAddr) -> Option<(u32, &Page, u64)> {
        let generation = self.generation.load(Ordering::Acquire);
        let table = self.by_frame.get(generation)?.get()?;
        let mut at = self.home(dma, generation);
        loop {
            let number = table[at & (table.len() - 1)].load(Ordering::Acquire).checked_sub(1)?;
            let page = self.get(number)?;
            let offset = dma.0.wrapping_sub(page.pages.dma.0);
            if offset < self.frame_len {
                return Some((number, page, offset));
            }
            at += 1;
        }
    }

    /// Any page that an address is in, and the offset in it: a look at each.
    pub(super) fn search(&self, dma: DmaAddr) -> Option<(&Page, u64)> {
        let within = |page: &Page| dma.0.checked_sub(page.pages.dma.0).filter(|&offset| offset < page.pages.len);
        self.iter().find_map(|page| Some((page, within(page)?)))
    }

    /// Fibonacci hashing: the top bits.
    fn home(&self, dma: DmaAddr, generation: usize) -> usize {
        ((dma.0 >> self.frame_shift).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS as usize - generation)) as usize
    }

    /// Takes a page over and says its number; `most` is one more than the highest.
    ///
    /// # Errors
    /// The page, if there are that many.
    pub(super) fn add(&self, page: Page, most: u32) -> Result<u32, Page> {
        let adding = self.adding.lock();
        let (number, dma) = (self.pages.count() as u32, page.pages.dma);
        if number >= most {
            return Err(page);
        }
        let mut generation = self.generation.load(Ordering::Relaxed);
        if (number as usize + 1) * 2 > 1 << generation {
            generation += 1;
        }
        let table = self.by_frame[generation].get_or_init(|| {
            let table: Box<[AtomicU32]> = (0..1_usize << generation).map(|_| AtomicU32::new(0)).collect();
            let known = self.iter().zip(1..);
            known.for_each(|(page, number)| self.place(&table, generation, page.pages.dma, number));
            table
        });
        self.pages.push(page);
        self.place(table, generation, dma, number + 1);
        self.generation.store(generation, Ordering::Release);
        drop(adding);
        Ok(number)
    }

    fn place(&self, table: &[AtomicU32], generation: usize, dma: DmaAddr, entry: u32) {
        let home = self.home(dma, generation);
        let mut probes = (home..table.len()).chain(0..home);
        // At least half of the table is empty.
        if let Some(at) = probes.find(|&at| table[at].load(Ordering::Relaxed) == 0) {
            table[at].store(entry, Ordering::Release);
        }
    }
}
