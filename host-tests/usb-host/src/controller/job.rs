//! One URB on the wire: the stages of a control transfer, the packets of a bulk or interrupt transfer.

use usb::ch9::Direction;
use usb::urb::{Transfer, Urb, UrbDone, UrbError};
use usb::wire::{Burst, BurstEnd, DataPid, Handshake, HostAck, InReply, Target, UsbPort};

use super::{Completion, UrbId};

/// Tries of a transaction without a handshake before the transfer fails (USB 2.0 §8.7.1; CERR in EHCI and xHCI).
const STRIKES: u8 = 3;

/// Waits for a machine that is busy, each of them [`crate::HostConfig::strike_interval`] long, before a SETUP is sent all the
/// same: a device that is dead must not be waited for for ever.
const MOST_WAITS: u32 = 400;

/// Bytes of one turn on the wire: the others wait no longer than for these.
const TURN_BYTES: usize = 32 * 1024;

/// What one turn on the wire came to.
pub(super) enum Turn {
    /// Something moved: another turn is due.
    Again,
    /// No handshake; a try is left.
    Strike,
    /// The machine behind the port is busy; nothing was sent.
    Wait,
    /// The device said NAK: nothing to do before its hint.
    Nak,
    /// The transfer is over.
    Over(Result<(), UrbError>),
}

/// Where a transfer stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Setup,
    Data,
    /// The empty packet that ends an OUT transfer of full packets.
    ZeroPacket,
    Status,
}

/// A URB with its progress.
pub(super) struct Job {
    pub(super) id: UrbId,
    pub(super) done: Completion,
    urb: Urb,
    stage: Stage,
    moved: usize,
    strikes: u8,
    waits: u32,
    /// Toggle of the data stage of a control transfer.
    control_pid: DataPid,
}

impl Job {
    pub(super) fn new(id: UrbId, urb: Urb, done: Completion) -> Self {
        let stage = if matches!(urb.transfer, Transfer::Control(_)) { Stage::Setup } else { Stage::Data };
        Self { id, done, urb, stage, moved: 0, strikes: 0, waits: 0, control_pid: DataPid::Data1 }
    }

    /// Ends it: its callback and what that gets.
    pub(super) fn finish(self, status: Result<(), UrbError>) -> (Completion, UrbDone) {
        let actual = self.moved.min(self.urb.buffer.len());
        (self.done, UrbDone { buffer: self.urb.buffer, actual, status })
    }

    /// One turn on the wire. `pid` is the endpoint's toggle; a control transfer has its own.
    pub(super) fn turn(&mut self, port: &dyn UsbPort, pid: &mut DataPid, max_packet: usize) -> Turn {
        let target = Target { address: self.urb.address, endpoint: self.urb.endpoint.number };
        let max_packet = max_packet.max(1);
        match self.urb.transfer {
            Transfer::Control(setup) => match self.stage {
                Stage::Setup if self.waits < MOST_WAITS && port.is_busy() => {
                    self.waits += 1;
                    Turn::Wait
                }
                Stage::Setup => match port.setup(target, &setup.to_bytes()) {
                    Handshake::Ack => {
                        self.strikes = 0;
                        self.control_pid = DataPid::Data1;
                        self.stage = if self.urb.buffer.is_empty() { Stage::Status } else { Stage::Data };
                        Turn::Again
                    }
                    // A device has no other answer to SETUP than ACK (USB 2.0 §8.4.6.4).
                    Handshake::Nak | Handshake::Stall | Handshake::Silence => self.strike(),
                },
                Stage::Data | Stage::ZeroPacket => {
                    let mut control_pid = self.control_pid;
                    let turn = self.data(port, target, setup.direction(), &mut control_pid, max_packet);
                    self.control_pid = control_pid;
                    match turn {
                        Turn::Over(Ok(())) => {
                            self.stage = Stage::Status;
                            Turn::Again
                        }
                        // Reported when the status stage is through, as host controllers do.
                        Turn::Over(Err(UrbError::ShortPacket)) => {
                            self.stage = Stage::Status;
                            Turn::Again
                        }
                        other => other,
                    }
                }
                Stage::Status => self.status(port, target, setup.direction()),
            },
            Transfer::Bulk | Transfer::Interrupt => {
                self.data(port, target, self.urb.endpoint.direction, pid, max_packet)
            }
        }
    }

    fn strike(&mut self) -> Turn {
        self.strikes += 1;
        if self.strikes >= STRIKES { Turn::Over(Err(UrbError::Protocol)) } else { Turn::Strike }
    }

