//! One machine: what a pool goes through in it.

mod others;
mod refused;

use std::fmt::Arguments;
use std::sync::Arc;

use bus::CpuAddr;

use super::Config;
use super::report::Report;
use super::source::Probe;
use crate::error::{AllocError, CreateError, DestroyError, FreeError};
use crate::finding::{Finding, Promise};
use crate::ledger::Ledger;
use crate::memory::Memory;
use crate::page::{PageSource, split_mix};
use crate::policy::Policy;
use crate::pool::{Block, Flags, Geometry};
use crate::watched::DmaPool;

/// Blocks that a random run holds at most.
const MOST_HELD: usize = 48;
/// Pools that share a source.
const POOLS: u64 = 6;
/// Blocks of a page beyond which the source's failure is tried at the first page only, and one destroy in use.
const MANY_BLOCKS: u64 = 128;
/// Records of a pool that fail, one at a time.
const MOST_RECORDS: u32 = 16;
/// Blocks that are held at most before all but one are freed.
const SOME_BLOCKS: u64 = 16;
/// A freed block's contents.
const DIRT: u8 = 0xa5;

pub(super) struct Exercise<'a> {
    policy: &'a Policy,
    config: &'a Config,
    geometries: Vec<Geometry>,
    report: &'a mut Report,
    memory: &'a Arc<Memory>,
    probe: Arc<Probe>,
    source: Arc<dyn PageSource>,
    machine: String,
    random: u64,
    /// Whether the pool asks for kernel memory, as far as is known.
    asks_for_records: bool,
}

/// A pool and what is held of it.
struct Held {
    pool: Arc<DmaPool>,
    ledger: Arc<Ledger>,
    geometry: Geometry,
    blocks: Vec<(Block, u8)>,
}

/// Head and tail of a block, by which it is known again, or the whole of a small one.
fn parts(geometry: Geometry, block: Block) -> impl Iterator<Item = (CpuAddr, usize)> {
    let len = geometry.size.min(32);
    let tail = geometry.size - len;
    let offsets = std::iter::once(0).chain((tail > 0).then_some(tail));
    offsets.map(move |offset| (block.cpu.offset(offset), len as usize))
}

fn stamp(memory: &Memory, geometry: Geometry, block: Block, tag: u8) {
    for (part, len) in parts(geometry, block) {
        // Where there is no memory the ledger has found the address already.
        let _ = memory.write(part, &[tag; 32][..len]);
    }
}

impl<'a> Exercise<'a> {
    pub(super) fn new(
        policy: &'a Policy,
        config: &'a Config,
        geometries: Vec<Geometry>,
        report: &'a mut Report,
        memory: &'a Arc<Memory>,
        probe: Arc<Probe>,
        machine: String,
    ) -> Self {
        let source: Arc<dyn PageSource> = Arc::clone(&probe) as _;
        Self {
            policy,
            config,
            geometries,
            report,
            memory,
            probe,
            source,
            machine,
            random: config.seed,
            asks_for_records: true,
        }
    }

    pub(super) fn all(&mut self) {
        self.wrong_geometries();
        for geometry in self.geometries.clone() {
            self.random_run(geometry);
            self.failing_source(geometry);
            self.failing_records(geometry);
            self.while_fetching(geometry);
        }
        self.many_pools();
        // Last: they may leave pages behind.
        self.geometries.clone().into_iter().for_each(|geometry| self.refused_frees(geometry));
        self.destroy_in_use();
    }

    fn random(&mut self, below: u64) -> u64 {
        split_mix(&mut self.random) % below.max(1)
    }

    fn violated(&mut self, promise: Promise, doing: Arguments<'_>, seen: String) {
        let finding = Finding::PoolContract { pool: self.policy.name.clone().into_owned(), promise, seen };
        self.report.violated(promise, finding, &format!("{}, {doing}", self.machine));
    }

