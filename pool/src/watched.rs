//! A pool as a driver holds it: any pool, with the ledger around it.

use std::fmt;
use std::sync::Arc;

use crate::ageing::Neighbours;
use crate::error::{AllocError, CreateError, DestroyError, FreeError};
use crate::failing::AllocFailures;
use crate::finding::Promise;
use crate::ledger::{Ledger, PoolId};
use crate::memory::Memory;
use crate::page::{PageError, PageSource, Pages};
use crate::policy::Policy;
use crate::pool::{Block, Flags, Geometry, Pool, Remark};

/// A named pool under the ledger's eyes.
pub struct DmaPool {
    name: String,
    geometry: Geometry,
    memory: Arc<Memory>,
    ledger: Arc<Ledger>,
    id: PoolId,
    pool: Box<dyn Pool>,
    failures: Option<Arc<AllocFailures>>,
    neighbours: Neighbours,
}

/// A page source that tells the ledger which pages are the pool's.
struct WatchedSource {
    source: Arc<dyn PageSource>,
    ledger: Arc<Ledger>,
    id: PoolId,
}

impl PageSource for WatchedSource {
    fn page_size(&self) -> u64 {
        self.source.page_size()
    }

    fn alloc(&self, len: u64, flags: Flags) -> Result<Pages, PageError> {
        let pages = self.source.alloc(len, flags)?;
        self.ledger.page_added(self.id, pages);
        Ok(pages)
    }

    fn alloc_highest(&self, len: u64, flags: Flags) -> Result<Pages, PageError> {
        let pages = self.source.alloc_highest(len, flags)?;
        self.ledger.page_added(self.id, pages);
        Ok(pages)
    }

    fn free(&self, pages: Pages) {
        self.ledger.page_removed(pages);
        self.source.free(pages);
    }

    fn has_record(&self) -> bool {
        self.source.has_record()
    }
}

impl DmaPool {
    /// Creates a pool by `policy` (`dma_pool_create`).
    ///
    /// # Errors
    /// [`CreateError`] with the operand that is wrong.
    pub fn create(
        name: &str,
        policy: &Policy,
        geometry: Geometry,
        memory: &Arc<Memory>,
        source: &Arc<dyn PageSource>,
        ledger: &Arc<Ledger>,
    ) -> Result<Self, CreateError> {
        let id = ledger.pool_created(name, policy, geometry);
        let source: Arc<dyn PageSource> =
            Arc::new(WatchedSource { source: Arc::clone(source), ledger: Arc::clone(ledger), id });
        let pool = (policy.create)(Arc::clone(memory), source, geometry).inspect_err(|error| {
            if let CreateError::Crashed(words) = error {
                ledger.broke(id, Promise::Sound, Block::default(), words.clone());
            }
            ledger.pool_gone(id, 0, &[]);
        })?;
        let (memory, ledger) = (Arc::clone(memory), Arc::clone(ledger));
        let (failures, neighbours) = (None, Neighbours::default());
        Ok(Self { name: name.to_owned(), geometry, memory, ledger, id, pool, failures, neighbours })
    }

    /// The same whose allocations fail when `failures` says so.
    #[must_use]
    pub fn failing(mut self, failures: Arc<AllocFailures>) -> Self {
        self.failures = Some(failures);
        self
    }

    /// The same as others left it who share it with the driver: blocks were handed out and freed by `seed`, and some stay in
    /// use until the pool is destroyed.
    ///
    /// # Errors
    /// As [`Pool::alloc`]. What was handed out is given back then.
    pub fn aged(mut self, seed: u64) -> Result<Self, AllocError> {
        self.neighbours = Neighbours::settle(&self, &self.ledger, seed)?;
        self.ledger.order_begins(self.id);
        Ok(self)
    }

    /// Its name, such as `ci_hw_qh`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Hands out a block (`dma_pool_alloc`). What the pool breaks of its promises becomes a finding.
    ///
    /// # Errors
    /// As [`Pool::alloc`].
    pub fn alloc(&self, flags: Flags) -> Result<Block, AllocError> {
        if let Some(failures) = &self.failures {
            failures.asked(flags)?;
        }
        let result = self.pool.alloc(flags).inspect_err(|error| self.judge_error(error));
        self.heed(result.as_ref().map_or(Block::default(), |&block| block));
        let block = result?;
        // Before it counts as handed out: whoever writes to it until then writes to a free block.
        let dirty = if flags.zero { self.first_nonzero(block) } else { None };
        self.ledger.handed_out(self.id, block, dirty);
        Ok(block)
    }

