//! `rndis_host`: Remote NDIS over a control channel of encapsulated commands.

use std::time::Duration;

use tokio::time::sleep;
use usb::ch9::SetupPacket;
use usb::urb::UrbError;
use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::bus::CONTROL_TIMEOUT;
use crate::device::Device;
use crate::net::NetError;
use crate::net::cdc::Function;
use crate::net::netdev::Driver;
use crate::net::rndis::{self, Halt, Initialize, InitializeComplete, MessageHeader, Oid, PacketHeader, QueryComplete};
use crate::net::usbnet::{ETHERNET_HEADER, Framing, Link, MTU};

const SEND_ENCAPSULATED_COMMAND: u8 = 0x00;
const GET_ENCAPSULATED_RESPONSE: u8 = 0x01;

/// Room for an answer, 1025 bytes as Windows has it (CONTROL_BUFFER_SIZE).
const CONTROL_BUFFER_SIZE: u16 = 1025;

/// Polls for an answer, and the time between them.
const POLLS: u32 = 10;
const POLL_INTERVAL: Duration = Duration::from_millis(40);

/// Data sent with the query for the address: some devices want as much as they could answer.
const ADDRESS_QUERY_LENGTH: u32 = 48;

/// RNDIS_PHYSICAL_MEDIUM_WIRELESS_LAN
const WIRELESS_LAN: u32 = 1;

/// The control channel of one device.
pub(super) struct ControlChannel<'a> {
    device: &'a Device,
    interface: u8,
    last_request: u32,
    /// What the device says unasked, for the log.
    note: &'a (dyn Fn(String) + Send + Sync),
}

impl<'a> ControlChannel<'a> {
    pub(super) fn new(device: &'a Device, interface: u8, note: &'a (dyn Fn(String) + Send + Sync)) -> Self {
        Self { device, interface, last_request: 0, note }
    }

    async fn send(&self, message: &[u8]) -> Result<(), UrbError> {
        let length = message.len() as u16;
        let setup = SetupPacket::new(0x21, SEND_ENCAPSULATED_COMMAND, 0, self.interface.into(), length);
        self.device.control_out(setup, message, CONTROL_TIMEOUT).await
    }

    /// `rndis_command`: sends `message` with a request identifier of its own and polls for its answer, whose buffer is
    /// 1025 bytes in any case, zeros behind what came.
    async fn command(&mut self, message: &mut [u8]) -> Result<Vec<u8>, NetError> {
        self.last_request = self.last_request.wrapping_add(1).max(1);
        let request_id = U32::new(self.last_request);
        let header = message.first_chunk::<4>().copied().map_or(0, u32::from_le_bytes);
        if let Some(place) = message.get_mut(8..12) {
            place.copy_from_slice(request_id.as_bytes());
        }
        self.send(message).await?;
        let setup = SetupPacket::new(0xa1, GET_ENCAPSULATED_RESPONSE, 0, self.interface.into(), CONTROL_BUFFER_SIZE);
        for _ in 0..POLLS {
            // A refusal is no reason to stop asking.
            let mut answer = self.device.control_in(setup, CONTROL_TIMEOUT).await.unwrap_or_default();
            let came = answer.len();
            answer.resize(CONTROL_BUFFER_SIZE.into(), 0);
            if came >= 8
                && let Ok((found, _)) = MessageHeader::read_from_prefix(&answer)
            {
                match found.message_type.get() {
                    kind if kind == header | rndis::COMPLETION && found.request_id == request_id => {
                        return match found.status.get() {
                            rndis::STATUS_SUCCESS => Ok(answer),
                            status => Err(NetError::Refused { status }),
                        };
                    }
                    rndis::INDICATE => self.indicate(found.request_id.get()),
                    rndis::KEEPALIVE => self.answer_keepalive(found).await,
                    _ => {}
                }
            }
            sleep(POLL_INTERVAL).await;
        }
        Err(UrbError::TimedOut.into())
    }

    fn indicate(&self, status: u32) {
        (self.note)(match status {
            rndis::STATUS_MEDIA_CONNECT => "rndis media connect".to_owned(),
            rndis::STATUS_MEDIA_DISCONNECT => "rndis media disconnect".to_owned(),
            status => format!("rndis indication: 0x{status:08x}"),
        });
    }

    async fn answer_keepalive(&self, asked: MessageHeader) {
        let answer = MessageHeader {
            message_type: (rndis::KEEPALIVE | rndis::COMPLETION).into(),
            length: (size_of::<MessageHeader>() as u32).into(),
            status: rndis::STATUS_SUCCESS.into(),
            ..asked
        };
        // The device asks again if this did not reach it.
        let _ = self.send(answer.as_bytes()).await;
    }

    async fn initialize(&mut self, max_transfer_size: u32) -> Result<InitializeComplete, NetError> {
        let mut message = Initialize {
            message_type: rndis::INITIALIZE.into(),
            length: (size_of::<Initialize>() as u32).into(),
            major_version: 1.into(),
            max_transfer_size: max_transfer_size.into(),
            ..Initialize::new_zeroed()
        };
        let answer = self.command(message.as_mut_bytes()).await?;
        InitializeComplete::read_from_prefix(&answer).map(|(answer, _)| answer).map_err(|_| UrbError::Protocol.into())
    }

