//! The registers' bits (Linux: chipidea/bits.h).

use bitfield_struct::bitfield;

/// ID, at the begin of the window.
#[bitfield(u32)]
pub(crate) struct Id {
    #[bits(21)]
    __: u32,
    /// REVISION, the digit after the point.
    #[bits(4)]
    pub revision: u8,
    /// VERSION, the digit before it.
    #[bits(4)]
    pub version: u8,
    #[bits(3)]
    __: u8,
}

/// SBUSCFG, at 0x90 of the window.
#[bitfield(u32)]
pub(crate) struct SbusCfg {
    /// AHBBRST.
    #[bits(3)]
    pub ahb_burst: u8,
    #[bits(29)]
    __: u32,
}

/// HCCPARAMS.
#[bitfield(u32)]
pub(crate) struct HccParams {
    #[bits(17)]
    __: u32,
    /// The LPM register map.
    pub lpm: bool,
    #[bits(14)]
    __: u32,
}

/// DCCPARAMS.
#[bitfield(u32)]
pub(crate) struct DccParams {
    /// Endpoint numbers.
    #[bits(5)]
    pub endpoints: u8,
    #[bits(2)]
    __: u8,
    /// Can be a device.
    pub device: bool,
    /// Can be a host.
    pub host: bool,
    #[bits(23)]
    __: u32,
}

/// USBCMD.
#[bitfield(u32)]
pub(crate) struct UsbCmd {
    /// RS: pull-up.
    pub run: bool,
    /// RST, clears itself.
    pub reset: bool,
    #[bits(11)]
    __: u32,
    /// SUTW, the setup tripwire.
    pub setup_tripwire: bool,
    /// ATDTW, the add-dTD tripwire.
    pub add_tripwire: bool,
    __: bool,
    /// ITC: interrupt threshold in microframes.
    pub interrupt_threshold: u8,
    #[bits(8)]
    __: u32,
}

/// USBSTS and USBINTR: what happened, and what interrupts.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Interrupts {
    /// UI: a transfer with IOC is complete, or a SETUP came to a dQH with IOS.
    pub transfer: bool,
    /// UEI: a transfer failed.
    pub error: bool,
    /// PCI: the port knows its speed, or resumed.
    pub port_change: bool,
    #[bits(3)]
    __: u32,
    /// URI: bus reset.
    pub reset: bool,
    __: bool,
    /// SLI: the bus is idle.
    pub suspend: bool,
    #[bits(23)]
    __: u32,
}

/// DEVICEADDR.
#[bitfield(u32)]
pub(crate) struct DeviceAddr {
    #[bits(24)]
    __: u32,
    /// USBADRA: the address holds from the next IN completion of endpoint 0.
    pub advance: bool,
    /// The address.
    #[bits(7)]
    pub address: u8,
}

/// PORTSC, as far as a device uses it.
#[bitfield(u32)]
pub(crate) struct PortSc {
    #[bits(6)]
    __: u32,
    /// FPR: force port resume.
    pub force_resume: bool,
    /// SUSP.
    pub suspended: bool,
    __: bool,
    /// HSP.
    pub high_speed: bool,
    #[bits(13)]
    __: u32,
    /// PHCD: the PHY is in low power. Not in the LPM map.
    pub phy_low_power: bool,
    /// PFSC: never high speed. Not in the LPM map.
    pub force_full_speed: bool,
    #[bits(7)]
    __: u32,
}

/// DEVLC of the LPM map.
#[bitfield(u32)]
pub(crate) struct DevLc {
    #[bits(22)]
    __: u32,
    /// PHCD: the PHY is in low power.
    pub phy_low_power: bool,
    /// PFSC: never high speed.
    pub force_full_speed: bool,
    __: bool,
    /// PSPD: 0 full, 2 high.
    #[bits(2)]
    pub speed: u8,
    #[bits(5)]
    __: u32,
}

