//! The controller's state and what register writes do to it. Everything here runs under the controller's lock.

use std::time::Duration;

use devices::{DmaPort, Effects};
use usb::wire::DataPid;
use usb::{EndpointAddress, Speed};

use crate::config::{Config, Layout};
use crate::errata::Active;
use crate::kinds;
use crate::layout;
use crate::pause::Pauses;
use crate::register_map::{ENDPTCTRL0_ENABLED, Reg, Register, RegisterFile, RegisterMap};
use crate::registers::{DevLc, DeviceAddr, EndptCtrlHalf, PortSc, UsbCmd, UsbMode, UsbSts};
use crate::slot::Slot;
use crate::trace::{Refused, SOURCE};
use crate::ulpi::Phy;

/// A call to make once the lock is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The interrupt level changed.
    Interrupt,
    /// The pull-up changed.
    AttachChanged,
    /// An endpoint that said NAK may say something else now.
    Ready(EndpointAddress),
    /// Resume signalling.
    RemoteWakeup,
}

/// What the controller keeps of a slot outside memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlotState {
    /// Data toggle: of the next packet to send, or the one expected.
    pub(crate) toggle: DataPid,
    /// Position of the current dTD in the walk since the prime. For its belief only.
    pub(crate) position: u16,
    /// Packets of the current dTD, for Mult. At most 3.
    pub(crate) packets: u8,
}

/// The state behind the lock.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) registers: RegisterFile,
    pub(crate) slots: [SlotState; 32],
    /// Slots (as bits of ENDPTSTAT) that said NAK since their last hint.
    pub(crate) waiting: u32,
    /// Speed since the last bus reset, `None` before it.
    pub(crate) speed: Option<Speed>,
    /// The address that waits for the next IN completion of endpoint 0.
    pub(crate) staged_address: Option<u8>,
    pub(crate) effects: Effects<Effect>,
    pub(crate) pauses: Pauses,
    pub(crate) errata: Active,
    phy: Phy,
    pub(crate) vbus: bool,
    now: Duration,
    /// As last seen by [`Core::settle`].
    level: bool,
    attached: bool,
    endpoints: u8,
    host_capable: bool,
    pub(crate) lpm: bool,
    pub(crate) max_speed: Speed,
}

impl Core {
    pub(crate) fn new(config: &Config, map: &RegisterMap) -> Self {
        let mut core = Self {
            registers: RegisterFile::new(map),
            slots: [SlotState::default(); 32],
            waiting: 0,
            speed: None,
            staged_address: None,
            effects: Effects::new(),
            pauses: Pauses::default(),
            errata: Active::new(config.errata),
            phy: Phy::new(),
            vbus: config.vbus,
            now: Duration::ZERO,
            level: false,
            attached: false,
            endpoints: config.endpoints,
            host_capable: config.host_capable,
            lpm: config.layout == Layout::Lpm,
            max_speed: config.max_speed,
        };
        core.sense_vbus();
        core
    }

    /// Power-on reset. VBUS and the time come from outside and stay.
    pub(crate) fn power_on(&mut self, map: &RegisterMap) {
        self.registers = RegisterFile::new(map);
        self.sense_vbus();
        self.phy = Phy::new();
        self.forget();
    }

    /// USBCMD.RST. OTGSC and what belongs to the glue survive.
    fn controller_reset(&mut self, map: &RegisterMap) {
        self.registers.reset(map);
        self.forget();
    }

    fn forget(&mut self) {
        self.slots = [SlotState::default(); 32];
        self.pauses = Pauses::default();
        self.speed = None;
        self.staged_address = None;
    }

    /// Compares the outputs with what was last shown, and notes what to show.
    pub(crate) fn settle(&mut self) {
        let attached = self.is_attached();
        if attached != self.attached {
            self.attached = attached;
            if !attached {
                self.speed = None;
            }
            self.show_port();
            self.effects.push(Effect::AttachChanged);
        }
        let status = self.registers.get(Reg::UsbSts) & self.registers.get(Reg::UsbIntr);
        let level = status != 0 || self.otg_interrupt();
        if level != self.level {
            self.level = level;
            self.effects.push(Effect::Interrupt);
        }
    }

    /// The interrupt level as last settled.
    pub(crate) fn level(&self) -> bool {
        self.level
    }

    /// The pull-up: running in device mode, with VBUS.
    pub(crate) fn is_attached(&self) -> bool {
        let command = UsbCmd::from_bits(self.registers.get(Reg::UsbCmd));
        command.run() && self.is_device() && self.vbus
    }

    fn is_device(&self) -> bool {
        UsbMode::from_bits(self.registers.get(Reg::UsbMode)).mode() == UsbMode::DEVICE
    }

    /// PORTSC (and DEVLC) after the attachment or the speed changed.
    pub(crate) fn show_port(&mut self) {
        let high = self.speed == Some(Speed::High);
        let code = if high { 2 } else { 0 };
        let mut portsc = PortSc::from_bits(self.registers.get(Reg::PortSc))
            .with_connected(self.attached)
            .with_enabled(self.speed.is_some())
            .with_high_speed(high);
        if self.speed.is_none() {
            portsc = portsc.with_suspended(false).with_force_resume(false);
        }
        if self.lpm {
            let devlc = DevLc::from_bits(self.registers.get(Reg::DevLc)).with_speed(code);
            self.registers.set(Reg::DevLc, devlc.into_bits());
        } else {
            portsc = portsc.with_speed(code);
        }
        self.registers.set(Reg::PortSc, portsc.into_bits());
    }

