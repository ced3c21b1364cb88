//! What the firmware must not do.

use thiserror::Error;
use usb::ch9::EndpointAddress;

/// A call of the firmware at its bus that shows a mistake in it. Most come back as errors too, which a class may swallow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum Mistake {
    /// `write` with more than a packet.
    #[error("wrote {len} bytes to {endpoint}, whose packets have {max_packet}")]
    WriteTooLong {
        /// The endpoint.
        endpoint: EndpointAddress,
        /// Bytes that were given.
        len: usize,
        /// The endpoint's largest packet.
        max_packet: u16,
    },
    /// `read` into less room than the packet needs; the packet stays.
    #[error("read {endpoint} into {room} bytes, where a packet of {len} waits")]
    ReadTooShort {
        /// The endpoint.
        endpoint: EndpointAddress,
        /// The packet's length.
        len: usize,
        /// The buffer's length.
        room: usize,
    },
    /// An endpoint that was never allocated.
    #[error("used {0}, which was not allocated")]
    UnknownEndpoint(EndpointAddress),
    /// It signalled resume on a bus that is not suspended.
    #[error("signalled resume on a bus that is awake")]
    WakeupAwake,
    /// It signalled resume although the host had not enabled remote wakeup (USB 2.0 §9.4.9).
    #[error("signalled resume without the host's permission")]
    WakeupNotEnabled,
}
