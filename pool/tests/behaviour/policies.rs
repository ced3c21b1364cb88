//! The policies, as the table of Linux's versions has them.

use crate::machine::{self, CPU, DMA, Machine, geometry};
use bus::{AccessKind, CpuAddr, DmaAddr};
use pool::{
    AllocError, Block, CpuFault, DestroyError, Finding, Flags, FreeError, Geometry, Metadata, Policy, Pool, Promise,
    policy,
};

const QUEUE_HEADS: Geometry = Geometry { size: 64, align: 64, boundary: 0 };

fn named(name: &str) -> Policy {
    policy::by_name(name).expect("in the table")
}

fn raw(machine: &Machine, policy: &Policy, geometry: Geometry) -> Box<dyn Pool> {
    (policy.create)(machine.memory.clone(), machine.source.clone(), geometry).expect("a right geometry")
}

fn take(pool: &dyn Pool, count: usize) -> Vec<Block> {
    (0..count).map(|_| pool.alloc(Flags::KERNEL).expect("a block")).collect()
}

fn offsets(blocks: &[Block]) -> Vec<u64> {
    blocks.iter().map(|block| block.dma.0 - DMA).collect()
}

#[test]
fn the_table_has_every_policy_oldest_first() {
    let names: Vec<_> = policy::table().into_iter().map(|policy| policy.name).collect();
    assert_eq!(names, ["page-list", "linked-descending", "linked", "external-list", "external-bitmap", "index-stack"]);
    assert_eq!(Policy::current().name, "linked");
    assert!(policy::by_name("linkd").is_err());
}

#[test]
fn where_the_data_lies_and_how_small_blocks_are() {
    for (name, smallest, in_block) in [
        ("page-list", 4, 4),
        ("linked-descending", 16, 16),
        ("linked", 16, 16),
        ("external-list", 1, 0),
        ("external-bitmap", 1, 0),
        ("index-stack", 1, 0),
    ] {
        let policy = named(name);
        assert_eq!(policy.smallest, smallest, "{name}");
        let len = match policy.metadata {
            Metadata::InBlock(fields) => fields.iter().map(|field| field.len).sum(),
            Metadata::OutOfBand => 0,
        };
        assert_eq!(len, in_block, "{name}");
        let machine = Machine::new();
        let blocks = take(&*raw(&machine, &policy, geometry(1, 1, 0)), 3);
        assert!(blocks.windows(2).all(|pair| pair[1].dma.0.abs_diff(pair[0].dma.0) == smallest), "{name}: {blocks:?}");
    }
}

#[test]
fn order_out_of_a_fresh_page() {
    for policy in policy::table() {
        let machine = Machine::new();
        let pool = raw(&machine, &policy, QUEUE_HEADS);
        let expected = if policy.name == "linked-descending" {
            [0xfc0, 0xf80, 0xf40, 0xf00]
        } else {
            [0x000, 0x040, 0x080, 0x0c0]
        };
        let blocks = take(&*pool, 4);
        assert_eq!(offsets(&blocks), expected, "{}", policy.name);
        assert!(blocks.iter().all(|block| block.cpu.0 - CPU == block.dma.0 - DMA), "{}", policy.name);
    }
}

#[test]
fn blocks_of_a_page() {
    for policy in policy::table() {
        let machine = Machine::new();
        let in_a_page = |geometry| {
            let pool = raw(&machine, &policy, geometry);
            let mut count = 0;
            while pool.pages() < 2 {
                pool.alloc(Flags::KERNEL).expect("a block");
                count += 1;
            }
            count - 1
        };
        let old = policy.name == "page-list";
        assert_eq!(in_a_page(QUEUE_HEADS), if old { 63 } else { 64 }, "{}", policy.name);
        assert_eq!(in_a_page(geometry(1024, 1024, 0)), if old { 3 } else { 4 }, "{}", policy.name);
        assert_eq!(in_a_page(geometry(4096, 4096, 0)), 1, "{}", policy.name);
        // 96 bytes apart; 42 of them and 64 bytes are a page, so that nothing is lost at its end.
        assert_eq!(in_a_page(geometry(68, 32, 4096)), 42, "{}", policy.name);
        // Two blocks fill a boundary, and the second is lost.
        assert_eq!(in_a_page(geometry(128, 128, 256)), if old { 16 } else { 32 }, "{}", policy.name);
        // Five blocks and eight bytes in a boundary.
        assert_eq!(in_a_page(geometry(24, 8, 128)), 32 * 5, "{}", policy.name);
    }
}

