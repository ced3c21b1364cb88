//! Descriptors of devices that are nothing but vendor interfaces, with Gadget Zero's numbers (Linux: legacy/zero.c).

use usb::ch9::{DescriptorType, DeviceDescriptor, InterfaceDescriptor};
use zerocopy::little_endian::U16;

use crate::composite::EP0_MAX_PACKET;

/// The device 0525:a4a0 in this version, without strings.
#[must_use]
pub const fn device(bcd_device: u16) -> DeviceDescriptor {
    DeviceDescriptor {
        length: 18,
        descriptor_type: DescriptorType::Device.0,
        bcd_usb: U16::new(0x0200),
        class: 0xff,
        sub_class: 0,
        protocol: 0,
        max_packet_size0: EP0_MAX_PACKET,
        vendor: U16::new(0x0525),
        product: U16::new(0xa4a0),
        bcd_device: U16::new(bcd_device),
        manufacturer_index: 0,
        product_index: 0,
        serial_index: 0,
        configurations: 1,
    }
}

/// An alternate setting of an interface with so many endpoints.
#[must_use]
pub const fn interface(number: u8, alternate: u8, endpoints: u8) -> InterfaceDescriptor {
    InterfaceDescriptor {
        length: 9,
        descriptor_type: DescriptorType::Interface.0,
        number,
        alternate,
        endpoints,
        class: 0xff,
        sub_class: 0,
        protocol: 0,
        string_index: 0,
    }
}
