//! What can go wrong.

use std::io;

use libc::c_int;
use thiserror::Error;
use usb::UrbError;

use crate::program::Unreachable;

/// A positive error number, as an ioctl leaves it in `errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

impl From<UrbError> for Errno {
    fn from(error: UrbError) -> Self {
        Self(-error.errno())
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// Why a device was not attached, or the bus not served.
#[derive(Debug, Error)]
pub enum AttachError {
    /// The bus is another process's: this one is a client of it.
    #[error("this process is a client of the bus in {0}: only the process that serves it attaches devices")]
    Client(String),
    /// Bus and address are in use.
    #[error("bus {bus} has a device with address {address}")]
    Taken {
        /// Bus number.
        bus: u8,
        /// Device address.
        address: u8,
    },
    /// The port is in use, or is below a device that is no hub of ours.
    #[error("{0} has a device")]
    Port(String),
    /// A place that no USB device has: bus 1 to 255, one to six ports from 1 to 15.
    #[error("{}: no such place: bus 1 to 255, one to six ports from 1 to 15", crate::info::name(*.bus, .ports))]
    Place {
        /// Bus number.
        bus: u8,
        /// Ports from the root hub down.
        ports: Vec<u8>,
    },
    /// An address that no USB device has. 1 is the root hub's.
    #[error("address {0}: a device's is from 2 to 127")]
    Address(u8),
    /// The descriptors do not begin with a device descriptor, or a configuration is cut off.
    #[error("{length} bytes of descriptors are no device descriptor followed by its configurations")]
    Descriptors {
        /// Bytes given.
        length: usize,
    },
    /// The folder with the bus's files could not be written.
    #[error("cannot write the bus's files: {0}")]
    Files(#[from] io::Error),
    /// This process has a [`Server`](crate::Server) already.
    #[error("the bus is served already: one server in a process")]
    Served,
}

/// Why a program cannot be started with the bus in its view.
#[derive(Debug, Error)]
pub enum CommandError {
    /// The program is none, or takes no preloaded library.
    #[error(transparent)]
    Program(#[from] Unreachable),
    /// The library is not there, or cannot be named.
    #[error(transparent)]
    Library(#[from] io::Error),
}
