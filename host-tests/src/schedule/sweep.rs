//! Sweeps: many schedules of one scenario on one bench.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use pool::Finding;

use super::{Deed, Schedule, Step};
use crate::bench::Bench;
use crate::error::BenchError;
use crate::random::Random;
use crate::run::Run;
use crate::scenario::Scenario;
use crate::sides::PAUSES;
use crate::verdict::Verdict;

/// For how many accesses a device's work is held up, and interrupts are delayed, when all schedules are tried.
const HELD: [u32; 7] = [1, 2, 3, 5, 8, 13, 21];
/// The longest hold of a sampled schedule.
const LONGEST: u64 = 32;
/// Steps of a sampled schedule, at most.
const STEPS: u64 = 3;
/// Different failures of a sweep that are kept, each with its first schedule.
const MOST_KEPT: usize = 8;

/// Which schedules are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// So many, with up to three steps, by the bench's seed.
    Sample(u32),
    /// Every act at every access, alone, and with every place of the device's work held up; interrupts delayed from every
    /// access.
    All,
}

/// What came of a sweep.
#[derive(Clone, Debug)]
pub struct Swept {
    /// What was asked for.
    pub sweep: Sweep,
    /// The run without a race.
    pub plain: Run,
    /// Schedules that were tried. None if the run without a race is broken.
    pub schedules: usize,
    /// The driver's accesses in the race, without a schedule.
    pub accesses: u32,
    /// Runs that broke, with their schedules shrunk: one for each way to break.
    pub broken: Vec<Run>,
    /// How many broke.
    pub broken_total: usize,
}

/// What makes two broken runs the same failure.
type Kind = (Verdict, Option<&'static str>, Option<String>);

fn kind(run: &Run) -> Kind {
    // The words of a failure may hold what differs from schedule to schedule; a finding says enough.
    let finding = run.first_finding().map(Finding::name);
    let failure = run.failure.as_ref().filter(|_| finding.is_none()).map(|failure| failure.error.clone());
    (run.verdict, finding, failure)
}

impl Default for Sweep {
    /// A few, for a check that takes no time.
    fn default() -> Self {
        Self::Sample(4)
    }
}

impl Sweep {
    /// The same, but a sample of all.
    pub(crate) fn sampled(self) -> Self {
        match self {
            Self::Sample(count) => Self::Sample(count),
            Self::All => Self::default(),
        }
    }
}

impl Swept {
    /// Which schedules were tried, in words; nothing of a scenario that is not raced.
    pub(crate) fn covered(&self) -> Option<String> {
        self.plain.schedule.as_ref()?;
        Some(match self.sweep {
            Sweep::All if self.schedules > 0 => "all of one step".to_owned(),
            Sweep::Sample(count) if self.schedules > 0 => format!("{count} sampled"),
            _ if self.plain.is_broken() => "none raced, as the scenario breaks without".to_owned(),
            _ => "none raced".to_owned(),
        })
    }
}

impl Bench {
    /// Runs a scenario without a race, then with many schedules.
    ///
    /// # Errors
    /// [`BenchError`] if the bench cannot be set up.
    pub fn sweep(&self, scenario: &dyn Scenario, sweep: Sweep) -> Result<Swept, BenchError> {
        self.visit(scenario, sweep, |_| ControlFlow::Continue(()))
    }

    /// The same, but it ends with the first run that is broken, and gives that, its schedule shrunk.
    ///
    /// # Errors
    /// [`BenchError`] if the bench cannot be set up.
    pub fn first_broken(&self, scenario: &dyn Scenario, sweep: Sweep) -> Result<Option<Run>, BenchError> {
        let swept = self.visit(scenario, sweep, |_| ControlFlow::Break(()))?;
        Ok(if swept.plain.is_broken() { Some(swept.plain) } else { swept.broken.into_iter().next() })
    }

    /// A sweep; `broken` is asked after each broken run whether it goes on.
    fn visit(
        &self,
        scenario: &dyn Scenario,
        sweep: Sweep,
        broken: impl Fn(&Run) -> ControlFlow<()>,
    ) -> Result<Swept, BenchError> {
        let plain = self.raced(scenario, &Schedule::default())?;
        let accesses = plain.raced.accesses;
        let mut swept = Swept { sweep, plain, schedules: 0, accesses, broken: Vec::new(), broken_total: 0 };
        if swept.plain.is_broken() || scenario.needs().acts.is_empty() {
            return Ok(swept);
        }
        let mut kinds: BTreeSet<Kind> = BTreeSet::new();
        let mut next = schedules(sweep, scenario, accesses, self.seed_of_schedules());
        while let Some(schedule) = next.next() {
            let run = self.raced(scenario, &schedule)?;
            swept.schedules += 1;
            next.reached(run.raced.steps == schedule.steps().len());
            if !run.is_broken() {
                continue;
            }
            swept.broken_total += 1;
            let kind = kind(&run);
            let goes_on = broken(&run);
            if swept.broken.len() < MOST_KEPT && kinds.insert(kind.clone()) {
                swept.broken.push(self.shrink(scenario, schedule, run, &kind)?);
            }
            if goes_on.is_break() {
                break;
            }
        }
        Ok(swept)
    }

    fn raced(&self, scenario: &dyn Scenario, schedule: &Schedule) -> Result<Run, BenchError> {
        self.clone().schedule(schedule.clone()).run_scenario(scenario)
    }

    /// A smaller schedule with the same failure: fewer steps, no hold, shorter holds.
    fn shrink(&self, scenario: &dyn Scenario, schedule: Schedule, run: Run, wanted: &Kind) -> Result<Run, BenchError> {
        let (mut schedule, mut best) = (schedule, run);
        loop {
            let mut smaller = None;
            for candidate in candidates(&schedule) {
                let run = self.raced(scenario, &candidate)?;
                if run.is_broken() && kind(&run) == *wanted {
                    smaller = Some((candidate, run));
                    break;
                }
            }
            match smaller {
                Some(found) => (schedule, best) = found,
                None => return Ok(best),
            }
        }
    }
}

/// The schedules of a sweep, one after the other.
enum Schedules {
    Sample { left: u32, random: Random, acts: &'static [&'static str], accesses: u32 },
    All { deeds: Vec<Deed>, deed: usize, at: u32 },
}

