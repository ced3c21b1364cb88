//! What other threads do while a pool waits for a page: the one moment at which a pool has to let go of its lock, as the
//! source may sleep. A kernel's pool that asks without leave to sleep lets go all the same (mm/dmapool.c, `dma_pool_alloc`).

use std::sync::Arc;

use parking_lot::Mutex;

use super::{DIRT, Exercise, MANY_BLOCKS, stamp};
use crate::finding::Promise;
use crate::ledger::Ledger;
use crate::pool::{Block, Flags, Geometry};

/// Blocks that the other thread takes.
const OTHERS: usize = 3;

impl Exercise<'_> {
    /// Others free and allocate while a page is fetched: nothing of it is lost, and nothing is handed out twice.
    pub(super) fn while_fetching(&mut self, geometry: Geometry) {
        if self.source.page_size() / geometry.size.max(1) > MANY_BLOCKS {
            return;
        }
        self.others_free(geometry);
        self.others_allocate(geometry);
    }

    /// Another thread frees all blocks of the first page while the second is fetched.
    fn others_free(&mut self, geometry: Geometry) {
        let doing = format_args!("{geometry:?}, others free while a page is fetched");
        let ledger = Ledger::new(Arc::clone(self.memory));
        let before = self.probe.free_pages();
        let Some(mut held) = self.create_good(geometry, &ledger) else { return };
        let (pool, full): (_, Arc<Mutex<Vec<Block>>>) = (Arc::clone(&held.pool), Arc::default());
        let theirs = Arc::clone(&full);
        self.probe.meanwhile(1, move || {
            // What a pool does not take back is found by the ledger.
            theirs.lock().iter().for_each(|&block| drop(pool.free(block)));
        });
        // A first page of blocks goes to the other thread.
        while self.alloc(&mut held, Flags::KERNEL, doing).is_some() && !self.probe.was_interrupted() {
            let Some((block, _)) = held.blocks.pop() else { break };
            let _ = self.memory.fill(block.cpu, geometry.size, DIRT);
            full.lock().push(block);
        }
        self.probe.join();
        let had = full.lock().len();
        let pages = held.pool.pages();
        self.probe.fail_after(0);
        while held.blocks.len() <= had && self.alloc(&mut held, Flags::ATOMIC, doing).is_some() {}
        let has = held.blocks.len();
        self.expect(Promise::NoLeak, has > had || pages < 2, doing, || {
            format!("{had} blocks were freed while a page was fetched, and of two pages only {has} blocks can be had")
        });
        self.probe.work();
        self.free_all(&mut held, doing);
        self.destroy(held, Some(before), doing);
        self.collect(&ledger, doing);
    }

    /// Another thread fetches a page of its own while one is fetched.
    fn others_allocate(&mut self, geometry: Geometry) {
        let doing = format_args!("{geometry:?}, others allocate while a page is fetched");
        let ledger = Ledger::new(Arc::clone(self.memory));
        let before = self.probe.free_pages();
        let Some(mut held) = self.create_good(geometry, &ledger) else { return };
        let theirs: Arc<Mutex<Vec<(Block, u8)>>> = Arc::default();
        let (pool, memory, taken) = (Arc::clone(&held.pool), Arc::clone(self.memory), Arc::clone(&theirs));
        self.probe.meanwhile(0, move || {
            for tag in 1..=OTHERS as u8 {
                // Where there is no memory the ledger has found the address already.
                let Ok(block) = pool.alloc(Flags::KERNEL.zeroed()) else { return };
                stamp(&memory, geometry, block, tag);
                taken.lock().push((block, tag));
            }
        });
        for _ in 0..OTHERS {
            self.alloc(&mut held, Flags::KERNEL.zeroed(), doing);
        }
        self.probe.join();
        let taken = std::mem::take(&mut *theirs.lock());
        self.expect(Promise::Unwind, taken.len() == OTHERS, doing, || {
            format!("another thread got {} of {OTHERS} blocks, though the source gave pages", taken.len())
        });
        held.blocks.extend(taken);
        self.free_all(&mut held, doing);
        self.destroy(held, Some(before), doing);
        self.collect(&ledger, doing);
    }
}
