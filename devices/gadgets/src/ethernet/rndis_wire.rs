//! RNDIS messages as they go over the wire (\[MS-RNDIS\] §2.2; Linux: rndis.h).

use std::ops::Range;

use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Message types (\[MS-RNDIS\] §2.2.1).
pub mod message {
    /// REMOTE_NDIS_PACKET_MSG
    pub const PACKET: u32 = 1;
    /// REMOTE_NDIS_INITIALIZE_MSG
    pub const INITIALIZE: u32 = 2;
    /// REMOTE_NDIS_HALT_MSG
    pub const HALT: u32 = 3;
    /// REMOTE_NDIS_QUERY_MSG
    pub const QUERY: u32 = 4;
    /// REMOTE_NDIS_SET_MSG
    pub const SET: u32 = 5;
    /// REMOTE_NDIS_RESET_MSG
    pub const RESET: u32 = 6;
    /// REMOTE_NDIS_KEEPALIVE_MSG
    pub const KEEPALIVE: u32 = 8;
    /// Set in the type of an answer.
    pub const COMPLETION: u32 = 1 << 31;
}

/// Status values (\[MS-RNDIS\] §2.2.1.2).
pub mod status {
    /// RNDIS_STATUS_SUCCESS
    pub const SUCCESS: u32 = 0;
    /// RNDIS_STATUS_NOT_SUPPORTED
    pub const NOT_SUPPORTED: u32 = 0xc00000bb;
    /// RNDIS_STATUS_INVALID_DATA
    pub const INVALID_DATA: u32 = 0xc0010015;
}

/// Object identifiers (\[MS-RNDIS\] §2.2.2; the NDIS documentation has the rest).
pub mod oid {
    /// OID_GEN_SUPPORTED_LIST
    pub const GEN_SUPPORTED_LIST: u32 = 0x00010101;
    /// OID_GEN_HARDWARE_STATUS
    pub const GEN_HARDWARE_STATUS: u32 = 0x00010102;
    /// OID_GEN_MEDIA_SUPPORTED
    pub const GEN_MEDIA_SUPPORTED: u32 = 0x00010103;
    /// OID_GEN_MEDIA_IN_USE
    pub const GEN_MEDIA_IN_USE: u32 = 0x00010104;
    /// OID_GEN_MAXIMUM_FRAME_SIZE
    pub const GEN_MAXIMUM_FRAME_SIZE: u32 = 0x00010106;
    /// OID_GEN_LINK_SPEED
    pub const GEN_LINK_SPEED: u32 = 0x00010107;
    /// OID_GEN_TRANSMIT_BLOCK_SIZE
    pub const GEN_TRANSMIT_BLOCK_SIZE: u32 = 0x0001010a;
    /// OID_GEN_RECEIVE_BLOCK_SIZE
    pub const GEN_RECEIVE_BLOCK_SIZE: u32 = 0x0001010b;
    /// OID_GEN_VENDOR_ID
    pub const GEN_VENDOR_ID: u32 = 0x0001010c;
    /// OID_GEN_VENDOR_DESCRIPTION
    pub const GEN_VENDOR_DESCRIPTION: u32 = 0x0001010d;
    /// OID_GEN_CURRENT_PACKET_FILTER
    pub const GEN_CURRENT_PACKET_FILTER: u32 = 0x0001010e;
    /// OID_GEN_MAXIMUM_TOTAL_SIZE
    pub const GEN_MAXIMUM_TOTAL_SIZE: u32 = 0x00010111;
    /// OID_GEN_MAC_OPTIONS
    pub const GEN_MAC_OPTIONS: u32 = 0x00010113;
    /// OID_GEN_MEDIA_CONNECT_STATUS
    pub const GEN_MEDIA_CONNECT_STATUS: u32 = 0x00010114;
    /// OID_GEN_VENDOR_DRIVER_VERSION
    pub const GEN_VENDOR_DRIVER_VERSION: u32 = 0x00010116;
    /// OID_GEN_PHYSICAL_MEDIUM
    pub const GEN_PHYSICAL_MEDIUM: u32 = 0x00010202;
    /// OID_GEN_XMIT_OK
    pub const GEN_XMIT_OK: u32 = 0x00020101;
    /// OID_GEN_RCV_OK
    pub const GEN_RCV_OK: u32 = 0x00020102;
    /// OID_GEN_XMIT_ERROR
    pub const GEN_XMIT_ERROR: u32 = 0x00020103;
    /// OID_GEN_RCV_ERROR
    pub const GEN_RCV_ERROR: u32 = 0x00020104;
    /// OID_GEN_RCV_NO_BUFFER
    pub const GEN_RCV_NO_BUFFER: u32 = 0x00020105;
    /// OID_802_3_PERMANENT_ADDRESS
    pub const PERMANENT_ADDRESS: u32 = 0x01010101;
    /// OID_802_3_CURRENT_ADDRESS
    pub const CURRENT_ADDRESS: u32 = 0x01010102;
    /// OID_802_3_MULTICAST_LIST
    pub const MULTICAST_LIST: u32 = 0x01010103;
    /// OID_802_3_MAXIMUM_LIST_SIZE
    pub const MAXIMUM_LIST_SIZE: u32 = 0x01010104;
    /// OID_802_3_MAC_OPTIONS
    pub const MAC_OPTIONS: u32 = 0x01010105;
    /// OID_802_3_RCV_ERROR_ALIGNMENT
    pub const RCV_ERROR_ALIGNMENT: u32 = 0x01020101;
    /// OID_802_3_XMIT_ONE_COLLISION
    pub const XMIT_ONE_COLLISION: u32 = 0x01020102;
    /// OID_802_3_XMIT_MORE_COLLISIONS
    pub const XMIT_MORE_COLLISIONS: u32 = 0x01020103;

