//! Text that somebody gives: a file, or standard input.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// The text of a file, or with `-` that of standard input. A serial console has no encoding, and a log may have any bytes:
/// what is no UTF-8 is replaced.
pub(crate) fn text(file: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        io::stdin().lock().read_to_end(&mut bytes)?;
    } else {
        bytes = fs::read(file)?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
