//! `poolproof check --observed`.

use std::io::Write;
use std::path::Path;

use scenarios::{Observed, Verdict};

use crate::error::Error;
use crate::exit::Exit;
use crate::input;

/// Judges a machine's own log of what its pools did.
pub(crate) fn check(out: &mut dyn Write, file: &Path, quiet: bool) -> Result<Exit, Error> {
    let observed = Observed::of(&read(file)?);
    let is_broken = observed.verdict != Verdict::NoFailureFound;
    if is_broken || !quiet {
        write!(out, "{observed}")?;
    }
    Ok(if is_broken { Exit::Broken } else { Exit::NoFailure })
}

fn read(file: &Path) -> Result<String, Error> {
    input::text(file).map_err(|error| {
        let name = file.display().to_string().escape_debug().to_string();
        Error { message: format!("--observed {name}: {error}"), exit: Exit::Untested }
    })
}
