//! What the driver itself does to memory.

use bus::{AccessKind, Belief, CpuAddr, DmaAddr, Watch};
use pool::{Blame, BlockState, Direction, DmaApi, DriverAccess, Finding, Flags, Policy, Promise, Wild, policy};

use crate::machine::{CPU, DMA, Machine, QUEUE_HEAD, geometry, queue_head};

fn api(machine: &Machine, policy: Policy) -> DmaApi {
    DmaApi::new(machine.memory.clone(), machine.source.clone(), policy, machine.ledger.clone())
}

fn last(machine: &Machine) -> String {
    machine.ledger.findings().last().expect("a finding").to_string()
}

#[test]
fn what_the_driver_has_is_its_own() {
    let machine = Machine::new();
    for policy in policy::table() {
        let api = api(&machine, policy);
        let pool = api.create_pool("ci_hw_td", geometry(40, 16, 128)).expect("a pool");
        let blocks: Vec<_> = (0..150).map(|_| pool.alloc(Flags::KERNEL.zeroed()).expect("a block")).collect();
        for block in &blocks {
            api.write(block.cpu, &[1; 40]).expect("mapped");
            api.store_u32(block.cpu.offset(36), 7).expect("mapped");
            assert_eq!(api.load_u32(block.cpu.offset(36)), Ok(7));
        }
        let ring = api.alloc_coherent(6000, Flags::KERNEL).expect("pages");
        api.write(ring.cpu.offset(4000), &[1; 200]).expect("mapped");
        for len in [1, 32, 33, 64, 1500, 2048, 4096, 9000, 16384] {
            let buffer = api.kmalloc(len, Flags::KERNEL).expect("a buffer");
            let mut bytes = vec![3; len as usize];
            api.write(buffer, &bytes).expect("mapped");
            api.read(buffer, &mut bytes).expect("mapped");
            assert!(api.kfree(buffer));
        }
        // Memory that somebody else gave it, mapped.
        let foreign = machine.source.alloc(4096, Flags::KERNEL).expect("a page");
        let mapped = api.map_single(foreign.cpu, 512, Direction::ToDevice).expect("memory");
        api.write(foreign.cpu, &[1; 512]).expect("mapped");
        assert!(api.unmap_single(mapped));
        api.free_coherent(ring);
        blocks.into_iter().for_each(|block| pool.free(block).expect("taken back"));
        assert_eq!(pool.destroy(), Ok(()), "the pool's own links are not the driver's accesses");
        assert_eq!(machine.found(), [""; 0]);
    }
}

#[test]
fn a_freed_block_is_not() {
    let machine = Machine::new();
    let api = api(&machine, Policy::current());
    let pool = api.create_pool("ci_hw_td", geometry(64, 64, 0)).expect("a pool");
    let block = pool.alloc(Flags::KERNEL).expect("a block");
    assert!(api.claim(block.dma, 64, queue_head(5)));
    pool.free(block).expect("taken back");
    api.load_u32(block.cpu.offset(4)).expect("mapped");
    assert_eq!(
        last(&machine),
        "the driver read 0xffff800040000004 / 0x80000004 (4 bytes), byte 4 of a freed block of pool ci_hw_td (last dQH 5, \
         use 1)"
    );
    api.store_u32(block.cpu.offset(4), 0x1234).expect("mapped");
    assert_eq!(
        last(&machine),
        "the driver wrote 0xffff800040000004 / 0x80000004 (4 bytes), byte 4 of a freed block of pool ci_hw_td (last dQH \
         5, use 1); it damaged the pool's next pointer"
    );
    let Some(Finding::DriverUseAfterFree { access, pool: named, state, offset, damaged }) =
        machine.ledger.findings().pop()
    else {
        panic!()
    };
    let (cpu, dma) = (block.cpu.offset(4), block.dma.offset(4));
    assert_eq!(access, DriverAccess { cpu, dma, len: 4, kind: AccessKind::Write });
    assert_eq!((named.as_str(), offset, damaged), ("ci_hw_td", 4, vec!["next pointer"]));
    assert_eq!(state, BlockState::Freed { owner: Some(queue_head(5)), generation: 1 });
    // What the pool breaks now is the driver's.
    pool.alloc(Flags::KERNEL).expect("the damaged block");
    assert!(pool.alloc(Flags::KERNEL).is_err());
    let Some(Finding::AttackerAddress { promise: Promise::OwnPages, written, .. }) = machine.ledger.findings().pop()
    else {
        panic!("{:?}", machine.found())
    };
    assert_eq!(
        written,
        "the driver wrote 0xffff800040000004 / 0x80000004 (4 bytes), byte 4 of the free block at 0x80000000; it damaged \
         the pool's next pointer"
    );
    assert!(machine.ledger.findings().iter().all(|finding| finding.blame() == Blame::Client));
}

