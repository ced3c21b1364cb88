//! What is left when a driver is gone.

use std::sync::{Arc, Mutex};

use pool::{
    AllocError, Blame, Block, DestroyError, Direction, DmaApi, DmaPool, Finding, Flags, FreeError, Memory, Metadata,
    PageSource, Pages, Policy, Pool, Promise, policy,
};

use crate::machine::{DMA, Machine, geometry, queue_head};

fn api(machine: &Machine) -> DmaApi {
    DmaApi::new(machine.memory.clone(), machine.source.clone(), Policy::current(), machine.ledger.clone())
}

fn pool_of(machine: &Machine, policy: &Policy, name: &str) -> DmaPool {
    DmaPool::create(name, policy, geometry(64, 64, 0), &machine.memory, &machine.source, &machine.ledger)
        .expect("a right geometry")
}

/// What is found when the driver is gone, in words; a second look finds nothing more.
fn leaks(machine: &Machine) -> Vec<String> {
    let before = machine.ledger.findings().len();
    machine.ledger.check_leaks();
    let found = machine.ledger.findings().split_off(before);
    machine.ledger.check_leaks();
    assert_eq!(machine.ledger.findings().len(), before + found.len(), "once each");
    assert_eq!(machine.ledger.findings_total(), (before + found.len()) as u64);
    found.iter().map(ToString::to_string).collect()
}

/// Everything a driver can have, given back.
fn tidy(api: &DmaApi) {
    let pool = api.create_pool("ci_hw_qh", geometry(64, 64, 0)).expect("a pool");
    let block = pool.alloc(Flags::KERNEL).expect("a block");
    let ring = api.alloc_coherent(6000, Flags::KERNEL).expect("pages");
    let buffers = [64, 512, 9000].map(|len| api.kmalloc(len, Flags::KERNEL).expect("a buffer"));
    let mapped = api.map_single(buffers[2], 9000, Direction::ToDevice).expect("memory");
    api.claim(block.dma, 64, queue_head(0));
    assert!(api.unmap_single(mapped));
    assert!(buffers.into_iter().all(|buffer| api.kfree(buffer)));
    api.free_coherent(ring);
    pool.free(block).expect("taken back");
    assert_eq!(pool.destroy(), Ok(()));
}

#[test]
fn a_tidy_driver_leaves_nothing() {
    for policy in policy::table() {
        let machine = Machine::new();
        assert!(leaks(&machine).is_empty(), "nothing ever happened");
        let api = DmaApi::new(machine.memory.clone(), machine.source.clone(), policy, machine.ledger.clone());
        tidy(&api);
        assert!(leaks(&machine).is_empty(), "the slab's own pages are no leak");
        assert!(api.create_pool("refused", geometry(0, 1, 0)).is_err());
        assert!(leaks(&machine).is_empty(), "a pool that never was is none");
    }
}

#[test]
fn a_boot_loader_that_ended_is_no_leak() {
    let machine = Machine::new();
    let boot_loader = api(&machine);
    tidy(&boot_loader);
    let api = api(&machine);
    tidy(&api);
    drop(boot_loader);
    tidy(&api);
    assert!(leaks(&machine).is_empty());
    // What one of them leaves is found though the other is tidy.
    api.kmalloc(100, Flags::KERNEL).expect("a buffer");
    assert_eq!(leaks(&machine), ["the driver is gone and left 1 buffer"]);
}

#[test]
fn blocks() {
    let machine = Machine::new();
    let pool = pool_of(&machine, &Policy::current(), "ci_hw_td");
    for index in 0..10 {
        let block = pool.alloc(Flags::KERNEL).expect("a block");
        if index != 1 {
            machine.ledger.claim(block.dma, 64, queue_head(index));
        }
    }
    assert!(pool.destroy().is_err(), "a pool that was refused its end is there still");
    let names = "dQH 0, an unnamed block at 0x80000040, dQH 2, dQH 3, dQH 4, dQH 5, dQH 6, dQH 7";
    assert_eq!(leaks(&machine), [format!("the driver is gone and left 10 blocks, pool ci_hw_td: {names}")]);
    let Some(finding @ Finding::Leaked { blocks: 10, mappings: 0, buffers: 0, pools, owners }) =
        &machine.ledger.findings().pop()
    else {
        panic!("{:?}", machine.found())
    };
    assert_eq!((pools.as_slice(), owners.len()), (["ci_hw_td".to_owned()].as_slice(), 8));
    assert_eq!((finding.name(), finding.blame()), ("Leaked", Blame::Client));
}

