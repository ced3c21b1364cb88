//! `bench dmapool`: pools in turns through procedures and sets.

use std::process::Command;
use std::time::Duration;

use crate::error::BenchError;
use crate::figures::{Figures, Report, SetLabel, SubjectLabel, Unit};
use crate::instructions::{InstructionsError, instructions_each};
use crate::interleaved::{Cell, Measurement, Plan, Samples, interleaved};
use crate::memory::BenchMemory;
use crate::procedure::Procedure;
use crate::sets::Set;
use crate::subject::Subject;

/// Rounds that dmapool_test has, and that every figure is for.
pub const ROUNDS: u64 = 100;

/// Beyond this a sample has fewer rounds, and is scaled: a pool that is hundreds of times slower than the others would
/// otherwise take all of a run's time.
const SAMPLE: Duration = Duration::from_millis(20);

/// Rounds of the two runs whose instructions are compared.
const FURTHER: [u64; 2] = [1, 3];

/// What is measured, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is timed.
    pub procedures: Vec<Procedure>,
    /// Geometries.
    pub sets: Vec<Set>,
    /// Samples of each pool on each set.
    pub repetitions: usize,
    /// Rounds of a sample; `None` means 100, or as many as fit into 20 ms, at least one.
    pub rounds: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { procedures: Procedure::ALL.to_vec(), sets: Set::TABLE.to_vec(), repetitions: 11, rounds: None }
    }
}

/// Measures `subjects` in turns, and the one of index `baseline` twice. `progress` gets samples that are done, and all.
///
/// # Errors
/// [`BenchError`] if a pool fails.
pub fn dmapool(
    subjects: &[&dyn Subject],
    baseline: usize,
    options: &Options,
    progress: &dyn Fn(usize, usize),
) -> Result<Report, BenchError> {
    let memory = BenchMemory::new(&options.sets)?;
    // The control comes last.
    let measured: Vec<&dyn Subject> = subjects.iter().chain(subjects.get(baseline)).copied().collect();
    let plan = Plan { subjects: measured.len(), sets: options.sets.len(), repetitions: options.repetitions };
    let all = plan.visits() * options.procedures.len();
    let figures = options.procedures.iter().enumerate().map(|(index, &procedure)| {
        let rounds = vec![vec![options.rounds.unwrap_or(1); measured.len()]; options.sets.len()];
        let mut timed = Timed { subjects: &measured, memory: &memory, options, procedure, rounds };
        let samples = interleaved(plan, &mut timed, &mut |done| progress(index * plan.visits() + done, all))?;
        Ok(Figures {
            procedure: procedure.name(),
            about: procedure.about(),
            unit: Unit { name: "µs", of: "100 rounds", by: procedure.clock(), exact: false },
            sets: options.sets.iter().map(label).collect(),
            subjects: labels(subjects, Some(baseline)),
            baseline,
            samples,
            rounds: Some(timed.rounds),
        })
    });
    let figures = figures.collect::<Result<_, BenchError>>()?;
    let notes = vec![format!(
        "{} repetitions, interleaved and warmed up; creation, growth and destruction of the pools are not timed",
        options.repetitions
    )];
    Ok(Report { command: "bench dmapool", figures, notes })
}

/// Some rounds of one pool, untimed, for its instructions to be counted from outside.
///
/// # Errors
/// [`BenchError`] if the pool fails.
pub fn dmapool_rounds(subject: &dyn Subject, procedure: Procedure, set: &Set, rounds: u64) -> Result<(), BenchError> {
    let memory = BenchMemory::new(std::slice::from_ref(set))?;
    subject.time(&memory, procedure, set, rounds).map_err(|error| error.of(subject.name(), set))?;
    Ok(())
}

/// Counts what a pair of an allocation and a free executes, by running what `command` makes of a subject's index, procedure,
/// set and rounds: a program that calls [`dmapool_rounds`] with them.
///
/// # Errors
/// [`InstructionsError`]
pub fn dmapool_instructions(
    subjects: &[&dyn Subject],
    baseline: usize,
    options: &Options,
    command: &dyn Fn(usize, Procedure, &Set, u64) -> Command,
    progress: &dyn Fn(usize, usize),
) -> Result<Report, InstructionsError> {
    let all = options.procedures.len() * options.sets.len() * subjects.len();
    let mut done = 0;
    let mut each = |subject, procedure, set: &Set| {
        let [fewer, more] = FURTHER.map(|rounds| command(subject, procedure, set, rounds));
        let pairs = (FURTHER[1] - FURTHER[0]) * set.blocks() as u64;
        let count = instructions_each(&fewer, &more, pairs)?;
        done += 1;
        progress(done, all);
        Ok(vec![count])
    };
    let figures = options.procedures.iter().map(|&procedure| {
        let of_set = |set| (0..subjects.len()).map(|subject| each(subject, procedure, set)).collect();
        let values = options.sets.iter().map(of_set).collect::<Result<_, InstructionsError>>()?;
        Ok(Figures {
            procedure: procedure.name(),
            about: procedure.about(),
            unit: Unit { name: "instructions", of: "a pair of allocation and free", by: "callgrind", exact: true },
            sets: options.sets.iter().map(|set| SetLabel { name: set.to_string(), operations: 1 }).collect(),
            subjects: labels(subjects, None),
            baseline,
            samples: Samples::from_values(values),
            rounds: None,
        })
    });
    let figures = figures.collect::<Result<_, InstructionsError>>()?;
    let notes = vec!["by difference of two runs, so that creation and growth of the pools are not in it".to_owned()];
    Ok(Report { command: "bench dmapool --instructions", figures, notes })
}

