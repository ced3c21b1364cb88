//! Network devices: `cdc_ether` and `rndis_host` over what they share, as `usbnet` has it.
//!
//! - [`cdc`]: the class descriptors, and what binding needs of them (`usbnet_generic_cdc_bind`)
//! - `cdc_ether`, `rndis_host`: the drivers; [`rndis`]: the latter's messages
//! - [`NetDevice`]: a bound driver, as its owner holds it; below it, the queues of URBs, halts and carrier

pub mod cdc;
mod cdc_ether;
mod netdev;
pub mod rndis;
mod rndis_host;
mod usbnet;

use thiserror::Error;
use usb::urb::UrbError;

pub use netdev::{Driver, NetDevice, SendError, Statistics};

/// Why a driver does not take a device, with Linux's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum NetError {
    /// No interface of the configuration in use is for one of the drivers.
    #[error("no driver for this configuration (-19)")]
    NoDriver,
    /// The class descriptors do not describe the function.
    #[error("bad CDC descriptors (-19)")]
    BadDescriptors,
    /// A transfer failed.
    #[error(transparent)]
    Urb(#[from] UrbError),
    /// RNDIS: the device answered with an error.
    #[error("RNDIS status {status:#010x} (-47)")]
    Refused {
        /// Its status.
        status: u32,
    },
    /// RNDIS: an answer's data lies outside of the answer, or has a wrong length.
    #[error("RNDIS answer with offset {offset} and length {length} (-33)")]
    Domain {
        /// Offset, from the request identifier.
        offset: u32,
        /// Length in bytes.
        length: u32,
    },
    /// RNDIS: the device is a wireless network card.
    #[error("RNDIS device is wireless (-19)")]
    Wireless,
}

impl NetError {
    /// Linux's negative error number.
    #[must_use]
    pub const fn errno(self) -> i32 {
        match self {
            Self::NoDriver | Self::BadDescriptors | Self::Wireless => -19,
            Self::Urb(error) => error.errno(),
            Self::Refused { .. } => -47,
            Self::Domain { .. } => -33,
        }
    }
}
