//! What the Ethernet gadget says about itself, byte for byte as Linux's g_ether does with RNDIS (legacy/ether.c,
//! f_rndis.c, f_ecm.c).

use usb::ch9::{DescriptorType, DeviceDescriptor, InterfaceDescriptor};
use usb::{EndpointAddress, Speed};
use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{Immutable, IntoBytes, Unaligned};

use super::EthernetConfig;
use crate::composite::{EP0_MAX_PACKET, Identity};
use crate::configuration::{Configuration, SELF_POWERED};
use crate::endpoint::Endpoint;
use crate::strings::{Strings, Text, US_ENGLISH};

/// `bConfigurationValue` of the RNDIS configuration, listed first.
pub const RNDIS: u8 = 2;
/// `bConfigurationValue` of the CDC Ethernet configuration, listed second.
pub const ECM: u8 = 1;

/// Number of the control interface in both configurations.
pub const CONTROL_INTERFACE: u8 = 0;
/// Number of the data interface in both configurations.
pub const DATA_INTERFACE: u8 = 1;

/// Frames to the host.
pub const BULK_IN: Endpoint = Endpoint::bulk(EndpointAddress::r#in(1));
/// Frames from the host.
pub const BULK_OUT: Endpoint = Endpoint::bulk(EndpointAddress::out(1));
/// Notifications of the RNDIS function.
pub const RNDIS_NOTIFY: Endpoint = Endpoint::interrupt(EndpointAddress::r#in(2), 8, 32);
/// Notifications of the ECM function: a SPEED_CHANGE fits into one packet.
pub const ECM_NOTIFY: Endpoint = Endpoint::interrupt(EndpointAddress::r#in(2), 16, 32);

const CLASS_COMM: u8 = 0x02;
const CLASS_CDC_DATA: u8 = 0x0a;
const SUBCLASS_ACM: u8 = 0x02;
const SUBCLASS_ETHERNET: u8 = 0x06;
const PROTOCOL_VENDOR: u8 = 0xff;

/// Indices of the strings, in the order in which Linux hands them out. Each function also takes one for the end of its table
/// (`usb_gstrings_attach` with ARRAY_SIZE; seen on 6.1, 6.12 and 7.3): 7, and 12.
mod string {
    pub(super) const MANUFACTURER: u8 = 1;
    pub(super) const PRODUCT: u8 = 2;
    pub(super) const RNDIS_CONTROL: u8 = 4;
    pub(super) const RNDIS_DATA: u8 = 5;
    pub(super) const RNDIS: u8 = 6;
    pub(super) const ECM_CONTROL: u8 = 8;
    pub(super) const MAC_ADDRESS: u8 = 9;
    pub(super) const ECM_DATA: u8 = 10;
    pub(super) const ECM: u8 = 11;
}

/// Interface association descriptor (Interface Association ECN, table 9-Z).
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct InterfaceAssociation {
    length: u8,
    descriptor_type: u8,
    first_interface: u8,
    interface_count: u8,
    class: u8,
    sub_class: u8,
    protocol: u8,
    string_index: u8,
}

const _: () = assert!(size_of::<InterfaceAssociation>() == 8);

/// Header functional descriptor (CDC 1.2 table 15).
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct CdcHeader {
    length: u8,
    descriptor_type: u8,
    sub_type: u8,
    bcd_cdc: U16,
}

const _: () = assert!(size_of::<CdcHeader>() == 5);

/// Call management functional descriptor (PSTN 1.2 table 3).
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct CallManagement {
    length: u8,
    descriptor_type: u8,
    sub_type: u8,
    capabilities: u8,
    data_interface: u8,
}

const _: () = assert!(size_of::<CallManagement>() == 5);

/// Abstract control management functional descriptor (PSTN 1.2 table 4).
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct Acm {
    length: u8,
    descriptor_type: u8,
    sub_type: u8,
    capabilities: u8,
}

const _: () = assert!(size_of::<Acm>() == 4);

/// Union functional descriptor with one subordinate (CDC 1.2 table 16).
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct Union {
    length: u8,
    descriptor_type: u8,
    sub_type: u8,
    control_interface: u8,
    subordinate_interface: u8,
}

const _: () = assert!(size_of::<Union>() == 5);

/// Ethernet networking functional descriptor (CDC ECM 1.2 table 3).
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct EthernetNetworking {
    length: u8,
    descriptor_type: u8,
    sub_type: u8,
    mac_address_string: u8,
    statistics: U32,
    max_segment_size: U16,
    multicast_filters: U16,
    power_filters: u8,
}

const _: () = assert!(size_of::<EthernetNetworking>() == 13);

const CS_INTERFACE: u8 = DescriptorType::ClassInterface.0;

const CDC_HEADER: CdcHeader =
    CdcHeader { length: 5, descriptor_type: CS_INTERFACE, sub_type: 0x00, bcd_cdc: U16::new(0x0110) };

const UNION: Union = Union {
    length: 5,
    descriptor_type: CS_INTERFACE,
    sub_type: 0x06,
    control_interface: CONTROL_INTERFACE,
    subordinate_interface: DATA_INTERFACE,
};

const fn association(string_index: u8) -> InterfaceAssociation {
    InterfaceAssociation {
        length: 8,
        descriptor_type: DescriptorType::InterfaceAssociation.0,
        first_interface: CONTROL_INTERFACE,
        interface_count: 2,
        class: CLASS_COMM,
        sub_class: SUBCLASS_ETHERNET,
        protocol: 0,
        string_index,
    }
}

const fn interface(number: u8, class: [u8; 3], endpoints: u8, string_index: u8) -> InterfaceDescriptor {
    InterfaceDescriptor {
        length: 9,
        descriptor_type: DescriptorType::Interface.0,
        number,
        alternate: 0,
        endpoints,
        class: class[0],
        sub_class: class[1],
        protocol: class[2],
        string_index,
    }
}

fn rndis(speed: Speed) -> Vec<u8> {
    let call_management = CallManagement {
        length: 5,
        descriptor_type: CS_INTERFACE,
        sub_type: 0x01,
        capabilities: 0,
        data_interface: DATA_INTERFACE,
    };
    let acm = Acm { length: 4, descriptor_type: CS_INTERFACE, sub_type: 0x02, capabilities: 0 };
    let control_class = [CLASS_COMM, SUBCLASS_ACM, PROTOCOL_VENDOR];
    [
        association(string::RNDIS).as_bytes(),
        interface(CONTROL_INTERFACE, control_class, 1, string::RNDIS_CONTROL).as_bytes(),
        CDC_HEADER.as_bytes(),
        call_management.as_bytes(),
        acm.as_bytes(),
        UNION.as_bytes(),
        RNDIS_NOTIFY.at(speed).as_bytes(),
        interface(DATA_INTERFACE, [CLASS_CDC_DATA, 0, 0], 2, string::RNDIS_DATA).as_bytes(),
        BULK_IN.at(speed).as_bytes(),
        BULK_OUT.at(speed).as_bytes(),
    ]
    .concat()
}

fn ecm(speed: Speed) -> Vec<u8> {
    let networking = EthernetNetworking {
        length: 13,
        descriptor_type: CS_INTERFACE,
        sub_type: 0x0f,
        mac_address_string: string::MAC_ADDRESS,
        statistics: U32::ZERO,
        max_segment_size: U16::new(1514),
        multicast_filters: U16::ZERO,
        power_filters: 0,
    };
    let control_class = [CLASS_COMM, SUBCLASS_ETHERNET, 0];
    let active =
        InterfaceDescriptor { alternate: 1, ..interface(DATA_INTERFACE, [CLASS_CDC_DATA, 0, 0], 2, string::ECM_DATA) };
    [
        association(string::ECM).as_bytes(),
        interface(CONTROL_INTERFACE, control_class, 1, string::ECM_CONTROL).as_bytes(),
        CDC_HEADER.as_bytes(),
        UNION.as_bytes(),
        networking.as_bytes(),
        ECM_NOTIFY.at(speed).as_bytes(),
        // Linux gives the empty alternate no name.
        interface(DATA_INTERFACE, [CLASS_CDC_DATA, 0, 0], 0, 0).as_bytes(),
        active.as_bytes(),
        BULK_IN.at(speed).as_bytes(),
        BULK_OUT.at(speed).as_bytes(),
    ]
    .concat()
}

/// The gadget's identity. The MAC address in the strings is the host's (CDC ECM 1.2 §5.4: twelve hex digits).
pub(super) fn identity(config: &EthernetConfig) -> Identity {
    let mac: String = config.host_mac.iter().map(|byte| format!("{byte:02X}")).collect();
    let texts: [Text; 11] = [
        Text::WithDriver(format!("Linux {} with ", config.release)),
        "RNDIS/Ethernet Gadget".into(),
        "".into(),
        "RNDIS Communications Control".into(),
        "RNDIS Ethernet Data".into(),
        "RNDIS".into(),
        Text::Absent,
        "CDC Ethernet Control Model (ECM)".into(),
        mac.into(),
        "CDC Ethernet Data".into(),
        "CDC ECM".into(),
    ];
    Identity {
        device: DeviceDescriptor {
            length: 18,
            descriptor_type: DescriptorType::Device.0,
            bcd_usb: 0x0200.into(),
            class: CLASS_COMM,
            sub_class: 0,
            protocol: 0,
            max_packet_size0: EP0_MAX_PACKET,
            vendor: 0x0525.into(),
            product: 0xa4a2.into(),
            bcd_device: config.bcd_device.into(),
            manufacturer_index: string::MANUFACTURER,
            product_index: string::PRODUCT,
            serial_index: 0,
            configurations: 2,
        },
        strings: Strings::new().with(US_ENGLISH, texts),
        configurations: vec![
            Configuration::new(RNDIS, SELF_POWERED, rndis),
            Configuration::new(ECM, SELF_POWERED, ecm),
        ],
    }
}
