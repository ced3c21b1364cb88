//! Page sources, the slab, and a driver's view of memory.

use std::sync::{Arc, Mutex};

use bus::{AccessKind, CpuAddr, DmaAddr, Point, Preempt};
use pool::{
    CpuFault, CreateError, Direction, DmaApi, Flags, MapError, Memory, PageAllocator, PageError, PageOrder, PageSource,
    Policy, Slab, Span,
};
use proptest::prelude::*;

use crate::machine::{CPU, DMA, Machine, geometry, queue_head};
use crate::seeded;

const BELOW: Span = Span { cpu: CpuAddr(CPU), dma: DmaAddr(0xffff_0000), len: 0x1_0000 };
const ABOVE: Span = Span { cpu: CpuAddr(CPU + 0x100_0000), dma: DmaAddr(0x1_0000_0000), len: 0x2_0000 };

fn allocator(spans: &[Span], page_size: u64, mask: u64, order: PageOrder) -> Arc<PageAllocator> {
    PageAllocator::new(Memory::new(spans).expect("small"), page_size, mask, order)
}

fn pages(source: &PageAllocator, count: usize) -> Vec<u64> {
    (0..count).map(|_| source.alloc(source.page_size(), Flags::KERNEL).expect("a page").dma.0).collect()
}

#[test]
fn orders_of_pages() {
    let forward = allocator(&[BELOW], 4096, u64::MAX, PageOrder::Forward);
    assert_eq!(pages(&forward, 3), [0xffff_0000, 0xffff_1000, 0xffff_2000]);
    let backward = allocator(&[BELOW], 4096, u64::MAX, PageOrder::Backward);
    assert_eq!(pages(&backward, 3), [0xffff_f000, 0xffff_e000, 0xffff_d000]);
    let [one, same, other] = [1, 1, 2].map(|seed| {
        let scattered = allocator(&[BELOW, ABOVE], 4096, u64::MAX, PageOrder::Scattered(seed));
        pages(&scattered, 48)
    });
    assert_eq!(one, same);
    assert_ne!(one, other);
    assert!(one[..24].windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 4096), "no neighbours while others are free");
    let mut all = one;
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 48, "every page once");
}

#[test]
fn a_mask_of_32_bits_with_memory_above() {
    for order in [PageOrder::Forward, PageOrder::Backward, PageOrder::Scattered(3)] {
        let source = allocator(&[ABOVE, BELOW], 4096, u64::from(u32::MAX), order);
        assert_eq!(source.free_pages(), 16);
        assert!(pages(&source, 16).iter().all(|&page| page + 4095 <= u64::from(u32::MAX)));
        let error = source.alloc(4096, Flags::KERNEL).expect_err("exhausted");
        assert_eq!(error, PageError::Exhausted { len: 4096, mask: u64::from(u32::MAX) });
        assert_eq!(error.to_string(), "memory exhausted: no 4096 free bytes in one run below 0xffffffff");
    }
    let out_of_reach = allocator(&[ABOVE], 4096, u64::from(u32::MAX), PageOrder::Forward);
    let error = out_of_reach.alloc(4096, Flags::KERNEL).expect_err("out of reach");
    assert_eq!(error.to_string(), "DMA mask 0xffffffff: no memory below it");
    // One byte short of the last page.
    let short = allocator(&[BELOW], 4096, 0xffff_fffe, PageOrder::Backward);
    assert_eq!(pages(&short, 1), [0xffff_e000]);
}

#[test]
fn pages_of_64_kib_keep_to_their_alignment() {
    let odd = Span { dma: DmaAddr(0x8000_3000), len: 0x3_0000, ..BELOW };
    let source = allocator(&[odd], 65536, u64::MAX, PageOrder::Forward);
    assert_eq!(source.free_pages(), 2);
    assert_eq!(pages(&source, 2), [0x8001_0000, 0x8002_0000]);
    let last = Span { dma: DmaAddr(u64::MAX - 0xffff - 0x1000), len: 0x1_1000, ..BELOW };
    assert!(Memory::new(&[last]).is_err(), "it would end at 2^64");
    let top = Span { dma: DmaAddr(u64::MAX - 0x1_ffff), len: 0x1_f000, ..BELOW };
    assert_eq!(allocator(&[top], 65536, u64::MAX, PageOrder::Forward).free_pages(), 1);
    let tail = Span { dma: DmaAddr(u64::MAX - 0xefff), len: 0xe000, ..BELOW };
    assert_eq!(allocator(&[tail], 65536, u64::MAX, PageOrder::Forward).free_pages(), 0);
}

