//! `poolproof mutants`.

use std::io::Write;

use mutants::Options;

use crate::check::setup;
use crate::cli::Mutants;
use crate::error::Error;
use crate::exit::Exit;
use crate::names::find;
use crate::progress::Progress;
use crate::report;

pub(crate) fn mutants(out: &mut dyn Write, arguments: &Mutants) -> Result<Exit, Error> {
    let wanted = if arguments.names.is_empty() {
        mutants::table()
    } else {
        let named = |name: &String| find("mutant", name, mutants::table(), |mutant| &mutant.name);
        arguments.names.iter().map(named).collect::<Result<_, _>>()?
    };
    let mut options = Options { all: arguments.all, seed: arguments.seed, ..Options::default() };
    options.contract.seed = arguments.seed;
    let progress = Progress::new();
    let report = mutants::run(&wanted, &options, &|done, all| progress.show(done, all)).map_err(setup)?;
    progress.finish();
    report::mutants::write(out, &report, arguments.format)?;
    Ok(if report.is_broken() { Exit::Broken } else { Exit::NoFailure })
}
