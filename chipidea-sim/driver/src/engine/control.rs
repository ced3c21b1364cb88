//! The controller as a whole: reset, start, stop, speed, address, VBUS.

use bus::DmaAddr;
use usb::Speed;

use super::{Engine, MOST_POLLS};
use crate::error::EngineError;
use crate::registers::{
    DevLc, DeviceAddr, ENDPTCOMPLETE, ENDPTFLUSH, ENDPTLISTADDR, ENDPTPRIME, ENDPTSETUPSTAT, FRINDEX, Interrupts,
    MODE_DEVICE, OTGSC_SESSION, OtgSc, PortSc, USBINTR, USBSTS, UsbCmd, UsbMode,
};

impl Engine {
    /// Resets the controller and puts it into device mode (`hw_device_reset`, `ci_platform_configure`).
    ///
    /// # Errors
    /// USBCMD.RST stays set, or USBMODE takes no device mode.
    pub fn reset_controller(&mut self) -> Result<(), EngineError> {
        if !self.live {
            return Err(EngineError::ShutDown);
        }
        self.registers.store(ENDPTFLUSH, u32::MAX);
        self.set_pullup(false);
        self.registers.update(|cmd: UsbCmd| cmd.with_reset(true));
        if !(0..MOST_POLLS).any(|_| !self.registers.read::<UsbCmd>().reset()) {
            let bits = UsbCmd::new().with_reset(true).into();
            return Err(EngineError::Timeout { register: "USBCMD", bits, state: "set", polls: MOST_POLLS });
        }
        self.registers.update(|mode: UsbMode| mode.with_mode(0));
        self.registers.update(|mode: UsbMode| mode.with_mode(MODE_DEVICE));
        self.registers.update(|mode: UsbMode| mode.with_setup_lockout_off(true));
        let mode = self.registers.read::<UsbMode>().mode();
        if mode != MODE_DEVICE {
            return Err(EngineError::Mode { mode });
        }
        self.configure();
        Ok(())
    }

    /// What a reset does not leave as it has to be, in device mode (`ci_platform_configure`).
    fn configure(&self) {
        // ci_hdrc asks whether the mode is device, and then whether it is host.
        let (device, _host) = (self.is_device(), self.registers.read::<UsbMode>());
        if device && self.config.disable_streaming {
            self.registers.update(|mode: UsbMode| mode.with_stream_disable(true));
        }
        if self.config.max_speed < Speed::High {
            if self.registers.lpm() {
                self.registers.update(|devlc: DevLc| devlc.with_force_full_speed(true));
            } else {
                self.registers.update(|portsc: PortSc| portsc.with_force_full_speed(true));
            }
        }
        self.registers.update(|cmd: UsbCmd| cmd.with_interrupt_threshold(self.config.interrupt_threshold));
        if let Some(burst) = self.config.ahb_burst {
            self.registers.set_ahb_burst(burst);
        }
        // With AHBBRST 0 ci_hdrc would go on to BURSTSIZE, on boards whose device tree says so.
        self.registers.ahb_burst();
    }

    /// Whether USBMODE says device.
    fn is_device(&self) -> bool {
        self.registers.read::<UsbMode>().mode() == MODE_DEVICE
    }

    /// Gives the controller its dQHs and lets it interrupt (`hw_device_state`). The host sees nothing of it yet:
    /// [`Engine::set_pullup`].
    ///
    /// # Errors
    /// The engine was shut down.
    pub fn start(&mut self) -> Result<(), EngineError> {
        if !self.live {
            return Err(EngineError::ShutDown);
        }
        let DmaAddr(list) = self.list_address();
        // A 32-bit register: the device's DMA mask keeps the list below 4 GiB.
        self.registers.store(ENDPTLISTADDR, list as u32);
        let interrupts = Interrupts::new().with_transfer(true).with_error(true).with_port_change(true).with_reset(true);
        self.registers.store(USBINTR, interrupts.into());
        Ok(())
    }

    /// Lets the controller interrupt no more (`hw_device_state` with 0).
    pub fn stop(&mut self) {
        self.registers.store(USBINTR, 0);
    }

    /// The pull-up (USBCMD.RS, `ci_udc_pullup`).
    pub fn set_pullup(&mut self, on: bool) {
        self.registers.update(|cmd: UsbCmd| cmd.with_run(on));
    }

