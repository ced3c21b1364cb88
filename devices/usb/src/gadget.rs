//! The gadget side: functions ([`Gadget`]) on a device controller's driver ([`Udc`]), with Linux's semantics
//! (`struct usb_gadget_driver`, `struct usb_ep_ops`; Documentation/driver-api/usb/gadget.rst).
//!
//! Everything is synchronous. A driver calls its gadget from [`UdcDriver::irq`], and passes itself in; the gadget may
//! call every method of [`Udc`] from there.

use std::time::Duration;

use thiserror::Error;

use crate::ch9::{Direction, EndpointAddress, EndpointDescriptor, SetupPacket, Speed, TransferType};

/// A transfer that a gadget asks its controller for (`struct usb_request`).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Request {
    /// The gadget's name for it. Unique among the requests queued on one endpoint.
    pub id: u64,
    /// IN: the data. OUT: room for it, whole length.
    pub data: Vec<u8>,
    /// IN: end with an empty packet if the last one is full.
    pub zero: bool,
    /// OUT: a short packet is an error, [`RequestError::Short`].
    pub short_not_ok: bool,
    /// No completion interrupt is needed: the completion may come with a later one.
    pub no_interrupt: bool,
}

/// A request that came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Where it was queued. For endpoint 0 the direction is that of the stage.
    pub endpoint: EndpointAddress,
    /// The request; OUT: its first `status` bytes are data.
    pub request: Request,
    /// Bytes moved.
    pub status: Result<usize, RequestError>,
}

/// Why a request failed, with Linux's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum RequestError {
    /// Endpoint disabled, device disconnected, or a newer SETUP has ended the request. Requests of endpoint 0 come back
    /// at the next SETUP or at shutdown, as with ci_hdrc.
    #[error("shut down (-108)")]
    Shutdown,
    /// Dequeued.
    #[error("dequeued (-104)")]
    Dequeued,
    /// The controller halted the endpoint while the transfer ran.
    #[error("halted (-32)")]
    Halted,
    /// Protocol or data buffer error.
    #[error("protocol error (-71)")]
    Protocol,
    /// Transaction error.
    #[error("transaction error (-84)")]
    Transaction,
    /// Less data than asked for, with [`Request::short_not_ok`].
    #[error("short (-121)")]
    Short,
}

/// Why a controller driver refuses a call, with Linux's numbers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UdcError {
    /// No such endpoint, or not enabled.
    #[error("{0} does not exist or is not enabled (-22)")]
    NoEndpoint(EndpointAddress),
    /// Already enabled, or a request of that id is queued.
    #[error("{0} is busy (-16)")]
    Busy(EndpointAddress),
    /// A halt was asked for while requests wait on an IN endpoint.
    #[error("{0} has requests queued (-11)")]
    Again(EndpointAddress),
    /// No such request is queued.
    #[error("no request {id} is queued on {endpoint} (-22)")]
    NoRequest {
        /// Where it was looked for.
        endpoint: EndpointAddress,
        /// Its name.
        id: u64,
    },
    /// The pool or the memory is exhausted.
    #[error("out of memory (-12): {0}")]
    NoMemory(String),
    /// The controller cannot do it.
    #[error("not supported (-95): {0}")]
    Unsupported(&'static str),
    /// The host is not there, or the cable is out.
    #[error("not connected (-108)")]
    NotConnected,
    /// The controller does not do what its manual says, or memory went bad under the driver.
    #[error("controller failure: {0}")]
    Hardware(String),
}

/// A request that was refused: it comes back with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{error}")]
pub struct QueueError {
    /// The reason.
    pub error: UdcError,
    /// The request.
    pub request: Request,
}

/// The gadget refuses a control request: the driver stalls endpoint 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall;

/// A device controller's driver as a gadget sees it (`struct usb_gadget` and `struct usb_ep`).
///
/// # Endpoint 0
/// As in Linux a gadget answers a SETUP by queueing **one** request on endpoint 0 ([`EndpointAddress::number`] 0,
/// direction ignored): the data stage if `wLength` is not 0, else an empty request, the status stage. The driver adds
/// the status stage of a data stage that moved bytes; after an empty one ci_hdrc adds none, and the host waits. A gadget
/// that queues nothing delays the status until it does.
pub trait Udc {
    /// Name of the driver, such as `ci_hdrc_msm`.
    fn name(&self) -> &str;

    /// The fastest it can be.
    fn max_speed(&self) -> Speed;

    /// Number of endpoint numbers, endpoint 0 included.
    fn endpoints(&self) -> u8;

    /// The bus speed since the last reset, `None` before.
    fn speed(&self) -> Option<Speed>;

    /// The endpoint number that the controller wants for an endpoint of this kind, not one of `taken`
    /// (`usb_gadget_ops.match_ep`). `None` leaves the choice to the gadget. To be asked before the descriptors are shown.
    fn match_endpoint(&self, kind: TransferType, direction: Direction, taken: &[EndpointAddress]) -> Option<u8> {
        let _ = (kind, direction, taken);
        None
    }

