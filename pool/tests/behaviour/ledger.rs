//! What the ledger says about blocks: findings, their words, and layouts.

use bus::{AccessKind, DmaAddr, LayoutContract, Watch};
use pool::{AddressOrder, Blame, BlockState, Direction, DmaPool, Finding, Flags, Found, LayoutFinding, Policy, policy};

use crate::machine::{DMA, Machine, QUEUE_HEAD, geometry, queue_head};

static QUEUE_HEADS: LayoutContract = LayoutContract {
    register: "ENDPTLISTADDR",
    statement: "queue heads, ascending and adjacent",
    source: "a test",
    align: 2048,
    kind: &QUEUE_HEAD,
    size: 64,
    stride: 64,
};

fn pool_of(machine: &Machine, name: &str) -> DmaPool {
    machine.pool(&policy::by_name(name).expect("in the table"), geometry(64, 64, 0))
}

/// Allocates and claims queue heads 0 to `count`.
fn queue_heads(machine: &Machine, pool: &DmaPool, count: u32) -> Vec<DmaAddr> {
    let one = |index| {
        let block = pool.alloc(Flags::KERNEL).expect("a block");
        assert!(machine.ledger.claim(block.dma, 64, queue_head(index)));
        block.dma
    };
    (0..count).map(one).collect()
}

fn last(machine: &Machine) -> String {
    machine.ledger.findings().last().expect("a finding").to_string()
}

fn layout(machine: &Machine, written: DmaAddr, count: u32) -> Option<LayoutFinding> {
    let before = machine.ledger.findings().len();
    machine.ledger.layout(&QUEUE_HEADS, written, count);
    match machine.ledger.findings().get(before) {
        None => None,
        Some(Finding::LayoutContract(finding)) => Some((**finding).clone()),
        Some(other) => panic!("{other}"),
    }
}

#[test]
fn freed_and_fresh_blocks() {
    let machine = Machine::new();
    let pool = pool_of(&machine, "linked");
    let block = pool.alloc(Flags::KERNEL).expect("a block");
    assert!(machine.ledger.claim(block.dma, 64, queue_head(5)));
    machine.access(AccessKind::Write, block.dma, 64);
    assert_eq!(machine.found(), [""; 0]);
    pool.free(block).expect("taken back");
    machine.access(AccessKind::Read, block.dma.offset(4), 4);
    assert_eq!(
        last(&machine),
        "the device read dQH 3 token at 0x80000004 (4 bytes): a freed block of pool pool (last dQH 5, use 1)"
    );
    machine.access(AccessKind::Write, block.dma.offset(4), 8);
    assert_eq!(
        last(&machine),
        "the device wrote dQH 3 token at 0x80000004 (8 bytes), byte 4 of a freed block of pool pool (last dQH 5, use \
         1); it damaged the pool's next pointer and DMA address"
    );
    machine.access(AccessKind::Write, block.dma.offset(32), 4);
    assert!(last(&machine).ends_with("use 1)"), "nothing of the pool's lies there: {}", last(&machine));
    machine.access(AccessKind::Write, block.dma.offset(0x88), 4);
    assert_eq!(
        last(&machine),
        "the device wrote dQH 3 token at 0x80000088 (4 bytes), byte 8 of a free block of pool pool (never handed out); \
         it damaged the pool's DMA address"
    );
    assert!(machine.ledger.findings().iter().all(|finding| finding.blame() == Blame::Client));
}

