//! KTAP version 1 (Documentation/dev-tools/ktap.rst), known bad and declared as expected failures.

use std::io::{self, Write};

use scenarios::{Report, Row, Status};

use super::seen_line;
use crate::repeat::Repeat;

pub(super) fn write(out: &mut dyn Write, report: &Report, quiet: bool, repeat: &Repeat<'_>) -> io::Result<()> {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| !quiet || row.status == Status::Broken).collect();
    let mut pools: Vec<&str> = Vec::new();
    for row in &rows {
        if !pools.contains(&row.pool.as_str()) {
            pools.push(&row.pool);
        }
    }
    writeln!(out, "KTAP version 1\n1..{}", pools.len())?;
    for (number, pool) in pools.iter().enumerate() {
        let rows: Vec<&&Row> = rows.iter().filter(|row| row.pool == *pool).collect();
        writeln!(out, "  KTAP version 1\n  # Subtest: {pool}\n  1..{}", rows.len())?;
        for (number, row) in rows.iter().enumerate() {
            test(out, number + 1, row, repeat)?;
        }
        let ok = rows.iter().all(|row| row.status != Status::Broken);
        writeln!(out, "{} {} {pool}", if ok { "ok" } else { "not ok" }, number + 1)?;
    }
    Ok(())
}

fn test(out: &mut dyn Write, number: usize, row: &Row, repeat: &Repeat<'_>) -> io::Result<()> {
    for detail in &row.failures {
        for line in &detail.reason {
            writeln!(out, "  # {line}")?;
        }
        if let Some(command) = repeat.command(&row.pool, &row.scenario, detail) {
            writeln!(out, "  # again: {command}")?;
        }
    }
    for seen in &row.seen {
        writeln!(out, "  # {}", seen_line(seen))?;
    }
    let passed = matches!(row.status, Status::Pass | Status::Reported);
    let result = if passed { "ok" } else { "not ok" };
    let directive = match row.status {
        Status::Reported => " # SKIP not judged",
        Status::Declared => " # XFAIL as declared",
        Status::KnownBad => " # XFAIL known bad",
        Status::Pass | Status::Broken => "",
    };
    writeln!(out, "  # scope: {}", row.scope)?;
    writeln!(out, "  # {}{}", row.verdict, row.error.as_ref().map_or(String::new(), |error| format!(": {error}")))?;
    writeln!(out, "  {result} {number} {}{directive}", row.scenario)
}
