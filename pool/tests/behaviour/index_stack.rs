//! `index-stack` with several threads: each keeps some free blocks to itself.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use crate::machine::{Machine, geometry};
use pool::{Block, Flags, FreeError, Geometry, Pool, policy};

/// With and without numbers that threads keep.
const BOTH_WAYS: [Geometry; 2] =
    [Geometry { size: 64, align: 64, boundary: 0 }, Geometry { size: 1024, align: 1024, boundary: 0 }];

fn pool(machine: &Machine, geometry: Geometry) -> Box<dyn Pool> {
    let policy = policy::by_name("index-stack").expect("in the table");
    (policy.create)(machine.memory.clone(), machine.source.clone(), geometry).expect("a right geometry")
}

fn take(pool: &dyn Pool, count: usize) -> Vec<Block> {
    (0..count).map(|_| pool.alloc(Flags::KERNEL).expect("a block")).collect()
}

/// More than a thread keeps, so that numbers go to the stack and come back.
#[test]
fn what_was_freed_last_is_handed_out_first() {
    for geometry in BOTH_WAYS {
        let machine = Machine::new();
        let pool = pool(&machine, geometry);
        let blocks = take(&*pool, 200);
        assert!(blocks.is_sorted_by_key(|block| block.dma), "{geometry:?}: fresh pages are handed out ascending");
        for freed in [200, 57, 130, 1] {
            blocks[..freed].iter().for_each(|&block| pool.free(block).expect("taken back"));
            let mut again = take(&*pool, freed);
            again.reverse();
            assert_eq!(again, blocks[..freed], "{geometry:?}, {freed} freed");
        }
    }
}

/// Waits until `arrived` is `wanted`: a barrier would wake one thread long after the other.
fn meet(arrived: &AtomicUsize, wanted: usize) {
    arrived.fetch_add(1, Ordering::AcqRel);
    let mut looks = 0_u32;
    while arrived.load(Ordering::Acquire) < wanted {
        looks += 1;
        // The other may need this processor.
        if looks.is_multiple_of(1000) { thread::yield_now() } else { std::hint::spin_loop() }
    }
}

/// Both meet before each of the blocks, and free it at the same time.
#[test]
fn of_two_threads_that_free_one_block_one_is_refused() {
    const ROUNDS: usize = 200;
    const BLOCKS: usize = 50;
    for geometry in BOTH_WAYS {
        let machine = Machine::new();
        let pool = pool(&machine, geometry);
        let blocks = Mutex::new(Vec::new());
        let (arrived, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let phase = Barrier::new(2);
        let racer = |leads: bool| {
            for round in 0..ROUNDS {
                if leads {
                    *blocks.lock().expect("no panic") = take(&*pool, BLOCKS);
                }
                phase.wait();
                let blocks = blocks.lock().expect("no panic").clone();
                for (index, block) in blocks.into_iter().enumerate() {
                    meet(&arrived, 2 * (round * BLOCKS + index + 1));
                    if let Err(error) = pool.free(block) {
                        assert_eq!(error, FreeError::Double(block));
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                }
                phase.wait();
                assert_eq!(refused.load(Ordering::Relaxed), (round + 1) * BLOCKS, "{geometry:?}, round {round}");
                phase.wait();
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| racer(true));
            racer(false);
        });
        assert_eq!(pool.destroy(), Ok(()), "{geometry:?}: each was taken back once");
    }
}

/// Blocks go from thread to thread: what one allocates another frees.
#[test]
fn no_block_is_in_two_hands() {
    for geometry in BOTH_WAYS {
        let machine = Machine::new();
        let free_pages = machine.pages.free_pages();
        let pool = pool(&machine, geometry);
        let passed: Mutex<Vec<Block>> = Mutex::default();
        let in_use: Mutex<BTreeSet<u64>> = Mutex::default();
        thread::scope(|scope| {
            for thread in 0..4_usize {
                let (pool, passed, in_use) = (&pool, &passed, &in_use);
                scope.spawn(move || {
                    for round in 0..300_usize {
                        for block in take(&**pool, (round * 7 + thread) % 60) {
                            let fresh = in_use.lock().expect("no panic").insert(block.dma.0);
                            assert!(fresh, "{block:?} is in use");
                            passed.lock().expect("no panic").push(block);
                        }
                        for _ in 0..(round * 5 + thread) % 70 {
                            let Some(block) = passed.lock().expect("no panic").pop() else { break };
                            in_use.lock().expect("no panic").remove(&block.dma.0);
                            pool.free(block).expect("taken back");
                        }
                    }
                });
            }
        });
        passed.into_inner().expect("no panic").into_iter().for_each(|block| pool.free(block).expect("taken back"));
        assert_eq!(pool.destroy(), Ok(()), "{geometry:?}");
        assert_eq!(machine.pages.free_pages(), free_pages, "{geometry:?}");
    }
}

/// There are caches for 64.
#[test]
fn threads_beyond_those_with_a_cache_have_their_blocks_too() {
    let machine = Machine::new();
    let pool = pool(&machine, BOTH_WAYS[0]);
    let all = Barrier::new(80);
    thread::scope(|scope| {
        for _ in 0..80 {
            scope.spawn(|| {
                let blocks = take(&*pool, 3);
                all.wait();
                blocks.iter().for_each(|&block| pool.free(block).expect("taken back"));
                assert_eq!(pool.free(blocks[0]), Err(FreeError::Double(blocks[0])));
                all.wait();
            });
        }
    });
    assert_eq!(pool.destroy(), Ok(()));
}

/// A thread keeps less than a page of blocks: no more than that is out of reach for the others.
#[test]
fn what_a_thread_keeps_is_less_than_a_page() {
    for (size, kept) in [(64, 56), (256, 15), (512, 0), (1024, 0), (4096, 0)] {
        let machine = Machine::new();
        let pool = pool(&machine, geometry(size, 0, 0));
        let per_page = 4096 / size as usize;
        let blocks = take(&*pool, 3 * per_page);
        let pages = pool.pages();
        assert_eq!(pages, 3);
        thread::scope(|scope| {
            scope.spawn(|| blocks.iter().for_each(|&block| pool.free(block).expect("taken back")));
        });
        // This thread is another one still, unless it has become the one that ended; then nothing is out of reach.
        let reached = 3 * per_page - kept;
        take(&*pool, reached);
        assert_eq!(pool.pages(), pages, "{size}: {reached} blocks are in reach");
    }
}
