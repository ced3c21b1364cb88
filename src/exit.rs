//! Exit status, made for `git bisect run`: 0 is good, 1 to 127 but 125 is bad, 125 cannot be tested, 128 and above
//! stops the bisection.

use std::process::ExitCode;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// No failure found.
    NoFailure = 0,
    /// Something is broken.
    Broken = 1,
    /// What was to be tested is not there.
    Untested = 125,
    /// Wrong usage.
    Usage = 129,
    /// Internal error.
    Internal = 130,
    /// The reader of the output went away, as a shell shows SIGPIPE.
    BrokenPipe = 141,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
