//! Pools of a machine that is not here: a log tells what they did.

use std::sync::Arc;

use bus::DmaAddr;

use super::pool_page::PoolPage;
use super::{Ledger, PoolId, PoolRecord, PoolState, State};
use crate::finding::Finding;
use crate::memory::Memory;
use crate::page::Pages;
use crate::pool::{Block, Geometry, Metadata};

impl Ledger {
    /// An empty ledger of a machine whose memory is not here: it knows addresses, and not one byte.
    pub(crate) fn of_log() -> Arc<Self> {
        Self::new(Memory::none())
    }

    /// Records a pool of the machine. Where it keeps its own data is not known, so nothing that it does is excused by that.
    pub(crate) fn pool_observed(&self, name: &str, geometry: Geometry) -> PoolId {
        let mut state = self.state.lock();
        state.pools.push(PoolRecord::new(name, Metadata::OutOfBand, false, 1, geometry));
        PoolId(state.pools.len() - 1)
    }

    /// Records memory that blocks of the pool lie in. Whole frames of 4 KiB, below the end of addresses.
    pub(crate) fn page_observed(&self, id: PoolId, pages: Pages) {
        let mut state = self.state.lock();
        let pool = &mut state.pools[id.0];
        pool.pages += 1;
        let page = PoolPage::new(id.0, pages, pool.distance & pool.distance.wrapping_neg());
        state.map.add_observed_page(page);
    }

    /// The pool whose page the address is in, and whether any block of that page is in use.
    pub(crate) fn pool_observed_at(&self, addr: DmaAddr) -> Option<(PoolId, bool)> {
        let state = self.state.lock();
        let page = state.map.pool_page(addr.0)?;
        Some((PoolId(page.pool), page.blocks().iter().any(|block| block.is_live())))
    }

    /// Records that pages of an idle pool in this memory are not its own any more.
    pub(crate) fn page_given_up(&self, id: PoolId, start: DmaAddr, len: u64) {
        let mut state = self.state.lock();
        state.map.remove_observed_pages(|page| {
            page.pool == id.0 && page.base < start.0 + len && start.0 < page.base + page.len
        });
    }

    /// Whether it was seen that the pool handed out a block which begins at `addr` or is around it.
    pub(crate) fn has_handed_out(&self, id: PoolId, addr: DmaAddr) -> bool {
        let state = self.state.lock();
        let page = state.map.pool_page(addr.0).filter(|page| page.pool == id.0);
        page.is_some_and(|page| page.block(addr.0).is_some()) || state.pools[id.0].strays.contains(&addr.0)
    }

    /// Records that the pool is no more, as far as the log tells: its pages are anybody's.
    pub(crate) fn pool_unobserved(&self, id: PoolId) {
        let mut state = self.state.lock();
        let State { map, pools, .. } = &mut *state;
        map.remove_observed_pages(|page| page.pool == id.0);
        let pool = &mut pools[id.0];
        pool.strays.clear();
        pool.pages = 0;
        pool.state = PoolState::Gone;
    }

    /// Reports blocks that were in use when their pool was destroyed, by their names in `owners`.
    pub(crate) fn destroyed_in_use(&self, blocks: usize, owners: Vec<String>) {
        self.report(Finding::Leaked { blocks, mappings: 0, buffers: 0, pools: Vec::new(), owners });
    }

    /// Addresses of the pool's blocks in use, rising.
    pub(crate) fn live_blocks_of(&self, id: PoolId) -> Vec<DmaAddr> {
        self.state.lock().held(id).into_iter().map(|(start, _)| DmaAddr(start)).collect()
    }

    /// Records that the pool handed out a block, where nobody saw whether it was zero.
    pub(crate) fn handed_out_unseen(&self, id: PoolId, block: Block) {
        self.handed_out(id, block, None);
    }
}