#[test]
fn blocks_that_do_not_fill_the_boundary() {
    for policy in policy::table() {
        let machine = Machine::new();
        let mut blocks = offsets(&take(&*raw(&machine, &policy, geometry(68, 32, 4096)), 43));
        if policy.name == "linked-descending" {
            blocks[..42].reverse();
            assert_eq!(blocks[42], 0x1000 + 41 * 96);
        } else {
            assert_eq!(blocks[42], 0x1000, "{}", policy.name);
        }
        let expected: Vec<_> = (0..42).map(|i| i * 96).collect();
        assert_eq!(blocks[..42], expected, "{}", policy.name);
    }
}

/// Page 0 full and page 1 begun; then blocks 1, 5, 3 of page 0 come back.
#[test]
fn order_of_reuse() {
    for policy in policy::table() {
        let machine = Machine::new();
        let pool = raw(&machine, &policy, QUEUE_HEADS);
        let in_page = if policy.name == "page-list" { 63 } else { 64 };
        let mut blocks = take(&*pool, in_page + 2);
        blocks[..in_page].sort_by_key(|block| block.dma);
        for index in [1, 5, 3] {
            pool.free(blocks[index]).expect("taken back");
        }
        let next: Vec<_> = offsets(&take(&*pool, 4)).iter().map(|offset| (offset >> 12, offset % 4096 / 64)).collect();
        let expected = match policy.name.as_ref() {
            // On in the newest page.
            "page-list" => [(1, 2), (1, 3), (1, 4), (1, 5)],
            // The lowest bit of the newest page.
            "external-bitmap" => [(1, 2), (1, 3), (1, 4), (1, 5)],
            "linked-descending" => [(0, 3), (0, 5), (0, 1), (1, 61)],
            _ => [(0, 3), (0, 5), (0, 1), (1, 2)],
        };
        assert_eq!(next, expected, "{}", policy.name);
    }
}

#[test]
fn order_of_reuse_inside_a_page() {
    for policy in policy::table() {
        let machine = Machine::new();
        let pool = raw(&machine, &policy, QUEUE_HEADS);
        let mut blocks = take(&*pool, if policy.name == "page-list" { 63 } else { 64 });
        blocks.sort_by_key(|block| block.dma);
        for index in [1, 5, 3] {
            pool.free(blocks[index]).expect("taken back");
        }
        let next: Vec<_> = offsets(&take(&*pool, 3)).iter().map(|offset| offset / 64).collect();
        let expected = if policy.name == "external-bitmap" { [1, 3, 5] } else { [3, 5, 1] };
        assert_eq!(next, expected, "{}", policy.name);
    }
}

#[test]
fn page_lists_links_lie_in_the_free_blocks() {
    let machine = Machine::new();
    let pool = raw(&machine, &named("page-list"), QUEUE_HEADS);
    let blocks = take(&*pool, 3);
    let link = |offset| machine.device_reads(DmaAddr(DMA + offset), 4);
    assert_eq!(link(0xc0), 0x100_u32.to_le_bytes());
    assert_eq!(link(0xf80), 0x1000_u32.to_le_bytes(), "the last but one block ends the list: the last is lost");
    pool.free(blocks[1]).expect("taken back");
    assert_eq!(link(0x40), 0xc0_u32.to_le_bytes());
    pool.free(blocks[0]).expect("taken back");
    assert_eq!(link(0x00), 0x40_u32.to_le_bytes());
}

