//! What is done to a pool while the clock runs.

use std::hint::black_box;
use std::panic::resume_unwind;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, Measured};
use crate::clock::{THREAD_TIME, thread_time};
use crate::error::BenchError;
use crate::random::picks;
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
    pub(crate) fn time<P: Measured + ?Sized>(self, pool: &P, set: &Set, rounds: u64) -> Result<Duration, BenchError> {
        let blocks = set.blocks();
        pool.enter(|client| {
            let mut held = Vec::with_capacity(blocks);
            rounds_of(client, &mut held, blocks, 1, unused, in_order)?;
            match self {
                Self::DmapoolTest => timed(|| rounds_of(client, &mut held, blocks, rounds, unused, in_order)),
                Self::Written => timed(|| rounds_of(client, &mut held, blocks, rounds, written, in_order)),
                Self::RandomFree => {
                    let picks = picks(blocks, SEED);
                    timed(|| {
                        rounds_of(client, &mut held, blocks, rounds, unused, |client, held| {
                            picked(client, held, &picks)
                        })
                    })
                }
                Self::Outstanding => timed(|| ring(client, blocks as u64 * rounds)),
                Self::TwoThreads => two_threads(pool, blocks / 2, rounds),
            }
        })
    }
}

fn timed(work: impl FnOnce() -> Result<(), BenchError>) -> Result<Duration, BenchError> {
    let begin = thread_time()?;
    work()?;
    Ok(thread_time()?.saturating_sub(begin))
}

/// So many rounds of: all blocks allocated and `used`, then all freed by `free`.
fn rounds_of<C: Client>(
    client: &C,
    held: &mut Vec<C::Held>,
    blocks: usize,
    rounds: u64,
    used: impl Fn(&C, &C::Held) -> Result<(), BenchError>,
    free: impl Fn(&C, &mut Vec<C::Held>) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    for _ in 0..rounds {
        for _ in 0..blocks {
            let block = client.alloc().map_err(Into::into)?;
            used(client, &block)?;
            held.push(block);
        }
        free(client, black_box(held))?;
    }
    Ok(())
}

fn unused<C: Client>(_client: &C, _block: &C::Held) -> Result<(), BenchError> {
    Ok(())
}

fn written<C: Client>(client: &C, block: &C::Held) -> Result<(), BenchError> {
    client.write(block)
}

fn in_order<C: Client>(client: &C, held: &mut Vec<C::Held>) -> Result<(), BenchError> {
    held.drain(..).try_for_each(|block| client.free(block).map_err(Into::into))
}

fn picked<C: Client>(client: &C, held: &mut Vec<C::Held>, picks: &[usize]) -> Result<(), BenchError> {
    picks.iter().try_for_each(|&pick| client.free(held.swap_remove(pick)).map_err(Into::into))
}

/// So many pairs, each of the oldest block's free and another block's allocation.
fn ring<C: Client>(client: &C, pairs: u64) -> Result<(), BenchError> {
    let mut held: [Option<C::Held>; OUTSTANDING] = [const { None }; OUTSTANDING];
    for place in &mut held {
        *place = Some(client.alloc().map_err(Into::into)?);
    }
    for pair in 0..pairs {
        let place = &mut held[pair as usize % OUTSTANDING];
        if let Some(oldest) = place.take() {
            client.free(oldest).map_err(Into::into)?;
        }
        let block = client.alloc().map_err(Into::into)?;
        client.write(&block)?;
        *place = Some(block);
    }
    black_box(held).into_iter().flatten().try_for_each(|block| client.free(block).map_err(Into::into))
}

/// From when the first thread begins until the last has done its rounds; both begin when both are ready.
fn two_threads<P: Measured + ?Sized>(pool: &P, blocks: usize, rounds: u64) -> Result<Duration, BenchError> {
    let ready = Barrier::new(2);
    let work = || {
        pool.enter(|client| {
            let mut held = Vec::with_capacity(blocks);
            ready.wait();
            let begin = Instant::now();
            rounds_of(client, &mut held, blocks, rounds, unused, in_order)?;
            Ok((begin, Instant::now()))
        })
    };
    let [(begin, end), (other_begin, other_end)] = thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        let [one, other] = threads.map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        Ok::<_, BenchError>([one?, other?])
    })?;
    Ok(end.max(other_end) - begin.min(other_begin))
}
