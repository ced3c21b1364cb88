//! The frame queues below the network (Linux: u_ether.c).

use std::collections::VecDeque;
use std::ops::Range;

use smoltcp::wire::{EthernetFrame, IpProtocol, Ipv4Packet};
use usb::gadget::{Completion, Request, RequestError, Stall};
use usb::{Direction, Speed, Udc};

use super::descriptors::{BULK_IN, BULK_OUT};
use super::rndis_wire;
use crate::endpoint::{disable_both, enable_both};

/// Largest payload of a frame in bytes.
pub(super) const MTU: usize = 1500;
/// Ethernet header in bytes.
pub(super) const ETHERNET_HEADER: usize = 14;
/// Requests queued for each direction at full speed (`DEFAULT_QLEN`).
pub const FULL_SPEED_DEPTH: usize = 2;
/// Requests queued for each direction at high speed (`qmult` 5 times `DEFAULT_QLEN`).
pub const HIGH_SPEED_DEPTH: usize = 10;

/// Room for small disagreements with the host about a frame's length (`RX_EXTRA`).
const RX_EXTRA: usize = 20;
/// Longest frame taken from the host (`GETHER_MAX_ETH_FRAME_LEN`).
const MAX_FRAME: usize = 15412 + ETHERNET_HEADER;
/// Frames that may wait for the network; more stay on the host's side, which gets NAK.
const MAX_BACKLOG: usize = 64;
/// Frames that may wait for the host; answers beyond are dropped, as a full queue discipline drops them.
const MAX_OUTGOING: usize = 64;

/// Packet filter bits (CDC ECM 1.2 table 8; RNDIS has the same).
pub(super) mod filter {
    pub(crate) const PROMISCUOUS: u16 = 1 << 0;
    pub(crate) const ALL_MULTICAST: u16 = 1 << 1;
    pub(crate) const DIRECTED: u16 = 1 << 2;
    pub(crate) const BROADCAST: u16 = 1 << 3;
    /// `DEFAULT_FILTER` of u_ether.h.
    pub(crate) const DEFAULT: u16 = PROMISCUOUS | ALL_MULTICAST | DIRECTED | BROADCAST;
}

/// How frames lie in bulk transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// As they are; a short or empty packet ends one (CDC ECM 1.2 §3.3.1).
    Ecm,
    /// Behind a 44-byte header.
    Rndis,
}

impl Framing {
    const fn header_len(self) -> usize {
        match self {
            Self::Ecm => 0,
            Self::Rndis => size_of::<rndis_wire::Packet>(),
        }
    }

    /// Size of a receive buffer (`rx_submit`).
    #[must_use]
    pub const fn receive_size(self) -> usize {
        ETHERNET_HEADER + MTU + RX_EXTRA + self.header_len()
    }
}

/// Counts of frames (`struct rtnl_link_stats64`), seen from the board.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames from the host.
    pub rx_frames: u64,
    /// Bytes in them.
    pub rx_bytes: u64,
    /// Transfers from the host that held no good frame, or failed.
    pub rx_errors: u64,
    /// Frames to the host.
    pub tx_frames: u64,
    /// Bytes in the transfers that carried them.
    pub tx_bytes: u64,
    /// Transfers to the host that failed.
    pub tx_errors: u64,
    /// Frames to the host that were dropped before they were queued.
    pub tx_dropped: u64,
    /// RNDIS commands that could not be understood.
    pub bad_commands: u64,
}

/// A frame from the host: its place in a receive buffer.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) buffer: Vec<u8>,
    pub(super) frame: Range<usize>,
}

impl Received {
    /// Whether it may be a segment of TCP over IPv4.
    pub(super) fn is_tcp(&self) -> bool {
        let frame = EthernetFrame::new_checked(&self.buffer[self.frame.clone()]);
        frame.is_ok_and(|frame| {
            let packet = Ipv4Packet::new_checked(frame.payload());
            packet.is_ok_and(|packet| packet.next_header() == IpProtocol::Tcp)
        })
    }
}

/// Buffers on their way between the endpoints and the network.
#[derive(Debug, Default)]
pub(super) struct Frames {
    pub(super) received: VecDeque<Received>,
    pub(super) receive_spare: Vec<Vec<u8>>,
    pub(super) outgoing: Outgoing,
}

