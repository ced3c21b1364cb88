//! What pools cost.
//!
//! - [`dmapool`]: pools ([`Subject`]: policies of Rust, a kernel's C files) through [`Procedure`]s on [`Set`]s;
//!   [`dmapool_instructions`] counts what they execute
//! - [`sg`]: scatter-gather tables, and the sources of their chunks
//! - [`interleaved`]: subjects in turns over sets, warmed up first, with the baseline a second time as a control
//! - [`Spread`], [`paired_ratios`]: medians and quartiles of samples and of their ratios to a baseline
//! - [`Figures`], [`Report`]: what was measured; [`write_text`] is for people, [`json`] for programs
//!
//! *Not here*: figures of a kernel. Everything runs in user space on cached memory, and says so ([`WHERE`]).

mod client;
mod clock;
mod dmapool;
mod error;
mod figures;
mod instructions;
mod interleaved;
mod memory;
mod plot;
mod procedure;
mod random;
mod report;
mod sets;
pub mod sg;
mod statistics;
mod subject;

pub use dmapool::{Options, ROUNDS, dmapool, dmapool_instructions, dmapool_rounds};
pub use error::{BenchError, NoBlock};
pub use figures::{Figures, Report, SetLabel, SubjectLabel, Unit, WHERE};
pub use instructions::{InstructionsError, instructions, instructions_each};
pub use interleaved::{Cell, Measurement, Plan, Samples, interleaved};
pub use memory::BenchMemory;
pub use plot::plot;
pub use procedure::Procedure;
pub use report::{json, write_text};
pub use sets::{Set, SetError};
pub use statistics::{Spread, paired_ratios};
pub use subject::{KernelSubject, Subject};
