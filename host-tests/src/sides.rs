//! The sides that a bench has unless it is told otherwise: with `served`, which gives virtual machines their controller, the
//! only place that names a concrete model or driver.

use std::num::NonZeroU32;
use std::sync::Arc;

use bus::{Belief, IrqLine, Owner, Trace, Watch};
use chipidea_driver::{ChipideaUdc, DqhSource, Workarounds};
use chipidea_sim::{Chipidea, Errata, Layout, LostAppends, Revision};
use devices::{DmaMemory, DmaPort};
use usb::gadget::{UdcDriver, UdcError};

use crate::driver::DriverSide;
use crate::errata::Erratum;

/// The driver under test, for scopes.
pub(crate) const LINUX: &str = "chipidea-driver (Rust port of Linux's ci_hdrc)";
/// Who makes the assumption when the layout does not hold.
pub(crate) const LINUX_ASSUMES: &str = "ci_hdrc init_eps";
/// The model, for scopes.
pub(crate) const fn controller_name(lpm: bool) -> &'static str {
    if lpm { "chipidea-sim (LPM map)" } else { "chipidea-sim (non-LPM map)" }
}

/// The controller of a board.
pub(crate) type Controller = Chipidea;

/// A lost prime strikes where it can, but for two times in three: a driver that does not notice has not lost everything.
const EVERY: NonZeroU32 = NonZeroU32::new(3).unwrap();

/// What is wrong with the controller. Of two revisions the last one counts.
fn switches(errata: &[Erratum]) -> Errata {
    let mut switches = Errata::default();
    for erratum in errata {
        let lost = |revision| Some(LostAppends { revision, every: EVERY });
        match erratum {
            Erratum::LostPrime22 => switches.lost_appends = lost(Revision::R22),
            Erratum::LostPrime24 => switches.lost_appends = lost(Revision::R24),
            Erratum::Err050101 => switches.foreign_in_unprimes = true,
        }
    }
    switches
}

/// What the errata did, one line for each time.
pub(crate) fn struck(controller: &Controller) -> Vec<String> {
    controller.struck().iter().map(ToString::to_string).collect()
}

/// The controller of a board, cable out.
pub(crate) fn controller(
    endpoints: u8,
    lpm: bool,
    errata: &[Erratum],
    memory: Arc<dyn DmaMemory>,
    watch: Arc<dyn Watch>,
    trace: Trace,
    line: Arc<dyn IrqLine>,
) -> Arc<Chipidea> {
    let layout = if lpm { Layout::Lpm } else { Layout::NonLpm };
    let errata = switches(errata);
    let config = chipidea_sim::Config { endpoints, layout, errata, ..chipidea_sim::Config::default() };
    Chipidea::new(config, DmaPort::new("chipidea", memory).watched(watch).traced(trace), line)
}

/// Linux's driver: queue heads from the pool, one by one.
pub(crate) fn linux(side: DriverSide) -> Result<Box<dyn UdcDriver>, UdcError> {
    let workarounds = workarounds(&side);
    started(side, chipidea_driver::Config { workarounds, ..chipidea_driver::Config::default() })
}

/// A boot loader's driver: queue heads in a static array.
pub(crate) fn boot_loader(side: DriverSide) -> Result<Box<dyn UdcDriver>, UdcError> {
    // A boot loader polls one device and tunes nothing.
    let config = chipidea_driver::Config {
        dqh_source: DqhSource::Static,
        interrupt_threshold: 0,
        disable_streaming: false,
        registers_shared: false,
        ahb_burst: None,
        workarounds: workarounds(&side),
        ..chipidea_driver::Config::default()
    };
    started(side, config)
}

fn workarounds(side: &DriverSide) -> Workarounds {
    if side.workarounds { Workarounds::default() } else { Workarounds::NONE }
}

fn started(side: DriverSide, config: chipidea_driver::Config) -> Result<Box<dyn UdcDriver>, UdcError> {
    let mut driver = ChipideaUdc::probe(side.mmio, side.dma, config)?;
    driver.start()?;
    Ok(Box::new(driver))
}

/// The devices that a bench can have: name and one line.
pub const DEVICES: [(&str, &str); 1] =
    [("chipidea-sim", "Chipidea (ci_hdrc) USB device controller, 2 to 16 endpoints, full and high speed")];

/// Places at which a controller's work can be held up.
pub(crate) const PAUSES: &[&str] = &chipidea_sim::PAUSES;

/// Whether a register access, as its event puts it, is to a register that takes an address.
pub(crate) fn takes_address(register_access: &str) -> bool {
    register_access.contains(chipidea_sim::ENDPTLISTADDR.register)
}

/// What the capabilities word of a dQH says about a SETUP that comes in.
pub(crate) fn interrupt_on_setup(capabilities: u32) -> bool {
    capabilities & 1 << 15 != 0
}

/// Whether an access is to a descriptor, whose words are numbers and addresses, and not to bytes.
pub(crate) fn is_descriptor(belief: Belief) -> bool {
    belief.kind.name != "buffer" && belief.field != "setup"
}

/// Whether the device takes it for a queue head.
pub(crate) fn is_queue_head(belief: Belief) -> bool {
    belief.kind.name == chipidea_sim::DQH.name
}

/// Whether the device's belief and the driver's claim are the same object.
///
/// The device numbers an endpoint's dTDs by its walk, the driver in the order of allocation.
pub(crate) fn agree(belief: Belief, owner: Owner) -> bool {
    let same = |bits: u32| belief.kind.name == owner.kind.name && belief.index >> bits == owner.index >> bits;
    match belief.kind.name {
        "dTD" => same(16),
        _ => same(0),
    }
}
