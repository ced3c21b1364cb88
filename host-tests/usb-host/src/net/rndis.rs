//! The messages of Remote NDIS ([MS-RNDIS] §2.2), as far as `rndis_host` uses them.

use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// REMOTE_NDIS_PACKET_MSG
pub const PACKET: u32 = 0x0000_0001;
/// REMOTE_NDIS_INITIALIZE_MSG
pub const INITIALIZE: u32 = 0x0000_0002;
/// REMOTE_NDIS_HALT_MSG
pub const HALT: u32 = 0x0000_0003;
/// REMOTE_NDIS_QUERY_MSG
pub const QUERY: u32 = 0x0000_0004;
/// REMOTE_NDIS_SET_MSG
pub const SET: u32 = 0x0000_0005;
/// REMOTE_NDIS_INDICATE_STATUS_MSG
pub const INDICATE: u32 = 0x0000_0007;
/// REMOTE_NDIS_KEEPALIVE_MSG
pub const KEEPALIVE: u32 = 0x0000_0008;
/// Set in the type of an answer.
pub const COMPLETION: u32 = 0x8000_0000;

/// RNDIS_STATUS_SUCCESS
pub const STATUS_SUCCESS: u32 = 0;
/// RNDIS_STATUS_MEDIA_CONNECT
pub const STATUS_MEDIA_CONNECT: u32 = 0x4001_000b;
/// RNDIS_STATUS_MEDIA_DISCONNECT
pub const STATUS_MEDIA_DISCONNECT: u32 = 0x4001_000c;

/// OID_GEN_PHYSICAL_MEDIUM
pub const OID_GEN_PHYSICAL_MEDIUM: u32 = 0x0001_0202;
/// OID_GEN_CURRENT_PACKET_FILTER
pub const OID_GEN_CURRENT_PACKET_FILTER: u32 = 0x0001_010e;
/// OID_802_3_PERMANENT_ADDRESS
pub const OID_802_3_PERMANENT_ADDRESS: u32 = 0x0101_0101;

/// Directed, broadcast, all multicast, promiscuous (RNDIS_DEFAULT_FILTER).
pub const DEFAULT_FILTER: u32 = 0x2d;

/// What all answers begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct MessageHeader {
    /// Message type
    pub message_type: U32,
    /// Length of the message in bytes
    pub length: U32,
    /// Request identifier
    pub request_id: U32,
    /// Status; in an indication the third word is the status
    pub status: U32,
}

const _: () = assert!(size_of::<MessageHeader>() == 16);

/// REMOTE_NDIS_INITIALIZE_MSG
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Initialize {
    /// Message type, [`INITIALIZE`]
    pub message_type: U32,
    /// 24
    pub length: U32,
    /// Request identifier
    pub request_id: U32,
    /// 1
    pub major_version: U32,
    /// 0
    pub minor_version: U32,
    /// Bytes of the largest transfer that the host takes
    pub max_transfer_size: U32,
}

const _: () = assert!(size_of::<Initialize>() == 24);

/// REMOTE_NDIS_INITIALIZE_CMPLT
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct InitializeComplete {
    /// Message type
    pub message_type: U32,
    /// 52
    pub length: U32,
    /// Request identifier
    pub request_id: U32,
    /// Status
    pub status: U32,
    /// 1
    pub major_version: U32,
    /// 0
    pub minor_version: U32,
    /// Device flags
    pub device_flags: U32,
    /// Medium, 0 for 802.3
    pub medium: U32,
    /// Packets in a transfer that the device takes
    pub max_packets: U32,
    /// Bytes in a transfer that the device takes
    pub max_transfer_size: U32,
    /// Alignment of packets, as a power of two
    pub packet_alignment: U32,
    /// Reserved
    pub reserved: [U32; 2],
}

const _: () = assert!(size_of::<InitializeComplete>() == 52);

/// REMOTE_NDIS_QUERY_MSG and REMOTE_NDIS_SET_MSG
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Oid {
    /// Message type, [`QUERY`] or [`SET`]
    pub message_type: U32,
    /// Length of the message in bytes
    pub length: U32,
    /// Request identifier
    pub request_id: U32,
    /// Object
    pub oid: U32,
    /// Bytes of data
    pub data_length: U32,
    /// From the request identifier to the data
    pub data_offset: U32,
    /// Reserved
    pub handle: U32,
}

