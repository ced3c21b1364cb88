//! Whose a broken promise is: rogue pools with links in free blocks, and what others write to pools.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bus::{AccessKind, CpuAddr, DmaAddr};
use pool::{
    AllocError, Blame, Block, CpuFault, DestroyError, DmaPool, Finding, Flags, FreeError, Memory, Metadata,
    MetadataField, PageSource, Pages, Policy, Pool, Promise, policy,
};

use crate::machine::{CPU, DMA, Machine, geometry};

const LINKS: Metadata = Metadata::InBlock(&[MetadataField { start: 0, len: 8, name: "link" }]);

/// What a rogue does next.
enum Turn {
    Give(Block),
    GiveAfterPageIsGone(Block),
    LeadNowhere,
}

/// Does what is in its script with one page, and refuses what it is told to.
struct Rogue {
    source: Arc<dyn PageSource>,
    page: Mutex<Option<Pages>>,
    script: Arc<Mutex<VecDeque<Turn>>>,
    refuses: bool,
}

impl Pool for Rogue {
    fn alloc(&self, _flags: Flags) -> Result<Block, AllocError> {
        match self.script.lock().expect("no panic").pop_front() {
            Some(Turn::Give(block)) => Ok(block),
            Some(Turn::GiveAfterPageIsGone(block)) => {
                self.source.free(self.page.lock().expect("no panic").take().expect("once"));
                Ok(block)
            }
            Some(Turn::LeadNowhere) => {
                let link = CpuAddr(0x1234);
                Err(AllocError::DamagedList { link, fault: CpuFault { cpu: link, len: 8 } })
            }
            None => Err(AllocError::Other("nothing left".into())),
        }
    }

    fn free(&self, block: Block) -> Result<(), FreeError> {
        if self.refuses { Err(FreeError::Foreign(block)) } else { Ok(()) }
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        Ok(())
    }

    fn pages(&self) -> usize {
        1
    }
}

/// A rogue with links in free blocks of 64 bytes.
fn rogue(machine: &Machine, refuses: bool, script: impl IntoIterator<Item = Turn>) -> DmaPool {
    let script = Arc::new(Mutex::new(script.into_iter().collect::<VecDeque<_>>()));
    let create = move |_: Arc<Memory>, source: Arc<dyn PageSource>, _| -> Result<Box<dyn Pool>, _> {
        let page = Mutex::new(Some(source.alloc(4096, Flags::KERNEL).expect("a page")));
        Ok(Box::new(Rogue { source, page, script: Arc::clone(&script), refuses }))
    };
    machine.pool(&Policy::new("rogue", "does what it is told to", LINKS, 8, create), geometry(64, 64, 0))
}

const fn block(offset: u64) -> Block {
    Block { cpu: CpuAddr(CPU + offset), dma: DmaAddr(DMA + offset) }
}

/// Runs the script; the promise that broke, and whose it is.
fn last_blame(machine: &Machine) -> (Blame, Option<Promise>) {
    let finding = machine.ledger.findings().pop().expect("a finding");
    let promise = match &finding {
        Finding::PoolContract { promise, .. } | Finding::AttackerAddress { promise, .. } => Some(*promise),
        _ => None,
    };
    (finding.blame(), promise)
}

/// Every promise that a pool with links in its blocks breaks by itself.
fn mistakes() -> Vec<(Promise, Vec<Turn>)> {
    vec![
        (Promise::OwnPages, vec![Turn::Give(block(0x10_0000))]),
        (Promise::OwnPages, vec![Turn::Give(block(0)), Turn::GiveAfterPageIsGone(block(0x10_0000))]),
        (Promise::NoOverlap, vec![Turn::Give(block(0)), Turn::Give(block(0))]),
        (Promise::Alignment, vec![Turn::Give(block(0x20))]),
        (Promise::SameMemory, vec![Turn::Give(Block { cpu: CpuAddr(CPU + 0x400), ..block(0x500) })]),
        (Promise::OwnPages, vec![Turn::LeadNowhere]),
    ]
}

