//! A race: the acts of a scenario at the accesses that a schedule names.

use std::fmt;
use std::sync::Arc;

use bus::{Event, Point, Preempt, Trace};
use devices::Device;
use parking_lot::Mutex;

use super::{Deed, Schedule, Step};
use crate::irq::Line;

/// Who emits its events.
const SOURCE: &str = "schedule";

/// Something that a scenario lets happen on the wire.
pub struct Act {
    name: &'static str,
    act: Box<dyn FnMut() + Send>,
}

impl Act {
    /// An act called `name`. It runs in the middle of the driver's work and must not call the driver.
    pub fn new(name: &'static str, act: impl FnMut() + Send + 'static) -> Self {
        Self { name, act: Box::new(act) }
    }
}

/// How a race went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Raced {
    /// The driver's accesses while it raced.
    pub(crate) accesses: u32,
    /// Steps of the schedule that took place.
    pub(crate) steps: usize,
}

/// Somebody at the driver's preemption points who follows a schedule.
pub(crate) struct Race {
    schedule: Schedule,
    line: Arc<Line>,
    device: Arc<dyn Device>,
    trace: Trace,
    state: Mutex<State>,
}

/// A step that takes place, before the driver's next access.
pub(crate) struct StepTaken(Step);

impl Event for StepTaken {}

impl fmt::Display for StepTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, before access {} of the race", self.0, self.0.at)
    }
}

/// The driver's accesses count from the next one on.
pub(crate) struct Begins;

impl Event for Begins {}

impl fmt::Display for Begins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the race begins: the driver's next access is access 0")
    }
}

#[derive(Default)]
struct State {
    /// `None` while nothing is raced.
    acts: Option<Vec<Act>>,
    raced: Raced,
    /// The access at which the device's work goes on.
    device_waits: Option<u32>,
    /// The access at which the processor sees interrupts again.
    line_waits: Option<u32>,
}

impl Race {
    pub(crate) fn new(schedule: Schedule, line: Arc<Line>, device: Arc<dyn Device>, trace: Trace) -> Arc<Self> {
        Arc::new(Self { schedule, line, device, trace, state: Mutex::default() })
    }

    /// From the driver's next access on its accesses count.
    pub(crate) fn begin(&self, acts: Vec<Act>) {
        self.trace.emit(SOURCE, || Begins);
        self.state.lock().acts = Some(acts);
    }

    /// Nothing happens any more, and nothing is held up.
    pub(crate) fn end(&self) {
        self.state.lock().acts = None;
        self.release();
    }

    /// Whether the device's work or interrupts are held up.
    pub(crate) fn holds(&self) -> bool {
        let state = self.state.lock();
        state.device_waits.is_some() || state.line_waits.is_some()
    }

    /// What is held up goes on.
    pub(crate) fn release(&self) {
        {
            let mut state = self.state.lock();
            (state.device_waits, state.line_waits) = (None, None);
        }
        self.device.go_on();
        self.line.release();
    }

    /// How it went so far.
    pub(crate) fn raced(&self) -> Raced {
        self.state.lock().raced
    }

    fn step(&self, step: &Step) {
        self.trace.emit(SOURCE, || StepTaken(step.clone()));
        match &step.deed {
            Deed::Act { name, held } => {
                // The lock is open meanwhile: what happens may end in the middle of something that asks for it.
                let taken = self.state.lock().acts.as_mut().and_then(|acts| {
                    let index = acts.iter().position(|act| act.name == name)?;
                    Some(acts.swap_remove(index))
                });
                let Some(mut act) = taken else { return };
                if let Some((place, accesses)) = held {
                    if let Some(place) = self.device.pauses().iter().position(|known| known == place) {
                        self.device.pause(place);
                    }
                    self.state.lock().device_waits = Some(step.at.saturating_add(*accesses));
                }
                (act.act)();
                if let Some(acts) = &mut self.state.lock().acts {
                    acts.push(act);
                }
            }
            Deed::Delay(accesses) => {
                self.line.hold();
                self.state.lock().line_waits = Some(step.at.saturating_add(*accesses));
            }
        }
    }
}

impl Preempt for Race {
    fn at(&self, _: Point) {
        let mut state = self.state.lock();
        if state.acts.is_none() {
            return;
        }
        let now = state.raced.accesses;
        state.raced.accesses += 1;
        let is_over = |waits: &mut Option<u32>| waits.take_if(|at| *at <= now).is_some();
        let (device, line) = (is_over(&mut state.device_waits), is_over(&mut state.line_waits));
        let done = state.raced.steps;
        let due = self.schedule.steps().iter().skip(done).take_while(|step| step.at <= now).count();
        state.raced.steps += due;
        drop(state);
        if device {
            self.device.go_on();
        }
        if line {
            self.line.release();
        }
        self.schedule.steps().iter().skip(done).take(due).for_each(|step| self.step(step));
    }
}
