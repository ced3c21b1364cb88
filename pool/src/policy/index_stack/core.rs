//! The free numbers, and who may have them: all that threads race for.

use super::sync::{AtomicU8, AtomicU32, Lock, Ordering};

/// Numbers that a thread keeps at most.
pub(super) const MOST_KEPT: usize = 24;

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

    fn pop(&self) -> Option<u32> {
        let len = self.len().checked_sub(1)?;
        let number = self.numbers.get(len)?.load(Ordering::Relaxed);
        self.set_len(len);
        Some(number)
    }

    fn push(&self, number: u32) {
        let len = self.len();
        if let Some(place) = self.numbers.get(len) {
            place.store(number, Ordering::Relaxed);
            self.set_len(len + 1);
        }
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
/// Calls with a [`Cache`] go there most of the time, and to the stack for several numbers at once. A stack is called
/// either always with caches or always without: the two ways of taking a block back do not exclude each other.
#[derive(Debug)]
pub(super) struct Stack {
    free: Lock<Vec<u32>>,
    /// Numbers that a cache keeps at most.
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

    #[inline]
    pub(super) fn take(&self, cache: Option<&Cache>) -> Option<u32> {
        let Some(cache) = cache else { return self.free.lock().pop() };
        cache.pop().or_else(|| self.refill(cache))
    }

    /// Takes a block back unless it is free.
    #[inline]
    pub(super) fn give(&self, cache: Option<&Cache>, state: &State, number: u32) -> bool {
        let Some(cache) = cache else {
            let mut free = self.free.lock();
            let in_use = state.take_back_locked();
            if in_use {
                free.push(number);
            }
            return in_use;
        };
        if !state.take_back() {
            return false;
        }
        if cache.len() >= self.keep {
            self.spill(cache);
        }
        cache.push(number);
        true
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