    /// Holds a promise against what was seen.
    fn expect(&mut self, promise: Promise, kept: bool, doing: Arguments<'_>, seen: impl FnOnce() -> String) {
        self.report.count(promise, 1);
        if !kept {
            self.violated(promise, doing, seen());
        }
    }

    fn create(&self, geometry: Geometry, ledger: &Arc<Ledger>) -> Result<Held, CreateError> {
        let name = &self.policy.name;
        let pool = DmaPool::create(name, self.policy, geometry, self.memory, &self.source, ledger)?;
        Ok(Held { pool: Arc::new(pool), ledger: Arc::clone(ledger), geometry, blocks: Vec::new() })
    }

    /// A pool for a geometry that can be kept.
    fn create_good(&mut self, geometry: Geometry, ledger: &Arc<Ledger>) -> Option<Held> {
        self.report.count(Promise::Geometry, 1);
        match self.create(geometry, ledger) {
            Ok(held) => Some(held),
            Err(error) => {
                self.violated(
                    Promise::Geometry,
                    format_args!("creating"),
                    format!("{geometry:?} was refused: {error}"),
                );
                None
            }
        }
    }

    /// Takes over what the ledger found.
    fn collect(&mut self, ledger: &Ledger, doing: Arguments<'_>) {
        for finding in ledger.findings() {
            // Nobody else writes to the memory of this machine: there is no other blame.
            if let Finding::PoolContract { promise, .. } = finding {
                self.report.violated(promise, finding, &format!("{}, {doing}", self.machine));
            }
        }
    }

    /// Allocates, and judges what came of it.
    fn alloc(&mut self, held: &mut Held, flags: Flags, doing: Arguments<'_>) -> Option<Block> {
        let pages = held.pool.pages();
        let out = self.probe.begin(flags);
        let result = held.pool.alloc(flags);
        let seen = self.probe.seen();
        self.report.count(Promise::Sound, 1);
        if !flags.may_sleep {
            self.expect(Promise::NoSleep, seen.slept.is_none(), doing, || {
                format!("an atomic allocation asked for {} bytes with leave to sleep", seen.slept.unwrap_or_default())
            });
        }
        if held.ledger.findings_total() > 0 {
            self.collect(&held.ledger, doing);
        }
        match result {
            Ok(block) => {
                [Promise::NoOverlap, Promise::Alignment, Promise::Boundary, Promise::OwnPages, Promise::SameMemory]
                    .into_iter()
                    .for_each(|promise| self.report.count(promise, 1));
                self.report.count(Promise::Zeroing, flags.zero.into());
                let tag = (self.random(250) + 1) as u8;
                stamp(self.memory, held.geometry, block, tag);
                held.blocks.push((block, tag));
                Some(block)
            }
            Err(AllocError::Crashed { .. }) => None,
            Err(error) => {
                let after = (held.pool.pages(), self.probe.out());
                self.expect(Promise::Unwind, after == (pages, out), doing, || {
                    let (now, now_out) = after;
                    format!("a failed allocation left {now} pages in the pool and {now_out} taken from the source; before there were {pages} and {out}")
                });
                let excused = seen.failed && matches!(error, AllocError::Page(_) | AllocError::Other(_));
                self.expect(Promise::Unwind, excused, doing, || {
                    format!("no block, though the source gave pages: {error}")
                });
                None
            }
        }
    }

    /// Frees a block, after a look at it and with dirt in it.
    fn free(&mut self, held: &mut Held, index: usize, doing: Arguments<'_>) {
        let (block, tag) = held.blocks.swap_remove(index);
        for (part, len) in parts(held.geometry, block) {
            let mut bytes = [tag; 32];
            let intact = self.memory.read(part, &mut bytes[..len]).is_err() || bytes == [tag; 32];
            self.expect(Promise::NoOverlap, intact, doing, || {
                format!("the live block at {} was written by another", block.dma)
            });
        }
        let _ = self.memory.fill(block.cpu, held.geometry.size, DIRT);
        let result = held.pool.free(block);
        self.report.count(Promise::Sound, 1);
        if matches!(result, Err(FreeError::Crashed(_))) {
            return self.collect(&held.ledger, doing);
        }
        self.expect(Promise::NoLeak, result.is_ok(), doing, || {
            format!("{} / {} was not taken back: {:?}", block.cpu, block.dma, result.err())
        });
    }

