//! Chapter 9 of USB 2.0: setup packets, descriptors, speeds.

use std::fmt;

use open_enum::open_enum;
use zerocopy::byteorder::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bus speed (USB 2.0 §7.1). Ordered from slow to fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Speed {
    /// 1.5 Mbit/s.
    Low,
    /// 12 Mbit/s.
    Full,
    /// 480 Mbit/s.
    High,
}

impl fmt::Display for Speed {
    /// As Linux logs it: `full-speed`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Low => "low-speed",
            Self::Full => "full-speed",
            Self::High => "high-speed",
        })
    }
}

/// Direction of data, seen from the host (USB 2.0 §9.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Host to device.
    Out,
    /// Device to host.
    In,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::In { "IN" } else { "OUT" })
    }
}

/// An endpoint's address: number and direction (USB 2.0 §9.6.6, `bEndpointAddress`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointAddress {
    /// 0 to 15.
    pub number: u8,
    /// Direction.
    pub direction: Direction,
}

impl EndpointAddress {
    /// Endpoint `number` for OUT transfers.
    #[must_use]
    pub const fn out(number: u8) -> Self {
        Self { number, direction: Direction::Out }
    }

    /// Endpoint `number` for IN transfers.
    #[must_use]
    pub const fn r#in(number: u8) -> Self {
        Self { number, direction: Direction::In }
    }

    /// From `bEndpointAddress`; reserved bits 6:4 are dropped.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Self {
        Self { number: byte & 0x0f, direction: if byte & 0x80 == 0 { Direction::Out } else { Direction::In } }
    }

    /// As `bEndpointAddress`.
    #[must_use]
    pub const fn to_byte(self) -> u8 {
        match self.direction {
            Direction::Out => self.number,
            Direction::In => self.number | 0x80,
        }
    }

    /// Whether it is the control endpoint 0.
    #[must_use]
    pub const fn is_ep0(self) -> bool {
        self.number == 0
    }
}

impl fmt::Display for EndpointAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ep{} {}", self.number, self.direction)
    }
}

impl fmt::Debug for EndpointAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Transfer type (USB 2.0 §9.6.6, `bmAttributes` 1:0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransferType {
    /// Control.
    Control = 0,
    /// Isochronous.
    Isochronous = 1,
    /// Bulk.
    Bulk = 2,
    /// Interrupt.
    Interrupt = 3,
}

/// Standard requests (USB 2.0 table 9-4).
#[open_enum]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Request {
    /// GET_STATUS
    GetStatus = 0,
    /// CLEAR_FEATURE
    ClearFeature = 1,
    /// SET_FEATURE
    SetFeature = 3,
    /// SET_ADDRESS
    SetAddress = 5,
    /// GET_DESCRIPTOR
    GetDescriptor = 6,
    /// SET_DESCRIPTOR
    SetDescriptor = 7,
    /// GET_CONFIGURATION
    GetConfiguration = 8,
    /// SET_CONFIGURATION
    SetConfiguration = 9,
    /// GET_INTERFACE
    GetInterface = 10,
    /// SET_INTERFACE
    SetInterface = 11,
    /// SYNCH_FRAME
    SynchFrame = 12,
}

/// Descriptor types (USB 2.0 table 9-5; interface association: its ECN; class-specific: CDC 1.2 table 12).
#[open_enum]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DescriptorType {
    /// DEVICE
    Device = 1,
    /// CONFIGURATION
    Configuration = 2,
    /// STRING
    String = 3,
    /// INTERFACE
    Interface = 4,
    /// ENDPOINT
    Endpoint = 5,
    /// DEVICE_QUALIFIER
    DeviceQualifier = 6,
    /// OTHER_SPEED_CONFIGURATION
    OtherSpeedConfiguration = 7,
    /// INTERFACE_ASSOCIATION
    InterfaceAssociation = 11,
    /// CS_INTERFACE
    ClassInterface = 0x24,
}

/// Feature selectors (USB 2.0 table 9-6).
#[open_enum]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Feature {
    /// ENDPOINT_HALT
    EndpointHalt = 0,
    /// DEVICE_REMOTE_WAKEUP
    DeviceRemoteWakeup = 1,
    /// TEST_MODE
    TestMode = 2,
}

/// Who a request is for (USB 2.0 table 9-2, `bmRequestType` 4:0).
#[open_enum]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Recipient {
    /// Device.
    Device = 0,
    /// Interface.
    Interface = 1,
    /// Endpoint.
    Endpoint = 2,
    /// Other.
    Other = 3,
}

/// Whose request it is (USB 2.0 table 9-2, `bmRequestType` 6:5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestType {
    /// Standard.
    Standard,
    /// Class.
    Class,
    /// Vendor.
    Vendor,
    /// Reserved.
    Reserved,
}

/// The eight bytes of a SETUP packet (USB 2.0 table 9-2).
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SetupPacket {
    /// `bmRequestType`
    pub request_type: u8,
    /// `bRequest`
    pub request: u8,
    /// `wValue`
    pub value: U16,
    /// `wIndex`
    pub index: U16,
    /// `wLength`
    pub length: U16,
}

