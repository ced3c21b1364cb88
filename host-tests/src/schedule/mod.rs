//! Schedules: what happens on the wire at which of the driver's accesses.
//!
//! Accesses to registers and descriptors are counted from 0 while a scenario races ([`crate::Session::race`]). The same
//! schedule on the same bench is the same run, on every machine.

mod race;
mod sweep;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

pub use race::Act;
pub(crate) use race::{Begins, Race, Raced, StepTaken};
pub use sweep::{Sweep, Swept};

/// What happens at one access.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step {
    /// Before which of the driver's accesses, counted from 0.
    pub at: u32,
    /// What.
    pub deed: Deed,
}

/// What may happen at an access.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Deed {
    /// One of the scenario's acts, such as a packet.
    Act {
        /// Its name, of [`crate::Needs::acts`].
        name: String,
        /// Where the device's work on it is held up, and for how many accesses.
        held: Option<(String, u32)>,
    },
    /// The processor sees no interrupt for so many accesses, or for 125 µs if the driver makes none meanwhile.
    Delay(u32),
}

/// What happens at a driver's accesses, in their order.
///
/// Written `setup@12`, `in@4/next+3` (the device's work on it is held up at `next` for 3 accesses) and `irq@2+8` (no
/// interrupt for 8 accesses), with commas between them; `none` for an empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Schedule(Vec<Step>);

/// Why a text is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{step}` is no step of a schedule: expected `setup@12`, `in@4/next+3` or `irq@2+8`, with commas between steps"
)]
pub struct ScheduleError {
    /// The step.
    step: String,
}

/// What delays interrupts is written like an act.
const DELAY: &str = "irq";

impl Schedule {
    /// These steps, in the order of their accesses.
    #[must_use]
    pub fn new(mut steps: Vec<Step>) -> Self {
        steps.sort_by_key(|step| step.at);
        Self(steps)
    }

    /// The steps, in the order of their accesses.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Names of acts and of places in a device's work that are not among these.
    pub(crate) fn unknown<'a>(&'a self, acts: &[&str], places: &[&str]) -> Option<&'a str> {
        self.0.iter().find_map(|step| match &step.deed {
            Deed::Act { name, .. } if !acts.contains(&name.as_str()) => Some(name.as_str()),
            Deed::Act { held: Some((place, _)), .. } if !places.contains(&place.as_str()) => Some(place.as_str()),
            _ => None,
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at;
        match &self.deed {
            Deed::Act { name, held: None } => write!(f, "{name}@{at}"),
            Deed::Act { name, held: Some((place, accesses)) } => write!(f, "{name}@{at}/{place}+{accesses}"),
            Deed::Delay(accesses) => write!(f, "{DELAY}@{at}+{accesses}"),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (index, step) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{step}")?;
        }
        Ok(())
    }
}

impl FromStr for Step {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        parse(text).ok_or_else(|| ScheduleError { step: text.chars().take(64).collect() })
    }
}

fn parse(text: &str) -> Option<Step> {
    let (name, rest) = text.trim().split_once('@')?;
    // `parse` takes a sign.
    let number = |text: &str| if text.starts_with('+') { None } else { text.parse().ok() };
    let word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if name == DELAY {
        let (at, accesses) = rest.split_once('+')?;
        return Some(Step { at: number(at)?, deed: Deed::Delay(number(accesses)?) });
    }
    let (at, held) = match rest.split_once('/') {
        None => (rest, None),
        Some((at, held)) => {
            let (place, accesses) = held.split_once('+')?;
            (at, Some((place.to_owned(), number(accesses)?)))
        }
    };
    let sound = word(name) && held.as_ref().is_none_or(|(place, _)| word(place));
    sound.then(|| Some(Step { at: number(at)?, deed: Deed::Act { name: name.to_owned(), held } }))?
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        if text.trim() == "none" {
            return Ok(Self::default());
        }
        text.split(',').map(Step::from_str).collect::<Result<_, _>>().map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_read_as_it_is_written() {
        for text in ["none", "setup@12", "in@4/next+3", "irq@2+8", "irq@0+1,setup@12,in@40/stat+3"] {
            assert_eq!(text.parse::<Schedule>().expect(text).to_string(), text);
        }
        assert_eq!("b@9, a@3".parse::<Schedule>().expect("sorted").to_string(), "a@3,b@9");
    }

    #[test]
    fn what_is_none_is_refused_with_an_example() {
        for text in ["", "setup", "setup@", "@3", "setup@x", "in@4/next", "in@4/+3", "irq@4", "irq@+4+1", "a@1,,b@2"] {
            let error = text.parse::<Schedule>().expect_err(text).to_string();
            assert!(error.contains("expected `setup@12`"), "{error}");
        }
    }
}
