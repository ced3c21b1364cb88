//! Medians as grouped bars on a logarithmic scale, to be read on paper too.

mod svg;

use crate::figures::{Figures, Report, WHERE};
use crate::interleaved::Cell;
use crate::statistics::Spread;
use svg::{Anchor, Svg};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 20.0;
/// Height of the bars' area of one procedure.
const PANEL: f64 = 250.0;
/// Above it: its title, and room for what stands on the highest bar.
const ABOVE: f64 = 62.0;
/// Below it: the sets' names.
const BELOW: f64 = 34.0;
const LEGEND_LINE: f64 = 22.0;
/// Part of a group's width that stays empty.
const GAP: f64 = 0.18;

/// An SVG document: a panel for each procedure, a group for each set, a bar for each subject with its ratio to the
/// baseline on top. The control has no bar; the source line tells how far it was from its baseline.
#[must_use]
pub fn plot(report: &Report) -> String {
    let mut svg = Svg::new(WIDTH);
    let title = format!("poolproof {} ({WHERE})", report.command);
    svg.text((LEFT, 28.0), 18.0, Anchor::Start, &title);
    let mut y = 40.0;
    if let Some(figures) = report.figures.first() {
        y = legend(&mut svg, figures, y);
    }
    for figures in &report.figures {
        panel(&mut svg, figures, y + ABOVE);
        y += ABOVE + PANEL + BELOW;
    }
    for line in source(report) {
        y += 16.0;
        svg.text((LEFT, y), 11.0, Anchor::Start, &line);
    }
    svg.finish(&title, y + 14.0)
}

/// Indices of the subjects that have bars.
fn shown(figures: &Figures) -> Vec<usize> {
    (0..figures.subjects.len()).filter(|&subject| !figures.subjects[subject].is_control).collect()
}

/// Which fill is whose; returns where it ends.
fn legend(svg: &mut Svg, figures: &Figures, y: f64) -> f64 {
    /// A sans-serif letter of 12 pixels is no wider than this on average.
    const LETTER: f64 = 6.8;
    let (mut x, mut line) = (LEFT, y);
    for (fill, subject) in shown(figures).into_iter().enumerate() {
        let baseline = if subject == figures.baseline { " (= 1)" } else { "" };
        let name = format!("{}{baseline}", figures.subjects[subject].name);
        let width = 44.0 + LETTER * name.chars().count() as f64;
        if x + width > WIDTH - RIGHT && x > LEFT {
            (x, line) = (LEFT, line + LEGEND_LINE);
        }
        svg.bar((x, line), (22.0, 14.0), fill);
        svg.text((x + 28.0, line + 12.0), 12.0, Anchor::Start, &name);
        x += width;
    }
    line + LEGEND_LINE
}

/// The decades that hold every value.
struct Scale {
    first: i32,
    last: i32,
    bottom: f64,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64>, bottom: f64) -> Self {
        let positive = values.filter(|value| *value > 0.0 && value.is_finite());
        let range = positive.fold(None, |range: Option<(f64, f64)>, value| {
            range.map_or(Some((value, value)), |(low, high)| Some((low.min(value), high.max(value))))
        });
        let (low, high) = range.unwrap_or((1.0, 1.0));
        let first = low.log10().floor() as i32;
        // A bar that ends where the scale begins would not be seen.
        let first = if low.log10() - f64::from(first) < 0.05 { first - 1 } else { first };
        Self { first, last: (high.log10().ceil() as i32).max(first + 1), bottom }
    }

    fn y(&self, value: f64) -> f64 {
        let decades = f64::from(self.last - self.first);
        let up = (value.log10() - f64::from(self.first)) / decades;
        self.bottom - PANEL * up.clamp(0.0, 1.0)
    }
}

fn panel(svg: &mut Svg, figures: &Figures, top: f64) {
    let shown = shown(figures);
    let bars = figures.cells().filter(|cell| shown.contains(&cell.subject));
    let spreads: Vec<Spread> = bars.filter_map(|cell| figures.spread(cell)).collect();
    let scale = Scale::of(spreads.iter().flat_map(|spread| [spread.median, spread.lower, spread.upper]), top + PANEL);
    svg.text((LEFT, top - 42.0), 14.0, Anchor::Start, &format!("{}: {}", figures.procedure, figures.about));
    axis(svg, figures, &scale, top);
    let group = (WIDTH - LEFT - RIGHT) / figures.sets.len().max(1) as f64;
    let width = group * (1.0 - GAP) / shown.len().max(1) as f64;
    for (set, label) in figures.sets.iter().enumerate() {
        let left = LEFT + group * set as f64;
        svg.text((left + group / 2.0, scale.bottom + 18.0), 12.0, Anchor::Middle, &label.name);
        for (place, &subject) in shown.iter().enumerate() {
            let x = left + group * GAP / 2.0 + width * place as f64;
            bar(svg, figures, Cell { subject, set }, (x, width, place), &scale);
        }
    }
}

