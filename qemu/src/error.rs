//! Why a board gives no result, or a bad one.

use std::io;
use std::time::Duration;

use scenarios::{LiveError, ServedError, Verdict};
use thiserror::Error;

/// Why a board was not brought up, or what it did wrong.
#[derive(Debug, Error)]
pub enum BoardError {
    /// Something that `qemu/setup` brings is missing.
    #[error("{0}: run qemu/setup")]
    Setup(String),
    /// What is asked for makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The kernel to test is not there, or not whole.
    #[error("{0}")]
    Kernel(String),
    /// A script of ours failed.
    #[error("{0}")]
    Script(String),
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
    /// QEMU ended, does not start, or has lost the controller.
    #[error("QEMU: {0}")]
    Qemu(String),
    /// A signal asked for the end.
    #[error("signal {0}")]
    Signal(i32),
    /// The kernel came to no user land: nothing was tested.
    #[error("the kernel does not come to the board's init: {0}")]
    Boot(String),
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
    /// The kernel stopped for good.
    #[error("the kernel: {0}")]
    Panic(String),
    /// The host gave up on the device.
    #[error("the host: {0}")]
    Host(String),
    /// Data did not come through, or not as they were sent.
    #[error("{0}")]
    Data(String),
    /// The board's own log of its pools shows a failure.
    #[error("the kernel's log of its pools: {0}")]
    Observed(Verdict),
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
            Self::Patience { .. }
            | Self::Board(_)
            | Self::Panic(_)
            | Self::Host(_)
            | Self::Data(_)
            | Self::Observed(_) => 1,
            Self::Kernel(_) | Self::Boot(_) => 125,
            Self::Usage(_) => 129,
            // 129 would be wrong usage.
            Self::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX).max(130),
            Self::Setup(_) | Self::Script(_) | Self::System { .. } | Self::Serve(_) | Self::Bus(_) | Self::Qemu(_) => {
                130
            }
        }
    }
}