#[test]
fn runs_are_aligned_to_their_size_and_zeroed() {
    let source = allocator(&[BELOW], 4096, u64::MAX, PageOrder::Forward);
    let first = source.alloc(1, Flags::KERNEL).expect("a page");
    let run = source.alloc(8193, Flags::KERNEL).expect("three pages");
    assert_eq!((first.len, run.len), (4096, 12288));
    assert_eq!(run.dma, DmaAddr(0xffff_4000), "aligned to four pages");
    source.free(run);
    source.free(first);
    assert_eq!(source.free_pages(), 16);

    let machine = Machine::new();
    machine.device_writes(DmaAddr(DMA), &[0xff; 4096]);
    let page = machine.source.alloc(4096, Flags::KERNEL).expect("a page");
    assert_eq!(machine.device_reads(page.dma, 4096), [0; 4096]);
}

#[test]
fn fragments_are_no_run() {
    let source = allocator(&[BELOW], 4096, u64::MAX, PageOrder::Forward);
    let all: Vec<_> = (0..16).map(|_| source.alloc(4096, Flags::KERNEL).expect("a page")).collect();
    all.iter().step_by(2).for_each(|page| source.free(*page));
    assert_eq!(source.free_pages(), 8);
    assert_eq!(source.alloc(8192, Flags::KERNEL), Err(PageError::Exhausted { len: 8192, mask: u64::MAX }));
    assert_eq!(
        source.alloc(u64::MAX, Flags::KERNEL).map(|run| run.len),
        Err(PageError::Exhausted { len: u64::MAX, mask: u64::MAX })
    );
    source.free(all[1]);
    assert_eq!(source.alloc(8192, Flags::KERNEL).map(|run| run.dma), Ok(all[0].dma));
}

/// For devices the spans touch, for the processor they do not: no run crosses.
#[test]
fn a_run_is_one_for_the_processor_too() {
    let source = allocator(&[BELOW, ABOVE], 4096, u64::MAX, PageOrder::Backward);
    let half = Span { dma: DmaAddr(0x1_0001_0000), cpu: CpuAddr(CPU), len: 0x1_0000 };
    let first = Span { len: 0x1_0000, ..ABOVE };
    let halves = allocator(&[first, half], 4096, u64::MAX, PageOrder::Forward);
    assert_eq!(source.alloc(0x2_0000, Flags::KERNEL).map(|run| run.dma), Ok(ABOVE.dma));
    assert!(halves.alloc(0x2_0000, Flags::KERNEL).is_err());
    assert_eq!(halves.alloc(0x1_0000, Flags::KERNEL).map(|run| run.cpu), Ok(first.cpu));
}

#[test]
fn pages_that_are_not_out_are_not_taken() {
    let source = allocator(&[BELOW], 4096, u64::MAX, PageOrder::Forward);
    let run = source.alloc(8192, Flags::KERNEL).expect("two pages");
    source.free(pool::Pages { len: 4096, ..run });
    source.free(pool::Pages { dma: run.dma.offset(4096), len: 4096, ..run });
    source.free(pool::Pages { dma: DmaAddr(0x1000), ..run });
    assert_eq!((source.free_pages(), source.wrong_frees()), (14, 3));
    source.free(run);
    source.free(run);
    assert_eq!((source.free_pages(), source.wrong_frees()), (16, 4));
}

proptest! {
    #![proptest_config(seeded(0x6005, 100))]

    /// Runs never overlap, and all come back.
    #[test]
    fn runs_are_apart(
        order in prop_oneof![Just(PageOrder::Forward), Just(PageOrder::Backward), any::<u64>().prop_map(PageOrder::Scattered)],
        steps in prop::collection::vec((1_u64..40_000, any::<prop::sample::Index>(), any::<bool>()), 1..120),
    ) {
        let source = allocator(&[BELOW, ABOVE], 4096, u64::MAX, order);
        let mut out: Vec<pool::Pages> = Vec::new();
        for (len, index, give_back) in steps {
            if give_back && !out.is_empty() {
                source.free(out.swap_remove(index.index(out.len())));
            } else if let Ok(run) = source.alloc(len, Flags::KERNEL) {
                prop_assert!(run.len >= len && run.len - len < 4096);
                prop_assert!(run.dma.is_aligned(run.len.next_power_of_two()));
                let apart =
                    |o: &pool::Pages| run.dma.0 + run.len <= o.dma.0 || o.dma.0 + o.len <= run.dma.0;
                prop_assert!(out.iter().all(apart));
                out.push(run);
            }
            let used: u64 = out.iter().map(|run| run.len / 4096).sum();
            prop_assert_eq!(source.free_pages() as u64 + used, 48);
        }
        prop_assert_eq!(source.wrong_frees(), 0);
    }
}

