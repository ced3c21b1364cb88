//! Comparing a layout contract with what is really there.

use bus::{DmaAddr, LayoutContract, Owner};

use super::order::AddressOrder;
use super::{BlockState, State};
use crate::finding::{Found, LayoutFinding};

impl State {
    /// The first object of the array that is not where the device will look for it.
    pub(super) fn compare(
        &self,
        contract: &'static LayoutContract,
        written: DmaAddr,
        count: u32,
    ) -> Option<LayoutFinding> {
        let effective = DmaAddr(written.0 & !(contract.align - 1));
        (0..count).find_map(|slot| {
            let expected_at = effective.offset(u64::from(slot) * contract.stride);
            let found = self.object_at(expected_at, contract.size);
            let wanted = Owner::new(contract.kind, slot);
            (found != Found::Claimed(wanted)).then(|| {
                let claim = self.find_claim(wanted);
                LayoutFinding {
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
                }
            })
        })
    }

    fn object_at(&self, addr: DmaAddr, size: u64) -> Found {
        if let Some(page) = self.map.pool_page(addr.0) {
            return match page.block(addr.0) {
                Some(block) if block.is_live() && block.start != addr.0 => Found::Interior,
                Some(block) if block.is_live() => block.owner.map_or(Found::Unclaimed, Found::Claimed),
                block => {
                    let state = block.map_or(BlockState::NeverAllocated, |block| BlockState::Freed {
                        owner: block.owner,
                        generation: block.generation,
                    });
                    Found::FreeBlock(self.pools[page.pool].name.clone(), state)
                }
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
