//! The controller's registers: both maps, their bits, and a typed way to each (Linux: chipidea/bits.h, core.c).

mod fields;

use std::sync::Arc;

use bus::Mmio;
use usb::{Direction, EndpointAddress, Speed};

use crate::error::EngineError;

pub use fields::Interrupts;
pub(crate) use fields::{
    DccParams, DevLc, DeviceAddr, EndpointControl, HccParams, Id, MODE_DEVICE, OTGSC_SESSION, OtgSc, PortSc, SbusCfg,
    UsbCmd, UsbMode,
};

/// Most endpoint numbers that a controller has (`ENDPT_MAX` is twice that).
pub(crate) const MOST_ENDPOINTS: u8 = 16;

/// A register's place: capability block, or operational block with an offset for each map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Register {
    name: &'static str,
    non_lpm: u64,
    lpm: u64,
}

impl Register {
    const fn same(name: &'static str, offset: u64) -> Self {
        Self { name, non_lpm: offset, lpm: offset }
    }

    const fn moved(name: &'static str, non_lpm: u64, lpm: u64) -> Self {
        Self { name, non_lpm, lpm }
    }

    /// Its name in the manual.
    pub(crate) const fn name(self) -> &'static str {
        self.name
    }
}

const ID: u64 = 0x00;
const SBUSCFG: u64 = 0x90;
const CAP_LENGTH: u64 = 0x00;
const CAP_HCCPARAMS: u64 = 0x08;
const CAP_DCCPARAMS: u64 = 0x24;
const ENDPTCTRL: Register = Register::moved("ENDPTCTRL", 0x80, 0xec);

pub(crate) const ENDPTLISTADDR: Register = Register::same("ENDPTLISTADDR", 0x18);
pub(crate) const USBINTR: Register = Register::same("USBINTR", 0x08);
pub(crate) const USBSTS: Register = Register::same("USBSTS", 0x04);
pub(crate) const FRINDEX: Register = Register::same("FRINDEX", 0x0c);
pub(crate) const ENDPTSETUPSTAT: Register = Register::moved("ENDPTSETUPSTAT", 0x6c, 0xd8);
pub(crate) const ENDPTPRIME: Register = Register::moved("ENDPTPRIME", 0x70, 0xdc);
pub(crate) const ENDPTFLUSH: Register = Register::moved("ENDPTFLUSH", 0x74, 0xe0);
pub(crate) const ENDPTSTAT: Register = Register::moved("ENDPTSTAT", 0x78, 0xe4);
pub(crate) const ENDPTCOMPLETE: Register = Register::moved("ENDPTCOMPLETE", 0x7c, 0xe8);

/// The type of a register that has only one place.
pub(crate) trait Layout: From<u32> + Into<u32> {
    const REGISTER: Register;
}

macro_rules! layouts {
    ($($layout:ident $register:expr;)*) => {
        $(impl Layout for $layout {
            const REGISTER: Register = $register;
        })*
    };
}

layouts! {
    UsbCmd Register::same("USBCMD", 0x00);
    DeviceAddr Register::same("DEVICEADDR", 0x14);
    PortSc Register::same("PORTSC", 0x44);
    DevLc Register::same("DEVLC", 0x84);
    OtgSc Register::moved("OTGSC", 0x64, 0xc4);
    UsbMode Register::moved("USBMODE", 0x68, 0xc8);
}

/// An endpoint's bit in PRIME, FLUSH, STAT and COMPLETE (`hw_ep_bit`).
pub(crate) const fn endpoint_bit(endpoint: EndpointAddress) -> u32 {
    let shift = match endpoint.direction {
        Direction::Out => 0,
        Direction::In => 16,
    };
    1 << (endpoint.number as u32 + shift)
}

/// The window, after the controller has said which map it has (`hw_device_init`).
pub(crate) struct Registers {
    mmio: Arc<dyn Mmio>,
    capability: u64,
    operational: u64,
    lpm: bool,
    endpoints: u8,
    otg: bool,
}

