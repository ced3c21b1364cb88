//! The hostile policies: they keep every promise of dma_pool, and nothing else.

use std::collections::BTreeSet;

use bus::{CpuAddr, DmaAddr};
use pool::contract::{self, Config};
use pool::policy::{self, NameError};
use pool::{
    AllocError, Block, DestroyError, Flags, FreeError, Geometry, Ledger, Memory, PageAllocator, PageError, PageOrder,
    PageSource, Policy, Pool, Span,
};

use crate::machine::{DMA, Machine, geometry};

/// Seeds of `shuffle` that tests go through.
const SEEDS: u64 = 4;

fn named(name: &str) -> Policy {
    policy::by_name(name).expect("a policy of that name")
}

fn all() -> impl Iterator<Item = Policy> {
    (0..SEEDS).map(|seed| named(&format!("shuffle:{seed}"))).chain(["scatter", "high"].map(named))
}

fn raw(machine: &Machine, policy: &Policy, geometry: Geometry) -> Box<dyn Pool> {
    (policy.create)(machine.memory.clone(), machine.source.clone(), geometry).expect("a right geometry")
}

fn take(pool: &dyn Pool, count: usize) -> Vec<Block> {
    (0..count).map(|_| pool.alloc(Flags::KERNEL).expect("a block")).collect()
}

#[test]
fn they_keep_every_promise_with_every_seed() {
    for (seed, policy) in all().enumerate() {
        let report = contract::run(&policy, &Config { seed: seed as u64, ..Config::default() });
        assert!(report.is_kept(), "{report}");
    }
}

#[test]
fn they_are_found_by_name_and_are_not_in_the_table() {
    assert_eq!(named("shuffle").name, "shuffle:0");
    assert_eq!(named("shuffle:18446744073709551615").name, format!("shuffle:{}", u64::MAX));
    for policy in policy::hostile() {
        assert_eq!(named(&policy.name).fingerprint, policy.fingerprint);
        assert!(policy::table().iter().all(|one| one.name != policy.name), "{}", policy.name);
        let plain = policy.name.split(':').next().expect("a name");
        assert!(policy::families().iter().any(|(family, _)| family.starts_with(plain)), "{plain}");
    }
    for seed in ["", "x", "-1", "+1", " 1", "18446744073709551616"] {
        let error = policy::by_name(&format!("shuffle:{seed}")).expect_err("no seed");
        assert_eq!(error, NameError::Seed { family: "shuffle", seed: seed.to_owned() });
    }
    assert_eq!(
        policy::by_name("shuffle:x").expect_err("no seed").to_string(),
        "pool shuffle takes a seed from 0 to 18446744073709551615, such as shuffle:7, and not `x`"
    );
    assert_eq!(
        policy::by_name("linked:3").expect_err("no seeds").to_string(),
        "pool linked takes no seed: the name is `linked` alone"
    );
    assert_eq!(policy::by_name("linkd").expect_err("none").to_string(), "there is no pool `linkd`");
}

#[test]
fn both_ways_to_reuse_are_among_those_that_a_check_tries() {
    let abouts: BTreeSet<_> = policy::hostile().into_iter().map(|policy| policy.about).collect();
    for reuse in ["reuse at once", "reuse as late as can be"] {
        assert!(abouts.iter().any(|about| about.ends_with(reuse)), "{abouts:?}");
    }
}

#[test]
fn shuffle_never_rises_twice_and_leaves_a_gap_behind_every_block() {
    for seed in 0..SEEDS {
        for order in [PageOrder::Forward, PageOrder::Backward, PageOrder::Scattered(seed)] {
            let machine = Machine::with(4096, order);
            let pool = raw(&machine, &named(&format!("shuffle:{seed}")), geometry(64, 64, 0));
            // Half of a page's places are used.
            let blocks: Vec<u64> = take(&*pool, 32).iter().map(|block| block.dma.0).collect();
            assert_eq!(pool.pages(), 1, "seed {seed}");
            let rises: Vec<bool> = blocks.windows(2).map(|pair| pair[1] > pair[0]).collect();
            let twice = rises.windows(2).position(|pair| pair == [true, true]);
            assert_eq!(twice, None, "seed {seed} {order:?}: {blocks:x?}");
            let more = take(&*pool, 100);
            let mut all: Vec<u64> = blocks.into_iter().chain(more.iter().map(|block| block.dma.0)).collect();
            all.sort_unstable();
            assert!(all.windows(2).all(|pair| pair[1] - pair[0] >= 128), "seed {seed} {order:?}: {all:x?}");
        }
    }
}

