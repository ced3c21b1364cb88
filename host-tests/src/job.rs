//! The work behind one row of a check, in pieces that any thread can do.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pool::Policy;
use pool::contract::{Config, Part};

use crate::bench::Bench;
use crate::check::CheckOptions;
use crate::contract;
use crate::error::BenchError;
use crate::row::Row;
use crate::run::Run;
use crate::scenario::Scenario;
use crate::schedule::Swept;

/// What a row is made of.
pub(crate) enum Job {
    Contract { policy: Box<Policy>, config: Box<Config>, parts: Vec<Part> },
    Runs { scenario: Box<dyn Scenario>, benches: Vec<Bench> },
}

/// What came of a piece.
enum Done {
    Part(pool::contract::Report, Duration),
    Swept(Box<Swept>),
}

/// What the panic of a piece said.
type Panic = String;

/// How a piece ended.
type Outcome = Result<Result<Done, BenchError>, Panic>;

/// A job, and what its pieces have come to.
pub(crate) struct Assembly {
    job: Job,
    /// By piece.
    done: Mutex<Vec<Option<Outcome>>>,
    left: AtomicUsize,
}

impl Job {
    pub(crate) fn contract(policy: Policy, seed: u64) -> Self {
        let config = Config { seed, ..Config::default() };
        let parts = config.parts();
        Self::Contract { policy: Box::new(policy), config: Box::new(config), parts }
    }

    /// The row that it makes, for people.
    fn name(&self) -> String {
        match self {
            Self::Contract { policy, .. } => format!("{} · {}", policy.name, contract::SCENARIO),
            Self::Runs { scenario, benches } => format!("{} · {}", benches[0].policy.name, scenario.name()),
        }
    }

    fn piece(&self, piece: usize, options: &CheckOptions) -> Result<Done, BenchError> {
        match self {
            Self::Contract { policy, config, parts } => {
                let begin = Instant::now();
                let report = pool::contract::run_part(policy, config, parts[piece]);
                Ok(Done::Part(report, begin.elapsed()))
            }
            Self::Runs { scenario, benches } => {
                let fewest = benches.iter().map(|bench| bench.variant().endpoints).min();
                let swept_here = Some(benches[piece].variant().endpoints) == fewest;
                let sweep = if swept_here { options.schedules } else { options.schedules.sampled() };
                benches[piece].sweep(&**scenario, sweep).map(|swept| Done::Swept(Box::new(swept)))
            }
        }
    }

    fn row(&self, done: Vec<Done>, options: &CheckOptions) -> Row {
        match self {
            Self::Contract { policy, config, .. } => {
                let parts = done.into_iter().filter_map(|done| match done {
                    Done::Part(report, wall_time) => Some((report, wall_time)),
                    Done::Swept(_) => None,
                });
                contract::row(policy, config.seed, parts)
            }
            Self::Runs { benches, .. } => {
                let (mut runs, mut count): (Vec<Run>, _) = (Vec::new(), 0);
                let mut sweeps = Vec::new();
                for done in done {
                    let Done::Swept(swept) = done else { continue };
                    count += 1 + swept.schedules;
                    sweeps.extend(swept.covered());
                    runs.push(swept.plain);
                    runs.extend(swept.broken);
                }
                sweeps.dedup();
                let schedules = (!sweeps.is_empty()).then(|| sweeps.join(", "));
                let scope = |variants: &[_]| benches[0].scope(variants, schedules.as_deref());
                Row::of(&runs, count, scope, options.excuse)
            }
        }
    }
}

impl Assembly {
    pub(crate) fn new(job: Job) -> Self {
        let pieces = match &job {
            Job::Contract { parts, .. } => parts.len(),
            Job::Runs { benches, .. } => benches.len(),
        };
        let done = Mutex::new((0..pieces).map(|_| None).collect());
        Self { job, done, left: AtomicUsize::new(pieces) }
    }

    pub(crate) fn pieces(&self) -> usize {
        self.done.lock().len()
    }

    /// Does a piece. Returns whether it was the last one.
    pub(crate) fn work(&self, piece: usize, options: &CheckOptions) -> bool {
        // A pool that panics takes its own row with it, and no other.
        let done = catch_unwind(AssertUnwindSafe(|| self.job.piece(piece, options)));
        self.done.lock()[piece] = Some(done.map_err(|panic| words(&*panic).to_owned()));
        self.left.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// The row, or what the first piece that panicked said.
    pub(crate) fn row(self, options: &CheckOptions) -> Result<Result<Row, Panic>, BenchError> {
        let Self { job, done, .. } = self;
        let mut pieces = Vec::new();
        for done in done.into_inner().into_iter().flatten() {
            match done {
                Ok(piece) => pieces.push(piece?),
                Err(panic) => return Ok(Err(format!("{}: {panic}", job.name()))),
            }
        }
        Ok(Ok(job.row(pieces, options)))
    }
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}