#[test]
fn linked_pointers_lie_in_the_free_blocks() {
    let machine = Machine::new();
    let pool = raw(&machine, &named("linked"), QUEUE_HEADS);
    let blocks = take(&*pool, 2);
    let links = |offset: u64| {
        let bytes = machine.device_reads(DmaAddr(DMA + offset), 16);
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        (word(0), word(8))
    };
    assert_eq!(links(0x80), (CPU + 0xc0, DMA + 0x80));
    assert_eq!(links(0xfc0), (0, DMA + 0xfc0), "a null pointer ends the stack");
    pool.free(blocks[0]).expect("taken back");
    assert_eq!(links(0x00), (CPU + 0x80, DMA));
}

#[test]
fn descending_links_point_down() {
    let machine = Machine::new();
    let pool = raw(&machine, &named("linked-descending"), QUEUE_HEADS);
    take(&*pool, 1);
    let bytes = machine.device_reads(DmaAddr(DMA + 0xf80), 8);
    assert_eq!(bytes, (CPU + 0xf40).to_le_bytes());
    assert_eq!(machine.device_reads(DmaAddr(DMA), 8), [0; 8], "the first block is the bottom of the stack");
}

#[test]
fn linked_hands_out_the_address_that_a_device_wrote() {
    for name in ["linked", "linked-descending"] {
        let machine = Machine::new();
        let pool = machine.pool(&named(name), QUEUE_HEADS);
        let first = pool.alloc(Flags::KERNEL).expect("a block");
        let second = pool.alloc(Flags::KERNEL).expect("a block");
        pool.free(first).expect("taken back");
        pool.free(second).expect("taken back");
        // The device rewrites the free block on top: the block after the next is where it says.
        let secret = machine.source.alloc(4096, Flags::KERNEL).expect("a page of someone else");
        // It begins with a write that explains nothing.
        machine.device_stores(first.dma.offset(8), &7_u64.to_le_bytes());
        machine.device_stores(first.dma.offset(8), &first.dma.0.to_le_bytes());
        machine.device_stores(second.dma, &secret.cpu.0.to_le_bytes());
        machine.device_writes(secret.dma, &[0_u64.to_le_bytes(), 0xdead_0000_u64.to_le_bytes()].concat());
        assert_eq!(pool.alloc(Flags::KERNEL), Ok(second));
        assert_eq!(machine.found(), ["WriteToFreedBlock"; 3]);
        let stolen = Block { cpu: secret.cpu, dma: DmaAddr(0xdead_0000) };
        assert_eq!(pool.alloc(Flags::KERNEL), Ok(stolen), "{name}");
        let findings = machine.ledger.findings();
        let [.., Finding::AttackerAddress { pool: named, block, promise, allocations, .. }] = findings.as_slice()
        else {
            panic!("{findings:?}")
        };
        assert_eq!((named.as_str(), *block, *promise, *allocations), ("pool", stolen, Promise::OwnPages, 2));
        let (secret, second) = (secret.cpu, second.dma);
        assert_eq!(
            findings[3].to_string(),
            format!(
                "pool pool broke its promise OwnPages with {secret} / 0xdead0000: 0xdead0000 and 64 bytes are not in a page \
                 of this pool; {secret} is memory that is neither a pool's nor the driver's; before, the device wrote dQH 3 \
                 token = {:#x} at {second} (8 bytes), byte 0 of the free block at {second}; it damaged the pool's next \
                 pointer; this is allocation 2 since then",
                secret.0
            )
        );
        // The driver may give back what it was given.
        let _ = pool.free(stolen);
        assert_eq!(machine.found()[2..], ["WriteToFreedBlock", "AttackerAddress"]);
    }
}

#[test]
fn a_link_to_nowhere_is_an_error_again_and_again() {
    let machine = Machine::new();
    let pool = raw(&machine, &named("linked"), QUEUE_HEADS);
    let block = take(&*pool, 1)[0];
    pool.free(block).expect("taken back");
    machine.device_writes(block.dma, &0x1234_u64.to_le_bytes());
    take(&*pool, 1);
    let link = CpuAddr(0x1234);
    let expected = AllocError::DamagedList { link, fault: CpuFault { cpu: link, len: 8 } };
    for _ in 0..3 {
        assert_eq!(pool.alloc(Flags::KERNEL), Err(expected.clone()));
    }
    assert_eq!(
        expected.to_string(),
        "the free list leads to 0x1234, where no memory is: the processor's address 0x1234 is not mapped (8 bytes)"
    );
}

