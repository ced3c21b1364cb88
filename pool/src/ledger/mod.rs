//! The ledger: every block and mapping, who owns it, and what a device did to it.
//!
//! It wraps any pool from outside and never looks into one. Every query is O(1) by page; only a finding costs more.

mod buffers;
mod damage;
mod dirt;
mod judge;
mod kept;
mod layout;
mod leaks;
mod map;
mod observed;
mod order;
mod owned;
mod place;
mod pool_page;
mod pool_record;
mod pools;

use std::fmt;
use std::sync::Arc;

use bus::{Access, AccessKind, DmaAddr, LayoutContract, Owner, Watch};
use parking_lot::Mutex;

use crate::api::Direction;
use crate::driver_access::DriverAccess;
use crate::finding::Finding;
use crate::memory::Memory;

use judge::Judgement;
use kept::Kept;
use layout::Compared;
use leaks::Leaks;
use map::Map;
use pool_record::{PoolRecord, PoolState};

pub(crate) use pools::PoolId;

pub use order::AddressOrder;
pub use place::Place;

/// Lines of pools that are kept: one that prints for every block says no more after these.
const MOST_PRINTED: usize = 1000;

/// How much a ledger has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Blocks that pools handed out.
    pub allocations: u64,
    /// Accesses of devices that were judged.
    pub accesses: u64,
    /// Those of them that lay in live blocks of pools.
    pub pool_accesses: u64,
}

/// Everything that is allocated or mapped, and what was wrong.
pub struct Ledger {
    memory: Arc<Memory>,
    state: Mutex<State>,
}

struct State {
    map: Map,
    pools: Vec<PoolRecord>,
    findings: Kept,
    leaks: Leaks,
    counts: Counts,
    /// Registers whose layouts fitted though the driver named nothing of what lies there.
    unnamed: Vec<&'static str>,
    /// What pools printed.
    printed: Vec<String>,
}

impl Ledger {
    /// An empty ledger over `memory`.
    #[must_use]
    pub fn new(memory: Arc<Memory>) -> Arc<Self> {
        let map = Map::new(memory.spans());
        let (findings, leaks, counts) = (Kept::default(), Leaks::default(), Counts::default());
        let state = State { map, pools: Vec::new(), findings, leaks, counts, unnamed: Vec::new(), printed: Vec::new() };
        Arc::new(Self { memory, state: Mutex::new(state) })
    }

    /// What pools printed so far, as a kernel's log has it: the first thousand lines.
    #[must_use]
    pub fn printed_lines(&self) -> Vec<String> {
        self.state.lock().printed.clone()
    }

    /// Keeps a line that a pool printed.
    pub(crate) fn printed(&self, text: String) {
        let printed = &mut self.state.lock().printed;
        if printed.len() < MOST_PRINTED {
            printed.push(text);
        }
    }

