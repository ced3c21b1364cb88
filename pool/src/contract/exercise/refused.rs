//! Wrong frees. A pool need not notice them; one that refuses them is as it was before.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Exercise;
use crate::finding::Promise;
use crate::pool::{Block, Flags, Geometry, Pool};

/// Blocks that are taken after a refusal: more than are free twice.
const AFTERWARDS: usize = 3;

/// A wrong free.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Double,
    Foreign,
    Interior,
    Mismatched,
}

/// A pool with a block in use and one that was freed.
struct Used {
    pool: Box<dyn Pool>,
    live: Block,
    freed: Block,
}

/// How a pool goes on.
#[derive(Debug, PartialEq, Eq)]
struct Afterwards {
    /// Different blocks that it hands out, and the live one.
    apart: usize,
    /// Of those, how many it takes back.
    taken_back: usize,
    /// Whether it is not destroyed while the live one is in use, and keeps that one's page.
    stays: bool,
}

impl Exercise<'_> {
    /// Every kind of wrong free, each on a pool of its own; what is refused changes nothing. Pools without a ledger: it would
    /// hold the driver responsible for what comes after a wrong free.
    pub(super) fn refused_frees(&mut self, geometry: Geometry) {
        // A pool that is destroyed with a block in use may keep its pages.
        let before = self.probe.outstanding();
        self.each_refused_free(geometry);
        self.probe.take_back_all_but(&before);
    }

    fn each_refused_free(&mut self, geometry: Geometry) {
        let Some(untouched) = self.used(geometry).map(|used| self.afterwards(&used)) else { return };
        for wrong in [Wrong::Double, Wrong::Foreign, Wrong::Interior, Wrong::Mismatched] {
            let (Some(used), Some(other)) = (self.used(geometry), self.used(geometry)) else { return };
            let Used { live, freed, .. } = used;
            let block = match wrong {
                Wrong::Double => freed,
                Wrong::Foreign => other.live,
                Wrong::Interior if geometry.size == 1 => continue,
                Wrong::Interior => Block { cpu: live.cpu.offset(1), dma: live.dma.offset(1) },
                Wrong::Mismatched => Block { cpu: freed.cpu, dma: live.dma },
            };
            let Err(refusal) = used.pool.free(block) else { continue };
            let seen = self.afterwards(&used);
            self.expect(Promise::Unwind, seen == untouched, format_args!("{geometry:?}, a wrong free"), || {
                format!(
                    "the pool refused ({refusal}), and then was {seen:?}; a pool that refused nothing is {untouched:?}"
                )
            });
        }
    }

    /// `None` for a pool that does not come that far: that is found elsewhere.
    fn used(&self, geometry: Geometry) -> Option<Used> {
        let pool = (self.policy.create)(Arc::clone(self.memory), Arc::clone(&self.source), geometry).ok()?;
        let (live, freed) = (pool.alloc(Flags::KERNEL).ok()?, pool.alloc(Flags::KERNEL).ok()?);
        pool.free(freed).ok()?;
        Some(Used { pool, live, freed })
    }

    fn afterwards(&self, used: &Used) -> Afterwards {
        let Used { pool, live, .. } = used;
        let more: Vec<Block> = (0..AFTERWARDS).map_while(|_| pool.alloc(Flags::KERNEL).ok()).collect();
        let apart = more.iter().chain([live]).map(|block| block.dma).collect::<BTreeSet<_>>().len();
        let taken_back = more.into_iter().filter(|&block| pool.free(block).is_ok()).count();
        let stays = pool.destroy().is_err() && self.probe.is_out(live.dma);
        Afterwards { apart, taken_back, stays }
    }
}