/// OTGSC, as far as a device uses it.
#[bitfield(u32)]
pub(crate) struct OtgSc {
    #[bits(11)]
    __: u32,
    /// BSV: VBUS is there.
    pub session_valid: bool,
    #[bits(4)]
    __: u32,
    /// Status bits 22:16, write 1 to clear.
    #[bits(7)]
    pub status: u8,
    __: bool,
    /// Enable bits 30:24 of the same.
    #[bits(7)]
    pub enable: u8,
    __: bool,
}

/// BSVIS in [`OtgSc::status`] and BSVIE in [`OtgSc::enable`].
pub(crate) const OTGSC_SESSION: u8 = 1 << 3;

/// USBMODE.
#[bitfield(u32)]
pub(crate) struct UsbMode {
    /// CM: 0 idle, 2 device, 3 host.
    #[bits(2)]
    pub mode: u8,
    __: bool,
    /// SLOM: 1 a new SETUP overwrites.
    pub setup_lockout_off: bool,
    /// SDIS.
    pub stream_disable: bool,
    #[bits(27)]
    __: u32,
}

/// USBMODE.CM of a device.
pub(crate) const MODE_DEVICE: u8 = 2;

/// One half of ENDPTCTRLn: the same bits for RX at 0 and TX at 16.
#[bitfield(u16)]
pub(crate) struct EndpointControl {
    /// RXS, TXS.
    pub stall: bool,
    __: bool,
    /// RXT, TXT.
    #[bits(2)]
    pub transfer_type: u8,
    #[bits(2)]
    __: u8,
    /// RXR, TXR: reset the data toggle.
    pub toggle_reset: bool,
    /// RXE, TXE.
    pub enable: bool,
    __: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_lie_where_the_manual_has_them() {
        assert_eq!(u32::from(UsbCmd::new().with_run(true).with_setup_tripwire(true)), 1 | 1 << 13);
        assert_eq!(u32::from(UsbCmd::new().with_add_tripwire(true).with_reset(true)), 1 << 14 | 1 << 1);
        assert_eq!(u32::from(UsbCmd::new().with_interrupt_threshold(0xff)), 0xff0000);
        let all = Interrupts::new().with_transfer(true).with_error(true).with_port_change(true);
        assert_eq!(u32::from(all.with_reset(true).with_suspend(true)), 0x147);
        assert_eq!(u32::from(DeviceAddr::new().with_address(0x7f).with_advance(true)), 0xff << 24);
        assert_eq!(u32::from(PortSc::new().with_force_resume(true).with_suspended(true)), 0xc0);
        assert_eq!(u32::from(PortSc::new().with_high_speed(true).with_force_full_speed(true)), 1 << 9 | 1 << 24);
        assert_eq!(u32::from(DevLc::new().with_speed(2).with_force_full_speed(true)), 2 << 25 | 1 << 23);
        assert_eq!(u32::from(PortSc::new().with_phy_low_power(true)), 1 << 23);
        assert_eq!(u32::from(DevLc::new().with_phy_low_power(true)), 1 << 22);
        assert_eq!((Id::from(0xe4a1_fa05).version(), Id::from(0xe4a1_fa05).revision()), (2, 5));
        assert_eq!(u32::from(SbusCfg::new().with_ahb_burst(7)), 7);
        let session = OtgSc::new().with_status(OTGSC_SESSION).with_enable(OTGSC_SESSION).with_session_valid(true);
        assert_eq!(u32::from(session), 1 << 19 | 1 << 27 | 1 << 11);
        let mode = UsbMode::new().with_mode(MODE_DEVICE).with_setup_lockout_off(true).with_stream_disable(true);
        assert_eq!(u32::from(mode), 0x1a);
        let control = EndpointControl::new().with_stall(true).with_transfer_type(2);
        assert_eq!(u16::from(control.with_toggle_reset(true).with_enable(true)), 0xc9);
        assert!(DccParams::from(0x190).device() && DccParams::from(0x190).host());
        assert_eq!(DccParams::from(0x190).endpoints(), 16);
        assert!(HccParams::from(1 << 17).lpm());
    }
}
