//! Why udc.c cannot be put under test, and the kernel's numbers for why it refuses.

use std::ffi::c_int;
use std::path::PathBuf;

use c_bridge::BuildError;
use thiserror::Error;
use usb::EndpointAddress;
use usb::gadget::{RequestError, UdcError};

/// Why udc.c cannot be put under test.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// It is absent, does not compile, or cannot be loaded.
    #[error(transparent)]
    File(#[from] BuildError),
    /// The headers cannot be used.
    #[error(
        "headers {path}: {reason}; expected Debian's linux-headers-VERSION-amd64 with the -common beside it, or a kernel tree \
         that was built for x86",
        path = .path.display()
    )]
    Headers {
        /// As they were named.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The machine is no x86-64.
    #[error("udc.c is compiled with headers for x86, and runs on x86-64 only: this machine is {0}")]
    Machine(&'static str),
}

impl OpenError {
    /// Whether it is udc.c's fault: a bisection skips such a commit.
    #[must_use]
    pub const fn is_the_files(&self) -> bool {
        matches!(self, Self::File(error) if error.is_the_files())
    }
}

/// What a negative result of a call about `endpoint` means.
pub(crate) fn refused(errno: c_int, endpoint: EndpointAddress) -> UdcError {
    match -errno {
        libc::EINVAL => UdcError::NoEndpoint(endpoint),
        libc::EBUSY => UdcError::Busy(endpoint),
        libc::EAGAIN => UdcError::Again(endpoint),
        libc::ENOMEM => UdcError::NoMemory("udc.c: -ENOMEM".to_owned()),
        libc::EMSGSIZE => UdcError::Unsupported("a request of this length"),
        libc::EOPNOTSUPP => UdcError::Unsupported("this request"),
        libc::ESHUTDOWN => UdcError::NotConnected,
        other => UdcError::Hardware(format!("udc.c: error -{other}")),
    }
}

/// How a request came back: bytes moved, or why not.
pub(crate) fn status(status: c_int, actual: usize) -> Result<usize, RequestError> {
    match -status {
        0 => Ok(actual),
        libc::ECONNRESET => Err(RequestError::Dequeued),
        libc::EPIPE => Err(RequestError::Halted),
        libc::EILSEQ => Err(RequestError::Transaction),
        libc::EREMOTEIO => Err(RequestError::Short),
        libc::ESHUTDOWN => Err(RequestError::Shutdown),
        _ => Err(RequestError::Protocol),
    }
}
