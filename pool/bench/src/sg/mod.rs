//! `bench sg`: what chunks of scatter-gather tables come from.
//!
//! The patch of July 2019 measured, in the kernel, for 100 pages: `__get_free_page` 9 µs, `kmalloc` 4, `kmem_cache_alloc`
//! 4, `vmalloc` 13 with one call for all, and concluded that full chunks should come from the slab. That procedure is
//! [`Procedure::Pages`]; [`Procedure::Tables`] is the question.

mod error;
mod procedure;
mod source;
mod subject;

use std::process::Command;
use std::time::Duration;

use crate::figures::{Figures, Report, SetLabel, SubjectLabel, Unit};
use crate::instructions::{InstructionsError, instructions_each};
use crate::interleaved::{Cell, Measurement, Plan, Samples, interleaved};

pub use error::SgError;
pub use procedure::Procedure;
pub use source::{Source, Zone};
pub use subject::SgSubject;

use procedure::{PAGES, TABLES};

/// A sample has fewer rounds if they take longer than this, and is scaled.
const SAMPLE: Duration = Duration::from_millis(20);
/// Rounds of the two runs whose instructions are compared.
const FURTHER: [u64; 2] = [1, 3];
/// Entries of the tables that are measured unless others are named: up to a chunk, one more, several chunks.
pub const ENTRIES: [u32; 12] = [1, 2, 8, 32, 64, 127, 128, 129, 256, 512, 1024, 2048];

/// What is measured, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is timed.
    pub procedures: Vec<Procedure>,
    /// Entries of tables.
    pub entries: Vec<u32>,
    /// Samples of each subject.
    pub repetitions: usize,
    /// Rounds of a sample; `None` means as many as fit into 20 ms, at most 1000 of 100 pages and 100 of 100 tables.
    pub rounds: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { procedures: Procedure::ALL.to_vec(), entries: ENTRIES.to_vec(), repetitions: 11, rounds: None }
    }
}

impl Options {
    fn sets(&self, procedure: Procedure) -> Vec<(u32, SetLabel)> {
        let table = |&entries: &u32| (entries, SetLabel { name: entries.to_string(), operations: TABLES });
        match procedure {
            Procedure::Pages => vec![(0, SetLabel { name: "100 pages".to_owned(), operations: PAGES as u64 })],
            Procedure::Tables => self.entries.iter().map(table).collect(),
        }
    }
}

/// Measures `subjects` in turns, and the first one twice: it is the baseline. `progress` gets samples that are done, and all.
///
/// # Errors
/// [`SgError`] if one fails.
pub fn sg(subjects: &[&dyn SgSubject], options: &Options, progress: &dyn Fn(usize, usize)) -> Result<Report, SgError> {
    let zone = Zone::new()?;
    let runs: Vec<Run<'_>> =
        options.procedures.iter().map(|&procedure| Run::new(procedure, subjects, options, &zone)).collect();
    let all = runs.iter().map(|run| run.plan().visits()).sum();
    let mut before = 0;
    let mut figures = Vec::new();
    for mut run in runs {
        let plan = run.plan();
        let samples = interleaved(plan, &mut run, &mut |done| progress(before + done, all))?;
        before += plan.visits();
        figures.push(run.figures(&samples));
    }
    let notes = vec![
        format!("{} repetitions, interleaved and warmed up", options.repetitions),
        "page: a zone's free lists under its lock, without the per-processor lists that Linux has in front".to_owned(),
    ];
    Ok(Report { command: "bench sg", figures, notes })
}

/// Some rounds of one subject, untimed, for its instructions to be counted from outside.
///
/// # Errors
/// [`SgError`] if it fails.
pub fn sg_rounds(subject: &dyn SgSubject, procedure: Procedure, entries: u32, rounds: u64) -> Result<(), SgError> {
    let zone = Zone::new()?;
    subject.run(&zone, procedure, entries, rounds).map_err(|error| error.of(subject.name()))?;
    Ok(())
}

/// Counts what 100 pages or 100 tables execute, by running what `command` makes of a subject's index, procedure, entries and
/// rounds: a program that calls [`sg_rounds`] with them.
///
/// # Errors
/// [`InstructionsError`]
pub fn sg_instructions(
    subjects: &[&dyn SgSubject],
    options: &Options,
    command: &dyn Fn(usize, Procedure, u32, u64) -> Command,
    progress: &dyn Fn(usize, usize),
) -> Result<Report, InstructionsError> {
    let all = options.procedures.iter().map(|&procedure| options.sets(procedure).len() * subjects.len()).sum();
    let mut done = 0;
    let mut figures = Vec::new();
    for &procedure in &options.procedures {
        let mut values = Vec::new();
        for (entries, _) in options.sets(procedure) {
            let mut of_set = Vec::new();
            for (index, subject) in subjects.iter().enumerate() {
                let mut counts = Vec::new();
                if subject.is_measured_by(procedure) {
                    let [fewer, more] = FURTHER.map(|rounds| command(index, procedure, entries, rounds));
                    counts.push(instructions_each(&fewer, &more, FURTHER[1] - FURTHER[0])?);
                }
                of_set.push(counts);
                done += 1;
                progress(done, all);
            }
            values.push(of_set);
        }
        figures.push(Figures {
            procedure: procedure.name(),
            about: procedure.about(),
            unit: Unit { name: "instructions", of: procedure.of(), by: "callgrind", exact: true },
            sets: options.sets(procedure).into_iter().map(|(_, label)| label).collect(),
            subjects: labels(subjects, None),
            baseline: 0,
            samples: Samples::from_values(values),
            rounds: None,
        });
    }
    let notes = vec!["by difference of two runs, so that what is done once is not in it".to_owned()];
    Ok(Report { command: "bench sg --instructions", figures, notes })
}

