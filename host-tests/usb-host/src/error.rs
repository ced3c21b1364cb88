//! Why a device could not be taken.

use thiserror::Error;
use usb::urb::UrbError;

/// An error of the hub, with Linux's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum HubError {
    /// A transfer failed.
    #[error(transparent)]
    Urb(#[from] UrbError),
    /// Nothing is connected.
    #[error("not connected (-107)")]
    NotConnected,
    /// The port did not become enabled.
    #[error("port busy (-16)")]
    Busy,
    /// The connection changed during reset.
    #[error("connection changed (-11)")]
    Again,
    /// The host controller did not finish a command in time.
    #[error("command timed out (-62)")]
    CommandTimedOut,
    /// A descriptor came with another type than asked for.
    #[error("wrong descriptor (-61)")]
    NoData,
}

impl HubError {
    /// Linux's negative error number.
    #[must_use]
    pub const fn errno(self) -> i32 {
        match self {
            Self::Urb(error) => error.errno(),
            Self::NotConnected => -107,
            Self::Busy => -16,
            Self::Again => -11,
            Self::CommandTimedOut => -62,
            Self::NoData => -61,
        }
    }

    /// Whether the device is gone, about which the log keeps silent.
    #[must_use]
    pub const fn is_gone(self) -> bool {
        matches!(self, Self::Urb(UrbError::NoDevice))
    }
}