    fn free_all(&mut self, held: &mut Held, doing: Arguments<'_>) {
        while !held.blocks.is_empty() {
            let index = self.random(held.blocks.len() as u64) as usize;
            self.free(held, index, doing);
        }
    }

    /// Destroys an idle pool; afterwards the source has `free_pages` again.
    fn destroy(&mut self, held: Held, free_pages: Option<usize>, doing: Arguments<'_>) {
        let result = held.pool.destroy();
        self.expect(Promise::NoLeak, result.is_ok(), doing, || {
            format!("an idle pool was not destroyed: {}", result.err().map_or_else(String::new, |e| e.to_string()))
        });
        if let Some(before) = free_pages {
            let (after, wrong) = (self.probe.free_pages(), self.probe.wrong_frees());
            self.expect(Promise::NoLeak, after == before, doing, || {
                format!("{after} pages are free after the pool's end, {before} were before it")
            });
            self.expect(Promise::OwnPages, wrong == 0, doing, || {
                format!("{wrong} pages were given back that the pool did not have")
            });
        }
    }

    fn flags(&mut self) -> Flags {
        let random = self.random(4);
        Flags { zero: random & 1 != 0, may_sleep: random & 2 != 0 }
    }

    fn wrong_geometries(&mut self) {
        let ledger = Ledger::new(Arc::clone(self.memory));
        let before = self.probe.free_pages();
        for (size, align, boundary) in [
            (0, 0, 0),
            (0, 64, 4096),
            (64, 3, 0),
            (64, 48, 0),
            (64, 64, 96),
            (64, 64, 5000),
            (64, 64, 32),
            (100, 64, 64),
        ] {
            let geometry = Geometry { size, align, boundary };
            let taken = self.create(geometry, &ledger).is_ok();
            let free = self.probe.free_pages();
            self.expect(Promise::Geometry, !taken, format_args!("creating"), || format!("{geometry:?} was taken"));
            self.expect(Promise::NoLeak, free == before, format_args!("creating"), || {
                format!("{before} pages were free before, {free} after {geometry:?} was refused")
            });
        }
    }

    /// Allocations and frees at random, with a source that fails now and then.
    fn random_run(&mut self, geometry: Geometry) {
        let ledger = Ledger::new(Arc::clone(self.memory));
        let before = self.probe.free_pages();
        let Some(mut held) = self.create_good(geometry, &ledger) else { return };
        for step in 0..self.config.steps {
            let doing = format_args!("{geometry:?}, random step {step}");
            if self.random(8) == 0 {
                self.probe.fail_after(0);
            } else {
                self.probe.work();
            }
            let growing = if step < self.config.steps / 2 { 3 } else { 2 };
            if held.blocks.is_empty() || (held.blocks.len() < MOST_HELD && self.random(5) < growing) {
                let flags = self.flags();
                self.alloc(&mut held, flags, doing);
            } else {
                let index = self.random(held.blocks.len() as u64) as usize;
                self.free(&mut held, index, doing);
            }
        }
        self.probe.work();
        let doing = format_args!("{geometry:?}, after random steps");
        self.free_all(&mut held, doing);
        self.destroy(held, Some(before), doing);
        self.collect(&ledger, doing);
    }

