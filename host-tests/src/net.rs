//! An IP stack on the host's end of a network gadget: smoltcp over the class driver's frames.

use std::net::Ipv4Addr;
use std::time::Duration;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Checksum, ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{icmp, tcp};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, Icmpv4Packet, Icmpv4Repr, IpAddress, IpCidr};
use tokio::time::{sleep, timeout};
use usb_host::net::NetDevice;

use crate::verdict::Failure;

/// The host's address; the board is 192.168.7.2.
const HOST: Ipv4Addr = Ipv4Addr::new(192, 168, 7, 1);
/// The board's address.
pub(crate) const BOARD: Ipv4Addr = Ipv4Addr::new(192, 168, 7, 2);
const ETHERNET_HEADER: usize = 14;
/// TCP buffers in each direction, in bytes.
const BUFFER: usize = 64 * 1024;
/// Nothing on the wire takes longer.
const PATIENCE: Duration = Duration::from_secs(20);
/// The identifier of our echo requests.
const ECHO_IDENT: u16 = 0x706f;
/// Payload of a ping.
pub(crate) const PING: &[u8] = b"poolproof pings the board: 0123456789abcdefghijklm";

/// The host's IP stack on one network device.
pub struct HostStack {
    link: Link,
    interface: Interface,
    sockets: SocketSet<'static>,
    /// Base of smoltcp's time.
    begin: tokio::time::Instant,
    next_port: u16,
    sequence: u16,
}

/// The class driver as smoltcp's device.
struct Link {
    network: NetDevice,
}

