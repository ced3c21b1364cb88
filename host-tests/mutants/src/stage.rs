//! What is done with a mutant, one piece after the other, and what is seen of it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chipidea_driver::{ChipideaUdc, Config};
use pool::{Finding, Policy, Promise, contract, policy};
use scenarios::scenario::{self, Scenario};
use scenarios::{Bench, BenchError, CONTRACT, DriverSide, ENDPOINTS, Run, Speed, Sweep, Variant, Verdict};
use usb::gadget::{UdcDriver, UdcError};

use crate::Options;
use crate::catalogue::{Mutant, Subject};
use crate::contained::{Lost, contained};

/// Wall time of one piece, many times what the longest takes in a debug build on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);
/// Bytes before the data of a buffer of one of the drivers: an skb with its headroom begins no page.
const HEADROOM: u16 = 66;

/// One piece.
pub(crate) enum Stage {
    /// A pool against what dma_pool promises.
    Contract { policy: Policy, config: contract::Config },
    /// One run of a scenario.
    Run { scenario: Arc<dyn Scenario>, bench: Box<Bench>, setting: String },
    /// Every schedule of one step, until one breaks.
    Sweep { scenario: Arc<dyn Scenario>, bench: Box<Bench>, setting: String },
}

/// What was seen of a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The verdict.
    pub verdict: Verdict,
    /// What it rests on first.
    pub how: Option<How>,
    /// Names of all promises that broke, and of all findings.
    pub names: BTreeSet<String>,
}

/// How something was noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// A promise of dma_pool broke: which, and what was seen.
    Promise(Promise, String),
    /// The ledger found something: its name, and what was seen.
    Finding(&'static str, String),
    /// The host or the scenario saw an error, which no finding explains.
    Error(String),
    /// It panicked.
    Panic(String),
    /// It did not end.
    Hang(Duration),
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Promise(promise, seen) => write!(f, "promise {promise:?}: {seen}"),
            Self::Finding(name, seen) => write!(f, "finding {name}: {seen}"),
            Self::Error(error) => write!(f, "error: {error}"),
            Self::Panic(words) => write!(f, "panic: {words}"),
            Self::Hang(limit) => write!(f, "no end after {} s", limit.as_secs()),
        }
    }
}

impl Seen {
    /// Whether nothing was wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        matches!(self.verdict, Verdict::NoFailureFound | Verdict::NotJudged | Verdict::AsDeclared)
    }

    fn clean() -> Self {
        Self { verdict: Verdict::NoFailureFound, how: None, names: BTreeSet::new() }
    }

    fn lost(how: How) -> Self {
        Self { verdict: Verdict::Inconclusive, how: Some(how), names: BTreeSet::new() }
    }

    fn of_report(report: &contract::Report) -> Self {
        let names: BTreeSet<String> = report.broken().map(|(promise, _)| format!("{promise:?}")).collect();
        let first = report.broken().next();
        let how = first.map(|(_, violation)| noticed(&violation.finding));
        let verdict = if how.is_some() { Verdict::PoolContractViolated } else { Verdict::NoFailureFound };
        Self { verdict, how, names }
    }

    fn of_run(run: &Run) -> Self {
        let names = run.findings.iter().map(|finding| finding.name().to_owned()).collect();
        let finding = run.first_finding().map(noticed);
        let how = match run.verdict {
            Verdict::NoFailureFound | Verdict::NotJudged | Verdict::AsDeclared => None,
            Verdict::Inconclusive => run.failure.as_ref().map(|failure| How::Error(failure.to_string())),
            Verdict::ClientAssumptionViolated | Verdict::PoolContractViolated => finding,
        };
        let how = how.or_else(|| run.is_broken().then(|| How::Error(run.reason().join("; "))));
        let raced = run.schedule.as_ref().filter(|schedule| !schedule.steps().is_empty());
        let how = match (how, raced) {
            (Some(How::Error(error)), Some(schedule)) => Some(How::Error(format!("{error}, with {schedule}"))),
            (Some(How::Finding(name, seen)), Some(schedule)) => {
                Some(How::Finding(name, format!("{seen}, with {schedule}")))
            }
            (how, _) => how,
        };
        Self { verdict: run.verdict, how, names }
    }
}

fn noticed(finding: &Finding) -> How {
    match finding {
        Finding::PoolContract { promise, seen, .. } => How::Promise(*promise, seen.clone()),
        _ => How::Finding(finding.name(), finding.to_string()),
    }
}

