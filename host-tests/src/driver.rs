//! The driver's side of the bench.

use std::sync::Arc;

use bus::Mmio;
use pool::DmaApi;
use usb::gadget::{UdcDriver, UdcError};

/// Makes a driver from its side of the bench.
pub type DriverFactory = Arc<dyn Fn(DriverSide) -> Result<Box<dyn UdcDriver>, UdcError> + Send + Sync>;

/// What a driver is made from: registers and memory.
pub struct DriverSide {
    /// The controller's registers.
    pub mmio: Arc<dyn Mmio>,
    /// Memory, pools, mappings.
    pub dma: DmaApi,
    /// Whether the driver is to work around the errata that it knows.
    pub workarounds: bool,
}