/// Subjects as reports show them, with the control behind them if there is one.
fn labels(subjects: &[&dyn SgSubject], control: Option<usize>) -> Vec<SubjectLabel> {
    let label =
        |is_control| move |subject: &&dyn SgSubject| SubjectLabel { name: subject.name().to_owned(), is_control };
    let control = control.and_then(|index| subjects.get(index)).map(label(true));
    subjects.iter().map(label(false)).chain(control).collect()
}

/// One procedure.
struct Run<'a> {
    procedure: Procedure,
    /// All that are in the report.
    subjects: &'a [&'a dyn SgSubject],
    /// Those that the procedure measures, by index; the baseline comes last once more.
    measured: Vec<usize>,
    sets: Vec<(u32, SetLabel)>,
    options: &'a Options,
    zone: &'a Zone,
    /// By set and measured subject.
    rounds: Vec<Vec<u64>>,
}

impl<'a> Run<'a> {
    fn new(procedure: Procedure, subjects: &'a [&'a dyn SgSubject], options: &'a Options, zone: &'a Zone) -> Self {
        let is_measured = |index: &usize| subjects[*index].is_measured_by(procedure);
        let measured: Vec<usize> = (0..subjects.len()).filter(is_measured).collect();
        let measured: Vec<usize> = measured.iter().chain(measured.first()).copied().collect();
        let sets = options.sets(procedure);
        let rounds = vec![vec![options.rounds.unwrap_or(1); measured.len()]; sets.len()];
        Self { procedure, subjects, measured, sets, options, zone, rounds }
    }

    fn plan(&self) -> Plan {
        Plan { subjects: self.measured.len(), sets: self.sets.len(), repetitions: self.options.repetitions }
    }

    fn time(&self, cell: Cell) -> Result<Duration, SgError> {
        let (subject, entries) = (self.subjects[self.measured[cell.subject]], self.sets[cell.set].0);
        let rounds = self.rounds[cell.set][cell.subject];
        subject.run(self.zone, self.procedure, entries, rounds).map_err(|error| error.of(subject.name()))
    }

    /// With empty places for what was not measured, so that subjects are the same everywhere in a report.
    fn figures(self, samples: &Samples) -> Figures {
        let place = |subject| self.measured.iter().position(|&index| index == subject);
        let places: Vec<Option<usize>> =
            (0..self.subjects.len()).map(place).chain([self.measured.len().checked_sub(1)]).collect();
        let of = |set| move |place: &Option<usize>| place.map(|subject| Cell { subject, set });
        let sets = 0..self.sets.len();
        let values = sets.clone().map(|set| {
            places.iter().map(of(set)).map(|cell| cell.map_or(vec![], |cell| samples.of(cell).to_vec())).collect()
        });
        let rounds = sets.map(|set| {
            let rounds = |cell: Cell| self.rounds[cell.set][cell.subject];
            places.iter().map(of(set)).map(|cell| cell.map_or(self.procedure.most_rounds(), rounds)).collect()
        });
        Figures {
            procedure: self.procedure.name(),
            about: self.procedure.about(),
            unit: Unit { name: "µs", of: self.procedure.of(), by: self.procedure.clock(), exact: false },
            samples: Samples::from_values(values.collect()),
            rounds: Some(rounds.collect()),
            sets: self.sets.iter().map(|(_, label)| label.clone()).collect(),
            subjects: labels(self.subjects, self.measured.first().copied()),
            baseline: self.measured.first().copied().unwrap_or(0),
        }
    }
}

impl Measurement for Run<'_> {
    type Error = SgError;

    fn warm_up(&mut self, cell: Cell) -> Result<(), SgError> {
        let most = self.procedure.most_rounds();
        let time = self.time(cell)?;
        if self.options.rounds.is_none() {
            // One round says little about many.
            self.rounds[cell.set][cell.subject] = if time < SAMPLE / 10 { 10 } else { 1 };
            let time = self.time(cell)? / self.rounds[cell.set][cell.subject] as u32;
            let fit = SAMPLE.as_nanos() / time.as_nanos().max(1);
            self.rounds[cell.set][cell.subject] = u64::try_from(fit).unwrap_or(most).clamp(1, most);
        }
        Ok(())
    }

    fn sample(&mut self, cell: Cell) -> Result<f64, SgError> {
        let time = self.time(cell)?;
        Ok(time.as_secs_f64() * 1e6 / self.rounds[cell.set][cell.subject] as f64)
    }
}
