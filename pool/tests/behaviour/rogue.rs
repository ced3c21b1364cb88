//! The ledger around a pool that hands out whatever it likes, against a plain list.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bus::{AccessKind, CpuAddr, DmaAddr};
use pool::{
    AllocError, Block, DestroyError, DmaPool, Finding, Flags, FreeError, Memory, Metadata, PageSource, Pages, Policy,
    Pool, Promise,
};
use proptest::prelude::*;

use crate::machine::{CPU, DMA, Machine, geometry, queue_head};
use crate::seeded;

/// Pages of the rogue, at the begin of memory.
const PAGES: u64 = 2;

/// Hands out what is in its script.
struct Rogue {
    source: Arc<dyn PageSource>,
    pages: Mutex<Vec<Pages>>,
    script: Arc<Mutex<VecDeque<Block>>>,
}

impl Pool for Rogue {
    fn alloc(&self, _flags: Flags) -> Result<Block, AllocError> {
        self.script.lock().expect("no panic").pop_front().ok_or_else(|| AllocError::Other("nothing left".into()))
    }

    fn free(&self, _block: Block) -> Result<(), FreeError> {
        Ok(())
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        self.pages.lock().expect("no panic").drain(..).for_each(|pages| self.source.free(pages));
        Ok(())
    }

    fn pages(&self) -> usize {
        self.pages.lock().expect("no panic").len()
    }
}

struct Bench {
    machine: Machine,
    pool: DmaPool,
    script: Arc<Mutex<VecDeque<Block>>>,
}

impl Bench {
    fn new(size: u64, align: u64, boundary: u64) -> Self {
        let script = Arc::new(Mutex::new(VecDeque::new()));
        let blocks = Arc::clone(&script);
        let create = move |_: Arc<Memory>, source: Arc<dyn PageSource>, _| -> Result<Box<dyn Pool>, _> {
            let pages = (0..PAGES).map(|_| source.alloc(4096, Flags::KERNEL).expect("a page")).collect();
            Ok(Box::new(Rogue { source, pages: Mutex::new(pages), script: Arc::clone(&blocks) }))
        };
        let policy = Policy::new("rogue", "hands out what it is told to", Metadata::OutOfBand, 1, create);
        let machine = Machine::new();
        let pool = machine.pool(&policy, geometry(size, align, boundary));
        Self { machine, pool, script }
    }

    fn hand_out(&self, offset: u64) -> Block {
        let block = Block { cpu: CpuAddr(CPU + offset), dma: DmaAddr(DMA + offset) };
        self.hand_out_block(block)
    }

    fn hand_out_block(&self, block: Block) -> Block {
        self.script.lock().expect("no panic").push_back(block);
        self.pool.alloc(Flags::KERNEL).expect("from the script")
    }