fn schedules(sweep: Sweep, scenario: &dyn Scenario, accesses: u32, seed: u64) -> Schedules {
    let acts = scenario.needs().acts;
    match sweep {
        Sweep::Sample(left) => Schedules::Sample { left, random: Random::new(seed), acts, accesses },
        Sweep::All => Schedules::All { deeds: deeds(acts), deed: 0, at: 0 },
    }
}

impl Schedules {
    fn next(&mut self) -> Option<Schedule> {
        match self {
            Self::Sample { left, random, acts, accesses } => {
                *left = left.checked_sub(1)?;
                Some(sample(random, acts, *accesses))
            }
            Self::All { deeds, deed, at } => {
                let deed = deeds.get(*deed)?.clone();
                *at += 1;
                Some(Schedule::new(vec![Step { at: *at - 1, deed }]))
            }
        }
    }

    /// Whether every step of the last one took place. A schedule can make a race longer, or shorter: behind its end there
    /// is nothing to try.
    fn reached(&mut self, reached: bool) {
        if let (Self::All { deed, at, .. }, false) = (self, reached) {
            *deed += 1;
            *at = 0;
        }
    }
}

/// Everything that can happen at an access.
fn deeds(acts: &[&str]) -> Vec<Deed> {
    let places = || PAUSES.iter().flat_map(|place| HELD.map(|accesses| Some(((*place).to_owned(), accesses))));
    let held = || std::iter::once(None).chain(places());
    let acts = acts.iter().flat_map(|name| held().map(|held| Deed::Act { name: (*name).to_owned(), held }));
    acts.chain(HELD.map(Deed::Delay)).collect()
}

fn sample(random: &mut Random, acts: &[&str], accesses: u32) -> Schedule {
    let steps = (0..=random.below(STEPS - 1)).map(|_| {
        let at = random.below(u64::from(accesses)) as u32;
        let length = 1 + random.below(LONGEST) as u32;
        let deed = match random.below(4) {
            0 => Deed::Delay(length),
            choice => {
                let name = acts[random.below(acts.len() as u64) as usize].to_owned();
                let place = PAUSES[random.below(PAUSES.len() as u64) as usize].to_owned();
                Deed::Act { name, held: (choice == 1).then_some((place, length)) }
            }
        };
        Step { at, deed }
    });
    Schedule::new(steps.collect())
}

/// Schedules that are a little smaller.
fn candidates(schedule: &Schedule) -> Vec<Schedule> {
    let steps = schedule.steps();
    let without = |index: usize| {
        let mut steps = steps.to_vec();
        steps.remove(index);
        Schedule(steps)
    };
    let with = |index: usize, deed: Deed| {
        let mut steps = steps.to_vec();
        steps[index].deed = deed;
        Schedule(steps)
    };
    let mut smaller: Vec<Schedule> = if steps.len() > 1 { (0..steps.len()).map(without).collect() } else { Vec::new() };
    for (index, step) in steps.iter().enumerate() {
        match &step.deed {
            Deed::Act { name, held: Some((place, accesses)) } => {
                smaller.push(with(index, Deed::Act { name: name.clone(), held: None }));
                if *accesses > 1 {
                    let held = Some((place.clone(), accesses / 2));
                    smaller.push(with(index, Deed::Act { name: name.clone(), held }));
                }
            }
            Deed::Delay(accesses) if *accesses > 1 => smaller.push(with(index, Deed::Delay(accesses / 2))),
            Deed::Act { held: None, .. } | Deed::Delay(_) => {}
        }
    }
    smaller
}
