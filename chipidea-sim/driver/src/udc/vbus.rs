//! VBUS: when the controller runs and when it does not (`ci_handle_vbus_change`, `ci_hdrc_gadget_connect`).

use usb::Gadget;
use usb::gadget::UdcError;

use super::ChipideaUdc;

impl ChipideaUdc {
    /// VBUS came or went (`ci_handle_vbus_change`, `ci_udc_vbus_session`).
    pub(super) fn handle_vbus_change(&mut self, gadget: &mut dyn Gadget) {
        let there = self.engine.vbus();
        if there == self.vbus_active {
            return;
        }
        self.vbus_active = there;
        if !self.started {
            return;
        }
        if there {
            if let Err(error) = self.connect() {
                self.engine.warn(format!("error resetting controller: {error}"));
            }
        } else {
            self.disconnect(gadget);
        }
    }

    /// Resets and starts the controller, then shows the pull-up.
    pub(super) fn connect(&mut self) -> Result<(), UdcError> {
        self.engine.reset_controller()?;
        self.engine.start()?;
        if self.wants_pullup {
            self.engine.set_pullup(true);
        }
        Ok(())
    }

    fn disconnect(&mut self, gadget: &mut dyn Gadget) {
        self.engine.set_pullup(false);
        gadget.disconnect(self);
        self.deliver_all(gadget);
        self.engine.stop();
        self.stop_activity();
        self.deliver_all(gadget);
    }
}
