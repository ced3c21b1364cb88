//! A hundred plug cycles on the same queue heads.

use gadgets::{EthernetConfig, EthernetGadget};

use super::{Needs, Outcome, Scenario};
use usb_host::net::NetDevice;

use crate::net::{HostStack, PING};
use crate::session::{Session, expect_equal};
use crate::verdict::Failure;

const CYCLES: u32 = 100;

pub(super) struct Replug;

impl Scenario for Replug {
    fn name(&self) -> &'static str {
        "replug"
    }

    fn about(&self) -> &'static str {
        "100 plug cycles with a ping each, on the same dQHs with reused dTDs; nothing may be leaked"
    }

    fn needs(&self) -> Needs {
        Needs { endpoints: 4, ..Needs::default() }
    }

    fn run<'a>(&'a self, session: &'a Session) -> Outcome<'a> {
        Box::pin(run(session))
    }
}

async fn run(session: &Session) -> Result<(), Failure> {
    session.boot(EthernetGadget::new(EthernetConfig { seed: session.seed(), ..EthernetConfig::default() }))?;
    let mut idle = None;
    for cycle in 1..=CYCLES {
        let device = session.enumerated().await?;
        let network = NetDevice::bind(&device).await.map_err(|error| Failure::new(error.to_string()))?;
        let mut stack = HostStack::new(network, session.seed());
        stack.ping(PING).await.map_err(|error| Failure::new(format!("cycle {cycle}: {error}")))?;
        drop(stack);
        session.unplug();
        session.disconnected().await?;
        session.settle().await;
        let left = (session.blocks_in_use(), session.mappings_in_use(), session.free_pages());
        // What stays is what the first cycle left: the queue heads, and nothing that grows.
        let what = format!("blocks, mappings and free pages after unplug {cycle}");
        expect_equal(&what, &left, idle.get_or_insert(left))?;
        session.plug();
    }
    Ok(())
}
