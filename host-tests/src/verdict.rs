//! Verdicts: what was seen, and how far it reaches.

use std::fmt;

use pool::{Blame, Finding};

use crate::scenario::Expected;

/// What a run says about a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Nothing failed, within the scope.
    NoFailureFound,
    /// The scenario reports what it sees, and nobody promises what that is.
    NotJudged,
    /// What the scenario declares of a pool with its own data in that place came, and nothing else; or the scenario asked for
    /// something that the driver does not do, whatever the pool ([`Limit`](crate::Limit)).
    AsDeclared,
    /// Something failed, was not exercised or did not come as declared, and no finding says why.
    Inconclusive,
    /// The pool kept its promises; a driver or device assumed more.
    ClientAssumptionViolated,
    /// The pool broke what dma_pool promises.
    PoolContractViolated,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NoFailureFound => "NO FAILURE FOUND",
            Self::NotJudged => "NOT JUDGED",
            Self::AsDeclared => "AS DECLARED",
            Self::Inconclusive => "INCONCLUSIVE",
            Self::ClientAssumptionViolated => "CLIENT ASSUMPTION VIOLATED",
            Self::PoolContractViolated => "POOL CONTRACT VIOLATED",
        })
    }
}

impl Verdict {
    /// The same of a scenario that only reports: what a pool promises is judged all the same.
    pub(crate) const fn unjudged(self) -> Self {
        match self {
            Self::PoolContractViolated => self,
            _ => Self::NotJudged,
        }
    }
}

/// A failure as the scenario saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In the words of the host's log where it has any, such as `device descriptor read/64, error -110`.
    pub error: String,
}

impl Failure {
    /// A failure in these words.
    pub fn new(error: impl Into<String>) -> Self {
        Self { error: error.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)
    }
}

/// What the scenario expects of this pool and was not found.
pub(crate) fn missing(findings: &[Finding], expected: Expected) -> Vec<&'static str> {
    expected.names().filter(|name| findings.iter().all(|finding| finding.name() != *name)).collect()
}

/// Judges what was seen against what the scenario expects of this pool.
pub(crate) fn judge(failure: Option<&Failure>, findings: &[Finding], expected: Expected, enough: bool) -> Verdict {
    let is_expected = |finding: &&Finding| expected.names().any(|name| name == finding.name());
    let mut unexpected = findings.iter().filter(|finding| !is_expected(finding)).peekable();
    if unexpected.peek().is_some() {
        let of_pool = unexpected.any(|finding| finding.blame() == Blame::Pool);
        if of_pool { Verdict::PoolContractViolated } else { Verdict::ClientAssumptionViolated }
    } else if failure.is_some() || !enough || !missing(findings, expected).is_empty() {
        Verdict::Inconclusive
    } else if expected.shown.is_empty() {
        Verdict::NoFailureFound
    } else {
        Verdict::AsDeclared
    }
}

#[cfg(test)]
mod tests {
    use bus::{CpuAddr, DmaAddr};
    use pool::{Block, Promise};

    use super::*;

    fn attacker() -> Finding {
        let block = Block { cpu: CpuAddr(1), dma: DmaAddr(2) };
        Finding::WrongFree { pool: "p".to_owned(), block, seen: String::new() }
    }

    fn promise() -> Finding {
        Finding::PoolContract { pool: "p".to_owned(), promise: Promise::NoOverlap, seen: String::new() }
    }

    const NOTHING: Expected = Expected { provoked: &[], shown: &[] };

    #[test]
    fn the_pool_is_to_blame_before_its_client() {
        assert_eq!(judge(None, &[attacker(), promise()], NOTHING, true), Verdict::PoolContractViolated);
        assert_eq!(judge(None, &[attacker()], NOTHING, true), Verdict::ClientAssumptionViolated);
    }

    #[test]
    fn what_is_expected_must_be_there_and_is_no_news() {
        let provoked = Expected { provoked: &["WrongFree"], shown: &[] };
        let shown = Expected { provoked: &[], shown: &["WrongFree"] };
        for (expected, verdict) in [(provoked, Verdict::NoFailureFound), (shown, Verdict::AsDeclared)] {
            assert_eq!(judge(None, &[attacker()], expected, true), verdict);
            assert_eq!(judge(None, &[], expected, true), Verdict::Inconclusive);
            assert_eq!(missing(&[], expected), ["WrongFree"]);
            assert_eq!(judge(None, &[attacker(), promise()], expected, true), Verdict::PoolContractViolated);
            assert_eq!(judge(Some(&Failure::new("x")), &[attacker()], expected, true), Verdict::Inconclusive);
        }
    }

    #[test]
    fn a_failure_without_a_finding_or_too_little_exercise_is_inconclusive() {
        assert_eq!(judge(Some(&Failure::new("x")), &[], NOTHING, true), Verdict::Inconclusive);
        assert_eq!(judge(None, &[], NOTHING, false), Verdict::Inconclusive);
        assert_eq!(judge(None, &[], NOTHING, true), Verdict::NoFailureFound);
    }
}
