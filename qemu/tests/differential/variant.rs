//! What is compared: glue, speed, function.

use qemu::Glue;
use usb::Speed;

/// One way through the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) glue: Glue,
    pub(crate) speed: Speed,
    pub(crate) function: Function,
}

/// Configurations of the Ethernet gadget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Ecm,
    Rndis,
}

/// Endpoint numbers of the controller.
pub(crate) const ENDPOINTS: u8 = 16;

impl Variant {
    /// All of them: the glues differ in what they set up, so one way through is enough for the second.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let msm = [Speed::High, Speed::Full].into_iter().flat_map(|speed| {
            [Function::Ecm, Function::Rndis].map(|function| Self { glue: Glue::Msm, speed, function })
        });
        msm.chain([Self { glue: Glue::Pci, speed: Speed::High, function: Function::Ecm }])
    }

    /// Its name in snapshots.
    pub(crate) fn name(self) -> String {
        let speed = if self.speed == Speed::High { "high" } else { "full" };
        let function = if self.function == Function::Ecm { "ecm" } else { "rndis" };
        format!("{}_{speed}_{function}", self.glue.name())
    }

    /// bConfigurationValue.
    pub(crate) fn configuration(self) -> u8 {
        match self.function {
            Function::Ecm => gadgets::ethernet::ECM,
            Function::Rndis => gadgets::ethernet::RNDIS,
        }
    }
}
