//! The controller as a PCI function.

use std::sync::Arc;

use bus::Trace;
use chipidea_sim::{Chipidea, Config};
use devices::DmaPort;
use devices::pci::{Bar, PciConfig, PciError, PciFunction, PciSlot};
use serve::ClientMemory;
use usb::UsbPort;

use crate::pace::{Activity, PacedPort, WatchedDevice, WatchedLine};

/// Which of Linux's glue drivers binds the controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Glue {
    /// `ci_hdrc_msm`, by the board's device tree over the function's BAR. Its id is one that no PCI driver takes.
    #[default]
    Msm,
    /// `ci_hdrc_pci`.
    Pci,
}

impl Glue {
    /// The name on the kernel's command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Msm => "msm",
            Self::Pci => "pci",
        }
    }

    /// Device id under vendor 153f (MIPS), and length of BAR 0. Linux places the longest BAR first, where the board's
    /// device tree expects the msm glue's.
    const fn identity(self) -> (u16, u64) {
        match self {
            Self::Msm => (0x1007, 1 << 20),
            Self::Pci => (0x1006, 4 << 10),
        }
    }
}

/// A controller of `endpoints` endpoint numbers in `memory`: its upstream port, and the function to serve it by.
///
/// # Errors
/// [`PciError`], which tells of a mistake here.
pub fn function(
    glue: Glue,
    endpoints: u8,
    memory: &Arc<ClientMemory>,
    trace: Trace,
) -> Result<(Arc<dyn UsbPort>, Arc<PciFunction>), PciError> {
    let (device, window) = glue.identity();
    // Nobody makes the function of the msm glue a bus master: its driver is no PCI driver.
    let config = PciConfig::new(0x153f, device, 0x0c8000).requires_bus_master(glue == Glue::Pci);
    let slot = PciSlot::new(config.bar(0, Bar::memory32(window).device()))?;
    let activity = Arc::new(Activity::default());
    let dma = DmaPort::new("chipidea", slot.memory(Arc::clone(memory) as _)).traced(trace);
    let config = Config { endpoints, window, ..Config::default() };
    let line = WatchedLine { line: slot.line(0), activity: Arc::clone(&activity) };
    let chipidea = Chipidea::new(config, dma, Arc::new(line));
    let device = WatchedDevice { device: Arc::clone(&chipidea), activity: Arc::clone(&activity) };
    let function = Arc::new(PciFunction::new(slot, Arc::new(device)));
    Ok((Arc::new(PacedPort { port: chipidea, activity }), function))
}
