//! KTAP version 1 (Documentation/dev-tools/ktap.rst): a test for each mutant, a known survivor as an expected failure.

use std::io::{self, Write};

use mutants::{Outcome, Report, Trial};

use super::score;

pub(super) fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    writeln!(out, "KTAP version 1\n1..{}", report.baselines.len() + report.mutants.len())?;
    let baselines = report.baselines.iter().map(|trial| (trial, trial.catches.is_empty(), String::new()));
    let mutants = report.mutants.iter().map(|trial| match trial.outcome() {
        Outcome::Caught => (trial, true, String::new()),
        Outcome::Survived => (trial, false, String::new()),
        Outcome::Excused(why) => (trial, false, format!(" # XFAIL {why}")),
        Outcome::Unexpected(why) => (trial, false, format!(" caught, and known to survive: {why}")),
    });
    for (number, (trial, ok, directive)) in baselines.chain(mutants).enumerate() {
        test(out, number + 1, trial, ok, &directive)?;
    }
    writeln!(out, "# {}", score(report))
}

fn test(out: &mut dyn Write, number: usize, trial: &Trial, ok: bool, directive: &str) -> io::Result<()> {
    for catch in &trial.catches {
        writeln!(out, "# {} {}: {}", catch.scenario, catch.setting, catch.how)?;
    }
    writeln!(out, "{} {number} {}{directive}", if ok { "ok" } else { "not ok" }, trial.mutant.name)
}