#[test]
fn generations_count_uses_and_owners_do_not_outlive_them() {
    let machine = Machine::new();
    let pool = pool_of(&machine, "index-stack");
    for generation in 1..=3 {
        let block = pool.alloc(Flags::KERNEL).expect("a block");
        assert_eq!(machine.ledger.owner_at(block.dma), None);
        if generation == 2 {
            assert!(machine.ledger.claim(block.dma, 64, queue_head(9)));
        }
        pool.free(block).expect("taken back");
        assert!(!machine.ledger.claim(block.dma, 64, queue_head(1)), "a free block is no one's");
        machine.access(AccessKind::Read, block.dma, 4);
        let Some(Finding::ReadOfFreedBlock { state, .. }) = machine.ledger.findings().pop() else { panic!() };
        let owner = (generation == 2).then(|| queue_head(9));
        assert_eq!(state, BlockState::Freed { owner, generation });
    }
    assert_eq!(machine.ledger.counts().allocations, 3);
    assert_eq!(machine.ledger.counts().accesses, 3);
}

#[test]
fn a_write_across_free_blocks_damages_the_next() {
    let machine = Machine::new();
    let pool = pool_of(&machine, "page-list");
    let heads = queue_heads(&machine, &pool, 2);
    // From behind the first free block's link into the second's.
    machine.access(AccessKind::Write, heads[1].offset(64 + 32), 40);
    assert!(last(&machine).ends_with("it damaged the pool's next offset"), "{}", last(&machine));
    // From a live block into a free one.
    machine.access(AccessKind::Write, heads[1].offset(48), 32);
    assert_eq!(
        last(&machine),
        "the device wrote dQH 3 token at 0x80000070: dQH 1 of pool pool ends after 16 of 32 bytes"
    );
    // From one live block into another is wrong all the same.
    machine.access(AccessKind::Read, heads[0], 128);
    assert_eq!(
        last(&machine),
        "the device read dQH 3 token at 0x80000000: dQH 0 of pool pool ends after 64 of 128 bytes"
    );
}

#[test]
fn blocks_over_several_frames() {
    let machine = Machine::new();
    let pool = machine.pool(&Policy::current(), geometry(10_000, 16, 0));
    let blocks: Vec<_> = (0..3).map(|_| pool.alloc(Flags::KERNEL).expect("a block")).collect();
    for (index, block) in (0..).zip(&blocks) {
        assert!(machine.ledger.claim(block.dma, 10_000, queue_head(index)));
        machine.access(AccessKind::Write, block.dma, 10_000);
        machine.access(AccessKind::Write, block.dma.offset(9_000), 1000);
        assert_eq!(machine.ledger.owner_at(block.dma.offset(9_999)), Some(queue_head(index)));
    }
    assert_eq!(machine.found(), [""; 0]);
    machine.access(AccessKind::Read, blocks[1].dma.offset(9_000), 1001);
    machine.access(AccessKind::Read, blocks[1].dma.offset(11_000), 4);
    assert_eq!(machine.found(), ["CrossesBlocks", "OutsideBlocks"]);
    pool.free(blocks[1]).expect("taken back");
    machine.access(AccessKind::Read, blocks[1].dma.offset(9_000), 4);
    assert_eq!(machine.found()[2], "ReadOfFreedBlock");
}

#[test]
fn wrong_frees_in_words() {
    let machine = Machine::new();
    let pool = pool_of(&machine, "index-stack");
    let other = pool_of(&machine, "index-stack");
    let block = pool.alloc(Flags::KERNEL).expect("a block");
    let second = pool.alloc(Flags::KERNEL).expect("a block");
    let theirs = other.alloc(Flags::KERNEL).expect("a block");
    let inside = pool::Block { cpu: block.cpu.offset(8), dma: block.dma.offset(8) };
    let behind = pool::Block { cpu: block.cpu.offset(0x100), dma: block.dma.offset(0x100) };
    let mixed = pool::Block { cpu: second.cpu, dma: block.dma };
    for wrong in [inside, behind, mixed, theirs] {
        assert!(pool.free(wrong).is_err());
    }
    pool.free(block).expect("taken back");
    assert!(pool.free(block).is_err());
    let words: Vec<_> = machine.ledger.findings().iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "the driver freed 0xffff800040000008 / 0x80000008 to pool pool: it lies inside the block at 0x80000000",
            "the driver freed 0xffff800040000100 / 0x80000100 to pool pool: no block begins there",
            "the driver freed 0xffff800040000040 / 0x80000000 to pool pool: it was handed out as 0xffff800040000000 / \
             0x80000000",
            "the driver freed 0xffff800040001000 / 0x80001000 to pool pool: it lies in no page of this pool",
            "the driver freed 0xffff800040000000 / 0x80000000 to pool pool: it is free already",
        ]
    );
    assert!(machine.found().iter().all(|name| *name == "WrongFree"));
}

