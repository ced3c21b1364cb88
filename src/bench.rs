//! `poolproof bench`.

use std::env;
use std::fs;
use std::io::Write;
use std::process::Command;

use pool_bench::{Options, Procedure, Report, Set, Subject};
use scenarios::{Policy, policy};

use crate::cli::bench::{Bench, Dmapool, DmapoolRounds, What};
use crate::error::Error;
use crate::exit::Exit;
use crate::names;
use crate::progress::Progress;

pub(crate) fn bench(out: &mut dyn Write, arguments: &Bench) -> Result<Exit, Error> {
    match &arguments.what {
        What::Dmapool(arguments) => dmapool(out, arguments),
        What::DmapoolRounds(arguments) => dmapool_rounds(arguments),
    }?;
    Ok(Exit::NoFailure)
}

fn dmapool(out: &mut dyn Write, arguments: &Dmapool) -> Result<(), Error> {
    let (pools, baseline) = pools(arguments)?;
    let subjects: Vec<&dyn Subject> = pools.iter().map(|pool| pool as &dyn Subject).collect();
    let options = options(arguments)?;
    let progress = Progress::of("samples");
    let show = |done, all| progress.show(done, all);
    let report = if arguments.instructions {
        let itself =
            env::current_exe().map_err(|error| Error::internal(format!("this program's own file: {error}")))?;
        let command = |subject: usize, procedure: Procedure, set: &Set, rounds: u64| {
            let mut command = Command::new(&itself);
            command.args(["bench", "dmapool-rounds", "--pool", &pools[subject].name]);
            command.args(["--procedure", procedure.name(), "--set", &set.to_string()]);
            command.args(["--rounds", &rounds.to_string()]);
            command
        };
        pool_bench::dmapool_instructions(&subjects, baseline, &options, &command, &show).map_err(internal)?
    } else {
        pool_bench::dmapool(&subjects, baseline, &options, &show).map_err(internal)?
    };
    progress.finish();
    write(out, &report, arguments)
}

/// The pools to measure, and which of them is the baseline.
fn pools(arguments: &Dmapool) -> Result<(Vec<Policy>, usize), Error> {
    let mut pools = if arguments.pool.is_empty() {
        policy::table()
    } else {
        arguments.pool.iter().map(|name| names::pool(name)).collect::<Result<_, _>>()?
    };
    let mut names: Vec<_> = pools.iter().map(|pool| &pool.name).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::usage(format!("--pool {} stands there twice: each pool is measured once", twice[0])));
    }
    let baseline = arguments.baseline.as_ref().map_or_else(|| Ok(Policy::current()), |name| names::pool(name))?;
    let index = pools.iter().position(|pool| pool.name == baseline.name).unwrap_or_else(|| {
        pools.push(baseline);
        pools.len() - 1
    });
    Ok((pools, index))
}

fn options(arguments: &Dmapool) -> Result<Options, Error> {
    let defaults =
        Options { repetitions: arguments.repetitions.into(), rounds: arguments.rounds, ..Options::default() };
    let or = |named: &[Procedure], all: Vec<Procedure>| if named.is_empty() { all } else { named.to_vec() };
    let procedures = if arguments.instructions {
        if let Some(threads) = arguments.procedure.iter().find(|procedure| !procedure.is_single_threaded()) {
            let name = threads.name();
            return Err(Error::usage(format!(
                "--procedure {name} has no count of instructions that repeats: how often a thread waits is chance"
            )));
        }
        or(&arguments.procedure, vec![Procedure::DmapoolTest])
    } else {
        or(&arguments.procedure, defaults.procedures)
    };
    let sets = if arguments.set.is_empty() { defaults.sets } else { arguments.set.clone() };
    Ok(Options { procedures, sets, ..defaults })
}

fn write(out: &mut dyn Write, report: &Report, arguments: &Dmapool) -> Result<(), Error> {
    if let Some(file) = &arguments.plot {
        let failed = |error| Error::internal(format!("--plot {}: {error}", file.display()));
        fs::write(file, pool_bench::plot(report)).map_err(failed)?;
    }
    if arguments.json {
        writeln!(out, "{:#}", pool_bench::json(report))?;
    } else {
        pool_bench::write_text(out, report)?;
    }
    Ok(())
}

fn dmapool_rounds(arguments: &DmapoolRounds) -> Result<(), Error> {
    let pool = names::pool(&arguments.pool)?;
    pool_bench::dmapool_rounds(&pool, arguments.procedure, &arguments.set, arguments.rounds).map_err(internal)
}

fn internal(error: impl std::fmt::Display) -> Error {
    Error::internal(error.to_string())
}