    fn data(
        &mut self,
        port: &dyn UsbPort,
        target: Target,
        direction: Direction,
        pid: &mut DataPid,
        max_packet: usize,
    ) -> Turn {
        let length = self.urb.buffer.len();
        let room = (TURN_BYTES / max_packet).max(1) * max_packet;
        let end = self.moved.saturating_add(room).min(length);
        let part = &mut self.urb.buffer[self.moved..end];
        let burst = match direction {
            _ if self.stage == Stage::ZeroPacket => empty_out(port, target, pid),
            Direction::Out if part.is_empty() => empty_out(port, target, pid),
            Direction::Out => port.burst_out(target, pid, max_packet, part),
            Direction::In if part.is_empty() => empty_in(port, target, pid),
            Direction::In => port.burst_in(target, pid, max_packet, part),
        };
        self.moved += burst.bytes.min(part.len());
        if burst.packets > 0 {
            self.strikes = 0;
        }
        match burst.end {
            BurstEnd::Done if self.moved < length => Turn::Again,
            BurstEnd::Done if self.owes_zero_packet(direction, max_packet) => {
                self.stage = Stage::ZeroPacket;
                Turn::Again
            }
            BurstEnd::Done => Turn::Over(Ok(())),
            BurstEnd::Short if self.urb.short_not_ok && self.moved < length => Turn::Over(Err(UrbError::ShortPacket)),
            BurstEnd::Short => Turn::Over(Ok(())),
            BurstEnd::Nak => {
                self.strikes = 0;
                Turn::Nak
            }
            BurstEnd::Stall => Turn::Over(Err(UrbError::Stall)),
            BurstEnd::Silence => self.strike(),
            BurstEnd::Babble => Turn::Over(Err(UrbError::Overflow)),
        }
    }

    fn owes_zero_packet(&self, direction: Direction, max_packet: usize) -> bool {
        direction == Direction::Out
            && self.urb.zero_packet
            && self.stage == Stage::Data
            && self.moved > 0
            && self.moved.is_multiple_of(max_packet)
    }

    /// The status stage runs against the data, always DATA1 (USB 2.0 §8.5.3); without data it is IN.
    fn status(&mut self, port: &dyn UsbPort, target: Target, direction: Direction) -> Turn {
        let mut pid = DataPid::Data1;
        let burst = if direction == Direction::In && !self.urb.buffer.is_empty() {
            empty_out(port, target, &mut pid)
        } else {
            empty_in(port, target, &mut pid)
        };
        match burst.end {
            BurstEnd::Done | BurstEnd::Short => {
                let short = self.urb.short_not_ok && direction == Direction::In && self.moved < self.urb.buffer.len();
                Turn::Over(if short { Err(UrbError::ShortPacket) } else { Ok(()) })
            }
            BurstEnd::Nak => {
                self.strikes = 0;
                Turn::Nak
            }
            BurstEnd::Stall => Turn::Over(Err(UrbError::Stall)),
            BurstEnd::Silence => self.strike(),
            BurstEnd::Babble => Turn::Over(Err(UrbError::Overflow)),
        }
    }
}

/// One empty OUT packet; a burst sends none for empty data.
fn empty_out(port: &dyn UsbPort, target: Target, pid: &mut DataPid) -> Burst {
    let end = match port.data_out(target, *pid, &[]) {
        Handshake::Ack => {
            *pid = pid.toggled();
            return Burst { bytes: 0, packets: 1, end: BurstEnd::Done };
        }
        Handshake::Nak => BurstEnd::Nak,
        Handshake::Stall => BurstEnd::Stall,
        Handshake::Silence => BurstEnd::Silence,
    };
    Burst { bytes: 0, packets: 0, end }
}

/// One IN packet that must be empty. A wrong toggle is a repetition of an earlier packet: a strike.
fn empty_in(port: &dyn UsbPort, target: Target, pid: &mut DataPid) -> Burst {
    let end = match port.data_in(target, &mut [], HostAck::Sent) {
        InReply::Data { pid: got, .. } if got != *pid => BurstEnd::Silence,
        InReply::Data { len: 0, .. } => {
            *pid = pid.toggled();
            return Burst { bytes: 0, packets: 1, end: BurstEnd::Done };
        }
        InReply::Data { .. } => BurstEnd::Babble,
        InReply::Nak => BurstEnd::Nak,
        InReply::Stall => BurstEnd::Stall,
        InReply::Silence => BurstEnd::Silence,
    };
    Burst { bytes: 0, packets: 0, end }
}
