//! Rows of a check's table: the runs of one scenario on one pool, put together.

use std::time::Duration;

use pool::{Finding, Found};

use crate::record::{Status, record_of, status};
use crate::run::{LogLine, Run, Variant};
use crate::schedule::Schedule;
use crate::scope::Scope;
use crate::verdict::Verdict;

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the pool.
    pub pool: String,
    /// Name of the scenario, or `pool-contract`.
    pub scenario: String,
    /// How many runs it stands for, every schedule counted.
    pub runs: usize,
    /// How it stands against the records.
    pub status: Status,
    /// The worst verdict of its runs.
    pub verdict: Verdict,
    /// The failure of its first run of the worst status, or what was not kept.
    pub error: Option<String>,
    /// Virtual time of all runs.
    pub virtual_time: Duration,
    /// Wall time of all runs.
    pub wall_time: Duration,
    /// How far the verdict reaches, all runs together.
    pub scope: Scope,
    /// Every different way in which it broke.
    pub failures: Vec<Detail>,
    /// What was seen and is not judged, or is as the scenario declares.
    pub seen: Vec<Seen>,
}

/// What a scenario saw that is not judged, or is as it declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The runs that saw it; none if the scenario has a device of its own.
    pub variants: Vec<Variant>,
    /// What it was.
    pub notes: Vec<String>,
}

/// One way in which a scenario broke.
#[derive(Clone, Debug)]
pub struct Detail {
    /// The runs that broke this way; none if the scenario has a device of its own.
    pub variants: Vec<Variant>,
    /// How it stands against the records.
    pub status: Status,
    /// The verdict.
    pub verdict: Verdict,
    /// What the host saw.
    pub error: Option<String>,
    /// The error number, as Linux prints it.
    pub errno: Option<i32>,
    /// Name of the finding that explains it.
    pub finding: Option<&'static str>,
    /// Why, in at most four lines.
    pub reason: Vec<String>,
    /// The host's kernel log of the first of the runs.
    pub log: Vec<LogLine>,
    /// Warnings of the board's driver in the first of the runs.
    pub board_log: Vec<String>,
    /// The error on record, if this is another one.
    pub recorded: Option<&'static str>,
    /// What happened at which of the driver's accesses, in the first of the runs: it makes the same failure again.
    pub schedule: Option<Schedule>,
    /// How far the verdict reaches.
    pub scope: Scope,
}

impl Row {
    /// Puts runs of one scenario on one pool together; `excuse` looks at the recorded defects.
    ///
    /// `runs` has at least one run, and stands for `count`: of many schedules it has those that broke. `scope` makes the
    /// scope of some of them.
    pub(crate) fn of(runs: &[Run], count: usize, scope: impl Fn(&[Variant]) -> Scope, excuse: bool) -> Self {
        let mut failures: Vec<(Key, Detail)> = Vec::new();
        let mut seen: Vec<Seen> = Vec::new();
        let mut worst = Status::Pass;
        for run in runs {
            let status = status(run, excuse);
            worst = worst.max(status);
            if matches!(status, Status::Reported | Status::Declared) {
                let variants = variants_of(run);
                match seen.iter_mut().find(|seen| seen.notes == run.notes) {
                    Some(seen) => seen.variants.extend(variants),
                    None => seen.push(Seen { variants, notes: run.notes.clone() }),
                }
            }
            if matches!(status, Status::Pass | Status::Reported | Status::Declared) {
                continue;
            }
            let key = key(run, status);
            match failures.iter_mut().find(|(known, _)| *known == key) {
                Some((_, detail)) if detail.variants.contains(&run.variant) => {}
                Some((_, detail)) => detail.variants.push(run.variant),
                None => failures.push((key, detail(run, status, excuse))),
            }
        }
        let scoped = |(_, detail): (Key, Detail)| match detail.schedule {
            Some(_) => detail,
            None => Detail { scope: scope(&detail.variants), ..detail },
        };
        let failures: Vec<_> = failures.into_iter().map(scoped).collect();
        let mut variants: Vec<_> = runs.iter().map(|run| run.variant).collect();
        variants.dedup();
        let first = &runs[0];
        Self {
            pool: first.pool.clone(),
            scenario: first.scenario.clone(),
            runs: count,
            status: worst,
            verdict: runs.iter().map(|run| run.verdict).max().unwrap_or(Verdict::Inconclusive),
            error: failures.iter().find(|detail| detail.status == worst).and_then(|detail| detail.error.clone()),
            virtual_time: runs.iter().map(|run| run.virtual_time).sum(),
            wall_time: runs.iter().map(|run| run.wall_time).sum(),
            scope: scope(&variants),
            failures,
            seen,
        }
    }
}

/// The run's variant, which says nothing where the device is not the controller.
fn variants_of(run: &Run) -> Vec<Variant> {
    if run.has_controller { vec![run.variant] } else { Vec::new() }
}

/// What makes two broken runs the same to a reader.
type Key = (Status, Verdict, Option<String>, Option<&'static str>, Option<std::mem::Discriminant<Found>>);

fn key(run: &Run, status: Status) -> Key {
    let finding = run.first_finding();
    let found = match finding {
        Some(Finding::LayoutContract(layout)) => Some(std::mem::discriminant(&layout.found)),
        _ => None,
    };
    let error = run.failure.as_ref().map(|failure| failure.error.clone());
    (status, run.verdict, error, finding.map(Finding::name), found)
}

fn detail(run: &Run, status: Status, excuse: bool) -> Detail {
    let unexpected_pass = !run.is_broken();
    let error = if unexpected_pass {
        record_of(run).map(|record| format!("passed, but `{}` is on record", record.error))
    } else {
        run.failure.as_ref().map(|failure| failure.error.clone())
    };
    Detail {
        variants: variants_of(run),
        status,
        verdict: run.verdict,
        error,
        errno: run.errno(),
        finding: run.first_finding().map(Finding::name),
        reason: run.reason(),
        log: run.log.clone(),
        board_log: run.board_log.clone(),
        recorded: record_of(run).filter(|_| excuse && status == Status::Broken).map(|record| record.error),
        schedule: run.schedule.clone().filter(|schedule| !schedule.steps().is_empty()),
        scope: run.scope.clone(),
    }
}
