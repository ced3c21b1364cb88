//! What is left when the driver is gone.

use bus::{DmaAddr, Owner};

use super::pool_page::PoolPage;
use super::{Ledger, PoolId, PoolState, State};
use crate::finding::{Finding, Promise};
use crate::pool::Block;

/// Owners that are named.
const NAMED: usize = 8;

/// What was found of leaks, and what went unseen since.
#[derive(Default)]
pub(super) struct Leaks {
    /// Blocks that were in use when a pool went that does not count them, and went with its pages.
    blocks: usize,
    /// Whose they were, as many as are named.
    owners: Vec<String>,
    /// Whether what the driver left was found already.
    found: bool,
}

impl Ledger {
    /// Looks for what was not given back: to be called when the driver is gone.
    ///
    /// What the driver left (blocks, mappings and coherent memory, buffers, pools) is one [`Finding::Leaked`]. Pages that
    /// a pool kept when it was destroyed or refused to be created are the pool's [`Promise::NoLeak`], unless blocks in
    /// them were in use. Each is found once: a later call adds neither a second `Leaked` nor the same pool again.
    pub fn check_leaks(&self) {
        let mut state = self.state.lock();
        for id in 0..state.pools.len() {
            if let Some(block) =
                state.page_left(id).map(|dma| Block { cpu: self.memory.cpu(dma).unwrap_or_default(), dma })
            {
                let pool = &mut state.pools[id];
                pool.leak_found = true;
                let seen = format!("it is gone, and {} of its pages are not, the first at {}", pool.pages, block.dma);
                let finding = pool.broken(Promise::NoLeak, block, seen);
                state.findings.push(finding);
            }
        }
        if !state.leaks.found
            && let Some(finding) = state.left_by_driver()
        {
            state.leaks.found = true;
            state.findings.push(finding);
        }
    }
}

impl State {
    /// Blocks of a pool that are in use, by rising address.
    pub(super) fn held(&self, id: PoolId) -> Vec<(u64, Option<Owner>)> {
        let blocks = self.map.pool_pages().filter(|page| page.pool == id.0).flat_map(PoolPage::blocks);
        let live = blocks.filter(|block| block.is_live()).map(|block| (block.start, block.owner));
        let strays = self.pools[id.0].strays.iter().map(|&start| (start, None));
        let mut held: Vec<_> = live.chain(strays).collect();
        held.sort_by_key(|&(start, _)| start);
        held
    }

    /// A pool goes of which `held` blocks were in use, `owners` by name. Those that stay are seen later.
    pub(super) fn lose_blocks(&mut self, id: PoolId, held: usize, owners: &[String]) {
        let lost = held.saturating_sub(self.held(id).len());
        if lost > 0 {
            self.leaks.blocks += lost;
            let room = NAMED - self.leaks.owners.len();
            self.leaks.owners.extend(owners.iter().take(lost.min(room)).cloned());
        }
    }

    /// The first page that a pool kept though it is gone and no block was in use.
    fn page_left(&self, id: usize) -> Option<DmaAddr> {
        let pool = &self.pools[id];
        let keeps = pool.state == PoolState::Gone && !pool.in_use_at_end && pool.pages > 0 && !pool.leak_found;
        let pages = self.map.pool_pages().filter(|page| keeps && page.pool == id);
        pages.map(|page| DmaAddr(page.base)).min()
    }

    fn left_by_driver(&self) -> Option<Finding> {
        let mut held: Vec<_> = (0..self.pools.len()).flat_map(|id| self.held(PoolId(id))).collect();
        held.sort_by_key(|&(start, _)| start);
        let mut mappings: Vec<_> = self.map.mappings().collect();
        mappings.sort_by_key(|mapping| mapping.start);
        let alive = self.pools.iter().filter(|pool| pool.state != PoolState::Gone);
        let pools: Vec<_> = alive.map(|pool| pool.name.clone()).collect();
        let buffers = self.map.live_buffers();
        let blocks = held.len() + self.leaks.blocks;
        if blocks == 0 && mappings.is_empty() && buffers == 0 && pools.is_empty() {
            return None;
        }
        let of_blocks = held.iter().map(|&(start, owner)| name(owner, "block", start));
        let of_mappings = mappings.iter().flat_map(|mapping| {
            let unnamed = mapping.claims.is_empty().then(|| name(None, "mapping", mapping.start));
            mapping.claims.iter().map(|&(start, _, owner)| name(Some(owner), "mapping", start)).chain(unnamed)
        });
        let owners = self.leaks.owners.iter().cloned().chain(of_blocks).chain(of_mappings).take(NAMED).collect();
        Some(Finding::Leaked { blocks, mappings: mappings.len(), buffers, pools, owners })
    }
}

/// A claim in words, or what is there without one.
pub(super) fn name(owner: Option<Owner>, what: &str, start: u64) -> String {
    owner.map_or_else(|| format!("an unnamed {what} at {start:#x}"), |owner| owner.to_string())
}
