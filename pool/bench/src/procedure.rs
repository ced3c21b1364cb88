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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::convert::Infallible;
    use std::sync::Mutex;

    use super::*;

    /// What a client did, in its order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Step {
        Alloc(u64),
        Write(u64),
        Free(u64),
    }

    /// A pool whose blocks are numbers, the lowest free one first.
    #[derive(Default)]
    struct Numbers {
        in_use: Mutex<BTreeSet<u64>>,
        free: Mutex<BTreeSet<u64>>,
        steps: Mutex<Vec<Step>>,
        threads: Mutex<Vec<thread::ThreadId>>,
    }

    impl Measured for Numbers {
        type Client<'a> = Self;

        fn enter<T>(&self, body: impl FnOnce(&Self) -> Result<T, BenchError>) -> Result<T, BenchError> {
            self.threads.lock().expect("no panic").push(thread::current().id());
            body(self)
        }
    }

    impl Client for Numbers {
        type Held = u64;
        type AllocError = Infallible;
        type FreeError = Infallible;

        fn alloc(&self) -> Result<u64, Infallible> {
            let mut in_use = self.in_use.lock().expect("no panic");
            let freed = self.free.lock().expect("no panic").pop_first();
            let number = freed.unwrap_or(in_use.len() as u64);
            in_use.insert(number);
            self.steps.lock().expect("no panic").push(Step::Alloc(number));
            Ok(number)
        }

        fn free(&self, block: u64) -> Result<(), Infallible> {
            let mut in_use = self.in_use.lock().expect("no panic");
            assert!(in_use.remove(&block), "{block} is in use");
            self.free.lock().expect("no panic").insert(block);
            self.steps.lock().expect("no panic").push(Step::Free(block));
            Ok(())
        }

        fn write(&self, block: &u64) -> Result<(), BenchError> {
            self.steps.lock().expect("no panic").push(Step::Write(*block));
            Ok(())
        }
    }

    /// The smallest set: 1024 blocks.
    fn set() -> Set {
        "4096".parse().expect("one of the kernel's")
    }

    /// What is timed in two rounds, without the one in which the pool grows.
    fn timed_steps(procedure: Procedure) -> Vec<Step> {
        let pool = Numbers::default();
        procedure.time(&pool, &set(), 2).expect("numbers do not fail");
        assert!(pool.in_use.lock().expect("no panic").is_empty(), "everything was given back");
        let mut steps = pool.steps.into_inner().expect("no panic");
        let growth: Vec<_> = (0..1024).map(Step::Alloc).chain((0..1024).map(Step::Free)).collect();
        assert_eq!(steps[..2048], growth, "{procedure:?}");
        steps.split_off(2048)
    }

    #[test]
    fn dmapool_test_allocates_all_and_frees_all_in_the_same_order() {
        let round: Vec<_> = (0..1024).map(Step::Alloc).chain((0..1024).map(Step::Free)).collect();
        assert_eq!(timed_steps(Procedure::DmapoolTest), [round.clone(), round].concat());
    }

    #[test]
    fn written_writes_each_block_when_it_was_allocated() {
        let allocated = (0..1024).flat_map(|number| [Step::Alloc(number), Step::Write(number)]);
        let round: Vec<_> = allocated.chain((0..1024).map(Step::Free)).collect();
        assert_eq!(timed_steps(Procedure::Written), [round.clone(), round].concat());
    }

    #[test]
    fn random_free_frees_all_in_the_same_random_order_each_round() {
        let steps = timed_steps(Procedure::RandomFree);
        let (first, second) = steps.split_at(2048);
        assert_eq!(first, second);
        let mut freed = first[1024..].to_vec();
        assert_ne!(freed, (0..1024).map(Step::Free).collect::<Vec<_>>());
        freed.sort_unstable_by_key(|step| if let Step::Free(number) = step { *number } else { u64::MAX });
        assert_eq!(freed, (0..1024).map(Step::Free).collect::<Vec<_>>());
    }

    #[test]
    fn outstanding_keeps_32_and_frees_the_oldest() {
        let steps = timed_steps(Procedure::Outstanding);
        assert_eq!(steps[..32], (0..32).map(Step::Alloc).collect::<Vec<_>>());
        let pairs = steps[32..32 + 3 * 2048].chunks(3).enumerate();
        for (pair, steps) in pairs {
            let oldest = pair as u64 % 32;
            assert_eq!(steps, [Step::Free(oldest), Step::Alloc(oldest), Step::Write(oldest)]);
        }
        assert_eq!(steps.len(), 32 + 3 * 2048 + 32);
    }

    #[test]
    fn two_threads_share_the_pool_and_the_blocks() {
        let pool = Numbers::default();
        Procedure::TwoThreads.time(&pool, &set(), 2).expect("numbers do not fail");
        let mut threads = pool.threads.into_inner().expect("no panic");
        threads.dedup();
        assert_eq!(threads.len(), 3, "this one lets the pool grow");
        let steps = pool.steps.into_inner().expect("no panic");
        assert_eq!(steps.len(), 2048 + 2 * 2 * 2 * 512);
    }
}