    /// `rndis_query`: asks with `length` zero bytes of data for `N` bytes.
    async fn query<const N: usize>(&mut self, oid: u32, length: u32) -> Result<[u8; N], NetError> {
        let mut message = oid_message(rndis::QUERY, oid, &vec![0; length as usize]);
        let result = self.command(&mut message).await;
        let answer = result.inspect_err(|error| {
            (self.note)(format!("RNDIS_MSG_QUERY(0x{oid:08x}) failed, {}", error.errno()));
        })?;
        let found = QueryComplete::read_from_prefix(&answer).map_err(|_| UrbError::Protocol)?.0;
        let (offset, length) = (found.data_offset.get(), found.data_length.get());
        let start = offset.checked_add(rndis::OFFSET_BASE).map(|start| start as usize);
        let end = start.and_then(|start| start.checked_add(length as usize));
        let data = start.zip(end).and_then(|(start, end)| answer.get(start..end));
        data.and_then(|data| data.try_into().ok()).ok_or_else(|| {
            (self.note)(format!("RNDIS_MSG_QUERY(0x{oid:08x}) invalid response - off {offset} len {length}"));
            NetError::Domain { offset, length }
        })
    }

    async fn set(&mut self, oid: u32, data: &[u8]) -> Result<(), NetError> {
        self.command(&mut oid_message(rndis::SET, oid, data)).await.map(|_| ())
    }

    /// HALT has no answer.
    pub(super) async fn halt(&self) {
        let message =
            Halt { message_type: rndis::HALT.into(), length: (size_of::<Halt>() as u32).into(), request_id: U32::ZERO };
        // The device may have gone already.
        let _ = self.send(message.as_bytes()).await;
    }
}

fn oid_message(message_type: u32, oid: u32, data: &[u8]) -> Vec<u8> {
    const HEADER: u32 = size_of::<Oid>() as u32;
    let message = Oid {
        message_type: message_type.into(),
        length: (HEADER + data.len() as u32).into(),
        oid: oid.into(),
        data_length: (data.len() as u32).into(),
        data_offset: (HEADER - rndis::OFFSET_BASE).into(),
        ..Oid::new_zeroed()
    };
    [message.as_bytes(), data].concat()
}

/// `generic_rndis_bind`, after the interfaces are found.
pub(super) async fn bind(
    device: &Device,
    function: &Function,
    note: &(dyn Fn(String) + Send + Sync),
) -> Result<Link, NetError> {
    if function.alternate != 0 {
        device.set_interface(function.data, function.alternate).await?;
    }
    let mut channel = ControlChannel::new(device, function.control, note);
    let header = ETHERNET_HEADER + size_of::<PacketHeader>();
    let mut hard_mtu = MTU + header;
    let max_packet = usize::from(function.bulk_out.max_packet());
    // A whole number of packets, with room for the byte that pads a frame of full packets.
    let rx_urb_size = (hard_mtu + max_packet + 1) / max_packet * max_packet;
    let initialized = channel
        .initialize(rx_urb_size as u32)
        .await
        .inspect_err(|error| note(format!("RNDIS init failed, {}", error.errno())))?;

    let most = initialized.max_transfer_size.get();
    if (most as usize) < hard_mtu {
        if most as usize <= header {
            note(format!("dev can't take {hard_mtu} byte packets (max {most})"));
            channel.halt().await;
            return Err(UrbError::Invalid.into());
        }
        let mtu = most as usize - header;
        note(format!("dev can't take {hard_mtu} byte packets (max {most}), adjusting MTU to {mtu}"));
        hard_mtu = most as usize;
    }
    let bound = finish_bind(&mut channel).await;
    match bound {
        Ok(mac) => {
            let mtu = hard_mtu - header;
            Ok(Link { driver: Driver::RndisHost, framing: Framing::Rndis, mac, mtu, hard_mtu, rx_urb_size })
        }
        Err(error) => {
            channel.halt().await;
            Err(error)
        }
    }
}

/// Medium, address and filter of an initialized device.
async fn finish_bind(channel: &mut ControlChannel<'_>) -> Result<[u8; 6], NetError> {
    // The medium is optional.
    let medium = channel.query(rndis::OID_GEN_PHYSICAL_MEDIUM, 4).await.map_or(0, u32::from_le_bytes);
    if medium == WIRELESS_LAN {
        return Err(NetError::Wireless);
    }
    let mac = channel.query(rndis::OID_802_3_PERMANENT_ADDRESS, ADDRESS_QUERY_LENGTH).await;
    let mac = mac.inspect_err(|error| (channel.note)(format!("rndis get ethaddr, {}", error.errno())))?;
    let filter = U32::new(rndis::DEFAULT_FILTER);
    let set = channel.set(rndis::OID_GEN_CURRENT_PACKET_FILTER, filter.as_bytes()).await;
    set.inspect_err(|error| (channel.note)(format!("rndis set packet filter, {}", error.errno())))?;
    Ok(mac)
}
