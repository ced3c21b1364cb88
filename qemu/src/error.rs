//! Why a board gives no result, or a bad one.

use std::io;
use std::time::Duration;

use scenarios::{LiveError, ServedError};
use thiserror::Error;

/// Why a board was not brought up, or what it did wrong.
#[derive(Debug, Error)]
pub enum BoardError {
    /// Something that `qemu/setup` brings is missing.
    #[error("{0}: run qemu/setup")]
    Setup(String),
    /// The kernel to test is not there.
    #[error("{0}")]
    Kernel(String),
    /// The operating system refused something.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What it said.
        error: io::Error,
    },
    /// The controller cannot be served.
    #[error(transparent)]
    Serve(#[from] ServedError),
    /// The bus does not start.
    #[error(transparent)]
    Bus(#[from] LiveError),
    /// QEMU ended, or does not start.
    #[error("QEMU ended: {0}")]
    Qemu(String),
    /// A signal asked for the end.
    #[error("signal {0}")]
    Signal(i32),
    /// The kernel came to no user land: nothing was tested.
    #[error("the kernel did not start the board's init within {} s: {last}", patience.as_secs())]
    Boot {
        /// How long was waited.
        patience: Duration,
        /// The last line on its console.
        last: String,
    },
    /// Something was waited for in vain.
    #[error("waited {} s for {what}", patience.as_secs())]
    Patience {
        /// What for.
        what: String,
        /// How long.
        patience: Duration,
    },
    /// The board's user land or its kernel says that something failed.
    #[error("the board: {0}")]
    Board(String),
    /// The host gave up on the device.
    #[error("the host: {0}")]
    Host(String),
    /// Data did not come through, or not as they were sent.
    #[error("{0}")]
    Data(String),
}

impl BoardError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System { what, error }
    }

    /// The exit status, made for `git bisect run`: 1 for what the kernel under test did wrong, 125 if nothing could be
    /// tested of it, 130 and above for everything else.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Patience { .. } | Self::Board(_) | Self::Host(_) | Self::Data(_) => 1,
            Self::Kernel(_) | Self::Boot { .. } => 125,
            Self::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
            Self::Setup(_) | Self::System { .. } | Self::Serve(_) | Self::Bus(_) | Self::Qemu(_) => 130,
        }
    }
}
