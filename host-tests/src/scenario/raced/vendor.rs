//! What the gadgets of these scenarios say about themselves: Gadget Zero's numbers, one vendor interface.

use gadgets::composite::{EP0_MAX_PACKET, Identity};
use gadgets::configuration::{Configuration, SELF_POWERED};
use gadgets::endpoint::Endpoint;
use gadgets::strings::Strings;
use usb::ch9::{DescriptorType, DeviceDescriptor, InterfaceDescriptor};
use zerocopy::IntoBytes;

/// A device whose interface has these endpoints.
pub(super) fn identity(endpoints: &'static [Endpoint]) -> Identity {
    let interface = InterfaceDescriptor {
        length: 9,
        descriptor_type: DescriptorType::Interface.0,
        number: 0,
        alternate: 0,
        endpoints: endpoints.len() as u8,
        class: 0xff,
        sub_class: 0,
        protocol: 0,
        string_index: 0,
    };
    let device = DeviceDescriptor {
        length: 18,
        descriptor_type: DescriptorType::Device.0,
        bcd_usb: 0x0200.into(),
        class: 0xff,
        sub_class: 0,
        protocol: 0,
        max_packet_size0: EP0_MAX_PACKET,
        vendor: 0x0525.into(),
        product: 0xa4a0.into(),
        bcd_device: 0x0602.into(),
        manufacturer_index: 0,
        product_index: 0,
        serial_index: 0,
        configurations: 1,
    };
    let body = move |speed| {
        let endpoints = endpoints.iter().flat_map(|endpoint| endpoint.at(speed).as_bytes().to_vec());
        interface.as_bytes().iter().copied().chain(endpoints).collect()
    };
    let configurations = vec![Configuration::new(1, SELF_POWERED, body)];
    Identity { device, strings: Strings::new(), configurations }
}
