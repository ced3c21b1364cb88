//! The project's own kernel file, `pool/kernel/dmapool.c`: what it promises, and what it refuses.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use bus::{CpuAddr, DmaAddr};
use c_bridge::{KernelFile, Options};
use pool::contract::{self, Config};
use pool::{Block, Flags, Geometry, Memory, PageAllocator, PageOrder, PageSource, Policy, Pool, Span};

fn policy(debug: bool) -> (tempfile::TempDir, Policy) {
    let cache = tempfile::tempdir().expect("a folder");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel/dmapool.c");
    let options = Options { debug, cache: Some(cache.path().to_owned()), ..Options::default() };
    let policy = KernelFile::open(&path, &options).expect("it compiles").policy("dmapool.c");
    (cache, policy)
}

fn pool(policy: &Policy, size: u64) -> Box<dyn Pool> {
    let span = Span { cpu: CpuAddr(0xffff_8000_0000_0000), dma: DmaAddr(0x8000_0000), len: 4 << 20 };
    let memory = Memory::new(&[span]).expect("memory");
    let source: Arc<dyn PageSource> = PageAllocator::new(Arc::clone(&memory), 4096, u64::MAX, PageOrder::Forward);
    (policy.create)(memory, source, Geometry { size, align: 0, boundary: 0 }).expect("a right geometry")
}

fn take(pool: &dyn Pool, count: usize) -> Vec<Block> {
    (0..count).map(|_| pool.alloc(Flags::KERNEL).expect("a block")).collect()
}

#[test]
fn it_keeps_every_promise() {
    for debug in [false, true] {
        let report = contract::run(&policy(debug).1, &Config::default());
        assert!(report.is_kept(), "debug {debug}: {report}");
    }
}

/// With blocks that a processor keeps some of, and with blocks that are few to a page.
#[test]
fn every_wrong_free_is_refused_and_named() {
    let (_cache, policy) = policy(false);
    for size in [64, 96, 1024] {
        let (pool, other) = (pool(&policy, size), pool(&policy, size));
        let blocks = take(&*pool, 4);
        take(&*other, 8);
        pool.free(blocks[3]).expect("taken back");
        let shifted = |by| Block { cpu: blocks[0].cpu.offset(by), dma: blocks[0].dma.offset(by) };
        for (block, why) in [
            (blocks[3], "already free"),
            (shifted(1 << 20), "(bad dma)"),
            (shifted(8), "(not a block)"),
            // Behind the last block of the page.
            (shifted(4095), "(not a block)"),
            (Block { cpu: blocks[2].cpu, ..blocks[1] }, "(bad vaddr)"),
        ] {
            let refusal = pool.free(block).expect_err(why).to_string();
            assert!(refusal.contains(why), "{size}: {refusal}");
        }
        blocks[..3].iter().for_each(|&block| pool.free(block).expect("taken back"));
        pool.destroy().expect("nothing was counted twice");
    }
}

#[test]
fn blocks_come_ascending_and_the_last_freed_first() {
    let (_cache, policy) = policy(false);
    for size in [64, 1024] {
        let pool = pool(&policy, size);
        let blocks = take(&*pool, 200);
        assert!(blocks.is_sorted_by_key(|block| block.dma), "{size}");
        for freed in [200, 31, 130, 1] {
            blocks[..freed].iter().for_each(|&block| pool.free(block).expect("taken back"));
            let mut again = take(&*pool, freed);
            again.reverse();
            assert_eq!(again, blocks[..freed], "{size}, {freed} freed");
        }
    }
}

/// Each thread is a processor with a cache of its own.
#[test]
fn blocks_go_from_processor_to_processor() {
    let (_cache, policy) = policy(false);
    let pool = pool(&policy, 64);
    thread::scope(|scope| {
        for _ in 0..3 {
            let blocks = take(&*pool, 100);
            scope.spawn(|| blocks.into_iter().for_each(|block| pool.free(block).expect("taken back")));
            scope.spawn(|| take(&*pool, 100).into_iter().for_each(|block| pool.free(block).expect("taken back")));
        }
    });
    pool.destroy().expect("all are free");
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
fn of_two_processors_that_free_one_block_one_is_refused() {
    const ROUNDS: usize = 200;
    const BLOCKS: usize = 50;
    let (_cache, policy) = policy(false);
    for size in [64, 1024] {
        let pool = pool(&policy, size);
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
                    refused.fetch_add(pool.free(block).is_err().into(), Ordering::Relaxed);
                }
                phase.wait();
                assert_eq!(refused.load(Ordering::Relaxed), (round + 1) * BLOCKS, "{size}, round {round}");
                phase.wait();
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| racer(true));
            racer(false);
        });
        pool.destroy().expect("each was taken back once");
    }
}
