//! What pools and drivers do with blocks and pages.

use bus::DmaAddr;

use super::leaks::name;
use super::owned::whose;
use super::pool_page::PoolPage;
use super::{Ledger, PoolRecord, PoolState, State};
use crate::finding::{Finding, Promise};
use crate::page::Pages;
use crate::policy::Policy;
use crate::pool::{Block, Geometry};

/// First allocations of a pool that are remembered for its order: enough for a table that spans two pages.
const REMEMBERED: usize = 128;

/// A pool's number in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolId(pub(super) usize);

impl PoolId {
    /// The number, which tells pools of one ledger apart.
    pub(crate) const fn number(self) -> usize {
        self.0
    }
}

impl Ledger {
    pub(crate) fn pool_created(&self, name: &str, policy: &Policy, geometry: Geometry) -> PoolId {
        let mut state = self.state.lock();
        let mut record = PoolRecord::new(name, policy.metadata, policy.loses_last, policy.smallest, geometry);
        let empty = |pool: &PoolRecord| pool.pages == 0 && pool.strays.is_empty();
        let reusable = |pool: &PoolRecord| pool.state == PoolState::Gone && empty(pool) && pool.name == name;
        match state.pools.iter().position(reusable) {
            Some(id) => {
                record.accesses = state.pools[id].accesses;
                state.pools[id] = record;
                PoolId(id)
            }
            None => {
                state.pools.push(record);
                PoolId(state.pools.len() - 1)
            }
        }
    }

    /// Forgets what the pool handed out so far: its order is that of what follows.
    pub(crate) fn order_begins(&self, id: PoolId) {
        self.state.lock().pools[id.0].first.clear();
    }

    /// Records that the pool is being destroyed: pages that go take their blocks with them.
    pub(crate) fn pool_ending(&self, id: PoolId) {
        self.state.lock().pools[id.0].state = PoolState::Ending;
    }

    /// Records that the pool was not destroyed after all.
    pub(crate) fn pool_stays(&self, id: PoolId) {
        self.state.lock().pools[id.0].state = PoolState::InUse;
    }

    /// Records that the pool is no more; `held` blocks of it were in use until then, `owners` by name.
    pub(crate) fn pool_gone(&self, id: PoolId, held: usize, owners: &[String]) {
        let mut state = self.state.lock();
        state.lose_blocks(id, held, owners);
        let pool = &mut state.pools[id.0];
        pool.state = PoolState::Gone;
        pool.in_use_at_end = held > 0;
    }

    pub(crate) fn page_added(&self, id: PoolId, pages: Pages) {
        let mut state = self.state.lock();
        let pool = &mut state.pools[id.0];
        pool.pages += 1;
        // Usually a block begins at a multiple of the largest power of two that divides the distance between blocks.
        let page = PoolPage::new(id.0, pages, pool.distance & pool.distance.wrapping_neg());
        state.map.add_pool_page(page);
    }

    pub(crate) fn page_removed(&self, pages: Pages) {
        let mut state = self.state.lock();
        let Some(page) = state.map.remove_pool_page(pages.dma) else { return };
        let pool = &mut state.pools[page.pool];
        pool.pages = pool.pages.saturating_sub(1);
        let live = page.blocks().iter().find(|block| block.is_live());
        if let Some(live) = live.filter(|_| pool.state == PoolState::InUse) {
            let block =
                Block { cpu: self.memory.cpu(DmaAddr(live.start)).unwrap_or_default(), dma: DmaAddr(live.start) };
            let seen = format!("the page at {} was given back, and {} is in use", pages.dma, block.dma);
            let finding = pool.broken(Promise::OwnPages, block, seen);
            state.findings.push(finding);
        }
    }

