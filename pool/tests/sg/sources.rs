//! Each source by itself: no overlap, nothing lost, wrong frees refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use bus::{CpuAddr, DmaAddr};
use pool::sg::{Buddy, ChunkError, ChunkSource, PAGE, SizeClasses, SlabCache, VirtualMapping};
use pool::{Flags, Geometry, Memory, PageSource, Span, policy};
use proptest::prelude::*;

use crate::machine::{CPU, DMA, Machine, page};

const ZEROED: Flags = Flags { zero: true, may_sleep: true };

/// A step: allocate so many bytes, or free one of what is held.
#[derive(Clone, Debug)]
enum Step {
    Alloc(u64),
    Free(prop::sample::Index),
}

fn steps(longest: u64) -> impl Strategy<Value = Vec<Step>> {
    let len = prop_oneof![1..=longest, (0..=longest.ilog2()).prop_map(|bits| 1 << bits)];
    let step = prop_oneof![3 => len.prop_map(Step::Alloc), 2 => any::<prop::sample::Index>().prop_map(Step::Free)];
    prop::collection::vec(step, 1..200)
}

/// Bytes of a chunk that are looked at: some of each page, and the last.
fn places(at: u64, len: u64) -> impl Iterator<Item = CpuAddr> {
    (at..at + len).step_by(61).chain([at + len - 1]).map(CpuAddr)
}

