//! Standard output that tells when it cannot be written.

use std::io::{self, Write};

/// Standard output. The standard library's own takes no notice of a descriptor that cannot be written.
#[cfg(unix)]
pub(crate) fn stdout() -> io::Result<Box<dyn Write>> {
    use std::fs::File;
    use std::os::fd::AsFd;
    let descriptor = io::stdout().as_fd().try_clone_to_owned()?;
    Ok(Box::new(io::BufWriter::new(File::from(descriptor))))
}

/// Standard output.
#[cfg(not(unix))]
pub(crate) fn stdout() -> io::Result<Box<dyn Write>> {
    Ok(Box::new(io::BufWriter::new(io::stdout())))
}