    /// Enables an endpoint as its descriptor says (`usb_ep_enable`).
    fn enable(&mut self, descriptor: &EndpointDescriptor) -> Result<(), UdcError>;

    /// Disables an endpoint; its requests come back with [`RequestError::Shutdown`] through [`Gadget::complete`] before
    /// control returns to the bus (`usb_ep_disable`).
    fn disable(&mut self, endpoint: EndpointAddress) -> Result<(), UdcError>;

    /// Queues a request (`usb_ep_queue`).
    fn queue(&mut self, endpoint: EndpointAddress, request: Request) -> Result<(), QueueError>;

    /// Takes a request back; it comes with [`RequestError::Dequeued`] (`usb_ep_dequeue`).
    fn dequeue(&mut self, endpoint: EndpointAddress, id: u64) -> Result<(), UdcError>;

    /// Halts an endpoint, or clears its halt and data toggle (`usb_ep_set_halt`).
    fn set_halt(&mut self, endpoint: EndpointAddress, halt: bool) -> Result<(), UdcError>;

    /// Halts an endpoint so that the host's CLEAR_FEATURE does not release it (`usb_ep_set_wedge`).
    fn set_wedge(&mut self, endpoint: EndpointAddress) -> Result<(), UdcError>;

    /// Drops what the controller holds for an endpoint (`usb_ep_fifo_flush`).
    fn flush(&mut self, endpoint: EndpointAddress) -> Result<(), UdcError>;

    /// What GET_STATUS says about power (`usb_gadget_set_selfpowered`).
    fn set_self_powered(&mut self, on: bool);

    /// The pull-up (`usb_gadget_connect`, `usb_gadget_disconnect`).
    fn pullup(&mut self, on: bool) -> Result<(), UdcError>;

    /// Signals resume to a suspended host that allowed it (`usb_gadget_wakeup`).
    fn wakeup(&mut self) -> Result<(), UdcError>;
}

/// A controller driver as the machine around it sees it.
pub trait UdcDriver: Udc + Send {
    /// The interrupt handler: one run over what is pending, calling the gadget. The caller calls again while the line is
    /// asserted.
    fn irq(&mut self, gadget: &mut dyn Gadget);

    /// Delivers completions that calls outside [`UdcDriver::irq`] left behind. Returns whether there were any.
    fn deliver(&mut self, gadget: &mut dyn Gadget) -> bool;

    /// Warnings as a kernel would log them, since the last call.
    fn take_log(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Why the driver answers no more, if it does not: code that did not return from a call.
    fn failure(&self) -> Option<String> {
        None
    }

    /// What the driver shows of itself to people: the files of its folder in debugfs, in their order. None by default.
    ///
    /// # Errors
    /// The driver is shut down, or its own structures cannot be read.
    fn debugfs(&self) -> Result<Vec<DebugFile>, UdcError> {
        Ok(Vec::new())
    }

    /// Stops the controller, gives everything back, destroys the pools. Call [`UdcDriver::deliver`] afterwards.
    ///
    /// # Errors
    /// What could not be given back, such as a pool that is busy.
    fn shutdown(&mut self) -> Result<(), UdcError>;
}

/// A file that a driver shows in debugfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugFile {
    /// Its name, such as `qheads`.
    pub name: &'static str,
    /// All lines of it, each with its end.
    pub text: String,
}

/// How a gadget's software ends, as a boot loader's does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The machine restarts.
    Restart,
    /// The machine starts another system.
    Start,
}

/// A gadget: the functions of a device (`struct usb_gadget_driver` with its configurations).
///
/// It handles every control request that the driver does not: a driver answers SET_ADDRESS, GET_STATUS of device and
/// endpoint, and SET/CLEAR_FEATURE of ENDPOINT_HALT and DEVICE_REMOTE_WAKEUP, as ci_hdrc does.
pub trait Gadget: Send {
    /// A control request.
    ///
    /// # Errors
    /// [`Stall`] refuses it.
    fn setup(&mut self, udc: &mut dyn Udc, setup: SetupPacket) -> Result<(), Stall>;

    /// A request came back.
    fn complete(&mut self, udc: &mut dyn Udc, completion: Completion);

    /// Bus reset: the configuration is gone, every endpoint but 0 is disabled or must be.
    fn reset(&mut self, udc: &mut dyn Udc);

    /// VBUS went away.
    fn disconnect(&mut self, udc: &mut dyn Udc);

    /// The bus is idle.
    fn suspend(&mut self, udc: &mut dyn Udc) {
        let _ = udc;
    }

    /// The bus is active again.
    fn resume(&mut self, udc: &mut dyn Udc) {
        let _ = udc;
    }

    /// Does the gadget's own work at `now`, time since the machine started, such as its network stack's. Returns the
    /// time, counted as `now` is, at which it wants to be called again if nothing happens before; it is called after
    /// every interrupt in any case.
    fn step(&mut self, udc: &mut dyn Udc, now: Duration) -> Option<Duration> {
        let _ = (udc, now);
        None
    }

    /// Whether its software has ended, and how: asked after every [`Gadget::step`] and given once. What follows is the
    /// machine's own affair.
    fn end(&mut self) -> Option<End> {
        None
    }
}
