//! `poolproof run`.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use scenarios::{Bench, CPU_BASE, CpuAddr, PortPath, TraceLine};

use crate::check::setup;
use crate::cli::{Machine, Run};
use crate::error::Error;
use crate::exit::Exit;
use crate::names::{self, find};

pub(crate) fn run(out: &mut dyn Write, arguments: &Run) -> Result<Exit, Error> {
    let policy = match &arguments.kernel_c.dmapool_c[..] {
        [] => names::pool(&arguments.pool)?,
        [path] => arguments.kernel_c.policy(path, &path.display().to_string())?,
        _ => return Err(Error::usage("run takes one pool: one --dmapool-c")),
    };
    let driver = match arguments.udc_c.driver()? {
        Some(driver) => driver,
        None => names::driver(&arguments.driver)?,
    };
    let scenario = find("scenario", &arguments.scenario, scenarios::scenario::table(), |scenario| scenario.name())?;
    let port: PortPath = arguments.port.parse().map_err(|error| Error::usage(format!("--port: {error}")))?;
    let Machine { page_size, page_order, cpu_base, seed, ref errata, no_workaround } = arguments.machine;
    let bench = Bench::new()
        .pool(policy)
        .built_in_driver(driver)
        .endpoints(arguments.endpoints)
        .speed(arguments.speed.into())
        .page_size(page_size.bytes())
        .page_order(page_order)
        .cpu_base(cpu_base.map_or(CPU_BASE, CpuAddr))
        .port(port)
        .seed(seed)
        .schedule(arguments.schedule.clone())
        .errata(errata.iter().copied())
        .workarounds(!no_workaround)
        .debugfs(arguments.debugfs.is_some());
    if let Some(folder) = &arguments.debugfs {
        // Before the run: a folder that cannot be there is found at once.
        let made = fs::create_dir_all(folder);
        made.map_err(|error| Error::usage(format!("--debugfs: {} cannot be made: {error}", folder.display())))?;
    }
    let (run, trace) = if arguments.trace {
        bench.trace_scenario(&*scenario).map_err(setup)?
    } else {
        (bench.run_scenario(&*scenario).map_err(setup)?, Vec::new())
    };
    write(out, &run, &trace)?;
    if let Some(folder) = &arguments.debugfs {
        write_debugfs(out, folder, &run)?;
    }
    Ok(match run.unreached() {
        _ if run.is_broken() => Exit::Broken,
        // What was to be tried was not.
        Some(_) => Exit::Untested,
        None => Exit::NoFailure,
    })
}

/// Writes the driver's files into `folder`, which is there.
fn write_debugfs(out: &mut dyn Write, folder: &Path, run: &scenarios::Run) -> Result<(), Error> {
    if run.debugfs.is_empty() {
        // The verdict above is what counts.
        return Ok(writeln!(
            out,
            "debugfs: nothing is written, for no driver of the controller ran when the scenario ended"
        )?);
    }
    let written = run.debugfs.iter().try_for_each(|file| fs::write(folder.join(file.name), &file.text));
    written.map_err(|error| Error::internal(format!("--debugfs: {} cannot be written: {error}", folder.display())))
}

fn write(out: &mut dyn Write, run: &scenarios::Run, trace: &[TraceLine]) -> io::Result<()> {
    for TraceLine { header, actor, symbolic, .. } in trace {
        let at = header.at + run.log_origin;
        writeln!(out, "[{:6}.{:06}] {actor:<6} {symbolic}", at.as_secs(), at.subsec_micros())?;
    }
    // With a trace the log has been printed in its place.
    let log = if trace.is_empty() { &run.log[..] } else { &[] };
    for line in log {
        writeln!(out, "{line}")?;
    }
    for line in &run.board_log {
        writeln!(out, "board: {line}")?;
    }
    writeln!(out, "\n{}", run.verdict)?;
    if let Some(failure) = &run.failure {
        writeln!(out, "error: {failure}")?;
    }
    for line in &run.notes {
        writeln!(out, "seen: {line}")?;
    }
    if let Some((steps, accesses)) = run.unreached() {
        let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
        writeln!(out, "not tried: {}: the driver made {accesses} accesses while it was raced", steps.join(", "))?;
    }
    for line in run.reason() {
        writeln!(out, "reason: {line}")?;
    }
    writeln!(out, "scope: {}", run.scope)
}