/// The pool that is handed a double free cannot keep its promise; the driver is to blame.
#[test]
fn what_follows_from_a_wrong_free_is_the_drivers() {
    let machine = Machine::new();
    let pool = pool_of(&machine, "linked");
    let block = pool.alloc(Flags::KERNEL).expect("a block");
    pool.free(block).expect("taken back");
    pool.free(block).expect("the kernel is silent");
    assert_eq!(pool.alloc(Flags::KERNEL), Ok(block));
    assert_eq!(pool.alloc(Flags::KERNEL), Ok(block), "and hands it out twice");
    assert_eq!(machine.found(), ["WrongFree", "WrongFree"]);
    assert!(
        last(&machine).contains("it freed wrongly before, and now the pool breaks NoOverlap"),
        "{}",
        last(&machine)
    );
    assert!(machine.ledger.findings().iter().all(|finding| finding.blame() == Blame::Client));
}

#[test]
fn the_right_layout() {
    let machine = Machine::new();
    let pool = pool_of(&machine, "linked");
    let heads = queue_heads(&machine, &pool, 32);
    assert!(layout(&machine, heads[0], 32).is_none());
    assert_eq!(machine.ledger.order("pool"), Some(AddressOrder::Ascending { stride: 64, from: DmaAddr(DMA) }));
    assert_eq!(machine.ledger.order("no such pool"), None);
}

#[test]
fn a_descending_layout() {
    let machine = Machine::new();
    let pool = pool_of(&machine, "linked-descending");
    let heads = queue_heads(&machine, &pool, 32);
    let finding = layout(&machine, heads[0], 32).expect("not ascending");
    assert_eq!((finding.written, finding.effective), (DmaAddr(DMA + 0xfc0), DmaAddr(DMA + 0x800)));
    assert_eq!((finding.slot, finding.expected_at), (0, DmaAddr(DMA + 0x800)));
    assert_eq!(finding.found, Found::Claimed(queue_head(31)));
    assert_eq!(finding.claimed_at, Some(heads[0]));
    assert_eq!(
        last(&machine),
        "ENDPTLISTADDR = 0x80000fc0 (the hardware uses 0x80000800): slot 0, dQH 0 to the device, at 0x80000800 is the \
         driver's dQH 31; the driver's dQH 0 is at 0x80000fc0; pool pool handed out descending blocks, 64 bytes apart, \
         from 0x80000fc0"
    );
}

#[test]
fn a_free_block_in_the_layout() {
    let machine = Machine::new();
    let pool = pool_of(&machine, "linked-descending");
    let heads = queue_heads(&machine, &pool, 16);
    let finding = layout(&machine, heads[0], 16).expect("not ascending");
    assert_eq!(finding.found, Found::FreeBlock("pool".into(), BlockState::NeverAllocated));
    assert_eq!(finding.was_zero, Some(false), "the pool's links are there");
    assert!(
        last(&machine).contains("at 0x80000800 is a free block of pool pool (never handed out); the driver's dQH 0 is")
    );
    // A block that was one and went.
    let pool = pool_of(&machine, "linked");
    let heads = queue_heads(&machine, &pool, 3);
    pool.free(pool::Block { cpu: machine.memory.cpu(heads[1]).expect("mapped"), dma: heads[1] }).expect("taken back");
    let finding = layout(&machine, heads[0], 3).expect("a hole");
    let state = BlockState::Freed { owner: Some(queue_head(1)), generation: 1 };
    assert_eq!((finding.slot, finding.found), (1, Found::FreeBlock("pool".into(), state)));
}

