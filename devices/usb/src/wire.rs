//! The wire: packets between a host controller and one device (USB 2.0 chapter 8).
//!
//! A [`UsbPort`] is a device's upstream port. The host drives it; the device never starts anything. What may make a
//! waiting host look again comes as a hint to its [`PortListener`]: a NAK costs nothing.

use std::fmt;
use std::sync::Arc;

use crate::ch9::{EndpointAddress, Speed};

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Device address, 0 to 127.
    pub address: u8,
    /// Endpoint number, 0 to 15.
    pub endpoint: u8,
}

/// Data toggle of a data packet (USB 2.0 §8.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum DataPid {
    /// DATA0.
    #[default]
    Data0,
    /// DATA1.
    Data1,
}

impl DataPid {
    /// The other one.
    #[must_use]
    pub const fn toggled(self) -> Self {
        match self {
            Self::Data0 => Self::Data1,
            Self::Data1 => Self::Data0,
        }
    }
}

/// A device's answer to SETUP or OUT with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Handshake {
    /// Taken. Also sent for a repeated packet that the device dropped (USB 2.0 §8.6.4).
    Ack,
    /// Not now.
    Nak,
    /// Halted or refused.
    Stall,
    /// No answer: not addressed, not enabled, or broken.
    Silence,
}

/// A device's answer to IN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InReply {
    /// A data packet of `len` bytes. `len` beyond the host's buffer is babble; only what fits was written there.
    Data {
        /// Its toggle.
        pid: DataPid,
        /// Its length in bytes.
        len: usize,
    },
    /// Not now.
    Nak,
    /// Halted or refused.
    Stall,
    /// No answer.
    Silence,
}

/// Whether the host's ACK for an IN packet reaches the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum HostAck {
    /// It does.
    #[default]
    Sent,
    /// It is lost: the device will send the packet again.
    Lost,
}

/// Why a burst ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BurstEnd {
    /// Everything went: OUT all data, IN the buffer is full.
    Done,
    /// IN: a packet shorter than the maximum.
    Short,
    /// The device said NAK.
    Nak,
    /// The device said STALL.
    Stall,
    /// The device gave no answer.
    Silence,
    /// IN: a packet longer than the room left or than the maximum.
    Babble,
}

/// How far a burst came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Bytes that were taken.
    pub bytes: usize,
    /// Packets that were taken, an empty one included.
    pub packets: usize,
    /// Why it went no further.
    pub end: BurstEnd,
}

/// Hints from a device to the host that waits for it. Called without the device's lock; may come without cause.
pub trait PortListener: Send + Sync {
    /// The device attached or detached: see [`UsbPort::attached`].
    fn attach_changed(&self);

    /// An endpoint that said NAK may have another answer now.
    fn ready(&self, endpoint: EndpointAddress);

    /// The suspended device signals resume (USB 2.0 §7.1.7.7).
    fn remote_wakeup(&self);
}

/// A device's upstream port.
pub trait UsbPort: Send + Sync {
    /// Who gets the hints: one host at a time.
    fn set_listener(&self, listener: Option<Arc<dyn PortListener>>);

    /// VBUS from the host's side.
    fn set_vbus(&self, on: bool);

    /// What the pull-up shows: [`Speed::Full`] or [`Speed::Low`], `None` without one. High speed comes with a reset.
    fn attached(&self) -> Option<Speed>;

    /// Bus reset with a host that can do `max`; the speed that the two agree on (USB 2.0 §7.1.7.5).
    fn reset(&self, max: Speed) -> Option<Speed>;

    /// The bus falls idle (USB 2.0 §7.1.7.6).
    fn suspend(&self);

    /// The host resumes the bus.
    fn resume(&self);

    /// Whether the machine behind the port is still at work with what the wire brought before. A host that runs in real
    /// time waits a while then before it sends a SETUP.
    ///
    /// Nothing of USB's: between two requests a real wire and host leave a driver more time than it needs. This wire takes
    /// none, and a driver on an emulated processor needs milliseconds. In virtual time no port is busy.
    fn is_busy(&self) -> bool {
        false
    }

