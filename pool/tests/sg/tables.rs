//! Tables as such: chunks, links, ends, failures, data.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bus::CpuAddr;
use pool::Flags;
use pool::sg::{ChunkError, ChunkSource, ENTRY, Entry, MOST_ENTRIES, PAGE, Segment, SgError, Table};
use zerocopy::FromBytes;

use crate::machine::{CPU, DMA, Failing, Machine, page, segment, shown};

fn raw(machine: &Machine, at: CpuAddr) -> Entry {
    let mut bytes = [0; 32];
    machine.memory.read(at, &mut bytes).expect("mapped");
    Entry::read_from_bytes(&bytes).expect("32 bytes")
}

#[test]
fn an_entry_has_32_bytes_and_128_fill_a_page() {
    assert_eq!((ENTRY, MOST_ENTRIES), (32, 128));
}

#[test]
fn a_table_of_any_size_has_its_entries_and_gives_everything_back() {
    for nents in [1, 2, 127, 128, 129, 254, 255, 256, 1000, 2048] {
        let machine = Machine::new(256);
        for (name, source) in machine.sources() {
            let mut table = machine.table(&source);
            table.alloc(nents, Flags::KERNEL).expect("memory enough");
            assert_eq!((table.orig_nents(), table.nents(), table.total_nents()), (nents, nents, nents), "{name}");
            let entries: Vec<_> = table.entries().map(|entry| entry.expect("it is there").1).collect();
            assert_eq!(entries.len(), nents as usize, "{name}");
            let last = entries.iter().position(Entry::is_last);
            assert_eq!(last, Some(nents as usize - 1), "{name}: the last one and no other");
            assert!(entries.iter().all(|entry| !entry.is_chain() && entry.page() == CpuAddr(0)), "{name}");
            assert_eq!(table.fill((0..u64::from(nents)).map(|number| segment(number, 7))), Ok(nents), "{name}");
            assert_eq!(table.data_len(), Ok(u64::from(nents) * 7), "{name}");
            assert_eq!(table.fill((0..=u64::from(nents)).map(|number| segment(number, 7))), Err(SgError::Full(nents)));
            assert_eq!(table.free(), Ok(()), "{name}");
            assert!(table.is_empty() && table.entries().next().is_none(), "{name}");
        }
        assert_eq!(machine.pages.free_count(), 256, "{nents}");
    }
}

#[test]
fn a_full_chunk_has_127_entries_and_a_link() {
    let machine = Machine::new(16);
    let source: Arc<dyn ChunkSource> = Arc::clone(&machine.pages) as _;
    let mut table = machine.table(&source);
    table.alloc(129, Flags::KERNEL).expect("two chunks");
    let first = table.first().expect("a chunk");
    let link = raw(&machine, first.offset(127 * ENTRY));
    assert!(link.is_chain() && !link.is_last());
    assert_eq!((link.offset.get(), link.length.get()), (0, 0));
    let second = link.page();
    assert_eq!(second.0 % PAGE, 0);
    assert!(raw(&machine, second.offset(ENTRY)).is_last(), "127 and 2");
    assert!(!raw(&machine, first.offset(126 * ENTRY)).is_last());
}

#[test]
fn a_table_of_no_entries_is_an_error() {
    let machine = Machine::new(16);
    let mut table = machine.table(&machine.kernels());
    assert_eq!(table.alloc(0, Flags::KERNEL), Err(SgError::NoEntries));
    assert_eq!(table.alloc(3, Flags::KERNEL), Ok(()));
    assert_eq!(table.alloc(3, Flags::KERNEL), Err(SgError::InUse(3)));
    assert_eq!(machine.table(&machine.kernels()).chunks_of(1).err(), Some(SgError::ChunkSize { entries: 1 }));
    assert_eq!(machine.table(&machine.kernels()).chunks_of(129).err(), Some(SgError::ChunkSize { entries: 129 }));
}

#[test]
fn what_was_allocated_before_a_failure_is_freed() {
    for most in [2, 5, 128] {
        for chunks in 0..4_u32 {
            let machine = Machine::new(64);
            let failing = Failing { source: machine.kernels(), left: AtomicU64::new(chunks.into()) };
            let source: Arc<dyn ChunkSource> = Arc::new(failing);
            let mut table = machine.table(&source).chunks_of(most).expect("2 to 128");
            let error = table.alloc(4 * (most - 1) + 1, Flags::KERNEL);
            assert_eq!(error, Err(SgError::NoChunk(ChunkError::Injected)));
            // What would have been the link is an entry then.
            let left = if chunks == 0 { 0 } else { chunks * (most - 1) + 1 };
            assert_eq!((table.orig_nents(), table.nents()), (left, left), "{chunks} of {most}");
            assert_eq!(table.entries().count(), left as usize);
            assert_eq!(table.free(), Ok(()));
            drop((table, source));
            assert_eq!(machine.pages.free_count(), 64, "{chunks} of {most}");
        }
    }
}

#[test]
fn a_dropped_table_gives_its_chunks_back() {
    let machine = Machine::new(64);
    let source = machine.kernels();
    for _ in 0..100 {
        machine.table(&source).alloc(2000, Flags::KERNEL).expect("what was dropped is free again");
    }
    drop(source);
    assert_eq!(machine.pages.free_count(), 64);
}

