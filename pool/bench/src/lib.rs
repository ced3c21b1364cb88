//! What pools cost.
//!
//! - [`interleaved`]: subjects in turns over sets, warmed up first, with the baseline a second time as a control
//! - [`Spread`], [`paired_ratios`]: medians and quartiles of samples and of their ratios to a baseline
//! - [`Figures`], [`Report`]: what was measured; [`write_text`] is for people, [`json`] for programs
//!
//! *Not here*: figures of a kernel. Everything runs in user space on cached memory, and says so ([`WHERE`]).

mod figures;
mod interleaved;
mod report;
mod statistics;

pub use figures::{Figures, Report, SetLabel, SubjectLabel, Unit, WHERE};
pub use interleaved::{Cell, Measurement, Plan, Samples, interleaved};
pub use report::{json, write_text};
pub use statistics::{Spread, paired_ratios};
