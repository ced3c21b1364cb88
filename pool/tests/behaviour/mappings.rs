//! Mappings of a driver in the ledger, against a plain list.

use bus::{AccessKind, DmaAddr};
use pool::{Direction, Finding, Flags};
use proptest::prelude::*;

use crate::machine::{DMA, Machine, geometry, queue_head};
use crate::seeded;

#[derive(Clone, Debug)]
enum Step {
    Map(u64, u64, Direction),
    Unmap(prop::sample::Index),
    Access(u64, u64, AccessKind),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let direction = prop::sample::select(vec![Direction::ToDevice, Direction::FromDevice, Direction::Bidirectional]);
    let kind = prop::sample::select(vec![AccessKind::Read, AccessKind::Write]);
    let start = prop_oneof![0_u64..0x4000, (0_u64..32).prop_map(|i| i * 512)];
    let len = prop_oneof![1_u64..700, (1_u64..9).prop_map(|i| i * 512), Just(0x3000)];
    let step = prop_oneof![
        3 => (start.clone(), len.clone(), direction).prop_map(|(start, len, direction)| Step::Map(start, len, direction)),
        2 => any::<prop::sample::Index>().prop_map(Step::Unmap),
        4 => (start, 1_u64..2000, kind).prop_map(|(start, len, kind)| Step::Access(start, len, kind)),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(seeded(0x6004, 200))]

    /// Every byte of an access must lie in a mapping that allows it, however mappings share frames.
    #[test]
    fn an_access_is_judged_byte_by_byte(steps in steps()) {
        let machine = Machine::new();
        let ledger = &machine.ledger;
        let mut mapped: Vec<(u64, u64, Direction)> = Vec::new();
        for step in steps {
            match step {
                Step::Map(start, len, direction) => {
                    ledger.mapped(DmaAddr(DMA + start), len, direction);
                    mapped.push((start, len, direction));
                }
                Step::Unmap(index) if !mapped.is_empty() => {
                    let (start, _, _) = mapped[index.index(mapped.len())];
                    prop_assert!(ledger.unmapped(DmaAddr(DMA + start)));
                    // The newest of those that begin there.
                    let newest = mapped.iter().rposition(|&(other, _, _)| other == start).expect("at least one");
                    mapped.remove(newest);
                    let left = mapped.iter().any(|&(other, _, _)| other == start);
                    prop_assert!(left || !ledger.unmapped(DmaAddr(DMA + start)));
                }
                Step::Unmap(_) => {}
                Step::Access(start, len, kind) => {
                    let at = |byte: u64| mapped.iter().filter(move |(start, len, _)| byte.wrapping_sub(*start) < *len);
                    let wrong = (start..start + len).find(|&byte| at(byte).all(|(_, _, way)| !way.allows(kind)));
                    let expected = wrong.map(|byte| if at(byte).count() == 0 { "Unmapped" } else { "AgainstDirection" });
                    let before = ledger.findings_total();
                    machine.access(kind, DmaAddr(DMA + start), len);
                    let new = ledger.findings_total() - before;
                    prop_assert_eq!(new, u64::from(expected.is_some()), "{:?} {:#x} {}", expected, start, len);
                    if let Some(expected) = expected
                        && ledger.findings_total() <= 64
                    {
                        prop_assert_eq!(machine.found().pop(), Some(expected));
                    }
                }
            }
            let mut live: Vec<_> = mapped.iter().map(|&(start, len, _)| (DmaAddr(DMA + start), len)).collect();
            live.sort_unstable();
            prop_assert_eq!(ledger.live_mappings(), live);
        }
    }
}

#[test]
fn directions() {
    let machine = Machine::new();
    let cases = [
        (Direction::ToDevice, [true, false]),
        (Direction::FromDevice, [false, true]),
        (Direction::Bidirectional, [true, true]),
    ];
    for (direction, allowed) in cases {
        for (kind, allowed) in [AccessKind::Read, AccessKind::Write].into_iter().zip(allowed) {
            assert_eq!(direction.allows(kind), allowed);
            machine.ledger.mapped(DmaAddr(DMA), 64, direction);
            let before = machine.ledger.findings_total();
            machine.access(kind, DmaAddr(DMA), 64);
            assert_eq!(machine.ledger.findings_total() - before, u64::from(!allowed), "{direction:?} {kind:?}");
            assert!(machine.ledger.unmapped(DmaAddr(DMA)));
        }
    }
    assert_eq!(
        machine.ledger.findings()[0].to_string(),
        "the device wrote dQH 3 token at 0x80000000 (64 bytes), against the direction of the mapping"
    );
}

