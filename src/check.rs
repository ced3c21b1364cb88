//! `poolproof check`.

use std::io::{self, Write};

use scenarios::{BenchError, CONTRACT, CPU_BASE, CheckOptions, CpuAddr, Report, Status};

use crate::base::Base;
use crate::cli::{Check, Format, Machine};
use crate::error::Error;
use crate::exit::Exit;
use crate::names::{self, find};
use crate::observed;
use crate::output;
use crate::progress::Progress;
use crate::repeat::Repeat;
use crate::report;
use crate::verdicts::Verdicts;

pub(crate) fn check(out: &mut dyn Write, arguments: &Check) -> Result<Exit, Error> {
    if let Some(file) = &arguments.observed {
        return observed::check(out, file, arguments.quiet);
    }
    arguments.kernel_c.refuse_twice()?;
    let base = base(arguments)?;
    let known = Verdicts::of(arguments, base.as_ref())?;
    if let Some((text, exit)) = known.as_ref().and_then(Verdicts::known) {
        out.write_all(&text)?;
        out.flush()?;
        // If stderr is not there, the verdict still is.
        let _ = writeln!(
            io::stderr(),
            "poolproof: as found before for the same content and options; --fresh runs it again"
        );
        return Ok(exit);
    }
    let mut text = Vec::new();
    let exit = run(&mut text, arguments, base.as_ref())?;
    out.write_all(&text)?;
    if let Some(known) = known {
        known.keep(&text, exit);
    }
    Ok(exit)
}

/// Runs it, and writes what came of it.
fn run(out: &mut Vec<u8>, arguments: &Check, base: Option<&Base>) -> Result<Exit, Error> {
    let Machine { page_size, page_order, cpu_base, seed, ref errata, no_workaround } = arguments.machine;
    let mut options = CheckOptions {
        endpoints: arguments.endpoints.into_iter().collect(),
        page_size: page_size.bytes(),
        page_order,
        cpu_base: cpu_base.map_or(CPU_BASE, CpuAddr),
        seed,
        schedules: arguments.schedules,
        errata: errata.clone(),
        workarounds: !no_workaround,
        ..CheckOptions::default()
    };
    let named = arguments.pool.iter().map(|name| names::pool(name)).collect::<Result<Vec<_>, _>>()?;
    let before = base.iter().map(|base| arguments.kernel_c.policy(&base.path, &base.name));
    let before = before.collect::<Result<Vec<_>, _>>()?;
    let named = [before, named, arguments.kernel_c.policies()?].concat();
    if !named.is_empty() {
        // Naming a pool tests it and excuses nothing.
        options.pools = named;
        options.excuse = false;
    }
    if arguments.hostile {
        options.pools = scenarios::policy::hostile();
        options.excuse = false;
    }
    if let Some(name) = &arguments.driver {
        options.driver = Some(names::driver(name)?);
    }
    if let Some(driver) = arguments.udc_c.driver()? {
        options.driver = Some(driver);
        // As with a pool that is named.
        options.excuse = false;
    }
    if let Some(name) = &arguments.scenario {
        let names = scenarios::scenario::table().iter().map(|scenario| scenario.name()).chain([CONTRACT.0]).collect();
        options.scenarios = vec![find("scenario", name, names, |name| name)?.to_owned()];
    }
    let progress = Progress::new();
    let report = scenarios::check(&options, &|done, all| progress.show(done, all)).map_err(setup)?;
    progress.finish();
    if let Some(base) = base.filter(|_| arguments.format == Format::Text) {
        let after = arguments.kernel_c.dmapool_c.iter().map(|path| path.display().to_string());
        for after in after {
            report::compare::write(out, &report, &base.name, &after)?;
        }
    }
    report::write(out, &report, arguments.format, arguments.quiet, &Repeat::new(arguments))?;
    if !report.panics.is_empty() {
        // What there is, is shown.
        output::stdout()?.write_all(out)?;
        return Err(Error::internal(format!("rows are missing, something panicked: {}", report.panics.join("; "))));
    }
    Ok(if is_broken(&report, arguments.base.as_deref()) { Exit::Broken } else { Exit::NoFailure })
}

/// What the file is compared with.
fn base(arguments: &Check) -> Result<Option<Base>, Error> {
    let [file, others @ ..] = &arguments.kernel_c.dmapool_c[..] else { return Ok(None) };
    let Some(wanted) = &arguments.base else { return Ok(None) };
    if !others.is_empty() {
        return Err(Error::usage("--base compares one --dmapool-c with another"));
    }
    if *wanted == file.display().to_string() {
        return Err(Error::usage("--base names the file itself: expected another, or a revision"));
    }
    Base::find(wanted, file).map(Some)
}

/// Whether anything is broken that is under test: what it is compared with is not.
fn is_broken(report: &Report, base: Option<&str>) -> bool {
    report.rows.iter().any(|row| row.status == Status::Broken && Some(row.pool.as_str()) != base)
}

/// A bench that cannot be set up: by the arguments, or by the machine.
pub(crate) fn setup(error: BenchError) -> Error {
    match error {
        BenchError::Memory(_) | BenchError::Runtime(_) => Error::internal(error.to_string()),
        _ => Error::usage(error.to_string()),
    }
}