#[test]
fn a_link_to_itself_is_handed_out_for_ever() {
    let machine = Machine::new();
    let pool = raw(&machine, &named("linked"), QUEUE_HEADS);
    let block = take(&*pool, 1)[0];
    pool.free(block).expect("taken back");
    machine.device_writes(block.dma, &block.cpu.0.to_le_bytes());
    assert_eq!(take(&*pool, 100), vec![block; 100]);
}

#[test]
fn page_list_follows_a_damaged_offset_inside_the_page() {
    let machine = Machine::new();
    let pool = machine.pool(&named("page-list"), QUEUE_HEADS);
    let block = pool.alloc(Flags::KERNEL).expect("a block");
    pool.free(block).expect("taken back");
    machine.access(AccessKind::Write, block.dma.offset(2), 4);
    machine.device_writes(block.dma, &0x123_u32.to_le_bytes());
    assert_eq!(pool.alloc(Flags::KERNEL), Ok(block));
    let odd = Block { cpu: CpuAddr(CPU + 0x123), dma: DmaAddr(DMA + 0x123) };
    assert_eq!(pool.alloc(Flags::KERNEL), Ok(odd));
    // Who is to blame is known: the device's write was seen.
    assert_eq!(machine.found(), ["WriteToFreedBlock", "AttackerAddress"]);
    let Finding::WriteToFreedBlock { damaged, .. } = &machine.ledger.findings()[0] else { unreachable!("by its name") };
    assert_eq!(damaged, &["next offset"]);
}

#[test]
fn page_list_loses_a_page_by_a_damaged_offset_beyond_it() {
    for offset in [0x1000, 0x7fff_ffff, u32::MAX] {
        let machine = Machine::new();
        let pool = raw(&machine, &named("page-list"), QUEUE_HEADS);
        let block = take(&*pool, 1)[0];
        pool.free(block).expect("taken back");
        machine.device_writes(block.dma, &offset.to_le_bytes());
        assert_eq!(offsets(&take(&*pool, 3)), [0, 0x1000, 0x1040]);
    }
}

#[test]
fn page_list_reads_a_link_across_the_end_of_memory() {
    let machine = Machine::new();
    let pool = raw(&machine, &named("page-list"), geometry(4096, 4096, 0));
    let last = take(&*pool, 1024).pop().expect("the last page of memory");
    assert_eq!(last.dma, DmaAddr(DMA + (4 << 20) - 4096));
    pool.free(last).expect("taken back");
    machine.device_writes(last.dma, &4094_u32.to_le_bytes());
    take(&*pool, 1);
    let link = last.cpu.offset(4094);
    let expected = AllocError::DamagedList { link, fault: CpuFault { cpu: link, len: 4 } };
    assert_eq!(pool.alloc(Flags::KERNEL), Err(expected.clone()));
    assert_eq!(pool.alloc(Flags::KERNEL), Err(expected));
}

/// Whatever a device writes into free blocks: a pool without its data there goes on as if nothing was.
#[test]
fn data_elsewhere_cannot_be_damaged() {
    for name in ["external-list", "external-bitmap", "index-stack"] {
        let [plain, attacked] = [false, true].map(|attack| {
            let machine = Machine::new();
            let pool = machine.pool(&named(name), QUEUE_HEADS);
            let blocks: Vec<_> = (0..80).map(|_| pool.alloc(Flags::KERNEL).expect("a block")).collect();
            for block in blocks.iter().step_by(3) {
                pool.free(*block).expect("taken back");
                if attack {
                    machine.device_writes(block.dma, &[0x41; 64]);
                }
            }
            let next: Vec<_> = (0..80).map(|_| pool.alloc(Flags::KERNEL).expect("a block")).collect();
            assert_eq!(machine.found(), [""; 0]);
            next
        });
        assert_eq!(plain, attacked, "{name}");
    }
}