#[test]
fn shuffle_keeps_blocks_of_a_whole_page_apart_too() {
    for size in [4096, 5000, 8192] {
        let machine = Machine::new();
        let pool = raw(&machine, &named("shuffle:4"), geometry(size, 1, 0));
        let mut blocks: Vec<u64> = take(&*pool, 6).iter().map(|block| block.dma.0).collect();
        blocks.sort_unstable();
        assert!(blocks.windows(2).all(|pair| pair[1] - pair[0] > size), "{blocks:x?}");
    }
}

#[test]
fn seeds_differ_and_one_seed_is_one_order() {
    let order = |seed: u64| {
        let machine = Machine::new();
        let pool = raw(&machine, &named(&format!("shuffle:{seed}")), geometry(64, 64, 0));
        take(&*pool, 20).into_iter().map(|block| block.dma).collect::<Vec<_>>()
    };
    let orders: BTreeSet<_> = (0..SEEDS).map(order).collect();
    assert_eq!(orders.len() as u64, SEEDS);
    assert_eq!(order(5), order(5));
}

#[test]
fn a_freed_block_comes_again_at_once_or_as_late_as_can_be() {
    for policy in (0..SEEDS).map(|seed| named(&format!("shuffle:{seed}"))) {
        let machine = Machine::new();
        let pool = raw(&machine, &policy, geometry(64, 64, 0));
        let blocks = take(&*pool, 8);
        blocks.iter().for_each(|block| assert_eq!(pool.free(*block), Ok(())));
        let again: Vec<Block> = take(&*pool, 24);
        let is_old = |block: &Block| blocks.contains(block);
        if policy.about.ends_with("at once") {
            assert!(again[..4].iter().all(is_old), "{}", policy.name);
        } else {
            // 32 blocks are in the page, and 24 were never handed out. Rather an old one than a second rise.
            assert!(!again[..12].iter().any(is_old), "{}", policy.name);
        }
    }
}

#[test]
fn every_wrong_free_is_noticed_and_nothing_is_taken_back() {
    let shift = |block: Block, by: u64| Block { cpu: block.cpu.offset(by), dma: block.dma.offset(by) };
    for policy in all() {
        let machine = Machine::new();
        let pool = raw(&machine, &policy, geometry(64, 64, 0));
        let (block, other) = (take(&*pool, 1)[0], take(&*pool, 1)[0]);
        let inside = shift(block, 4);
        let mixed = Block { cpu: other.cpu, dma: block.dma };
        let nowhere = Block { cpu: CpuAddr(1), dma: DmaAddr(DMA - 64) };
        assert_eq!(pool.free(inside), Err(FreeError::Interior { block: inside, start: block.dma }), "{}", policy.name);
        assert_eq!(
            pool.free(mixed),
            Err(FreeError::Mismatched { block: mixed, expected: block.cpu }),
            "{}",
            policy.name
        );
        assert_eq!(pool.free(nowhere), Err(FreeError::Foreign(nowhere)), "{}", policy.name);
        if policy.name != "high" {
            let gap = shift(block, 64);
            assert_eq!(pool.free(gap), Err(FreeError::Foreign(gap)), "{}", policy.name);
        }
        assert_eq!(pool.free(block), Ok(()));
        assert_eq!(pool.free(block), Err(FreeError::Double(block)), "{}", policy.name);
        assert_eq!(pool.destroy(), Err(DestroyError::Busy { live: 1, owners: Vec::new() }), "{}", policy.name);
        assert_eq!(pool.free(other), Ok(()));
        assert_eq!(pool.destroy(), Ok(()), "{}", policy.name);
    }
}