/// Decades with lines across, and what they count.
fn axis(svg: &mut Svg, figures: &Figures, scale: &Scale, top: f64) {
    for decade in scale.first..=scale.last {
        let value = 10_f64.powi(decade);
        let y = scale.y(value);
        let grey = if decade == scale.first { "#000" } else { "#aaa" };
        svg.line((LEFT, y), (WIDTH - RIGHT, y), grey);
        let digits = usize::try_from(-decade).unwrap_or(0);
        svg.text((LEFT - 6.0, y + 4.0), 11.0, Anchor::End, &format!("{value:.digits$}"));
    }
    svg.line((LEFT, top), (LEFT, scale.bottom), "#000");
    let unit = format!("{} for {}", figures.unit.name, figures.unit.of);
    svg.upright((18.0, top + PANEL / 2.0), 11.0, Anchor::Middle, &unit);
    svg.upright((32.0, top + PANEL / 2.0), 10.0, Anchor::Middle, figures.unit.by);
}

/// A bar, its whisker over the middle half of the samples, and its ratio to the baseline.
fn bar(svg: &mut Svg, figures: &Figures, cell: Cell, (x, width, fill): (f64, f64, usize), scale: &Scale) {
    let Some(spread) = figures.spread(cell).filter(|spread| spread.median > 0.0) else { return };
    let (y, middle) = (scale.y(spread.median), x + width / 2.0);
    svg.bar((x, y), (width, scale.bottom - y), fill);
    let mut top = y;
    if !figures.unit.exact {
        top = scale.y(spread.upper);
        svg.line((middle, top), (middle, scale.y(spread.lower)), "#000");
    }
    if let Some(ratio) = figures.ratio(cell).map(|ratio| ratio.median) {
        let digits = if ratio < 10.0 { 2 } else { usize::from(ratio < 100.0) };
        svg.upright((middle + 3.5, top - 4.0), 10.0, Anchor::Start, &format!("{ratio:.digits$}"));
    }
}

/// Where the figures come from, and what stands on the bars.
fn source(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(figures) = report.figures.first() {
        let bars = if figures.unit.exact { "bars are exact counts" } else { "bars are medians, lines the middle half" };
        let baseline = figures.subjects.get(figures.baseline).map_or("the baseline", |baseline| &baseline.name);
        lines.push(format!(
            "{bars}; logarithmic scale; on each bar its ratio to {baseline}, below 1 is less{}",
            control(report)
        ));
    }
    let version = env!("CARGO_PKG_VERSION");
    let debug = if cfg!(debug_assertions) { ", built without optimisation" } else { "" };
    lines.push(format!("Source: poolproof {version}, {}; {WHERE}{debug}", report.command));
    lines.extend(report.notes.iter().cloned());
    lines
}

/// How far the controls were from their baselines.
fn control(report: &Report) -> String {
    let ratios: Vec<f64> =
        report.figures.iter().flat_map(|figures| figures.disturbed(0.0)).map(|(_, ratio)| ratio).collect();
    let low = ratios.iter().copied().fold(1.0, f64::min);
    let high = ratios.iter().copied().fold(1.0, f64::max);
    if ratios.is_empty() { String::new() } else { format!("; the baseline against itself: {low:.2} to {high:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{SetLabel, SubjectLabel, Unit};
    use crate::interleaved::Samples;

    fn report(samples: Vec<Vec<Vec<f64>>>) -> Report {
        let subject = |name: &str, is_control| SubjectLabel { name: name.to_owned(), is_control };
        let figures = Figures {
            procedure: "written",
            about: "blocks & bytes",
            unit: Unit { name: "µs", of: "100 rounds", by: "CPU time", exact: false },
            sets: vec![SetLabel { name: "16/16/0".to_owned(), operations: 1 }],
            subjects: vec![subject("linked", false), subject("a<b>.c", false), subject("linked", true)],
            baseline: 0,
            samples: Samples::from_values(samples),
            rounds: None,
        };
        Report { command: "bench dmapool", figures: vec![figures], notes: Vec::new() }
    }

    /// Heights of the bars with that fill, the legend's first.
    fn heights(svg: &str, fill: usize) -> Vec<f64> {
        let fill = format!("fill=\"url(#fill{fill})\"");
        let bars = svg.lines().filter(|line| line.contains(&fill));
        bars.map(|bar| bar.split("height=\"").nth(1)?.split('"').next()?.parse().ok())
            .map(|height| height.expect("a number"))
            .collect()
    }

    #[test]
    fn bars_are_as_high_as_their_medians_on_a_logarithmic_scale() {
        let svg = plot(&report(vec![vec![vec![20.0; 3], vec![2000.0; 3], vec![21.0; 3]]]));
        let [linked, other] = [0, 1].map(|fill| heights(&svg, fill)[1]);
        // From 10 to 10000 there are three decades.
        assert!((other - linked - PANEL * 2.0 / 3.0).abs() < 0.2, "{linked} {other}");
        assert!(heights(&svg, 2).is_empty(), "the control has no bar");
        assert!(svg.contains("the baseline against itself: 1.00 to 1.05"), "{svg}");
    }

    #[test]
    fn names_are_text_and_the_source_is_told() {
        let svg = plot(&report(vec![vec![vec![1.0], vec![1.5], vec![1.0]]]));
        for shown in
            ["a&lt;b&gt;.c", "blocks &amp; bytes", "linked (= 1)", ">1.50<", "µs for 100 rounds", WHERE, "16/16/0"]
        {
            assert!(svg.contains(shown), "{shown}: {svg}");
        }
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }

    #[test]
    fn what_was_not_measured_has_no_bar() {
        let svg = plot(&report(vec![vec![vec![], vec![0.0], vec![]]]));
        assert_eq!((heights(&svg, 0).len(), heights(&svg, 1).len()), (1, 1), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
