//! Whether a device may do what it does.

use bus::{Access, AccessKind};

use super::map::At;
use super::pool_page::{BlockRecord, PoolPage};
use super::{PoolRecord, State};
use crate::finding::{BlockState, Finding};
use crate::pool::Metadata;

impl State {
    /// What is wrong with an access, and the pool whose own data it damages.
    pub(super) fn judge(&self, access: &Access) -> Option<(Finding, Option<usize>)> {
        let (mut addr, mut left) = (access.addr.0, access.len);
        // An access usually lies in one object; a long one may cross several mappings that touch.
        while left > 0 {
            match self.map.at(addr, access.kind) {
                At::Pool(page) => return self.judge_block(page, addr, left, access),
                At::Mapping(mapping) => {
                    if !mapping.direction.allows(access.kind) {
                        return Some((Finding::AgainstDirection { access: *access }, None));
                    }
                    let step = (mapping.len - (addr - mapping.start)).min(left);
                    left -= step;
                    addr = addr.wrapping_add(step);
                }
                At::Nothing => return Some((Finding::Unmapped { access: *access }, None)),
            }
        }
        None
    }

    #[inline]
    fn judge_block(&self, page: &PoolPage, addr: u64, left: u64, access: &Access) -> Option<(Finding, Option<usize>)> {
        let block = page.block(addr);
        match block {
            Some(block) if block.is_live() && block.contains(addr) && left <= block.start + block.size - addr => None,
            _ => Some(self.judge_wrong(page, block, addr, left, access)),
        }
    }

    #[cold]
    fn judge_wrong(
        &self,
        page: &PoolPage,
        block: Option<&BlockRecord>,
        addr: u64,
        left: u64,
        access: &Access,
    ) -> (Finding, Option<usize>) {
        let record = &self.pools[page.pool];
        let (access, pool) = (*access, record.name.clone());
        let damaged = match access.kind {
            AccessKind::Read => Vec::new(),
            AccessKind::Write => record.damage(page, addr, left),
        };
        let hit = (!damaged.is_empty()).then_some(page.pool);
        if let Some(block) = block.filter(|block| block.is_live()) {
            // What rounding adds behind a block is not the driver's either.
            let inside = (block.start + block.size).saturating_sub(addr);
            return (Finding::CrossesBlocks { access, pool, owner: block.owner, inside }, hit);
        }
        let state = block.map_or(BlockState::NeverAllocated, |block| BlockState::Freed {
            owner: block.owner,
            generation: block.generation,
        });
        let finding = match access.kind {
            AccessKind::Read => Finding::ReadOfFreedBlock { access, pool, state },
            AccessKind::Write => {
                let start = block.map_or_else(|| record.block_start(page, addr), |block| block.start);
                Finding::WriteToFreedBlock { access, pool, state, offset: addr.saturating_sub(start), damaged }
            }
        };
        (finding, hit)
    }
}

impl PoolRecord {
    /// Where the block around `addr` begins, if blocks lie as dma_pool lays them out.
    fn block_start(&self, page: &PoolPage, addr: u64) -> u64 {
        let boundary = if self.boundary == 0 { page.len } else { self.boundary.min(page.len) };
        addr - (addr - page.base) % boundary % self.distance
    }

    /// The pool's own data in free blocks that a write hits.
    fn damage(&self, page: &PoolPage, addr: u64, len: u64) -> Vec<&'static str> {
        let Metadata::InBlock(fields) = self.metadata else { return Vec::new() };
        let end = addr.saturating_add(len).min(page.base + page.len);
        let mut damaged = Vec::new();
        let mut at = addr;
        // Ends: every round begins a block further on, within a page.
        while at < end && damaged.len() < fields.len() {
            let block = page.block(at);
            let start = block.map_or_else(|| self.block_start(page, at), |block| block.start);
            let hit = |from: u64, len: u64| from < end && addr < from.saturating_add(len);
            if !block.is_some_and(BlockRecord::is_live) {
                for field in fields.iter().filter(|field| hit(start + field.start, field.len)) {
                    if !damaged.contains(&field.name) {
                        damaged.push(field.name);
                    }
                }
            }
            at = (start + self.distance).max(at + 1);
        }
        damaged
    }
}
