//! One JSON object.

use std::io::{self, Write};

use mutants::{Catch, Outcome, Report, Trial};
use serde_json::{Value, json};

pub(super) fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let whole = json!({
        "format": 1,
        "version": env!("CARGO_PKG_VERSION"),
        "broken": report.is_broken(),
        "caught": report.caught(),
        "wall_seconds": report.wall_time.as_secs_f64(),
        "baselines": report.baselines.iter().map(trial_value).collect::<Vec<_>>(),
        "mutants": report.mutants.iter().map(trial_value).collect::<Vec<_>>(),
    });
    serde_json::to_writer_pretty(&mut *out, &whole)?;
    writeln!(out)
}

fn trial_value(trial: &Trial) -> Value {
    let outcome = match trial.outcome() {
        Outcome::Caught => "caught",
        Outcome::Survived => "survived",
        Outcome::Excused(_) => "known survivor",
        Outcome::Unexpected(_) => "caught, known survivor",
    };
    json!({
        "name": trial.mutant.name,
        "about": trial.mutant.about,
        "baseline": trial.mutant.baseline,
        "outcome": outcome,
        "survives": trial.mutant.survives,
        "pieces": trial.seen.len(),
        "wall_seconds": trial.wall_time.as_secs_f64(),
        "catches": trial.catches.iter().map(catch_value).collect::<Vec<_>>(),
    })
}

fn catch_value(catch: &Catch) -> Value {
    json!({ "scenario": catch.scenario, "setting": catch.setting, "how": catch.how.to_string() })
}
