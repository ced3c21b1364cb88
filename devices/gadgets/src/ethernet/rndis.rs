//! The RNDIS function (\[MS-RNDIS\]; Linux: f_rndis.c, rndis.c).

use std::collections::VecDeque;

use thiserror::Error;
use usb::gadget::{Completion, Stall};
use usb::{SetupPacket, Speed, Udc};
use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

use super::descriptors::{CONTROL_INTERFACE, DATA_INTERFACE, RNDIS_NOTIFY};
use super::ecm::bit_rate;
use super::link::{ETHERNET_HEADER, Framing, Link, MTU};
use super::notify::{Notified, Notify};
use super::rndis_wire::{
    Command, Complete, Header, Initialize, InitializeComplete, ObjectCommand, Packet, QueryComplete, ResetComplete,
    message, oid, status,
};
use crate::composite::Answer;

/// SEND_ENCAPSULATED_COMMAND to an interface (CDC 1.2 §6.2.1).
const SEND_COMMAND: (u8, u8) = (0x21, 0x00);
/// GET_ENCAPSULATED_RESPONSE from an interface (CDC 1.2 §6.2.2).
const GET_RESPONSE: (u8, u8) = (0xa1, 0x01);
/// RESPONSE_AVAILABLE (\[MS-RNDIS\] §2.2.15).
const RESPONSE_AVAILABLE: [u8; 8] = [1, 0, 0, 0, 0, 0, 0, 0];

/// Largest offset or length of an information buffer (`RNDIS_MAX_TOTAL_SIZE`).
const MAX_TOTAL_SIZE: u32 = 1558;
/// Answers that wait for the host. Linux has no limit; a host that never reads gets no more than this.
const MAX_RESPONSES: usize = 16;

/// Why a command was ignored. The host's command times out, as with Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    /// Fewer bytes than the message needs.
    #[error("RNDIS message of {actual} bytes, at least {needed} needed")]
    Short {
        /// Bytes received.
        actual: usize,
        /// Bytes the message needs.
        needed: usize,
    },
    /// The message says that it is longer than what came.
    #[error("RNDIS message says {claimed} bytes, {actual} came")]
    Length {
        /// MessageLength.
        claimed: u32,
        /// Bytes received.
        actual: usize,
    },
    /// The information buffer cannot lie in a message.
    #[error("RNDIS information buffer of {length} bytes at offset {offset}")]
    Information {
        /// InformationBufferOffset.
        offset: u32,
        /// InformationBufferLength.
        length: u32,
    },
    /// Not a command.
    #[error("unknown RNDIS message {0:#010x}")]
    Unknown(u32),
    /// The host does not read its answers.
    #[error("{0} RNDIS responses wait for the host")]
    Unread(usize),
}

/// The function's state; the frames are the link's.
#[derive(Debug)]
pub(super) struct Rndis {
    notify: Notify,
    /// Responses that the host was not yet told of (`notify_count`), the one in flight included.
    untold: u32,
    responses: VecDeque<Vec<u8>>,
    host_mac: [u8; 6],
    last_error: Option<CommandError>,
}

impl Rndis {
    pub(super) fn new(host_mac: [u8; 6]) -> Self {
        Self { notify: Notify::new(RNDIS_NOTIFY), untold: 0, responses: VecDeque::new(), host_mac, last_error: None }
    }

    pub(super) fn last_error(&self) -> Option<CommandError> {
        self.last_error
    }

    pub(super) fn set_alternate(
        &mut self,
        udc: &mut dyn Udc,
        link: &mut Link,
        interface: u8,
        alternate: u8,
    ) -> Result<(), Stall> {
        match (interface, alternate) {
            (CONTROL_INTERFACE, 0) => {
                self.untold = 0;
                self.notify.enable(udc)
            }
            // Frames may flow before the host has set a filter, only broadcasts may not (`rndis_set_alt`).
            (DATA_INTERFACE, 0) => {
                link.connect(udc, Framing::Rndis, 0)?;
                link.refill(udc);
                Ok(())
            }
            _ => Err(Stall),
        }
    }

    pub(super) fn disable(&mut self, udc: &mut dyn Udc, link: &mut Link) {
        self.responses.clear();
        self.untold = 0;
        link.disconnect(udc);
        self.notify.disable(udc);
    }

    pub(super) fn control(&mut self, setup: SetupPacket) -> Result<Answer, Stall> {
        if setup.value.get() != 0 || setup.index.get() != u16::from(CONTROL_INTERFACE) {
            return Err(Stall);
        }
        match (setup.request_type, setup.request) {
            SEND_COMMAND => Ok(Answer::Receive),
            GET_RESPONSE => self.responses.pop_front().map(Answer::Data).ok_or(Stall),
            _ => Err(Stall),
        }
    }

