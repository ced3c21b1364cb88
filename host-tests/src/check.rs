//! A check: pools × scenarios, on all processors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bus::CpuAddr;
use pool::{PageOrder, Policy};

use crate::bench::Bench;
use crate::contract;
use crate::driver::Driver;
use crate::errata::Erratum;
use crate::error::BenchError;
use crate::job::{Assembly, Job};
use crate::record::Status;
use crate::row::Row;
use crate::scenario::{self, Scenario};
use crate::schedule::Sweep;
use crate::sides;
use crate::spans::CPU_BASE;

/// Endpoint numbers that a check tries unless it is told otherwise.
pub const ENDPOINTS: [u8; 3] = [4, 8, 16];

/// What to check.
#[derive(Clone)]
pub struct CheckOptions {
    /// The pools.
    pub pools: Vec<Policy>,
    /// Names of scenarios, [`CONTRACT`](crate::CONTRACT) among them; empty for all.
    pub scenarios: Vec<String>,
    /// The driver under test. Naming one tests it: scenarios with a client of their own are left out unless they are named.
    pub driver: Option<Driver>,
    /// Endpoint numbers of the controller; empty for [`ENDPOINTS`].
    pub endpoints: Vec<u8>,
    /// Page size in bytes.
    pub page_size: u64,
    /// Which free page comes first.
    pub page_order: PageOrder,
    /// The processor's address of memory.
    pub cpu_base: CpuAddr,
    /// Seed of everything that is chosen at random.
    pub seed: u64,
    /// The schedules of scenarios that are raced. All are tried with the fewest endpoints only, as a race does not see
    /// the others; the rest gets a sample.
    pub schedules: Sweep,
    /// What is wrong with the controller.
    pub errata: Vec<Erratum>,
    /// Whether the driver works around it.
    pub workarounds: bool,
    /// Whether recorded defects are excused.
    pub excuse: bool,
}

impl Default for CheckOptions {
    /// Everything.
    fn default() -> Self {
        Self {
            pools: pool::policy::table(),
            scenarios: Vec::new(),
            driver: None,
            endpoints: Vec::new(),
            page_size: 4096,
            page_order: PageOrder::Forward,
            cpu_base: CPU_BASE,
            seed: 0,
            schedules: Sweep::default(),
            errata: Vec::new(),
            workarounds: true,
            excuse: true,
        }
    }
}

/// A check's result.
#[derive(Clone, Debug)]
pub struct Report {
    /// Rows by pool, then by scenario, the pool's own contract first.
    pub rows: Vec<Row>,
    /// Rows that are missing because something panicked: in the pool, or in poolproof itself.
    pub panics: Vec<String>,
    /// Wall time of the whole.
    pub wall_time: Duration,
}

impl Report {
    /// Whether anything is broken that is not on record.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.rows.iter().any(|row| row.status == Status::Broken)
    }
}

/// Runs a check. `progress` is called with (done, all) rows, from any thread.
///
/// # Errors
/// [`BenchError`] if a bench cannot be set up.
pub fn check(options: &CheckOptions, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Report, BenchError> {
    let begin = Instant::now();
    let jobs: Vec<Assembly> = jobs(options)?.into_iter().map(Assembly::new).collect();
    let pieces: Vec<(&Assembly, usize)> =
        jobs.iter().flat_map(|job| (0..job.pieces()).map(move |piece| (job, piece))).collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some((job, piece)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            if job.work(*piece, options) {
                progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
            }
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(pieces.len());
        for _ in 1..threads {
            // Without a further thread this one does all the work.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    let (mut rows, mut panics) = (Vec::new(), Vec::new());
    for job in jobs {
        match job.row(options)? {
            Ok(row) => rows.push(row),
            Err(panic) => panics.push(panic),
        }
    }
    Ok(Report { rows, panics, wall_time: begin.elapsed() })
}

fn jobs(options: &CheckOptions) -> Result<Vec<Job>, BenchError> {
    let endpoints = if options.endpoints.is_empty() { &ENDPOINTS[..] } else { &options.endpoints };
    let wanted = |scenario: &dyn Scenario| {
        let apart = options.driver.is_some() && scenario.client().is_some();
        let named = options.scenarios.iter().any(|name| name == scenario.name());
        named || (options.scenarios.is_empty() && !apart)
    };
    let table = scenario::table();
    let known: Vec<&str> = table.iter().map(|scenario| scenario.name()).chain([contract::SCENARIO]).collect();
    if let Some(unknown) = options.scenarios.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(BenchError::UnknownScenario { name: unknown.clone(), known: known.join(", ") });
    }
    if options.pools.is_empty() {
        return Err(BenchError::Nothing("pool"));
    }
    let mut jobs = Vec::new();
    let contract = options.scenarios.is_empty() || options.scenarios.iter().any(|name| name == contract::SCENARIO);
    for policy in &options.pools {
        if contract {
            jobs.push(Job::contract(policy.clone(), options.seed));
        }
        for scenario in scenario::table().into_iter().filter(|scenario| wanted(&**scenario)) {
            let benches = benches(options, policy, endpoints, &*scenario);
            // What cannot be set up is refused before anything runs.
            benches.iter().try_for_each(|bench| bench.validate(scenario.name(), scenario.needs()))?;
            jobs.push(Job::Runs { scenario, benches });
        }
    }
    Ok(jobs)
}

/// The benches of a scenario: one if it has a device of its own.
fn benches(options: &CheckOptions, policy: &Policy, endpoints: &[u8], scenario: &dyn Scenario) -> Vec<Bench> {
    let driver = options.driver.clone().unwrap_or_else(sides::linux);
    let any = Bench::new()
        .pool(policy.clone())
        .built_in_driver(driver)
        .page_size(options.page_size)
        .page_order(options.page_order)
        .cpu_base(options.cpu_base)
        .seed(options.seed)
        .errata(options.errata.iter().copied())
        .workarounds(options.workarounds)
        .of_scenario(scenario);
    if scenario.client().is_some() {
        return vec![any];
    }
    let variants =
        endpoints.iter().flat_map(|&endpoints| scenario.speeds().iter().map(move |&speed| (endpoints, speed)));
    variants.map(|(endpoints, speed)| any.clone().endpoints(endpoints).speed(speed)).collect()
}
