//! JUnit XML.

use std::io::{self, Write};

use quick_junit::{NonSuccessKind, Report as Junit, TestCase, TestCaseStatus, TestSuite};
use scenarios::{Report, Row, Status};

use super::seen_line;
use crate::repeat::Repeat;

pub(super) fn write(out: &mut dyn Write, report: &Report, quiet: bool, repeat: &Repeat<'_>) -> io::Result<()> {
    let mut junit = Junit::new("poolproof");
    junit.set_time(report.wall_time);
    for row in report.rows.iter().filter(|row| !quiet || row.status == Status::Broken) {
        let mut case = TestCase::new(row.scenario.as_str(), status(row, repeat));
        case.set_classname(row.pool.as_str()).set_time(row.wall_time).set_system_out(output(row));
        let suite = junit.test_suites.iter().position(|suite| suite.name.as_str() == row.pool);
        let suite = suite.unwrap_or_else(|| {
            junit.add_test_suite(TestSuite::new(row.pool.as_str()));
            junit.test_suites.len() - 1
        });
        junit.test_suites[suite].add_test_case(case);
    }
    // The counts on the outermost element are made by the report itself.
    let mut whole = Junit::new("poolproof");
    whole.set_time(report.wall_time).add_test_suites(junit.test_suites);
    // Made in memory first, so that an error of the output keeps its kind.
    let mut xml = Vec::new();
    whole.serialize(&mut xml).map_err(io::Error::other)?;
    out.write_all(&xml)?;
    writeln!(out)
}

fn status(row: &Row, repeat: &Repeat<'_>) -> TestCaseStatus {
    match row.status {
        Status::Pass => TestCaseStatus::success(),
        Status::Reported => {
            let mut skipped = TestCaseStatus::skipped();
            skipped.set_message("not judged: what was seen is in the output");
            skipped
        }
        Status::Declared => {
            let mut skipped = TestCaseStatus::skipped();
            skipped.set_message("as declared for such a pool: what was seen is in the output");
            skipped
        }
        Status::KnownBad => {
            let mut skipped = TestCaseStatus::skipped();
            skipped.set_message(format!("known bad: {}", row.error.as_deref().unwrap_or("no error")));
            skipped
        }
        Status::Broken => {
            let mut failure = TestCaseStatus::non_success(NonSuccessKind::Failure);
            failure.set_type(row.verdict.to_string()).set_message(row.error.as_deref().unwrap_or("no error"));
            let lines = row.failures.iter().flat_map(|detail| {
                let again = repeat.command(&row.pool, &row.scenario, detail).map(|command| format!("again: {command}"));
                detail.reason.iter().cloned().chain(again)
            });
            failure.set_description(lines.collect::<Vec<_>>().join("\n"));
            failure
        }
    }
}

fn output(row: &Row) -> String {
    let mut text = format!("{}\nscope: {}\n", row.verdict, row.scope);
    for seen in &row.seen {
        text.push_str(&format!("{}\n", seen_line(seen)));
    }
    for detail in &row.failures {
        for line in &detail.log {
            text.push_str(&format!("{line}\n"));
        }
    }
    text
}