    /// What was found so far, in order; of a flood its beginning, and the first of every name and blame.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        self.state.lock().findings.all().to_vec()
    }

    /// How many findings there were in all.
    #[must_use]
    pub fn findings_total(&self) -> u64 {
        self.state.lock().findings.total()
    }

    /// How much was seen.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state.lock().counts
    }

    /// Accesses of devices that lay in live blocks of pools called `pool`, of those that are no more too.
    #[must_use]
    pub fn accesses_of(&self, pool: &str) -> u64 {
        self.state.lock().pools.iter().filter(|record| record.name == pool).map(|record| record.accesses).sum()
    }

    /// Registers with a layout contract that held though the driver claimed no object of its kind: that the right memory
    /// was there was seen, that it was meant for the right objects was not.
    #[must_use]
    pub fn unnamed_layouts(&self) -> Vec<&'static str> {
        self.state.lock().unnamed.clone()
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

    /// Bytes in the pages that pools hold, with free blocks in them or without.
    #[must_use]
    pub fn pool_memory(&self) -> u64 {
        self.state.lock().map.pool_pages().map(|page| page.len).sum()
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

    /// Where the driver's objects of the kind called `name` are, by index, and the pool that each came from.
    #[must_use]
    pub fn claims_of(&self, name: &str) -> Vec<(u32, DmaAddr, Option<String>)> {
        let state = self.state.lock();
        let pools = state.map.pool_pages().flat_map(|page| page.blocks().iter().map(move |block| (page.pool, block)));
        let in_pools = pools.filter(|(_, block)| block.is_live()).filter_map(|(pool, block)| {
            Some((block.owner?, DmaAddr(block.start), Some(state.pools[pool].name.clone())))
        });
        let mapped = state.map.mappings().flat_map(|mapping| &mapping.claims);
        let in_mappings = mapped.map(|&(start, _, owner)| (owner, DmaAddr(start), None));
        let named = in_pools.chain(in_mappings).filter(|(owner, ..)| owner.kind.name == name);
        let mut claims: Vec<_> = named.map(|(owner, at, pool)| (owner.index, at, pool)).collect();
        claims.sort_by_key(|&(index, at, _)| (index, at));
        claims
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

    /// Records that a slab gave the driver a buffer.
    pub(crate) fn buffer_given(&self, addr: DmaAddr, len: u64) {
        self.state.lock().map.add_buffer(addr.0, len);
    }

    /// Records that the driver freed a buffer, and whether its memory stays the slab's.
    pub(crate) fn buffer_freed(&self, addr: DmaAddr, len: u64, stays: bool) {
        self.state.lock().map.remove_buffer(addr.0, len, stays);
    }

    /// Judges an access of the driver itself.
    pub(crate) fn driver_access(&self, access: &DriverAccess) {
        let mut state = self.state.lock();
        if let Some(finding) = state.judge_driver(access) {
            if access.kind == AccessKind::Write {
                state.tampered(access.dma.0, access.len, &access.to_string(), &[]);
            }
            state.findings.push(*finding);
        }
    }

    /// Adds a finding.
    pub fn report(&self, finding: Finding) {
        self.state.lock().findings.push(finding);
    }

    fn is_zero(&self, addr: DmaAddr, len: u64) -> Option<bool> {
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        self.memory.read(self.memory.cpu(addr)?, &mut bytes).ok()?;
        Some(bytes.iter().all(|&byte| byte == 0))
    }
}

impl Ledger {
    /// Judges an access of a device; `data` is what it writes, where that is known.
    fn device_access(&self, access: &Access, data: &[u8]) {
        let mut state = self.state.lock();
        state.counts.accesses += 1;
        match state.judge(access) {
            Judgement::Right(None) => {}
            Judgement::Right(Some(pool)) => {
                state.counts.pool_accesses += 1;
                state.pools[pool].accesses += 1;
            }
            Judgement::Wrong(finding) => {
                if access.kind == AccessKind::Write {
                    let Access { addr, len, belief, .. } = access;
                    let value = value(data);
                    let write = format!("the device wrote {belief}{value} at {addr} ({len} bytes)");
                    state.tampered(addr.0, *len, &write, data);
                }
                state.findings.push(*finding);
            }
        }
    }
}

/// What was written, as far as it is short enough to be an address.
fn value(data: &[u8]) -> String {
    if let Some(bytes) = data.as_array() {
        format!(" = {:#x}", u64::from_le_bytes(*bytes))
    } else if let Some(bytes) = data.as_array() {
        format!(" = {:#x}", u32::from_le_bytes(*bytes))
    } else {
        String::new()
    }
}

impl Watch for Ledger {
    fn access(&self, access: &Access) {
        self.device_access(access, &[]);
    }

    fn write(&self, access: &Access, data: &[u8]) {
        self.device_access(access, data);
    }

    fn layout(&self, contract: &'static LayoutContract, written: DmaAddr, count: u32) {
        let mut state = self.state.lock();
        match state.compare(contract, written, count) {
            Compared::Fits => {}
            Compared::FitsUnnamed => {
                if !state.unnamed.contains(&contract.register) {
                    state.unnamed.push(contract.register);
                }
            }
            Compared::Differs(mut finding) => {
                finding.was_zero = self.is_zero(finding.expected_at, contract.size);
                state.findings.push(Finding::LayoutContract(finding));
            }
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

#[cfg(test)]
mod tests {
    use bus::CpuAddr;

    use super::pool_page::PoolPage;
    use super::*;
    use crate::memory::Span;
    use crate::page::{PageAllocator, PageOrder, PageSource, Pages};
    use crate::pool::{Block, Flags, Geometry};
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
        assert_eq!(state.findings.total(), 0);
        assert!(state.map.slots() < 16, "{}", state.map.slots());
    }

    static KIND: bus::Kind = bus::Kind { name: "buffer", label: |index, f| write!(f, "buffer {index}") };
    const OWNER: Owner = Owner::new(&KIND, 0);

    /// A pool that hands out one address after the other in the same place has one record for each.
    #[test]
    fn records_are_no_more_than_addresses() {
        let mut page = PoolPage::new(0, Pages { cpu: CpuAddr(0), dma: DmaAddr(0x1000), len: 4096 }, 64);
        for i in 0..20_000_u64 {
            let offset = i * 7919 % 512;
            page.hand_out(Block { cpu: CpuAddr(offset), dma: DmaAddr(0x1000 + offset) }, 64);
        }
        assert_eq!(page.blocks().len(), 512);
    }
}
