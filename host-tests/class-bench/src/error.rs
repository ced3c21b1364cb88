//! Why a bench or its host cannot go on.

use std::fmt;
use std::time::Duration;

use thiserror::Error;
use usb_host::{HubError, Line};

use crate::trace::TraceLine;

/// What a host saw before something failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The kernel log's lines.
    pub log: Vec<Line>,
    /// The last packets.
    pub trace: Vec<TraceLine>,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.log {
            write!(f, "\n{}", line.text)?;
        }
        for line in &self.trace {
            write!(f, "\n{line}")?;
        }
        Ok(())
    }
}

/// Why a bench or its host cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BenchError {
    /// The firmware never enabled its pull-up: no `UsbDevice` was built on the bench's bus, or it is unplugged.
    #[error("nothing is attached: build a UsbDevice on Bench::bus()")]
    NotAttached,
    /// The host could not enumerate the device.
    #[error("the device was not enumerated: {}{seen}", causes(.errors))]
    NotEnumerated {
        /// The error of each attempt.
        errors: Vec<HubError>,
        /// What the host saw.
        seen: Seen,
    },
    /// A request to the hub failed.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// A transfer failed.
    #[error(transparent)]
    Urb(#[from] usb::UrbError),
    /// The run did not end in time.
    #[error("no end after {} s of virtual time{seen}", .patience.as_secs())]
    NoEnd {
        /// The time that it had.
        patience: Duration,
        /// What the host saw.
        seen: Seen,
    },
    /// A bench has an event loop of its own and cannot run in another.
    #[error("a bench runs in a plain #[test], not inside an async runtime")]
    InsideRuntime,
    /// The operating system gave no event loop.
    #[error("no runtime: {0}")]
    Runtime(String),
}

fn causes(errors: &[HubError]) -> String {
    errors.iter().map(HubError::to_string).collect::<Vec<_>>().join(", ")
}
