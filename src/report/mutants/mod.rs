//! What caught each mutant, in the field's formats.

mod json;
mod junit;
mod ktap;
mod text;

use std::io::{self, Write};

use mutants::{Outcome, Report};

use crate::cli::Format;

/// Writes `report` to `out`.
pub(crate) fn write(out: &mut dyn Write, report: &Report, format: Format) -> io::Result<()> {
    match format {
        Format::Text => text::write(out, report),
        Format::Json => json::write(out, report),
        Format::Ktap => ktap::write(out, report),
        Format::Junit => junit::write(out, report),
    }
}

/// The outcome in a word, and what is known of it.
const fn words(outcome: Outcome) -> (&'static str, Option<&'static str>) {
    match outcome {
        Outcome::Caught => ("caught", None),
        Outcome::Survived => ("SURVIVED", None),
        Outcome::Excused(why) => ("survived", Some(why)),
        Outcome::Unexpected(why) => ("CAUGHT, known to survive", Some(why)),
    }
}

/// The score in words.
fn score(report: &Report) -> String {
    let (caught, all) = (report.caught(), report.mutants.len());
    let percent = if all == 0 { 0.0 } else { 100.0 * caught as f64 / all as f64 };
    format!("{caught} of {all} mutants caught ({percent:.1} %)")
}