impl Registers {
    /// Reads the capability block at `capoffset`.
    pub(crate) fn probe(mmio: Arc<dyn Mmio>, capoffset: u64) -> Result<Self, EngineError> {
        let length = mmio.read32(capoffset + CAP_LENGTH) & 0xff;
        let lpm = HccParams::from(mmio.read32(capoffset + CAP_HCCPARAMS)).lpm();
        let operational = capoffset + u64::from(length);
        let mut registers = Self { mmio, capability: capoffset, operational, lpm, endpoints: 0, otg: false };
        let capabilities = registers.capabilities();
        if !capabilities.device() {
            return Err(EngineError::NoDevice);
        }
        registers.endpoints = capabilities.endpoints();
        if registers.endpoints == 0 || registers.endpoints > MOST_ENDPOINTS {
            return Err(EngineError::EndpointCount { endpoints: registers.endpoints });
        }
        Ok(registers)
    }

    /// Reads DCCPARAMS.
    fn capabilities(&self) -> DccParams {
        DccParams::from(self.mmio.read32(self.capability + CAP_DCCPARAMS))
    }

    /// Finds out whether the controller can be host and device, and so has OTGSC (`ci_get_otg_capable`).
    pub(crate) fn detect_otg(&mut self) -> bool {
        let capabilities = self.capabilities();
        self.otg = capabilities.device() && capabilities.host();
        self.otg
    }

    /// Whether the controller can be a device (`ci_hdrc_gadget_init`).
    pub(crate) fn detect_device(&self) -> bool {
        self.capabilities().device()
    }

    /// The controller's revision if it is a 2.x: the x (`ci_get_revision`).
    pub(crate) fn revision(&self) -> Option<u8> {
        let id = || Id::from(self.mmio.read32(ID));
        (id().version() == 2).then(|| id().revision())
    }

    /// Wakes the PHY if somebody left it in low power (`ci_hdrc_enter_lpm_common`).
    pub(crate) fn leave_low_power(&self) {
        if self.lpm {
            if self.read::<DevLc>().phy_low_power() {
                self.update(|devlc: DevLc| devlc.with_phy_low_power(false));
            }
        } else if self.read::<PortSc>().phy_low_power() {
            self.update(|portsc: PortSc| portsc.with_phy_low_power(false));
        }
    }

    /// The AHB burst type that the controller uses.
    pub(crate) fn ahb_burst(&self) -> u8 {
        SbusCfg::from(self.mmio.read32(SBUSCFG)).ahb_burst()
    }

    /// Sets the AHB burst type, three bits.
    pub(crate) fn set_ahb_burst(&self, burst: u8) {
        let config = SbusCfg::from(self.mmio.read32(SBUSCFG)).with_ahb_burst(burst & 7);
        self.mmio.write32(SBUSCFG, config.into());
    }

    /// Endpoint numbers, 1 to 16.
    pub(crate) const fn endpoints(&self) -> u8 {
        self.endpoints
    }

    /// What [`Registers::detect_otg`] found out.
    pub(crate) const fn otg(&self) -> bool {
        self.otg
    }

    /// Whether it has the LPM map.
    pub(crate) const fn lpm(&self) -> bool {
        self.lpm
    }

    const fn offset(&self, register: Register) -> u64 {
        self.operational + if self.lpm { register.lpm } else { register.non_lpm }
    }

    /// Reads a register (`hw_read`).
    pub(crate) fn load(&self, register: Register) -> u32 {
        self.mmio.read32(self.offset(register))
    }

    /// Writes a register.
    pub(crate) fn store(&self, register: Register, value: u32) {
        self.mmio.write32(self.offset(register), value);
    }

    /// Reads some bits of a write-1-to-clear register and clears them (`hw_test_and_clear`).
    pub(crate) fn test_and_clear(&self, register: Register, mask: u32) -> bool {
        let seen = self.load(register) & mask;
        self.store(register, seen);
        seen != 0
    }

    /// Reads a register as what it is.
    pub(crate) fn read<T: Layout>(&self) -> T {
        T::from(self.load(T::REGISTER))
    }