    fn promises(&self) -> Vec<Promise> {
        let promise = |finding: Finding| match finding {
            Finding::PoolContract { promise, .. } => promise,
            other => panic!("{other}"),
        };
        self.machine.ledger.findings().into_iter().map(promise).collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    HandOut(u64),
    Free(prop::sample::Index),
    Access { at: u64, len: u64, write: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let any_place = prop_oneof![(0..PAGES * 4096), (0_u64..40).prop_map(|i| i * 32), (0_u64..12).prop_map(|i| i * 96)];
    let step = prop_oneof![
        4 => any_place.prop_map(Step::HandOut),
        3 => any::<prop::sample::Index>().prop_map(Step::Free),
        4 => (0..PAGES * 4096 - 256, 1_u64..200, any::<bool>())
            .prop_map(|(at, len, write)| Step::Access { at, len, write }),
    ];
    prop::collection::vec(step, 1..150)
}

proptest! {
    #![proptest_config(seeded(0x6003, 200))]

    /// Overlapping, unaligned, given twice, given back in any order: the ledger knows what is live.
    #[test]
    fn the_ledger_knows_what_is_live(size in 1_u64..130, steps in steps()) {
        let bench = Bench::new(size, 1, 0);
        let ledger = &bench.machine.ledger;
        let mut held: Vec<Block> = Vec::new();
        for step in steps {
            let before = ledger.findings_total();
            match step {
                Step::HandOut(offset) => {
                    let in_page = offset % 4096 + size <= 4096;
                    let overlaps = held.iter().any(|block| block.dma.0.abs_diff(DMA + offset) < size);
                    // A stray lies in no page of the pool: it is found as such, and nothing overlaps it.
                    let strays = |block: &Block| block.dma.0 % 4096 + size > 4096;
                    let overlaps = overlaps
                        && held.iter().any(|b| !strays(b) && b.dma.0.abs_diff(DMA + offset) < size);
                    if strays(&Block { cpu: CpuAddr(0), dma: DmaAddr(DMA + offset) }) && held.iter().any(|b| b.dma.0 == DMA + offset) {
                        continue;
                    }
                    held.push(bench.hand_out(offset));
                    let expected = u64::from(!in_page || overlaps);
                    prop_assert_eq!(ledger.findings_total() - before, expected, "{:#x}", offset);
                }
                Step::Free(index) if !held.is_empty() => {
                    bench.pool.free(held.swap_remove(index.index(held.len()))).expect("taken back");
                    prop_assert_eq!(ledger.findings_total(), before);
                }
                Step::Free(_) => {}
                Step::Access { at, len, write } => {
                    let addr = DMA + at;
                    bench.machine.access(if write { AccessKind::Write } else { AccessKind::Read }, DmaAddr(addr), len);
                    let live = |block: &&Block| addr.wrapping_sub(block.dma.0) < size && block.dma.0 % 4096 + size <= 4096;
                    let fits = |block: &Block| block.dma.0 + size - addr >= len;
                    let around: Vec<_> = held.iter().filter(live).collect();
                    let found = ledger.findings_total() - before;
                    if around.iter().all(|block| fits(block)) && !around.is_empty() {
                        prop_assert_eq!(found, 0, "{:#x} {}", at, len);
                    } else if around.iter().all(|block| !fits(block)) {
                        prop_assert_eq!(found, 1, "{:#x} {}", at, len);
                    }
                }
            }
            let mut live: Vec<_> =
                held.iter().filter(|b| b.dma.0 % 4096 + size <= 4096).map(|block| block.dma).collect();
            live.sort();
            live.dedup();
            let known: Vec<_> = ledger.live_blocks().into_iter().map(|(_, addr, _)| addr).collect();
            prop_assert_eq!(known, live);
        }
    }
}

#[test]
fn a_pool_may_lay_blocks_out_as_it_likes() {
    // 64 bytes each, four bytes of its own between them.
    let bench = Bench::new(64, 4, 0);
    let blocks: Vec<_> = (0..20).map(|i| bench.hand_out(i * 68)).collect();
    for (index, block) in (0..).zip(&blocks) {
        assert!(bench.machine.ledger.claim(block.dma, 64, queue_head(index)));
    }
    for (index, block) in (0..).zip(&blocks) {
        bench.machine.access(AccessKind::Write, block.dma, 64);
        assert_eq!(bench.machine.ledger.owner_at(block.dma.offset(63)), Some(queue_head(index)));
        assert_eq!(bench.machine.ledger.owner_at(block.dma.offset(64)), None);
    }
    assert_eq!(bench.machine.found(), [""; 0]);
    bench.machine.access(AccessKind::Read, blocks[2].dma.offset(60), 8);
    let text = bench.machine.ledger.findings()[0].to_string();
    assert_eq!(text, "the device read dQH 3 token at 0x800000c4: dQH 2 of pool pool ends after 4 of 8 bytes");
}

#[test]
fn a_block_that_was_given_twice_is_freed_twice() {
    let bench = Bench::new(64, 64, 0);
    let first = bench.hand_out(0x80);
    assert!(bench.machine.ledger.claim(first.dma, 64, queue_head(1)));
    let second = bench.hand_out(0x80);
    assert_eq!(bench.promises(), [Promise::NoOverlap]);
    let text = bench.machine.ledger.findings()[0].to_string();
    assert_eq!(text, "pool pool broke its promise NoOverlap: 0x80000080 overlaps the live block at 0x80000080 (dQH 1)");
    bench.pool.free(first).expect("taken back");
    bench.machine.access(AccessKind::Read, second.dma, 8);
    bench.pool.free(second).expect("taken back");
    assert_eq!(bench.machine.found().len(), 1, "neither holder did wrong");
    bench.pool.free(second).expect("the rogue takes anything");
    assert_eq!(bench.machine.found()[1], "WrongFree");
}

#[test]
fn an_older_block_is_live_under_a_newer_that_went() {
    let bench = Bench::new(64, 1, 0);
    let older = bench.hand_out(0x100);
    let newer = bench.hand_out(0x120);
    bench.pool.free(newer).expect("taken back");
    bench.machine.access(AccessKind::Write, older.dma, 64);
    assert_eq!(bench.promises(), [Promise::NoOverlap]);
    bench.pool.free(older).expect("taken back");
    // Cut anew, without an overlap.
    bench.hand_out(0x120);
    bench.machine.access(AccessKind::Write, newer.dma, 64);
    assert_eq!(bench.promises(), [Promise::NoOverlap]);
}

#[test]
fn each_promise_is_watched() {
    let bench = Bench::new(64, 32, 128);
    bench.hand_out(0x10);
    bench.hand_out(0x60);
    bench.hand_out(0x1fc0 + 0x20);
    bench.hand_out(0x10_0000);
    bench.hand_out_block(Block { cpu: CpuAddr(CPU + 0x400), dma: DmaAddr(DMA + 0x500) });
    assert_eq!(
        bench.promises(),
        [Promise::Alignment, Promise::Boundary, Promise::OwnPages, Promise::OwnPages, Promise::SameMemory]
    );
}

#[test]
fn zeroing_is_watched() {
    let bench = Bench::new(300, 4, 0);
    bench.machine.device_writes(DmaAddr(DMA + 299), &[7]);
    let block = Block { cpu: CpuAddr(CPU), dma: DmaAddr(DMA) };
    bench.script.lock().expect("no panic").push_back(block);
    bench.pool.alloc(Flags::KERNEL.zeroed()).expect("from the script");
    assert_eq!(
        bench.machine.ledger.findings()[0].to_string(),
        "pool pool broke its promise Zeroing: byte 299 of 0x80000000 is not zero"
    );
}

#[test]
fn blocks_outside_are_held_until_they_are_freed() {
    let bench = Bench::new(64, 64, 0);
    let stray = bench.hand_out(0x20_0000);
    let error = bench.pool.destroy().expect_err("busy");
    assert_eq!(error.to_string(), "1 blocks are in use: an unnamed block at 0x80200000");
    bench.pool.free(stray).expect("taken back");
    assert_eq!(bench.promises(), [Promise::OwnPages]);
    bench.pool.free(stray).expect("the rogue takes anything");
    assert_eq!(
        bench.machine.ledger.findings()[1].to_string(),
        "the driver freed 0xffff800040200000 / 0x80200000 to pool pool: it lies in no page of this pool"
    );
}
