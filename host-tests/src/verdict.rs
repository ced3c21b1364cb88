//! Verdicts: what was seen, and how far it reaches.

use std::fmt;

use pool::{Blame, Finding};

/// What a run says about a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Nothing failed, within the scope.
    NoFailureFound,
    /// Something failed or was not exercised, and no finding says why.
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
            Self::Inconclusive => "INCONCLUSIVE",
            Self::ClientAssumptionViolated => "CLIENT ASSUMPTION VIOLATED",
            Self::PoolContractViolated => "POOL CONTRACT VIOLATED",
        })
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

/// Judges what was seen.
pub(crate) fn judge(failure: Option<&Failure>, findings: &[Finding], allocations: u64) -> Verdict {
    if findings.iter().any(|finding| finding.blame() == Blame::Pool) {
        Verdict::PoolContractViolated
    } else if !findings.is_empty() {
        Verdict::ClientAssumptionViolated
    } else if failure.is_some() || allocations == 0 {
        Verdict::Inconclusive
    } else {
        Verdict::NoFailureFound
    }
}