    /// Reads, changes, writes (`hw_write` with a mask).
    pub(crate) fn update<T: Layout>(&self, change: impl FnOnce(T) -> T) {
        self.store(T::REGISTER, change(self.read()).into());
    }

    /// Reads, then changes with a read of its own (`hw_test_and_write`). Returns what the first read was.
    pub(crate) fn test_and_update<T: Layout>(&self, change: impl FnOnce(T) -> T) -> T {
        let before = self.read::<T>();
        self.update(change);
        before
    }

    /// Changes OTGSC without clearing a status bit that is not in the new `status` (`hw_write_otgsc`).
    pub(crate) fn update_otgsc(&self, change: impl FnOnce(OtgSc) -> OtgSc) {
        self.update(|otgsc: OtgSc| change(otgsc.with_status(0)));
    }

    /// Disables and clears all interrupts of OTGSC.
    pub(crate) fn silence_otgsc(&self) {
        self.update_otgsc(|otgsc| otgsc.with_status(0x7f).with_enable(0));
    }

    const fn endpoint_control(number: u8) -> Register {
        let step = 4 * number as u64;
        Register { non_lpm: ENDPTCTRL.non_lpm + step, lpm: ENDPTCTRL.lpm + step, ..ENDPTCTRL }
    }

    const fn endpoint_shift(direction: Direction) -> u32 {
        match direction {
            Direction::Out => 0,
            Direction::In => 16,
        }
    }

    /// An endpoint's half of its ENDPTCTRL.
    pub(crate) fn endpoint(&self, endpoint: EndpointAddress) -> EndpointControl {
        let value = self.load(Self::endpoint_control(endpoint.number));
        // The half's 16 bits.
        EndpointControl::from((value >> Self::endpoint_shift(endpoint.direction)) as u16)
    }

    /// Changes an endpoint's half of its ENDPTCTRL.
    pub(crate) fn update_endpoint(
        &self,
        endpoint: EndpointAddress,
        change: impl FnOnce(EndpointControl) -> EndpointControl,
    ) {
        let register = Self::endpoint_control(endpoint.number);
        let shift = Self::endpoint_shift(endpoint.direction);
        let value = self.load(register);
        let half = change(EndpointControl::from((value >> shift) as u16));
        self.store(register, value & !(0xffff << shift) | u32::from(u16::from(half)) << shift);
    }

    /// The port's speed (`hw_port_is_high_speed`).
    pub(crate) fn speed(&self) -> Speed {
        let high = if self.lpm { self.read::<DevLc>().speed() != 0 } else { self.read::<PortSc>().high_speed() };
        if high { Speed::High } else { Speed::Full }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct OneWord(std::sync::atomic::AtomicU64);

    impl Mmio for OneWord {
        fn read(&self, offset: u64, _width: bus::Width) -> u64 {
            // A device with one endpoint at 0, and OTGSC.
            match offset {
                CAP_DCCPARAMS => 0x81,
                _ => self.0.load(std::sync::atomic::Ordering::Relaxed),
            }
        }

        fn write(&self, _offset: u64, _width: bus::Width, value: u64) {
            self.0.store(value, std::sync::atomic::Ordering::Relaxed);
        }
    }

    #[test]
    fn a_change_of_otgsc_clears_no_other_status() {
        let word = Arc::new(OneWord(0x0f7f_0800.into()));
        let registers = Registers::probe(Arc::clone(&word) as _, 0).expect("a device");
        registers.update_otgsc(|otgsc| otgsc.with_enable(OTGSC_SESSION));
        assert_eq!(word.read32(0x64), 0x0800_0800);
    }

    #[test]
    fn an_in_endpoint_has_the_upper_half() {
        assert_eq!(endpoint_bit(EndpointAddress::out(3)), 1 << 3);
        assert_eq!(endpoint_bit(EndpointAddress::r#in(3)), 1 << 19);
        assert_eq!(endpoint_bit(EndpointAddress::r#in(15)), 1 << 31);
    }
}
