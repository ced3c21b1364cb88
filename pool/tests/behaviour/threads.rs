//! Two threads on one pool.

use std::sync::Barrier;
use std::thread;

use pool::{Block, DmaPool, Flags, policy};

use crate::machine::{Machine, geometry};

const ROUNDS: u32 = 4000;
const SIZE: u64 = 48;

/// Allocates and frees in bursts, and looks whether its blocks stay its own.
fn hammer(machine: &Machine, pool: &DmaPool, who: u8, start: &Barrier) {
    let mut held: Vec<Block> = Vec::new();
    start.wait();
    for round in 0..ROUNDS {
        let burst = 1 + (round * 7 + u32::from(who)) % 13;
        for i in 0..burst {
            let flags = if i % 3 == 0 { Flags::KERNEL.zeroed() } else { Flags::ATOMIC };
            let block = pool.alloc(flags).expect("there is memory");
            machine.memory.fill(block.cpu, SIZE, who).expect("mapped");
            held.push(block);
        }
        while held.len() > (round as usize * 5) % 150 {
            let block = held.swap_remove(round as usize % held.len());
            let bytes = machine.device_reads(block.dma, SIZE as usize);
            assert!(bytes.iter().all(|&byte| byte == who), "{} is another thread's too", block.dma);
            pool.free(block).expect("taken back");
        }
    }
    held.into_iter().for_each(|block| pool.free(block).expect("taken back"));
}

#[test]
fn two_threads_share_every_pool() {
    for policy in policy::table() {
        let machine = Machine::new();
        let before = machine.pages.free_pages();
        let pool = machine.pool(&policy, geometry(SIZE, 16, 0));
        let start = Barrier::new(2);
        thread::scope(|scope| {
            for who in [0x11, 0x22] {
                let (machine, pool, start) = (&machine, &pool, &start);
                scope.spawn(move || hammer(machine, pool, who, start));
            }
        });
        assert!(pool.pages() >= 2, "{}: pages were added under way", policy.name);
        assert_eq!(machine.found(), [""; 0], "{}", policy.name);
        assert_eq!(machine.ledger.live_blocks().len(), 0, "{}", policy.name);
        assert_eq!(pool.destroy(), Ok(()), "{}", policy.name);
        assert_eq!(machine.pages.free_pages(), before, "{}", policy.name);
    }
}
