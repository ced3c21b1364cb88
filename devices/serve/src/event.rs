//! What a service tells whoever started it.

use std::fmt;
use std::sync::Arc;

/// Something that happened. `Display` is one line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A client has agreed on a version. The function was reset.
    Connected,
    /// The client reset the device, as at a reboot of its machine.
    Reset,
    /// The client is gone; why, in words. The function was reset: its machine has no power.
    Disconnected(String),
    /// The device accesses memory that the client did not share as a file. It is reached by messages, if at all.
    MemoryWithoutFile {
        /// The first such address.
        address: u64,
    },
    /// The client did not answer an access to memory; the device saw a bus error.
    DmaUnanswered,
    /// A client could not be served; why, in words. The next is waited for.
    Refused(String),
}

/// Takes events.
pub(crate) type Events = Arc<dyn Fn(Event) + Send + Sync>;

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected => f.write_str("a client is connected"),
            Self::Reset => f.write_str("the client reset the device"),
            Self::Disconnected(why) => write!(f, "disconnected: {why}"),
            Self::MemoryWithoutFile { address } => write!(
                f,
                "memory at {address:#x} came without a file descriptor: it is reached by messages, which QEMU cannot \
                 answer while a processor waits for a register. Give it shared memory: -object \
                 memory-backend-memfd,…,share=on"
            ),
            Self::DmaUnanswered => f.write_str("the client did not answer an access to its memory: bus error"),
            Self::Refused(why) => write!(f, "a client cannot be served: {why}"),
        }
    }
}
