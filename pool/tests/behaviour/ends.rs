//! Addresses near both ends: nothing overflows, and nothing is taken for memory that is none.

use std::sync::Arc;

use bus::{Access, AccessKind, Belief, CpuAddr, DmaAddr, LayoutContract, Watch};
use pool::{
    Block, Direction, DmaApi, DmaPool, Flags, Geometry, Ledger, Memory, PageAllocator, PageError, PageOrder,
    PageSource, Pages, Policy, Span, policy,
};
use proptest::prelude::*;

use crate::machine::{QUEUE_HEAD, queue_head};
use crate::seeded;

/// Memory up to the last address for the processor, and as far as it can go for devices.
const LAST: Span = Span { cpu: CpuAddr(u64::MAX - 0xffff), dma: DmaAddr(u64::MAX - 0x1_0fff), len: 0x1_0000 };
/// Memory from the first.
const FIRST: Span = Span { cpu: CpuAddr(0x2_0000), dma: DmaAddr(0), len: 0x1_0000 };

static QUEUE_HEADS: LayoutContract = LayoutContract {
    register: "ENDPTLISTADDR",
    statement: "queue heads, ascending and adjacent",
    source: "a test",
    align: 2048,
    kind: &QUEUE_HEAD,
    size: 64,
    stride: 64,
};

#[derive(Clone, Debug)]
enum Step {
    Map(u64, u64),
    Unmap(u64),
    Claim(u64, u64),
    Access(u64, u64, bool),
    Layout(u64, u32),
    Driver(u64, usize, bool),
    MapSingle(u64, u64),
    Alloc,
    Free(u64, u64),
    FreeHeld,
    Buffer(u64),
}

fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => (0_u64..0x1_2000).prop_map(|below| u64::MAX - below),
        1 => 0_u64..0x1_1000,
        1 => 0x2_0000_u64..0x3_0010,
        1 => (0_u64..16, 0_u64..8).prop_map(|(page, off)| (LAST.dma.0 + page * 4096).wrapping_sub(4).wrapping_add(off)),
        1 => Just(u64::MAX),
        1 => any::<u64>(),
    ]
}

fn length() -> impl Strategy<Value = u64> {
    prop_oneof![
        0_u64..300,
        0xff0_u64..0x1010,
        0xfff0_u64..0x1_1010,
        (0_u64..0x1_2000).prop_map(|below| u64::MAX - below),
        (0_u32..64).prop_map(|shift| 1 << shift),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => (address(), length()).prop_map(|(addr, len)| Step::Map(addr, len)),
        1 => address().prop_map(Step::Unmap),
        1 => (address(), length()).prop_map(|(addr, len)| Step::Claim(addr, len)),
        3 => (address(), length(), any::<bool>()).prop_map(|(addr, len, write)| Step::Access(addr, len, write)),
        1 => (address(), 0_u32..40).prop_map(|(addr, count)| Step::Layout(addr, count)),
        2 => (address(), 0_usize..5000, any::<bool>()).prop_map(|(addr, len, write)| Step::Driver(addr, len, write)),
        1 => (address(), length()).prop_map(|(addr, len)| Step::MapSingle(addr, len)),
        2 => Just(Step::Alloc),
        1 => (address(), address()).prop_map(|(cpu, dma)| Step::Free(cpu, dma)),
        1 => Just(Step::FreeHeld),
        1 => length().prop_map(Step::Buffer),
    ];
    prop::collection::vec(step, 1..60)
}

fn is_memory(addr: u64) -> bool {
    [FIRST, LAST].iter().any(|span| addr.wrapping_sub(span.dma.0) < span.len)
}