#[test]
fn a_write_after_a_free_excuses_no_pool_whose_links_are_elsewhere() {
    let machine = Machine::new();
    let api = api(&machine, policy::by_name("index-stack").expect("known"));
    let pool = api.create_pool("ci_hw_td", geometry(64, 64, 0)).expect("a pool");
    let block = pool.alloc(Flags::KERNEL).expect("a block");
    pool.free(block).expect("taken back");
    api.write(block.cpu, &[7; 64]).expect("mapped");
    assert_eq!(machine.found(), ["DriverUseAfterFree"]);
    assert_eq!(pool.alloc(Flags::KERNEL), Ok(block));
    assert_eq!(machine.found().len(), 1);
}

#[test]
fn beyond_a_block() {
    let machine = Machine::new();
    let api = api(&machine, Policy::current());
    let pool = api.create_pool("ci_hw_td", geometry(48, 64, 0)).expect("a pool");
    let block = pool.alloc(Flags::KERNEL).expect("a block");
    api.claim(block.dma, 48, queue_head(1));
    api.write(block.cpu.offset(40), &[0; 32]).expect("mapped");
    assert_eq!(
        last(&machine),
        "the driver wrote 0xffff800040000028 / 0x80000028 (32 bytes): dQH 1 of pool ci_hw_td ends after 8 of them; it \
         damaged the pool's next pointer"
    );
    // The last bytes of a page hold no whole block of 96 bytes.
    let pool = api.create_pool("gaps", geometry(96, 32, 0)).expect("a pool");
    let block = pool.alloc(Flags::KERNEL).expect("a block");
    api.store_u32(block.cpu.offset(42 * 96), 1).expect("mapped");
    assert!(last(&machine).ends_with(": memory of pool gaps that it never handed out"), "{}", last(&machine));
    api.store_u32(block.cpu.offset(41 * 96 + 32), 1).expect("mapped");
    assert!(last(&machine).ends_with("byte 32 of a free block of pool gaps (never handed out)"), "{}", last(&machine));
    assert_eq!(machine.found(), ["DriverCrossesBlocks", "DriverWildAccess", "DriverUseAfterFree"]);
}

