//! The free numbers, and who may have them: all that threads race for.

use super::sync::{AtomicU8, AtomicU32, Lock, Ordering};

/// Numbers that a thread keeps at most.
pub(super) const MOST_KEPT: usize = 56;

/// Whether a block is in use.
#[derive(Debug)]
pub(super) struct State(AtomicU8);

const FREE: u8 = 0;
const IN_USE: u8 = 1;

impl State {
    pub(super) fn free() -> Self {
        Self(AtomicU8::new(FREE))
    }

    /// Of a block that was taken from the stack: until the caller has it, nobody else changes it.
    pub(super) fn hand_out(&self) {
        self.0.store(IN_USE, Ordering::Relaxed);
    }

    /// Whether it was in use. Of several threads that take a block back, one is told so.
    fn take_back(&self) -> bool {
        self.0.compare_exchange(IN_USE, FREE, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The same with the stack locked, as all who come this way have it.
    fn take_back_locked(&self) -> bool {
        let in_use = self.0.load(Ordering::Relaxed) == IN_USE;
        self.0.store(FREE, Ordering::Relaxed);
        in_use
    }
}

/// Free numbers that one thread keeps; the next one to hand out is the last. The others only count them.
// On cache lines of its own: its thread writes to it in every call.
#[repr(align(128))]
#[derive(Debug)]
pub(super) struct Cache {
    len: AtomicU32,
    numbers: [AtomicU32; MOST_KEPT],
}

impl Default for Cache {
    fn default() -> Self {
        Self { len: AtomicU32::new(0), numbers: std::array::from_fn(|_| AtomicU32::new(0)) }
    }
}

impl Cache {
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    fn set_len(&self, len: usize) {
        self.len.store(len as u32, Ordering::Relaxed);
    }

    /// Forgets them all, when no other thread uses the pool any more.
    pub(super) fn clear(&self) {
        self.set_len(0);
    }

    /// Takes the last one, if there is any.
    #[inline]
    pub(super) fn pop(&self) -> Option<u32> {
        let len = self.len().checked_sub(1)?;
        let number = self.numbers.get(len)?.load(Ordering::Relaxed);
        self.set_len(len);
        Some(number)
    }

    /// The first `count`, which have been here longest.
    fn oldest(&self, count: usize) -> impl Iterator<Item = u32> {
        self.numbers[..count].iter().map(|number| number.load(Ordering::Relaxed))
    }

    fn drop_oldest(&self, count: usize) {
        let newer = &self.numbers[count..self.len()];
        for (to, from) in self.numbers.iter().zip(newer) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.set_len(newer.len());
    }

    /// Takes these in the place of what it has.
    fn fill(&self, numbers: &[u32]) {
        self.numbers.iter().zip(numbers).for_each(|(to, &number)| to.store(number, Ordering::Relaxed));
        self.set_len(numbers.len());
    }
}

/// Numbers of free blocks; the next one to hand out is the last.
///
/// Where threads keep some, calls with a [`Cache`] go there most of the time, and to the stack for several at once.
#[derive(Debug)]
pub(super) struct Stack {
    free: Lock<Vec<u32>>,
    /// Numbers that a cache keeps at most; 0 if there are no caches.
    keep: usize,
}

impl Stack {
    pub(super) fn new(keep: usize) -> Self {
        Self { free: Lock::new(Vec::new()), keep: keep.min(MOST_KEPT) }
    }

    pub(super) fn len(&self) -> usize {
        self.free.lock().len()
    }

    /// Forgets them all.
    pub(super) fn clear(&self) {
        self.free.lock().clear();
    }

    /// Takes the number of a free block, without a cache or with an empty one from the stack.
    #[inline]
    pub(super) fn take(&self, cache: Option<&Cache>) -> Option<u32> {
        match cache {
            Some(cache) => cache.pop().or_else(|| self.refill(cache)),
            None => self.free.lock().pop(),
        }
    }

    /// Takes a block back unless it is free.
    pub(super) fn give(&self, cache: Option<&Cache>, state: &State, number: u32) -> bool {
        if self.keep == 0 {
            return self.give_locked(state, number);
        }
        if let Some(cache) = cache {
            if cache.len() >= self.keep {
                self.spill(cache);
            }
            return self.give_cached(cache, state, number);
        }
        let in_use = state.take_back();
        if in_use {
            self.free.lock().push(number);
        }
        in_use
    }

    /// As [`give`](Self::give), where there are no caches.
    #[inline]
    pub(super) fn give_locked(&self, state: &State, number: u32) -> bool {
        let mut free = self.free.lock();
        let in_use = state.take_back_locked();
        // There is room: `add` made it.
        if in_use && free.len() < free.capacity() {
            free.push(number);
        }
        in_use
    }

    /// As [`give`](Self::give), but also false, and nothing done, if the cache is full.
    #[inline]
    pub(super) fn give_cached(&self, cache: &Cache, state: &State, number: u32) -> bool {
        let len = cache.len();
        let Some(place) = cache.numbers.get(len).filter(|_| len < self.keep) else { return false };
        let in_use = state.take_back();
        if in_use {
            place.store(number, Ordering::Relaxed);
            cache.set_len(len + 1);
        }
        in_use
    }

    /// Fills an empty cache, in the order of the stack, and takes one of it.
    #[inline(never)]
    fn refill(&self, cache: &Cache) -> Option<u32> {
        let mut free = self.free.lock();
        let rest = free.len().saturating_sub(self.keep);
        cache.fill(&free[rest..]);
        free.truncate(rest);
        drop(free);
        cache.pop()
    }

    /// The older half of a full cache goes on the stack.
    #[inline(never)]
    fn spill(&self, cache: &Cache) {
        let count = cache.len().div_ceil(2);
        // There is room: `add` made it.
        self.free.lock().extend(cache.oldest(count));
        cache.drop_oldest(count);
    }

    /// Takes over the numbers of new blocks, the last of which is the next to be handed out. From then on there are `total`
    /// numbers, and room for all: no free has to make any.
    pub(super) fn add(&self, numbers: impl Iterator<Item = u32>, total: usize) {
        let mut room = Vec::new();
        loop {
            let mut free = self.free.lock();
            if free.capacity() < total && room.capacity() < total {
                drop(free);
                // Not with the lock held.
                room = Vec::with_capacity(total.next_power_of_two());
                continue;
            }
            if free.capacity() < total {
                room.extend_from_slice(&free);
                std::mem::swap(&mut *free, &mut room);
            }
            return free.extend(numbers);
        }
    }
}
