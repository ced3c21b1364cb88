//! A pool that others have used before the driver comes, and share with it.

use std::fmt;
use std::ops::Range;

use bus::{Kind, Owner};
use parking_lot::Mutex;

use crate::error::AllocError;
use crate::ledger::Ledger;
use crate::page::split_mix;
use crate::pool::{Block, Flags};
use crate::watched::DmaPool;

/// A block that others hold of a pool that they share with the driver.
pub static NEIGHBOUR: Kind =
    Kind { name: "neighbour", label: |index, f: &mut fmt::Formatter<'_>| write!(f, "block {index} of another user") };

/// Pages that others have used.
const PAGES: usize = 3;
/// Blocks that they hold at a time, at least and at most: enough for three pages of 4 KiB with the smallest descriptors.
const HELD: Range<usize> = 24..200;
/// Allocations and frees after that for each block that is held.
const TURNS: usize = 4;
/// Of so many blocks one stays with them.
const STAYS: u64 = 4;

/// The others' blocks.
#[derive(Default)]
pub(crate) struct Neighbours(Mutex<Vec<Block>>);

impl Neighbours {
    /// Others take blocks of `pool`, give some back and take others, in an order by `seed`; in the end they hold a quarter.
    pub(crate) fn settle(pool: &DmaPool, ledger: &Ledger, seed: u64) -> Result<Self, AllocError> {
        let neighbours = Self::default();
        let mut random = seed;
        match neighbours.live(pool, &mut random) {
            Ok(()) => {}
            Err(error) => {
                neighbours.leave(pool);
                return Err(error);
            }
        }
        for (index, block) in neighbours.0.lock().iter().enumerate() {
            ledger.claim(block.dma, 1, Owner::new(&NEIGHBOUR, index as u32));
        }
        Ok(neighbours)
    }

    fn live(&self, pool: &DmaPool, random: &mut u64) -> Result<(), AllocError> {
        let mut blocks = self.0.lock();
        while blocks.len() < HELD.start || (pool.pages() < PAGES && blocks.len() < HELD.end) {
            blocks.push(pool.alloc(Flags::KERNEL)?);
        }
        let most = blocks.len();
        let free_one = |blocks: &mut Vec<Block>, random: &mut u64| {
            let index = split_mix(random) % blocks.len().max(1) as u64;
            // They free what they hold: a pool that does not take it back is found by the ledger.
            let _ = pool.free(blocks.swap_remove(index as usize));
        };
        for _ in 0..TURNS * most {
            if blocks.len() <= most / 2 || (blocks.len() < most && split_mix(random) & 1 == 0) {
                blocks.push(pool.alloc(Flags::KERNEL)?);
            } else {
                free_one(&mut blocks, random);
            }
        }
        while blocks.len() as u64 > most as u64 / STAYS {
            free_one(&mut blocks, random);
        }
        Ok(())
    }

    /// They give back what they hold.
    pub(crate) fn leave(&self, pool: &DmaPool) {
        for block in self.0.lock().drain(..) {
            // As above.
            let _ = pool.free(block);
        }
    }
}