/// Does the steps, then frees the rest. Every live chunk has a byte of its own, and is looked at when it is freed.
fn play(machine: &Machine, source: &dyn ChunkSource, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut held: BTreeMap<u64, (u64, u8)> = BTreeMap::new();
    let free = |held: &mut BTreeMap<u64, (u64, u8)>, at: u64| {
        let (len, byte) = held.remove(&at).expect("held");
        let mut bytes = places(at, len).map(|at| {
            let mut one = [0];
            machine.memory.read(source.linear(at).expect("mapped"), &mut one).expect("memory");
            one[0]
        });
        prop_assert!(bytes.all(|found| found == byte), "{:#x}: somebody else wrote there", at);
        prop_assert_eq!(source.free(CpuAddr(at), len), Ok(()));
        Ok(())
    };
    for (index, step) in steps.iter().enumerate() {
        match step {
            Step::Alloc(len) => {
                let zero = index % 2 == 0;
                let Ok(at) = source.alloc(*len, Flags { zero, may_sleep: true }) else { continue };
                prop_assert_eq!(at.0 % 8, 0);
                prop_assert!(!len.is_power_of_two() || at.0.is_multiple_of((*len).min(PAGE)), "{} at {}", len, at);
                let before = held.range(..=at.0).next_back();
                prop_assert!(before.is_none_or(|(start, (length, _))| start + length <= at.0), "{} overlaps", at);
                let behind = held.range(at.0..).next();
                prop_assert!(behind.is_none_or(|(start, _)| at.0 + len <= *start), "{} overlaps", at);
                let byte = index as u8 | 1;
                let read = |at| {
                    let mut one = [1];
                    machine.memory.read(source.linear(at).expect("mapped"), &mut one).expect("memory");
                    one[0]
                };
                prop_assert!(!zero || places(at.0, *len).all(|at| read(at) == 0), "{} is not zeroed", at);
                for at in places(at.0, *len) {
                    machine.memory.write(source.linear(at).expect("mapped"), &[byte]).expect("memory");
                }
                held.insert(at.0, (*len, byte));
            }
            Step::Free(index) if !held.is_empty() => {
                let at = *held.keys().nth(index.index(held.len())).expect("one of them");
                free(&mut held, at)?;
            }
            Step::Free(_) => {}
        }
    }
    while let Some(&at) = held.keys().next() {
        free(&mut held, at)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn pages_do_not_overlap_and_are_one_run_again(steps in steps(40 * 1024)) {
        let machine = Machine::new(128);
        let before = machine.pages.free_runs();
        play(&machine, &*machine.pages, &steps)?;
        prop_assert_eq!(machine.pages.free_runs(), before);
        prop_assert_eq!(machine.pages.free_count(), 128);
    }

    #[test]
    fn size_classes_do_not_overlap_and_lose_nothing(steps in steps(20 * 1024)) {
        let machine = Machine::new(512);
        let classes = machine.size_classes();
        play(&machine, &classes, &steps)?;
        drop(classes);
        prop_assert_eq!(machine.pages.free_count(), 512);
    }

    #[test]
    fn slab_caches_do_not_overlap_and_lose_nothing(steps in steps(4096), size in 1_u64..4096) {
        let machine = Machine::new(512);
        let cache = machine.slab_cache(size);
        let fits = |step: &Step| match *step {
            Step::Alloc(len) => Step::Alloc((len - 1) % size + 1),
            Step::Free(index) => Step::Free(index),
        };
        let steps: Vec<Step> = steps.iter().map(fits).filter(|step| !matches!(step, Step::Alloc(len) if len.is_power_of_two())).collect();
        play(&machine, &cache, &steps)?;
        drop(cache);
        prop_assert_eq!(machine.pages.free_count(), 512);
    }

    #[test]
    fn virtual_mappings_do_not_overlap_and_lose_nothing(steps in steps(40 * 1024)) {
        let machine = Machine::new(128);
        let mapping = VirtualMapping::new(Arc::clone(&machine.pages)).expect("a page");
        play(&machine, &mapping, &steps)?;
        drop(mapping);
        prop_assert_eq!(machine.pages.free_count(), 128);
    }
}

#[test]
fn a_zone_that_is_not_aligned_is_all_handed_out_and_one_again() {
    // 37 pages from page 3 on: 1, 4, 8, 16, 8 pages.
    let span = Span { cpu: CPU.offset(3 * PAGE), dma: DMA.offset(3 * PAGE), len: 37 * PAGE };
    let memory = Memory::new(&[span]).expect("memory");
    let pages = Buddy::new(memory, span).expect("whole pages");
    assert_eq!(pages.free_runs()[..6], [1, 0, 1, 2, 1, 0]);
    let mut all: Vec<CpuAddr> = std::iter::from_fn(|| pages.alloc_pages(0, Flags::ATOMIC).ok()).collect();
    assert_eq!((all.len(), pages.free_count()), (37, 0));
    assert_eq!(pages.alloc_pages(0, Flags::ATOMIC), Err(ChunkError::NoPages { len: PAGE }));
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[0].offset(PAGE) == pair[1]) && all[0] == span.cpu);
    all.into_iter().step_by(2).try_for_each(|page| pages.free_pages(page, 0)).expect("taken back");
    assert_eq!(pages.free_runs()[..2], [19, 0], "no two of them are buddies");
    let (again, odd) = (pages.free_count(), CPU.offset(4 * PAGE));
    assert_eq!(again, 19);
    (0..18)
        .map(|index| odd.offset(2 * index * PAGE))
        .try_for_each(|page| pages.free_pages(page, 0))
        .expect("taken back");
    assert_eq!(pages.free_runs()[..6], [1, 0, 1, 2, 1, 0]);
}

#[test]
fn the_smallest_run_that_will_do_is_split() {
    let machine = Machine::new(16);
    assert_eq!(machine.pages.alloc_pages(0, Flags::ATOMIC), Ok(page(0)));
    assert_eq!(machine.pages.free_runs()[..5], [1, 1, 1, 1, 0]);
    assert_eq!(machine.pages.alloc_pages(1, Flags::ATOMIC), Ok(page(2)), "not out of the larger ones");
    assert_eq!(machine.pages.alloc_pages(0, Flags::ATOMIC), Ok(page(1)));
    assert_eq!(machine.pages.alloc_pages(4, Flags::ATOMIC), Err(ChunkError::NoPages { len: 16 * PAGE }));
    let too_large = ChunkError::Size { len: PAGE << 11, most: PAGE << 10 };
    assert_eq!(machine.pages.alloc_pages(11, Flags::ATOMIC), Err(too_large));
    assert_eq!(machine.pages.free_pages(page(1), 0), Ok(()));
    assert_eq!(machine.pages.alloc_pages(0, Flags::ATOMIC), Ok(page(1)), "the last freed first");
}