    pub(crate) fn is_suspended(&self) -> bool {
        PortSc::from_bits(self.registers.get(Reg::PortSc)).suspended()
    }

    /// SUSP, and with it the end of a resume that the device asked for.
    pub(crate) fn set_suspended(&mut self, suspended: bool) {
        let portsc =
            PortSc::from_bits(self.registers.get(Reg::PortSc)).with_suspended(suspended).with_force_resume(false);
        self.registers.set(Reg::PortSc, portsc.into_bits());
    }

    /// PFSC: the driver wants full speed only.
    pub(crate) fn forces_full_speed(&self) -> bool {
        if self.lpm {
            DevLc::from_bits(self.registers.get(Reg::DevLc)).force_full_speed()
        } else {
            PortSc::from_bits(self.registers.get(Reg::PortSc)).force_full_speed()
        }
    }

    /// Sets bits of USBSTS.
    pub(crate) fn raise(&mut self, status: UsbSts) {
        self.registers.set(Reg::UsbSts, self.registers.get(Reg::UsbSts) | status.into_bits());
    }

    /// Sets bits of a register of bits.
    pub(crate) fn set_bits(&mut self, reg: Reg, bits: u32) {
        self.registers.set(reg, self.registers.get(reg) | bits);
    }

    /// Clears bits of a register of bits.
    pub(crate) fn clear_bits(&mut self, reg: Reg, bits: u32) {
        self.registers.set(reg, self.registers.get(reg) & !bits);
    }

    pub(crate) fn has_bits(&self, reg: Reg, bits: u32) -> bool {
        self.registers.get(reg) & bits != 0
    }

    /// Hints that `slot` may have another answer, if the host waits for it.
    pub(crate) fn wake(&mut self, slot: Slot) {
        if self.waiting & slot.bit() != 0 {
            self.waiting &= !slot.bit();
            self.effects.push(Effect::Ready(slot.address()));
        }
    }

    /// Notes that the host was told to wait.
    pub(crate) fn wait(&mut self, slot: Slot) {
        self.waiting |= slot.bit();
    }

    pub(crate) fn has_endpoint(&self, endpoint: u8) -> bool {
        endpoint < self.endpoints
    }

    pub(crate) fn control(&self, slot: Slot) -> EndptCtrlHalf {
        let both = self.registers.get_at(Reg::EndptCtrl, slot.endpoint());
        EndptCtrlHalf::from_bits(if slot.is_in() { both >> 16 } else { both } as u16)
    }

    pub(crate) fn set_control(&mut self, slot: Slot, half: EndptCtrlHalf) {
        let both = self.registers.get_at(Reg::EndptCtrl, slot.endpoint());
        let (shift, half) = (if slot.is_in() { 16 } else { 0 }, u32::from(half.into_bits()));
        self.registers.set_at(Reg::EndptCtrl, slot.endpoint(), both & !(0xffff << shift) | half << shift);
    }

    /// Time goes on: FRINDEX counts microframes while the host sends start-of-frames, eighths of a frame at high speed
    /// and whole frames at full speed.
    pub(crate) fn step(&mut self, now: Duration) {
        self.now = self.now.max(now);
        let Some(speed) = self.speed.filter(|_| !self.is_suspended()) else {
            return;
        };
        // The counter has 14 bits: what the cast drops, it drops too.
        let microframes = (self.now.as_micros() / 125) as u32 & 0x3fff;
        let index = if speed == Speed::High { microframes } else { microframes & !7 };
        self.registers.set(Reg::FrIndex, index);
    }

    /// A write of `value` in the byte lanes `lanes` to the `index`-th `register`.
    pub(crate) fn write(
        &mut self,
        dma: &DmaPort,
        map: &RegisterMap,
        register: &Register,
        index: u8,
        value: u32,
        lanes: u32,
    ) {
        let (reg, masks) = (register.reg(), register.write);
        if matches!(reg, Reg::EndptPrime | Reg::EndptFlush) {
            self.finish_work_of(dma, value & lanes);
        }
        let old = self.registers.get_at(reg, index);
        let kept = masks.keep & lanes;
        self.registers.set_at(reg, index, (old & !kept | value & kept) & !(value & masks.clear & lanes));
        // Bytes that are not written command nothing.
        let command = value & masks.command & lanes;
        match reg {
            Reg::UsbCmd if command != 0 => self.controller_reset(map),
            Reg::UsbCmd => self.guard_append(),
            Reg::DeviceAddr if masks.command & lanes != 0 => self.set_address(DeviceAddr::from_bits(command)),
            Reg::EndptListAddr => {
                let written = old & !lanes | value & lanes;
                // Newer kernels park all ones there while they sleep (ci_hdrc's udc_suspend): no list is meant.
                if written != u32::MAX {
                    let list = kinds::address(written);
                    dma.layout(&layout::ENDPTLISTADDR, list, 2 * u32::from(self.endpoints));
                }
            }
            Reg::UlpiViewport => {
                // A partial write keeps the other bytes as they read, RUN and WAKEUP among them: they read 0.
                let merged = old & !lanes | value & lanes;
                self.registers.set(reg, self.phy.viewport(merged, old));
            }
            Reg::PortSc => self.command_port(dma, PortSc::from_bits(command)),
            Reg::UsbMode if masks.command & lanes != 0 => self.set_mode(dma, UsbMode::from_bits(command).mode()),
            Reg::EndptSetupStat => self.setup_status_cleared(old & !self.registers.get(reg)),
            Reg::EndptPrime => self.prime_all(dma, command),
            Reg::EndptFlush => self.clear_bits(Reg::EndptStat, command),
            Reg::EndptCtrl => self.control_written(index, command),
            Reg::ResetLine => self.reset_line(map, value & lanes),
            _ => {}
        }
    }

