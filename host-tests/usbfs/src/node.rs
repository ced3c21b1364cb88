//! A device as an open file sees it: the same whether the bus is in this process or behind a socket.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use usb::EndpointAddress;
use usb::urb::Urb;

use crate::error::Errno;
use crate::settings::Settings;
use crate::{DeviceInfo, backend::Done};

/// What an open file asks of a device, beside transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// USBDEVFS_CLAIMINTERFACE.
    Claim(u8),
    /// USBDEVFS_RELEASEINTERFACE.
    Release(u8),
    /// USBDEVFS_GETDRIVER.
    Driver(u8),
    /// USBDEVFS_DISCONNECT.
    Disconnect(u8),
    /// USBDEVFS_CONNECT.
    Connect(u8),
    /// USBDEVFS_SETCONFIGURATION.
    SetConfiguration(u8),
    /// USBDEVFS_SETINTERFACE.
    SetInterface(u8, u8),
    /// USBDEVFS_CLEAR_HALT.
    ClearHalt(EndpointAddress),
    /// USBDEVFS_RESET.
    Reset,
}

/// What a call answers, beside success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The ioctl's value.
    pub(crate) value: u8,
    /// [`Call::Driver`]: the driver's name.
    pub(crate) driver: String,
}

/// Whoever has the device open.
pub(crate) trait Holder: Send + Sync {
    /// The interface was taken away (core/devio.c, `driver_disconnect`).
    fn lost(&self, open: u64, interface: u8);
    /// The device was unplugged.
    fn gone(&self, open: u64);
}

/// One device.
pub(crate) trait Node: Send + Sync {
    fn info(&self) -> &DeviceInfo;
    fn settings(&self) -> &Mutex<Settings>;
    /// Registers an open file under a number of its own.
    fn open(&self, open: u64, holder: Weak<dyn Holder>) -> Result<(), Errno>;
    /// Ends it: its claims are released. Its transfers have ended before.
    fn close(&self, open: u64);
    fn call(&self, open: u64, call: Call) -> Result<Answer, Errno>;
    /// Starts a transfer; an error means that `done` is never called.
    fn submit(&self, urb: Urb, done: Done) -> Result<u64, Errno>;
    fn cancel(&self, id: u64);
}

/// A reference to a node.
pub(crate) type NodeRef = Arc<dyn Node>;
