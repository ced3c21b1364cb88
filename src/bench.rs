//! `poolproof bench`.

mod sg;
mod subjects;

use std::env;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use pool_bench::{Options, Procedure, Report, Set};

use crate::cli::bench::{Bench, Dmapool, DmapoolRounds, What};
use crate::error::Error;
use crate::exit::Exit;
use crate::progress::Progress;
use subjects::Subjects;

pub(crate) fn bench(out: &mut dyn Write, arguments: &Bench) -> Result<Exit, Error> {
    match &arguments.what {
        What::Dmapool(arguments) => dmapool(out, arguments),
        What::DmapoolRounds(arguments) => dmapool_rounds(arguments),
        What::Sg(arguments) => sg::sg(out, arguments),
        What::SgRounds(arguments) => sg::sg_rounds(arguments),
    }?;
    Ok(Exit::NoFailure)
}

fn dmapool(out: &mut dyn Write, arguments: &Dmapool) -> Result<(), Error> {
    let options = options(arguments)?;
    // Before the measuring, which takes a minute.
    let plot = arguments.plot.as_deref().map(Plot::create).transpose()?;
    let subjects = Subjects::named(&arguments.pool, &arguments.kernel_c, arguments.baseline.as_deref())?;
    let progress = Progress::of("samples");
    let show = |done, all| progress.show(done, all);
    let mut report = if arguments.instructions {
        let itself = itself()?;
        let command = |subject: usize, procedure: Procedure, set: &Set, rounds: u64| {
            let mut command = Command::new(itself.get_program());
            command.args(["bench", "dmapool-rounds"]).args(subjects.words(subject));
            command.args(["--procedure", procedure.name(), "--set", &set.to_string()]);
            command.args(["--rounds", &rounds.to_string()]);
            command
        };
        pool_bench::dmapool_instructions(&subjects.all(), subjects.baseline(), &options, &command, &show)
            .map_err(internal)?
    } else {
        pool_bench::dmapool(&subjects.all(), subjects.baseline(), &options, &show).map_err(internal)?
    };
    report.notes.extend(subjects.notes());
    progress.finish();
    write(out, &report, plot, arguments.json)
}

/// The report in the form that was asked for, and its plot.
fn write(out: &mut dyn Write, report: &Report, plot: Option<Plot<'_>>, json: bool) -> Result<(), Error> {
    if let Some(plot) = plot {
        plot.write(report)?;
    }
    if json {
        writeln!(out, "{:#}", pool_bench::json(report))?;
    } else {
        pool_bench::write_text(out, report)?;
    }
    Ok(())
}

/// This program, for what it has counted from outside.
fn itself() -> Result<Command, Error> {
    let itself = env::current_exe().map_err(|error| Error::internal(format!("this program's own file: {error}")))?;
    Ok(Command::new(itself))
}

fn options(arguments: &Dmapool) -> Result<Options, Error> {
    let defaults =
        Options { repetitions: arguments.repetitions.into(), rounds: arguments.rounds, ..Options::default() };
    let procedures = match (&arguments.procedure[..], arguments.instructions) {
        ([], false) => defaults.procedures,
        ([], true) => vec![Procedure::DmapoolTest],
        (named, _) => once(named),
    };
    if let Some(threads) = procedures.iter().find(|procedure| arguments.instructions && !procedure.is_single_threaded())
    {
        let name = threads.name();
        return Err(Error::usage(format!(
            "--procedure {name} has no count of instructions that repeats: how often a thread waits is chance"
        )));
    }
    let sets = if arguments.set.is_empty() { defaults.sets } else { once(&arguments.set) };
    Ok(Options { procedures, sets, ..defaults })
}

/// What is named twice is measured once.
fn once<T: Copy + PartialEq>(named: &[T]) -> Vec<T> {
    let firsts = named.iter().enumerate().filter(|(index, one)| !named[..*index].contains(one));
    firsts.map(|(_, one)| *one).collect()
}

/// The file of `--plot`.
struct Plot<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> Plot<'a> {
    fn create(path: &'a Path) -> Result<Self, Error> {
        let file = File::create(path).map_err(|error| Self::failed(path, &error))?;
        Ok(Self { path, file })
    }

    fn write(mut self, report: &Report) -> Result<(), Error> {
        self.file.write_all(pool_bench::plot(report).as_bytes()).map_err(|error| Self::failed(self.path, &error))
    }

    fn failed(path: &Path, error: &io::Error) -> Error {
        Error::internal(format!("--plot {}: cannot be written: {error}", path.display()))
    }
}

fn dmapool_rounds(arguments: &DmapoolRounds) -> Result<(), Error> {
    let named: Vec<String> = arguments.pool.iter().cloned().collect();
    let subjects = Subjects::alone(&named, &arguments.kernel_c)?;
    subjects.all().into_iter().try_for_each(|subject| {
        pool_bench::dmapool_rounds(subject, arguments.procedure, &arguments.set, arguments.rounds).map_err(internal)
    })
}

fn internal(error: impl std::fmt::Display) -> Error {
    Error::internal(error.to_string())
}
