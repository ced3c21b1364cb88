//! The sides that a bench has unless it is told otherwise: with `served`, which gives virtual machines their controller, and
//! `kernel_driver`, the only place that names a concrete model or driver.

use std::num::NonZeroU32;
use std::sync::Arc;

use bus::{Belief, IrqLine, Owner, PoolLayout, Trace, Watch};
use chipidea_driver::{ChipideaUdc, DqhSource, Workarounds};
use chipidea_sim::{Chipidea, Errata, Layout, LostAppends, Revision};
use devices::{DmaMemory, DmaPort};
use usb::gadget::{UdcDriver, UdcError};

use crate::driver::{Driver, DriverSide};
use crate::errata::Erratum;

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

/// The drivers that a bench can have, the default first.
#[must_use]
pub fn drivers() -> Vec<Driver> {
    vec![linux(), with_array()]
}

/// Linux's driver: dQHs from the pool, one by one.
pub(crate) fn linux() -> Driver {
    Driver {
        name: "ci_hdrc".into(),
        about: "port of Linux's driver: dQHs one by one from a pool, taken for one array".into(),
        words: "chipidea-driver (Rust port of Linux's ci_hdrc)".into(),
        assumed_by: "ci_hdrc init_eps".into(),
        limits: &[],
        make: Arc::new(|side| {
            let workarounds = workarounds(&side);
            started(side, chipidea_driver::Config { workarounds, ..chipidea_driver::Config::default() })
        }),
    }
}

/// The same but for its dQHs, which are what the hardware wants: one array, allocated as one, as Linux's fsl_udc_core does
/// (`struct_udc_setup`). Its dTDs come from the pool.
fn with_array() -> Driver {
    let config = |workarounds| chipidea_driver::Config {
        dqh_source: DqhSource::Static,
        workarounds,
        ..chipidea_driver::Config::default()
    };
    Driver {
        name: "dqh-array".into(),
        about: "the same with its dQHs as one array of coherent memory; dTDs from a pool. Assumes no order".into(),
        words: "chipidea-driver (Rust port of Linux's ci_hdrc), variant dqh-array (dQHs as one coherent array)".into(),
        assumed_by: "variant dqh-array".into(),
        limits: &[],
        make: Arc::new(move |side| {
            let workarounds = workarounds(&side);
            started(side, config(workarounds))
        }),
    }
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

pub(crate) fn workarounds(side: &DriverSide) -> Workarounds {
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
pub const PAUSES: &[&str] = &chipidea_sim::PAUSES;

/// Where Linux's driver takes its dQHs from, for logs of real machines (drivers/usb/chipidea/udc.c, 5.15 to 7.x):
/// `init_eps` allocates the OUT and then the IN dQH of each endpoint from 0, and `hw_device_state` is given the first.
pub(crate) static CI_HW_QH: PoolLayout =
    PoolLayout { pool: "ci_hw_qh", contract: &chipidea_sim::ENDPTLISTADDR, assumed_by: "ci_hdrc init_eps" };

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

/// What the controller's table holds: the kind's name, and the contract's register.
pub(crate) fn queue_heads() -> (&'static str, &'static str) {
    (chipidea_sim::DQH.name, chipidea_sim::ENDPTLISTADDR.register)
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