const _: () = assert!(size_of::<SetupPacket>() == 8);

impl SetupPacket {
    /// From its fields.
    #[must_use]
    pub const fn new(request_type: u8, request: u8, value: u16, index: u16, length: u16) -> Self {
        Self { request_type, request, value: U16::new(value), index: U16::new(index), length: U16::new(length) }
    }

    /// GET_DESCRIPTOR for the device, at most `length` bytes (USB 2.0 §9.4.3).
    #[must_use]
    pub const fn get_descriptor(kind: DescriptorType, index: u8, language: u16, length: u16) -> Self {
        Self::new(0x80, Request::GetDescriptor.0, ((kind.0 as u16) << 8) | index as u16, language, length)
    }

    /// The wire's bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 8] {
        zerocopy::transmute!(self)
    }

    /// From the wire's bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        zerocopy::transmute!(bytes)
    }

    /// Direction of the data stage.
    #[must_use]
    pub const fn direction(&self) -> Direction {
        if self.request_type & 0x80 == 0 { Direction::Out } else { Direction::In }
    }

    /// Standard, class or vendor.
    #[must_use]
    pub const fn kind(&self) -> RequestType {
        match self.request_type >> 5 & 3 {
            0 => RequestType::Standard,
            1 => RequestType::Class,
            2 => RequestType::Vendor,
            _ => RequestType::Reserved,
        }
    }

    /// Who it is for.
    #[must_use]
    pub const fn recipient(&self) -> Recipient {
        Recipient(self.request_type & 0x1f)
    }

    /// The standard request, if it is one.
    #[must_use]
    pub const fn standard(&self) -> Option<Request> {
        match self.kind() {
            RequestType::Standard => Some(Request(self.request)),
            _ => None,
        }
    }
}

impl fmt::Display for SetupPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.standard() {
            Some(request) => write!(f, "{request:?}")?,
            None => write!(f, "{:?} request {:#04x}", self.kind(), self.request)?,
        }
        write!(
            f,
            " bmRequestType={:02x} wValue={:04x} wIndex={:04x} wLength={}",
            self.request_type, self.value, self.index, self.length
        )
    }
}

impl fmt::Debug for SetupPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SetupPacket({self})")
    }
}

/// Device descriptor (USB 2.0 table 9-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DeviceDescriptor {
    /// `bLength`, 18
    pub length: u8,
    /// `bDescriptorType`, 1
    pub descriptor_type: u8,
    /// `bcdUSB`
    pub bcd_usb: U16,
    /// `bDeviceClass`
    pub class: u8,
    /// `bDeviceSubClass`
    pub sub_class: u8,
    /// `bDeviceProtocol`
    pub protocol: u8,
    /// `bMaxPacketSize0`
    pub max_packet_size0: u8,
    /// `idVendor`
    pub vendor: U16,
    /// `idProduct`
    pub product: U16,
    /// `bcdDevice`
    pub bcd_device: U16,
    /// `iManufacturer`
    pub manufacturer_index: u8,
    /// `iProduct`
    pub product_index: u8,
    /// `iSerialNumber`
    pub serial_index: u8,
    /// `bNumConfigurations`
    pub configurations: u8,
}

const _: () = assert!(size_of::<DeviceDescriptor>() == 18);

/// Device qualifier descriptor (USB 2.0 table 9-9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DeviceQualifier {
    /// `bLength`, 10
    pub length: u8,
    /// `bDescriptorType`, 6
    pub descriptor_type: u8,
    /// `bcdUSB`
    pub bcd_usb: U16,
    /// `bDeviceClass`
    pub class: u8,
    /// `bDeviceSubClass`
    pub sub_class: u8,
    /// `bDeviceProtocol`
    pub protocol: u8,
    /// `bMaxPacketSize0` at the other speed
    pub max_packet_size0: u8,
    /// `bNumConfigurations` at the other speed
    pub configurations: u8,
    /// Reserved, 0
    pub reserved: u8,
}

const _: () = assert!(size_of::<DeviceQualifier>() == 10);

/// Configuration descriptor (USB 2.0 table 9-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ConfigurationDescriptor {
    /// `bLength`, 9
    pub length: u8,
    /// `bDescriptorType`, 2
    pub descriptor_type: u8,
    /// `wTotalLength`
    pub total_length: U16,
    /// `bNumInterfaces`
    pub interfaces: u8,
    /// `bConfigurationValue`
    pub value: u8,
    /// `iConfiguration`
    pub string_index: u8,
    /// `bmAttributes`
    pub attributes: u8,
    /// `bMaxPower` in units of 2 mA
    pub max_power: u8,
}

const _: () = assert!(size_of::<ConfigurationDescriptor>() == 9);

/// Interface descriptor (USB 2.0 table 9-12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct InterfaceDescriptor {
    /// `bLength`, 9
    pub length: u8,
    /// `bDescriptorType`, 4
    pub descriptor_type: u8,
    /// `bInterfaceNumber`
    pub number: u8,
    /// `bAlternateSetting`
    pub alternate: u8,
    /// `bNumEndpoints`
    pub endpoints: u8,
    /// `bInterfaceClass`
    pub class: u8,
    /// `bInterfaceSubClass`
    pub sub_class: u8,
    /// `bInterfaceProtocol`
    pub protocol: u8,
    /// `iInterface`
    pub string_index: u8,
}

