//! JUnit XML: a suite for each baseline, with its mutants.

use std::io::{self, Write};

use mutants::{Outcome, Report, Trial};
use quick_junit::{NonSuccessKind, Report as Junit, TestCase, TestCaseStatus, TestSuite};

pub(super) fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let mut junit = Junit::new("poolproof mutants");
    junit.set_time(report.wall_time);
    for baseline in &report.baselines {
        let name = &baseline.mutant.name;
        let mut suite = TestSuite::new(name.as_str());
        let found = !baseline.catches.is_empty();
        suite.add_test_case(case(
            baseline,
            if found { failed("found without a fault") } else { TestCaseStatus::success() },
        ));
        for trial in report.mutants.iter().filter(|trial| trial.mutant.baseline == *name) {
            suite.add_test_case(case(trial, status(trial)));
        }
        junit.add_test_suite(suite);
    }
    // Made in memory first, so that an error of the output keeps its kind.
    let mut xml = Vec::new();
    junit.serialize(&mut xml).map_err(io::Error::other)?;
    out.write_all(&xml)?;
    writeln!(out)
}

fn case(trial: &Trial, status: TestCaseStatus) -> TestCase {
    let catches: Vec<String> =
        trial.catches.iter().map(|catch| format!("{} {}: {}", catch.scenario, catch.setting, catch.how)).collect();
    let mut case = TestCase::new(trial.mutant.name.as_str(), status);
    case.set_classname(trial.mutant.baseline.as_str()).set_time(trial.wall_time).set_system_out(catches.join("\n"));
    case
}

fn status(trial: &Trial) -> TestCaseStatus {
    match trial.outcome() {
        Outcome::Caught => TestCaseStatus::success(),
        Outcome::Survived => failed("survived"),
        Outcome::Excused(why) => {
            let mut skipped = TestCaseStatus::skipped();
            skipped.set_message(why);
            skipped
        }
        Outcome::Unexpected(why) => failed(&format!("caught, and known to survive: {why}")),
    }
}

fn failed(message: &str) -> TestCaseStatus {
    let mut failure = TestCaseStatus::non_success(NonSuccessKind::Failure);
    failure.set_message(message);
    failure
}