    /// What OID_GEN_SUPPORTED_LIST answers, in Linux's order (`oid_supported_list`).
    pub const SUPPORTED: [u32; 28] = [
        GEN_SUPPORTED_LIST,
        GEN_HARDWARE_STATUS,
        GEN_MEDIA_SUPPORTED,
        GEN_MEDIA_IN_USE,
        GEN_MAXIMUM_FRAME_SIZE,
        GEN_LINK_SPEED,
        GEN_TRANSMIT_BLOCK_SIZE,
        GEN_RECEIVE_BLOCK_SIZE,
        GEN_VENDOR_ID,
        GEN_VENDOR_DESCRIPTION,
        GEN_VENDOR_DRIVER_VERSION,
        GEN_CURRENT_PACKET_FILTER,
        GEN_MAXIMUM_TOTAL_SIZE,
        GEN_MEDIA_CONNECT_STATUS,
        GEN_PHYSICAL_MEDIUM,
        GEN_XMIT_OK,
        GEN_RCV_OK,
        GEN_XMIT_ERROR,
        GEN_RCV_ERROR,
        GEN_RCV_NO_BUFFER,
        PERMANENT_ADDRESS,
        CURRENT_ADDRESS,
        MULTICAST_LIST,
        MAC_OPTIONS,
        MAXIMUM_LIST_SIZE,
        RCV_ERROR_ALIGNMENT,
        XMIT_ONE_COLLISION,
        XMIT_MORE_COLLISIONS,
    ];
}

/// What every message starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// MessageType
    pub message_type: U32,
    /// MessageLength in bytes, this header included
    pub length: U32,
}

const _: () = assert!(size_of::<Header>() == 8);

/// A message with nothing but a RequestID after the header: what all commands but HALT and RESET share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Command {
    /// Type and length
    pub header: Header,
    /// RequestID, given back in the answer
    pub request_id: U32,
}

const _: () = assert!(size_of::<Command>() == 12);

/// REMOTE_NDIS_INITIALIZE_MSG (\[MS-RNDIS\] §2.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Initialize {
    /// Type, length, RequestID
    pub command: Command,
    /// MajorVersion
    pub major: U32,
    /// MinorVersion
    pub minor: U32,
    /// MaxTransferSize in bytes
    pub max_transfer: U32,
}

const _: () = assert!(size_of::<Initialize>() == 24);

/// REMOTE_NDIS_INITIALIZE_CMPLT (\[MS-RNDIS\] §2.2.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct InitializeComplete {
    /// Type, length, RequestID
    pub command: Command,
    /// Status
    pub status: U32,
    /// MajorVersion
    pub major: U32,
    /// MinorVersion
    pub minor: U32,
    /// DeviceFlags
    pub device_flags: U32,
    /// Medium
    pub medium: U32,
    /// MaxPacketsPerTransfer
    pub max_packets: U32,
    /// MaxTransferSize in bytes
    pub max_transfer: U32,
    /// PacketAlignmentFactor
    pub alignment: U32,
    /// AFListOffset, AFListSize
    pub reserved: [U32; 2],
}

const _: () = assert!(size_of::<InitializeComplete>() == 52);

