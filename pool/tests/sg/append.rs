//! Pages one after the other.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bus::CpuAddr;
use pool::Flags;
use pool::sg::{ChunkError, ChunkSource, PAGE, PageRun, SgError};
use proptest::prelude::*;

use crate::machine::{Failing, Machine, page, shown, whole};

fn pages(numbers: impl IntoIterator<Item = u64>) -> Vec<CpuAddr> {
    numbers.into_iter().map(page).collect()
}

#[test]
fn adjacent_pages_are_one_entry() {
    let machine = Machine::new(64);
    let mut table = machine.table(&machine.kernels());
    let run = pages([4, 5, 6, 9, 8, 10, 11]);
    table.append(&PageRun { offset: 100, size: 7 * PAGE - 200, ..whole(&run) }, Flags::KERNEL).expect("memory");
    assert_eq!(shown(&table), [(4, 100, 3 * 4096 - 100), (9, 0, 4096), (8, 0, 4096), (10, 0, 2 * 4096 - 100)]);
    assert_eq!((table.orig_nents(), table.total_nents()), (4, 4));
}

#[test]
fn no_entry_is_longer_than_the_longest_segment() {
    let machine = Machine::new(64);
    let mut table = machine.table(&machine.kernels());
    let run = pages(0..7);
    // Rounded down to two pages.
    table.append(&PageRun { max_segment: 3 * 4096 - 1, ..whole(&run) }, Flags::KERNEL).expect("memory");
    assert_eq!(shown(&table), [(0, 0, 8192), (2, 0, 8192), (4, 0, 8192), (6, 0, 4096)]);
}

#[test]
fn pages_that_go_on_are_merged_into_the_last_entry() {
    let machine = Machine::new(64);
    let mut table = machine.table(&machine.kernels());
    let (first, second) = (pages([0, 4]), pages([5, 6, 7, 8]));
    table.append(&PageRun { left_pages: 4, ..whole(&first) }, Flags::KERNEL).expect("memory");
    assert_eq!((table.orig_nents(), table.total_nents()), (2, 6));
    table.append(&PageRun { max_segment: 3 * 4096, ..whole(&second) }, Flags::KERNEL).expect("memory");
    assert_eq!(shown(&table), [(0, 0, 4096), (4, 0, 3 * 4096), (7, 0, 2 * 4096)]);
    assert_eq!((table.orig_nents(), table.total_nents()), (3, 6), "room was left for all");
    let third = pages([20]);
    assert_eq!(table.append(&whole(&third), Flags::KERNEL), Err(SgError::Ended));
    assert_eq!(shown(&table).len(), 3, "nothing has changed");
    let merged = pages([9]);
    assert_eq!(table.append(&whole(&merged), Flags::KERNEL), Ok(()), "the last entry takes it");
    assert_eq!(shown(&table)[2], (7, 0, 3 * 4096));
}

#[test]
fn a_failed_append_changes_nothing_that_counts() {
    let machine = Machine::new(64);
    let failing = Failing { source: machine.kernels(), left: AtomicU64::new(1) };
    let source: Arc<dyn ChunkSource> = Arc::new(failing);
    let mut table = machine.table(&source).chunks_of(3).expect("2 to 128");
    let (first, second) = (pages([0, 2]), pages([3, 10, 20, 30]));
    table.append(&PageRun { left_pages: 4, ..whole(&first) }, Flags::KERNEL).expect("one chunk");
    let error = table.append(&whole(&second), Flags::KERNEL);
    assert_eq!(error, Err(SgError::NoChunk(ChunkError::Injected)));
    assert_eq!((table.orig_nents(), table.total_nents()), (2, 3));
    assert_eq!(shown(&table)[..2], [(0, 0, 4096), (2, 0, 4096)], "what was merged is as before");
    assert_eq!(table.free(), Ok(()));
    drop((table, source));
    assert_eq!(machine.pages.free_count(), 64);
}

#[test]
fn runs_that_make_no_sense_are_refused() {
    let machine = Machine::new(64);
    let mut table = machine.table(&machine.kernels());
    let run = pages([1, 2]);
    let unaligned = [page(1).offset(2)];
    for (run, error) in [
        (whole(&[]), SgError::Pages("there is none")),
        (PageRun { max_segment: 4095, ..whole(&run) }, SgError::Pages("max_segment is less than a page")),
        (PageRun { offset: 4096, ..whole(&run) }, SgError::Pages("offset is not in the first page")),
        (PageRun { size: 0, ..whole(&run) }, SgError::Pages("size does not end in the last page")),
        (PageRun { size: 4096, ..whole(&run) }, SgError::Pages("size does not end in the last page")),
        (PageRun { offset: 1, ..whole(&run) }, SgError::Pages("size does not end in the last page")),
        (PageRun { size: u64::MAX, offset: 1, ..whole(&run) }, SgError::Pages("size does not end in the last page")),
        (whole(&unaligned), SgError::NoPage(unaligned[0])),
    ] {
        assert_eq!(table.append(&run, Flags::KERNEL), Err(error), "{run:?}");
        assert!(table.is_empty());
    }
    table.append(&PageRun { left_pages: 1, ..whole(&run) }, Flags::KERNEL).expect("memory");
    let offset = PageRun { offset: 1, size: 2 * PAGE - 1, ..whole(&run) };
    let error = SgError::Pages("offset is for the first pages of a table");
    assert_eq!(table.append(&offset, Flags::KERNEL), Err(error));
    let more = pages([30, 40, 50]);
    assert_eq!(table.append(&whole(&more), Flags::KERNEL), Err(SgError::LeftPages { entries: 3 }));
    let mut allocated = machine.table(&machine.kernels());
    allocated.alloc(1, Flags::KERNEL).expect("memory");
    assert_eq!(allocated.append(&whole(&run), Flags::KERNEL), Err(SgError::InUse(1)));
}

/// Bytes as devices see them, one page after the other.
fn bytes_of(entries: &[(u64, u32, u32)]) -> Vec<u64> {
    let of = |&(page, offset, length): &(u64, u32, u32)| {
        let start = page * PAGE + u64::from(offset);
        (start / PAGE..(start + u64::from(length)).div_ceil(PAGE)).collect::<Vec<_>>()
    };
    entries.iter().flat_map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever is appended in whichever pieces: the pages are those of the runs, in order, and everything is given back.
    #[test]
    fn a_table_has_the_pages_that_were_appended(
        runs in prop::collection::vec(prop::collection::vec(0_u64..12, 1..12), 1..6),
        most in 2_u32..6,
        segment in 1_u32..5,
    ) {
        let machine = Machine::new(64);
        let source = machine.kernels();
        let mut table = machine.table(&source).chunks_of(most).expect("2 to 128");
        let mut left: usize = runs.iter().map(Vec::len).sum();
        for run in &runs {
            left -= run.len();
            let run = pages(run.iter().copied());
            let run = PageRun { left_pages: left as u32, max_segment: segment * 4096, ..whole(&run) };
            prop_assert_eq!(table.append(&run, Flags::KERNEL), Ok(()));
        }
        let entries = shown(&table);
        prop_assert_eq!(entries.len(), table.orig_nents() as usize);
        prop_assert!(entries.iter().all(|(_, _, length)| *length <= segment * 4096), "{:?}", entries);
        prop_assert_eq!(bytes_of(&entries), runs.concat());
        prop_assert_eq!(table.free(), Ok(()));
        drop((table, source));
        prop_assert_eq!(machine.pages.free_count(), 64);
    }
}