    /// Executes a command (`rndis_command_complete`).
    pub(super) fn command(&mut self, udc: &mut dyn Udc, link: &mut Link, bytes: &[u8]) {
        if let Err(error) = self.execute(link, udc.speed().unwrap_or(Speed::Full), bytes) {
            self.last_error = Some(error);
            link.count_bad_command();
        }
        self.tell(udc, link);
    }

    pub(super) fn complete(&mut self, udc: &mut dyn Udc, link: &mut Link, completion: &Completion) {
        match self.notify.complete(completion) {
            Notified::Stale => return,
            Notified::Gone => self.untold = 0,
            Notified::Over => self.untold = self.untold.saturating_sub(1),
        }
        self.tell(udc, link);
    }

    /// Sends the next notification if none is in flight (`rndis_response_available`).
    pub(super) fn tell(&mut self, udc: &mut dyn Udc, link: &mut Link) {
        if self.untold > 0 && !self.notify.is_busy() {
            // A refused one is tried again in the next step.
            let _ = self.notify.send(udc, link.next_id(), RESPONSE_AVAILABLE.to_vec());
        }
    }

    fn respond(&mut self, response: &[u8], information: &[u8]) {
        self.responses.push_back([response, information].concat());
        self.untold = self.untold.saturating_add(1);
    }

    fn execute(&mut self, link: &mut Link, speed: Speed, bytes: &[u8]) -> Result<(), CommandError> {
        let header: Header = read(bytes)?;
        let length = header.length.get();
        if usize::try_from(length).map_or(true, |length| length > bytes.len()) {
            return Err(CommandError::Length { claimed: length, actual: bytes.len() });
        }
        let message_type = header.message_type.get();
        if message_type == message::RESET {
            self.responses.clear();
        } else if message_type != message::HALT && self.responses.len() >= MAX_RESPONSES {
            return Err(CommandError::Unread(self.responses.len()));
        }
        match message_type {
            message::INITIALIZE => self.initialize(read(bytes)?),
            message::QUERY => self.query(link, speed, read(bytes)?)?,
            message::SET => self.set(link, bytes, read(bytes)?)?,
            message::RESET => self.reset(),
            message::KEEPALIVE => self.keepalive(read(bytes)?),
            message::HALT => link.set_carrier(false),
            unknown => return Err(CommandError::Unknown(unknown)),
        }
        Ok(())
    }

    fn initialize(&mut self, initialize: Initialize) {
        let complete = InitializeComplete {
            command: completion::<InitializeComplete>(message::INITIALIZE, initialize.command, 0),
            status: status::SUCCESS.into(),
            major: 1.into(),
            minor: 0.into(),
            device_flags: 1.into(), // RNDIS_DF_CONNECTIONLESS
            medium: U32::ZERO,      // RNDIS_MEDIUM_802_3
            max_packets: 1.into(),
            max_transfer: ((MTU + ETHERNET_HEADER + size_of::<Packet>() + 22) as u32).into(),
            alignment: U32::ZERO,
            reserved: [U32::ZERO; 2],
        };
        self.respond(complete.as_bytes(), &[]);
    }

    fn query(&mut self, link: &Link, speed: Speed, query: ObjectCommand) -> Result<(), CommandError> {
        information_fits(&query)?;
        let information = self.object(link, speed, query.oid.get());
        let (status, offset) = match information {
            Some(_) => (status::SUCCESS, 16),
            None => (status::NOT_SUPPORTED, 0),
        };
        let information = information.unwrap_or_default();
        let length = information.len() as u32;
        let complete = QueryComplete {
            command: completion::<QueryComplete>(message::QUERY, query.command, length),
            status: status.into(),
            information_length: length.into(),
            information_offset: offset.into(),
        };
        self.respond(complete.as_bytes(), &information);
        Ok(())
    }