impl Stage {
    /// Name of the scenario.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Contract { .. } => CONTRACT.0,
            Self::Run { scenario, .. } | Self::Sweep { scenario, .. } => scenario.name(),
        }
    }

    /// What else it takes to do it again.
    pub(crate) fn setting(&self) -> &str {
        match self {
            Self::Contract { .. } => "",
            Self::Run { setting, .. } | Self::Sweep { setting, .. } => setting,
        }
    }

    fn wants_aligned_buffers(&self) -> bool {
        matches!(self, Self::Run { scenario, .. } if scenario.needs().aligned_buffers)
    }

    /// Does it.
    pub(crate) fn look(self, mutant: &str) -> Result<Seen, BenchError> {
        let result = contained(mutant, LIMIT, move || match self {
            Self::Contract { policy, config } => Ok(Seen::of_report(&contract::run(&policy, &config))),
            Self::Run { scenario, bench, .. } => bench.run_scenario(&*scenario).map(|run| Seen::of_run(&run)),
            Self::Sweep { scenario, bench, .. } => {
                let broken = bench.first_broken(&*scenario, Sweep::All)?;
                Ok(broken.as_ref().map_or_else(Seen::clean, Seen::of_run))
            }
        });
        match result {
            Ok(seen) => seen,
            Err(Lost::Panic(words)) => Ok(Seen::lost(How::Panic(words))),
            Err(Lost::Hang(limit)) => Ok(Seen::lost(How::Hang(limit))),
            Err(Lost::NoThread(error)) => Err(BenchError::Runtime(error)),
        }
    }
}

/// Everything that is done with a mutant, in the order in which a check does it.
pub(crate) fn stages(mutant: &Mutant, options: &Options) -> Vec<Stage> {
    let bench = Bench::new().seed(options.seed);
    match &mutant.subject {
        Subject::Pool(policy) => {
            let config = contract::Config { until_broken: !options.all, ..options.contract.clone() };
            let mut stages = vec![Stage::Contract { policy: policy.clone(), config }];
            if !options.contract_only {
                stages.extend(runs(&bench.pool(policy.clone()), ""));
            }
            stages
        }
        Subject::Driver(_) if options.contract_only => Vec::new(),
        Subject::Driver(fault) => {
            let driver = |headroom| {
                let config = Config { fault: *fault, headroom, ..Config::default() };
                bench.clone().driver("chipidea-driver", move |side| started(side, config.clone()))
            };
            let mut stages = runs(&driver(0).pool(Policy::current()), "");
            let unaligned = runs(&driver(HEADROOM).pool(Policy::current()), "unaligned buffers").into_iter();
            stages.extend(unaligned.filter(|stage| !stage.wants_aligned_buffers()));
            let hardened = policy::by_name("index-stack").map(|policy| runs(&driver(0).pool(policy), "index-stack"));
            stages.extend(hardened.into_iter().flatten());
            stages.extend(sweeps(&driver(0).pool(Policy::current())));
            stages
        }
    }
}

fn started(side: DriverSide, config: Config) -> Result<Box<dyn UdcDriver>, UdcError> {
    let mut driver = ChipideaUdc::probe(side.mmio, side.dma, config)?;
    driver.start()?;
    Ok(Box::new(driver))
}

/// Every scenario, at every number of endpoints and speed that a check runs it with.
fn runs(bench: &Bench, setting: &str) -> Vec<Stage> {
    let mut stages = Vec::new();
    for scenario in scenario::table() {
        let scenario: Arc<dyn Scenario> = Arc::from(scenario);
        for endpoints in ENDPOINTS {
            for &speed in scenario.speeds() {
                let variant = Variant { endpoints, speed, page_size: 4096 };
                let setting = if setting.is_empty() { variant.to_string() } else { format!("{variant}, {setting}") };
                let bench = Box::new(bench.clone().endpoints(endpoints).speed(speed));
                stages.push(Stage::Run { scenario: Arc::clone(&scenario), bench, setting });
            }
        }
    }
    stages
}

/// Every scenario that is raced. A race sees neither the pool nor endpoints that it does not use.
fn sweeps(bench: &Bench) -> impl Iterator<Item = Stage> {
    let endpoints = ENDPOINTS[0];
    let variant = Variant { endpoints, speed: Speed::High, page_size: 4096 };
    let setting = format!("{variant}, every schedule of one step");
    let bench = bench.clone().endpoints(endpoints).speed(Speed::High);
    scenario::table().into_iter().filter(|scenario| !scenario.needs().acts.is_empty()).map(move |scenario| {
        Stage::Sweep { scenario: Arc::from(scenario), bench: Box::new(bench.clone()), setting: setting.clone() }
    })
}

#[cfg(test)]
mod tests {
    use pool::Metadata;

    use super::*;

    #[test]
    fn a_pool_that_panics_takes_its_own_piece_with_it() {
        let policy = Policy::new("panics", "has no list", Metadata::OutOfBand, 1, |_, _, _| panic!("no list"));
        let stage = Stage::Contract { policy, config: contract::Config::default() };
        let seen = stage.look("panics").expect("a thread");
        assert_eq!(seen.how, Some(How::Panic("no list".to_owned())));
        assert!(!seen.is_clean());
    }
}
