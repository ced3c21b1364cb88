//! Several threads on one pool.

use std::sync::{Arc, Barrier, Mutex, Weak};
use std::thread;

use pool::{Block, DmaPool, Flags, PageAllocator, PageError, PageSource, Pages, Pool, policy};

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
    for policy in policy::table().into_iter().chain(policy::hostile()) {
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

/// A source during whose work another thread frees blocks, each time: that a pool's lock is dropped there is needed.
struct Interrupted {
    pages: Arc<PageAllocator>,
    pool: Mutex<Option<Weak<dyn Pool>>>,
    to_free: Mutex<Vec<Block>>,
    closed: Mutex<bool>,
}

impl PageSource for Interrupted {
    fn page_size(&self) -> u64 {
        self.pages.page_size()
    }

    fn alloc(&self, len: u64, flags: Flags) -> Result<Pages, PageError> {
        if *self.closed.lock().expect("no panic") {
            return Err(PageError::Injected);
        }
        let pool = self.pool.lock().expect("no panic").as_ref().and_then(Weak::upgrade);
        if let Some(pool) = pool {
            self.to_free.lock().expect("no panic").drain(..).for_each(|block| pool.free(block).expect("taken back"));
        }
        self.pages.alloc(len, flags)
    }

    fn free(&self, pages: Pages) {
        self.pages.free(pages);
    }
}

#[test]
fn blocks_freed_while_a_page_is_fetched_are_not_lost() {
    for policy in policy::table() {
        let machine = Machine::new();
        let before = machine.pages.free_pages();
        let source = Arc::new(Interrupted {
            pages: machine.pages.clone(),
            pool: Mutex::default(),
            to_free: Mutex::default(),
            closed: Mutex::new(false),
        });
        let pool = (policy.create)(machine.memory.clone(), source.clone(), geometry(64, 64, 0)).expect("a pool");
        let pool: Arc<dyn Pool> = Arc::from(pool);
        *source.pool.lock().expect("no panic") = Some(Arc::downgrade(&pool));
        let in_page = if policy.name == "page-list" { 63 } else { 64 };
        let mut held: Vec<_> = (0..in_page).map(|_| pool.alloc(Flags::KERNEL).expect("a block")).collect();
        // The page is full; while the next one is fetched, ten blocks come back.
        *source.to_free.lock().expect("no panic") = held.drain(5..15).collect();
        held.push(pool.alloc(Flags::KERNEL).expect("a block"));
        assert_eq!(pool.pages(), 2, "{}", policy.name);
        *source.closed.lock().expect("no panic") = true;
        while let Ok(block) = pool.alloc(Flags::ATOMIC) {
            held.push(block);
        }
        assert_eq!(held.len(), 2 * in_page, "{}: every block of both pages", policy.name);
        held.drain(..).for_each(|block| pool.free(block).expect("taken back"));
        assert_eq!(pool.destroy(), Ok(()), "{}", policy.name);
        assert_eq!(machine.pages.free_pages(), before, "{}", policy.name);
    }
}