#[test]
fn slab_buffers() {
    let machine = Machine::new();
    let before = machine.pages.free_pages();
    let slab = Slab::new(machine.source.clone());
    let sizes = [1, 32, 33, 64, 100, 512, 1514, 2048, 2049, 4096, 10_000];
    let mut buffers: Vec<(u64, CpuAddr)> =
        sizes.iter().map(|&len| (len, slab.alloc(len, Flags::KERNEL).expect("a buffer"))).collect();
    for &(len, buffer) in &buffers {
        assert!(buffer.is_aligned(len.max(32).next_power_of_two().min(4096)), "{len}: {buffer}");
    }
    buffers.sort_by_key(|&(_, buffer)| buffer);
    assert!(buffers.windows(2).all(|pair| pair[0].1.0 + pair[0].0 <= pair[1].1.0), "{buffers:?}");
    assert_eq!(slab.live(), sizes.len());
    // Last freed, first out, of the same class only.
    let (_, small) = buffers.iter().find(|(len, _)| *len == 100).copied().expect("one");
    assert!(slab.free(small));
    assert!(!slab.free(small), "a double free is noticed");
    assert!(!slab.free(small.offset(8)));
    assert_ne!(slab.alloc(64, Flags::KERNEL), Ok(small));
    assert_eq!(slab.alloc(128, Flags::KERNEL), Ok(small));
    drop(slab);
    assert_eq!(machine.pages.free_pages(), before, "large and small, live or not");
    assert_eq!(machine.pages.wrong_frees(), 0);
}

#[test]
fn an_exhausted_slab_says_so_and_recovers() {
    let source = allocator(&[BELOW], 4096, u64::MAX, PageOrder::Forward);
    let slab = Slab::new(source.clone());
    let large = slab.alloc(0x1_0000, Flags::KERNEL).expect("everything");
    assert_eq!(slab.alloc(32, Flags::ATOMIC), Err(PageError::Exhausted { len: 4096, mask: u64::MAX }));
    assert_eq!(slab.live(), 1);
    assert!(slab.free(large));
    assert!(slab.alloc(32, Flags::ATOMIC).is_ok());
}

fn api(machine: &Machine) -> DmaApi {
    DmaApi::new(machine.memory.clone(), machine.source.clone(), Policy::current(), machine.ledger.clone())
}

#[test]
fn a_buffer_is_a_devices_only_while_it_is_mapped() {
    let machine = Machine::new();
    let api = api(&machine);
    let buffer = api.kmalloc(512, Flags::KERNEL).expect("a buffer");
    let addr = machine.memory.dma(buffer).expect("mapped");
    machine.access(AccessKind::Read, addr, 512);
    assert_eq!(machine.found(), ["Unmapped"]);
    assert_eq!(api.map_single(buffer, 512, Direction::ToDevice), Ok(addr));
    assert_eq!(machine.ledger.live_mappings(), [(addr, 512)]);
    assert!(api.claim(addr, 512, queue_head(4)));
    machine.access(AccessKind::Read, addr, 512);
    machine.access(AccessKind::Write, addr, 1);
    // The other half of the frame is not mapped.
    machine.access(AccessKind::Read, addr.offset(511), 2);
    assert_eq!(machine.found()[1..], ["AgainstDirection", "Unmapped"]);
    assert!(api.unmap_single(addr));
    assert!(!api.unmap_single(addr));
    machine.access(AccessKind::Read, addr, 512);
    assert_eq!(machine.found()[3..], ["Unmapped"]);
    assert!(api.kfree(buffer) && !api.kfree(buffer));
}

