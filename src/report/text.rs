//! For people: a table, and below it what is broken.

use std::io::{self, Write};

use comfy_table::presets;
use comfy_table::{ContentArrangement, Table};
use scenarios::{Detail, Report, Row, Status};

use super::{human, seen_line};
use crate::repeat::Repeat;

pub(super) fn write(out: &mut dyn Write, report: &Report, quiet: bool, repeat: &Repeat<'_>) -> io::Result<()> {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| !quiet || row.status == Status::Broken).collect();
    if !rows.is_empty() {
        writeln!(out, "{}\n", table(&rows).trim_fmt())?;
    }
    for row in rows.iter().filter(|row| row.status == Status::Broken) {
        for detail in row.failures.iter().filter(|detail| !quiet || detail.status == Status::Broken) {
            broken(out, &row.pool, &[&row.scenario], detail, repeat)?;
        }
    }
    known_bad(out, &rows, repeat)?;
    for row in rows.iter().filter(|row| matches!(row.status, Status::Declared | Status::Reported)) {
        seen(out, row)?;
    }
    if !quiet {
        scopes(out, report)?;
        summary(out, report)?;
    }
    Ok(())
}

fn table(rows: &[&Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["pool", "scenario", "runs", "verdict", "error", "virtual", "wall"]);
    for row in rows {
        let verdict = match row.status {
            Status::KnownBad => format!("{} (known bad)", row.verdict),
            Status::Pass | Status::Reported | Status::Declared | Status::Broken => row.verdict.to_string(),
        };
        table.add_row([
            row.pool.clone(),
            row.scenario.clone(),
            row.runs.to_string(),
            verdict,
            errors(row),
            human(row.virtual_time),
            human(row.wall_time),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// The errors of a row, short: error numbers where there are any.
fn errors(row: &Row) -> String {
    let mut short: Vec<String> = Vec::new();
    for detail in &row.failures {
        let text = match (detail.errno, &detail.error, detail.finding) {
            (Some(errno), _, _) => errno.to_string(),
            (None, Some(error), _) => error.clone(),
            (None, None, Some(finding)) => finding.to_owned(),
            (None, None, None) => "not exercised".to_owned(),
        };
        if !short.contains(&text) {
            short.push(text);
        }
    }
    if short.is_empty() { "-".to_owned() } else { short.join(", ") }
}

/// Recorded defects, each cause once for all the scenarios that it breaks.
fn known_bad(out: &mut dyn Write, rows: &[&Row], repeat: &Repeat<'_>) -> io::Result<()> {
    let mut causes: Vec<(&str, Vec<&str>, &Detail)> = Vec::new();
    for row in rows.iter().filter(|row| row.status == Status::KnownBad) {
        for detail in &row.failures {
            let same = causes.iter_mut().find(|(pool, _, known)| {
                *pool == row.pool && known.reason == detail.reason && known.variants == detail.variants
            });
            match same {
                Some((_, scenarios, _)) => scenarios.push(&row.scenario),
                None => causes.push((&row.pool, vec![&row.scenario], detail)),
            }
        }
    }
    causes.iter().try_for_each(|(pool, scenarios, detail)| broken(out, pool, scenarios, detail, repeat))
}

/// What a scenario saw that is nobody's promise, or that it declares.
fn seen(out: &mut dyn Write, row: &Row) -> io::Result<()> {
    writeln!(out, "{} · {}: {}", row.pool, row.scenario, row.verdict)?;
    for seen in &row.seen {
        match row.status {
            Status::Declared => seen.notes.iter().try_for_each(|note| writeln!(out, "  seen: {note}"))?,
            _ => writeln!(out, "  {}", seen_line(seen))?,
        }
    }
    writeln!(out, "  scope: {}\n", row.scope)
}

fn broken(out: &mut dyn Write, pool: &str, scenarios: &[&str], detail: &Detail, repeat: &Repeat<'_>) -> io::Result<()> {
    let known = if detail.status == Status::KnownBad { " (known bad)" } else { "" };
    writeln!(out, "{pool} · {}: {}{known}", scenarios.join(", "), detail.verdict)?;
    if !detail.variants.is_empty() {
        let variants: Vec<_> = detail.variants.iter().map(ToString::to_string).collect();
        writeln!(out, "  with {}", variants.join("; "))?;
    }
    if let Some(error) = &detail.error {
        writeln!(out, "  error: {error}")?;
    }
    if let Some(recorded) = detail.recorded {
        writeln!(out, "  not as recorded: {recorded}")?;
    }
    if let [first, _, ..] = scenarios {
        writeln!(out, "  log of {first}:")?;
    }
    for line in &detail.log {
        writeln!(out, "  | {line}")?;
    }
    for line in &detail.board_log {
        writeln!(out, "  board | {line}")?;
    }
    for line in &detail.reason {
        writeln!(out, "  reason: {line}")?;
    }
    if let Some(command) = scenarios.first().and_then(|scenario| repeat.command(pool, scenario, detail)) {
        writeln!(out, "  again: {command}")?;
    }
    writeln!(out, "  scope: {}\n", detail.scope)
}

fn summary(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let count = |status| report.rows.iter().filter(|row| row.status == status).count();
    let runs: usize = report.rows.iter().map(|row| row.runs).sum();
    let rows = report.rows.len();
    let others = |status, words: &str| match count(status) {
        0 => String::new(),
        count => format!(", {count} {words}"),
    };
    writeln!(
        out,
        "{rows} {} ({runs} {}) in {}: {} no failure found, {} known bad, {} broken{}{}",
        if rows == 1 { "row" } else { "rows" },
        if runs == 1 { "run" } else { "runs" },
        human(report.wall_time),
        count(Status::Pass),
        count(Status::KnownBad),
        count(Status::Broken),
        others(Status::Declared, "as declared"),
        others(Status::Reported, "not judged"),
    )
}

/// How far the passes reach: each scope once, with the pools and scenarios that it holds for.
fn scopes(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let passes = || report.rows.iter().filter(|row| row.status == Status::Pass);
    let mut covered: Vec<&str> = Vec::new();
    for row in passes() {
        if !covered.contains(&row.scope.covered.as_str()) {
            covered.push(&row.scope.covered);
        }
    }
    for covered in covered {
        let rows = || passes().filter(|row| row.scope.covered == covered);
        let list = |names: &mut dyn Iterator<Item = &str>| {
            let mut list: Vec<String> = Vec::new();
            for name in names {
                if !list.iter().any(|known| known == name) {
                    list.push(name.to_owned());
                }
            }
            list.join(", ")
        };
        writeln!(
            out,
            "scope of {} in {}:\n  pools {}\n  {}\n",
            scenarios::Verdict::NoFailureFound,
            list(&mut rows().map(|row| row.scenario.as_str())),
            list(&mut rows().map(|row| row.scope.pool.as_str())),
            covered.replace("; ", "\n  "),
        )?;
    }
    Ok(())
}
