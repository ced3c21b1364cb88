//! What a block and an access cost: the procedure of dmapool_test, and the ledger's judgement.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

use bus::{Access, AccessKind, Belief, CpuAddr, DmaAddr, Kind, Owner, Watch};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use pool::contract::{self, Config};
use pool::{
    Direction, DmaApi, DmaPool, Flags, Geometry, Ledger, Memory, PageAllocator, PageOrder, PageSource, Policy, Span,
    policy,
};

static KIND: Kind = Kind { name: "dQH", label: |index, f: &mut fmt::Formatter<'_>| write!(f, "dQH {index}") };

fn machine(len: u64) -> (Arc<Memory>, Arc<dyn PageSource>) {
    let span = Span { cpu: CpuAddr(0xffff_8000_0000_0000), dma: DmaAddr(0x8000_0000), len };
    let memory = Memory::new(&[span]).expect("memory");
    let source = PageAllocator::new(Arc::clone(&memory), 4096, u64::MAX, PageOrder::Forward);
    (memory, source)
}

/// All blocks allocated, then all freed in the same order, as dmapool_test does; the pool stays.
fn policies(c: &mut Criterion) {
    for geometry in [Geometry { size: 64, align: 64, boundary: 0 }, Geometry { size: 68, align: 32, boundary: 4096 }] {
        let blocks = (4096 / geometry.size * 512).clamp(1024, 8192) as usize;
        let mut group = c.benchmark_group(format!("alloc-free/{}-{}", geometry.size, geometry.align));
        group.throughput(Throughput::Elements(blocks as u64)).sample_size(20);
        for policy in policy::table() {
            let (memory, source) = machine(8 << 20);
            let pool = (policy.create)(memory, source, geometry).expect("a pool");
            let mut held = Vec::with_capacity(blocks);
            group.bench_function(policy.name.as_ref(), |b| {
                b.iter(|| {
                    held.extend((0..blocks).map(|_| pool.alloc(Flags::KERNEL).expect("a block")));
                    held.drain(..).for_each(|block| pool.free(block).expect("taken back"));
                });
            });
        }
    }
}

/// One block at a time through the ledger.
fn watched(c: &mut Criterion) {
    let (memory, source) = machine(1 << 20);
    let ledger = Ledger::new(Arc::clone(&memory));
    let geometry = Geometry { size: 64, align: 64, boundary: 0 };
    let policy = policy::by_name("index-stack").expect("in the table");
    let pool = DmaPool::create("bench", &policy, geometry, &memory, &source, &ledger).expect("a pool");
    c.bench_function("alloc-free/watched", |b| {
        b.iter(|| {
            let block = pool.alloc(Flags::KERNEL).expect("a block");
            pool.free(black_box(block)).expect("taken back");
        });
    });
}

fn access(c: &mut Criterion) {
    let (memory, source) = machine(4 << 20);
    let ledger = Ledger::new(Arc::clone(&memory));
    let geometry = Geometry { size: 64, align: 64, boundary: 0 };
    let pool = DmaPool::create("dqh", &policy::table()[2], geometry, &memory, &source, &ledger).expect("a pool");
    let block = pool.alloc(Flags::KERNEL).expect("a block");
    ledger.claim(block.dma, 64, Owner::new(&KIND, 0));
    let buffer = source.alloc(16384, Flags::KERNEL).expect("pages");
    ledger.mapped(buffer.dma, 16384, Direction::FromDevice);
    let mut group = c.benchmark_group("access");
    for (name, addr, len) in [("block", block.dma.offset(8), 8), ("mapping", buffer.dma.offset(512), 512)] {
        let access = Access { addr, len, kind: AccessKind::Write, belief: Belief::new(&KIND, 0, "token") };
        group.bench_function(name, |b| b.iter(|| ledger.access(black_box(&access))));
    }
    group.bench_function("map-unmap", |b| {
        b.iter(|| {
            ledger.mapped(black_box(buffer.dma.offset(4096)), 512, Direction::ToDevice);
            ledger.unmapped(buffer.dma.offset(4096))
        });
    });
    group.finish();
    assert_eq!(ledger.findings_total(), 0, "what is measured is the way without a finding");
}

/// A driver's own accesses: descriptor words and copies, with the ledger's judgement.
fn driver(c: &mut Criterion) {
    let (memory, source) = machine(4 << 20);
    let ledger = Ledger::new(Arc::clone(&memory));
    let api = DmaApi::new(Arc::clone(&memory), source, Policy::current(), Arc::clone(&ledger));
    let pool = api.create_pool("dtd", Geometry { size: 64, align: 64, boundary: 0 }).expect("a pool");
    let block = pool.alloc(Flags::KERNEL).expect("a block");
    let ring = api.alloc_coherent(4096, Flags::KERNEL).expect("a page");
    let buffer = api.kmalloc(16384, Flags::KERNEL).expect("pages");
    let data = [7; 512];
    let mut group = c.benchmark_group("driver");
    for (name, word) in [("block", block.cpu.offset(8)), ("coherent", ring.cpu.offset(64)), ("buffer", buffer)] {
        group.bench_function(format!("store_u32/{name}"), |b| b.iter(|| api.store_u32(black_box(word), 1)));
    }
    group.bench_function("store_u32/unwatched", |b| b.iter(|| memory.store_u32(black_box(block.cpu), 1)));
    group.bench_function("load_u32/block", |b| b.iter(|| api.load_u32(black_box(block.cpu))));
    group.bench_function("write/512", |b| b.iter(|| api.write(black_box(buffer), &data)));
    group.finish();
    assert_eq!(ledger.findings_total(), 0, "what is measured is the way without a finding");
}

fn contract_stage(c: &mut Criterion) {
    let mut group = c.benchmark_group("contract");
    group.sample_size(10);
    for policy in policy::table() {
        group.bench_function(policy.name.as_ref(), |b| {
            b.iter_batched(Config::default, |config| contract::run(&policy, &config), BatchSize::PerIteration);
        });
    }
}

criterion_group!(benches, access, driver, contract_stage, watched, policies);
criterion_main!(benches);
