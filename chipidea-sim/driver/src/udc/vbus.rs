//! VBUS: when the controller runs and when it does not (`ci_handle_vbus_change`, `ci_hdrc_gadget_connect`).

use usb::Gadget;
use usb::gadget::UdcError;

use super::ChipideaUdc;

impl ChipideaUdc {
    /// VBUS came or went (`ci_handle_vbus_change`, `ci_udc_vbus_session`).
    pub(super) fn handle_vbus_change(&mut self, gadget: &mut dyn Gadget) {
        if !self.vbus_changed() || !self.started {
            return;
        }
        if !self.vbus_active {
            self.disconnect(gadget);
        } else if let Err(error) = self.connect() {
            self.engine.warn(format!("error resetting controller: {error}"));
        }
    }

    /// Looks at VBUS, and again if it did not come. Returns whether it came or went.
    pub(super) fn vbus_changed(&mut self) -> bool {
        let came = self.engine.vbus() && !self.vbus_active;
        let went = !came && !self.engine.vbus() && self.vbus_active;
        self.vbus_active = came || self.vbus_active && !went;
        came || went
    }

    /// Resets and starts the controller, then shows the pull-up.
    pub(super) fn connect(&mut self) -> Result<(), UdcError> {
        self.engine.reset_controller()?;
        self.engine.start()?;
        self.change_pullup(self.wants_pullup);
        Ok(())
    }

    /// Switches the pull-up, unless it is so already (`usb_gadget_connect`, `usb_gadget_disconnect`).
    pub(super) fn change_pullup(&mut self, on: bool) {
        if self.connected != on {
            self.connected = on;
            self.engine.set_pullup(on);
        }
    }

    fn disconnect(&mut self, gadget: &mut dyn Gadget) {
        self.change_pullup(false);
        gadget.disconnect(self);
        self.deliver_all(gadget);
        self.engine.stop();
        self.stop_activity();
        self.deliver_all(gadget);
    }
}
