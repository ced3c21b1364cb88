//! How a controller was synthesised and wired.

use usb::Speed;

use crate::errata::Errata;
use crate::registers::{DccParams, HccParams};

/// The two operational register layouts (Linux: `ci_regs_nolpm` and `ci_regs_lpm`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Layout {
    /// Parts without link power management.
    #[default]
    NonLpm,
    /// Parts with link power management: OTGSC and what follows lies higher, DEVLC exists.
    Lpm,
}

/// What a controller is: its synthesis parameters and the state of the outside world at power-on.
///
/// The default is PCI id 153f:1006 with 8 endpoints: capability registers at 0x100, host capable (so that Linux takes
/// it for OTG and looks at OTGSC), high speed, a 4 KiB window, no VBUS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Endpoint numbers, endpoint 0 included: 1 to 16; taken as the nearest of these if it is none.
    pub endpoints: u8,
    /// Layout of the operational registers.
    pub layout: Layout,
    /// Byte offset of the capability registers: 0x100, or 0 (the Intel ids), which leaves no room for the
    /// identification registers. Anything else is taken as 0x100.
    pub cap_offset: u16,
    /// DCCPARAMS.HC. With it, CM is idle after a reset and Linux treats the part as OTG.
    pub host_capable: bool,
    /// The fastest the device can do: [`Speed::Full`] or [`Speed::High`].
    pub max_speed: Speed,
    /// Whether VBUS is on at power-on.
    pub vbus: bool,
    /// The ID register: TAG 20:16, REVISION 24:21, VERSION 28:25 (Linux: bits.h). The default says revision 2.5.
    pub id: u32,
    /// Length of the register window in bytes. Beyond 0x1000 it holds the board's reset line.
    pub window: u64,
    /// What is wrong with it. An erratum that belongs to a revision decides what the ID register says.
    pub errata: Errata,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            endpoints: 8,
            layout: Layout::NonLpm,
            cap_offset: 0x100,
            host_capable: true,
            max_speed: Speed::High,
            vbus: false,
            id: 0xe4a1fa05,
            window: 0x1000,
            errata: Errata::default(),
        }
    }
}

impl Config {
    /// The same with every value in its range.
    pub(crate) fn sanitised(mut self) -> Self {
        self.endpoints = self.endpoints.clamp(1, 16);
        self.cap_offset = if self.cap_offset == 0 { 0 } else { 0x100 };
        self.max_speed = self.max_speed.max(Speed::Full);
        self
    }

    /// The ID register.
    pub(crate) fn identification(&self) -> u32 {
        const VERSION_AND_REVISION: u32 = 0xff << 21;
        match self.errata.lost_appends {
            Some(lost) => self.id & !VERSION_AND_REVISION | lost.revision.identification(),
            None => self.id,
        }
    }

    pub(crate) fn dccparams(&self) -> u32 {
        DccParams::new().with_den(self.endpoints).with_dc(true).with_hc(self.host_capable).into_bits()
    }

    pub(crate) fn hccparams(&self) -> u32 {
        HccParams::new().with_lpm(self.layout == Layout::Lpm).into_bits()
    }
}
