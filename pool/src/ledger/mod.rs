//! The ledger: every block and mapping, who owns it, and what a device did to it.
//!
//! It wraps any pool from outside and never looks into one. Every query is O(1) by page; only a finding costs more.

mod judge;
mod layout;
mod map;
mod order;
mod place;
mod pool_page;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bus::{Access, DmaAddr, LayoutContract, Owner, Watch};
use parking_lot::Mutex;

use crate::api::Direction;
use crate::finding::{BlockState, Finding, Promise};
use crate::memory::Memory;
use crate::page::Pages;
use crate::policy::Policy;
use crate::pool::{Block, Geometry, Metadata};

use map::Map;
use pool_page::PoolPage;

pub use order::AddressOrder;
pub use place::Place;

/// Findings that are kept; more are counted only.
const MOST_FINDINGS: usize = 64;
/// First allocations of a pool that are remembered for its order.
const REMEMBERED: usize = 64;

/// How much a ledger has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Blocks that pools handed out.
    pub allocations: u64,
    /// Accesses of devices that were judged.
    pub accesses: u64,
}

/// Everything that is allocated or mapped, and what was wrong.
pub struct Ledger {
    memory: Arc<Memory>,
    state: Mutex<State>,
}

struct State {
    map: Map,
    pools: Vec<PoolRecord>,
    findings: Vec<Finding>,
    uncounted: u64,
    counts: Counts,
}

struct PoolRecord {
    name: String,
    metadata: Metadata,
    size: u64,
    align: u64,
    boundary: u64,
    /// From one block to the next, if blocks lie as dma_pool lays them out.
    distance: u64,
    first: Vec<DmaAddr>,
    /// Blocks in use that lie in no page of the pool.
    strays: BTreeSet<u64>,
    pages: usize,
    state: PoolState,
    /// A device rewrote the pool's own data.
    damaged: bool,
    /// The driver freed what was not its to free.
    misused: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PoolState {
    InUse,
    /// Its pages may go, whoever holds blocks in them.
    Ending,
    /// The record may be used again.
    Gone,
}

/// A pool's number in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolId(usize);

impl Ledger {
    /// An empty ledger over `memory`.
    #[must_use]
    pub fn new(memory: Arc<Memory>) -> Arc<Self> {
        let map = Map::new(memory.spans());
        let state = State { map, pools: Vec::new(), findings: Vec::new(), uncounted: 0, counts: Counts::default() };
        Arc::new(Self { memory, state: Mutex::new(state) })
    }

    /// What was found so far, in order; of a flood only its beginning.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        self.state.lock().findings.clone()
    }

    /// How many findings there were in all.
    #[must_use]
    pub fn findings_total(&self) -> u64 {
        let state = self.state.lock();
        state.findings.len() as u64 + state.uncounted
    }