/// REMOTE_NDIS_QUERY_MSG and REMOTE_NDIS_SET_MSG (\[MS-RNDIS\] §2.2.4, §2.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ObjectCommand {
    /// Type, length, RequestID
    pub command: Command,
    /// Oid
    pub oid: U32,
    /// InformationBufferLength in bytes
    pub information_length: U32,
    /// InformationBufferOffset in bytes from RequestID
    pub information_offset: U32,
    /// DeviceVcHandle
    pub reserved: U32,
}

const _: () = assert!(size_of::<ObjectCommand>() == 28);

/// REMOTE_NDIS_QUERY_CMPLT (\[MS-RNDIS\] §2.2.10), information follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct QueryComplete {
    /// Type, length, RequestID
    pub command: Command,
    /// Status
    pub status: U32,
    /// InformationBufferLength in bytes
    pub information_length: U32,
    /// InformationBufferOffset in bytes from RequestID
    pub information_offset: U32,
}

const _: () = assert!(size_of::<QueryComplete>() == 24);

/// REMOTE_NDIS_SET_CMPLT and REMOTE_NDIS_KEEPALIVE_CMPLT (\[MS-RNDIS\] §2.2.11, §2.2.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Complete {
    /// Type, length, RequestID
    pub command: Command,
    /// Status
    pub status: U32,
}

const _: () = assert!(size_of::<Complete>() == 16);

/// REMOTE_NDIS_RESET_CMPLT (\[MS-RNDIS\] §2.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ResetComplete {
    /// Type and length
    pub header: Header,
    /// Status
    pub status: U32,
    /// AddressingReset: 1 asks the host to set its filter again
    pub addressing_reset: U32,
}

const _: () = assert!(size_of::<ResetComplete>() == 16);

/// REMOTE_NDIS_PACKET_MSG (\[MS-RNDIS\] §2.2.14), the frame follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Packet {
    /// Type and length
    pub header: Header,
    /// DataOffset in bytes from this field
    pub data_offset: U32,
    /// DataLength in bytes
    pub data_length: U32,
    /// Out-of-band data, per-packet information, reserved: all 0
    pub rest: [U32; 7],
}

const _: () = assert!(size_of::<Packet>() == 44);

/// Writes the header in front of the frame in `transfer[44..]` (`rndis_add_hdr`). A transfer too short for a header
/// stays as it is.
pub fn write_packet_header(transfer: &mut [u8]) {
    let length = transfer.len() as u32;
    let Ok((packet, _)) = Packet::mut_from_prefix(transfer) else { return };
    let header_len = size_of::<Packet>() as u32;
    *packet = Packet {
        header: Header { message_type: message::PACKET.into(), length: length.into() },
        data_offset: (header_len - 8).into(),
        data_length: (length - header_len).into(),
        rest: [U32::ZERO; 7],
    };
}

/// Where the frame lies in a data transfer, `None` for anything that is not one packet message with all of its data.
///
/// As `rndis_rm_hdr` it needs 16 bytes and ignores MessageLength; other than there, data that is cut off is refused.
#[must_use]
pub fn packet_payload(transfer: &[u8]) -> Option<Range<usize>> {
    let word = |at: usize| -> Option<u32> { Some(u32::from_le_bytes(*transfer.get(at..)?.first_chunk()?)) };
    if word(0)? != message::PACKET {
        return None;
    }
    let (offset, length) = (word(8)?, word(12)?);
    let start = usize::try_from(offset).ok()?.checked_add(8)?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    (end <= transfer.len()).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_leads_to_its_frame() {
        let mut transfer = vec![0xaa; 44 + 60];
        write_packet_header(&mut transfer);
        assert_eq!(transfer[..16], [1, 0, 0, 0, 104, 0, 0, 0, 36, 0, 0, 0, 60, 0, 0, 0]);
        assert_eq!(transfer[16..44], [0; 28]);
        assert_eq!(packet_payload(&transfer), Some(44..104));
    }

    #[test]
    fn offsets_that_lie_find_nothing() {
        let mut transfer = vec![0; 104];
        write_packet_header(&mut transfer);
        for (at, value) in [(0, 2), (8, 97), (8, u32::MAX), (8, u32::MAX - 7), (12, 61), (12, u32::MAX)] {
            let mut bad = transfer.clone();
            bad[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
            assert_eq!(packet_payload(&bad), None, "{value:#x} at {at}");
        }
        assert_eq!(packet_payload(&transfer[..15]), None);
        assert_eq!(packet_payload(&[]), None);
    }
}