#[test]
fn a_shifted_layout() {
    let machine = Machine::new();
    let pool = pool_of(&machine, "linked");
    let first = pool.alloc(Flags::KERNEL).expect("a block");
    let heads = queue_heads(&machine, &pool, 4);
    let finding = layout(&machine, heads[0], 4).expect("one block too far");
    assert_eq!((finding.slot, finding.expected_at, finding.found), (0, first.dma, Found::Unclaimed));
    assert!(last(&machine).contains("at 0x80000000 is a block that the driver did not name; the driver's dQH 0 is at"));
    // Behind the array there is no fifth.
    let finding = layout(&machine, DmaAddr(DMA + 0x10_0000), 1).expect("nothing there");
    assert_eq!((finding.found, finding.was_zero), (Found::Unmapped, Some(true)));
    assert!(layout(&machine, DmaAddr(0x1000), 1).is_some_and(|finding| finding.was_zero.is_none()));
}

#[test]
fn a_layout_in_the_middle_of_blocks() {
    let machine = Machine::new();
    let pool = machine.pool(&Policy::current(), geometry(4096, 4096, 0));
    let block = pool.alloc(Flags::KERNEL).expect("a block");
    let finding = layout(&machine, block.dma.offset(2048), 1).expect("no queue head begins there");
    assert_eq!(finding.found, Found::Interior);
    assert!(last(&machine).ends_with("is the middle of another object; the driver has no dQH 0"), "{}", last(&machine));
}

#[test]
fn a_layout_in_coherent_memory() {
    let machine = Machine::new();
    machine.ledger.mapped(DmaAddr(DMA), 4096, Direction::Bidirectional);
    for index in 0..4 {
        assert!(machine.ledger.claim(DmaAddr(DMA + u64::from(index) * 64), 64, queue_head(index)));
    }
    assert!(layout(&machine, DmaAddr(DMA), 4).is_none());
    let finding = layout(&machine, DmaAddr(DMA), 5).expect("only four");
    assert_eq!((finding.slot, finding.found, finding.claimed_at), (4, Found::Unclaimed, None));
    assert!(machine.ledger.claim(DmaAddr(DMA + 100), 64, queue_head(7)));
    let finding = layout(&machine, DmaAddr(DMA), 4).expect("one is gone");
    assert_eq!((finding.slot, finding.found), (1, Found::Interior));
}

/// A driver that claims nothing is judged by its memory alone.
#[test]
fn a_layout_that_nobody_named() {
    let unnamed = |machine: &Machine| machine.ledger.unnamed_layouts();
    let machine = Machine::new();
    let pool = pool_of(&machine, "linked");
    let heads: Vec<_> = (0..8).map(|_| pool.alloc(Flags::KERNEL).expect("a block")).collect();
    assert!(layout(&machine, heads[0].dma, 8).is_none());
    assert!(layout(&machine, heads[0].dma, 8).is_none());
    assert_eq!(unnamed(&machine), ["ENDPTLISTADDR"], "once");
    let finding = layout(&machine, heads[0].dma, 9).expect("one more than there are");
    assert_eq!((finding.slot, finding.found), (8, Found::FreeBlock("pool".into(), BlockState::NeverAllocated)));
    // Descending: with 31 blocks the first is free. With 32 all are there, and only names would tell them apart.
    let pool = pool_of(&machine, "linked-descending");
    let heads: Vec<_> = (0..31).map(|_| pool.alloc(Flags::KERNEL).expect("a block").dma).collect();
    let finding = layout(&machine, heads[0], 31).expect("a free block");
    assert_eq!((finding.slot, finding.found), (0, Found::FreeBlock("pool".into(), BlockState::NeverAllocated)));
    pool.alloc(Flags::KERNEL).expect("a block");
    assert!(layout(&machine, heads[0], 32).is_none());
    // Who names one of the kind has to name all.
    assert!(machine.ledger.claim(heads[3], 64, queue_head(40)));
    let finding = layout(&machine, DmaAddr(DMA), 1).expect("not named");
    assert_eq!(finding.found, Found::Unclaimed);
}

