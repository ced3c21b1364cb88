//! What can go wrong.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use thiserror::Error;

use crate::protocol::{MAX_DESCRIPTORS, MAX_MESSAGE};

/// Why a device cannot be served.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Something lives at the path, and it is not ours to delete.
    #[error("{0}: exists and is not a socket")]
    NotASocket(PathBuf),
    /// Somebody listens there.
    #[error("{0}: another process listens on this socket")]
    InUse(PathBuf),
    /// The socket cannot be made.
    #[error("{path}: {error}")]
    Socket {
        /// Its path.
        path: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
    /// The operating system gives no thread or descriptor.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// A message that ends its connection.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The size in the header.
    #[error("message size {0}: expected 16 to {MAX_MESSAGE}")]
    Size(u32),
    /// The type in the header's flags.
    #[error("message flags {0:#x}: neither a command nor a reply")]
    Type(u32),
    /// The client is gone in the middle of a message.
    #[error("the client is gone {missing} bytes before the end of a message")]
    Truncated {
        /// Bytes that did not come.
        missing: usize,
    },
    /// Descriptors that were not all received.
    #[error("more than {MAX_DESCRIPTORS} file descriptors in one message")]
    Descriptors,
    /// The first message is the version.
    #[error("command {0} before the version")]
    NotVersion(u16),
    /// It comes once.
    #[error("a second version")]
    VersionAgain,
    /// A version that is not spoken here.
    #[error("version {0}.{1}: expected 0")]
    Major(u16, u16),
    /// The capabilities.
    #[error("capabilities: {0}")]
    Capabilities(String),
    /// The payload is not what the command has.
    #[error("command {command} with {size} bytes: expected {expected}")]
    Payload {
        /// The command.
        command: u16,
        /// Bytes behind the header.
        size: usize,
        /// What there should be.
        expected: usize,
    },
    /// A reply to nothing.
    #[error("a reply to message {0}, which was never sent")]
    Reply(u16),
}

/// Why a connection ended.
#[derive(Debug, Error)]
pub(crate) enum End {
    #[error("the client is gone")]
    Closed,
    #[error("the service stops")]
    Stopped,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("malformed message: {0}")]
    Malformed(#[from] Malformed),
    #[error("the client takes no messages")]
    Stalled,
    #[error("the device model panicked")]
    Panicked,
}

impl From<Errno> for End {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}