    /// The source fails at the n-th page: all that was there is there afterwards.
    fn failing_source(&mut self, geometry: Geometry) {
        let ledger = Ledger::new(Arc::clone(self.memory));
        let before = self.probe.free_pages();
        let blocks = self.source.page_size() / geometry.size.max(1) + 1;
        let pages = if blocks > MANY_BLOCKS { 1 } else { 3 };
        for n in 0..pages {
            let doing = format_args!("{geometry:?}, the source fails at page {n}");
            let Some(mut held) = self.create_good(geometry, &ledger) else { return };
            self.probe.fail_after(n);
            let most = blocks * u64::from(n) + 1;
            let mut flags = self.flags();
            while (held.blocks.len() as u64) < most && self.alloc(&mut held, flags, doing).is_some() {
                flags = self.flags();
            }
            let (had, pages_had) = (held.blocks.len(), held.pool.pages());
            self.alloc(&mut held, Flags::ATOMIC, doing);
            self.free_all(&mut held, doing);
            // A pool may give pages back when their blocks are free; those that it keeps must have kept their blocks.
            let kept_pages = held.pool.pages() >= pages_had;
            self.probe.fail_after(0);
            while held.blocks.len() < had && self.alloc(&mut held, Flags::KERNEL.zeroed(), doing).is_some() {}
            let has = held.blocks.len();
            self.expect(Promise::Unwind, has >= had || !kept_pages, doing, || {
                format!("the pool had {had} blocks before the source failed, and {has} afterwards")
            });
            self.probe.work();
            let again = self.alloc(&mut held, Flags::KERNEL, doing).is_some();
            self.expect(Promise::Unwind, again, doing, || "no block once the source had pages again".to_owned());
            self.free_all(&mut held, doing);
            self.destroy(held, Some(before), doing);
        }
        self.collect(&ledger, format_args!("{geometry:?}, a failing source"));
    }

    /// Kernel memory fails for the n-th record of a pool's own, from its creation to its second page: nothing is left behind,
    /// and the pool goes on. Ends where there is no n-th one.
    fn failing_records(&mut self, geometry: Geometry) {
        if !self.asks_for_records {
            return;
        }
        let ledger = Ledger::new(Arc::clone(self.memory));
        let before = self.probe.free_pages();
        let blocks = (self.source.page_size() / geometry.size.max(1) + 1).min(MANY_BLOCKS);
        for n in 0..MOST_RECORDS {
            let doing = format_args!("{geometry:?}, kernel memory fails for record {n}");
            self.probe.refuse_record(n);
            // Refused without a reason, it is found elsewhere.
            if let Ok(mut held) = self.create(geometry, &ledger) {
                // A pool may take a page for each block.
                let more = |held: &Held| (held.blocks.len() as u64) < blocks && held.pool.pages() < 3;
                while more(&held) && !self.probe.has_refused_record() {
                    if self.alloc(&mut held, Flags::ATOMIC, doing).is_none() {
                        break;
                    }
                }
                self.probe.work();
                let again = self.alloc(&mut held, Flags::ATOMIC.zeroed(), doing).is_some();
                self.expect(Promise::Unwind, again, doing, || "no block once there was memory again".to_owned());
                self.free_all(&mut held, doing);
                self.destroy(held, Some(before), doing);
            }
            self.probe.work();
            if !self.probe.has_refused_record() {
                self.asks_for_records = n > 0;
                break;
            }
        }
        self.collect(&ledger, format_args!("{geometry:?}, without kernel memory"));
    }

