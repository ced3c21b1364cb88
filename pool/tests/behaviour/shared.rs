//! Pools that fail when they are told to, and pools that others have used.

use std::sync::Arc;

use pool::{AddressOrder, AllocError, AllocFailures, DmaApi, Flags, PageError, Policy, policy};

use crate::machine::{Machine, geometry, queue_head};

fn api(machine: &Machine, policy: Policy) -> DmaApi {
    DmaApi::new(machine.memory.clone(), machine.source.clone(), policy, machine.ledger.clone())
}

#[test]
fn just_the_atomic_allocation_that_was_named_fails() {
    let machine = Machine::new();
    let failures = Arc::new(AllocFailures::default());
    let pool = api(&machine, Policy::current()).failing(Arc::clone(&failures)).create_pool("p", geometry(64, 64, 0));
    let pool = pool.expect("a right geometry");
    for before in 0..3 {
        failures.fail_after(before);
        for _ in 0..before {
            assert!(pool.alloc(Flags::ATOMIC).is_ok());
        }
        assert!(pool.alloc(Flags::KERNEL).is_ok(), "who may sleep gets memory");
        let blocks = machine.ledger.live_blocks().len();
        assert_eq!(pool.alloc(Flags::ATOMIC.zeroed()), Err(AllocError::Page(PageError::Injected)));
        assert_eq!(machine.ledger.live_blocks().len(), blocks);
        assert!(pool.alloc(Flags::ATOMIC).is_ok(), "the one after it is had");
        assert!(failures.end());
    }
    failures.fail_after(1);
    assert!(pool.alloc(Flags::ATOMIC).is_ok());
    assert!(!failures.end(), "it did not come to that");
    assert!(pool.alloc(Flags::ATOMIC).is_ok() && pool.alloc(Flags::ATOMIC).is_ok());
}

#[test]
fn an_aged_pool_has_no_order_and_others_in_it_until_it_goes() {
    for policy in policy::table().into_iter().chain(policy::hostile()) {
        for seed in 0..8 {
            let machine = Machine::new();
            let before = machine.pages.free_pages();
            let aged = api(&machine, policy.clone()).aged(seed).create_pool("p", geometry(64, 64, 0));
            let pool = aged.expect("a right geometry");
            assert!(pool.pages() >= 3, "{}: {}", policy.name, pool.pages());
            let neighbours = machine.ledger.claims_of("neighbour");
            assert!(!neighbours.is_empty(), "{}", policy.name);
            assert_eq!(machine.ledger.pool_memory(), (before - machine.pages.free_pages()) as u64 * 4096);
            assert_eq!(machine.ledger.order("p"), Some(AddressOrder::TooFew), "the driver has none yet");
            let blocks: Vec<_> = (0..32).map(|_| pool.alloc(Flags::KERNEL).expect("a block")).collect();
            for (index, block) in (0..).zip(&blocks) {
                assert!(machine.ledger.claim(block.dma, 48, queue_head(index)));
            }
            let order = machine.ledger.order("p");
            assert!(matches!(order, Some(AddressOrder::Mixed { .. })), "{} seed {seed}: {order:?}", policy.name);
            let heads: Vec<_> = machine.ledger.claims_of("dQH").into_iter().map(|(_, at, _)| at).collect();
            assert_eq!(heads, blocks.iter().map(|block| block.dma).collect::<Vec<_>>());
            blocks.into_iter().for_each(|block| pool.free(block).expect("taken back"));
            assert_eq!(pool.destroy(), Ok(()), "{}", policy.name);
            assert_eq!((machine.pages.free_pages(), machine.ledger.pool_memory()), (before, 0), "{}", policy.name);
            assert_eq!(machine.found(), Vec::<&str>::new(), "{}", policy.name);
        }
    }
}

#[test]
fn one_seed_is_one_past() {
    let addresses = |seed| {
        let machine = Machine::new();
        let pool = api(&machine, Policy::current()).aged(seed).create_pool("p", geometry(64, 64, 0));
        let pool = pool.expect("a right geometry");
        (0..10).map(|_| pool.alloc(Flags::KERNEL).expect("a block").dma).collect::<Vec<_>>()
    };
    assert_eq!(addresses(3), addresses(3));
    assert_ne!(addresses(3), addresses(4));
}
