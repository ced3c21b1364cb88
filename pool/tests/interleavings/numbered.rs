//! The least pool around the core: numbers, their states, and the memory that they stand for.

use super::core::{Cache, Stack, State};
use super::sync::Memory;

pub(super) struct Pool {
    stack: Stack,
    /// Whether threads keep numbers.
    caches: bool,
    total: usize,
    blocks: Vec<(State, Memory)>,
}

impl Pool {
    /// `count` blocks, of `most` that there will be; a thread keeps `keep` of them.
    pub(super) fn new(count: u32, most: u32, keep: Option<usize>) -> Self {
        let stack = Stack::new(keep.unwrap_or(0));
        stack.add((0..count).rev(), count as usize);
        let blocks = (0..most).map(|_| (State::free(), Memory::default())).collect();
        Self { stack, caches: keep.is_some(), total: most as usize, blocks }
    }

    /// What a thread needs to call it.
    pub(super) fn cache(&self) -> Option<Cache> {
        self.caches.then(Cache::default)
    }

    pub(super) fn alloc(&self, cache: Option<&Cache>) -> Option<u32> {
        let number = self.stack.take(cache)?;
        let (state, memory) = &self.blocks[number as usize];
        state.hand_out();
        memory.used();
        Some(number)
    }

    pub(super) fn free(&self, cache: Option<&Cache>, number: u32) -> bool {
        self.blocks[number as usize].1.used();
        self.free_again(cache, number)
    }

    /// A free by one who may not have the block.
    pub(super) fn free_again(&self, cache: Option<&Cache>, number: u32) -> bool {
        self.stack.give(cache, &self.blocks[number as usize].0, number)
    }

    /// More blocks, as a fresh page brings them.
    pub(super) fn grow(&self, numbers: std::ops::Range<u32>) {
        self.stack.add(numbers.rev(), self.total);
    }

    /// Every number that can be had by these caches, one after the other, when no thread is at work any more: sorted.
    pub(super) fn in_reach(&self, Caches(caches): &Caches) -> Vec<u32> {
        let mut numbers: Vec<u32> = std::iter::from_fn(|| self.stack.take(None)).collect();
        numbers.extend(caches.iter().flat_map(|cache| std::iter::from_fn(|| self.stack.take(Some(cache)))));
        numbers.sort_unstable();
        numbers
    }
}

/// What threads kept when they ended.
pub(super) struct Caches(Vec<Cache>);

impl Caches {
    pub(super) fn of(caches: impl IntoIterator<Item = Option<Cache>>) -> Self {
        Self(caches.into_iter().flatten().collect())
    }
}