/// Frames to the host.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    framing: Option<Framing>,
    ready: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    /// Frames that may become ready before the network has to wait.
    room: usize,
    max_packet: usize,
    carrier: bool,
    filter: u16,
    dropped: u64,
}

impl Outgoing {
    /// Whether the network may send of its own accord.
    pub(super) fn has_room(&self) -> bool {
        self.room > 0
    }

    /// Whether nothing more can be kept.
    fn is_full(&self) -> bool {
        self.ready.len() >= MAX_OUTGOING
    }

    fn passes_filter(&self, frame: &[u8]) -> bool {
        let Some(destination) = frame.get(..6) else { return false };
        let multicast = destination[0] & 1 != 0;
        let wanted = if destination == [0xff; 6] { filter::BROADCAST } else { filter::ALL_MULTICAST };
        !multicast || self.filter & (filter::PROMISCUOUS | wanted) != 0
    }

    /// Takes a frame of `len` bytes that `fill` writes.
    pub(super) fn send<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        let framing = self.framing.unwrap_or(Framing::Ecm);
        let header_len = framing.header_len();
        let mut buffer = self.spare.pop().unwrap_or_default();
        // What an earlier frame left here is overwritten in full.
        buffer.resize(header_len + len, 0);
        let result = fill(&mut buffer[header_len..]);
        let up = self.framing.is_some() && self.carrier;
        if !up || self.is_full() || !self.passes_filter(&buffer[header_len..]) {
            self.dropped += 1;
            self.spare.push(buffer);
            return result;
        }
        if framing == Framing::Rndis {
            rndis_wire::write_packet_header(&mut buffer);
            // RNDIS avoids empty packets: one byte more ends a transfer of full packets (`eth_start_xmit`).
            if buffer.len().is_multiple_of(self.max_packet.max(1)) {
                buffer.push(0);
            }
        }
        self.room = self.room.saturating_sub(1);
        self.ready.push_back(buffer);
        result
    }
}

/// The link between the bulk endpoints and the network.
#[derive(Debug)]
pub(super) struct Link {
    framing: Option<Framing>,
    depth: usize,
    next_id: u64,
    /// First request of this activation; the ones before are only coming back.
    first_id: u64,
    receiving: usize,
    sending: usize,
    pub(super) frames: Frames,
    statistics: Statistics,
}

impl Link {
    pub(super) fn new() -> Self {
        Self {
            framing: None,
            depth: 0,
            next_id: 0,
            first_id: 0,
            receiving: 0,
            sending: 0,
            frames: Frames::default(),
            statistics: Statistics::default(),
        }
    }

    pub(super) fn statistics(&self) -> Statistics {
        Statistics { tx_dropped: self.frames.outgoing.dropped, ..self.statistics }
    }

    pub(super) fn count_bad_command(&mut self) {
        self.statistics.bad_commands += 1;
    }

    /// A request name that no other request of the gadget has.
    pub(super) fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn is_up(&self) -> bool {
        self.framing.is_some()
    }

    pub(super) fn filter(&self) -> u16 {
        self.frames.outgoing.filter
    }

    pub(super) fn set_filter(&mut self, filter: u16) {
        self.frames.outgoing.filter = filter;
    }

    /// Whether the board may send (`netif_carrier_on`, `netif_carrier_off`).
    pub(super) fn set_carrier(&mut self, on: bool) {
        self.frames.outgoing.carrier = on;
    }

    /// Enables the endpoints (`gether_connect`). [`Link::refill`] fills the receive queue then (`eth_start`).
    pub(super) fn connect(&mut self, udc: &mut dyn Udc, framing: Framing, filter: u16) -> Result<(), Stall> {
        self.disconnect(udc);
        let speed = enable_both(udc, &BULK_IN, &BULK_OUT)?;
        self.framing = Some(framing);
        self.depth = if speed == Speed::High { HIGH_SPEED_DEPTH } else { FULL_SPEED_DEPTH };
        self.first_id = self.next_id + 1;
        let outgoing = &mut self.frames.outgoing;
        outgoing.framing = Some(framing);
        outgoing.max_packet = usize::from(BULK_IN.at(speed).max_packet());
        outgoing.carrier = true;
        outgoing.filter = filter;
        outgoing.room = self.depth;
        Ok(())
    }

