//! The lock core of `index-stack` under shuttle: several threads that do much, in random orders by a fixed seed. A failure
//! prints its schedule, which `shuttle::replay` runs again.
//!
//! The core's source is compiled here with shuttle's primitives in the place of its own, as `with_loom` does with loom's.

use shuttle::Runner;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};

#[allow(dead_code, reason = "what counts and clears is not raced for")]
#[path = "../src/policy/index_stack/core.rs"]
mod core;
#[path = "interleavings/numbered.rs"]
mod numbered;

mod sync {
    pub(super) use shuttle::sync::Arc;
    pub(super) use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
    pub(super) use shuttle::thread;

    #[derive(Debug)]
    pub(super) struct Lock<T>(shuttle::sync::Mutex<T>);

    impl<T> Lock<T> {
        pub(super) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(super) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
            self.0.lock().expect("no thread panicked with it")
        }
    }

    /// The memory of a block. To use it while another does is an error.
    #[derive(Debug, Default)]
    pub(super) struct Memory(AtomicBool);

    impl Memory {
        pub(super) fn used(&self) {
            assert!(!self.0.swap(true, Ordering::SeqCst), "two threads use one block");
            thread::yield_now();
            self.0.store(false, Ordering::SeqCst);
        }
    }
}

use self::core::Cache;
use self::numbered::{Caches, Pool};
use self::sync::{Arc, thread};

const THREADS: u64 = 4;
/// Calls of a thread.
const CALLS: u32 = 60;
/// Blocks, of which some come when the others are in use.
const BLOCKS: u32 = 24;
const AT_FIRST: u32 = 8;
/// Blocks that a thread holds at most: together they want more than there are at first, and less than there will be.
const HELD: usize = 5;
/// Random orders of each kind.
const RUNS: usize = 150;
const SEED: u64 = 0x6472_6976;
/// Bytes of a thread's stack: the usual 32 KiB are not enough for a debug build, or for a panic's words.
const STACK: usize = 1 << 20;

fn schedulers() -> [Box<dyn Scheduler + Send>; 2] {
    [
        Box::new(RandomScheduler::new_from_seed(SEED, RUNS)),
        // Few changes of thread at the worst places (Burckhardt and others, "A randomized scheduler with probabilistic
        // guarantees of finding bugs", 2010).
        Box::new(PctScheduler::new_from_seed(SEED, 5, RUNS)),
    ]
}

fn check(scenario: impl Fn() + Send + Sync + Clone + 'static) {
    for scheduler in schedulers() {
        let mut config = shuttle::Config::default();
        config.stack_size = STACK;
        Runner::new(scheduler, config).run(scenario.clone());
    }
}

/// The next number of a SplitMix64 sequence.
fn random(state: &mut u64, below: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33) as usize % below
}

/// Allocates, frees, and hands blocks to the next thread by turns. Returns what it holds and keeps.
fn work(pool: &Pool, seed: u64, post: &[sync::Lock<Vec<u32>>]) -> (Vec<u32>, Option<Cache>) {
    let (cache, mut state, mut held) = (pool.cache(), seed, Vec::new());
    let own = seed as usize % post.len();
    for _ in 0..CALLS {
        held.append(&mut post[own].lock());
        match random(&mut state, 5) {
            0..=2 if held.len() < HELD => held.extend(pool.alloc(cache.as_ref())),
            3 if !held.is_empty() => {
                let given = held.swap_remove(random(&mut state, held.len()));
                post[(own + 1) % post.len()].lock().push(given);
            }
            _ if !held.is_empty() => {
                let number = held.swap_remove(random(&mut state, held.len()));
                assert!(pool.free(cache.as_ref(), number), "{number} was ours");
            }
            _ => {}
        }
    }
    (held, cache)
}

#[test]
fn every_block_is_somewhere_and_nowhere_twice() {
    for keep in [Some(6), Some(1), None] {
        check(move || {
            let pool = Arc::new(Pool::new(AT_FIRST, BLOCKS, keep));
            let post: Arc<Vec<_>> = Arc::new((0..THREADS).map(|_| sync::Lock::new(Vec::new())).collect());
            let threads: Vec<_> = (0..THREADS)
                .map(|number| {
                    let (pool, post) = (Arc::clone(&pool), Arc::clone(&post));
                    thread::spawn(move || work(&pool, number, &post))
                })
                .collect();
            pool.grow(AT_FIRST..BLOCKS);
            let (held, caches): (Vec<_>, Vec<_>) =
                threads.into_iter().map(|thread| thread.join().expect("it ends")).unzip();
            let mut all = pool.in_reach(&Caches::of(caches));
            all.extend(held.into_iter().flatten());
            post.iter().for_each(|post| all.append(&mut post.lock()));
            all.sort_unstable();
            assert_eq!(all, (0..BLOCKS).collect::<Vec<_>>());
        });
    }
}

/// Threads that free what others free too.
#[test]
fn of_many_frees_of_one_block_one_is_taken() {
    for keep in [Some(2), None] {
        check(move || {
            let pool = Arc::new(Pool::new(AT_FIRST, AT_FIRST, keep));
            let cache = pool.cache();
            let held: Vec<u32> = std::iter::from_fn(|| pool.alloc(cache.as_ref())).collect();
            let threads: Vec<_> = (0..THREADS)
                .map(|number| {
                    let (pool, mut held) = (Arc::clone(&pool), held.clone());
                    held.rotate_left(number as usize);
                    thread::spawn(move || {
                        let cache = pool.cache();
                        let taken = held.iter().filter(|&&number| pool.free_again(cache.as_ref(), number)).count();
                        (taken, cache)
                    })
                })
                .collect();
            let (taken, caches): (Vec<_>, Vec<_>) =
                threads.into_iter().map(|thread| thread.join().expect("it ends")).unzip();
            assert_eq!(taken.iter().sum::<usize>(), held.len());
            assert_eq!(pool.in_reach(&Caches::of(caches)), (0..AT_FIRST).collect::<Vec<_>>());
        });
    }
}