proptest! {
    #![proptest_config(seeded(0x6010, 400))]

    #[test]
    fn nothing_overflows(
        steps in steps(),
        index in 0_usize..6,
        (size, align, boundary) in (1_u64..5000, prop_oneof![Just(1_u64), Just(64), Just(4096)], prop_oneof![Just(0_u64), Just(1 << 63)]),
        order in prop_oneof![Just(PageOrder::Forward), Just(PageOrder::Backward)],
    ) {
        let memory = Memory::new(&[LAST, FIRST]).expect("two apart");
        let source = PageAllocator::new(Arc::clone(&memory), 4096, u64::MAX, order);
        let ledger = Ledger::new(Arc::clone(&memory));
        let policy = policy::table().swap_remove(index);
        // Up to Linux 6.3 a boundary beyond the page leads behind it (BOUNDARY_BEYOND_PAGE).
        let boundary = if policy.name == "page-list" { 0 } else { boundary };
        let api = DmaApi::new(Arc::clone(&memory), source, policy, Arc::clone(&ledger));
        let pool = api.create_pool("ends", Geometry { size, align, boundary }).expect("a right geometry");
        let mut held: Vec<Block> = Vec::new();
        for step in steps {
            match step {
                Step::Map(addr, len) => ledger.mapped(DmaAddr(addr), len, Direction::Bidirectional),
                Step::Unmap(addr) => {
                    let there = ledger.live_mappings().iter().any(|&(start, _)| start.0 == addr);
                    prop_assert_eq!(ledger.unmapped(DmaAddr(addr)), there);
                }
                Step::Claim(addr, len) => {
                    ledger.claim(DmaAddr(addr), len, queue_head(1));
                    prop_assert!(is_memory(addr) || ledger.owner_at(DmaAddr(addr)).is_none());
                }
                Step::Access(addr, len, write) => {
                    let before = ledger.findings_total();
                    let kind = if write { AccessKind::Write } else { AccessKind::Read };
                    let belief = Belief::new(&QUEUE_HEAD, 3, "token");
                    ledger.access(&Access { addr: DmaAddr(addr), len, kind, belief });
                    prop_assert!(is_memory(addr) || len == 0 || ledger.findings_total() > before, "{:#x}", addr);
                    prop_assert_eq!(ledger.place(DmaAddr(addr)).is_some_and(|_| !is_memory(addr)), false);
                }
                Step::Layout(addr, count) => ledger.layout(&QUEUE_HEADS, DmaAddr(addr), count),
                Step::Driver(addr, len, write) => {
                    let mut bytes = vec![0; len];
                    let cpu = CpuAddr(addr);
                    let copied = if write { api.write(cpu, &bytes) } else { api.read(cpu, &mut bytes) };
                    prop_assert_eq!(copied.is_ok(), memory.run(cpu, len as u64).is_some());
                    prop_assert!(api.load_u32(cpu).is_err() || memory.run(cpu, 4).is_some());
                    prop_assert!(api.store_u32(cpu, 0).is_err() || memory.run(cpu, 4).is_some());
                }
                Step::MapSingle(addr, len) => {
                    let mapped = api.map_single(CpuAddr(addr), len, Direction::ToDevice);
                    prop_assert_eq!(mapped.ok(), memory.run(CpuAddr(addr), len));
                }
                Step::Alloc => held.extend(pool.alloc(Flags::KERNEL.zeroed()).ok()),
                Step::Free(cpu, dma) => drop(pool.free(Block { cpu: CpuAddr(cpu), dma: DmaAddr(dma) })),
                Step::FreeHeld => drop(held.pop().map(|block| pool.free(block))),
                Step::Buffer(len) => {
                    if let Ok(buffer) = api.kmalloc(len, Flags::ATOMIC) {
                        prop_assert_eq!(memory.run(buffer, len.max(1)).is_some(), true);
                        prop_assert!(len % 2 == 0 || api.kfree(buffer));
                    }
                }
            }
        }
        drop(pool.destroy());
        ledger.check_leaks();
        // Every finding has words.
        prop_assert!(ledger.findings().iter().all(|finding| !finding.to_string().is_empty()));
    }

    /// A source of one's own may give what is nowhere.
    #[test]
    fn pages_from_anywhere(addr in address(), len in 0_u64..9000, at in address(), index in 0_usize..6) {
        let memory = Memory::new(&[LAST, FIRST]).expect("two apart");
        let source: Arc<dyn PageSource> = Arc::new(Anywhere(Pages { cpu: CpuAddr(addr), dma: DmaAddr(addr), len }));
        let ledger = Ledger::new(Arc::clone(&memory));
        let policy = &policy::table()[index];
        let geometry = Geometry { size: 64, align: 1, boundary: 0 };
        let pool = DmaPool::create("anywhere", policy, geometry, &memory, &source, &ledger).expect("a right geometry");
        let blocks: Vec<_> = (0..3).filter_map(|_| pool.alloc(Flags::KERNEL).ok()).collect();
        for kind in [AccessKind::Read, AccessKind::Write] {
            for addr in [at, addr.wrapping_sub(1), addr, addr.wrapping_add(len), addr | 0xfff] {
                ledger.access(&Access { addr: DmaAddr(addr), len: 8, kind, belief: Belief::new(&QUEUE_HEAD, 0, "token") });
                drop(ledger.place(DmaAddr(addr)));
            }
        }
        ledger.layout(&QUEUE_HEADS, DmaAddr(addr), 4);
        blocks.into_iter().for_each(|block| drop(pool.free(block)));
        drop(pool.free(Block { cpu: CpuAddr(at), dma: DmaAddr(at) }));
        drop(pool.destroy());
        ledger.check_leaks();
    }
}

/// Gives one run, whatever is asked for.
struct Anywhere(Pages);

impl PageSource for Anywhere {
    fn page_size(&self) -> u64 {
        4096
    }

    fn alloc(&self, _len: u64, _flags: Flags) -> Result<Pages, PageError> {
        Ok(self.0)
    }

    fn free(&self, _pages: Pages) {}
}

#[test]
fn page_sizes_that_are_none() {
    let memory = Memory::new(&[LAST, FIRST]).expect("two apart");
    for (asked, taken, pages) in [
        (0, 4096, 32),
        (1, 4096, 32),
        (1024, 4096, 32),
        (4097, 8192, 15),
        (12_288, 16_384, 7),
        (65_535, 65_536, 1),
        ((1 << 63) + 1, 1 << 63, 0),
        (u64::MAX, 1 << 63, 0),
    ] {
        let source = PageAllocator::new(Arc::clone(&memory), asked, u64::MAX, PageOrder::Backward);
        assert_eq!((source.page_size(), source.free_pages()), (taken, pages), "{asked}");
        let ledger = Ledger::new(Arc::clone(&memory));
        let source: Arc<dyn PageSource> = source;
        let geometry = Geometry { size: 96, align: 32, boundary: 0 };
        let pool = DmaPool::create("pool", &Policy::current(), geometry, &memory, &source, &ledger).expect("right");
        assert_eq!(pool.alloc(Flags::KERNEL).is_ok(), pages > 0);
        assert_eq!(ledger.findings_total(), 0);
    }
}
