//! Comparing a layout contract with what is really there.

use bus::{DmaAddr, Kind, LayoutContract, Owner};

use super::State;
use super::order::AddressOrder;
use super::pool_page::{BlockRecord, PoolPage};
use crate::finding::{Found, LayoutFinding};

/// What came of a comparison.
pub(super) enum Compared {
    /// Every object is where the device will look for it.
    Fits,
    /// Memory for every object is there, and the driver named none of the kind.
    FitsUnnamed,
    /// The first object that is not there.
    Differs(Box<LayoutFinding>),
}

impl State {
    /// Looks for the objects of the array where the device will.
    pub(super) fn compare(&self, contract: &'static LayoutContract, written: DmaAddr, count: u32) -> Compared {
        let effective = DmaAddr(written.0 & !(contract.align - 1));
        let mut unnamed = false;
        for slot in 0..count {
            let expected_at = effective.offset(u64::from(slot) * contract.stride);
            let found = self.object_at(expected_at, contract.size);
            let wanted = Owner::new(contract.kind, slot);
            if found == Found::Claimed(wanted) {
                continue;
            }
            // Claims are help, not duty: of a driver that makes none, only the memory can be judged.
            unnamed = unnamed || !self.claims_any(contract.kind);
            if unnamed && self.has_room(effective, expected_at, contract.size) {
                continue;
            }
            let claim = self.find_claim(wanted);
            return Compared::Differs(Box::new(LayoutFinding {
                contract,
                written,
                effective,
                slot,
                expected_at,
                found,
                was_zero: None,
                claimed_at: claim.map(|(at, _)| at),
                order: claim.and_then(|(_, pool)| pool).map(|pool| {
                    let record = &self.pools[pool];
                    (record.name.clone(), AddressOrder::of(&record.first))
                }),
            }));
        }
        if unnamed { Compared::FitsUnnamed } else { Compared::Fits }
    }

    /// Whether the driver has claimed any object of the kind.
    fn claims_any(&self, kind: &Kind) -> bool {
        let in_pools = self.map.pool_pages().flat_map(PoolPage::blocks).filter(|block| block.is_live());
        let in_mappings = self.map.mappings().flat_map(|mapping| &mapping.claims).map(|&(_, _, owner)| owner);
        in_pools.filter_map(|block| block.owner).chain(in_mappings).any(|owner| owner.kind.name == kind.name)
    }

    /// Whether `size` bytes at `addr` lie in memory in use that nobody claimed: a block that begins there, a block that
    /// holds the array from its first object, or a mapping.
    fn has_room(&self, array: DmaAddr, addr: DmaAddr, size: u64) -> bool {
        let Some(end) = addr.0.checked_add(size) else { return false };
        if let Some(page) = self.map.pool_page(addr.0) {
            let whole = |block: &&BlockRecord| block.is_live() && end <= block.start + block.size;
            let block = page.block(addr.0).filter(|block| block.start == addr.0 || block.start == array.0);
            return block.filter(whole).is_some_and(|block| block.owner.is_none());
        }
        let apart = |&(start, len, _): &(u64, u64, Owner)| end <= start || start + len <= addr.0;
        let mut mappings = self.map.mappings_at(addr.0).peekable();
        mappings.peek().is_some()
            && self.map.mappings_at(addr.0).all(|mapping| mapping.claims.iter().all(apart))
            && mappings.any(|mapping| end <= mapping.start + mapping.len)
    }

    fn object_at(&self, addr: DmaAddr, size: u64) -> Found {
        if let Some(page) = self.map.pool_page(addr.0) {
            let block = page.block(addr.0);
            if let Some(block) = block.filter(|block| block.is_live()) {
                return if block.start == addr.0 {
                    block.owner.map_or(Found::Unclaimed, Found::Claimed)
                } else {
                    Found::Interior
                };
            }
            let pool = &self.pools[page.pool];
            return match pool.free_block(page, block, addr.0) {
                Some((state, start)) if block.is_some() || start == addr.0 => {
                    Found::FreeBlock(pool.name.clone(), state)
                }
                _ => Found::PoolMemory(pool.name.clone()),
            };
        }
        let end = addr.0.saturating_add(size);
        let overlaps = |&&(start, len, _): &&(u64, u64, Owner)| start < end && addr.0 < start + len;
        let mut mapped = false;
        let claims = self.map.mappings_at(addr.0).inspect(|_| mapped = true).flat_map(|mapping| &mapping.claims);
        match claims.filter(overlaps).min_by_key(|&&(start, _, _)| start.abs_diff(addr.0)) {
            Some(&(start, _, owner)) if start == addr.0 => Found::Claimed(owner),
            Some(_) => Found::Interior,
            None if mapped => Found::Unclaimed,
            None => Found::Unmapped,
        }
    }

    /// Where the driver has the object, and the pool it came from.
    fn find_claim(&self, owner: Owner) -> Option<(DmaAddr, Option<usize>)> {
        let in_pools = self.map.pool_pages().find_map(|page| {
            let block = page.blocks().iter().find(|block| block.is_live() && block.owner == Some(owner))?;
            Some((DmaAddr(block.start), Some(page.pool)))
        });
        let in_mappings = || {
            self.map.mappings().find_map(|mapping| {
                let &(start, _, _) = mapping.claims.iter().find(|(_, _, claimed)| *claimed == owner)?;
                Some((DmaAddr(start), None))
            })
        };
        in_pools.or_else(in_mappings)
    }
}