#[test]
fn what_is_not_memory_is_not_mapped() {
    let machine = Machine::new();
    let api = api(&machine);
    let wrong = CpuAddr(DMA);
    assert_eq!(
        api.map_single(wrong, 4, Direction::ToDevice),
        Err(MapError::NotMemory { cpu: wrong, len: 4 }),
        "a device's address is none of the processor's"
    );
    let last = CpuAddr(CPU + (4 << 20) - 8);
    let error = api.map_single(last, 9, Direction::FromDevice).expect_err("beyond memory");
    assert_eq!(error.to_string(), "0xffff8000403ffff8 and 9 bytes are not memory");
    assert!(api.map_single(last, u64::MAX, Direction::FromDevice).is_err());
    assert_eq!(machine.ledger.live_mappings(), []);
}

#[test]
fn coherent_memory_is_both_sides() {
    let machine = Machine::new();
    let api = api(&machine);
    let before = machine.pages.free_pages();
    let ring = api.alloc_coherent(6000, Flags::KERNEL).expect("two pages");
    assert_eq!(ring.len, 8192);
    api.store_u32(ring.cpu.offset(4096), 0x1234_5678).expect("mapped");
    assert_eq!(machine.device_reads(ring.dma.offset(4096), 4), [0x78, 0x56, 0x34, 0x12]);
    machine.access(AccessKind::Write, ring.dma, 8192);
    assert_eq!(machine.found(), [""; 0]);
    api.free_coherent(ring);
    machine.access(AccessKind::Write, ring.dma, 4);
    assert_eq!(machine.found(), ["Unmapped"]);
    assert_eq!(machine.pages.free_pages(), before);
}

#[test]
fn pools_of_a_driver() {
    let machine = Machine::new();
    let api = api(&machine);
    let pool = api.create_pool("ci_hw_qh", geometry(64, 64, 0)).expect("a right geometry");
    assert_eq!((pool.name(), pool.pages()), ("ci_hw_qh", 0));
    let block = pool.alloc(Flags::ATOMIC.zeroed()).expect("a block");
    assert_eq!(machine.ledger.live_blocks(), [("ci_hw_qh".to_owned(), block.dma, None)]);
    pool.free(block).expect("taken back");
    assert_eq!(pool.destroy(), Ok(()));
    for (wrong, words) in [
        (geometry(0, 1, 0), "size 0: a block has 1 to 2147483647 bytes"),
        (geometry(1 << 31, 1, 0), "size 2147483648: a block has 1 to 2147483647 bytes"),
        (geometry(u64::MAX, 1 << 63, 0), "size 18446744073709551615: a block has 1 to 2147483647 bytes"),
        (geometry(64, 48, 0), "align 48 is not a power of two"),
        (geometry(64, 64, 96), "boundary 96 is not a power of two"),
        (geometry(40, 64, 32), "boundary 32 is smaller than a block, 64 bytes after rounding"),
    ] {
        let error: CreateError = api.create_pool("wrong", wrong).expect_err("a wrong geometry");
        assert_eq!(error.to_string(), words);
    }
}

struct Points(Mutex<Vec<Point>>);

impl Preempt for Points {
    fn at(&self, point: Point) {
        self.0.lock().expect("no panic").push(point);
    }
}

#[test]
fn descriptor_words_are_preemption_points() {
    let machine = Machine::new();
    let points = Arc::new(Points(Mutex::default()));
    let api = api(&machine).preempted(points.clone());
    let cpu = CpuAddr(CPU + 64);
    api.store_u32(cpu, 7).expect("mapped");
    assert_eq!(api.load_u32(cpu), Ok(7));
    api.write(cpu, &[1, 2, 3]).expect("mapped");
    let mut bytes = [0; 3];
    api.read(cpu, &mut bytes).expect("mapped");
    assert_eq!(bytes, [1, 2, 3]);
    assert_eq!(*points.0.lock().expect("no panic"), [Point::DescriptorWrite, Point::DescriptorRead]);
    let odd = cpu.offset(2);
    assert_eq!(api.load_u32(odd), Err(CpuFault { cpu: odd, len: 4 }));
}

#[test]
fn orders_are_read_as_people_write_them() {
    for (text, order) in [
        ("forward", PageOrder::Forward),
        ("backward", PageOrder::Backward),
        ("scattered", PageOrder::Scattered(0)),
        ("scattered:7", PageOrder::Scattered(7)),
    ] {
        assert_eq!(text.parse(), Ok(order));
    }
    for text in
        ["", "Forward", "forward:1", "scattered:", "scattered:x", "scattered:+1", "scattered:18446744073709551616"]
    {
        let error = text.parse::<PageOrder>().expect_err("no order").to_string();
        assert!(error.starts_with(&format!("`{text}` is no order of pages")), "{error}");
    }
}
