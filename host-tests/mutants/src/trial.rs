//! One mutant, taken through everything until something catches it.

use std::time::{Duration, Instant};

use scenarios::BenchError;

use crate::Options;
use crate::catalogue::Mutant;
use crate::stage::{How, Seen, stages};

/// What became of a mutant.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The mutant.
    pub mutant: Mutant,
    /// What caught it, in the order of a check: the first only, or each scenario's first. What is found in a baseline is here,
    /// too.
    pub catches: Vec<Catch>,
    /// What was seen of each piece that was run.
    pub seen: Vec<Seen>,
    /// Wall time.
    pub wall_time: Duration,
}

/// Something that differs from the baseline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catch {
    /// Name of the scenario, or `pool-contract`.
    pub scenario: String,
    /// What else it takes to do it again: endpoints, speed.
    pub setting: String,
    /// How it was noticed.
    pub how: How,
}

/// How a mutant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Something caught it.
    Caught,
    /// Nothing did, and nobody knows why.
    Survived,
    /// Nothing did, for this known reason.
    Excused(&'static str),
    /// Something caught it, and the table says why nothing could: the table is wrong.
    Unexpected(&'static str),
}

impl Trial {
    /// How it ended.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match (self.catches.is_empty(), self.mutant.survives) {
            (false, None) => Outcome::Caught,
            (false, Some(why)) => Outcome::Unexpected(why),
            (true, None) => Outcome::Survived,
            (true, Some(why)) => Outcome::Excused(why),
        }
    }
}

/// Takes a baseline through everything.
pub(crate) fn baseline(baseline: &Mutant, options: &Options) -> Result<Trial, BenchError> {
    trial(baseline, &[], &Options { all: true, ..options.clone() })
}

/// Takes a mutant through what its baseline went through, whose pieces looked like `right`.
pub(crate) fn mutant(mutant: &Mutant, right: &[Seen], options: &Options) -> Result<Trial, BenchError> {
    trial(mutant, right, options)
}

fn trial(mutant: &Mutant, right: &[Seen], options: &Options) -> Result<Trial, BenchError> {
    let begin = Instant::now();
    let (mut catches, mut all_seen): (Vec<Catch>, _) = (Vec::new(), Vec::new());
    for (index, stage) in stages(mutant, options).into_iter().enumerate() {
        let (scenario, setting) = (stage.name().to_owned(), stage.setting().to_owned());
        let seen = stage.look(&mutant.name)?;
        let differs = right.get(index).map_or(!seen.is_clean(), |right| *right != seen);
        let known = catches.iter().any(|catch| catch.scenario == scenario);
        if differs && !known {
            let how =
                seen.how.clone().unwrap_or_else(|| How::Error("a failure of the baseline is not there".to_owned()));
            catches.push(Catch { scenario, setting, how });
        }
        all_seen.push(seen);
        if !catches.is_empty() && !options.all {
            break;
        }
    }
    Ok(Trial { mutant: mutant.clone(), catches, seen: all_seen, wall_time: begin.elapsed() })
}