    /// Pools on one source that come, work and go around each other.
    fn many_pools(&mut self) {
        let ledger = Ledger::new(Arc::clone(self.memory));
        let before = self.probe.free_pages();
        let geometries = self.geometries.clone();
        if geometries.is_empty() {
            return;
        }
        let mut pools: Vec<Held> = Vec::new();
        for step in 0..self.config.steps * 2 {
            let doing = format_args!("several pools, step {step}");
            let one = self.random(pools.len() as u64) as usize;
            match self.random(16) {
                0 | 1 if (pools.len() as u64) < POOLS => {
                    let geometry = geometries[self.random(geometries.len() as u64) as usize];
                    pools.extend(self.create_good(geometry, &ledger));
                }
                2 if !pools.is_empty() => {
                    let mut held = pools.swap_remove(one);
                    self.free_all(&mut held, doing);
                    self.destroy(held, None, doing);
                }
                choice if !pools.is_empty() => {
                    let held = &mut pools[one];
                    if choice < 10 && held.blocks.len() < MOST_HELD / 4 {
                        let flags = self.flags();
                        self.alloc(held, flags, doing);
                    } else if !held.blocks.is_empty() {
                        let index = self.random(held.blocks.len() as u64) as usize;
                        self.free(held, index, doing);
                    }
                }
                _ => {}
            }
        }
        let doing = format_args!("several pools, destroyed in any order");
        while !pools.is_empty() {
            let one = self.random(pools.len() as u64) as usize;
            let mut held = pools.swap_remove(one);
            self.free_all(&mut held, doing);
            let last = pools.is_empty().then_some(before);
            self.destroy(held, last, doing);
        }
        self.collect(&ledger, doing);
    }

    /// A destroy while blocks are held is refused, and the blocks stay: of one block, of a few, and of more than a page's
    /// all but one freed.
    fn destroy_in_use(&mut self) {
        for geometry in self.geometries.clone() {
            let a_page = self.source.page_size() / geometry.size.max(1);
            let more = a_page.min(SOME_BLOCKS) as usize + 2;
            let cases = [(more, 1), (1, 1), (3, 3)];
            let tried = if a_page > MANY_BLOCKS { 1 } else { cases.len() };
            for &(allocated, left) in &cases[..tried] {
                self.destroy_with(geometry, allocated, left);
            }
        }
    }

    /// A pool that handed out `allocated` blocks is destroyed when `left` of them are held.
    fn destroy_with(&mut self, geometry: Geometry, allocated: usize, left: usize) {
        let ledger = Ledger::new(Arc::clone(self.memory));
        let Some(mut held) = self.create_good(geometry, &ledger) else { return };
        let doing = format_args!("{geometry:?}, destroyed with {left} of {allocated} blocks in use");
        for _ in 0..allocated {
            self.alloc(&mut held, Flags::KERNEL, doing);
        }
        while held.blocks.len() > left {
            let index = self.random(held.blocks.len() as u64) as usize;
            self.free(&mut held, index, doing);
        }
        if held.blocks.is_empty() {
            return;
        }
        let result = held.pool.destroy();
        self.expect(Promise::Busy, matches!(result, Err(DestroyError::Busy { .. })), doing, || {
            format!("{} blocks were in use, and destroy said {result:?}", held.blocks.len())
        });
        for &(block, _) in &held.blocks {
            let out = self.probe.is_out(block.dma);
            self.expect(Promise::Busy, out, doing, || format!("the page of the live {} was given back", block.dma));
        }
    }

    /// A pool hands out many blocks of many pages, takes them back, and hands out as many without asking for more.
    pub(super) fn large_pool(&mut self, geometry: Geometry, blocks: usize) {
        let ledger = Ledger::new(Arc::clone(self.memory));
        let before = self.probe.free_pages();
        let Some(mut held) = self.create_good(geometry, &ledger) else { return };
        let doing = format_args!("{geometry:?}, {blocks} blocks");
        let mut least = before;
        for _ in 0..2 {
            while held.blocks.len() < blocks && self.alloc(&mut held, Flags::ATOMIC, doing).is_some() {}
            let free = self.probe.free_pages();
            let again = least == before || free >= least;
            self.expect(Promise::NoLeak, again, doing, || {
                format!("{least} pages were free with every block in use, {free} when they were handed out again")
            });
            least = free;
            self.free_all(&mut held, doing);
        }
        self.destroy(held, Some(before), doing);
        self.collect(&ledger, doing);
    }
}