    /// A SETUP token and its eight bytes (DATA0). A device answers ACK or nothing (USB 2.0 §8.4.6.4).
    fn setup(&self, to: Target, setup: &[u8; 8]) -> Handshake;

    /// An OUT token and a data packet of at most 1024 bytes.
    fn data_out(&self, to: Target, pid: DataPid, data: &[u8]) -> Handshake;

    /// An IN token. The packet's bytes go to the front of `buffer`, as many as fit.
    fn data_in(&self, from: Target, buffer: &mut [u8], ack: HostAck) -> InReply;

    /// Sends `data` in packets of `max_packet` bytes until an answer other than ACK; no packet for empty `data`.
    ///
    /// Gives the same packets as calls of [`UsbPort::data_out`]; a model runs them under one lock.
    fn burst_out(&self, to: Target, pid: &mut DataPid, max_packet: usize, data: &[u8]) -> Burst {
        burst_out(|pid, packet| self.data_out(to, pid, packet), pid, max_packet, data)
    }

    /// Fills `buffer` with packets of `max_packet` bytes until a short one or an answer without data.
    fn burst_in(&self, from: Target, pid: &mut DataPid, max_packet: usize, buffer: &mut [u8]) -> Burst {
        burst_in(|room| self.data_in(from, room, HostAck::Sent), pid, max_packet, buffer)
    }
}

/// The packets of an OUT burst, each through `send`. For implementations of [`UsbPort`].
pub fn burst_out(
    mut send: impl FnMut(DataPid, &[u8]) -> Handshake,
    pid: &mut DataPid,
    max_packet: usize,
    data: &[u8],
) -> Burst {
    let mut burst = Burst { bytes: 0, packets: 0, end: BurstEnd::Done };
    for packet in data.chunks(max_packet.max(1)) {
        burst.end = match send(*pid, packet) {
            Handshake::Ack => BurstEnd::Done,
            Handshake::Nak => BurstEnd::Nak,
            Handshake::Stall => BurstEnd::Stall,
            Handshake::Silence => BurstEnd::Silence,
        };
        if burst.end != BurstEnd::Done {
            break;
        }
        *pid = pid.toggled();
        burst.bytes += packet.len();
        burst.packets += 1;
    }
    burst
}

/// The packets of an IN burst, each through `fetch`. For implementations of [`UsbPort`].
///
/// A packet with the wrong toggle is a repetition: it is dropped and fetched again, three times at most
/// ([`BurstEnd::Silence`] after that).
pub fn burst_in(
    mut fetch: impl FnMut(&mut [u8]) -> InReply,
    pid: &mut DataPid,
    max_packet: usize,
    buffer: &mut [u8],
) -> Burst {
    // Without this, empty packets would never be short.
    let max_packet = max_packet.max(1);
    let mut burst = Burst { bytes: 0, packets: 0, end: BurstEnd::Done };
    let mut repeated = 0;
    while burst.bytes < buffer.len() {
        let room = &mut buffer[burst.bytes..];
        let capacity = room.len();
        match fetch(room) {
            InReply::Data { pid: got, .. } if got != *pid => {
                repeated += 1;
                if repeated == 3 {
                    burst.end = BurstEnd::Silence;
                    return burst;
                }
            }
            InReply::Data { len, .. } if len > capacity || len > max_packet => {
                burst.end = BurstEnd::Babble;
                return burst;
            }
            InReply::Data { len, .. } => {
                repeated = 0;
                *pid = pid.toggled();
                burst.bytes += len;
                burst.packets += 1;
                if len < max_packet {
                    burst.end = BurstEnd::Short;
                    return burst;
                }
            }
            InReply::Nak => burst.end = BurstEnd::Nak,
            InReply::Stall => burst.end = BurstEnd::Stall,
            InReply::Silence => burst.end = BurstEnd::Silence,
        }
        if burst.end != BurstEnd::Done {
            break;
        }
    }
    burst
}

