//! The lock core of `index-stack` under loom: every interleaving of two threads that do little, with all that Rust's model of
//! memory allows in each. `with_shuttle` is for more threads that do more.
//!
//! The core's source is compiled here a second time, with loom's primitives in the place of its own: no flag and no further
//! target folder is needed. *Not here*: the directory of pages, which is made of other crates' parts, the choice of a cache
//! by `thread_local`, and miri, which a stable toolchain does not have.

#[allow(dead_code, reason = "what counts and clears is not raced for")]
#[path = "../src/policy/index_stack/core.rs"]
mod core;
#[path = "interleavings/numbered.rs"]
mod numbered;

mod sync {
    pub(super) use loom::sync::Arc;
    pub(super) use loom::sync::atomic::{AtomicU8, AtomicU32, Ordering};
    pub(super) use loom::thread;

    #[derive(Debug)]
    pub(super) struct Lock<T>(loom::sync::Mutex<T>);

    impl<T> Lock<T> {
        pub(super) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(super) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().expect("no thread panicked with it")
        }
    }

    /// The memory of a block. To use it while another does, or before the other's use is over for this thread, is an error.
    #[derive(Debug, Default)]
    pub(super) struct Memory(loom::cell::UnsafeCell<()>);

    impl Memory {
        pub(super) fn used(&self) {
            self.0.with_mut(|_| ());
        }
    }
}

use self::core::Cache;
use self::numbered::{Caches, Pool};
use self::sync::{Arc, thread};

/// With numbers kept by each thread, and without.
const KEPT: [Option<usize>; 2] = [Some(2), None];

#[test]
fn no_block_has_two_holders() {
    for keep in KEPT {
        loom::model(move || {
            let pool = Arc::new(Pool::new(3, 3, keep));
            let turn = |pool: &Pool| {
                let cache = pool.cache();
                let first = pool.alloc(cache.as_ref());
                let second = pool.alloc(cache.as_ref());
                [first, second].into_iter().flatten().for_each(|number| assert!(pool.free(cache.as_ref(), number)));
                cache
            };
            let theirs = Arc::clone(&pool);
            let other = thread::spawn(move || turn(&theirs));
            let mine = turn(&pool);
            let caches = Caches::of([mine, other.join().expect("it ends")]);
            assert_eq!(pool.in_reach(&caches), [0, 1, 2]);
        });
    }
}

#[test]
fn of_two_frees_of_one_block_one_is_taken() {
    for keep in KEPT {
        loom::model(move || {
            let pool = Arc::new(Pool::new(2, 2, keep));
            let number = pool.alloc(None).expect("a block");
            let turn = move |pool: &Pool| {
                let cache = pool.cache();
                (pool.free_again(cache.as_ref(), number), cache)
            };
            let theirs = Arc::clone(&pool);
            let other = thread::spawn(move || turn(&theirs));
            let (mine, my_cache) = turn(&pool);
            let (theirs, their_cache) = other.join().expect("it ends");
            assert!(mine != theirs, "{mine} and {theirs}");
            let reached = pool.in_reach(&Caches::of([my_cache, their_cache]));
            assert_eq!(reached.iter().filter(|&&one| one == number).count(), 1, "{reached:?}");
        });
    }
}

#[test]
fn nothing_is_lost_while_the_pool_grows() {
    for keep in [Some(1), None] {
        loom::model(move || {
            let pool = Arc::new(Pool::new(2, 4, keep));
            let cache = pool.cache();
            let held = [(); 2].map(|()| pool.alloc(cache.as_ref()).expect("a block"));
            let theirs = Arc::clone(&pool);
            // Another thread gives two back, one more than it keeps, while this one brings two more.
            let other = thread::spawn(move || {
                let cache = theirs.cache();
                held.into_iter().for_each(|number| assert!(theirs.free(cache.as_ref(), number)));
                cache
            });
            let mine = pool.cache();
            let got = pool.alloc(mine.as_ref());
            pool.grow(2..4);
            let more = pool.alloc(mine.as_ref());
            let caches = Caches::of([cache, mine, other.join().expect("it ends")]);
            let mut all = pool.in_reach(&caches);
            all.extend([got, more].into_iter().flatten());
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3]);
        });
    }
}

/// Two threads find the pool empty and bring a page each, while blocks come back.
#[test]
fn two_threads_grow_it_at_once() {
    for keep in KEPT {
        loom::model(move || {
            let pool = Arc::new(Pool::new(1, 5, keep));
            let turn = |pool: &Pool, fresh: std::ops::Range<u32>| {
                let cache = pool.cache();
                let first = pool.alloc(cache.as_ref());
                pool.grow(fresh);
                first.into_iter().for_each(|number| assert!(pool.free(cache.as_ref(), number)));
                (pool.alloc(cache.as_ref()), cache)
            };
            let theirs = Arc::clone(&pool);
            let other = thread::spawn(move || turn(&theirs, 1..3));
            let (mine, cache) = turn(&pool, 3..5);
            let (given, their_cache) = other.join().expect("it ends");
            let mut all = pool.in_reach(&Caches::of([cache, their_cache]));
            all.extend([mine, given].into_iter().flatten());
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4]);
        });
    }
}

/// A block that one thread allocated and another frees.
#[test]
fn blocks_change_hands() {
    loom::model(|| {
        let pool = Arc::new(Pool::new(2, 2, Some(1)));
        let theirs = Arc::clone(&pool);
        let other = thread::spawn(move || {
            let cache: Option<Cache> = theirs.cache();
            (theirs.alloc(cache.as_ref()), cache)
        });
        let mine = pool.cache();
        let own = pool.alloc(mine.as_ref());
        let (given, their_cache) = other.join().expect("it ends");
        let held: Vec<u32> = [own, given].into_iter().flatten().collect();
        held.into_iter().for_each(|number| assert!(pool.free(mine.as_ref(), number)));
        assert_eq!(pool.in_reach(&Caches::of([mine, their_cache])), [0, 1]);
    });
}
