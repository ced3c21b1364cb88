//! What can go wrong below chapter 9.

use pool::{AllocError, CpuFault, CreateError, DestroyError, FreeError, MapError, PageError};
use thiserror::Error;
use usb::EndpointAddress;
use usb::gadget::{Request, UdcError};

/// Why the engine cannot do something.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EngineError {
    /// DCCPARAMS.DC is 0.
    #[error("the controller cannot be a device (DCCPARAMS.DC is 0)")]
    NoDevice,
    /// DCCPARAMS.DEN is 0 or over 16.
    #[error("DCCPARAMS.DEN is {endpoints}: a controller has 1 to 16 endpoints")]
    EndpointCount {
        /// As read.
        endpoints: u8,
    },
    /// USBMODE does not take device mode.
    #[error("cannot enter in gadget device mode (USBMODE.CM reads {mode})")]
    Mode {
        /// As read.
        mode: u8,
    },
    /// A bit that the controller clears or sets within a moment did not.
    #[error("{register} {bits:#x} is still {state} after {polls} reads")]
    Timeout {
        /// The register.
        register: &'static str,
        /// The bits that were waited for.
        bits: u32,
        /// What they still were: `set` or `clear`.
        state: &'static str,
        /// How often it was read.
        polls: u32,
    },
    /// The setup tripwire broke again and again.
    #[error("the setup packet changed under {tries} reads (USBCMD.SUTW)")]
    Tripwire {
        /// How often the packet was read.
        tries: u32,
    },
    /// The endpoint does not exist, or is not enabled.
    #[error("{0} does not exist or is not enabled")]
    NoEndpoint(EndpointAddress),
    /// The endpoint is enabled, or a request of that id is queued on it.
    #[error("{0} is busy")]
    Busy(EndpointAddress),
    /// A SETUP came while endpoint 0 was primed: the transfer is of the past.
    #[error("{0} is not primed: a SETUP waits")]
    SetupPending(EndpointAddress),
    /// No such request is queued.
    #[error("no request {id} is queued on {endpoint}")]
    NoRequest {
        /// Where it was looked for.
        endpoint: EndpointAddress,
        /// Its name.
        id: u64,
    },
    /// The request is too long.
    #[error("{endpoint}: {bytes} bytes are too many for one request")]
    TooLong {
        /// Where it was to be queued.
        endpoint: EndpointAddress,
        /// Its length.
        bytes: usize,
    },
    /// The engine was shut down.
    #[error("the controller is shut down")]
    ShutDown,
    /// A pool cannot be created.
    #[error(transparent)]
    CreatePool(#[from] CreateError),
    /// A pool has no block.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// A pool does not take a block back.
    #[error("pool {name}: {error}")]
    Free {
        /// The pool.
        name: &'static str,
        /// Why.
        error: FreeError,
    },
    /// A pool cannot be destroyed.
    #[error("pool {name}: {error}")]
    DestroyPool {
        /// The pool.
        name: &'static str,
        /// Why.
        error: DestroyError,
    },
    /// No page for a buffer or a static table.
    #[error(transparent)]
    Page(#[from] PageError),
    /// A buffer cannot be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// A structure is not where memory is: a kernel would oops.
    #[error(transparent)]
    Fault(#[from] CpuFault),
}

impl From<EngineError> for UdcError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::NoEndpoint(endpoint) => Self::NoEndpoint(endpoint),
            EngineError::Busy(endpoint) => Self::Busy(endpoint),
            EngineError::SetupPending(endpoint) => Self::Again(endpoint),
            EngineError::NoRequest { endpoint, id } => Self::NoRequest { endpoint, id },
            EngineError::TooLong { .. } => Self::Unsupported("a request of this length"),
            EngineError::ShutDown => Self::NotConnected,
            EngineError::Alloc(AllocError::Page(_)) | EngineError::Page(_) => Self::NoMemory(error.to_string()),
            _ => Self::Hardware(error.to_string()),
        }
    }
}

/// A request that the engine refused: it comes back with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{error}")]
pub struct SubmitError {
    /// The reason.
    pub error: EngineError,
    /// The request.
    pub request: Request,
}
