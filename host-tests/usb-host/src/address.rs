//! SET_ADDRESS as the host controller's driver sends it (core/hub.c, `hub_set_address`).

use std::sync::Arc;

use usb::ch9::{Request, SetupPacket};
use usb::urb::UrbError;

use crate::bus::{Bus, CONTROL_TIMEOUT};
use crate::config::Hcd;
use crate::error::HubError;

/// Gives the device at address 0 the address `number`, in five seconds or not at all.
pub(crate) async fn set_address(bus: &Arc<Bus>, number: u8) -> Result<(), HubError> {
    let setup = SetupPacket::new(0, Request::SetAddress.0, number.into(), 0, 0);
    let status = bus.control(0, setup, Vec::new(), CONTROL_TIMEOUT).await.status;
    match bus.config.hcd {
        Hcd::Xhci => end_command(bus, status),
        Hcd::Ehci => status.map_err(HubError::from),
    }
}

/// What `xhci_setup_device` makes of the end of an Address Device command, whose timeout is that of a control transfer and
/// whose abort takes no time.
///
/// All that goes wrong on the wire is taken for the command's USB Transaction Error. Silence is one, and a device that
/// is unplugged below a hub is silent. With a STALL, logs of Linux hosts have the same line; for it and for babble the
/// code is the controller's choice, and one that the driver does not expect would end with -22. The driver's answer, a
/// new slot, sends no packet, and neither does the command before the first descriptor read (`hub_enable_device`).
fn end_command(bus: &Bus, status: Result<(), UrbError>) -> Result<(), HubError> {
    match status {
        Ok(()) => Ok(()),
        Err(UrbError::TimedOut) => {
            bus.log_controller("Timeout while waiting for setup device command");
            Err(HubError::CommandTimedOut)
        }
        Err(_) => {
            bus.log_device("Device not responding to setup address.");
            Err(UrbError::Protocol.into())
        }
    }
}
