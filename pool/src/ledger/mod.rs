//! The ledger: every block and mapping, who owns it, and what a device did to it.
//!
//! It wraps any pool from outside and never looks into one. Every query is O(1) by page; only a finding costs more.

mod layout;
mod map;
mod order;

use std::sync::Arc;

use bus::{Access, AccessKind, DmaAddr, LayoutContract, Owner, Watch};
use parking_lot::Mutex;

use crate::api::Direction;
use crate::finding::{BlockState, Finding, Promise};
use crate::memory::Memory;
use crate::page::Pages;
use crate::policy::Policy;
use crate::pool::{Block, Geometry, Metadata};

use map::{At, BlockRecord, Map, PoolPage};

pub use order::AddressOrder;

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

pub(crate) struct PoolRecord {
    name: String,
    metadata: Metadata,
    size: u64,
    align: u64,
    boundary: u64,
    first: Vec<DmaAddr>,
    live: usize,
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
            .flat_map(|page| page.blocks.iter().map(move |block| (page.pool, block)))
            .filter(|(_, block)| block.live)
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
        self.state.lock().pools.iter().find(|pool| pool.name == name).map(|pool| AddressOrder::of(&pool.first))
    }

    /// The driver's claim on the object that begins at or contains `addr`.
    #[must_use]
    pub fn owner_at(&self, addr: DmaAddr) -> Option<Owner> {
        let state = self.state.lock();
        match state.map.at(addr.0) {
            At::Pool(page) => page.block(addr.0).filter(|block| block.live && block.contains(addr.0))?.owner,
            At::Mapping(mapping) => {
                let within = |&&(start, len, _): &&(u64, u64, Owner)| addr.0.wrapping_sub(start) < len;
                mapping.claims.iter().find(within).map(|&(_, _, owner)| owner)
            }
            At::Nothing => None,
        }
    }

    /// Records the driver's claim on `len` bytes at `addr`: a live block, or part of a mapping.
    ///
    /// Returns `false` if nothing is there to claim.
    pub fn claim(&self, addr: DmaAddr, len: u64, owner: Owner) -> bool {
        let mut state = self.state.lock();
        if let Some(page) = state.map.pool_page_mut(addr.0) {
            return match page.block_mut(addr.0) {
                Some(block) if block.live && block.start == addr.0 => {
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
        state.pools.push(PoolRecord {
            name: name.to_owned(),
            metadata: policy.metadata,
            size: geometry.size,
            align: geometry.align.max(1),
            boundary: geometry.boundary,
            first: Vec::new(),
            live: 0,
        });
        PoolId(state.pools.len() - 1)
    }

    pub(crate) fn page_added(&self, id: PoolId, pages: Pages) {
        let mut state = self.state.lock();
        let pool = &state.pools[id.0];
        // Every block begins at a multiple of the largest power of two that divides the distance between blocks.
        let distance = pool.size.next_multiple_of(pool.align);
        let page = PoolPage::new(id.0, pages.dma.0, pages.len, distance & distance.wrapping_neg());
        state.map.add_pool_page(page);
    }

    pub(crate) fn page_removed(&self, pages: Pages) {
        self.state.lock().map.remove_pool_page(pages.dma);
    }

    /// Records that the pool handed out `block`, and holds it against what dma_pool promises.
    pub(crate) fn handed_out(&self, id: PoolId, block: Block) {
        let mut state = self.state.lock();
        state.counts.allocations += 1;
        let State { map, pools, .. } = &mut *state;
        let pool = &mut pools[id.0];
        pool.live += 1;
        if pool.first.len() < REMEMBERED {
            pool.first.push(block.dma);
        }
        let name = pool.name.clone();
        let (size, align, boundary) = (pool.size, pool.align, pool.boundary);
        let own = map.pool_page_mut(block.dma.0).filter(|page| {
            page.pool == id.0 && block.dma.0.checked_add(size).is_some_and(|end| end <= page.base + page.len)
        });
        let Some(page) = own else {
            state.report(Finding::AttackerAddress { pool: name, block });
            return;
        };
        let mut broken = Vec::new();
        if self.memory.cpu(block.dma) != Some(block.cpu) {
            broken.push((Promise::SameMemory, format!("{} and {} are not the same memory", block.cpu, block.dma)));
        }
        if !block.dma.is_aligned(align) {
            broken.push((Promise::Alignment, format!("{} is not aligned to {align} bytes", block.dma)));
        }
        if boundary != 0 && block.dma.0 / boundary != (block.dma.0 + size - 1) / boundary {
            broken.push((Promise::Boundary, format!("{} and {size} bytes cross a multiple of {boundary}", block.dma)));
        }
        if let Some(other) = page.overlapping(block.dma.0, size) {
            let holder = other.owner.map_or_else(|| "no one named".to_owned(), |owner| owner.to_string());
            let text = format!("{} overlaps the live block at {:#x} ({holder})", block.dma, other.start);
            broken.push((Promise::NoOverlap, text));
        }
        page.hand_out(block.dma.0, size);
        for (promise, seen) in broken {
            state.report(Finding::PoolContract { pool: name.clone(), promise, seen });
        }
    }

    /// Records that the driver frees `block`; a wrong free is a finding.
    pub(crate) fn freed(&self, id: PoolId, block: Block) {
        let mut state = self.state.lock();
        let seen = match state.map.pool_page_mut(block.dma.0) {
            Some(page) if page.pool == id.0 => match page.block_mut(block.dma.0) {
                Some(record) if record.start == block.dma.0 && record.live => {
                    record.live = false;
                    state.pools[id.0].live -= 1;
                    return;
                }
                Some(record) if record.start == block.dma.0 => "it is free already".to_owned(),
                Some(record) if record.live => format!("it lies inside the block at {:#x}", record.start),
                _ => "no block begins there".to_owned(),
            },
            _ => "it lies in no page of this pool".to_owned(),
        };
        let pool = state.pools[id.0].name.clone();
        state.report(Finding::WrongFree { pool, block, seen });
    }

    fn is_zero(&self, addr: DmaAddr, len: u64) -> Option<bool> {
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        self.memory.read(self.memory.cpu(addr)?, &mut bytes).ok()?;
        Some(bytes.iter().all(|&byte| byte == 0))
    }

    /// Who holds blocks of a pool, for the error of a destroy.
    pub(crate) fn holders(&self, id: PoolId) -> (usize, Vec<String>) {
        const NAMED: usize = 8;
        let state = self.state.lock();
        let mut owners: Vec<_> = state
            .map
            .pool_pages()
            .filter(|page| page.pool == id.0)
            .flat_map(|page| &page.blocks)
            .filter(|block| block.live)
            .collect();
        owners.sort_by_key(|block| block.start);
        let name = |block: &&BlockRecord| {
            block.owner.map_or_else(|| format!("an unnamed block at {:#x}", block.start), |owner| owner.to_string())
        };
        let mut names: Vec<_> = owners.iter().take(NAMED).map(name).collect();
        if owners.len() > NAMED {
            names.push(format!("{} more", owners.len() - NAMED));
        }
        (owners.len(), names)
    }
}

impl Watch for Ledger {
    fn access(&self, access: &Access) {
        let mut state = self.state.lock();
        state.counts.accesses += 1;
        if let Some(finding) = state.judge(access) {
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

impl BlockRecord {
    fn contains(&self, addr: u64) -> bool {
        addr.wrapping_sub(self.start) < self.size
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

    fn judge(&self, access: &Access) -> Option<Finding> {
        let (mut addr, mut left) = (access.addr.0, access.len);
        // An access usually lies in one object; a long one may cross several mappings that touch.
        while left > 0 {
            match self.map.at(addr) {
                At::Nothing => return Some(Finding::Unmapped { access: *access }),
                At::Pool(page) => return self.judge_block(page, addr, access),
                At::Mapping(mapping) => {
                    if !mapping.direction.allows(access.kind) {
                        return Some(Finding::AgainstDirection { access: *access });
                    }
                    let inside = mapping.len - (addr - mapping.start);
                    let step = inside.min(left);
                    left -= step;
                    addr = addr.wrapping_add(step);
                }
            }
        }
        None
    }

    fn judge_block(&self, page: &PoolPage, addr: u64, access: &Access) -> Option<Finding> {
        let pool = &self.pools[page.pool];
        let block = page.block(addr);
        if let Some(block) = block
            && block.live
            && block.contains(addr)
        {
            let inside = block.start + block.size - addr;
            return (access.len > inside).then(|| Finding::CrossesBlocks {
                access: *access,
                pool: pool.name.clone(),
                owner: block.owner,
                inside,
            });
        }
        let state = match block {
            Some(block) if !block.live => BlockState::Freed { owner: block.owner, generation: block.generation },
            _ => BlockState::NeverAllocated,
        };
        let name = pool.name.clone();
        Some(match access.kind {
            AccessKind::Read => Finding::ReadOfFreedBlock { access: *access, pool: name, state },
            AccessKind::Write => {
                let start = block.map_or_else(|| pool.block_start(page, addr), |block| block.start);
                let offset = addr - start;
                let damaged = pool.damage(offset, access.len);
                Finding::WriteToFreedBlock { access: *access, pool: name, state, offset, damaged }
            }
        })
    }
}

impl PoolRecord {
    /// Where the block around `addr` begins, if blocks lie as dma_pool lays them out.
    fn block_start(&self, page: &PoolPage, addr: u64) -> u64 {
        let size = self.size.next_multiple_of(self.align);
        let boundary = if self.boundary == 0 { page.len } else { self.boundary.min(page.len) };
        let from_boundary = (addr - page.base) % boundary;
        addr - from_boundary % size
    }

    /// The pool's own data that a write of `len` bytes at `offset` in a free block hits.
    fn damage(&self, offset: u64, len: u64) -> Vec<&'static str> {
        match self.metadata {
            Metadata::OutOfBand => Vec::new(),
            Metadata::InBlock(fields) => fields
                .iter()
                .filter(|field| offset < field.start + field.len && field.start < offset + len)
                .map(|field| field.name)
                .collect(),
        }
    }
}
