//! `poolproof check --observed`.

use std::io::{ErrorKind, Write};
use std::path::Path;

use scenarios::{Observed, Verdict};

use crate::error::Error;
use crate::exit::Exit;
use crate::input;

/// Judges a machine's own log of what its pools did.
pub(crate) fn check(out: &mut dyn Write, file: &Path, quiet: bool) -> Result<Exit, Error> {
    let observed = Observed::of(&read(file)?);
    let exit = match observed.verdict {
        Verdict::NoFailureFound => Exit::NoFailure,
        // Nothing to judge.
        Verdict::Inconclusive => Exit::Untested,
        _ => Exit::Broken,
    };
    if exit != Exit::NoFailure || !quiet {
        write!(out, "{observed}")?;
    }
    Ok(exit)
}

fn read(file: &Path) -> Result<String, Error> {
    input::text(file).map_err(|error| {
        let name = file.display().to_string().escape_debug().to_string();
        let exit = if error.kind() == ErrorKind::NotFound { Exit::Untested } else { Exit::Usage };
        Error { message: format!("--observed {name}: {error}"), exit }
    })
}
