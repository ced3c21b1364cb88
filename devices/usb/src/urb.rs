//! Transfers as a host's drivers ask for them (Linux: `struct urb`).

use thiserror::Error;

use crate::ch9::{EndpointAddress, SetupPacket};

/// What a transfer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// SETUP, data, status on endpoint 0. The data's direction and length stand in the packet.
    Control(SetupPacket),
    /// Bulk.
    Bulk,
    /// Interrupt.
    Interrupt,
}

/// One transfer to one endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Urb {
    /// Device address.
    pub address: u8,
    /// Endpoint; number 0 for control.
    pub endpoint: EndpointAddress,
    /// What it does.
    pub transfer: Transfer,
    /// OUT: the data. IN: room for it, whole length.
    pub buffer: Vec<u8>,
    /// OUT: end with an empty packet if the last one is full (URB_ZERO_PACKET).
    pub zero_packet: bool,
    /// IN: fewer bytes than the buffer holds is [`UrbError::ShortPacket`] (URB_SHORT_NOT_OK).
    pub short_not_ok: bool,
}

/// A finished transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrbDone {
    /// The buffer that came with the URB; IN: its first [`UrbDone::actual`] bytes are data.
    pub buffer: Vec<u8>,
    /// Bytes moved in the data stage, also when it failed.
    pub actual: usize,
    /// How it ended.
    pub status: Result<(), UrbError>,
}

/// Why a transfer failed, with Linux's numbers (Documentation/driver-api/usb/error-codes.rst).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum UrbError {
    /// No answer in time.
    #[error("timed out (-110)")]
    TimedOut,
    /// No handshake, three strikes.
    #[error("protocol error (-71)")]
    Protocol,
    /// The endpoint is halted, or the request was refused.
    #[error("stalled (-32)")]
    Stall,
    /// The device sent more than asked for.
    #[error("babble (-75)")]
    Overflow,
    /// Less data than asked for, with [`Urb::short_not_ok`].
    #[error("short packet (-121)")]
    ShortPacket,
    /// The caller took it back (`usb_unlink_urb`).
    #[error("unlinked (-104)")]
    Unlinked,
    /// The caller took it back and waited (`usb_kill_urb`).
    #[error("killed (-2)")]
    Killed,
    /// The device is gone.
    #[error("no such device (-19)")]
    NoDevice,
    /// The host controller was shut down, or the device was unplugged with the transfer in flight.
    #[error("shut down (-108)")]
    Shutdown,
    /// The transfer makes no sense for this endpoint.
    #[error("invalid (-22)")]
    Invalid,
    /// A descriptor was shorter than it must be (hub.c).
    #[error("message size (-90)")]
    MessageSize,
    /// Less data than a descriptor needs (hub.c).
    #[error("no message (-42)")]
    NoMessage,
    /// There was no memory for the transfer.
    #[error("out of memory (-12)")]
    NoMemory,
}

impl UrbError {
    /// Linux's negative error number.
    #[must_use]
    pub const fn errno(self) -> i32 {
        match self {
            Self::TimedOut => -110,
            Self::Protocol => -71,
            Self::Stall => -32,
            Self::Overflow => -75,
            Self::ShortPacket => -121,
            Self::Unlinked => -104,
            Self::Killed => -2,
            Self::NoDevice => -19,
            Self::Shutdown => -108,
            Self::Invalid => -22,
            Self::MessageSize => -90,
            Self::NoMessage => -42,
            Self::NoMemory => -12,
        }
    }
}
