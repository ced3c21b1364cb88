//! How a driver is set up (Linux: `struct ci_hdrc_platform_data`).

use usb::Speed;

use crate::fault::Fault;
use crate::workarounds::Workarounds;

/// Where the dQHs come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum DqhSource {
    /// One by one from the pool `ci_hw_qh`, as ci_hdrc does (`init_eps`). The controller takes them for an array.
    #[default]
    Pool,
    /// An array, aligned to 2 KiB, in coherent memory of its own, as boot loaders and Linux's fsl_udc_core have it.
    Static,
}

/// How a driver is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// What the driver calls itself.
    pub name: String,
    /// Where the dQHs come from.
    pub dqh_source: DqhSource,
    /// The fastest it may be: [`Speed::Full`] or [`Speed::High`]. Full speed sets PFSC (`CI_HDRC_FORCE_FULLSPEED`).
    pub max_speed: Speed,
    /// Byte offset of the capability block in the register window (`DEF_CAPOFFSET`).
    pub capoffset: u64,
    /// USBCMD.ITC: microframes between interrupts, 0 for none (`itc_setting`, in a device tree `itc-setting`).
    pub interrupt_threshold: u8,
    /// Sets USBMODE.SDIS (`CI_HDRC_DISABLE_DEVICE_STREAMING`).
    pub disable_streaming: bool,
    /// Another driver has the same registers for host mode: an interrupt is its own while USBMODE.CM says device
    /// (`CI_HDRC_REGS_SHARED`).
    pub registers_shared: bool,
    /// SBUSCFG.AHBBRST, three bits, or leave it as it is (`CI_HDRC_OVERRIDE_AHB_BURST`, `ahb_burst_config`).
    pub ahb_burst: Option<u8>,
    /// Which of the controller's errata it works around.
    pub workarounds: Workarounds,
    /// Bytes between the begin of a buffer and its data, below 4096: an skb's headroom, for example. Not 0, it makes
    /// every buffer unaligned, and a dTD carries 16 KiB at most.
    pub headroom: u16,
    /// A fault to put in, for tests of what finds it.
    pub fault: Option<Fault>,
}

impl Default for Config {
    /// The driver of msm8916 and its relatives in Linux (`ci_hdrc_msm.c`, `ci_get_platdata`).
    fn default() -> Self {
        Self {
            name: "ci_hdrc_msm".to_owned(),
            dqh_source: DqhSource::Pool,
            max_speed: Speed::High,
            capoffset: 0x100,
            interrupt_threshold: 1,
            disable_streaming: true,
            registers_shared: true,
            ahb_burst: Some(0),
            workarounds: Workarounds::default(),
            headroom: 0,
            fault: None,
        }
    }
}
