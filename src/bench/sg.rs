//! `poolproof bench sg`.

use std::io::Write;
use std::process::Command;

use pool_bench::sg::{self, Options, Procedure, SgSubject, Source};

use super::{Plot, internal, itself, once, write};
use crate::cli::bench::{Sg, SgRounds};
use crate::error::Error;
use crate::progress::Progress;

pub(super) fn sg(out: &mut dyn Write, arguments: &Sg) -> Result<(), Error> {
    let options = options(arguments);
    // Before the measuring, which takes its time.
    let plot = arguments.plot.as_deref().map(Plot::create).transpose()?;
    let subjects: Vec<&dyn SgSubject> = Source::ALL.iter().map(|source| source as &dyn SgSubject).collect();
    let progress = Progress::of("samples");
    let show = |done, all| progress.show(done, all);
    let report = if arguments.instructions {
        let itself = itself()?;
        let command = |subject: usize, procedure: Procedure, entries: u32, rounds: u64| {
            let mut command = Command::new(itself.get_program());
            command.args(["bench", "sg-rounds", "--source", subjects[subject].name()]);
            command.args(["--procedure", procedure.name(), "--entries", &entries.to_string()]);
            command.args(["--rounds", &rounds.to_string()]);
            command
        };
        sg::sg_instructions(&subjects, &options, &command, &show).map_err(internal)?
    } else {
        sg::sg(&subjects, &options, &show).map_err(internal)?
    };
    progress.finish();
    write(out, &report, plot, arguments.json)
}

fn options(arguments: &Sg) -> Options {
    let defaults =
        Options { repetitions: arguments.repetitions.into(), rounds: arguments.rounds, ..Options::default() };
    let procedures = if arguments.procedure.is_empty() { defaults.procedures } else { once(&arguments.procedure) };
    let entries = if arguments.entries.is_empty() { defaults.entries } else { once(&arguments.entries) };
    Options { procedures, entries, ..defaults }
}

pub(super) fn sg_rounds(arguments: &SgRounds) -> Result<(), Error> {
    let source = Source::ALL.into_iter().find(|source| source.name() == arguments.source);
    let source = source.ok_or_else(|| Error::usage(format!("--source {}: there is none", arguments.source)))?;
    sg::sg_rounds(&source, arguments.procedure, arguments.entries, arguments.rounds).map_err(internal)
}
