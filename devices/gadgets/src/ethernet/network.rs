//! The board's side of the network: smoltcp on the link's frames.

use std::net::Ipv4Addr;
use std::time::Duration;

use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};

use super::EthernetConfig;
use super::link::{ETHERNET_HEADER, Frames, MTU, Outgoing, Received};
use super::services::{Discarded, Services};

/// Rounds of network and services within one step. Each round can only go on with what the one before moved, and what
/// is left over is taken up at the next step.
const ROUNDS: usize = 16;
/// When to come back for work that was left over.
const SOON: Duration = Duration::from_millis(1);

/// A network stack with its services. Made anew for each activation of the link, so that runs do not depend on the ones
/// before.
pub(super) struct Network {
    interface: Interface,
    sockets: SocketSet<'static>,
    services: Services,
}

impl Network {
    pub(super) fn new(config: &EthernetConfig, now: Duration, device: &mut Frames) -> Self {
        // smoltcp takes unicast addresses only: clear the group bit.
        let mut mac = config.board_mac;
        mac[0] &= !1;
        let mut settings = Config::new(HardwareAddress::Ethernet(EthernetAddress(mac)));
        settings.random_seed = config.seed;
        let mut interface = Interface::new(settings, device, instant(now));
        let prefix = config.prefix.min(32);
        interface.update_ip_addrs(|addresses| {
            // The list is empty and has room for one.
            let _ = addresses.push(IpCidr::new(usable(config.address).into(), prefix));
        });
        Self { interface, sockets: SocketSet::new(Vec::new()), services: Services::default() }
    }

    /// Takes the frames from the host, serves the connections, makes frames for the host ready. Returns when it has
    /// work again if no frame comes.
    pub(super) fn step(&mut self, now: Duration, frames: &mut Frames, discarded: &mut Discarded) -> Option<Duration> {
        if frames.received.iter().any(Received::is_tcp) {
            self.services.open(&mut self.sockets);
        }
        for _ in 0..ROUNDS {
            self.interface.poll(instant(now), frames, &mut self.sockets);
            if !self.services.serve(&mut self.sockets, discarded) {
                break;
            }
        }
        if !frames.outgoing.has_room() {
            // A completion brings us back.
            return None;
        }
        let delay = Duration::from(self.interface.poll_delay(instant(now), &self.sockets)?);
        Some(now + delay.max(SOON))
    }
}

/// smoltcp takes addresses only that a host can have; the recorded board's stands in for others.
fn usable(address: Ipv4Addr) -> Ipv4Addr {
    let unusable = address.is_multicast() || address.is_broadcast() || address.is_unspecified();
    if unusable { Ipv4Addr::new(192, 168, 7, 2) } else { address }
}

fn instant(now: Duration) -> Instant {
    Instant::from_micros(i64::try_from(now.as_micros()).unwrap_or(i64::MAX))
}

impl Device for Frames {
    type RxToken<'a> = FromHost<'a>;
    type TxToken<'a> = ToHost<'a>;

    fn receive(&mut self, _timestamp: Instant) -> Option<(FromHost<'_>, ToHost<'_>)> {
        let received = self.received.pop_front()?;
        Some((FromHost { received, spare: &mut self.receive_spare }, ToHost(&mut self.outgoing)))
    }

    fn transmit(&mut self, _timestamp: Instant) -> Option<ToHost<'_>> {
        self.outgoing.has_room().then_some(ToHost(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = ETHERNET_HEADER + MTU;
        capabilities
    }
}

/// A frame that the network looks at; its buffer then goes back to the receive queue.
pub(super) struct FromHost<'a> {
    received: Received,
    spare: &'a mut Vec<Vec<u8>>,
}

impl RxToken for FromHost<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, look: F) -> R {
        let Received { buffer, frame } = self.received;
        let result = look(&buffer[frame]);
        self.spare.push(buffer);
        result
    }
}

/// Room for a frame to the host.
pub(super) struct ToHost<'a>(&'a mut Outgoing);

impl TxToken for ToHost<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        self.0.send(len, fill)
    }
}
