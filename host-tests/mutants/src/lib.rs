//! Faults that are put in on purpose, one at a time, and what of poolproof catches each: how sensitive it is.
//!
//! - [`table`]: every [`Mutant`], by name: faults of pools, and of the driver ([`chipidea_driver::Fault`])
//! - [`run`]: takes mutants through what a check runs, beside the same pools and driver without a fault
//! - [`Report`]: what caught each mutant ([`Catch`]), which survived, the score
//!
//! # Pools
//! Two pools, small and right, that consult a fault in a few places: one keeps its free list in the blocks, as Linux does; the
//! other numbers its blocks outside of them and gives idle pages back. A fault is a value, not a copy of the pool. They
//! live here, and not in `pool` or `scenarios`: only the command line and this package's tests depend on `mutants`, so that
//! nobody gets a faulty pool from `pool::policy::table()` or with `scenarios`.
//!
//! A kernel's C file is a pool, too: [`edited`] changes its lines, one fault at a time.
//!
//! # Caught
//! A mutant is caught by a difference to its baseline: a promise of dma_pool, a finding of the ledger, an error that the
//! host sees, a panic, or no end. A baseline in which anything is found makes the whole report broken. A mutant that is
//! known to survive says why; it counts as not caught, and being caught all the same is an error of the table.
//!
//! *Not here*: mutants of the models and the host; faults of a pool that only interrupt context or several processors
//! inside of its lock would show.

mod catalogue;
mod contained;
mod edited;
mod faults;
mod listed;
mod numbered;
mod report;
mod stage;
mod trial;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rayon::prelude::*;
use scenarios::BenchError;

pub use catalogue::{Mutant, baselines, table};
pub use edited::{Edited, edited};
pub use report::Report;
pub use stage::{How, Seen};
pub use trial::{Catch, Outcome, Trial};

/// What to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Goes on with a mutant after its first catch, to show everything that catches it.
    pub all: bool,
    /// What pools are held against before any device.
    pub contract: pool::contract::Config,
    /// Goes no further than that.
    pub contract_only: bool,
    /// Seed of everything that is chosen at random in scenarios.
    pub seed: u64,
}

/// Runs the baselines of these mutants, then the mutants, on all processors. `progress` is called with (done, all), from any
/// thread.
///
/// # Errors
/// [`BenchError`] if a bench cannot be set up.
pub fn run(
    mutants: &[Mutant],
    options: &Options,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Report, BenchError> {
    run_against(mutants, baselines(), options, progress)
}

/// The same with baselines of one's own, such as [`Edited::baseline`].
///
/// # Errors
/// As [`run`].
pub fn run_against(
    mutants: &[Mutant],
    baselines: Vec<Mutant>,
    options: &Options,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Report, BenchError> {
    let begin = Instant::now();
    let needed: Vec<Mutant> = baselines
        .into_iter()
        .filter(|baseline| mutants.iter().any(|mutant| mutant.baseline == baseline.name))
        .collect();
    let (done, all) = (AtomicUsize::new(0), needed.len() + mutants.len());
    let finished = || progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
    let baselines = needed.par_iter().map(|baseline| {
        let trial = trial::baseline(baseline, options);
        finished();
        trial
    });
    let baselines = baselines.collect::<Result<Vec<_>, _>>()?;
    let trials = mutants.par_iter().map(|mutant| {
        let right = baselines.iter().find(|baseline| baseline.mutant.name == mutant.baseline);
        let trial = trial::mutant(mutant, right.map_or(&[], |right| &right.seen), options);
        finished();
        trial
    });
    let trials = trials.collect::<Result<Vec<_>, _>>()?;
    Ok(Report { baselines, mutants: trials, wall_time: begin.elapsed() })
}
