//! The order of repetitions: subjects take turns, so that a disturbance meets all of them.
//!
//! Measured one after the other in a fixed order, the first subject looked up to a quarter slower than it is, and each
//! subject always met the caches as the same other one had left them. Here every repetition has each subject once for
//! each set, every second runs the other way round, and after two another one begins.

/// One subject on one set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Index of the subject.
    pub subject: usize,
    /// Index of the set.
    pub set: usize,
}

/// What is repeated.
pub trait Measurement {
    /// Why it cannot go on.
    type Error;

    /// Runs once before anything counts: caches and branch predictors get warm, and how long a sample takes is known.
    ///
    /// # Errors
    /// Ends the whole.
    fn warm_up(&mut self, cell: Cell) -> Result<(), Self::Error>;

    /// One sample, in the unit of the caller.
    ///
    /// # Errors
    /// Ends the whole.
    fn sample(&mut self, cell: Cell) -> Result<f64, Self::Error>;
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Subjects. A baseline that is among them twice is a control: it differs from itself by what the machine adds.
    pub subjects: usize,
    /// Sets, such as geometries of a pool.
    pub sets: usize,
    /// Samples of each subject on each set.
    pub repetitions: usize,
}

impl Plan {
    /// Cells to visit, the warm-up among them.
    #[must_use]
    pub const fn visits(&self) -> usize {
        self.subjects * self.sets * (self.repetitions + 1)
    }

    /// Cells of one repetition in their order.
    fn order(&self, repetition: usize) -> impl Iterator<Item = Cell> + use<> {
        let (subjects, sets) = (self.subjects, self.sets);
        (0..sets).flat_map(move |set| {
            (0..subjects).map(move |turn| {
                let turn = if repetition.is_multiple_of(2) { turn } else { subjects - 1 - turn };
                Cell { subject: (turn + repetition / 2 + set) % subjects, set }
            })
        })
    }
}

/// Samples by set, subject and repetition.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    values: Vec<Vec<Vec<f64>>>,
}

impl Samples {
    /// Samples that were not taken here, by set, subject and repetition.
    #[must_use]
    pub const fn from_values(values: Vec<Vec<Vec<f64>>>) -> Self {
        Self { values }
    }

    /// One subject's samples on one set, one for each repetition; none outside of the plan.
    #[must_use]
    pub fn of(&self, cell: Cell) -> &[f64] {
        self.values.get(cell.set).and_then(|set| set.get(cell.subject)).map_or(&[], Vec::as_slice)
    }
}

/// Warms everything up, then takes every sample of `plan`. `progress` gets the visits that are done.
///
/// # Errors
/// The first of `measurement`.
pub fn interleaved<M: Measurement>(
    plan: Plan,
    measurement: &mut M,
    progress: &mut dyn FnMut(usize),
) -> Result<Samples, M::Error> {
    let mut values = vec![vec![Vec::with_capacity(plan.repetitions); plan.subjects]; plan.sets];
    let mut done = 0;
    let mut step = || {
        done += 1;
        progress(done);
    };
    for cell in plan.order(0) {
        measurement.warm_up(cell)?;
        step();
    }
    for repetition in 0..plan.repetitions {
        for cell in plan.order(repetition) {
            values[cell.set][cell.subject].push(measurement.sample(cell)?);
            step();
        }
    }
    Ok(Samples { values })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Visits {
        warm: Vec<Cell>,
        sampled: Vec<Cell>,
        fails_at: Option<usize>,
    }

    impl Measurement for Visits {
        type Error = &'static str;

        fn warm_up(&mut self, cell: Cell) -> Result<(), Self::Error> {
            assert!(self.sampled.is_empty(), "everything is warm before the first sample");
            self.warm.push(cell);
            Ok(())
        }

        fn sample(&mut self, cell: Cell) -> Result<f64, Self::Error> {
            self.sampled.push(cell);
            let failed = self.fails_at == Some(self.sampled.len());
            if failed { Err("failed") } else { Ok((cell.set * 10 + cell.subject) as f64) }
        }
    }

    const PLAN: Plan = Plan { subjects: 3, sets: 2, repetitions: 6 };

    #[test]
    fn every_cell_has_every_repetition() {
        let (mut visits, mut done) = (Visits::default(), Vec::new());
        let samples = interleaved(PLAN, &mut visits, &mut |count| done.push(count)).expect("nothing fails");
        for set in 0..2 {
            for subject in 0..3 {
                let cell = Cell { subject, set };
                assert_eq!(samples.of(cell), [(set * 10 + subject) as f64; 6]);
                assert_eq!(visits.warm.iter().filter(|&&warm| warm == cell).count(), 1);
            }
        }
        assert_eq!(done, (1..=PLAN.visits()).collect::<Vec<_>>());
        assert_eq!(samples.of(Cell { subject: 3, set: 0 }), [0.0; 0]);
    }

    #[test]
    fn subjects_take_turns_in_both_directions() {
        let mut visits = Visits::default();
        interleaved(PLAN, &mut visits, &mut |_| {}).expect("nothing fails");
        let order = |repetition: usize, set: usize| -> Vec<usize> {
            let cells = &visits.sampled[repetition * 6 + set * 3..][..3];
            assert!(cells.iter().all(|cell| cell.set == set));
            cells.iter().map(|cell| cell.subject).collect()
        };
        assert_eq!([order(0, 0), order(1, 0), order(2, 0), order(3, 0)], [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]]);
        assert_eq!(order(0, 1), [1, 2, 0], "and another one begins on the next set");
        let firsts: Vec<usize> = (0..6).map(|repetition| order(repetition, 0)[0]).collect();
        for subject in 0..3 {
            assert_eq!(firsts.iter().filter(|&&first| first == subject).count(), 2, "{firsts:?}");
        }
    }

    #[test]
    fn a_failure_ends_it() {
        let mut visits = Visits { fails_at: Some(5), ..Visits::default() };
        assert_eq!(interleaved(PLAN, &mut visits, &mut |_| {}), Err("failed"));
        assert_eq!(visits.sampled.len(), 5);
    }
}