#[test]
fn a_pools_own_mistake_is_the_pools() {
    for (promise, script) in mistakes() {
        let machine = Machine::new();
        let turns = script.len();
        let pool = rogue(&machine, false, script);
        // A device and a driver that keep to live blocks are no excuse, nor is a read of links.
        machine.access(AccessKind::Read, DmaAddr(DMA + 0xf00), 8);
        machine.access(AccessKind::Write, DmaAddr(DMA + 0xf08), 8);
        (0..turns).for_each(|_| drop(pool.alloc(Flags::KERNEL)));
        assert_eq!(last_blame(&machine), (Blame::Pool, Some(promise)));
        let pools = machine.ledger.findings().iter().filter(|finding| finding.blame() == Blame::Pool).count();
        assert!(pools >= 1 && machine.found()[2..].iter().all(|name| *name == "PoolContract"));
    }
}

#[test]
fn after_damage_that_was_seen_it_is_not() {
    for (promise, script) in mistakes() {
        let machine = Machine::new();
        let turns = script.len();
        let pool = rogue(&machine, false, script);
        machine.access(AccessKind::Write, DmaAddr(DMA + 0xf04), 8);
        (0..turns).for_each(|_| drop(pool.alloc(Flags::KERNEL)));
        assert_eq!(last_blame(&machine), (Blame::Client, Some(promise)));
        let Some(Finding::AttackerAddress { seen, written, .. }) = machine.ledger.findings().pop() else { panic!() };
        assert_eq!(
            written,
            "the device wrote dQH 3 token at 0x80000f04 (8 bytes), byte 4 of the free block at 0x80000f00; it damaged the \
             pool's link",
            "who and where"
        );
        assert!(!seen.is_empty());
    }
}

#[test]
fn a_page_given_back_says_so_whoever_is_to_blame() {
    for damaged in [false, true] {
        let machine = Machine::new();
        let script = [Turn::Give(block(0)), Turn::GiveAfterPageIsGone(block(0x10_0000))];
        let pool = rogue(&machine, false, script);
        pool.alloc(Flags::KERNEL).expect("from the script");
        if damaged {
            machine.access(AccessKind::Write, DmaAddr(DMA + 0x40), 8);
        }
        pool.alloc(Flags::KERNEL).expect("from the script");
        let findings = machine.ledger.findings();
        let finding = &findings[usize::from(damaged)];
        assert_eq!(finding.name(), if damaged { "AttackerAddress" } else { "PoolContract" });
        assert!(finding.to_string().contains("the page at 0x80000000 was given back, and 0x80000000 is in use"));
    }
}

#[test]
fn a_refused_free_is_the_pools() {
    let machine = Machine::new();
    let pool = rogue(&machine, true, [Turn::Give(block(0))]);
    let given = pool.alloc(Flags::KERNEL).expect("from the script");
    assert!(pool.free(given).is_err());
    assert_eq!(last_blame(&machine), (Blame::Pool, Some(Promise::NoLeak)));
    // A wrong free is refused with right.
    assert!(pool.free(given).is_err());
    assert_eq!(machine.found(), ["PoolContract", "WrongFree"]);
}

#[test]
fn gaps_hold_no_links() {
    let machine = Machine::new();
    // 40 of 48 bytes; a boundary of 128 leaves 32 bytes of each: 96 to 127.
    let pool = machine.pool(&policy::by_name("linked").expect("known"), geometry(40, 16, 128));
    let first = pool.alloc(Flags::KERNEL).expect("a block");
    machine.access(AccessKind::Write, first.dma.offset(96), 32);
    assert_eq!(
        machine.ledger.findings()[0].to_string(),
        "the device wrote dQH 3 token at 0x80000060 (32 bytes): memory of pool pool that it never handed out"
    );
    // On into the next block's links.
    machine.access(AccessKind::Write, first.dma.offset(120), 16);
    assert!(machine.ledger.findings()[1].to_string().ends_with("never handed out; it damaged the pool's next pointer"));
    assert_eq!(machine.found(), ["OutsideBlocks", "OutsideBlocks"]);
}