#[test]
fn room_for_a_layout() {
    let machine = Machine::new();
    let fits = |at: DmaAddr, count| layout(&machine, at, count).is_none();
    // A block that is too small, one that holds the array, and the middle of one.
    let small = machine.pool(&Policy::current(), geometry(32, 2048, 0)).alloc(Flags::KERNEL).expect("a block");
    assert!(!fits(small.dma, 1));
    let large = machine.pool(&Policy::current(), geometry(4096, 4096, 0)).alloc(Flags::KERNEL).expect("a block");
    assert!(fits(large.dma, 64) && !fits(large.dma, 65) && !fits(large.dma.offset(2048), 1));
    // A mapping contains objects, as far as it reaches.
    machine.ledger.mapped(DmaAddr(DMA + 0x10_0000), 2048 + 128, Direction::Bidirectional);
    assert!(fits(DmaAddr(DMA + 0x10_0000), 34) && !fits(DmaAddr(DMA + 0x10_0000), 35));
    assert!(fits(DmaAddr(DMA + 0x10_0800), 2));
    // What it names as something else is no room.
    static RING: bus::Kind = bus::Kind { name: "ring", label: |_, f| f.write_str("ring") };
    assert!(machine.ledger.claim(DmaAddr(DMA + 0x10_0820), 64, bus::Owner::new(&RING, 0)));
    assert!(!fits(DmaAddr(DMA + 0x10_0800), 1) && fits(DmaAddr(DMA + 0x10_0000), 32));
    assert!(machine.ledger.claim(large.dma, 4096, bus::Owner::new(&RING, 1)));
    assert!(!fits(large.dma, 1));
    assert!(!fits(DmaAddr(DMA + 0x20_0000), 1), "nothing is mapped there");
}

#[test]
fn a_layout_in_what_is_left_of_a_page() {
    let machine = Machine::new();
    let pool = machine.pool(&Policy::current(), geometry(1500, 4, 0));
    let block = pool.alloc(Flags::KERNEL).expect("two in a page");
    let found = |at| layout(&machine, at, 1).expect("no queue head").found;
    assert_eq!(found(block.dma.offset(2048)), Found::PoolMemory("pool".into()), "inside a place, not at its begin");
    assert!(last(&machine).contains("is memory of pool pool that it never handed out;"), "{}", last(&machine));
    let bands = machine.pool(&policy::by_name("index-stack").expect("known"), geometry(2048, 2048, 0));
    let block = bands.alloc(Flags::KERNEL).expect("one of two");
    assert_eq!(found(block.dma.offset(2048)), Found::PoolMemory("pool".into()), "how it cuts its pages is not known");
}

#[test]
fn findings_beyond_the_first_are_counted() {
    let machine = Machine::new();
    (0..100).for_each(|i| machine.access(AccessKind::Read, DmaAddr(i), 1));
    assert_eq!((machine.ledger.findings().len(), machine.ledger.findings_total()), (64, 100));
}

#[test]
fn a_pool_of_the_same_name_takes_the_old_ones_place() {
    let machine = Machine::new();
    for name in ["linked", "linked-descending", "linked"] {
        let pool = pool_of(&machine, name);
        queue_heads(&machine, &pool, 3).into_iter().for_each(|dma| {
            pool.free(pool::Block { cpu: machine.memory.cpu(dma).expect("mapped"), dma }).expect("taken back");
        });
        let ascending = matches!(machine.ledger.order("pool"), Some(AddressOrder::Ascending { .. }));
        assert_eq!(ascending, name == "linked");
        assert_eq!(pool.destroy(), Ok(()));
        machine.access(AccessKind::Read, DmaAddr(DMA), 4);
        assert_eq!(machine.found().pop(), Some("Unmapped"), "a page that went is no one's");
    }
}