#[test]
fn wrong_frees_that_each_policy_notices() {
    for policy in policy::table() {
        let machine = Machine::new();
        let pool = raw(&machine, &policy, QUEUE_HEADS);
        let blocks = take(&*pool, 4);
        let foreign = machine.source.alloc(4096, Flags::KERNEL).expect("a page");
        let foreign = Block { cpu: foreign.cpu, dma: foreign.dma };
        let found = pool.free(foreign);
        if policy.name.starts_with("linked") {
            assert_eq!(found, Ok(()), "{}: nothing is looked up", policy.name);
            assert_eq!(pool.alloc(Flags::KERNEL), Ok(foreign), "and it is handed out");
        } else {
            assert_eq!(found, Err(FreeError::Foreign(foreign)), "{}", policy.name);
        }
        pool.free(blocks[2]).expect("taken back");
        let double = pool.free(blocks[2]);
        let next = take(&*pool, 3);
        match policy.name.as_ref() {
            "index-stack" => assert_eq!(double, Err(FreeError::Double(blocks[2]))),
            "external-bitmap" => {
                assert_eq!(double, Ok(()));
                assert_eq!(next[0], blocks[2]);
                assert!(!next[1..].contains(&blocks[2]));
            }
            name => {
                assert_eq!(double, Ok(()), "{name}");
                assert_eq!(next, [blocks[2]; 3], "{name}: handed out for ever");
            }
        }
    }
}

#[test]
fn index_stack_tells_wrong_frees_apart() {
    let machine = Machine::new();
    let pool = raw(&machine, &named("index-stack"), geometry(68, 32, 4096));
    let blocks = take(&*pool, 4);
    let shift = |block: Block, by| Block { cpu: block.cpu.offset(by), dma: block.dma.offset(by) };
    let cases = [
        (shift(blocks[1], 4), FreeError::Interior { block: shift(blocks[1], 4), start: blocks[1].dma }),
        (
            Block { cpu: blocks[2].cpu, ..blocks[1] },
            FreeError::Mismatched { block: Block { cpu: blocks[2].cpu, ..blocks[1] }, expected: blocks[1].cpu },
        ),
        (shift(blocks[0], 4096), FreeError::Foreign(shift(blocks[0], 4096))),
        // Behind the last block of the page.
        (shift(blocks[0], 4090), FreeError::Foreign(shift(blocks[0], 4090))),
        // Never handed out.
        (shift(blocks[3], 96), FreeError::Double(shift(blocks[3], 96))),
    ];
    for (block, error) in cases {
        assert_eq!(pool.free(block), Err(error));
    }
    assert_eq!(
        pool.free(shift(blocks[1], 4)).expect_err("wrong").to_string(),
        "0xffff800040000064 / 0x80000064 is inside a block that begins at 0x80000060"
    );
    assert_eq!(pool.destroy(), Err(DestroyError::Busy { live: 4, owners: Vec::new() }), "nothing was taken back");
    blocks.into_iter().for_each(|block| pool.free(block).expect("taken back"));
    assert_eq!(pool.destroy(), Ok(()));
}

#[test]
fn index_stack_knows_every_frame_of_a_large_block() {
    let machine = Machine::new();
    let pool = raw(&machine, &named("index-stack"), geometry(10_000, 16, 0));
    let blocks = take(&*pool, 3);
    let inside = Block { cpu: blocks[1].cpu.offset(9_984), dma: blocks[1].dma.offset(9_984) };
    assert_eq!(pool.free(inside), Err(FreeError::Interior { block: inside, start: blocks[1].dma }));
    let behind = Block { cpu: blocks[1].cpu.offset(10_000), dma: blocks[1].dma.offset(10_000) };
    assert_eq!(pool.free(behind), Err(FreeError::Foreign(behind)));
}