const _: () = assert!(size_of::<Oid>() == 28);

/// REMOTE_NDIS_QUERY_CMPLT
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct QueryComplete {
    /// Message type
    pub message_type: U32,
    /// Length of the message in bytes
    pub length: U32,
    /// Request identifier
    pub request_id: U32,
    /// Status
    pub status: U32,
    /// Bytes of data
    pub data_length: U32,
    /// From the request identifier to the data
    pub data_offset: U32,
}

const _: () = assert!(size_of::<QueryComplete>() == 24);

/// REMOTE_NDIS_HALT_MSG
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Halt {
    /// Message type, [`HALT`]
    pub message_type: U32,
    /// 12
    pub length: U32,
    /// Request identifier
    pub request_id: U32,
}

const _: () = assert!(size_of::<Halt>() == 12);

/// REMOTE_NDIS_PACKET_MSG: the header of a frame
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PacketHeader {
    /// Message type, [`PACKET`]
    pub message_type: U32,
    /// Length of header, frame and padding in bytes
    pub length: U32,
    /// From this word to the frame; 36 without anything between
    pub data_offset: U32,
    /// Bytes of the frame
    pub data_length: U32,
    /// Out of band data and per packet information: not used
    pub unused: [U32; 7],
}

const _: () = assert!(size_of::<PacketHeader>() == 44);

/// From a message's start to what offsets count from.
pub(crate) const OFFSET_BASE: u32 = 8;

impl PacketHeader {
    /// The header of a frame of `length` bytes.
    #[must_use]
    pub fn new(length: u32) -> Self {
        const HEADER: u32 = size_of::<PacketHeader>() as u32;
        Self {
            message_type: PACKET.into(),
            length: HEADER.saturating_add(length).into(),
            data_offset: (HEADER - OFFSET_BASE).into(),
            data_length: length.into(),
            unused: [U32::ZERO; 7],
        }
    }
}

/// The frames of a bulk transfer (`rndis_rx_fixup`), each to `each`. `false` when it ends in what is no message, or has
/// less than a frame; padding behind the last message does not count.
pub fn unwrap_frames(mut bytes: &[u8], mut each: impl FnMut(&[u8])) -> bool {
    const SHORTEST: usize = size_of::<PacketHeader>() + 14;
    if bytes.len() < SHORTEST {
        return false;
    }
    while let Ok((header, _)) = PacketHeader::read_from_prefix(bytes) {
        let length = header.length.get();
        let start = header.data_offset.get().checked_add(OFFSET_BASE);
        let end = start.and_then(|start| start.checked_add(header.data_length.get()));
        let (Some(start), Some(end)) = (start, end) else { return false };
        let (Some(frame), Some(rest)) = (bytes.get(start as usize..end as usize), bytes.get(length as usize..)) else {
            return false;
        };
        if header.message_type.get() != PACKET || end > length {
            return false;
        }
        each(frame);
        bytes = rest;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(frame: &[u8], padding: usize) -> Vec<u8> {
        let mut header = PacketHeader::new(frame.len() as u32);
        header.length += padding as u32;
        [header.as_bytes(), frame, &vec![0; padding]].concat()
    }

    fn unwrapped(bytes: &[u8]) -> (bool, Vec<Vec<u8>>) {
        let mut frames = Vec::new();
        let sound = unwrap_frames(bytes, |frame| frames.push(frame.to_vec()));
        (sound, frames)
    }

    #[test]
    fn frames_come_out_of_a_batch_and_padding_is_dropped() {
        let (first, second) = (vec![1; 20], vec![2; 60]);
        let batch = [message(&first, 4), message(&second, 0), vec![0]].concat();
        assert_eq!(unwrapped(&batch), (true, vec![first, second]));
    }

    #[test]
    fn lies_about_offsets_and_lengths_are_caught() {
        let good = message(&[1; 20], 0);
        for (place, value) in [(0, 2), (4, u32::MAX), (4, 63), (8, u32::MAX), (8, 37), (12, u32::MAX), (12, 21)] {
            let mut bytes = good.clone();
            bytes[place..place + 4].copy_from_slice(&value.to_le_bytes());
            assert_eq!(unwrapped(&bytes), (false, vec![]), "{value} at {place}");
        }
        assert_eq!(unwrapped(&good[..57]), (false, vec![]));
    }
}