    /// Takes a block back (`dma_pool_free`). A wrong free is a finding, and goes on to the pool all the same.
    ///
    /// # Errors
    /// As [`Pool::free`]: what the policy itself notices.
    pub fn free(&self, block: Block) -> Result<(), FreeError> {
        let right = self.ledger.freed(self.id, block);
        let result = self.pool.free(block).inspect_err(|error| match error {
            // After a wrong free it is the caller's doing.
            FreeError::Crashed(words) if right => self.ledger.broke(self.id, Promise::Sound, block, words.clone()),
            _ if right => {
                self.ledger.broke(self.id, Promise::NoLeak, block, format!("it did not take it back: {error}"));
            }
            _ => {}
        });
        self.heed(block);
        result
    }

    /// Passes on what the pool has to say beside its answers, about `block`.
    fn heed(&self, block: Block) {
        for remark in self.pool.remarks() {
            match remark {
                Remark::Printed { text, .. } => self.ledger.printed(text),
                Remark::Broke { promise, seen } => self.ledger.broke(self.id, promise, block, seen),
            }
        }
    }

    /// A list that leads out of memory was the pool's to keep, unless others wrote to it.
    fn judge_error(&self, error: &AllocError) {
        let (promise, cpu) = match *error {
            AllocError::DamagedList { link, .. } => (Promise::OwnPages, link),
            AllocError::Crashed { at, .. } => (Promise::Sound, at),
            AllocError::Page(_) | AllocError::Other(_) => return,
        };
        let block = Block { cpu, dma: self.memory.dma(cpu).unwrap_or_default() };
        self.ledger.broke(self.id, promise, block, error.to_string());
    }

    /// Destroys the pool (`dma_pool_destroy`).
    ///
    /// # Errors
    /// [`DestroyError::Busy`] with the owners by name.
    pub fn destroy(&self) -> Result<(), DestroyError> {
        self.neighbours.leave(self);
        let (held, owners) = self.ledger.holders(self.id);
        self.ledger.pool_ending(self.id);
        // What a pool counts and what is held differ after a wrong free.
        let result = self.pool.destroy();
        self.heed(Block::default());
        match result {
            Err(DestroyError::Busy { live, owners: own }) => {
                self.ledger.pool_stays(self.id);
                if held == 0 {
                    self.ledger.lost_count(self.id, live);
                }
                return Err(DestroyError::Busy { live, owners: if owners.is_empty() { own } else { owners } });
            }
            Err(DestroyError::Crashed(words)) => {
                self.ledger.broke(self.id, Promise::Sound, Block::default(), words.clone());
                self.ledger.pool_stays(self.id);
                return Err(DestroyError::Crashed(words));
            }
            Ok(()) => {}
        }
        self.ledger.pool_gone(self.id, held, &owners);
        // A pool that does not count leaves it to the ledger.
        if held > 0 { Err(DestroyError::Busy { live: held, owners }) } else { Ok(()) }
    }

    /// Pages that it holds.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pool.pages()
    }

    fn first_nonzero(&self, block: Block) -> Option<u64> {
        const ZERO: [u8; 256] = [0; 256];
        let mut bytes = ZERO;
        let mut done = 0;
        while done < self.geometry.size {
            let part = &mut bytes[..(self.geometry.size - done).min(256) as usize];
            self.memory.read(block.cpu.offset(done), part).ok()?;
            if part != &ZERO[..part.len()] {
                return Some(done + part.iter().position(|&byte| byte != 0)? as u64);
            }
            done += part.len() as u64;
        }
        None
    }
}

impl fmt::Debug for DmaPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DmaPool")
            .field("name", &self.name)
            .field("geometry", &self.geometry)
            .field("pages", &self.pool.pages())
            .finish_non_exhaustive()
    }
}
