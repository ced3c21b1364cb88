//! What is done to a pool while the clock runs.

use std::hint::black_box;
use std::panic::resume_unwind;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use bus::{CpuAddr, DmaAddr};
use pool::{AllocError, Block, Flags, FreeError, Pool};

use crate::clock::{THREAD_TIME, thread_time};
use crate::error::BenchError;
use crate::memory::Contents;
use crate::random::shuffled;
use crate::sets::Set;

/// Blocks outstanding at once in [`Procedure::Outstanding`], as a device's queue has them.
const OUTSTANDING: usize = 32;

/// Seed of the order in [`Procedure::RandomFree`].
const SEED: u64 = 7;

/// What is timed. Creating the pool, its growth and destroying it are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// The kernel's own.
    DmapoolTest,
    /// With the first use of each block, which what is in cache of it makes cheaper.
    Written,
    /// Neighbours on the free list are no neighbours in memory.
    RandomFree,
    /// Few blocks, used at once and again.
    Outstanding,
    /// The lock is contended.
    TwoThreads,
}

/// A pool of any kind in the loops that are timed: each kind has its own copy of them.
pub(crate) trait Allocator: Sync {
    fn alloc(&self) -> Result<Block, AllocError>;
    fn free(&self, block: Block) -> Result<(), FreeError>;
}

/// As every client of a Rust pool calls it.
impl Allocator for dyn Pool {
    #[inline]
    fn alloc(&self) -> Result<Block, AllocError> {
        Self::alloc(self, Flags::KERNEL)
    }

    #[inline]
    fn free(&self, block: Block) -> Result<(), FreeError> {
        Self::free(self, block)
    }
}

impl Procedure {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::DmapoolTest, Self::Written, Self::RandomFree, Self::Outstanding, Self::TwoThreads];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DmapoolTest => "dmapool-test",
            Self::Written => "written",
            Self::RandomFree => "random-free",
            Self::Outstanding => "outstanding-32",
            Self::TwoThreads => "two-threads",
        }
    }

    /// What it does, in one line.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::DmapoolTest => "all blocks allocated, then all freed in the same order, as dmapool_test does",
            Self::Written => "the same, and each block is written as a whole when it was allocated",
            Self::RandomFree => "all blocks allocated, then all freed in random order (seed 7)",
            Self::Outstanding => "32 blocks in use: the oldest is freed, another allocated and written as a whole",
            Self::TwoThreads => "two threads on one pool, each allocates half of the blocks and frees them",
        }
    }

    /// What it is measured by.
    #[must_use]
    pub const fn clock(self) -> &'static str {
        if self.is_single_threaded() { THREAD_TIME } else { "wall time" }
    }

    /// Whether one thread does it all, so that its instructions can be counted.
    #[must_use]
    pub const fn is_single_threaded(self) -> bool {
        !matches!(self, Self::TwoThreads)
    }

    /// Does it for `rounds` rounds, after an untimed one in which the pool grows.
    pub(crate) fn time<A: Allocator + ?Sized>(
        self,
        pool: &A,
        contents: &Contents<'_>,
        set: &Set,
        rounds: u64,
    ) -> Result<Duration, BenchError> {
        let mut held = vec![NONE; set.blocks()];
        let ascending = |held: &[Block]| held.iter().try_for_each(|&block| Ok(pool.free(block)?));
        repeat(pool, &mut held, 1, |_| Ok(()), ascending)?;
        let unused = |_| Ok(());
        match self {
            Self::DmapoolTest => timed(|| repeat(pool, &mut held, rounds, unused, ascending)),
            Self::Written => timed(|| repeat(pool, &mut held, rounds, |block| contents.write(block), ascending)),
            Self::RandomFree => {
                let order = shuffled(held.len(), SEED);
                let free = |held: &[Block]| order.iter().try_for_each(|&index| Ok(pool.free(held[index])?));
                timed(|| repeat(pool, &mut held, rounds, unused, free))
            }
            Self::Outstanding => timed(|| ring(pool, contents, held.len() as u64 * rounds)),
            Self::TwoThreads => two_threads(pool, &mut held, rounds),
        }
    }
}

fn timed(work: impl FnOnce() -> Result<(), BenchError>) -> Result<Duration, BenchError> {
    let begin = thread_time()?;
    work()?;
    Ok(thread_time()?.saturating_sub(begin))
}

/// Before the first allocation.
const NONE: Block = Block { cpu: CpuAddr(0), dma: DmaAddr(0) };

/// So many rounds of: every block allocated and `used`, then all freed by `free`.
fn repeat<A: Allocator + ?Sized>(
    pool: &A,
    held: &mut [Block],
    rounds: u64,
    used: impl Fn(Block) -> Result<(), BenchError>,
    free: impl Fn(&[Block]) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    for _ in 0..rounds {
        for place in &mut *held {
            *place = pool.alloc()?;
            used(*place)?;
        }
        free(black_box(&*held))?;
    }
    Ok(())
}

/// So many pairs, each of the oldest block's free and another block's allocation.
fn ring<A: Allocator + ?Sized>(pool: &A, contents: &Contents<'_>, pairs: u64) -> Result<(), BenchError> {
    let mut held = [NONE; OUTSTANDING];
    for place in &mut held {
        *place = pool.alloc()?;
    }
    for place in (0..OUTSTANDING).cycle().take(usize::try_from(pairs).unwrap_or(usize::MAX)) {
        pool.free(held[place])?;
        held[place] = pool.alloc()?;
        contents.write(held[place])?;
    }
    Ok(black_box(held).into_iter().try_for_each(|block| pool.free(block))?)
}

/// From when both threads are ready until the last has done its rounds.
fn two_threads<A: Allocator + ?Sized>(pool: &A, held: &mut [Block], rounds: u64) -> Result<Duration, BenchError> {
    let ready = Barrier::new(2);
    let work = |held: &mut [Block]| {
        ready.wait();
        let begin = Instant::now();
        let free = |held: &[Block]| held.iter().try_for_each(|&block| Ok(pool.free(block)?));
        repeat(pool, held, rounds, |_| Ok(()), free)?;
        Ok::<_, BenchError>((begin, Instant::now()))
    };
    let (one, other) = held.split_at_mut(held.len() / 2);
    thread::scope(|scope| {
        let spawned = scope.spawn(|| work(one));
        let (begin, end) = work(other)?;
        let (spawned_begin, spawned_end) = spawned.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        Ok(end.max(spawned_end) - begin.min(spawned_begin))
    })
}