    /// How much was seen.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state.lock().counts
    }

    /// Blocks of pools in use, with their pool's name and the driver's claim.
    #[must_use]
    pub fn live_blocks(&self) -> Vec<(String, DmaAddr, Option<Owner>)> {
        let state = self.state.lock();
        let mut live: Vec<_> = state
            .map
            .pool_pages()
            .flat_map(|page| page.blocks().iter().map(move |block| (page.pool, block)))
            .filter(|(_, block)| block.is_live())
            .map(|(pool, block)| (state.pools[pool].name.clone(), DmaAddr(block.start), block.owner))
            .collect();
        live.sort_by_key(|&(_, addr, _)| addr);
        live
    }

    /// Mappings in use: address and length.
    #[must_use]
    pub fn live_mappings(&self) -> Vec<(DmaAddr, u64)> {
        let mut live: Vec<_> = self.state.lock().map.mappings().map(|m| (DmaAddr(m.start), m.len)).collect();
        live.sort_unstable();
        live
    }

    /// The order of the first blocks that the pool called `name` handed out.
    #[must_use]
    pub fn order(&self, name: &str) -> Option<AddressOrder> {
        let state = self.state.lock();
        let mut named = state.pools.iter().filter(|pool| pool.name == name);
        let pool = named.clone().find(|pool| pool.state != PoolState::Gone).or_else(|| named.next())?;
        Some(AddressOrder::of(&pool.first))
    }

    /// The driver's claim on the object that begins at or contains `addr`.
    #[must_use]
    pub fn owner_at(&self, addr: DmaAddr) -> Option<Owner> {
        let state = self.state.lock();
        if let Some(page) = state.map.pool_page(addr.0) {
            return page.block(addr.0).filter(|block| block.is_live() && block.contains(addr.0))?.owner;
        }
        let mut claims = state.map.mappings_at(addr.0).flat_map(|mapping| &mapping.claims);
        claims.find(|&&(start, len, _)| addr.0.wrapping_sub(start) < len).map(|&(_, _, owner)| owner)
    }

    /// Records the driver's claim on `len` bytes at `addr`: a live block, or part of a mapping.
    ///
    /// Returns `false` if nothing is there to claim.
    pub fn claim(&self, addr: DmaAddr, len: u64, owner: Owner) -> bool {
        let mut state = self.state.lock();
        if let Some(page) = state.map.pool_page_mut(addr.0) {
            return match page.beginning_at(addr.0) {
                Some(block) if block.is_live() => {
                    block.owner = Some(owner);
                    true
                }
                _ => false,
            };
        }
        state.map.claim_mapping(addr.0, len, owner)
    }

    /// Records that a driver mapped memory for a device.
    pub fn mapped(&self, addr: DmaAddr, len: u64, direction: Direction) {
        self.state.lock().map.add_mapping(addr.0, len, direction);
    }

    /// Records that a driver ended a mapping. Returns `false` if none begins there.
    pub fn unmapped(&self, addr: DmaAddr) -> bool {
        self.state.lock().map.remove_mapping(addr.0).is_some()
    }

    /// Adds a finding.
    pub fn report(&self, finding: Finding) {
        self.state.lock().report(finding);
    }

    pub(crate) fn pool_created(&self, name: &str, policy: &Policy, geometry: Geometry) -> PoolId {
        let mut state = self.state.lock();
        let align = geometry.align.max(1);
        let distance = geometry.size.max(policy.smallest).max(1);
        let record = PoolRecord {
            name: name.to_owned(),
            metadata: policy.metadata,
            size: geometry.size.max(1),
            align,
            boundary: geometry.boundary,
            // Wrong geometries come here too, before the policy refuses them.
            distance: distance.checked_next_multiple_of(align).unwrap_or(distance),
            first: Vec::new(),
            strays: BTreeSet::new(),
            pages: 0,
            state: PoolState::InUse,
            damaged: false,
            misused: false,
        };
        let reusable = |pool: &PoolRecord| pool.state == PoolState::Gone && pool.pages == 0 && pool.name == name;
        match state.pools.iter().position(reusable) {
            Some(id) => {
                state.pools[id] = record;
                PoolId(id)
            }
            None => {
                state.pools.push(record);
                PoolId(state.pools.len() - 1)
            }
        }
    }

    /// Records that the pool is being destroyed: pages that go take their blocks with them.
    pub(crate) fn pool_ending(&self, id: PoolId) {
        self.state.lock().pools[id.0].state = PoolState::Ending;
    }

    /// Records that the pool was not destroyed after all.
    pub(crate) fn pool_stays(&self, id: PoolId) {
        self.state.lock().pools[id.0].state = PoolState::InUse;
    }

    /// Records that the pool is no more.
    pub(crate) fn pool_gone(&self, id: PoolId) {
        self.state.lock().pools[id.0].state = PoolState::Gone;
    }

    pub(crate) fn page_added(&self, id: PoolId, pages: Pages) {
        let mut state = self.state.lock();
        let pool = &mut state.pools[id.0];
        pool.pages += 1;
        // Usually a block begins at a multiple of the largest power of two that divides the distance between blocks.
        let page = PoolPage::new(id.0, pages.dma.0, pages.len, pool.distance & pool.distance.wrapping_neg());
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
            state.report(finding);
        }
    }

    /// Records that the pool handed out `block`, and holds it against what dma_pool promises.
    pub(crate) fn handed_out(&self, id: PoolId, block: Block) {
        let mut state = self.state.lock();
        state.counts.allocations += 1;
        let State { map, pools, .. } = &mut *state;
        let pool = &mut pools[id.0];
        if pool.first.len() < REMEMBERED {
            pool.first.push(block.dma);
        }
        let (size, align, boundary) = (pool.size, pool.align, pool.boundary);
        let page = map.pool_page_mut(block.dma.0);
        let Some(page) = page.filter(|page| page.pool == id.0 && page.holds(block.dma.0, size)) else {
            pool.strays.insert(block.dma.0);
            let seen = format!("{} and {size} bytes are not in a page of this pool", block.dma);
            let finding = pool.broken(Promise::OwnPages, block, seen);
            state.report(finding);
            return;
        };
        let mut findings = Vec::new();
        if let Some(other) = page.hand_out(block, size) {
            let holder = other.owner.map_or_else(|| "no one named".to_owned(), |owner| owner.to_string());
            let seen = format!("{} overlaps the live block at {:#x} ({holder})", block.dma, other.start);
            findings.push(pool.broken(Promise::NoOverlap, block, seen));
        }
        if self.memory.cpu(block.dma) != Some(block.cpu) {
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
        findings.into_iter().for_each(|finding| state.report(finding));
    }

    /// Records that the driver frees `block`; a wrong free is a finding.
    pub(crate) fn freed(&self, id: PoolId, block: Block) {
        let mut state = self.state.lock();
        let State { map, pools, .. } = &mut *state;
        let pool = &mut pools[id.0];
        if pool.strays.remove(&block.dma.0) {
            return;
        }
        let seen = match map.pool_page_mut(block.dma.0) {
            Some(page) if page.pool == id.0 => match page.beginning_at(block.dma.0) {
                Some(record) if record.is_live() => {
                    if record.cpu == block.cpu {
                        record.holders -= 1;
                        return;
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
        state.report(Finding::WrongFree { pool, block, seen });
    }

    /// Who holds blocks of a pool, for the error of a destroy.
    pub(crate) fn holders(&self, id: PoolId) -> (usize, Vec<String>) {
        const NAMED: usize = 8;
        let state = self.state.lock();
        let blocks = state.map.pool_pages().filter(|page| page.pool == id.0).flat_map(PoolPage::blocks);
        let live = blocks.filter(|block| block.is_live()).map(|block| (block.start, block.owner));
        let strays = state.pools[id.0].strays.iter().map(|&start| (start, None));
        let mut held: Vec<_> = live.chain(strays).collect();
        held.sort_by_key(|&(start, _)| start);
        let name = |&(start, owner): &(u64, Option<Owner>)| {
            owner.map_or_else(|| format!("an unnamed block at {start:#x}"), |owner| owner.to_string())
        };
        let mut names: Vec<_> = held.iter().take(NAMED).map(name).collect();
        if held.len() > NAMED {
            names.push(format!("{} more", held.len() - NAMED));
        }
        (held.len(), names)
    }

    fn is_zero(&self, addr: DmaAddr, len: u64) -> Option<bool> {
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        self.memory.read(self.memory.cpu(addr)?, &mut bytes).ok()?;
        Some(bytes.iter().all(|&byte| byte == 0))
    }
}

impl Watch for Ledger {
    fn access(&self, access: &Access) {
        let mut state = self.state.lock();
        state.counts.accesses += 1;
        if let Some((finding, damaged)) = state.judge(access) {
            if let Some(pool) = damaged {
                state.pools[pool].damaged = true;
            }
            state.report(finding);
        }
    }

    fn layout(&self, contract: &'static LayoutContract, written: DmaAddr, count: u32) {
        let mut state = self.state.lock();
        if let Some(mut finding) = state.compare(contract, written, count) {
            finding.was_zero = self.is_zero(finding.expected_at, contract.size);
            state.report(Finding::LayoutContract(Box::new(finding)));
        }
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Ledger")
            .field("counts", &state.counts)
            .field("findings", &state.findings)
            .finish_non_exhaustive()
    }
}

impl State {
    fn report(&mut self, finding: Finding) {
        if self.findings.len() < MOST_FINDINGS {
            self.findings.push(finding);
        } else {
            self.uncounted += 1;
        }
    }
}

impl PoolRecord {
    /// The finding for a broken promise: the pool's own fault only if nobody tampered with it before.
    fn broken(&self, promise: Promise, block: Block, seen: String) -> Finding {
        let pool = self.name.clone();
        let in_block = matches!(self.metadata, Metadata::InBlock(_));
        if self.misused {
            let seen = format!("it freed wrongly before, and now the pool breaks {promise:?}: {seen}");
            Finding::WrongFree { pool, block, seen }
        } else if in_block && (self.damaged || promise == Promise::OwnPages) {
            Finding::AttackerAddress { pool, block }
        } else {
            Finding::PoolContract { pool, promise, seen }
        }
    }
}

#[cfg(test)]
mod tests {
    use bus::CpuAddr;

    use super::*;
    use crate::memory::Span;
    use crate::page::{PageAllocator, PageOrder, PageSource};
    use crate::pool::Flags;
    use crate::watched::DmaPool;

    /// Pools, pages and mappings that come and go leave nothing behind.
    #[test]
    fn a_long_run_does_not_grow() {
        let span = Span { cpu: CpuAddr(0xffff_0000_0000_0000), dma: DmaAddr(0x8000_0000), len: 1 << 20 };
        let memory = Memory::new(&[span]).expect("1 MiB");
        let source: Arc<dyn PageSource> =
            PageAllocator::new(Arc::clone(&memory), 4096, u64::MAX, PageOrder::Scattered(1));
        let ledger = Ledger::new(Arc::clone(&memory));
        let buffer = source.alloc(8192, Flags::KERNEL).expect("two pages");
        for round in 0..300 {
            let policy = &crate::policy::table()[round % 6];
            let geometry = Geometry { size: 100 + round as u64, align: 4, boundary: 0 };
            let pool = |name| DmaPool::create(name, policy, geometry, &memory, &source, &ledger).expect("a pool");
            let wrong = Geometry { size: 0, ..geometry };
            assert!(DmaPool::create("wrong", policy, wrong, &memory, &source, &ledger).is_err());
            for pool in [pool("one"), pool("two"), pool("two")] {
                let blocks: Vec<_> = (0..60).map(|_| pool.alloc(Flags::KERNEL).expect("a block")).collect();
                blocks.into_iter().for_each(|block| pool.free(block).expect("taken back"));
                assert_eq!(pool.destroy(), Ok(()));
            }
            ledger.mapped(buffer.dma.offset(round as u64 * 13), 512, Direction::ToDevice);
            assert!(ledger.claim(buffer.dma.offset(round as u64 * 13), 64, OWNER));
            assert!(ledger.unmapped(buffer.dma.offset(round as u64 * 13)));
        }
        let state = ledger.state.lock();
        assert_eq!(state.pools.len(), 4, "one, two, two and wrong");
        assert_eq!((state.findings.len(), state.uncounted), (0, 0));
        assert!(state.map.slots() < 16, "{}", state.map.slots());
    }

    static KIND: bus::Kind = bus::Kind { name: "buffer", label: |index, f| write!(f, "buffer {index}") };
    const OWNER: Owner = Owner::new(&KIND, 0);

    /// A pool that hands out one address after the other in the same place has one record for each.
    #[test]
    fn records_are_no_more_than_addresses() {
        let mut page = PoolPage::new(0, 0x1000, 4096, 64);
        for i in 0..20_000_u64 {
            let offset = i * 7919 % 512;
            page.hand_out(Block { cpu: CpuAddr(offset), dma: DmaAddr(0x1000 + offset) }, 64);
        }
        assert_eq!(page.blocks().len(), 512);
    }
}
