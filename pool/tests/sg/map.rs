//! Tables for devices.

use bus::DmaAddr;
use pool::sg::{Limits, PAGE, Segment, SgError, Table};
use pool::{Flags, Memory, Span};
use proptest::prelude::*;

use crate::machine::{CPU, DMA, Machine, page, segment};

fn table(machine: &Machine, segments: &[Segment]) -> Table {
    let mut table = machine.table(&machine.kernels()).chunks_of(4).expect("2 to 128");
    table.alloc(segments.len() as u32, Flags::KERNEL).expect("memory");
    table.fill(segments.iter().copied()).expect("as many entries");
    table
}

fn dma(number: u64) -> DmaAddr {
    DMA.offset(number * PAGE)
}

#[test]
fn adjacent_entries_are_one_segment_up_to_the_devices_limits() {
    let machine = Machine::new(64);
    let entries: Vec<Segment> = [0, 1, 2, 3, 4, 5, 9].map(|number| segment(number, 4096)).into();
    for (limits, expected) in [
        (Limits::default(), vec![(dma(0), 6 * 4096), (dma(9), 4096)]),
        (
            Limits { max_segment: 10000, ..Limits::default() },
            vec![(dma(0), 8192), (dma(2), 8192), (dma(4), 8192), (dma(9), 4096)],
        ),
        (
            Limits { boundary: 4 * PAGE, ..Limits::default() },
            vec![(dma(0), 4 * 4096), (dma(4), 2 * 4096), (dma(9), 4096)],
        ),
        (Limits { boundary: 0, max_segment: u32::MAX }, vec![(dma(0), 6 * 4096), (dma(9), 4096)]),
    ] {
        let mut table = table(&machine, &entries);
        assert_eq!(table.map(&limits), Ok(expected.len() as u32), "{limits:?}");
        assert_eq!(table.segments_for_devices(), Ok(expected.clone()), "{limits:?}");
        assert_eq!((table.nents(), table.orig_nents()), (expected.len() as u32, 7));
        let lengths: Vec<u32> = table.entries().map(|entry| entry.expect("there").1.dma_length.get()).collect();
        assert!(lengths[expected.len()..].iter().all(|length| *length == 0), "a driver may stop there: {lengths:?}");
        assert_eq!(table.map(&limits), Err(SgError::Mapped));
        assert_eq!(table.unmap(), Ok(()));
        assert_eq!((table.nents(), table.unmap()), (7, Err(SgError::NotMapped)));
    }
}

#[test]
fn an_entry_that_the_device_does_not_take_is_named() {
    let machine = Machine::new(64);
    let mut long = table(&machine, &[segment(0, 8192)]);
    let limits = Limits { max_segment: 4096, ..Limits::default() };
    assert_eq!(long.map(&limits), Err(SgError::SegmentTooLong { length: 8192, most: 4096 }));
    let across = SgError::CrossesBoundary { at: dma(0), length: 8192, boundary: 4096 };
    assert_eq!(long.map(&Limits { boundary: 4096, ..Limits::default() }), Err(across));
    assert_eq!(long.segments_for_devices(), Err(SgError::NotMapped), "it is not mapped then");
    assert!(matches!(long.map(&Limits { max_segment: 0, boundary: 0 }), Err(SgError::Limits(_))));
    assert!(matches!(long.map(&Limits { boundary: 3, ..Limits::default() }), Err(SgError::Limits(_))));
    let mut none = machine.table(&machine.kernels());
    assert_eq!(none.map(&Limits::default()), Err(SgError::NoEntries));
    let mut empty = table(&machine, &[segment(0, 0)]);
    assert_eq!(empty.map(&Limits::default()), Err(SgError::NotMemory { at: page(0), len: 0 }));
}

/// Adjacent for the processor is not what counts.
#[test]
fn entries_are_adjacent_by_the_devices_addresses() {
    let first = Span { cpu: CPU, dma: DMA, len: 4 * PAGE };
    let apart = Span { cpu: CPU.offset(4 * PAGE), dma: DmaAddr(0x9000_0000), len: 4 * PAGE };
    let memory = Memory::new(&[first, apart]).expect("two spans");
    let pages = pool::sg::Buddy::new(memory.clone(), first).expect("whole pages");
    let mut table = Table::new(memory, pages);
    table.alloc(2, Flags::KERNEL).expect("a page");
    table.fill([segment(3, 4096), segment(4, 4096)]).expect("two entries");
    assert_eq!(table.map(&Limits::default()), Ok(2));
    table.unmap().expect("mapped");
    table.fill([segment(3, 8192)]).expect("two entries");
    assert_eq!(table.map(&Limits::default()), Err(SgError::NotMemory { at: page(3), len: 8192 }));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Segments hold the entries' bytes in order, keep to the limits, and no two of them could be one.
    #[test]
    fn segments_are_the_entries_bytes(
        entries in prop::collection::vec((0_u64..10, 0_u32..4, 1_u32..4), 1..20),
        max in 3_u32..20,
        boundary in 3_u32..8,
    ) {
        let machine = Machine::new(64);
        let quarter = 1024;
        let entries: Vec<Segment> = entries
            .into_iter()
            .map(|(number, offset, length)| {
                let length = length.min(4 - offset) * quarter;
                Segment { page: page(number), offset: offset * quarter, length }
            })
            .collect();
        let limits = Limits { max_segment: max * quarter, boundary: u64::from(quarter) << boundary };
        let mut table = table(&machine, &entries);
        let count = table.map(&limits).expect("no entry is too long");
        let segments = table.segments_for_devices().expect("mapped");
        prop_assert_eq!(segments.len(), count as usize);
        let bytes = |(start, length): (u64, u32)| (start..start + u64::from(length)).step_by(quarter as usize);
        let of_entries: Vec<u64> = entries
            .iter()
            .flat_map(|entry| bytes((entry.page.0 - CPU.0 + DMA.0 + u64::from(entry.offset), entry.length)))
            .collect();
        let of_segments: Vec<u64> = segments.iter().flat_map(|(start, length)| bytes((start.0, *length))).collect();
        prop_assert_eq!(of_segments, of_entries);
        let fits = |start: u64, length: u32| {
            length <= limits.max_segment
                && start / limits.boundary == (start + u64::from(length) - 1) / limits.boundary
        };
        prop_assert!(segments.iter().all(|(start, length)| fits(start.0, *length)), "{:?}", segments);
        // Greedy: what begins a segment did not fit into the one before.
        let mut begun = segments.iter().skip(1);
        let mut before = segments.first().map(|(start, _)| (start.0, 0)).unwrap_or_default();
        for entry in &entries {
            let start = entry.page.0 - CPU.0 + DMA.0 + u64::from(entry.offset);
            if before.0 + u64::from(before.1) == start && fits(before.0, before.1 + entry.length) {
                before.1 += entry.length;
            } else {
                let segment = begun.next().expect("a segment begins here");
                prop_assert_eq!(segment.0.0, start);
                before = (start, entry.length);
            }
        }
        prop_assert!(begun.next().is_none());
    }
}
