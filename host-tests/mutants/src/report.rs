//! What came of all of them.

use std::time::Duration;

use crate::trial::{Outcome, Trial};

/// Every mutant's trial, and those of the baselines.
#[derive(Clone, Debug)]
pub struct Report {
    /// Nothing may be found in these.
    pub baselines: Vec<Trial>,
    /// In the order in which they were asked for.
    pub mutants: Vec<Trial>,
    /// Wall time of the whole.
    pub wall_time: Duration,
}

impl Report {
    /// How many mutants were caught.
    #[must_use]
    pub fn caught(&self) -> usize {
        self.mutants.iter().filter(|trial| !trial.catches.is_empty()).count()
    }

    /// Whether a mutant survived for no known reason, or was caught though the table says why it cannot be, or something was
    /// found in a baseline.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        let wrong = |trial: &Trial| matches!(trial.outcome(), Outcome::Survived | Outcome::Unexpected(_));
        self.mutants.iter().any(wrong) || self.baselines.iter().any(|baseline| !baseline.catches.is_empty())
    }
}
