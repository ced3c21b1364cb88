//! Network traffic through the Ethernet gadget, by CDC Ethernet or RNDIS.

use std::sync::LazyLock;

use gadgets::ethernet::services::{Checksum, DISCARD_PORT, ECHO_PORT, SOURCE_PORT, fill_pattern};
use gadgets::ethernet::{ECM as ECM_CONFIGURATION, RNDIS as RNDIS_CONFIGURATION};
use gadgets::{EthernetConfig, EthernetGadget};
use parking_lot::Mutex;
use usb_host::net::{Driver, NetDevice};

use super::{Needs, Outcome, Scenario};
use crate::net::{HostStack, PING};
use crate::random::shared_payload;
use crate::session::{Session, expect_equal};
use crate::verdict::Failure;

/// Bytes each way.
const TRANSFER: usize = 1 << 20;

/// What the board's source sends.
static FROM_SOURCE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = vec![0; TRANSFER];
    fill_pattern(0, &mut bytes);
    bytes
});

/// The checksum of what the host sends by `seed`, made once for the runs of a seed: it takes longer than sending it.
fn checksum(seed: u64, data: &[u8]) -> Checksum {
    static LAST: Mutex<Option<(u64, Checksum)>> = Mutex::new(None);
    let mut last = LAST.lock();
    match *last {
        Some((known, checksum)) if known == seed => checksum,
        _ => last.insert((seed, Checksum::of(data))).1,
    }
}

/// A network scenario with one of the gadget's configurations.
pub(super) struct Network {
    name: &'static str,
    about: &'static str,
    configuration: u8,
    driver: Driver,
}

pub(super) const ECM: Network = Network {
    name: "ecm",
    about: "Ethernet gadget by cdc_ether: handshake, pings, 1 MiB TCP each way, checksummed",
    configuration: ECM_CONFIGURATION,
    driver: Driver::CdcEther,
};

pub(super) const RNDIS: Network = Network {
    name: "rndis",
    about: "Ethernet gadget by rndis_host: handshake, pings, 1 MiB TCP each way, checksummed",
    configuration: RNDIS_CONFIGURATION,
    driver: Driver::RndisHost,
};

impl Scenario for Network {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn needs(&self) -> Needs {
        Needs { endpoints: 4, configuration: Some(self.configuration), ..Needs::default() }
    }

    fn run<'a>(&'a self, session: &'a Session) -> Outcome<'a> {
        Box::pin(self.traffic(session))
    }
}

impl Network {
    async fn traffic(&self, session: &Session) -> Result<(), Failure> {
        session.boot(EthernetGadget::new(EthernetConfig { seed: session.seed(), ..EthernetConfig::default() }))?;
        let device = session.enumerated().await?;
        let network = NetDevice::bind(&device).await.map_err(|error| Failure::new(error.to_string()))?;
        expect_equal("the driver that binds", &network.driver(), &self.driver)?;
        let mut stack = HostStack::new(network, session.seed());
        for length in [0, 1, PING.len(), 1472] {
            let data: Vec<u8> = PING.iter().copied().cycle().take(length).collect();
            stack.ping(&data).await?;
        }

        let data = shared_payload(session.seed(), TRANSFER);
        let answer = stack.send_all(DISCARD_PORT, &data).await?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        expect_equal("what the board received, length and checksum", &answer, &checksum(session.seed(), &data).line())?;

        let received = stack.exchange(SOURCE_PORT, format!("{TRANSFER}\n").as_bytes(), TRANSFER).await?;
        if received != *FROM_SOURCE {
            let checksums = (Checksum::of(&received), Checksum::of(&FROM_SOURCE));
            return expect_equal("what the host received, length and checksum", &checksums.0, &checksums.1);
        }

        let echoed = stack.exchange(ECHO_PORT, &data[..64 * 1024], 64 * 1024).await?;
        expect_equal("the echo is intact", &(echoed == data[..64 * 1024]), &true)
    }
}