#[test]
fn damage_is_an_error_and_never_a_wild_free() {
    let machine = Machine::new(64);
    let source: Arc<dyn ChunkSource> = Arc::clone(&machine.pages) as _;
    let table = || {
        let mut table = machine.table(&source);
        table.alloc(300, Flags::KERNEL).expect("three chunks");
        let link = table.first().expect("a chunk").offset(127 * ENTRY);
        (table, link)
    };
    let (mut no_link, link) = table();
    machine.memory.write_u64(link, 0).expect("mapped");
    assert_eq!(no_link.free(), Err(SgError::NoLink(link)));
    let (mut wild, link) = table();
    machine.memory.write_u64(link, 0x1001).expect("mapped");
    let walked = wild.entries().collect::<Result<Vec<_>, _>>().expect_err("0x1000 is no memory");
    assert_eq!(walked.to_string().split(": ").next(), Some("the entry at 0x1000 is not there"));
    assert!(matches!(wild.free(), Err(SgError::Lost { at: CpuAddr(0x1fe0), .. })));
    let (mut ring, link) = table();
    let first = ring.first().expect("a chunk");
    machine.memory.write_u64(link, first.0 | 1).expect("mapped");
    assert_eq!(ring.entries().count(), 300, "it does not go round for ever");
    assert_eq!(ring.free(), Err(SgError::NotTaken(ChunkError::NotHandedOut { at: first, len: PAGE })));
}

/// 5 entries with 10 bytes each, in chunks of 3, from byte 100 of a page on.
fn small(machine: &Machine) -> Table {
    let mut table = machine.table(&machine.kernels()).chunks_of(3).expect("2 to 128");
    table.alloc(5, Flags::KERNEL).expect("two chunks");
    table
        .fill((0..5).map(|number| Segment { page: page(40 + 2 * number), offset: 100, length: 10 }))
        .expect("five entries");
    table
}

#[test]
fn data_is_copied_through_links_from_any_byte_on() {
    let machine = Machine::new(64);
    let table = small(&machine);
    let data: Vec<u8> = (1..=50).collect();
    for skip in 0..=51 {
        for len in [0, 1, 9, 10, 11, 30, 50] {
            assert_eq!(table.zero(0, 60), Ok(50));
            let expected = len.min(50_usize.saturating_sub(skip));
            assert_eq!(table.write(skip as u64, &data[..len]), Ok(expected), "{len} bytes from {skip}");
            let mut whole = [0; 50];
            assert_eq!(table.read(0, &mut whole), Ok(50));
            let mut wanted = [0; 50];
            wanted[skip.min(50)..][..expected].copy_from_slice(&data[..expected]);
            assert_eq!(whole, wanted, "{len} bytes from {skip}");
            let mut part = vec![0; len];
            assert_eq!(table.read(skip as u64, &mut part), Ok(expected));
            assert_eq!(part[..expected], data[..expected]);
        }
    }
    let mut at = [0; 10];
    assert_eq!(table.write(20, &data[..10]), Ok(10));
    machine.memory.read(CPU.offset(44 * PAGE + 100), &mut at).expect("mapped");
    assert_eq!(at, data[..10], "the third entry's data is where it says");
}

#[test]
fn data_that_is_no_memory_is_an_error() {
    let machine = Machine::new(64);
    let mut table = small(&machine);
    table.fill([segment(40, 4), segment(1000, 4)]).expect("it is not looked at yet");
    let at = page(1000);
    assert_eq!(table.read(0, &mut [0; 8]), Err(SgError::NotMemory { at, len: 4 }));
    assert_eq!(table.map(&pool::sg::Limits::default()), Err(SgError::NotMemory { at, len: 4 }));
    let unaligned = Segment { page: CPU.offset(2), offset: 0, length: 1 };
    assert_eq!(table.fill([unaligned]), Err(SgError::NoPage(CPU.offset(2))));
}

#[test]
fn entries_for_a_length_are_counted() {
    let table = small(&Machine::new(64));
    let counted = [0, 1, 10, 11, 50, 51].map(|len| table.nents_for_len(len).expect("it is there"));
    assert_eq!(counted, [Some(0), Some(1), Some(1), Some(2), Some(5), None]);
}

#[test]
fn parts_of_a_table_are_tables() {
    let machine = Machine::new(64);
    let mut table = small(&machine);
    let parts = table.split(5, &[7, 20, 18], Flags::KERNEL).expect("50 bytes");
    let of = |number: u64, offset, length| (40 + 2 * number, offset, length);
    assert_eq!(shown(&parts[0]), [of(0, 105, 5), of(1, 100, 2)]);
    assert_eq!(shown(&parts[1]), [of(1, 102, 8), of(2, 100, 10), of(3, 100, 2)]);
    assert_eq!(shown(&parts[2]), [of(3, 102, 8), of(4, 100, 10)]);
    assert!(parts.iter().all(|part| part.segments_for_devices() == Err(SgError::NotMapped)));
    table.map(&pool::sg::Limits::default()).expect("memory");
    let mapped = table.split(5, &[7], Flags::KERNEL).expect("50 bytes");
    let dma = |number: u64, offset| DMA.offset((40 + 2 * number) * PAGE + offset);
    assert_eq!(mapped[0].segments_for_devices(), Ok(vec![(dma(0, 105), 5), (dma(1, 100), 2)]));
    for (skip, sizes, wanted) in [(0, &[51][..], 51), (31, &[10, 10], 20), (0, &[5, 0], 5), (u64::MAX, &[1], 1)] {
        let error = table.split(skip, sizes, Flags::KERNEL).err();
        assert_eq!(error, Some(SgError::TooShort { skip, wanted, len: 50 }));
    }
}