#[test]
fn pools() {
    let machine = Machine::new();
    let kept = ["ci_hw_td", "ci_hw_qh"].map(|name| pool_of(&machine, &Policy::current(), name));
    let block = kept[0].alloc(Flags::KERNEL).expect("a block");
    kept[0].free(block).expect("taken back");
    assert_eq!(pool_of(&machine, &Policy::current(), "ended").destroy(), Ok(()));
    drop(kept);
    assert_eq!(leaks(&machine), ["the driver is gone and left pool ci_hw_td, pool ci_hw_qh"]);
}

#[test]
fn mappings_and_coherent_memory() {
    let machine = Machine::new();
    let api = api(&machine);
    let foreign = machine.source.alloc(4096, Flags::KERNEL).expect("a page");
    let mapped = api.map_single(foreign.cpu, 512, Direction::ToDevice).expect("memory");
    let ring = api.alloc_coherent(4096, Flags::KERNEL).expect("a page");
    assert!(api.claim(ring.dma, 64, queue_head(3)));
    assert_eq!(mapped.0, DMA);
    assert_eq!(leaks(&machine), ["the driver is gone and left 2 mappings: an unnamed mapping at 0x80000000, dQH 3"]);
    assert!(api.unmap_single(mapped));
    api.free_coherent(ring);
    assert!(machine.ledger.live_mappings().is_empty());
}

#[test]
fn buffers() {
    let machine = Machine::new();
    let api = api(&machine);
    let buffers = [32, 64, 2048, 4096, 20_000].map(|len| api.kmalloc(len, Flags::KERNEL).expect("a buffer"));
    assert!(api.kfree(buffers[1]) && !api.kfree(buffers[1]));
    assert_eq!(leaks(&machine), ["the driver is gone and left 4 buffers"]);
}

#[test]
fn a_mapping_to_no_memory_can_be_ended() {
    let machine = Machine::new();
    let (ledger, nowhere) = (&machine.ledger, bus::DmaAddr(u64::MAX - 7));
    ledger.mapped(nowhere, 64, Direction::ToDevice);
    assert_eq!(ledger.live_mappings(), [(nowhere, 7)]);
    assert!(ledger.unmapped(nowhere) && !ledger.unmapped(nowhere));
    assert!(leaks(&machine).is_empty());
}

/// A stack of one page's blocks that may keep its page when it ends, and counts or does not.
struct Keeper {
    source: Arc<dyn PageSource>,
    page: Pages,
    free: Mutex<Vec<Block>>,
    counts: bool,
    keeps: bool,
}

impl Pool for Keeper {
    fn alloc(&self, _flags: Flags) -> Result<Block, AllocError> {
        self.free.lock().expect("no panic").pop().ok_or_else(|| AllocError::Other("nothing left".into()))
    }

    fn free(&self, block: Block) -> Result<(), FreeError> {
        self.free.lock().expect("no panic").push(block);
        Ok(())
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        let live = 64 - self.free.lock().expect("no panic").len();
        if self.counts && live > 0 {
            return Err(DestroyError::Busy { live, owners: Vec::new() });
        }
        if !self.keeps {
            self.source.free(self.page);
        }
        Ok(())
    }

    fn pages(&self) -> usize {
        1
    }
}

fn keeper(counts: bool, keeps: bool) -> Policy {
    let fields = Metadata::InBlock(&[pool::MetadataField { start: 0, len: 8, name: "next pointer" }]);
    Policy::new("keeper", "keeps its page", fields, 64, move |_: Arc<Memory>, source: Arc<dyn PageSource>, _| {
        let page = source.alloc(4096, Flags::KERNEL).expect("a page");
        let block = |i: u64| Block { cpu: page.cpu.offset(i * 64), dma: page.dma.offset(i * 64) };
        let free = Mutex::new((0..64_u64).rev().map(block).collect());
        Ok(Box::new(Keeper { source, page, free, counts, keeps }))
    })
}

