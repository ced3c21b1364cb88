//! One JSON object.

use std::io::{self, Write};
use std::time::Duration;

use scenarios::{Detail, Report, Row, Status, Variant};
use serde_json::{Value, json};

use crate::repeat::Repeat;

pub(super) fn write(out: &mut dyn Write, report: &Report, quiet: bool, repeat: &Repeat<'_>) -> io::Result<()> {
    let rows: Vec<Value> = report
        .rows
        .iter()
        .filter(|row| !quiet || row.status == Status::Broken)
        .map(|row| row_value(row, repeat))
        .collect();
    let whole = json!({
        "format": 1,
        "version": env!("CARGO_PKG_VERSION"),
        "broken": report.is_broken(),
        "wall_seconds": seconds(report.wall_time),
        "rows": rows,
    });
    serde_json::to_writer_pretty(&mut *out, &whole)?;
    writeln!(out)
}

fn row_value(row: &Row, repeat: &Repeat<'_>) -> Value {
    json!({
        "pool": row.pool,
        "scenario": row.scenario,
        "runs": row.runs,
        "status": status(row.status),
        "verdict": row.verdict.to_string(),
        "error": row.error,
        "virtual_seconds": seconds(row.virtual_time),
        "wall_seconds": seconds(row.wall_time),
        "scope": row.scope.to_string(),
        "failures": row.failures.iter().map(|detail| detail_value(row, detail, repeat)).collect::<Vec<_>>(),
        "seen": row.seen.iter().map(|seen| json!({
            "variants": variants(&seen.variants),
            "notes": seen.notes,
        })).collect::<Vec<_>>(),
    })
}

fn detail_value(row: &Row, detail: &Detail, repeat: &Repeat<'_>) -> Value {
    json!({
        "variants": variants(&detail.variants),
        "status": status(detail.status),
        "verdict": detail.verdict.to_string(),
        "error": detail.error,
        "errno": detail.errno,
        "recorded": detail.recorded,
        "finding": detail.finding,
        "reason": detail.reason,
        "log": detail.log.iter().map(|line| json!({"at": seconds(line.at), "text": line.text})).collect::<Vec<_>>(),
        "board_log": detail.board_log,
        "schedule": detail.schedule.as_ref().map(ToString::to_string),
        "again": repeat.command(&row.pool, &row.scenario, detail),
        "scope": detail.scope.to_string(),
    })
}

fn variants(variants: &[Variant]) -> Vec<Value> {
    let value = |variant: &Variant| {
        json!({
            "endpoints": variant.endpoints,
            "speed": variant.speed.to_string(),
            "page_size": variant.page_size,
        })
    };
    variants.iter().map(value).collect()
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Pass => "pass",
        Status::Reported => "not judged",
        Status::Declared => "declared",
        Status::KnownBad => "known bad",
        Status::Broken => "broken",
    }
}
