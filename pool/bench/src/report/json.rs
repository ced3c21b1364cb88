//! One JSON object.

use serde_json::{Value, json};

use crate::figures::{Figures, Report, WHERE};
use crate::interleaved::Cell;
use crate::statistics::Spread;

/// The whole as one object, samples included.
///
/// - `format`: 1; `version`: of this program; `command`
/// - `where`: `user space, cached memory`, here and beside every result
/// - `optimised`: whether this program was built with optimisation; without it figures compare nothing
/// - `notes`: sentences about all figures
/// - `figures`, one for each procedure: `procedure`, `about`, `unit`, `of` (what one unit is for, as `100 rounds`), `by`
///   (what measured it), `exact` (the same in each run), `baseline`, `results`
/// - `results`, one for each subject on each set: `set`, `subject`, `control` (the baseline once more), `operations` behind
///   one unit, `rounds` that a sample had and was scaled from, or null, `samples` in the order they were taken, `spread` and `ratio` to the baseline in the same repetition, each with
///   `median`, `lower` and `upper` quartile, or null where nothing was measured
#[must_use]
pub fn json(report: &Report) -> Value {
    json!({
        "format": 1,
        "version": env!("CARGO_PKG_VERSION"),
        "command": report.command,
        "where": WHERE,
        "optimised": !cfg!(debug_assertions),
        "notes": report.notes,
        "figures": report.figures.iter().map(figures_value).collect::<Vec<_>>(),
    })
}

fn figures_value(figures: &Figures) -> Value {
    json!({
        "procedure": figures.procedure,
        "about": figures.about,
        "unit": figures.unit.name,
        "of": figures.unit.of,
        "by": figures.unit.by,
        "exact": figures.unit.exact,
        "baseline": figures.subjects.get(figures.baseline).map(|subject| &subject.name),
        "results": figures.cells().map(|cell| result_value(figures, cell)).collect::<Vec<_>>(),
    })
}

fn result_value(figures: &Figures, cell: Cell) -> Value {
    let (set, subject) = (&figures.sets[cell.set], &figures.subjects[cell.subject]);
    json!({
        "set": set.name,
        "subject": subject.name,
        "control": subject.is_control,
        "where": WHERE,
        "operations": set.operations,
        "rounds": figures.rounds(cell),
        "samples": figures.samples.of(cell),
        "spread": figures.spread(cell).map(spread_value),
        "ratio": figures.ratio(cell).map(spread_value),
    })
}

fn spread_value(spread: Spread) -> Value {
    json!({"median": spread.median, "lower": spread.lower, "upper": spread.upper})
}
