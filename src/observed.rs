//! `poolproof check --observed`.

use std::io::{self, Read, Write};
use std::path::Path;

use scenarios::{Observed, Verdict};

use crate::error::Error;
use crate::exit::Exit;

/// Judges a machine's own log of what its pools did.
pub(crate) fn check(out: &mut dyn Write, file: &Path, quiet: bool) -> Result<Exit, Error> {
    let observed = Observed::of(&read(file)?);
    let is_broken = observed.verdict != Verdict::NoFailureFound;
    if is_broken || !quiet {
        write!(out, "{observed}")?;
    }
    Ok(if is_broken { Exit::Broken } else { Exit::NoFailure })
}

/// A log may have any bytes; what is no UTF-8 is no event either.
fn read(file: &Path) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        io::stdin().lock().read_to_end(&mut bytes).map(drop)
    } else {
        std::fs::read(file).map(|read| bytes = read)
    };
    match read {
        Ok(()) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => {
            let name = file.display().to_string().escape_debug().to_string();
            Err(Error { message: format!("--observed {name}: {error}"), exit: Exit::Untested })
        }
    }
}
