//! Which of a pool's caches is a thread's: one for each processor of a kernel, for each thread here.

use std::cell::Cell;

use parking_lot::Mutex;

/// Threads at a time that have a cache. The others go to the stack each time.
pub(super) const MOST: usize = 64;

const UNKNOWN: usize = usize::MAX;
/// All numbers are taken, or the thread is about to end.
const NONE: usize = MOST;

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
    static HELD: Cell<Option<Held>> = const { Cell::new(None) };
}

/// By number: a bit that is set belongs to a thread.
static TAKEN: Mutex<u64> = Mutex::new(0);

/// Gives the number back when the thread ends. The next thread that has it finds the caches as they were left.
struct Held(usize);

impl Drop for Held {
    fn drop(&mut self) {
        NUMBER.set(NONE);
        *TAKEN.lock() &= !(1 << self.0);
    }
}

/// This thread's number if it has one already: at most [`MOST`], which is that of no cache; else more.
#[inline]
pub(super) fn known() -> usize {
    NUMBER.get()
}

/// The same, after it was given one.
pub(super) fn number() -> usize {
    if NUMBER.get() == UNKNOWN {
        let free = {
            let mut taken = TAKEN.lock();
            let free = taken.trailing_ones() as usize;
            *taken |= 1_u64.checked_shl(free as u32).unwrap_or(0);
            free
        };
        NUMBER.set(free);
        // A thread that is about to end does without.
        if free < MOST && HELD.try_with(|held| held.set(Some(Held(free)))).is_err() {
            NUMBER.set(NONE);
        }
    }
    NUMBER.get()
}