#[test]
fn beyond_memory_and_around_the_end_of_addresses() {
    let machine = Machine::new();
    machine.access(AccessKind::Read, DmaAddr(0), 4);
    machine.access(AccessKind::Read, DmaAddr(u64::MAX - 1), 8);
    machine.access(AccessKind::Read, DmaAddr(DMA + (4 << 20)), u64::MAX);
    assert_eq!(machine.found(), ["Unmapped"; 3]);
    // A mapping beyond memory is kept as far as there is memory.
    machine.ledger.mapped(DmaAddr(DMA + (4 << 20) - 64), u64::MAX / 2, Direction::Bidirectional);
    machine.access(AccessKind::Read, DmaAddr(DMA + (4 << 20) - 64), 64);
    assert_eq!(machine.found().len(), 3);
    assert!(machine.ledger.unmapped(DmaAddr(DMA + (4 << 20) - 64)));
    assert_eq!(
        machine.ledger.findings()[1].to_string(),
        "the device read dQH 3 token at 0xfffffffffffffffe (8 bytes), which no one mapped"
    );
}

#[test]
fn claims_in_coherent_memory() {
    let machine = Machine::new();
    let ledger = &machine.ledger;
    ledger.mapped(DmaAddr(DMA), 4096, Direction::Bidirectional);
    assert!(ledger.claim(DmaAddr(DMA + 64), 64, queue_head(1)));
    assert!(ledger.claim(DmaAddr(DMA + 128), 64, queue_head(2)));
    assert_eq!(ledger.owner_at(DmaAddr(DMA + 127)), Some(queue_head(1)));
    assert_eq!(ledger.owner_at(DmaAddr(DMA + 128)), Some(queue_head(2)));
    assert_eq!(ledger.owner_at(DmaAddr(DMA)), None);
    // A claim across both takes their place.
    assert!(ledger.claim(DmaAddr(DMA + 96), 64, queue_head(3)));
    assert_eq!(ledger.owner_at(DmaAddr(DMA + 64)), None);
    assert_eq!(ledger.owner_at(DmaAddr(DMA + 130)), Some(queue_head(3)));
    // Nothing to claim there, or not that much.
    assert!(!ledger.claim(DmaAddr(DMA + 4096), 64, queue_head(4)));
    assert!(!ledger.claim(DmaAddr(DMA + 4064), 64, queue_head(4)));
    // A buffer mapped inside hides no claim, and goes by itself.
    ledger.mapped(DmaAddr(DMA + 128), 64, Direction::ToDevice);
    assert_eq!(ledger.owner_at(DmaAddr(DMA + 130)), Some(queue_head(3)));
    assert!(ledger.unmapped(DmaAddr(DMA + 128)));
    machine.access(AccessKind::Write, DmaAddr(DMA), 4096);
    assert_eq!(machine.found(), [""; 0]);
}

#[test]
fn a_claim_goes_with_the_newest_mapping() {
    let machine = Machine::new();
    let ledger = &machine.ledger;
    ledger.mapped(DmaAddr(DMA), 512, Direction::ToDevice);
    ledger.mapped(DmaAddr(DMA), 512, Direction::FromDevice);
    assert!(ledger.claim(DmaAddr(DMA), 512, queue_head(1)));
    assert!(ledger.unmapped(DmaAddr(DMA)));
    assert_eq!(ledger.owner_at(DmaAddr(DMA)), None);
    machine.access(AccessKind::Read, DmaAddr(DMA), 512);
    assert_eq!(machine.found(), [""; 0], "the older is still there");
}

#[test]
fn a_mapped_block_stays_a_block() {
    let machine = Machine::new();
    let pool = machine.pool(&pool::Policy::current(), geometry(64, 64, 0));
    let block = pool.alloc(Flags::KERNEL).expect("a block");
    machine.ledger.mapped(block.dma, 64, Direction::ToDevice);
    machine.access(AccessKind::Write, block.dma, 64);
    assert!(machine.ledger.unmapped(block.dma), "the mapping is known");
    assert_eq!(machine.ledger.live_mappings(), []);
    pool.free(block).expect("taken back");
    machine.access(AccessKind::Read, block.dma, 4);
    assert!(matches!(machine.ledger.findings().as_slice(), [Finding::ReadOfFreedBlock { .. }]));
}
