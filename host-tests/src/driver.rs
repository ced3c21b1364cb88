//! The driver's side of the bench.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bus::Mmio;
use pool::DmaApi;
use usb::gadget::{UdcDriver, UdcError};

use crate::verdict::Failure;

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

/// A driver of the bench's controller.
#[derive(Clone)]
pub struct Driver {
    /// Its name on the command line and in records.
    pub name: Cow<'static, str>,
    /// One line about it.
    pub about: Cow<'static, str>,
    /// What it is, for scopes.
    pub words: Cow<'static, str>,
    /// Who makes the assumption when a layout does not hold.
    pub assumed_by: Cow<'static, str>,
    /// What it does not do, whatever the pool.
    pub limits: &'static [Limit],
    /// Makes it.
    pub make: DriverFactory,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Something that a scenario asks for and a driver does not do, whatever the pool: it is shown as declared, unless there is a
/// finding too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Name of the scenario.
    pub scenario: &'static str,
    /// How the failure begins that it leads to.
    pub error: &'static str,
    /// Why.
    pub why: &'static str,
}

impl Driver {
    /// The limit that explains this failure.
    pub(crate) fn limit(&self, scenario: &str, failure: &Failure) -> Option<&'static Limit> {
        self.limits.iter().find(|limit| limit.scenario == scenario && failure.error.starts_with(limit.error))
    }
}

/// A scenario's own client of a pool and its device, in the place of the driver under test and the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its name in records.
    pub name: &'static str,
    /// What it is, for scopes.
    pub words: &'static str,
    /// Who makes the assumption when a layout does not hold.
    pub assumed_by: &'static str,
    /// The model of its device, for scopes.
    pub model: &'static str,
}
