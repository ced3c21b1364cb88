//! Why a stack gets no endpoint, or no packet moves.

use chipidea_driver::EngineError;
use thiserror::Error;
use usb::EndpointAddress;

/// Why a stack gets no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum AllocateError {
    /// The controller runs already.
    #[error("the controller runs: no endpoints can be allocated")]
    Started,
    /// The endpoint is taken.
    #[error("{0} is taken")]
    Taken(EndpointAddress),
    /// None of that direction is free, or none has that number.
    #[error("none of the controller's {endpoints} endpoint numbers is free")]
    Exhausted {
        /// Endpoint numbers of the controller.
        endpoints: u8,
    },
    /// Packets of that size do not exist.
    #[error("packets of {0} bytes: 1024 are the most")]
    PacketSize(u16),
    /// Endpoint 0 is for control transfers, and they are for endpoint 0.
    #[error("{0} cannot have this transfer type")]
    Control(EndpointAddress),
}

/// Why no packet moves.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum PacketError {
    /// Not now.
    #[error("not now")]
    WouldBlock,
    /// It does not fit.
    #[error("{endpoint}: a packet of {bytes} bytes does not fit")]
    Overflow {
        /// Where.
        endpoint: EndpointAddress,
        /// Its length.
        bytes: usize,
    },
    /// The endpoint was not allocated in this direction.
    #[error("{0} was not allocated")]
    NoEndpoint(EndpointAddress),
    /// The engine refuses it.
    #[error(transparent)]
    Engine(#[from] EngineError),
}
