//! What was measured, before anybody writes it down.

use crate::interleaved::{Cell, Samples};
use crate::statistics::{Spread, paired_ratios};

/// Where every figure here was measured: it stands beside each. A kernel's figures differ: no interrupts are disabled here,
/// and device memory may not be cached.
pub const WHERE: &str = "user space, cached memory";

/// A whole bench.
#[derive(Clone, Debug)]
pub struct Report {
    /// The command, such as `bench dmapool`.
    pub command: &'static str,
    /// One for each procedure.
    pub figures: Vec<Figures>,
    /// What a reader must know about all of them, a sentence each.
    pub notes: Vec<String>,
}

/// One procedure: every subject on every set.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The procedure's name on the command line.
    pub procedure: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// What a sample counts.
    pub unit: Unit,
    /// Labels of the sets and what belongs to them.
    pub sets: Vec<SetLabel>,
    /// Subjects; a control is one of them.
    pub subjects: Vec<SubjectLabel>,
    /// Index of the subject that ratios refer to.
    pub baseline: usize,
    /// Samples in `unit`.
    pub samples: Samples,
    /// How often a sample repeated what its unit is for, by set and subject, where that is not fixed; samples are scaled.
    pub rounds: Option<Vec<Vec<u64>>>,
}

/// What a sample counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Short, such as `µs`.
    pub name: &'static str,
    /// What for, such as `100 rounds`.
    pub of: &'static str,
    /// What it was measured by, such as `CPU time of the thread`.
    pub by: &'static str,
    /// Whether it comes out the same each time, so that one sample is all there is to know.
    pub exact: bool,
}

/// A set as reports show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetLabel {
    /// Such as `64/64/0`.
    pub name: String,
    /// Operations behind one unit, such as pairs of an allocation and a free.
    pub operations: u64,
}

/// A subject as reports show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectLabel {
    /// Its name.
    pub name: String,
    /// Whether it is the baseline once more.
    pub is_control: bool,
}

impl SubjectLabel {
    /// The name, and that it is the control.
    #[must_use]
    pub fn shown(&self) -> String {
        if self.is_control { format!("{} (A/A control)", self.name) } else { self.name.clone() }
    }
}

impl Figures {
    /// Spread of a subject's samples on a set; `None` if it was not measured there.
    #[must_use]
    pub fn spread(&self, cell: Cell) -> Option<Spread> {
        Spread::of(self.samples.of(cell))
    }

    /// Spread of the paired ratios to the baseline; `None` if one of the two was not measured.
    #[must_use]
    pub fn ratio(&self, cell: Cell) -> Option<Spread> {
        let baseline = self.samples.of(Cell { subject: self.baseline, ..cell });
        Spread::of(&paired_ratios(self.samples.of(cell), baseline))
    }

    /// Rounds of a subject's samples on a set, where they are not fixed.
    #[must_use]
    pub fn rounds(&self, cell: Cell) -> Option<u64> {
        self.rounds.as_ref()?.get(cell.set)?.get(cell.subject).copied()
    }

    /// Every cell, set by set.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + use<> {
        let (sets, subjects) = (self.sets.len(), self.subjects.len());
        (0..sets).flat_map(move |set| (0..subjects).map(move |subject| Cell { subject, set }))
    }

    /// Sets on which the control differs from the baseline by more than `limit`, 0.05 being 5 %, with its ratio there.
    #[must_use]
    pub fn disturbed(&self, limit: f64) -> Vec<(&str, f64)> {
        let controls = self.cells().filter(|cell| self.subjects[cell.subject].is_control);
        let ratios = controls.filter_map(|cell| Some((self.sets[cell.set].name.as_str(), self.ratio(cell)?.median)));
        ratios.filter(|(_, ratio)| (ratio - 1.0).abs() > limit).collect()
    }
}