#[test]
fn the_last_block_of_a_page_is_lost_to_the_page_list_only() {
    for (name, expected) in [
        ("page-list", "memory of pool pool that it never handed out"),
        ("linked", "a free block of pool pool (never handed out)"),
        ("index-stack", "memory of pool pool that it never handed out"),
    ] {
        let machine = Machine::new();
        let pool = machine.pool(&policy::by_name(name).expect("known"), geometry(64, 64, 0));
        pool.alloc(Flags::KERNEL).expect("a block");
        machine.access(AccessKind::Read, DmaAddr(DMA + 0xfc0), 4);
        let text = machine.ledger.findings()[0].to_string();
        assert!(text.ends_with(expected), "{name}: {text}");
    }
}

/// From outside of every pool into two of them at once.
#[test]
fn damage_is_seen_in_every_page_that_a_write_reaches() {
    let machine = Machine::new();
    let linked = policy::by_name("linked").expect("known");
    let pools = [machine.pool(&linked, geometry(64, 64, 0)), machine.pool(&linked, geometry(64, 64, 0))];
    let held = pools.each_ref().map(|pool| {
        let block = pool.alloc(Flags::KERNEL).expect("a block");
        pool.free(block).expect("taken back");
        block
    });
    machine.access(AccessKind::Write, DmaAddr(DMA - 0x10), 0x2010);
    assert_eq!(machine.found(), ["Unmapped"]);
    for (pool, block) in pools.iter().zip(held) {
        machine.device_writes(block.dma, &0x1234_u64.to_le_bytes());
        pool.alloc(Flags::KERNEL).expect("the damaged block");
        assert!(pool.alloc(Flags::KERNEL).is_err(), "its link leads nowhere");
        assert_eq!(last_blame(&machine), (Blame::Client, Some(Promise::OwnPages)));
    }
}

/// Zeroes when a block is freed, and trusts that it stays so.
struct ZeroesOnFree {
    inner: Box<dyn Pool>,
    memory: Arc<Memory>,
    zeroes: bool,
}

impl Pool for ZeroesOnFree {
    fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        self.inner.alloc(Flags { zero: false, ..flags })
    }

    fn free(&self, block: Block) -> Result<(), FreeError> {
        if self.zeroes {
            self.memory.fill(block.cpu, 64, 0)?;
        }
        self.inner.free(block)
    }

    fn destroy(&self) -> Result<(), DestroyError> {
        self.inner.destroy()
    }

    fn pages(&self) -> usize {
        self.inner.pages()
    }
}

#[test]
fn dirt_that_others_left_in_a_free_block_is_not_the_pools() {
    for (zeroes, device, expected) in
        [(true, false, &[][..]), (true, true, &["WriteToFreedBlock"][..]), (false, false, &["PoolContract"][..])]
    {
        let machine = Machine::new();
        let inner = policy::by_name("index-stack").expect("known");
        let create = Arc::clone(&inner.create);
        let policy = Policy {
            create: Arc::new(move |memory, source, geometry| {
                let inner = create(Arc::clone(&memory), source, geometry)?;
                Ok(Box::new(ZeroesOnFree { inner, memory, zeroes }))
            }),
            ..inner
        };
        let pool = machine.pool(&policy, geometry(64, 64, 0));
        let block = pool.alloc(Flags::KERNEL.zeroed()).expect("fresh");
        machine.memory.fill(block.cpu, 64, 0xa5).expect("mapped");
        pool.free(block).expect("taken back");
        if device {
            machine.access(AccessKind::Write, block.dma.offset(8), 4);
            machine.device_writes(block.dma.offset(8), &[7; 4]);
        }
        assert_eq!(pool.alloc(Flags::KERNEL.zeroed()), Ok(block));
        assert_eq!(machine.found(), expected);
        // The excuse is used up: the next holder's dirt is the pool's to zero.
        if device {
            pool.free(block).expect("taken back");
            machine.device_writes(block.dma.offset(8), &[7; 4]);
            pool.alloc(Flags::KERNEL.zeroed()).expect("again");
            assert_eq!(last_blame(&machine), (Blame::Pool, Some(Promise::Zeroing)));
        }
    }
}