/// A policy that writes into what it is given faults where no memory is; one that looks the block up does not get there.
#[test]
fn a_free_of_no_memory() {
    for policy in policy::table() {
        let machine = Machine::new();
        let pool = raw(&machine, &policy, QUEUE_HEADS);
        let block = take(&*pool, 1)[0];
        let nowhere = Block { cpu: CpuAddr(DMA), dma: block.dma };
        let fault =
            FreeError::Fault(CpuFault { cpu: CpuAddr(DMA), len: if policy.name == "page-list" { 4 } else { 8 } });
        let expected = match policy.name.as_ref() {
            "page-list" | "linked" | "linked-descending" => fault,
            "index-stack" => FreeError::Mismatched { block: nowhere, expected: block.cpu },
            _ => FreeError::Foreign(nowhere),
        };
        assert_eq!(pool.free(nowhere), Err(expected), "{}", policy.name);
        assert_eq!(pool.free(block), Ok(()), "{}", policy.name);
        assert_eq!(pool.destroy(), Ok(()), "{}: nothing was counted", policy.name);
    }
}

#[test]
fn destroy_while_busy_leaks_pages_as_the_kernel_does() {
    for policy in policy::table() {
        let machine = Machine::new();
        let free = machine.pages.free_pages();
        let pool = raw(&machine, &policy, QUEUE_HEADS);
        let mut blocks = take(&*pool, 130);
        blocks.sort_by_key(|block| block.dma);
        assert_eq!(pool.pages(), 3, "{}", policy.name);
        // Of the first page nothing stays in use, of the others one block each.
        let stay: Vec<_> =
            [1, 2].map(|page| *blocks.iter().find(|b| (b.dma.0 - DMA) >> 12 == page).expect("one")).into();
        blocks.iter().filter(|block| !stay.contains(block)).for_each(|block| pool.free(*block).expect("taken back"));
        assert_eq!(pool.destroy(), Err(DestroyError::Busy { live: 2, owners: Vec::new() }), "{}", policy.name);
        let leaked = free - machine.pages.free_pages();
        assert_eq!(leaked, if policy.name == "page-list" { 2 } else { 3 }, "{}", policy.name);
    }
}

/// `nr_active` counts calls, not blocks: after a double free it is wrong, and the pool is busy for ever.
#[test]
fn a_double_free_spoils_the_count() {
    for name in ["page-list", "linked", "linked-descending", "external-list"] {
        let machine = Machine::new();
        let pool = raw(&machine, &named(name), QUEUE_HEADS);
        let block = take(&*pool, 1)[0];
        pool.free(block).expect("taken back");
        pool.free(block).expect("and again");
        let error = pool.destroy().expect_err("busy");
        assert_eq!(error.to_string(), "0 blocks are in use: the pool counts -1", "{name}");
    }
}

#[test]
fn a_watched_destroy_names_the_owners() {
    for policy in policy::table() {
        let machine = Machine::new();
        let pool = machine.pool(&policy, QUEUE_HEADS);
        let blocks: Vec<_> = (0..12).map(|_| pool.alloc(Flags::KERNEL).expect("a block")).collect();
        assert!(machine.ledger.claim(blocks[0].dma, 64, machine::queue_head(7)));
        assert!(machine.ledger.claim(blocks[1].dma, 64, machine::queue_head(8)));
        blocks[3..].iter().for_each(|block| pool.free(*block).expect("taken back"));
        let Err(DestroyError::Busy { live: 3, mut owners }) = pool.destroy() else { panic!("{}", policy.name) };
        owners.sort();
        let unnamed = format!("an unnamed block at {}", blocks[2].dma);
        assert_eq!(owners, [unnamed, "dQH 7".to_owned(), "dQH 8".to_owned()], "{}", policy.name);
    }
}

#[test]
fn many_owners_are_counted() {
    let machine = Machine::new();
    let pool = machine.pool(&Policy::current(), QUEUE_HEADS);
    for index in 0..12 {
        let block = pool.alloc(Flags::KERNEL).expect("a block");
        assert!(machine.ledger.claim(block.dma, 64, machine::queue_head(index)));
    }
    assert_eq!(
        pool.destroy().expect_err("busy").to_string(),
        "12 blocks are in use: dQH 0, dQH 1, dQH 2, dQH 3, dQH 4, dQH 5, dQH 6, dQH 7, 4 more"
    );
}