    /// Records that the pool handed out `block`, and holds it against what dma_pool promises; `dirty` is the offset of a
    /// byte that should be zero and is not.
    pub(crate) fn handed_out(&self, id: PoolId, block: Block, dirty: Option<u64>) {
        let mut state = self.state.lock();
        state.counts.allocations += 1;
        let State { map, pools, .. } = &mut *state;
        let pool = &mut pools[id.0];
        pool.allocations += 1;
        if pool.first.len() < REMEMBERED {
            pool.first.push(block.dma);
        }
        let (size, align, boundary) = (pool.size, pool.align, pool.boundary);
        let page = map.pool_page_mut(block.dma.0);
        let Some(page) = page.filter(|page| page.pool == id.0 && page.holds(block.dma.0, size)) else {
            pool.strays.insert(block.dma.0);
            let whose = whose(map, pools, self.memory.dma(block.cpu));
            let seen =
                format!("{} and {size} bytes are not in a page of this pool; {} is {whose}", block.dma, block.cpu);
            let finding = pools[id.0].broken(Promise::OwnPages, block, seen);
            state.misled(id, block);
            state.findings.push(finding);
            return;
        };
        let mut findings = Vec::new();
        // An observed machine's memory is not here: there the first block of a page says where the page is.
        let cpu = self.memory.cpu(block.dma).unwrap_or_else(|| page.cpu_of(block.dma.0));
        if let Some(other) = page.hand_out(block, size) {
            let holder = other.owner.map_or_else(|| "no one named".to_owned(), |owner| owner.to_string());
            let seen = format!("{} overlaps the live block at {:#x} ({holder})", block.dma, other.start);
            findings.push(pool.broken(Promise::NoOverlap, block, seen));
        }
        if cpu != block.cpu {
            let seen = format!("{} and {} are not the same memory", block.cpu, block.dma);
            findings.push(pool.broken(Promise::SameMemory, block, seen));
        }
        if !block.dma.0.is_multiple_of(align) {
            let seen = format!("{} is not aligned to {align} bytes", block.dma);
            findings.push(pool.broken(Promise::Alignment, block, seen));
        }
        if boundary != 0 && block.dma.0 / boundary != (block.dma.0 + (size - 1)) / boundary {
            let seen = format!("{} and {size} bytes cross a multiple of {boundary}", block.dma);
            findings.push(pool.broken(Promise::Boundary, block, seen));
        }
        // What others wrote into it while it was free is found already, and not the pool's.
        if let Some(offset) = dirty.filter(|offset| !pool.dirt.covers(block.dma.0 + offset)) {
            let seen = format!("byte {offset} of {} is not zero", block.dma);
            findings.push(pool.broken(Promise::Zeroing, block, seen));
        }
        pool.dirt.clear(block.dma.0, size);
        findings.into_iter().for_each(|finding| state.findings.push(finding));
    }

    /// Records that the pool breaks a promise with `block`.
    pub(crate) fn broke(&self, id: PoolId, promise: Promise, block: Block, seen: String) {
        let mut state = self.state.lock();
        let finding = state.pools[id.0].broken(promise, block, seen);
        state.findings.push(finding);
    }

    /// Records that the driver frees `block`. Returns `false` for a wrong free, which is a finding.
    pub(crate) fn freed(&self, id: PoolId, block: Block) -> bool {
        let mut state = self.state.lock();
        let State { map, pools, .. } = &mut *state;
        let pool = &mut pools[id.0];
        if pool.strays.remove(&block.dma.0) {
            return true;
        }
        let seen = match map.pool_page_mut(block.dma.0) {
            Some(page) if page.pool == id.0 => match page.beginning_at(block.dma.0) {
                Some(record) if record.is_live() => {
                    if record.cpu == block.cpu {
                        record.holders -= 1;
                        return true;
                    }
                    format!("it was handed out as {} / {}", record.cpu, block.dma)
                }
                Some(_) => "it is free already".to_owned(),
                None => match page.block(block.dma.0) {
                    Some(around) if around.is_live() && around.contains(block.dma.0) => {
                        format!("it lies inside the block at {:#x}", around.start)
                    }
                    _ => "no block begins there".to_owned(),
                },
            },
            _ => "it lies in no page of this pool".to_owned(),
        };
        pool.misused = true;
        let pool = pool.name.clone();
        // A pool that links free blocks writes its links there, whosever memory it is.
        for at in [Some(block.dma), self.memory.dma(block.cpu)].into_iter().flatten() {
            if let Some(hit) = map.pool_page(at.0) {
                pools[hit.pool].misused = true;
            }
        }
        state.findings.push(Finding::WrongFree { pool, block, seen });
        false
    }

    /// Who holds blocks of a pool, for the error of a destroy.
    pub(crate) fn holders(&self, id: PoolId) -> (usize, Vec<String>) {
        const NAMED: usize = 8;
        let state = self.state.lock();
        let held = state.held(id);
        let mut names: Vec<_> = held.iter().take(NAMED).map(|&(start, owner)| name(owner, "block", start)).collect();
        if held.len() > NAMED {
            names.push(format!("{} more", held.len() - NAMED));
        }
        (held.len(), names)
    }
}

impl State {
    /// A pool was led to an address outside of its pages. If others led it there, then what it writes into another pool's
    /// page (zeroes, links) is theirs as well.
    fn misled(&mut self, id: PoolId, block: Block) {
        let Self { map, pools, .. } = self;
        let Some(other) = map.pool_page(block.dma.0).map(|page| page.pool).filter(|&other| other != id.0) else {
            return;
        };
        let pool = &pools[id.0];
        let damage =
            pool.damages.first().map(|damage| format!("pool {} was led to {}: {damage}", pool.name, block.dma));
        let misused = pool.misused;
        let other = &mut pools[other];
        other.misused |= misused;
        if let Some(damage) = damage.filter(|_| other.damages.is_empty()) {
            other.damages.add(damage, &[], other.allocations);
        }
    }
}
