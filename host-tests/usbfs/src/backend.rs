//! What stands behind a device: the bus that carries its transfers.

use usb::EndpointAddress;
use usb::urb::{Urb, UrbDone, UrbError};

/// What is called when a transfer ends.
pub type Done = Box<dyn FnOnce(UrbDone) + Send>;

/// The way to one device. Called from any thread of a client, and from the thread that serves other processes.
///
/// One call at a time changes the device, from [`Backend::set_configuration`] on, and none starts a transfer meanwhile;
/// transfers may end and be taken back. No other lock of this crate is held during a call. A `done` may call [`Backend::submit`] and [`Backend::cancel`] again, so it
/// must be called with none of the backend's own locks held.
pub trait Backend: Send + Sync {
    /// Starts a transfer and returns its number, below 2⁶³, which no other transfer in flight has. Never blocks.
    ///
    /// A device that does not answer (NAK) leaves the transfer in flight until [`Backend::cancel`]: timeouts are the
    /// client's. `done` may be called before this returns. A `done` that is dropped counts as [`UrbError::Shutdown`].
    fn submit(&self, urb: Urb, done: Done) -> u64;

    /// Takes a transfer back. It ends soon, with [`UrbError::Unlinked`] and the bytes moved so far, unless it ended before.
    /// A number that is not in flight is ignored. Never blocks.
    fn cancel(&self, id: u64);

    /// Selects a configuration (USB 2.0 §9.4.7), 0 for none. Blocks until it is done.
    ///
    /// # Errors
    /// As the request ended.
    fn set_configuration(&self, value: u8) -> Result<(), UrbError>;

    /// Selects an alternate setting (USB 2.0 §9.4.10). Blocks until it is done.
    ///
    /// # Errors
    /// As the request ended.
    fn set_interface(&self, interface: u8, alternate: u8) -> Result<(), UrbError>;

    /// Clears an endpoint's halt on the device and starts again with DATA0 (`usb_clear_halt`). Blocks until it is done.
    ///
    /// # Errors
    /// As the request ended.
    fn clear_halt(&self, endpoint: EndpointAddress) -> Result<(), UrbError>;

    /// Resets the port and brings the device back to its address and configuration (`usb_reset_device`). Transfers in
    /// flight end. Blocks until it is done.
    ///
    /// # Errors
    /// As the last step ended.
    fn reset(&self) -> Result<(), UrbError>;
}

/// Calls back even if the backend forgets to.
pub(crate) struct Once<F: FnOnce(UrbDone)>(Option<F>);

impl<F: FnOnce(UrbDone)> Once<F> {
    pub(crate) fn new(call: F) -> Self {
        Self(Some(call))
    }

    pub(crate) fn call(mut self, done: UrbDone) {
        if let Some(call) = self.0.take() {
            call(done);
        }
    }
}

impl<F: FnOnce(UrbDone)> Drop for Once<F> {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call(UrbDone { buffer: Vec::new(), actual: 0, status: Err(UrbError::Shutdown) });
        }
    }
}
