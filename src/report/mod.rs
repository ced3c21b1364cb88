//! A check's result in the field's formats.

pub(crate) mod compare;
mod json;
mod junit;
mod ktap;
pub(crate) mod mutants;
mod text;

use std::io::{self, Write};
use std::time::Duration;

use scenarios::{Report, Seen};

use crate::cli::Format;
use crate::repeat::Repeat;

/// Writes `report` to `out`, with the commands of `repeat`.
pub(crate) fn write(
    out: &mut dyn Write,
    report: &Report,
    format: Format,
    quiet: bool,
    repeat: &Repeat<'_>,
) -> io::Result<()> {
    match format {
        Format::Text => text::write(out, report, quiet, repeat),
        Format::Json => json::write(out, report, quiet, repeat),
        Format::Ktap => ktap::write(out, report, quiet, repeat),
        Format::Junit => junit::write(out, report, quiet, repeat),
    }
}

/// A duration as people read it.
fn human(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match duration {
        Duration::ZERO => "-".to_owned(),
        _ if seconds >= 1.0 => format!("{seconds:.2} s"),
        _ => format!("{:.1} ms", seconds * 1e3),
    }
}

/// What was seen and is not judged or is as declared, in one line.
fn seen_line(seen: &Seen) -> String {
    let variants: Vec<_> = seen.variants.iter().map(ToString::to_string).collect();
    let with = if variants.is_empty() { String::new() } else { format!(" with {}", variants.join(" and with ")) };
    format!("seen{with}: {}", seen.notes.join("; "))
}