/// A free into one pool of what is free in another writes links over the other's.
#[test]
fn a_wrong_free_excuses_every_pool_that_it_hits() {
    let machine = Machine::new();
    let linked = policy::by_name("linked").expect("known");
    let [mine, other] = [0, 1].map(|_| machine.pool(&linked, geometry(64, 64, 0)));
    let held = mine.alloc(Flags::KERNEL).expect("a block");
    let block = other.alloc(Flags::KERNEL).expect("a block");
    other.free(block).expect("taken back");
    mine.free(block).expect("the kernel is silent");
    assert_eq!(other.alloc(Flags::KERNEL), Ok(block), "whose link now leads into the page of the first");
    let stray = other.alloc(Flags::KERNEL).expect("where it leads to");
    assert_eq!(stray.dma, held.dma.offset(64));
    assert_eq!(machine.found(), ["WrongFree", "WrongFree"]);
    let text = machine.ledger.findings()[1].to_string();
    assert!(text.contains("it freed wrongly before, and now the pool breaks OwnPages"), "{text}");
}

#[test]
fn a_flood_hides_no_kind_of_finding() {
    let machine = Machine::new();
    let pool = rogue(&machine, false, (0..21).map(|_| Turn::Give(block(0))));
    (0..1000).for_each(|i| machine.access(AccessKind::Read, DmaAddr(i), 1));
    (0..21).for_each(|_| drop(pool.alloc(Flags::KERNEL)));
    (0..1000).for_each(|_| machine.access(AccessKind::Read, DmaAddr(DMA + 0x40), 1));
    let kept = [vec!["Unmapped"; 64], vec!["PoolContract"; 16], vec!["ReadOfFreedBlock"; 4]].concat();
    assert_eq!(machine.found(), kept, "in order of occurrence");
    assert_eq!(machine.ledger.findings_total(), 1000 + 20 + 1000);
}

/// A pool that a device led into another pool's page zeroes that one's links.
#[test]
fn a_pool_that_was_led_astray_excuses_the_pool_it_was_led_to() {
    let machine = Machine::new();
    let linked = policy::by_name("linked").expect("known");
    let [led, other] = [0, 1].map(|_| machine.pool(&linked, geometry(64, 64, 0)));
    let theirs = other.alloc(Flags::KERNEL).expect("a block");
    other.free(theirs).expect("taken back");
    let mine = led.alloc(Flags::KERNEL).expect("a block");
    led.free(mine).expect("taken back");
    machine.access(AccessKind::Write, mine.dma, 8);
    machine.device_writes(mine.dma, &theirs.cpu.0.to_le_bytes());
    assert_eq!(led.alloc(Flags::KERNEL), Ok(mine));
    assert_eq!(led.alloc(Flags::KERNEL.zeroed()), Ok(theirs), "the other's free block, with its link");
    let given = other.alloc(Flags::KERNEL).expect("its links are zero now");
    assert_eq!(given, Block { cpu: theirs.cpu, dma: DmaAddr(0) });
    let Some(Finding::AttackerAddress { written, .. }) = machine.ledger.findings().pop() else {
        panic!("{:?}", machine.found())
    };
    assert_eq!(
        written,
        format!(
            "pool pool was led to {}: the device wrote dQH 3 token at {} (8 bytes), byte 0 of the free block at {}; it \
             damaged the pool's next pointer",
            theirs.dma, mine.dma, mine.dma
        )
    );
}
