//! The driver in this process.

use std::sync::Arc;

use bus::Trace;
use chipidea_driver::{ChipideaUdc, Config};
use chipidea_sim::{Section, Traffic};
use gadgets::{EthernetConfig, EthernetGadget};
use parking_lot::Mutex;
use qemu::Glue;
use scenarios::{Bench, DriverSide, Failure, Needs, Outcome, Scenario, Session, Verdict};
use usb::Speed;
use usb::gadget::{UdcDriver, UdcError};

use crate::difference::{self, Difference};
use crate::variant::{ENDPOINTS, Variant};
use crate::{scenario, snapshot};

/// The kernel's release is part of a string, and so of a transfer's length.
const RELEASE: &str = "6.1.0";

/// A board without a cable; then with one; the host's session; the cable out and in again.
struct Differential<'a> {
    variant: Variant,
    release: &'a str,
    traffic: Arc<Traffic>,
    /// As far as a kernel comes, too: this bench shuts the driver down.
    seen: Mutex<Vec<Section>>,
}

impl Scenario for Differential<'_> {
    fn name(&self) -> &'static str {
        "differential"
    }

    fn about(&self) -> &'static str {
        "probe, enumeration, what the host does then, disconnect"
    }

    fn needs(&self) -> Needs {
        Needs { configuration: Some(self.variant.configuration()), ..Needs::default() }
    }

    fn run<'a>(&'a self, session: &'a Session) -> Outcome<'a> {
        Box::pin(self.act(session))
    }
}

impl Differential<'_> {
    async fn act(&self, session: &Session) -> Result<(), Failure> {
        session.unplug();
        session.boot(EthernetGadget::new(EthernetConfig {
            release: self.release.to_owned(),
            ..EthernetConfig::default()
        }))?;
        scenario::settle(&self.traffic).await;
        session.plug();
        let device = session.enumerated().await?;
        scenario::session(session.host(), &device, self.variant, &self.traffic).await.map_err(Failure::new)?;
        session.unplug();
        session.disconnected().await?;
        scenario::settle(&self.traffic).await;
        session.plug();
        session.enumerated().await?;
        scenario::settle(&self.traffic).await;
        *self.seen.lock() = self.traffic.sections();
        Ok(())
    }
}

/// Linux's driver by its glue (`ci_hdrc_msm_probe`, `ci_hdrc_pci_probe`).
fn probe(side: DriverSide, glue: Glue) -> Result<Box<dyn UdcDriver>, UdcError> {
    let config = match glue {
        Glue::Msm => Config::default(),
        Glue::Pci => Config {
            name: "ci_hdrc_pci".to_owned(),
            disable_streaming: false,
            registers_shared: false,
            ahb_burst: None,
            ..Config::default()
        },
    };
    let mut driver = ChipideaUdc::probe(side.mmio, side.dma, config)?;
    driver.start()?;
    Ok(Box::new(driver))
}

/// The traffic with a gadget of a kernel's `release`.
pub(crate) fn traffic(variant: Variant, release: &str) -> Vec<Section> {
    let traffic = Arc::new(Traffic::new());
    let bench = Bench::new()
        .driver(format!("chipidea-driver as by {}", variant.glue.name()), move |side| probe(side, variant.glue))
        .endpoints(ENDPOINTS)
        .speed(variant.speed)
        .trace(Trace::to(Arc::clone(&traffic) as _));
    let scenario = Differential { variant, release, traffic, seen: Mutex::default() };
    let run = bench.run_scenario(&scenario).expect("the bench can be set up");
    assert_eq!(run.verdict, Verdict::NoFailureFound, "{:?}", run.failure);
    scenario.seen.into_inner()
}

/// High speed by the msm glue in full; the others as they differ from that.
#[test]
fn in_process() {
    for variant in Variant::all() {
        let sections = traffic(variant, RELEASE);
        let first = Variant { glue: Glue::Msm, speed: Speed::High, ..variant };
        let text = if variant == first {
            difference::text(&sections)
        } else {
            Difference::between(&traffic(first, RELEASE), &sections).to_string()
        };
        snapshot::assert(&format!("process_{}", variant.name()), &text);
    }
}