    /// The value of an object (`gen_ndis_query_resp`), `None` if there is no such object.
    fn object(&self, link: &Link, speed: Speed, object: u32) -> Option<Vec<u8>> {
        let statistics = link.statistics();
        // Counters are 32 bits wide and wrap.
        let value: u32 = match object {
            oid::GEN_SUPPORTED_LIST => return Some(oid::SUPPORTED.map(u32::to_le_bytes).concat()),
            oid::PERMANENT_ADDRESS | oid::CURRENT_ADDRESS => return Some(self.host_mac.to_vec()),
            oid::GEN_MAXIMUM_FRAME_SIZE | oid::GEN_TRANSMIT_BLOCK_SIZE | oid::GEN_RECEIVE_BLOCK_SIZE => MTU as u32,
            oid::GEN_LINK_SPEED => bit_rate(speed) / 100,
            oid::GEN_VENDOR_DRIVER_VERSION | oid::MAXIMUM_LIST_SIZE => 1,
            oid::GEN_CURRENT_PACKET_FILTER => u32::from(link.filter()),
            oid::GEN_MAXIMUM_TOTAL_SIZE => MAX_TOTAL_SIZE,
            // Receives are serialized, full duplex.
            oid::GEN_MAC_OPTIONS => 0x02 | 0x10,
            oid::MULTICAST_LIST => 0xe0000000,
            oid::GEN_XMIT_OK => statistics.tx_frames as u32,
            oid::GEN_RCV_OK => statistics.rx_frames as u32,
            oid::GEN_XMIT_ERROR => statistics.tx_errors as u32,
            oid::GEN_RCV_ERROR => statistics.rx_errors as u32,
            oid::GEN_HARDWARE_STATUS
            | oid::GEN_MEDIA_SUPPORTED
            | oid::GEN_MEDIA_IN_USE
            | oid::GEN_VENDOR_ID
            | oid::GEN_VENDOR_DESCRIPTION
            | oid::GEN_MEDIA_CONNECT_STATUS
            | oid::GEN_PHYSICAL_MEDIUM
            | oid::GEN_RCV_NO_BUFFER
            | oid::MAC_OPTIONS
            | oid::RCV_ERROR_ALIGNMENT
            | oid::XMIT_ONE_COLLISION
            | oid::XMIT_MORE_COLLISIONS => 0,
            _ => return None,
        };
        Some(value.to_le_bytes().to_vec())
    }

    /// Sets an object (`gen_ndis_set_resp`).
    fn set(&mut self, link: &mut Link, bytes: &[u8], set: ObjectCommand) -> Result<(), CommandError> {
        information_fits(&set)?;
        let status = match set.oid.get() {
            oid::GEN_CURRENT_PACKET_FILTER => match filter_of(bytes, &set) {
                Some(filter) => {
                    link.set_filter(filter);
                    link.set_carrier(filter != 0);
                    status::SUCCESS
                }
                None => status::INVALID_DATA,
            },
            oid::MULTICAST_LIST => status::SUCCESS,
            _ => status::NOT_SUPPORTED,
        };
        let command = completion::<Complete>(message::SET, set.command, 0);
        self.respond(Complete { command, status: status.into() }.as_bytes(), &[]);
        Ok(())
    }

    fn reset(&mut self) {
        let header = Header {
            message_type: (message::RESET | message::COMPLETION).into(),
            length: (size_of::<ResetComplete>() as u32).into(),
        };
        let complete = ResetComplete { header, status: status::SUCCESS.into(), addressing_reset: 1.into() };
        self.respond(complete.as_bytes(), &[]);
    }

    fn keepalive(&mut self, keepalive: Command) {
        let command = completion::<Complete>(message::KEEPALIVE, keepalive, 0);
        self.respond(Complete { command, status: status::SUCCESS.into() }.as_bytes(), &[]);
    }
}

/// The message at the front of `bytes`.
fn read<T: FromBytes>(bytes: &[u8]) -> Result<T, CommandError> {
    match T::read_from_prefix(bytes) {
        Ok((message, _)) => Ok(message),
        Err(_) => Err(CommandError::Short { actual: bytes.len(), needed: size_of::<T>() }),
    }
}

/// The start of the answer `T` with `information` bytes after it.
fn completion<T>(message_type: u32, command: Command, information: u32) -> Command {
    let header = Header {
        message_type: (message_type | message::COMPLETION).into(),
        length: (size_of::<T>() as u32 + information).into(),
    };
    Command { header, request_id: command.request_id }
}

/// The limits that Linux puts on an information buffer, whether it is used or not.
fn information_fits(command: &ObjectCommand) -> Result<(), CommandError> {
    let (offset, length) = (command.information_offset.get(), command.information_length.get());
    if length > MAX_TOTAL_SIZE || offset > MAX_TOTAL_SIZE || offset + 8 >= MAX_TOTAL_SIZE {
        return Err(CommandError::Information { offset, length });
    }
    Ok(())
}

/// The packet filter in a SET: the low half of four bytes that must have come.
fn filter_of(bytes: &[u8], set: &ObjectCommand) -> Option<u16> {
    let start = usize::try_from(set.information_offset.get()).ok()?.checked_add(8)?;
    let length = usize::try_from(set.information_length.get()).ok()?;
    let information = bytes.get(start..start.checked_add(length)?)?;
    let value = u32::from_le_bytes(*information.first_chunk()?);
    Some(value as u16)
}
