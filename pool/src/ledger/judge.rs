//! Whether a device or a driver may do what it does.

use bus::{Access, AccessKind};

use super::State;
use super::buffers::Buffer;
use super::map::{At, FRAME};
use super::pool_page::PoolPage;
use crate::driver_access::{DriverAccess, Wild};
use crate::finding::{BlockState, Finding, over};

/// What an access is.
pub(super) enum Judgement {
    /// Right; the pool whose live block it is in.
    Right(Option<usize>),
    /// A finding. A write has to be looked at for what it damages.
    Wrong(Box<Finding>),
}

/// Where in a pool's page an access is wrong.
enum InPage {
    /// It begins in a live block and ends behind it.
    Crosses {
        owner: Option<bus::Owner>,
        inside: u64,
    },
    Free {
        state: BlockState,
        offset: u64,
    },
    NoBlock,
}

impl State {
    pub(super) fn judge(&self, access: &Access) -> Judgement {
        let (mut addr, mut left) = (access.addr.0, access.len);
        // An access usually lies in one object; a long one may cross several mappings that touch.
        while left > 0 {
            match self.map.at(addr, access.kind) {
                At::Pool(page) if page.is_in_live_block(addr, left) => return Judgement::Right(Some(page.pool)),
                At::Pool(page) => return Judgement::Wrong(self.wrong_in_pool(page, addr, left, access)),
                At::Mapping(mapping) => {
                    if !mapping.direction.allows(access.kind) {
                        return Judgement::Wrong(Box::new(Finding::AgainstDirection { access: *access }));
                    }
                    let step = (mapping.len - (addr - mapping.start)).min(left);
                    left -= step;
                    addr = addr.wrapping_add(step);
                }
                At::Nothing => return Judgement::Wrong(Box::new(Finding::Unmapped { access: *access })),
            }
        }
        Judgement::Right(None)
    }

    #[cold]
    fn wrong_in_pool(&self, page: &PoolPage, addr: u64, left: u64, access: &Access) -> Box<Finding> {
        let (access, pool) = (*access, self.pools[page.pool].name.clone());
        let damaged = || self.damaged(page, addr, left, access.kind);
        Box::new(match (self.in_page(page, addr), access.kind) {
            (InPage::Crosses { owner, inside }, _) => Finding::CrossesBlocks { access, pool, owner, inside },
            (InPage::Free { state, .. }, AccessKind::Read) => Finding::ReadOfFreedBlock { access, pool, state },
            (InPage::Free { state, offset }, AccessKind::Write) => {
                Finding::WriteToFreedBlock { access, pool, state, offset, damaged: damaged() }
            }
            (InPage::NoBlock, _) => Finding::OutsideBlocks { access, pool, damaged: damaged() },
        })
    }

    fn in_page(&self, page: &PoolPage, addr: u64) -> InPage {
        let block = page.block(addr);
        if let Some(block) = block.filter(|block| block.is_live()) {
            // What rounding adds behind a block is not the driver's either.
            let inside = (block.start + block.size).saturating_sub(addr);
            return InPage::Crosses { owner: block.owner, inside };
        }
        match self.pools[page.pool].free_block(page, block, addr) {
            Some((state, start)) => InPage::Free { state, offset: addr - start },
            None => InPage::NoBlock,
        }
    }

    fn damaged(&self, page: &PoolPage, addr: u64, len: u64, kind: AccessKind) -> Vec<&'static str> {
        match kind {
            AccessKind::Read => Vec::new(),
            AccessKind::Write => self.pools[page.pool].tampering(page, addr, len).damaged,
        }
    }

    /// What is wrong with an access of the driver itself.
    ///
    /// Mapped memory is the driver's whoever gave it: with coherent caches an access during a mapping is harmless.
    #[inline]
    pub(super) fn judge_driver(&self, access: &DriverAccess) -> Option<Box<Finding>> {
        if self.map.is_one_object(access.dma.0, access.len) { None } else { self.judge_driver_by_parts(access) }
    }

    fn judge_driver_by_parts(&self, access: &DriverAccess) -> Option<Box<Finding>> {
        let (mut addr, mut left) = (access.dma.0, access.len);
        let mut in_buffer = false;
        while left > 0 {
            if let Some(page) = self.map.pool_page(addr) {
                if page.is_in_live_block(addr, left) {
                    return None;
                }
                return self.wrong_of_driver(page, addr, left, access);
            }
            let part = left.min(FRAME - addr % FRAME);
            let step = match self.map.buffer(addr, part, in_buffer) {
                Buffer::Live => {
                    in_buffer = true;
                    part
                }
                Buffer::EndsAfter(inside) => {
                    let inside = access.len - left + inside;
                    return self.wild(access, addr, Wild::BehindBuffer { inside });
                }
                other => {
                    in_buffer = false;
                    match self.map.mappings_at(addr).map(|mapping| mapping.start + mapping.len - addr).max() {
                        Some(mapped) => mapped.min(left),
                        None if other == Buffer::Freed => return self.wild(access, addr, Wild::FreedBuffer),
                        None => return self.wild(access, addr, Wild::Unowned),
                    }
                }
            };
            left -= step;
            addr = addr.wrapping_add(step);
        }
        None
    }

    /// A finding, unless a pool gave the driver that memory: then the pool's mistake is known already.
    #[cold]
    fn wild(&self, access: &DriverAccess, addr: u64, wild: Wild) -> Option<Box<Finding>> {
        let given = self.pools.iter().any(|pool| pool.strays_to(addr));
        (!given).then(|| Box::new(Finding::DriverWildAccess { access: *access, wild }))
    }

    #[cold]
    fn wrong_of_driver(&self, page: &PoolPage, addr: u64, left: u64, access: &DriverAccess) -> Option<Box<Finding>> {
        if self.pools.iter().any(|pool| pool.strays_to(addr)) {
            return None;
        }
        let (access, pool) = (*access, self.pools[page.pool].name.clone());
        let damaged = || self.damaged(page, addr, left, access.kind);
        Some(Box::new(match self.in_page(page, addr) {
            InPage::Crosses { owner, inside } => {
                let inside = access.len - left + inside;
                Finding::DriverCrossesBlocks { access, pool, owner, inside, damaged: damaged() }
            }
            InPage::Free { state, offset } => {
                Finding::DriverUseAfterFree { access, pool, state, offset, damaged: damaged() }
            }
            InPage::NoBlock => {
                Finding::DriverWildAccess { access, wild: Wild::PoolMemory { pool, damaged: damaged() } }
            }
        }))
    }

    /// Records what a wrong write did to pools, over its whole length: what they do afterwards is not their fault.
    #[cold]
    pub(super) fn tampered(&mut self, addr: u64, len: u64, write: &str, data: &[u8]) {
        let end = addr.saturating_add(len);
        let Self { map, pools, .. } = self;
        for page in map.pool_pages().filter(|page| page.base < end && addr < page.base + page.len) {
            let pool = &mut pools[page.pool];
            let tampering = pool.tampering(page, addr, end - addr);
            if let Some((block, offset)) = tampering.first {
                let damaged = over(&tampering.damaged);
                let words = format!("{write}, byte {offset} of the free block at {block:#x}{damaged}");
                pool.damages.add(words, data, pool.allocations);
            }
            tampering.written.into_iter().for_each(|(start, len)| pool.dirt.add(start, len));
        }
    }
}
