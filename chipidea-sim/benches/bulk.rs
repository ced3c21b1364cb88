//! High-speed bulk through bursts, over a hand-made ring of dTDs, and one control read.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bus::{Access, DmaAddr, LayoutContract, Mmio, NoIrq, Watch};
use chipidea_sim::{Chipidea, Config};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use devices::DmaPort;
use usb::wire::{BurstEnd, DataPid, Target};
use usb::{Speed, UsbPort};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

const BASE: u32 = 0x8000_0000;
const HEADS: u32 = BASE + 0x1000;
const DTDS: u32 = BASE + 0x2000;
const BUFFERS: u32 = BASE + 0x1_0000;
const RING: u32 = 8;
const OP: u64 = 0x140;
const EP1: Target = Target { address: 0, endpoint: 1 };

/// The cheapest watch that does something.
#[derive(Default)]
struct Count(AtomicU64);

impl Watch for Count {
    fn access(&self, access: &Access) {
        self.0.store(self.0.load(Ordering::Relaxed) + access.len, Ordering::Relaxed);
    }

    fn layout(&self, _: &'static LayoutContract, _: DmaAddr, _: u32) {}
}

struct Board {
    memory: Arc<GuestMemoryMmap>,
    sim: Arc<Chipidea>,
}

impl Board {
    fn new() -> Self {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(u64::from(BASE)), 1 << 20)]).expect("1 MiB");
        let memory = Arc::new(memory);
        let dma = DmaPort::new("chipidea", memory.clone()).watched(Arc::new(Count::default()));
        let sim = Chipidea::new(Config { vbus: true, ..Config::default() }, dma, Arc::new(NoIrq));
        let board = Self { memory, sim };
        for slot in 0..4 {
            let max = if slot < 2 { 64 } else { 512 };
            board.poke(HEADS + 64 * slot, 1 << 29 | 1 << 15 | max << 16);
        }
        for (register, value) in [(0x68, 2 | 8), (0x18, HEADS), (0x84, 0x00c8_00c8), (0x00, 1)] {
            board.sim.write32(OP + register, value);
        }
        UsbPort::reset(&*board.sim, Speed::High).expect("attached");
        board
    }

    fn poke(&self, at: u32, value: u32) {
        self.memory.write_obj(value, GuestAddress(u64::from(at))).expect("memory");
    }

    /// A list of `count` dTDs of `len` bytes, primed.
    fn prime(&self, slot: u32, count: u32, len: u32) {
        for i in 0..count {
            let at = DTDS + 64 * i;
            self.poke(at, if i + 1 == count { 1 } else { at + 64 });
            self.poke(at + 4, len << 16 | 1 << 7 | u32::from(i + 1 == count) << 15);
            for page in 0..5 {
                self.poke(at + 8 + 4 * page, BUFFERS + 0x5000 * i + 0x1000 * page);
            }
        }
        self.poke(HEADS + 64 * slot + 8, DTDS);
        self.sim.write32(OP + 0x70, 1 << (slot / 2 + 16 * (slot & 1)));
    }
}

fn bulk(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("bulk");
    for len in [16 << 10, 20 << 10] {
        let total = (RING * len) as usize;
        group.throughput(Throughput::Bytes(total as u64));
        let board = Board::new();
        let (mut pid, data) = (DataPid::Data0, vec![0x5a; total]);
        group.bench_function(format!("out {} KiB dTDs", len >> 10), |bencher| {
            bencher.iter(|| {
                board.prime(2, RING, len);
                let burst = board.sim.burst_out(EP1, &mut pid, 512, black_box(&data));
                assert_eq!((burst.bytes, burst.end), (total, BurstEnd::Done));
            });
        });
        let (mut pid, mut buffer) = (DataPid::Data0, vec![0; total]);
        group.bench_function(format!("in {} KiB dTDs", len >> 10), |bencher| {
            bencher.iter(|| {
                board.prime(3, RING, len);
                let burst = board.sim.burst_in(EP1, &mut pid, 512, black_box(&mut buffer));
                assert_eq!((burst.bytes, burst.end), (total, BurstEnd::Done));
            });
        });
    }
    group.finish();
}

fn control(criterion: &mut Criterion) {
    let board = Board::new();
    let ep0 = Target { address: 0, endpoint: 0 };
    criterion.bench_function("control read of 18 bytes", |bencher| {
        bencher.iter(|| {
            board.sim.setup(ep0, &[0x80, 6, 0, 1, 0, 0, 64, 0]);
            board.sim.write32(OP + 0x6c, 1);
            board.prime(1, 1, 18);
            let mut buffer = [0; 64];
            black_box(board.sim.burst_in(ep0, &mut DataPid::Data1, 64, &mut buffer));
            board.prime(0, 1, 0);
            black_box(board.sim.data_out(ep0, DataPid::Data1, &[]));
        });
    });
}

criterion_group!(benches, bulk, control);
criterion_main!(benches);