#[test]
fn what_was_not_handed_out_is_not_taken() {
    let machine = Machine::new(64);
    let wrong = |at, len| Err(ChunkError::NotHandedOut { at, len });
    for (name, source) in machine.sources() {
        let at = source.alloc(2048, Flags::KERNEL).expect("memory");
        for elsewhere in [CpuAddr(0), CpuAddr(u64::MAX), at.offset(8), at.offset(PAGE << 8)] {
            let error = source.free(elsewhere, 2048).expect_err(name);
            assert!(matches!(error, ChunkError::NotHandedOut { at, .. } if at == elsewhere), "{name}: {error}");
        }
        assert_eq!(source.free(at, 2048), Ok(()), "{name}");
        assert!(source.free(at, 2048).is_err(), "{name}: it is free");
        for len in [0, u64::MAX] {
            assert!(matches!(source.alloc(len, Flags::KERNEL), Err(ChunkError::Size { .. })), "{name}");
        }
    }
    let run = machine.pages.alloc_pages(2, Flags::ATOMIC).expect("memory");
    assert_eq!(machine.pages.free_pages(run, 1), wrong(run, 2 * PAGE), "another length");
    assert_eq!(machine.pages.free_pages(run.offset(PAGE), 0), wrong(run.offset(PAGE), PAGE), "part of it");
    assert_eq!(machine.pages.free_pages(run, 2), Ok(()));
    let classes = machine.size_classes();
    let small = classes.alloc(100, Flags::KERNEL).expect("memory");
    assert_eq!(classes.free(small, 129), wrong(small, 129), "larger than its class");
    assert_eq!(classes.free(small, 9000), wrong(small, 9000), "larger than any class");
    let other = machine.slab_cache(128);
    assert_eq!(other.free(small, 100), wrong(small, 128), "another cache's");
    assert_eq!(classes.free(small, 100), Ok(()));
}

#[test]
fn memory_that_is_not_one_run_is_no_zone() {
    let span = Span { cpu: CPU, dma: DMA, len: 4 * PAGE };
    let memory = Memory::new(&[span]).expect("memory");
    for wrong in [
        Span { len: 5 * PAGE, ..span },
        Span { len: 0, ..span },
        Span { len: 100, ..span },
        Span { dma: DmaAddr(0x9000_0000), ..span },
        Span { cpu: CPU.offset(1), ..span },
    ] {
        let error = Buddy::new(Arc::clone(&memory), wrong).err();
        assert_eq!(error, Some(ChunkError::NoMemory { at: wrong.cpu, len: wrong.len }));
    }
}

#[test]
fn a_full_machine_has_nothing_and_loses_nothing() {
    let machine = Machine::new(32);
    for (name, source) in machine.sources() {
        let before = machine.pages.free_count();
        let mut held = Vec::new();
        let error = loop {
            match source.alloc(PAGE, Flags::ATOMIC) {
                Ok(at) => held.push(at),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, ChunkError::NoPages { .. }), "{name}: {error}");
        assert!(held.len() as u64 >= before - 8, "{name}: {} of {before}", held.len());
        held.into_iter().try_for_each(|at| source.free(at, PAGE)).expect(name);
        drop(source);
    }
    assert_eq!(machine.pages.free_count(), 32);
    let mapping = VirtualMapping::new(Arc::clone(&machine.pages)).expect("a page");
    let before = machine.pages.free_count();
    assert!(mapping.alloc(40 * PAGE, Flags::ATOMIC).is_err());
    assert_eq!(machine.pages.free_count(), before, "not one of the pages is lost");
}

#[test]
fn a_virtual_mapping_has_pages_by_themselves_one_behind_the_other() {
    let machine = Machine::new(64);
    let taken: Vec<CpuAddr> = (0..20).map(|_| machine.pages.alloc_pages(0, Flags::ATOMIC).expect("a page")).collect();
    taken.iter().step_by(2).try_for_each(|&page| machine.pages.free_pages(page, 0)).expect("taken back");
    let mapping = VirtualMapping::new(Arc::clone(&machine.pages)).expect("a page");
    let at = mapping.alloc(9 * PAGE, ZEROED).expect("memory");
    let places: Vec<CpuAddr> =
        (0..9).map(|index| mapping.linear(at.offset(index * PAGE + 5)).expect("mapped")).collect();
    assert!(places.windows(2).any(|pair| pair[0].offset(PAGE) != pair[1]), "no run of 9 pages: {places:?}");
    assert!(places.iter().all(|place| place.0 % PAGE == 5));
    assert_eq!(mapping.linear(at.offset(9 * PAGE)), None, "the page behind is not mapped");
    let next = mapping.alloc(1, Flags::KERNEL).expect("memory");
    assert_eq!(next, at.offset(10 * PAGE));
    mapping.free(at, 9 * PAGE).expect("taken back");
    assert_eq!(mapping.linear(at), None);
    assert_eq!(mapping.alloc(8 * PAGE, Flags::KERNEL), Ok(at), "addresses are used again");
}

