//! Text that somebody gives: a file, or standard input.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// Longer texts are refused: they would take the machine's memory, and no log of a board is that long.
const LONGEST: u64 = 256 << 20;

/// The text of a file, or with `-` that of standard input. A serial console has no encoding, and a log may have any bytes:
/// what is no UTF-8 is replaced.
pub(crate) fn text(file: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    let reader: &mut dyn Read =
        if file == Path::new("-") { &mut io::stdin().lock() } else { &mut fs::File::open(file)? };
    reader.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        let text = format!("it has more than {} MiB: cut out what is of interest", LONGEST >> 20);
        return Err(io::Error::other(text));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