impl HostStack {
    /// A stack on `network` with a fixed address, its random numbers from `seed`.
    #[must_use]
    pub fn new(network: NetDevice, seed: u64) -> Self {
        let mut config = Config::new(HardwareAddress::Ethernet(EthernetAddress(network.mac())));
        config.random_seed = seed;
        let mut link = Link { network };
        let mut interface = Interface::new(config, &mut link, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // The list is empty and has room for one.
            let _ = addresses.push(IpCidr::new(HOST.into(), 24));
        });
        let begin = tokio::time::Instant::now();
        Self { link, interface, sockets: SocketSet::new(Vec::new()), begin, next_port: 49152, sequence: 0 }
    }

    /// The class driver below.
    #[must_use]
    pub fn network(&self) -> &NetDevice {
        &self.link.network
    }

    /// Sends an ICMP echo request with `payload` and waits for the same bytes.
    ///
    /// # Errors
    /// [`Failure`] if no answer comes, or another one.
    pub async fn ping(&mut self, payload: &[u8]) -> Result<(), Failure> {
        let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; 2], vec![0; 4096]);
        let mut socket = icmp::Socket::new(buffer(), buffer());
        socket.bind(icmp::Endpoint::Ident(ECHO_IDENT)).map_err(|error| failed("ping", error))?;
        self.sequence = self.sequence.wrapping_add(1);
        let request = Icmpv4Repr::EchoRequest { ident: ECHO_IDENT, seq_no: self.sequence, data: payload };
        let room = socket.send(request.buffer_len(), BOARD.into()).map_err(|error| failed("ping", error))?;
        request.emit(&mut Icmpv4Packet::new_unchecked(room), &ChecksumCapabilities::default());
        let handle = self.sockets.add(socket);
        let answer = self.until("ping", |sockets| {
            let socket = sockets.get_mut::<icmp::Socket<'_>>(handle);
            socket.recv().ok().map(|(bytes, from)| (bytes.to_vec(), from))
        });
        let answer = answer.await;
        self.sockets.remove(handle);
        let (bytes, from) = answer?;
        let reply = Icmpv4Packet::new_checked(&bytes[..]).map_err(|error| failed("ping", error))?;
        let expected = Icmpv4Repr::EchoReply { ident: ECHO_IDENT, seq_no: self.sequence, data: payload };
        match Icmpv4Repr::parse(&reply, &ChecksumCapabilities::default()) {
            Ok(reply) if reply == expected && from == IpAddress::from(BOARD) => Ok(()),
            other => Err(Failure::new(format!("ping: {from} answered {other:?}"))),
        }
    }

    /// Opens a TCP connection to the board, sends `data` and reads `expected` bytes.
    ///
    /// # Errors
    /// [`Failure`] if the connection fails or ends early.
    pub async fn exchange(&mut self, port: u16, data: &[u8], expected: usize) -> Result<Vec<u8>, Failure> {
        self.stream(port, data, Some(expected)).await
    }

    /// Sends all of `data`, ends that half of the connection, and reads until the board ends its own.
    ///
    /// # Errors
    /// [`Failure`] if the connection fails.
    pub async fn send_all(&mut self, port: u16, data: &[u8]) -> Result<Vec<u8>, Failure> {
        self.stream(port, data, None).await
    }

    /// A connection: `data` out, `expected` bytes in, or whatever comes until the board ends its half.
    async fn stream(&mut self, port: u16, data: &[u8], expected: Option<usize>) -> Result<Vec<u8>, Failure> {
        let handle = self.connect(port).await?;
        let (mut sent, mut closed) = (0, false);
        let mut received = Vec::with_capacity(expected.unwrap_or(0));
        let all = self.until("TCP", |sockets| {
            let socket = sockets.get_mut::<tcp::Socket<'_>>(handle);
            while sent < data.len() && socket.can_send() {
                match socket.send_slice(&data[sent..]) {
                    Ok(bytes) => sent += bytes,
                    Err(error) => return Some(Err(failed("TCP send", error))),
                }
            }
            if sent == data.len() && expected.is_none() && !closed {
                socket.close();
                closed = true;
            }
            while socket.can_recv() && expected.is_none_or(|expected| received.len() < expected) {
                let room = expected.map_or(usize::MAX, |expected| expected - received.len());
                let taken = socket.recv(|bytes| {
                    let wanted = bytes.len().min(room);
                    received.extend_from_slice(&bytes[..wanted]);
                    (wanted, ())
                });
                if let Err(error) = taken {
                    return Some(Err(failed("TCP receive", error)));
                }
            }
            let board_ended = !socket.may_recv() && !socket.can_recv();
            match expected {
                Some(expected) if received.len() == expected && sent == data.len() => Some(Ok(())),
                None if board_ended && closed => Some(Ok(())),
                _ => board_ended.then(|| Err(Failure::new("TCP: the board ended the connection early"))),
            }
        });
        let outcome = all.await.and_then(|outcome| outcome);
        self.close(handle);
        outcome.map_err(|failure| {
            let (all, received) = (data.len(), received.len());
            Failure::new(format!("{} ({sent} of {all} bytes sent, {received} received)", failure.error))
        })?;
        Ok(received)
    }

    async fn connect(&mut self, port: u16) -> Result<SocketHandle, Failure> {
        let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        // An acknowledgement that waits would cost virtual time only, but it would cost it at every window.
        socket.set_ack_delay(None);
        socket.set_nagle_enabled(false);
        self.next_port += 1;
        let from = self.next_port;
        let to = (IpAddress::from(BOARD), port);
        socket.connect(self.interface.context(), to, from).map_err(|error| failed("TCP connect", error))?;
        let handle = self.sockets.add(socket);
        let established = self.until("TCP connect", |sockets| {
            let socket = sockets.get::<tcp::Socket<'_>>(handle);
            match socket.state() {
                tcp::State::SynSent | tcp::State::SynReceived => None,
                tcp::State::Closed => Some(Err(Failure::new(format!("TCP: port {port} refused the connection")))),
                _ => Some(Ok(())),
            }
        });
        match established.await.and_then(|outcome| outcome) {
            Ok(()) => Ok(handle),
            Err(failure) => {
                self.sockets.remove(handle);
                Err(failure)
            }
        }
    }

    fn close(&mut self, handle: SocketHandle) {
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
        if socket.state() == tcp::State::TimeWait {
            self.sockets.remove(handle);
            return;
        }
        socket.abort();
        self.poll();
        self.sockets.remove(handle);
    }

    fn now(&self) -> Instant {
        Instant::from_micros(i64::try_from(self.begin.elapsed().as_micros()).unwrap_or(i64::MAX))
    }

    fn poll(&mut self) {
        let now = self.now();
        self.interface.poll(now, &mut self.link, &mut self.sockets);
    }

    /// Runs the stack until `done` says so.
    async fn until<R>(
        &mut self,
        what: &str,
        mut done: impl FnMut(&mut SocketSet<'static>) -> Option<R>,
    ) -> Result<R, Failure> {
        let Self { link, interface, sockets, begin, .. } = self;
        let now = || Instant::from_micros(i64::try_from(begin.elapsed().as_micros()).unwrap_or(i64::MAX));
        let run = async {
            loop {
                interface.poll(now(), link, sockets);
                if let Some(result) = done(sockets) {
                    return result;
                }
                // What `done` left in the sockets goes out before the wait.
                interface.poll(now(), link, sockets);
                let delay = interface.poll_delay(now(), sockets).map(Duration::from);
                tokio::select! {
                    biased;
                    () = link.network.changed() => {}
                    () = sleep(delay.map_or(PATIENCE, |delay| delay.max(Duration::from_millis(1)))) => {}
                }
            }
        };
        let result = timeout(PATIENCE, run).await;
        result.map_err(|_| Failure::new(format!("{what}: nothing more came for {} s", PATIENCE.as_secs())))
    }
}

fn failed(what: &str, error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("{what}: {error}"))
}

impl Device for Link {
    type RxToken<'a> = Received;
    type TxToken<'a> = Transmit<'a>;

    fn receive(&mut self, _timestamp: Instant) -> Option<(Received, Transmit<'_>)> {
        // A frame that is answered needs room for the answer.
        if !self.network.can_send() {
            return None;
        }
        let frame = self.network.try_recv()?;
        Some((Received(frame), Transmit(&self.network)))
    }

    fn transmit(&mut self, _timestamp: Instant) -> Option<Transmit<'_>> {
        self.network.can_send().then_some(Transmit(&self.network))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = ETHERNET_HEADER + self.network.mtu();
        capabilities.checksum.tcp = Checksum::Both;
        capabilities
    }
}

struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, look: F) -> R {
        look(&self.0)
    }
}

struct Transmit<'a>(&'a NetDevice);

impl TxToken for Transmit<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        let mut frame = vec![0; len];
        let result = fill(&mut frame);
        // A frame that the link does not take is lost, as on any network; TCP sends it again.
        let _ = self.0.send(&frame);
        result
    }
}