#[test]
fn a_slab_is_given_back_when_it_is_empty_and_not_needed() {
    let machine = Machine::new(512);
    let cache = machine.slab_cache(PAGE);
    assert_eq!(cache.objects_of_a_slab(), 8);
    let held: Vec<CpuAddr> = (0..256).map(|_| cache.alloc(PAGE, Flags::KERNEL).expect("memory")).collect();
    assert_eq!(machine.pages.free_count(), 256);
    held.into_iter().try_for_each(|at| cache.free(at, PAGE)).expect("taken back");
    // The thread's and a few of the list.
    assert!(machine.pages.free_count() >= 512 - 8 * 8, "{} pages", machine.pages.free_count());
    let kept = cache.alloc(PAGE, Flags::KERNEL).expect("memory");
    drop(cache);
    assert_eq!(machine.pages.free_count(), 512 - 8, "the slab of {kept} is in use");
}

#[test]
fn a_damaged_slab_is_an_error() {
    let machine = Machine::new(64);
    let cache: SlabCache = machine.slab_cache(64);
    let first = cache.alloc(64, Flags::KERNEL).expect("memory");
    cache.free(first, 64).expect("taken back");
    // The link is in the middle.
    machine.memory.write_u64(first.offset(32), 0x1000).expect("mapped");
    assert_eq!(cache.alloc(64, Flags::KERNEL), Ok(first));
    assert!(matches!(cache.alloc(64, Flags::KERNEL), Err(ChunkError::Damaged(_))), "as in Linux, it is followed");
}

#[test]
fn pools_can_have_their_pages_from_the_buddy() {
    let machine = Machine::new(64);
    for policy in policy::table() {
        let source: Arc<dyn PageSource> = Arc::clone(&machine.pages) as _;
        let geometry = Geometry { size: 3000, align: 8, boundary: 0 };
        let pool = (policy.create)(Arc::clone(&machine.memory), source, geometry).expect("a pool");
        let blocks: Vec<_> = (0..20).map(|_| pool.alloc(Flags::KERNEL).expect("memory")).collect();
        assert!(machine.pages.free_count() < 64);
        blocks.into_iter().try_for_each(|block| pool.free(block)).expect("taken back");
        pool.destroy().expect("idle");
        assert_eq!(machine.pages.free_count(), 64, "{}", policy.name);
    }
    let pages = PageSource::alloc(&*machine.pages, 3 * PAGE, Flags::KERNEL).expect("memory");
    assert_eq!((pages.len, pages.cpu, pages.dma), (4 * PAGE, page(0), DMA));
    PageSource::free(&*machine.pages, pages);
    assert_eq!(machine.pages.free_count(), 64);
}

#[test]
fn size_classes_take_a_class_and_large_objects_pages() {
    let machine = Machine::new(64);
    let classes = SizeClasses::new(Arc::clone(&machine.pages)).expect("classes");
    let large = classes.alloc(3 * PAGE, Flags::KERNEL).expect("memory");
    assert_eq!(machine.pages.free_count(), 60);
    let (a, b) = (classes.alloc(97, Flags::KERNEL), classes.alloc(128, Flags::KERNEL));
    assert_eq!(a.expect("memory").offset(128), b.expect("memory"), "both of the class of 128 bytes");
    classes.free(large, 3 * PAGE).expect("taken back");
    classes.free(a.expect("memory"), 97).expect("taken back");
    classes.free(b.expect("memory"), 128).expect("taken back");
}