#[test]
fn scatter_gives_every_block_a_page_and_keeps_it() {
    let machine = Machine::with(16 << 10, PageOrder::Forward);
    let pool = raw(&machine, &named("scatter"), geometry(48, 16, 0));
    let blocks = take(&*pool, 10);
    let pages: BTreeSet<u64> = blocks.iter().map(|block| block.dma.0 >> 14).collect();
    assert_eq!((pages.len(), pool.pages()), (10, 10));
    blocks.iter().for_each(|block| assert_eq!(pool.free(*block), Ok(())));
    take(&*pool, 10);
    assert_eq!(pool.pages(), 10, "freed blocks come again");
}

/// Memory on both sides of 4 GiB, and a device with `bits` address lines.
fn two_spans(bits: u32) -> (std::sync::Arc<Memory>, std::sync::Arc<dyn PageSource>) {
    let low = Span { cpu: CpuAddr(0xffff_8000_0000_0000), dma: DmaAddr(0x8000_0000), len: 1 << 20 };
    let high = Span { cpu: CpuAddr(0xffff_8001_0000_0000), dma: DmaAddr(0x1_0000_0000), len: 1 << 20 };
    let memory = Memory::new(&[low, high]).expect("two spans");
    let mask = u64::MAX >> (64 - bits);
    let source = PageAllocator::new(std::sync::Arc::clone(&memory), 4096, mask, PageOrder::Forward);
    (memory, source)
}

#[test]
fn high_goes_as_high_as_the_mask_allows() {
    for (bits, first) in [(32, 0x800f_f000), (33, 0x1_000f_f000), (64, 0x1_000f_f000)] {
        let (memory, source) = two_spans(bits);
        let pool = (named("high").create)(memory, source, geometry(64, 64, 0)).expect("a right geometry");
        let blocks = take(&*pool, 65);
        let seen: Vec<u64> = blocks.iter().map(|block| block.dma.0).collect();
        assert_eq!((seen[0], seen[1], seen[64]), (first, first + 64, first - 4096), "{bits} bits");
    }
}

#[test]
fn the_others_stay_low() {
    let (memory, source) = two_spans(64);
    let pool = (Policy::current().create)(memory, source, geometry(64, 64, 0)).expect("a right geometry");
    assert_eq!(take(&*pool, 1)[0].dma, DmaAddr(0x8000_0000));
}

#[test]
fn a_ledger_sees_the_pages_that_high_asks_for() {
    let (memory, source) = two_spans(64);
    let ledger = Ledger::new(std::sync::Arc::clone(&memory));
    let pool = pool::DmaPool::create("high", &named("high"), geometry(64, 64, 0), &memory, &source, &ledger);
    let pool = pool.expect("a right geometry");
    let block = pool.alloc(Flags::ATOMIC.zeroed()).expect("a block");
    assert_eq!(ledger.live_blocks().len(), 1);
    pool.free(block).expect("taken back");
    assert_eq!(pool.destroy(), Ok(()));
    assert_eq!(ledger.findings_total(), 0);
}

#[test]
fn memory_that_is_used_up_is_an_error_and_nothing_is_lost() {
    for policy in all() {
        let machine = Machine::new();
        let before = machine.pages.free_pages();
        let pool = raw(&machine, &policy, geometry(2048, 2048, 0));
        let mut blocks = Vec::new();
        let error = loop {
            match pool.alloc(Flags::ATOMIC) {
                Ok(block) => blocks.push(block),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, AllocError::Page(PageError::Exhausted { .. })), "{}: {error}", policy.name);
        assert!(blocks.len() >= 1024, "{}: {}", policy.name, blocks.len());
        let freed = blocks.swap_remove(500);
        assert_eq!(pool.free(freed), Ok(()));
        assert_eq!(pool.alloc(Flags::ATOMIC), Ok(freed), "{}", policy.name);
        blocks.into_iter().chain([freed]).for_each(|block| assert_eq!(pool.free(block), Ok(())));
        assert_eq!(pool.destroy(), Ok(()));
        assert_eq!(machine.pages.free_pages(), before, "{}", policy.name);
    }
}