const _: () = assert!(size_of::<InterfaceDescriptor>() == 9);

/// Endpoint descriptor (USB 2.0 table 9-13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct EndpointDescriptor {
    /// `bLength`, 7
    pub length: u8,
    /// `bDescriptorType`, 5
    pub descriptor_type: u8,
    /// `bEndpointAddress`
    pub address: u8,
    /// `bmAttributes`
    pub attributes: u8,
    /// `wMaxPacketSize`: 10:0 size, 12:11 additional transactions a microframe
    pub max_packet_size: U16,
    /// `bInterval`
    pub interval: u8,
}

const _: () = assert!(size_of::<EndpointDescriptor>() == 7);

impl EndpointDescriptor {
    /// A descriptor of its usual seven bytes.
    #[must_use]
    pub const fn new(address: EndpointAddress, transfer_type: TransferType, max_packet: u16, interval: u8) -> Self {
        Self {
            length: 7,
            descriptor_type: DescriptorType::Endpoint.0,
            address: address.to_byte(),
            attributes: transfer_type as u8,
            max_packet_size: U16::new(max_packet),
            interval,
        }
    }

    /// Its address.
    #[must_use]
    pub const fn endpoint(&self) -> EndpointAddress {
        EndpointAddress::from_byte(self.address)
    }

    /// Its transfer type.
    #[must_use]
    pub const fn transfer_type(&self) -> TransferType {
        match self.attributes & 3 {
            0 => TransferType::Control,
            1 => TransferType::Isochronous,
            2 => TransferType::Bulk,
            _ => TransferType::Interrupt,
        }
    }

    /// Bytes in a full packet.
    #[must_use]
    pub const fn max_packet(&self) -> u16 {
        self.max_packet_size.get() & 0x7ff
    }
}

/// The descriptors of a byte string such as a whole configuration, each as (type, bytes with its header).
///
/// Ends at the first descriptor whose length is under 2 or beyond the string: nothing a peer sends can panic.
pub fn descriptors(mut bytes: &[u8]) -> impl Iterator<Item = (DescriptorType, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(*bytes.first()?);
        if length < 2 || length > bytes.len() {
            return None;
        }
        let (descriptor, rest) = bytes.split_at(length);
        bytes = rest;
        Some((DescriptorType(descriptor[1]), descriptor))
    })
}

/// A string descriptor with `text`, or with the languages for index 0 (USB 2.0 §9.6.7). At most 126 UTF-16 units.
#[must_use]
pub fn string_descriptor(text: &str) -> Vec<u8> {
    units_descriptor(text.encode_utf16())
}

/// String descriptor 0: the language identifiers, such as 0x0409 for US English.
#[must_use]
pub fn language_descriptor(languages: &[u16]) -> Vec<u8> {
    units_descriptor(languages.iter().copied())
}

fn units_descriptor(units: impl Iterator<Item = u16>) -> Vec<u8> {
    const MOST_UNITS: usize = 126;
    let mut bytes = vec![0, DescriptorType::String.0];
    bytes.extend(units.take(MOST_UNITS).flat_map(u16::to_le_bytes));
    bytes[0] = bytes.len() as u8;
    bytes
}

/// The text of a string descriptor, with replacement characters where it is not UTF-16.
#[must_use]
pub fn string_text(descriptor: &[u8]) -> String {
    let end = descriptor.first().map_or(0, |&length| usize::from(length)).min(descriptor.len());
    let units =
        descriptor.get(2..end).unwrap_or_default().chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_configuration_ends_the_walk() {
        let bytes = [9, 2, 0, 0, 1, 1, 0, 0x80, 0, 9, 4, 0, 0];
        let seen: Vec<_> = descriptors(&bytes).map(|(kind, _)| kind).collect();
        assert_eq!(seen, [DescriptorType::Configuration]);
        assert_eq!(descriptors(&[0, 2, 3]).count(), 0);
    }

    #[test]
    fn strings_survive_the_round_trip_and_lies_about_length() {
        let bytes = string_descriptor("RNDIS/Ethernet Gadget");
        assert_eq!(bytes.len(), 2 + 2 * 21);
        assert_eq!(string_text(&bytes), "RNDIS/Ethernet Gadget");
        assert_eq!(string_text(&[200, 3, 0x41, 0]), "A");
        assert_eq!(string_text(&[]), "");
        assert_eq!(string_descriptor(&"x".repeat(300)).len(), 254);
    }

    #[test]
    fn a_setup_packet_names_its_parts() {
        let setup = SetupPacket::get_descriptor(DescriptorType::Device, 0, 0, 64);
        assert_eq!(setup.to_bytes(), [0x80, 6, 0, 1, 0, 0, 64, 0]);
        assert_eq!(SetupPacket::from_bytes(setup.to_bytes()), setup);
        assert_eq!(setup.standard(), Some(Request::GetDescriptor));
        assert_eq!(setup.direction(), Direction::In);
    }
}
