//! `shuffle:SEED`: nothing that a client could get used to.
//!
//! Behind every block a place stays unused. A fresh page is handed out in an order by the seed that never rises twice in a
//! row, and no block comes after its neighbour, as long as there is another one. The seed decides too what becomes of
//! freed blocks: they come again at once, so that a late access hits the next holder, or only when every other block is in
//! use or was freed before, so that nobody finds what it left.

use std::collections::{BTreeSet, VecDeque};

use bus::DmaAddr;

use super::checked::{Checked, From, Order, Places, SMALLEST};
use crate::page::split_mix;
use crate::policy::Policy;
use crate::pool::{Block, Layout, Metadata};

pub(super) const NAME: &str = "shuffle";
pub(super) const ABOUT: &str =
    "hostile: no order, no neighbours, a gap behind each block, reuse at once or as late as can be; 0 without SEED";

pub(super) fn policy(seed: u64) -> Policy {
    let about = match Reuse::by(seed) {
        Reuse::AtOnce => "hostile: no order, no neighbours, a gap behind each block, reuse at once",
        Reuse::Late => "hostile: no order, no neighbours, a gap behind each block, reuse as late as can be",
    };
    Policy::new(format!("{NAME}:{seed}"), about, Metadata::OutOfBand, SMALLEST, move |memory, source, geometry| {
        let places = (Places::Apart, From::Anywhere);
        Ok(Box::new(Checked::new(memory, source, geometry, places, |layout| Shuffled::new(seed, layout))?))
    })
}

/// When a freed block comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reuse {
    /// Before any other.
    AtOnce,
    /// After every other.
    Late,
}

impl Reuse {
    fn by(seed: u64) -> Self {
        if split_mix(&mut { seed }) & 1 == 0 { Self::AtOnce } else { Self::Late }
    }
}

struct Shuffled {
    random: u64,
    reuse: Reuse,
    size: u64,
    fresh: Vec<Block>,
    /// The last freed is the last.
    freed: VecDeque<Block>,
    /// All of them by address.
    free: BTreeSet<DmaAddr>,
    last: Option<DmaAddr>,
    /// The last block lay above the one before.
    rose: bool,
}

/// Where a block was found.
enum Found {
    Fresh(usize),
    Freed(usize),
}

impl Shuffled {
    fn new(seed: u64, layout: Layout) -> Self {
        let (fresh, freed, free) = (Vec::new(), VecDeque::new(), BTreeSet::new());
        Self { random: seed, reuse: Reuse::by(seed), size: layout.size, fresh, freed, free, last: None, rose: false }
    }

    fn is_neighbour(&self, block: &Block) -> bool {
        self.last.is_some_and(|last| block.dma.0.abs_diff(last.0) <= self.size)
    }

    fn rises(&self, block: &Block) -> bool {
        self.last.is_some_and(|last| block.dma > last)
    }

    /// The lowest of several free blocks: who rises to it has to rise again.
    fn lowest(&self) -> Option<DmaAddr> {
        self.free.first().copied().filter(|_| self.free.len() > 1)
    }

    /// A block that will do: a fresh one by chance, of the freed ones that whose turn it is.
    fn find(&self, start: usize, will_do: impl Fn(&Block) -> bool) -> Option<Found> {
        let count = self.fresh.len();
        let mut by_chance = (0..count).map(|i| (start + i) % count);
        let mut fresh = || by_chance.find(|&index| will_do(&self.fresh[index])).map(Found::Fresh);
        let mut freed = self.freed.iter();
        match self.reuse {
            Reuse::AtOnce => freed.rposition(&will_do).map(Found::Freed).or_else(fresh),
            Reuse::Late => fresh().or_else(|| freed.position(&will_do).map(Found::Freed)),
        }
    }
}

impl Order for Shuffled {
    fn add(&mut self, blocks: impl DoubleEndedIterator<Item = Block>) {
        let known = self.fresh.len();
        self.fresh.extend(blocks);
        self.free.extend(self.fresh[known..].iter().map(|block| block.dma));
    }

    fn put(&mut self, block: Block) {
        self.free.insert(block.dma);
        self.freed.push_back(block);
    }

    fn next(&mut self) -> Option<Block> {
        let start = (split_mix(&mut self.random) % self.fresh.len().max(1) as u64) as usize;
        let lowest = self.lowest();
        let rises_twice = |block: &Block| self.rises(block) && (self.rose || Some(block.dma) == lowest);
        let found = self
            .find(start, |block| !self.is_neighbour(block) && !rises_twice(block))
            .or_else(|| self.find(start, |block| !self.is_neighbour(block)))
            .or_else(|| self.find(start, |_| true))?;
        let block = match found {
            Found::Fresh(index) => self.fresh.swap_remove(index),
            Found::Freed(index) => self.freed.remove(index)?,
        };
        self.free.remove(&block.dma);
        self.rose = self.rises(&block);
        self.last = Some(block.dma);
        Some(block)
    }

    fn clear(&mut self) {
        self.fresh.clear();
        self.freed.clear();
        self.free.clear();
    }
}