    fn set_address(&mut self, written: DeviceAddr) {
        let mut shown = DeviceAddr::from_bits(self.registers.get(Reg::DeviceAddr));
        if written.advance() {
            self.staged_address = Some(written.address());
            shown.set_advance(true);
        } else {
            self.staged_address = None;
            shown = written;
        }
        self.registers.set(Reg::DeviceAddr, shown.into_bits());
    }

    /// PTC and FPR.
    fn command_port(&mut self, dma: &DmaPort, command: PortSc) {
        if command.test() != 0 {
            dma.trace().emit(SOURCE, || Refused::TestMode(command.test()));
        }
        if command.force_resume() && self.is_suspended() {
            self.set_bits(Reg::PortSc, PortSc::new().with_force_resume(true).into_bits());
            self.effects.push(Effect::RemoteWakeup);
        }
    }

    /// CM can be written once after a reset, and not at all without host capability.
    fn set_mode(&mut self, dma: &DmaPort, mode: u8) {
        let current = UsbMode::from_bits(self.registers.get(Reg::UsbMode));
        // Linux goes through idle even where CM is fixed.
        let fixed = mode == UsbMode::IDLE && !self.host_capable;
        if mode == current.mode() || fixed {
            return;
        }
        if current.mode() != UsbMode::IDLE || mode != UsbMode::DEVICE {
            // Linux reads back and says that it cannot enter host mode.
            dma.trace().emit(SOURCE, || Refused::Mode(mode));
            return;
        }
        self.registers.set(Reg::UsbMode, current.with_mode(mode).into_bits());
    }

    /// The control endpoints in `cleared` answer again. While ENDPTSETUPSTAT is set the hardware keeps their stall bits
    /// from taking effect, so one that was written meanwhile belongs to the transfer before: it goes.
    fn setup_status_cleared(&mut self, cleared: u32) {
        for endpoint in (0..16).filter(|endpoint| cleared & 1 << endpoint != 0) {
            let out = Slot::new(endpoint, usb::Direction::Out);
            if self.is_control(out) {
                self.unstall(endpoint);
            }
            self.wake(out);
            self.wake(Slot::new(endpoint, usb::Direction::In));
        }
    }

    /// Clears both stall bits of a control endpoint.
    pub(crate) fn unstall(&mut self, endpoint: u8) {
        for direction in [usb::Direction::Out, usb::Direction::In] {
            let slot = Slot::new(endpoint, direction);
            self.set_control(slot, self.control(slot).with_stall(false));
        }
    }

    fn control_written(&mut self, endpoint: u8, command: u32) {
        if endpoint == 0 {
            let stalls = self.registers.get_at(Reg::EndptCtrl, 0) & 0x0001_0001;
            self.registers.set_at(Reg::EndptCtrl, 0, stalls | ENDPTCTRL0_ENABLED);
        }
        for direction in [usb::Direction::Out, usb::Direction::In] {
            let slot = Slot::new(endpoint, direction);
            let half = EndptCtrlHalf::from_bits(if slot.is_in() { command >> 16 } else { command } as u16);
            // RXR and TXR are reserved on endpoint 0, where SETUP sets the toggles.
            if half.toggle_reset() && endpoint != 0 {
                self.slots[slot.index()].toggle = DataPid::Data0;
            }
            self.wake(slot);
        }
    }

    /// The board's reset controller: bit 0 holds the core, bit 1 the PHY.
    fn reset_line(&mut self, map: &RegisterMap, asserted: u32) {
        if asserted & 1 != 0 {
            let lines = self.registers.get(Reg::ResetLine);
            let glue = [Reg::PhyCtrl, Reg::PhySecCtrl].map(|reg| (reg, self.registers.get(reg)));
            let phy = std::mem::replace(&mut self.phy, Phy::new());
            self.power_on(map);
            self.phy = phy;
            self.registers.set(Reg::ResetLine, lines);
            for (reg, value) in glue {
                self.registers.set(reg, value);
            }
        }
        if asserted & 2 != 0 {
            self.phy = Phy::new();
        }
    }
}