    /// Disables the endpoints and forgets all frames (`gether_disconnect`).
    pub(super) fn disconnect(&mut self, udc: &mut dyn Udc) {
        if self.framing.take().is_none() {
            return;
        }
        disable_both(udc, &BULK_IN, &BULK_OUT);
        self.first_id = self.next_id + 1;
        self.receiving = 0;
        self.sending = 0;
        let dropped = self.frames.outgoing.dropped;
        self.frames = Frames { outgoing: Outgoing { dropped, ..Outgoing::default() }, ..Frames::default() };
    }

    /// Queues receive buffers up to the queue's depth (`rx_fill`).
    pub(super) fn refill(&mut self, udc: &mut dyn Udc) {
        let Some(framing) = self.framing else { return };
        while self.receiving < self.depth && self.frames.received.len() < MAX_BACKLOG {
            let data = self.frames.receive_spare.pop().unwrap_or_else(|| vec![0; framing.receive_size()]);
            let request = Request { id: self.next_id(), data, ..Request::default() };
            if let Err(refused) = udc.queue(BULK_OUT.address(), request) {
                self.frames.receive_spare.push(refused.request.data);
                return;
            }
            self.receiving += 1;
        }
    }

    /// Queues what the network has made ready.
    pub(super) fn transmit(&mut self, udc: &mut dyn Udc) {
        let Some(framing) = self.framing else { return };
        while self.sending < self.depth {
            let Some(data) = self.frames.outgoing.ready.pop_front() else { break };
            let request = Request { id: self.next_id(), data, zero: framing == Framing::Ecm, ..Request::default() };
            if let Err(refused) = udc.queue(BULK_IN.address(), request) {
                self.frames.outgoing.dropped += 1;
                self.frames.outgoing.spare.push(refused.request.data);
                break;
            }
            self.sending += 1;
        }
        let waiting = self.sending + self.frames.outgoing.ready.len();
        self.frames.outgoing.room = self.depth.saturating_sub(waiting);
    }

    /// A bulk request came back (`rx_complete`, `tx_complete`).
    pub(super) fn complete(&mut self, udc: &mut dyn Udc, completion: Completion) {
        if self.framing.is_none() || completion.request.id < self.first_id {
            return;
        }
        match completion.endpoint.direction {
            Direction::Out => self.received(udc, completion),
            Direction::In => self.sent(udc, completion),
        }
    }

    fn received(&mut self, udc: &mut dyn Udc, completion: Completion) {
        let Some(framing) = self.framing else { return };
        self.receiving = self.receiving.saturating_sub(1);
        let buffer = completion.request.data;
        let failed = match completion.status {
            Ok(length) => {
                match unwrap(framing, buffer.get(..length).unwrap_or(&buffer)) {
                    Some(frame) => {
                        self.statistics.rx_frames += 1;
                        self.statistics.rx_bytes += frame.len() as u64;
                        self.frames.received.push_back(Received { buffer, frame });
                    }
                    None => {
                        self.statistics.rx_errors += 1;
                        self.frames.receive_spare.push(buffer);
                    }
                }
                false
            }
            Err(error) => {
                self.frames.receive_spare.push(buffer);
                if !matches!(error, RequestError::Shutdown | RequestError::Dequeued) {
                    self.statistics.rx_errors += 1;
                }
                true
            }
        };
        // After a failure the next step fills the queue: an endpoint that fails at once must not keep us busy.
        if !failed {
            self.refill(udc);
        }
    }

    fn sent(&mut self, udc: &mut dyn Udc, completion: Completion) {
        self.sending = self.sending.saturating_sub(1);
        match completion.status {
            Ok(length) => {
                self.statistics.tx_frames += 1;
                self.statistics.tx_bytes += length as u64;
            }
            Err(RequestError::Shutdown | RequestError::Dequeued) => {}
            Err(_) => self.statistics.tx_errors += 1,
        }
        self.frames.outgoing.spare.push(completion.request.data);
        if completion.status.is_ok() {
            self.transmit(udc);
        }
    }
}

/// Where the frame lies in a transfer from the host (`rndis_rm_hdr`, `rx_complete`).
fn unwrap(framing: Framing, transfer: &[u8]) -> Option<Range<usize>> {
    let frame = match framing {
        Framing::Ecm => 0..transfer.len(),
        Framing::Rndis => rndis_wire::packet_payload(transfer)?,
    };
    (ETHERNET_HEADER..=MAX_FRAME).contains(&frame.len()).then_some(frame)
}
