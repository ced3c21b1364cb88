//! The pool's own contract as a row: before any device.

use std::time::Duration;

use pool::Policy;
use pool::contract::{MOST_WALKED, Report, Violation};

use crate::record::Status;
use crate::row::{Detail, Row};
use crate::scope::Scope;
use crate::verdict::Verdict;

/// Name of the row, and one line about it.
pub const CONTRACT: (&str, &str) =
    ("pool-contract", "before any device: everything that dma_pool promises, in long random runs on small machines");

pub(crate) const SCENARIO: &str = CONTRACT.0;

/// What came of holding `policy` against what dma_pool promises: a report and the wall time of each part, in order.
pub(crate) fn row(policy: &Policy, seed: u64, parts: impl Iterator<Item = (Report, Duration)>) -> Row {
    let (mut report, mut wall_time) = (Report::new(policy, seed), Duration::ZERO);
    for (part, time) in parts {
        report.add(part);
        wall_time += time;
    }
    let covered = format!(
        "long random runs against {} promises before any device; pages of 4, 16 and 64 KiB forward, backward and \
         scattered; 32-bit mask with memory above 4 GiB, 64-bit mask; another thread while a page is fetched; {}seed {seed}; \
         not exercised: interrupt context, races inside of the pool's lock",
        report.checks.len(),
        if policy.walks {
            format!("no pool of more than {MOST_WALKED} blocks, as a free walks them; ")
        } else {
            String::new()
        },
    );
    let scope = Scope { pool: format!("{} ({})", policy.name, policy.fingerprint), covered };
    let broken = |(promise, violation): (pool::Promise, &Violation)| Detail {
        variants: Vec::new(),
        status: Status::Broken,
        verdict: Verdict::PoolContractViolated,
        error: Some(format!("{promise:?}")),
        errno: None,
        finding: Some(violation.finding.name()),
        reason: vec![
            format!("dma_pool promises: {}", promise.statement()),
            violation.finding.to_string(),
            format!("seen with {}", violation.setting),
        ],
        log: Vec::new(),
        board_log: Vec::new(),
        recorded: None,
        schedule: None,
        scope: scope.clone(),
    };
    let mut failures: Vec<Detail> = report.broken().map(broken).collect();
    let untried = report.checks.iter().filter(|check| check.count == 0 && check.violation.is_none());
    failures.extend(untried.map(|check| Detail {
        variants: Vec::new(),
        status: Status::Broken,
        verdict: Verdict::Inconclusive,
        error: Some(format!("{:?} was not tried", check.promise)),
        errno: None,
        finding: None,
        reason: vec![format!("nothing tried the promise: {}", check.promise.statement())],
        log: Vec::new(),
        board_log: Vec::new(),
        recorded: None,
        schedule: None,
        scope: scope.clone(),
    }));
    Row {
        pool: policy.name.to_string(),
        scenario: SCENARIO.to_owned(),
        runs: 1,
        status: failures.iter().map(|detail| detail.status).max().unwrap_or(Status::Pass),
        verdict: failures.iter().map(|detail| detail.verdict).max().unwrap_or(Verdict::NoFailureFound),
        error: failures.first().and_then(|detail| detail.error.clone()),
        virtual_time: Duration::ZERO,
        wall_time,
        scope,
        failures,
        seen: Vec::new(),
    }
}