#[test]
fn memory_that_nobody_gave_it() {
    let machine = Machine::new();
    let api = api(&machine, Policy::current());
    let wild = |machine: &Machine| match machine.ledger.findings().pop() {
        Some(Finding::DriverWildAccess { wild, .. }) => wild,
        other => panic!("{other:?}"),
    };
    api.store_u32(CpuAddr(CPU + 0x10_0000), 1).expect("memory");
    assert_eq!(wild(&machine), Wild::Unowned);
    assert_eq!(
        last(&machine),
        "the driver wrote 0xffff800040100000 / 0x80100000 (4 bytes): memory that is not its own"
    );
    let [first, second] = [0, 1].map(|_| api.kmalloc(64, Flags::KERNEL).expect("a buffer"));
    let (low, high) = (first.min(second), first.max(second));
    assert_eq!(low.offset(64), high, "neighbours");
    api.write(low.offset(32), &[0; 33]).expect("memory");
    assert_eq!(wild(&machine), Wild::BehindBuffer { inside: 32 });
    assert!(api.kfree(low));
    api.read(low, &mut [0; 4]).expect("memory");
    assert_eq!(wild(&machine), Wild::FreedBuffer);
    api.write(high, &[0; 64]).expect("memory");
    let large = api.kmalloc(8192, Flags::KERNEL).expect("pages");
    api.write(large.offset(4000), &[0; 4192]).expect("memory");
    let before = machine.found().len();
    assert_eq!(before, 3, "the neighbour and the large one are live");
    api.write(large.offset(8000), &[0; 193]).expect("memory");
    assert_eq!(wild(&machine), Wild::BehindBuffer { inside: 192 });
    assert!(api.kfree(large));
    api.write(large, &[0; 4]).expect("memory");
    assert_eq!(wild(&machine), Wild::Unowned, "its pages went");
    let ring = api.alloc_coherent(4096, Flags::KERNEL).expect("a page");
    api.store_u32(ring.cpu, 1).expect("memory");
    api.free_coherent(ring);
    api.load_u32(ring.cpu).expect("memory");
    assert_eq!(wild(&machine), Wild::Unowned);
    // No access, no finding.
    let before = machine.found().len();
    assert!(api.store_u32(CpuAddr(CPU + 0x10_0002), 1).is_err(), "not aligned");
    assert!(api.store_u32(CpuAddr(DMA), 1).is_err(), "a device's address");
    api.write(CpuAddr(CPU + 0x10_0000), &[]).expect("nothing");
    assert_eq!(machine.found().len(), before);
}

#[test]
fn what_a_pool_gave_by_mistake_is_not_the_drivers_mistake() {
    let machine = Machine::new();
    let api = api(&machine, policy::by_name("page-list").expect("known"));
    // Up to Linux 6.3 the last block of a page may end behind it (BOUNDARY_BEYOND_PAGE).
    let pool = api.create_pool("beyond", pool::contract::BOUNDARY_BEYOND_PAGE).expect("a pool");
    let blocks: Vec<_> = (0..43).map(|_| pool.alloc(Flags::KERNEL).expect("a block")).collect();
    assert_eq!(machine.found(), ["PoolContract"]);
    for block in blocks {
        api.write(block.cpu, &[0; 96]).expect("memory");
    }
    assert_eq!(machine.found(), ["PoolContract"]);
}

#[test]
fn accesses_to_blocks_are_counted() {
    let machine = Machine::new();
    let api = api(&machine, Policy::current());
    let pools = ["ci_hw_qh", "ci_hw_td"].map(|name| api.create_pool(name, geometry(64, 64, 0)).expect("a pool"));
    let blocks = pools.each_ref().map(|pool| pool.alloc(Flags::KERNEL).expect("a block"));
    let access = |addr: DmaAddr, len| {
        let belief = Belief::new(&QUEUE_HEAD, 0, "token");
        machine.ledger.access(&bus::Access { addr, len, kind: AccessKind::Read, belief });
    };
    (0..3).for_each(|_| access(blocks[1].dma, 64));
    access(blocks[0].dma.offset(60), 4);
    access(blocks[0].dma.offset(64), 4);
    access(DmaAddr(0), 4);
    api.load_u32(blocks[0].cpu).expect("mapped");
    let counts = machine.ledger.counts();
    assert_eq!((counts.allocations, counts.accesses, counts.pool_accesses), (2, 6, 4));
    pools[1].free(blocks[1]).expect("taken back");
    assert_eq!(pools[1].destroy(), Ok(()));
    let of = |name| machine.ledger.accesses_of(name);
    assert_eq!((of("ci_hw_qh"), of("ci_hw_td"), of("other")), (1, 3, 0));
    api.create_pool("ci_hw_td", geometry(64, 64, 0)).expect("a pool");
    assert_eq!(of("ci_hw_td"), 3, "a later pool of that name does not forget");
}