/// A set as reports show it.
fn label(set: &Set) -> SetLabel {
    SetLabel { name: set.to_string(), operations: ROUNDS * set.blocks() as u64 }
}

/// Subjects as reports show them, with the control behind them if there is one.
fn labels(subjects: &[&dyn Subject], control: Option<usize>) -> Vec<SubjectLabel> {
    let label = |is_control| move |subject: &&dyn Subject| SubjectLabel { name: subject.name().to_owned(), is_control };
    let control = control.and_then(|index| subjects.get(index)).map(label(true));
    subjects.iter().map(label(false)).chain(control).collect()
}

/// Samples of one procedure.
struct Timed<'a> {
    subjects: &'a [&'a dyn Subject],
    memory: &'a BenchMemory,
    options: &'a Options,
    procedure: Procedure,
    /// By set and subject.
    rounds: Vec<Vec<u64>>,
}

impl Timed<'_> {
    fn time(&self, cell: Cell) -> Result<Duration, BenchError> {
        let (subject, set) = (self.subjects[cell.subject], &self.options.sets[cell.set]);
        let rounds = self.rounds[cell.set][cell.subject];
        subject.time(self.memory, self.procedure, set, rounds).map_err(|error| error.of(subject.name(), set))
    }
}

impl Measurement for Timed<'_> {
    type Error = BenchError;

    fn warm_up(&mut self, cell: Cell) -> Result<(), BenchError> {
        let mut time = self.time(cell)?;
        if self.options.rounds.is_some() {
            return Ok(());
        }
        if time < SAMPLE / 10 {
            // One round says little about many.
            self.rounds[cell.set][cell.subject] = 10;
            time = self.time(cell)? / 10;
        }
        let fit = SAMPLE.as_nanos() / time.as_nanos().max(1);
        self.rounds[cell.set][cell.subject] = u64::try_from(fit).unwrap_or(ROUNDS).clamp(1, ROUNDS);
        Ok(())
    }

    fn sample(&mut self, cell: Cell) -> Result<f64, BenchError> {
        let time = self.time(cell)?;
        Ok(time.as_secs_f64() * 1e6 * ROUNDS as f64 / self.rounds[cell.set][cell.subject] as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A pool that takes the same time for each round, in microseconds.
    struct Steady {
        name: &'static str,
        round: u64,
    }

    impl Subject for Steady {
        fn name(&self) -> &str {
            self.name
        }

        fn time(&self, _: &BenchMemory, _: Procedure, set: &Set, rounds: u64) -> Result<Duration, BenchError> {
            if set.geometry().size == 1 {
                return Err(BenchError::Clock("it stopped".to_owned()));
            }
            Ok(Duration::from_micros(self.round * rounds))
        }
    }

    const FAST: Steady = Steady { name: "fast", round: 30 };
    const SLOW: Steady = Steady { name: "slow", round: 5_000 };
    const VERY_SLOW: Steady = Steady { name: "very slow", round: 1_000_000 };

    fn measured(rounds: Option<u64>, progress: &dyn Fn(usize, usize)) -> Figures {
        let sets = Set::TABLE[..2].to_vec();
        let options = Options { procedures: vec![Procedure::Written], sets, repetitions: 3, rounds };
        let report = dmapool(&[&FAST, &SLOW, &VERY_SLOW], 1, &options, progress).expect("nothing fails");
        report.figures.into_iter().next().expect("one procedure")
    }

    #[test]
    fn a_sample_is_for_100_rounds_however_many_it_had() {
        for rounds in [None, Some(1), Some(7)] {
            let figures = measured(rounds, &|_, _| {});
            for (subject, micros) in [3_000.0, 500_000.0, 100_000_000.0, 500_000.0].into_iter().enumerate() {
                for set in 0..2 {
                    let samples = figures.samples.of(Cell { subject, set });
                    assert!(
                        samples.len() == 3 && samples.iter().all(|sample| (sample - micros).abs() < 1e-3),
                        "{samples:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_slow_pool_has_fewer_rounds_unless_they_are_fixed() {
        let rounds = |figures: Figures| [0, 1, 2, 3].map(|subject| figures.rounds(Cell { subject, set: 1 }));
        assert_eq!(rounds(measured(None, &|_, _| {})), [Some(100), Some(4), Some(1), Some(4)]);
        assert_eq!(rounds(measured(Some(7), &|_, _| {})), [Some(7); 4]);
    }

    #[test]
    fn the_baseline_is_measured_a_second_time_as_its_control() {
        let seen = RefCell::new(Vec::new());
        let figures = measured(Some(1), &|done, all| seen.borrow_mut().push((done, all)));
        let shown: Vec<_> = figures.subjects.iter().map(SubjectLabel::shown).collect();
        assert_eq!(shown, ["fast", "slow", "very slow", "slow (A/A control)"]);
        let ratio = |subject| figures.ratio(Cell { subject, set: 0 }).map(|ratio| (ratio.median * 1000.0).round());
        assert_eq!([0, 1, 2, 3].map(ratio), [Some(6.0), Some(1000.0), Some(200_000.0), Some(1000.0)]);
        // Four on two sets, warmed up and three times.
        assert_eq!(*seen.borrow(), (1..=32).map(|done| (done, 32)).collect::<Vec<_>>());
    }

    #[test]
    fn what_fails_is_told_with_its_pool_and_set() {
        let sets = vec!["1/1/0".parse().expect("a set")];
        let options = Options { sets, ..Options::default() };
        let error = dmapool(&[&FAST], 0, &options, &|_, _| {}).expect_err("its clock stopped");
        assert_eq!(error.to_string(), "fast on 1/1/0: the clock of the thread's CPU time cannot be read: it stopped");
    }
}
