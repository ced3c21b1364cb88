//! The kernel's own udc.c as the driver: `--udc-c`.

use c_bridge::Options;
use kernel_udc::{OpenError, UdcFile};
use scenarios::{Driver, kernel_driver};

use crate::cli::UdcC;
use crate::error::Error;
use crate::exit::Exit;

/// Its name in rows and scopes.
const NAME: &str = "udc.c";

impl UdcC {
    /// The driver, if one is named.
    pub(crate) fn driver(&self) -> Result<Option<Driver>, Error> {
        let Some(path) = &self.udc_c else { return Ok(None) };
        let file = UdcFile::open(path, self.headers.as_deref(), &Options::default()).map_err(refused)?;
        Ok(Some(kernel_driver(NAME, &file)))
    }

    /// The words of a command line that name it.
    pub(crate) fn words(&self) -> String {
        let mut words = String::new();
        for (flag, path) in [("--udc-c", &self.udc_c), ("--headers", &self.headers)] {
            if let Some(path) = path {
                words += &format!(" {flag} {}", path.display());
            }
        }
        words
    }
}

/// What cannot be tested is skipped by a bisection; headers are the caller's, and the rest is the machine's fault.
fn refused(error: OpenError) -> Error {
    let exit = match error {
        _ if error.is_the_files() => Exit::Untested,
        OpenError::Headers { .. } => Exit::Usage,
        _ => Exit::Internal,
    };
    Error { message: format!("--udc-c: {error}"), exit }
}