/// What went over the wire, for traces. Data is what the packet carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A SETUP and its answer.
    Setup(Target, [u8; 8], Handshake),
    /// An OUT and its answer.
    Out(Target, DataPid, Vec<u8>, Handshake),
    /// An IN and its answer, with the data.
    In(Target, InReply, Vec<u8>),
    /// A bus reset and the speed that came of it.
    Reset(Option<Speed>),
    /// The bus went idle.
    Suspend,
    /// The bus woke up.
    Resume,
    /// VBUS changed.
    Vbus(bool),
}

impl bus::Event for Packet {}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "addr {} ep{}", self.address, self.endpoint)
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(to, bytes, answer) => write!(f, "SETUP {to} {} → {answer:?}", Hex(bytes)),
            Self::Out(to, pid, data, answer) => {
                write!(f, "OUT {to} {pid:?} {} bytes {} → {answer:?}", data.len(), Hex(data))
            }
            Self::In(from, InReply::Data { pid, len }, data) => {
                write!(f, "IN {from} → {pid:?} {len} bytes {}", Hex(data))
            }
            Self::In(from, answer, _) => write!(f, "IN {from} → {answer:?}"),
            Self::Reset(Some(speed)) => write!(f, "RESET → {speed}"),
            Self::Reset(None) => f.write_str("RESET → nothing attached"),
            Self::Suspend => f.write_str("SUSPEND"),
            Self::Resume => f.write_str("RESUME"),
            Self::Vbus(on) => write!(f, "VBUS {}", if *on { "on" } else { "off" }),
        }
    }
}

/// The first bytes in hex.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 16;
        for (i, byte) in self.0.iter().take(SHOWN).enumerate() {
            write!(f, "{}{byte:02x}", if i == 0 { "" } else { " " })?;
        }
        if self.0.len() > SHOWN {
            f.write_str(" …")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(pid: DataPid, len: usize) -> InReply {
        InReply::Data { pid, len }
    }

    #[test]
    fn a_repeated_packet_is_dropped_and_three_in_a_row_are_silence() {
        let mut pid = DataPid::Data0;
        let mut replies = vec![packet(DataPid::Data1, 2), packet(DataPid::Data0, 2)].into_iter();
        let burst = burst_in(|_| replies.next().unwrap_or(InReply::Nak), &mut pid, 4, &mut [0; 8]);
        assert_eq!(burst, Burst { bytes: 2, packets: 1, end: BurstEnd::Short });
        let burst = burst_in(|_| packet(DataPid::Data0, 4), &mut pid, 4, &mut [0; 8]);
        assert_eq!((burst.end, pid), (BurstEnd::Silence, DataPid::Data1));
    }

    #[test]
    fn an_empty_packet_is_short_whatever_the_maximum_is() {
        let mut pid = DataPid::Data0;
        let burst = burst_in(|_| packet(DataPid::Data0, 0), &mut pid, 0, &mut [0; 8]);
        assert_eq!(burst, Burst { bytes: 0, packets: 1, end: BurstEnd::Short });
    }

    #[test]
    fn a_packet_beyond_the_room_or_the_maximum_is_babble() {
        for (len, max_packet) in [(9, 64), (5, 4)] {
            let burst = burst_in(|_| packet(DataPid::Data0, len), &mut DataPid::Data0, max_packet, &mut [0; 8]);
            assert_eq!(burst, Burst { bytes: 0, packets: 0, end: BurstEnd::Babble });
        }
    }

    #[test]
    fn an_out_burst_stops_at_the_first_other_answer() {
        let mut sent = Vec::new();
        let mut pid = DataPid::Data0;
        let send = |pid, data: &[u8]| {
            sent.push((pid, data.len()));
            if sent.len() == 3 { Handshake::Nak } else { Handshake::Ack }
        };
        let burst = burst_out(send, &mut pid, 4, &[0; 11]);
        assert_eq!(burst, Burst { bytes: 8, packets: 2, end: BurstEnd::Nak });
        assert_eq!(sent, [(DataPid::Data0, 4), (DataPid::Data1, 4), (DataPid::Data0, 3)]);
        assert_eq!(pid, DataPid::Data0, "the packet that got NAK is sent again with its own toggle");
    }
}