#[test]
fn pages_of_a_destroyed_pool() {
    let machine = Machine::new();
    for name in ["first", "second"] {
        let pool = pool_of(&machine, &keeper(true, true), name);
        let block = pool.alloc(Flags::KERNEL).expect("a block");
        pool.free(block).expect("taken back");
        assert_eq!(pool.destroy(), Ok(()));
    }
    let left = |name: &str, at| {
        format!("pool {name} broke its promise NoLeak: it is gone, and 1 of its pages are not, the first at {at}")
    };
    assert_eq!(leaks(&machine), [left("first", "0x80000000"), left("second", "0x80001000")]);
    let findings = machine.ledger.findings();
    let kind = |finding: &Finding| matches!(finding, Finding::PoolContract { promise: Promise::NoLeak, .. });
    assert!(findings.iter().all(|finding| kind(finding) && finding.blame() == Blame::Pool), "{findings:?}");
    // A later pool that keeps its page is another leak.
    assert_eq!(pool_of(&machine, &keeper(true, true), "second").destroy(), Ok(()));
    assert_eq!(leaks(&machine), [left("second", "0x80002000")]);
}

#[test]
fn pages_kept_after_damage_are_not_the_pools() {
    let machine = Machine::new();
    let api = api(&machine);
    let pool = pool_of(&machine, &keeper(true, true), "led");
    let block = pool.alloc(Flags::KERNEL).expect("a block");
    pool.free(block).expect("taken back");
    api.store_u32(block.cpu, 1).expect("memory");
    assert_eq!(pool.destroy(), Ok(()));
    leaks(&machine);
    assert_eq!(machine.found(), ["DriverUseAfterFree", "AttackerAddress"]);
}

/// Counts one block more than there is when it is to go.
struct Miscounts(Box<dyn Pool>);

impl Pool for Miscounts {
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        self.0.alloc(flags)
    }

    fn free(&self, block: Block) -> Result<(), FreeError> {
        self.0.free(block)
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        Err(DestroyError::Busy { live: 1, owners: Vec::new() })
    }

    fn pages(&self) -> usize {
        self.0.pages()
    }
}

#[test]
fn a_pool_that_lost_its_count_after_damage_was_not_left_by_the_driver() {
    let linked = Policy::current();
    let create = Arc::clone(&linked.create);
    let miscounts = Policy::new("miscounts", "", linked.metadata, linked.smallest, move |memory, source, geometry| {
        Ok(Box::new(Miscounts(create(memory, source, geometry)?)))
    });
    for damaged in [false, true] {
        let machine = Machine::new();
        let pool = pool_of(&machine, &miscounts, "led");
        let block = pool.alloc(Flags::KERNEL).expect("a block");
        pool.free(block).expect("taken back");
        if damaged {
            machine.device_stores(block.dma, &[0; 8]);
        }
        assert!(matches!(pool.destroy(), Err(DestroyError::Busy { live: 1, .. })));
        let expected: &[_] = if damaged { &["WriteToFreedBlock", "AttackerAddress"] } else { &["Leaked"] };
        leaks(&machine);
        assert_eq!(machine.found(), expected);
        let text = machine.ledger.findings().pop().expect("a finding").to_string();
        assert_eq!(text.contains("with 0xffff800040000000 / 0x80000000: it is not destroyed"), damaged, "{text}");
    }
}

#[test]
fn blocks_that_went_with_a_pool_that_does_not_count() {
    for keeps in [false, true] {
        let machine = Machine::new();
        let pool = pool_of(&machine, &keeper(false, keeps), "ci_hw_qh");
        for index in 0..3 {
            let block = pool.alloc(Flags::KERNEL).expect("a block");
            machine.ledger.claim(block.dma, 64, queue_head(index));
        }
        let busy = DestroyError::Busy { live: 3, owners: ["dQH 0", "dQH 1", "dQH 2"].map(str::to_owned).into() };
        assert_eq!(pool.destroy(), Err(busy));
        // Whether the page stayed or went: the driver did not free its blocks, and the pool is not blamed for its page.
        assert_eq!(leaks(&machine), ["the driver is gone and left 3 blocks: dQH 0, dQH 1, dQH 2"], "{keeps}");
    }
}

#[test]
fn pools_that_were_destroyed_busy() {
    for policy in policy::table() {
        let machine = Machine::new();
        let pool = pool_of(&machine, &policy, "ci_hw_qh");
        let block = pool.alloc(Flags::KERNEL).expect("a block");
        machine.ledger.claim(block.dma, 64, queue_head(7));
        assert!(matches!(pool.destroy(), Err(DestroyError::Busy { live: 1, .. })), "{policy:?}");
        assert_eq!(leaks(&machine), ["the driver is gone and left 1 block, pool ci_hw_qh: dQH 7"], "{policy:?}");
        assert_eq!(machine.ledger.findings().len(), 1, "the pool is not to blame");
    }
}
