//! For people: a table, the survivors, the score.

use std::io::{self, Write};

use comfy_table::presets;
use comfy_table::{ContentArrangement, Table};
use mutants::{Outcome, Report, Trial};

use super::{score, words};
use crate::report::human;

/// Characters of what was seen that a line of the table shows.
const SHOWN: usize = 100;

pub(super) fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    if !report.mutants.is_empty() {
        writeln!(out, "{}\n", table(&report.mutants).trim_fmt())?;
    }
    for baseline in report.baselines.iter().filter(|baseline| !baseline.catches.is_empty()) {
        for catch in &baseline.catches {
            writeln!(out, "baseline {}, without a fault: {} · {}", baseline.mutant.name, place(catch), catch.how)?;
        }
    }
    for trial in report.mutants.iter().filter(|trial| trial.outcome() != Outcome::Caught) {
        let (word, why) = words(trial.outcome());
        writeln!(out, "{}: {word}{}", trial.mutant.name, why.map_or_else(String::new, |why| format!(": {why}")))?;
    }
    writeln!(out, "{} in {}", score(report), human(report.wall_time))
}

fn table(trials: &[Trial]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["mutant", "what it does", "caught by", "how"]);
    for trial in trials {
        let mutant = [trial.mutant.name.clone(), trial.mutant.about.clone()];
        if trial.catches.is_empty() {
            table.add_row([&mutant[0], &mutant[1], words(trial.outcome()).0, "-"]);
        }
        for (number, catch) in trial.catches.iter().enumerate() {
            let [name, about] = if number == 0 { mutant.clone() } else { Default::default() };
            table.add_row([name, about, place(catch), cut(&catch.how.to_string())]);
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

fn place(catch: &mutants::Catch) -> String {
    if catch.setting.is_empty() { catch.scenario.clone() } else { format!("{} ({})", catch.scenario, catch.setting) }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