    /// What happened since the last call, of what interrupts (`udc_irq`, `hw_test_and_clear_intr_active`). With
    /// [`crate::Config::registers_shared`], nothing in another mode than device.
    pub fn take_interrupts(&mut self) -> Interrupts {
        if self.config.registers_shared && !self.is_device() {
            return Interrupts::new();
        }
        let active = self.registers.load(USBSTS) & self.registers.load(USBINTR);
        self.registers.store(USBSTS, active);
        Interrupts::from(active)
    }

    /// Restarts after a bus reset: address 0, nothing primed, nothing complete (`hw_usb_reset`, `isr_reset_handler`).
    /// From now on an idle bus interrupts.
    ///
    /// # Errors
    /// ENDPTPRIME stays set.
    pub fn restart_after_bus_reset(&mut self) -> Result<(), EngineError> {
        self.set_address(0);
        self.registers.store(ENDPTFLUSH, u32::MAX);
        self.registers.store(ENDPTSETUPSTAT, self.registers.load(ENDPTSETUPSTAT));
        self.registers.store(ENDPTCOMPLETE, self.registers.load(ENDPTCOMPLETE));
        self.wait_clear(ENDPTPRIME, u32::MAX)?;
        let suspend = Interrupts::new().with_suspend(true).into_bits();
        // As in ci_hdrc this clears whatever else is pending, too.
        self.registers.store(USBSTS, self.registers.load(USBSTS) | suspend);
        self.registers.store(USBINTR, self.registers.load(USBINTR) | suspend);
        Ok(())
    }

    /// Takes an address at once (`hw_usb_set_address`): to be called when the status stage of SET_ADDRESS is over.
    pub fn set_address(&mut self, address: u8) {
        self.registers.update(|addr: DeviceAddr| addr.with_address(address & 0x7f).with_advance(false));
    }

    /// Takes an address with the next IN completion of endpoint 0 (DEVICEADDR.USBADRA): to be called before the status
    /// stage of SET_ADDRESS is queued. ci_hdrc does not use it, as old controllers do not have it.
    pub fn set_address_in_advance(&mut self, address: u8) {
        self.registers.update(|addr: DeviceAddr| addr.with_address(address & 0x7f).with_advance(true));
    }

    /// The address that the controller answers to, or will.
    #[must_use]
    pub fn address(&self) -> u8 {
        self.registers.read::<DeviceAddr>().address()
    }

    /// The bus speed (`hw_port_is_high_speed`); it holds from the port change after a bus reset.
    #[must_use]
    pub fn speed(&self) -> Speed {
        self.registers.speed()
    }

    /// The frame number, 11 bits (`ci_udc_get_frame`).
    #[must_use]
    pub fn frame(&self) -> u16 {
        // FRINDEX 13:3.
        (self.registers.load(FRINDEX) >> 3 & 0x7ff) as u16
    }

    /// Signals resume if the port is suspended (`ci_udc_wakeup`). Returns whether it was.
    pub fn force_resume(&mut self) -> bool {
        let suspended = self.registers.read::<PortSc>().suspended();
        if suspended {
            self.registers.update(|portsc: PortSc| portsc.with_force_resume(true));
        }
        suspended
    }

    /// Whether VBUS is there (OTGSC.BSV). A controller without OTGSC cannot tell: always.
    #[must_use]
    pub fn vbus(&self) -> bool {
        !self.otg() || self.registers.read::<OtgSc>().session_valid()
    }

    /// Lets changes of VBUS interrupt (`udc_id_switch_for_device`), or nothing of OTGSC any more
    /// (`ci_hdrc_otg_destroy`).
    pub fn watch_vbus(&mut self, on: bool) {
        if !self.otg() {
            return;
        }
        if on {
            self.registers
                .update_otgsc(|otgsc| otgsc.with_status(OTGSC_SESSION).with_enable(otgsc.enable() | OTGSC_SESSION));
        } else {
            self.registers.silence_otgsc();
        }
    }

    /// Whether VBUS changed and interrupted, and clears that (`ci_irq_handler`).
    pub fn take_vbus_change(&mut self) -> bool {
        if !self.otg() {
            return false;
        }
        let otgsc: OtgSc = self.registers.read();
        let changed = otgsc.status() & otgsc.enable() & OTGSC_SESSION != 0;
        if changed {
            self.registers.update_otgsc(|otgsc| otgsc.with_status(OTGSC_SESSION));
        }
        changed
    }
}
