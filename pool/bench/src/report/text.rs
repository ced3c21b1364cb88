//! For people: two tables for each procedure, what it took and how that compares.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::figures::{Figures, Report, WHERE};
use crate::interleaved::Cell;
use crate::statistics::Spread;

/// A control that differs from its baseline by more than this says that the machine was busy with something else.
const DISTURBED: f64 = 0.05;

/// Writes `report` as tables.
///
/// # Errors
/// Those of `out`.
pub fn write_text(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    for figures in &report.figures {
        write_figures(out, figures)?;
    }
    if cfg!(debug_assertions) {
        writeln!(out, "note: this program was built without optimisation: its figures compare nothing")?;
    }
    report.notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))
}

fn write_figures(out: &mut dyn Write, figures: &Figures) -> io::Result<()> {
    let unit = figures.unit;
    writeln!(out, "{}: {}", figures.procedure, figures.about)?;
    let spread = if unit.exact { "" } else { ", median ± half the interquartile range" };
    writeln!(out, "{} for {}, {} ({WHERE}){spread}", unit.name, unit.of, unit.by)?;
    writeln!(out, "{}\n", table(figures, |cell| figures.spread(cell)).trim_fmt())?;
    if let Some(baseline) = figures.subjects.get(figures.baseline) {
        let paired = if unit.exact { "" } else { ", of the same repetition" };
        writeln!(out, "ratio to {}{paired} ({WHERE}){spread}; below 1 is less", baseline.name)?;
        writeln!(out, "{}", table(figures, |cell| figures.ratio(cell)).trim_fmt())?;
    }
    if let Some((fewest, most)) = fewest_and_most_rounds(figures) {
        writeln!(out, "note: a sample had {fewest} to {most} rounds, and is scaled to {}", unit.of)?;
    }
    for (set, ratio) in figures.disturbed(DISTURBED) {
        writeln!(out, "warning: the control has {ratio:.2} on {set}: do not believe smaller differences there")?;
    }
    writeln!(out)
}

/// Where samples differ in their rounds.
fn fewest_and_most_rounds(figures: &Figures) -> Option<(u64, u64)> {
    let rounds = || figures.cells().filter_map(|cell| figures.rounds(cell));
    rounds().min().zip(rounds().max()).filter(|(fewest, most)| fewest < most)
}

fn table(figures: &Figures, value: impl Fn(Cell) -> Option<Spread>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let sets = figures.sets.iter().map(|set| set.name.clone());
    table.set_header(std::iter::once(String::new()).chain(sets));
    for (subject, label) in figures.subjects.iter().enumerate() {
        let shown =
            |set| value(Cell { subject, set }).map_or_else(|| "-".to_owned(), |it| shown(it, figures.unit.exact));
        let values = (0..figures.sets.len()).map(shown);
        table.add_row(std::iter::once(label.shown()).chain(values));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// With three digits, and its spread in the same places.
fn shown(spread: Spread, exact: bool) -> String {
    let digits = digits(spread.median);
    let median = format!("{:.digits$}", spread.median);
    if exact { median } else { format!("{median} ±{:.digits$}", spread.half_range()) }
}

fn digits(value: f64) -> usize {
    match value {
        _ if value < 10.0 => 2,
        _ if value < 100.0 => 1,
        _ => 0,
    }
}
