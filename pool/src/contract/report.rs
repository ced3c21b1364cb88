//! What came of it.

use std::fmt;

use crate::finding::{Finding, Promise};
use crate::policy::Policy;

/// Every promise, how often it was tried, and where it broke first.
#[derive(Clone, Debug)]
pub struct Report {
    /// Name of the policy.
    pub policy: String,
    /// The seed of the run.
    pub seed: u64,
    /// One entry a promise, in the order of [`Promise::ALL`].
    pub checks: Vec<Check>,
}

/// One promise.
#[derive(Clone, Debug)]
pub struct Check {
    /// Which.
    pub promise: Promise,
    /// How often it was tried.
    pub count: u64,
    /// Where it broke first.
    pub violation: Option<Violation>,
}

/// A broken promise.
#[derive(Clone, Debug)]
pub struct Violation {
    /// What was seen, with its operands.
    pub finding: Finding,
    /// Page size, order of pages and what was being done.
    pub setting: String,
}

/// Where in [`Promise::ALL`] each promise is: checks are counted by the million.
const POSITIONS: [usize; Promise::ALL.len()] = {
    let mut positions = [0; Promise::ALL.len()];
    let mut at = 0;
    while at < positions.len() {
        positions[Promise::ALL[at] as usize] = at;
        at += 1;
    }
    positions
};

impl Report {
    /// Adds what a later part found.
    pub fn add(&mut self, later: Self) {
        for (check, later) in self.checks.iter_mut().zip(later.checks) {
            check.count += later.count;
            check.violation = check.violation.take().or(later.violation);
        }
    }

    /// Nothing was tried yet.
    #[must_use]
    pub fn new(policy: &Policy, seed: u64) -> Self {
        let checks = Promise::ALL.map(|promise| Check { promise, count: 0, violation: None }).into();
        Self { policy: policy.name.clone().into_owned(), seed, checks }
    }

    /// Whether every promise was tried and kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.checks.iter().all(|check| check.count > 0 && check.violation.is_none())
    }

    /// The promises that broke.
    pub fn broken(&self) -> impl Iterator<Item = (Promise, &Violation)> {
        self.checks.iter().filter_map(|check| Some((check.promise, check.violation.as_ref()?)))
    }

    /// The entry of a promise.
    fn check(&mut self, promise: Promise) -> Option<&mut Check> {
        self.checks.get_mut(POSITIONS[promise as usize])
    }

    pub(super) fn count(&mut self, promise: Promise, times: u64) {
        if let Some(check) = self.check(promise) {
            check.count += times;
        }
    }

    /// Records a violation, if it is the promise's first.
    pub(super) fn violated(&mut self, promise: Promise, finding: Finding, setting: &str) {
        if let Some(check) = self.check(promise) {
            check.violation.get_or_insert_with(|| Violation { finding, setting: setting.to_owned() });
        }
    }

    /// The machine itself could not be made: nothing was tried.
    pub(super) fn give_up(&mut self, reason: String) {
        let finding = Finding::PoolContract { pool: self.policy.clone(), promise: Promise::OwnPages, seen: reason };
        self.violated(Promise::OwnPages, finding, "no machine to try the pool in");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pool {}, seed {}", self.policy, self.seed)?;
        for Check { promise, count, violation } in &self.checks {
            match violation {
                None => writeln!(f, "  kept    {promise:?}: {} ({count} times)", promise.statement())?,
                Some(Violation { finding, setting }) => {
                    writeln!(f, "  BROKEN  {promise:?}: {} ({count} times)", promise.statement())?;
                    writeln!(f, "          {finding}")?;
                    writeln!(f, "          {setting}")?;
                }
            }
        }
        Ok(())
    }
}
