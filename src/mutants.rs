//! `poolproof mutants`.

use std::io::Write;

use mutants::{Edited, Mutant, Options};

use crate::check::setup;
use crate::cli::Mutants;
use crate::error::Error;
use crate::exit::Exit;
use crate::kernel_c::refused;
use crate::names::find;
use crate::progress::Progress;
use crate::report;

pub(crate) fn mutants(out: &mut dyn Write, arguments: &Mutants) -> Result<Exit, Error> {
    let (table, baselines) = match &arguments.kernel_c.dmapool_c[..] {
        [] => (mutants::table(), mutants::baselines()),
        [path] => {
            let Edited { baseline, mutants, unfit } =
                mutants::edited(path, &arguments.kernel_c.options()).map_err(refused)?;
            if mutants.is_empty() {
                let message =
                    format!("--dmapool-c: no fault fits {}: it is not like Linux's of 6.4 and later", path.display());
                return Err(Error { message, exit: Exit::Untested });
            }
            if !unfit.is_empty() {
                writeln!(out, "do not fit the file, and are not tried: {}", unfit.join(", "))?;
            }
            (mutants, vec![baseline])
        }
        _ => return Err(Error::usage("mutants takes one --dmapool-c")),
    };
    let wanted = if arguments.names.is_empty() {
        table
    } else {
        let named = |name: &String| find("mutant", name, table.clone(), |mutant: &Mutant| &mutant.name);
        arguments.names.iter().map(named).collect::<Result<_, _>>()?
    };
    let mut options = Options { all: arguments.all, seed: arguments.seed, ..Options::default() };
    options.contract.seed = arguments.seed;
    let progress = Progress::new();
    let report =
        mutants::run_against(&wanted, baselines, &options, &|done, all| progress.show(done, all)).map_err(setup)?;
    progress.finish();
    report::mutants::write(out, &report, arguments.format)?;
    Ok(if report.is_broken() { Exit::Broken } else { Exit::NoFailure })
}
