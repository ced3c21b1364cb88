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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{SetLabel, SubjectLabel, Unit};
    use crate::interleaved::Samples;

    fn shown(exact: bool, control: f64) -> String {
        let subject = |name: &str, is_control| SubjectLabel { name: name.to_owned(), is_control };
        let set = |name: &str| SetLabel { name: name.to_owned(), operations: 1 };
        let of_set = |control: f64| vec![vec![100.0, 104.0, 108.0], vec![5.0, 5.2, 5.4], vec![], vec![control; 3]];
        let figures = Figures {
            procedure: "written",
            about: "in one line",
            unit: Unit { name: "µs", of: "100 rounds", by: "CPU time", exact },
            sets: vec![set("16/16/0"), set("64/64/0")],
            subjects: ["linked", "fast", "absent"]
                .map(|name| subject(name, false))
                .into_iter()
                .chain([subject("linked", true)])
                .collect(),
            baseline: 0,
            samples: Samples::from_values(vec![of_set(104.0), of_set(control)]),
            rounds: Some(vec![vec![100; 4], vec![7; 4]]),
        };
        let report = Report { command: "bench dmapool", figures: vec![figures], notes: vec!["and so on".to_owned()] };
        let mut out = Vec::new();
        write_text(&mut out, &report).expect("memory can be written");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn every_figure_has_its_spread_and_its_ratio() {
        let text = shown(false, 104.0);
        let rows = |name: &str| -> Vec<Vec<String>> {
            let rows = text.lines().filter(|line| line.starts_with(name));
            rows.map(|row| row.split("  ").filter(|cell| !cell.is_empty()).map(|cell| cell.trim().to_owned()).collect())
                .collect()
        };
        assert_eq!(rows("linked  "), [["linked", "104 ±2", "104 ±2"], ["linked", "1.00 ±0.00", "1.00 ±0.00"]]);
        assert_eq!(rows("fast"), [["fast", "5.20 ±0.10", "5.20 ±0.10"], ["fast", "0.05 ±0.00", "0.05 ±0.00"]]);
        assert_eq!(rows("absent"), [["absent", "-", "-"], ["absent", "-", "-"]]);
        assert_eq!(rows("linked (A/A control)").len(), 2, "{text}");
        assert_eq!(text.matches(WHERE).count(), 2, "over both tables: {text}");
        assert!(text.contains("note: a sample had 7 to 100 rounds, and is scaled to 100 rounds\n"), "{text}");
        assert!(text.contains("note: and so on\n") && !text.contains("warning"), "{text}");
    }

    #[test]
    fn a_disturbed_control_is_a_warning() {
        let text = shown(false, 130.0);
        assert!(text.contains("warning: the control has 1.25 on 64/64/0"), "{text}");
        assert!(!text.contains("on 16/16/0"), "{text}");
    }

    #[test]
    fn an_exact_figure_has_no_spread() {
        assert!(!shown(true, 104.0).contains('±'));
    }
}
