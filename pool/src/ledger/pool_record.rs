//! What the ledger knows of a pool.

use std::collections::BTreeSet;

use bus::DmaAddr;

use super::damage::Damages;
use super::dirt::Dirt;
use super::pool_page::{BlockRecord, PoolPage};
use crate::finding::{BlockState, Finding, Promise};
use crate::pool::{Block, Geometry, Metadata};

/// A pool, what was asked of it, and what others did to it.
pub(super) struct PoolRecord {
    pub(super) name: String,
    metadata: Metadata,
    pub(super) size: u64,
    pub(super) align: u64,
    pub(super) boundary: u64,
    /// From one block to the next, if blocks lie as dma_pool lays them out.
    pub(super) distance: u64,
    loses_last: bool,
    pub(super) first: Vec<DmaAddr>,
    /// Blocks in use that lie in no page of the pool.
    pub(super) strays: BTreeSet<u64>,
    pub(super) pages: usize,
    pub(super) state: PoolState,
    /// Blocks were in use when it went: pages that it kept are theirs.
    pub(super) in_use_at_end: bool,
    /// That it kept pages was found already.
    pub(super) leak_found: bool,
    /// Accesses of devices to its live blocks.
    pub(super) accesses: u64,
    /// How often it handed out a block.
    pub(super) allocations: u64,
    /// The writes that were seen to hit the pool's own data.
    pub(super) damages: Damages,
    /// What devices and the driver wrote outside of live blocks.
    pub(super) dirt: Dirt,
    /// The driver freed what was not its to free.
    pub(super) misused: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolState {
    InUse,
    /// Its pages may go, whoever holds blocks in them.
    Ending,
    /// The record may be used again.
    Gone,
}

/// What a write did to a page outside of live blocks.
#[derive(Default)]
pub(super) struct Tampering {
    /// The pool's own data that it hit.
    pub(super) damaged: Vec<&'static str>,
    /// The first free block whose part of that it hit: where it begins, and the write's first byte in it.
    pub(super) first: Option<(u64, u64)>,
    /// First byte and length of what was written.
    pub(super) written: Vec<(u64, u64)>,
}

/// A place of a page as dma_pool cuts it.
struct Place {
    start: u64,
    /// Where the next place begins.
    next: u64,
    /// Whether a whole block fits there, and the policy does not lose it.
    is_block: bool,
}

impl PoolRecord {
    pub(super) fn new(name: &str, metadata: Metadata, loses_last: bool, smallest: u64, geometry: Geometry) -> Self {
        let align = geometry.align.max(1);
        let distance = geometry.size.max(smallest).max(1);
        Self {
            name: name.to_owned(),
            metadata,
            size: geometry.size.max(1),
            align,
            boundary: geometry.boundary,
            // Wrong geometries come here too, before the policy refuses them.
            distance: distance.checked_next_multiple_of(align).unwrap_or(distance),
            loses_last,
            first: Vec::new(),
            strays: BTreeSet::new(),
            pages: 0,
            state: PoolState::InUse,
            in_use_at_end: false,
            leak_found: false,
            accesses: 0,
            allocations: 0,
            damages: Damages::default(),
            dirt: Dirt::default(),
            misused: false,
        }
    }

    /// The finding for a broken promise: the pool's own fault only if nobody was seen to tamper with it before.
    pub(super) fn broken(&self, promise: Promise, block: Block, seen: String) -> Finding {
        let pool = self.name.clone();
        if self.misused {
            let seen = format!("it freed wrongly before, and now the pool breaks {promise:?}: {seen}");
            Finding::WrongFree { pool, block, seen }
        } else if let Some((written, allocations)) = self.damages.behind(block, self.allocations) {
            Finding::AttackerAddress { pool, block, promise, seen, written, allocations }
        } else {
            Finding::PoolContract { pool, promise, seen }
        }
    }

    /// Whether one of its live blocks outside of its pages contains the address.
    pub(super) fn strays_to(&self, addr: u64) -> bool {
        self.strays.range(..=addr).next_back().is_some_and(|&start| addr - start < self.size)
    }

    fn place(&self, page: &PoolPage, addr: u64) -> Place {
        let unlimited = if self.boundary == 0 { page.len } else { self.boundary };
        let boundary = unlimited.min(page.len);
        let offset = addr - page.base;
        let within = offset % boundary;
        let first = within - within % self.distance;
        let end = first.saturating_add(self.distance);
        let lost = self.loses_last && first > 0 && end == unlimited;
        let fits = end <= boundary && (offset - within).saturating_add(end) <= page.len;
        let start = addr - within % self.distance;
        Place { start, next: start - first + end.min(boundary), is_block: fits && !lost }
    }

    /// The state of the free block that `addr` is in, and where that block begins.
    ///
    /// `None` for memory in no block. Of what was never handed out, only a pool that keeps its own data there is known to
    /// have cut blocks.
    pub(super) fn free_block(
        &self,
        page: &PoolPage,
        block: Option<&BlockRecord>,
        addr: u64,
    ) -> Option<(BlockState, u64)> {
        if let Some(&BlockRecord { start, owner, generation, .. }) = block {
            return Some((BlockState::Freed { owner, generation }, start));
        }
        let place = self.place(page, addr);
        let cut = place.is_block && matches!(self.metadata, Metadata::InBlock(_));
        cut.then_some((BlockState::NeverAllocated, place.start))
    }

    /// What a write to `len` bytes at `addr` does to this page outside of live blocks.
    pub(super) fn tampering(&self, page: &PoolPage, addr: u64, len: u64) -> Tampering {
        let fields = match self.metadata {
            Metadata::OutOfBand => &[][..],
            Metadata::InBlock(fields) => fields,
        };
        let end = addr.saturating_add(len).min(page.base + page.len);
        let begin = addr.max(page.base);
        let hit = |from: u64, len: u64| from < end && begin < from.saturating_add(len);
        let mut tampering = Tampering::default();
        let mut at = begin;
        // Ends: every round begins a place further on, within a page.
        while at < end {
            let block = page.block(at);
            let Place { start, next, is_block } = block.map_or_else(
                || self.place(page, at),
                |block| Place { start: block.start, next: block.start.saturating_add(self.distance), is_block: true },
            );
            let live = block.is_some_and(BlockRecord::is_live);
            let next = next.max(at + 1).min(end);
            if !live {
                tampering.written.push((at, next - at));
                for field in fields.iter().filter(|field| is_block && hit(start + field.start, field.len)) {
                    tampering.first.get_or_insert((start, at - start));
                    if !tampering.damaged.contains(&field.name) {
                        tampering.damaged.push(field.name);
                    }
                }
            }
            at = next;
        }
        tampering
    }
}
