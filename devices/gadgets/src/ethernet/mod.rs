//! The Ethernet gadget 0525:a4a2, Linux's g_ether with RNDIS: two configurations, one link, one network.

mod descriptors;
mod ecm;
mod link;
mod network;
mod notify;
mod rndis;
pub mod rndis_wire;
pub mod services;

use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use usb::gadget::{Completion, Stall};
use usb::{SetupPacket, Udc};

pub use descriptors::{BULK_IN, BULK_OUT, CONTROL_INTERFACE, DATA_INTERFACE, ECM, ECM_NOTIFY, RNDIS, RNDIS_NOTIFY};
pub use link::{FULL_SPEED_DEPTH, Framing, HIGH_SPEED_DEPTH, Statistics};
pub use rndis::CommandError;

use crate::composite::{Answer, Composite, Functions};
use ecm::Ecm;
use link::Link;
use network::Network;
use rndis::Rndis;
use services::{Checksum, Discarded};

/// What an Ethernet gadget is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthernetConfig {
    /// The kernel's release, part of the manufacturer string.
    pub release: String,
    /// `bcdDevice`: the kernel's version.
    pub bcd_device: u16,
    /// MAC address of the board's end (`dev_addr`); the group bit is ignored.
    pub board_mac: [u8; 6],
    /// MAC address that the host is to use (`host_addr`).
    pub host_mac: [u8; 6],
    /// The board's address; 192.168.7.2 in place of one that no host can have (multicast, broadcast, unspecified).
    pub address: Ipv4Addr,
    /// Length of its network's prefix, at most 32.
    pub prefix: u8,
    /// Seed of the network stack's sequence numbers and ports.
    pub seed: u64,
}

impl Default for EthernetConfig {
    /// The gadget of the recorded board: Linux 6.2.0-rc4, 192.168.7.2/24.
    fn default() -> Self {
        Self {
            release: "6.2.0-rc4".to_owned(),
            bcd_device: 0x0602,
            board_mac: [0x02, 0x50, 0x50, 0x00, 0x00, 0x02],
            host_mac: [0x02, 0x50, 0x50, 0x00, 0x00, 0x01],
            address: Ipv4Addr::new(192, 168, 7, 2),
            prefix: 24,
            seed: 1,
        }
    }
}

/// The Ethernet gadget.
pub type EthernetGadget = Composite<Ethernet>;

impl Composite<Ethernet> {
    /// The gadget, not yet configured.
    #[must_use]
    pub fn new(config: EthernetConfig) -> Self {
        let identity = descriptors::identity(&config);
        Self::with_functions(identity, Ethernet::new(config))
    }

    /// Counts of frames since the gadget was made.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.functions().link.statistics()
    }

    /// Whether the bulk endpoints are enabled.
    #[must_use]
    pub fn is_link_up(&self) -> bool {
        self.functions().link.is_up()
    }

    /// Why the last RNDIS command that was ignored was ignored.
    #[must_use]
    pub fn last_command_error(&self) -> Option<CommandError> {
        self.functions().rndis.last_error()
    }

    /// Streams that the discard service took to their end, the latest first, 64 at most.
    pub fn discarded(&self) -> impl Iterator<Item = &Checksum> {
        self.functions().discarded.iter()
    }
}

/// Both functions, and what they share.
pub struct Ethernet {
    config: EthernetConfig,
    rndis: Rndis,
    ecm: Ecm,
    link: Link,
    network: Option<Network>,
    discarded: Discarded,
}

impl fmt::Debug for Ethernet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ethernet")
            .field("config", &self.config)
            .field("link_up", &self.link.is_up())
            .field("statistics", &self.link.statistics())
            .finish_non_exhaustive()
    }
}

impl Ethernet {
    fn new(config: EthernetConfig) -> Self {
        Self {
            rndis: Rndis::new(config.host_mac),
            config,
            ecm: Ecm::new(),
            link: Link::new(),
            network: None,
            discarded: Discarded::new(),
        }
    }
}

impl Functions for Ethernet {
    fn set_alternate(
        &mut self,
        udc: &mut dyn Udc,
        configuration: u8,
        interface: u8,
        alternate: u8,
    ) -> Result<(), Stall> {
        let link = &mut self.link;
        match configuration {
            RNDIS => self.rndis.set_alternate(udc, link, interface, alternate)?,
            ECM => self.ecm.set_alternate(udc, link, interface, alternate)?,
            _ => return Err(Stall),
        }
        if interface == DATA_INTERFACE {
            self.network = None;
        }
        Ok(())
    }

    fn alternate(&self, configuration: u8, interface: u8) -> u8 {
        if configuration == ECM { self.ecm.alternate(interface) } else { 0 }
    }

    fn disable(&mut self, udc: &mut dyn Udc) {
        self.rndis.disable(udc, &mut self.link);
        self.ecm.disable(udc, &mut self.link);
        self.network = None;
    }

    fn control(&mut self, _udc: &mut dyn Udc, configuration: u8, setup: SetupPacket) -> Result<Answer, Stall> {
        match configuration {
            RNDIS => self.rndis.control(setup),
            ECM => self.ecm.control(&mut self.link, setup),
            _ => Err(Stall),
        }
    }

    fn received(&mut self, udc: &mut dyn Udc, _setup: SetupPacket, data: &[u8]) {
        // Only the RNDIS function asks for data.
        self.rndis.command(udc, &mut self.link, data);
    }

    fn complete(&mut self, udc: &mut dyn Udc, completion: Completion) {
        let endpoint = completion.endpoint;
        if endpoint == RNDIS_NOTIFY.address() {
            // Both functions have the same endpoint number; each knows its own requests.
            self.rndis.complete(udc, &mut self.link, &completion);
            self.ecm.complete(udc, &mut self.link, &completion);
        } else if endpoint == BULK_IN.address() || endpoint == BULK_OUT.address() {
            self.link.complete(udc, completion);
        }
    }

    fn step(&mut self, udc: &mut dyn Udc, now: Duration) -> Option<Duration> {
        // What the controller had no memory for is tried again.
        self.rndis.tell(udc, &mut self.link);
        self.ecm.tell(udc, &mut self.link);
        if !self.link.is_up() {
            return None;
        }
        let frames = &mut self.link.frames;
        if self.network.is_none() && !frames.received.is_empty() {
            self.network = Some(Network::new(&self.config, now, frames));
        }
        let again = self.network.as_mut().and_then(|network| network.step(now, frames, &mut self.discarded));
        self.link.transmit(udc);
        self.link.refill(udc);
        again
    }
}
