//! Why a command ends without a result.

use std::fmt;
use std::io;

use crate::exit::Exit;

/// One clear message and the exit status that belongs to it.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) message: String,
    pub(crate) exit: Exit,
}

impl Error {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), exit: Exit::Usage }
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self { message: message.into(), exit: Exit::Internal }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { message: String::new(), exit: Exit::BrokenPipe };
        }
        Self::internal(format!("cannot write the output: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
