//! The registers' fields (Linux: `drivers/usb/chipidea/bits.h`).

use bitfield_struct::bitfield;

/// HCCPARAMS.
#[bitfield(u32)]
pub(crate) struct HccParams {
    #[bits(17)]
    __: u32,
    /// LEN: the LPM register layout.
    pub lpm: bool,
    #[bits(14)]
    __: u32,
}

/// DCCPARAMS.
#[bitfield(u32)]
pub(crate) struct DccParams {
    /// DEN: number of endpoints.
    #[bits(5)]
    pub den: u8,
    #[bits(2)]
    __: u8,
    /// Device capable.
    pub dc: bool,
    /// Host capable.
    pub hc: bool,
    #[bits(23)]
    __: u32,
}

/// USBCMD.
#[bitfield(u32)]
pub(crate) struct UsbCmd {
    /// RS: run; in device mode the pull-up.
    pub run: bool,
    /// RST: controller reset, clears itself.
    pub reset: bool,
    #[bits(11)]
    __: u32,
    /// SUTW: setup tripwire.
    pub setup_tripwire: bool,
    /// ATDTW: add dTD tripwire.
    pub add_dtd_tripwire: bool,
    #[bits(17)]
    __: u32,
}

/// USBSTS; USBINTR has the same bits.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub(crate) struct UsbSts {
    /// UI: a dTD with IOC was retired, or a SETUP came.
    pub interrupt: bool,
    /// UEI: a transfer failed.
    pub error: bool,
    /// PCI: the port reached full or high speed, or resumed.
    pub port_change: bool,
    __: bool,
    /// SEI: a memory access failed.
    pub system_error: bool,
    __: bool,
    /// URI: bus reset.
    pub bus_reset: bool,
    __: bool,
    /// SLI: suspended.
    pub suspend: bool,
    #[bits(23)]
    __: u32,
}

/// DEVICEADDR.
#[bitfield(u32)]
pub(crate) struct DeviceAddr {
    #[bits(24)]
    __: u32,
    /// USBADRA: latch the address at the next IN completion of endpoint 0.
    pub advance: bool,
    /// USBADR.
    #[bits(7)]
    pub address: u8,
}

/// PORTSC.
#[bitfield(u32)]
pub(crate) struct PortSc {
    /// CCS: attached.
    pub connected: bool,
    /// CSC.
    pub connect_change: bool,
    /// PE: enabled, that is, reset by a host.
    pub enabled: bool,
    /// PEC.
    pub enable_change: bool,
    #[bits(2)]
    __: u8,
    /// FPR: resume.
    pub force_resume: bool,
    /// SUSP.
    pub suspended: bool,
    __: bool,
    /// HSP: high speed.
    pub high_speed: bool,
    #[bits(6)]
    __: u8,
    /// PTC: test mode.
    #[bits(4)]
    pub test: u8,
    #[bits(4)]
    __: u8,
    /// PFSC: never answer the high-speed handshake.
    pub force_full_speed: bool,
    __: bool,
    /// PSPD: 0 full, 2 high.
    #[bits(2)]
    pub speed: u8,
    #[bits(4)]
    __: u8,
}

/// DEVLC, in the LPM layout only.
#[bitfield(u32)]
pub(crate) struct DevLc {
    #[bits(23)]
    __: u32,
    /// PFSC: never answer the high-speed handshake.
    pub force_full_speed: bool,
    __: bool,
    /// PSPD: 0 full, 2 high.
    #[bits(2)]
    pub speed: u8,
    #[bits(5)]
    __: u8,
}

/// USBMODE.
#[bitfield(u32)]
pub(crate) struct UsbMode {
    /// CM: 0 idle, 2 device; 3, host, is refused.
    #[bits(2)]
    pub mode: u8,
    __: bool,
    /// SLOM: setup lockouts off.
    pub lockout_off: bool,
    #[bits(28)]
    __: u32,
}

impl UsbMode {
    /// CM of a controller that waits to be told.
    pub(crate) const IDLE: u8 = 0;
    /// CM of a device controller.
    pub(crate) const DEVICE: u8 = 2;
}

/// One direction of ENDPTCTRLn: bits 15:0 for RX, 31:16 for TX.
#[bitfield(u16)]
pub(crate) struct EndptCtrlHalf {
    /// RXS, TXS: stall.
    pub stall: bool,
    __: bool,
    /// RXT, TXT: 0 control, 1 isochronous, 2 bulk, 3 interrupt.
    #[bits(2)]
    pub kind: u8,
    #[bits(2)]
    __: u8,
    /// RXR, TXR: data toggle reset, reads as 0.
    pub toggle_reset: bool,
    /// RXE, TXE: enable.
    pub enable: bool,
    __: u8,
}

impl EndptCtrlHalf {
    pub(crate) const CONTROL: u8 = 0;
    pub(crate) const ISOCHRONOUS: u8 = 1;
}

/// OTGSC: status bits 15:8, change bits 23:16, enable bits 31:24 in the same order.
pub(crate) mod otgsc {
    /// B device (ID pin open).
    pub(crate) const ID: u32 = 1 << 8;
    /// A VBUS valid.
    pub(crate) const AVV: u32 = 1 << 9;
    /// A session valid.
    pub(crate) const ASV: u32 = 1 << 10;
    /// B session valid.
    pub(crate) const BSV: u32 = 1 << 11;
    /// B session end.
    pub(crate) const BSE: u32 = 1 << 12;
    /// The status bits that VBUS decides.
    pub(crate) const VBUS: u32 = AVV | ASV | BSV | BSE;
    /// From a status bit to its change bit.
    pub(crate) const CHANGE_SHIFT: u32 = 8;
    /// The change bits.
    pub(crate) const CHANGES: u32 = 0x7f << 16;
    /// From a change bit to its enable bit.
    pub(crate) const ENABLE_SHIFT: u32 = 8;
}
