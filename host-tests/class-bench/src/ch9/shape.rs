//! What a device says of itself, as far as the requests of a chapter 9 check need it.

use usb::ch9::{ConfigurationDescriptor, DescriptorType, DeviceDescriptor, EndpointDescriptor, InterfaceDescriptor};
use usb::ch9::{EndpointAddress, TransferType, descriptors};
use zerocopy::FromBytes;

/// The device and its first configuration.
pub(super) struct Shape {
    pub(super) device_bytes: Vec<u8>,
    pub(super) device: DeviceDescriptor,
    /// The first configuration, whole.
    pub(super) configuration: Vec<u8>,
    pub(super) high_speed: bool,
}

impl Shape {
    pub(super) fn header(&self) -> Option<ConfigurationDescriptor> {
        ConfigurationDescriptor::read_from_prefix(&self.configuration).ok().map(|(header, _)| header)
    }

    pub(super) fn can_wake(&self) -> bool {
        self.header().is_some_and(|header| header.attributes & 0x20 != 0)
    }

    /// All interface descriptors, in order, each with its endpoints.
    pub(super) fn alternates(&self) -> Vec<(InterfaceDescriptor, Vec<EndpointDescriptor>)> {
        let mut found: Vec<(InterfaceDescriptor, Vec<EndpointDescriptor>)> = Vec::new();
        for (kind, bytes) in descriptors(&self.configuration) {
            match kind {
                DescriptorType::Interface => {
                    if let Ok((interface, _)) = InterfaceDescriptor::read_from_prefix(bytes) {
                        found.push((interface, Vec::new()));
                    }
                }
                DescriptorType::Endpoint => {
                    if let (Ok((endpoint, _)), Some((_, endpoints))) =
                        (EndpointDescriptor::read_from_prefix(bytes), found.last_mut())
                    {
                        endpoints.push(endpoint);
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// The endpoints after SET_CONFIGURATION.
    pub(super) fn endpoints(&self) -> Vec<EndpointDescriptor> {
        let default = self.alternates().into_iter().filter(|(interface, _)| interface.alternate == 0);
        default.flat_map(|(_, endpoints)| endpoints).filter(|endpoint| endpoint.address & 0x0f != 0).collect()
    }

    /// Those that can be halted (USB 2.0 §9.4.5).
    pub(super) fn haltable(&self) -> Vec<EndpointAddress> {
        let kinds = [TransferType::Bulk, TransferType::Interrupt];
        let haltable = self.endpoints().into_iter().filter(|endpoint| kinds.contains(&endpoint.transfer_type()));
        haltable.map(|endpoint| endpoint.endpoint()).collect()
    }

    pub(super) fn first_interface(&self) -> Option<u8> {
        self.alternates().first().map(|(interface, _)| interface.number)
    }

    /// Alternate settings of an interface.
    pub(super) fn settings(&self, interface: u8) -> usize {
        self.alternates().iter().filter(|(alternate, _)| alternate.number == interface).count()
    }

    /// An endpoint that no alternate setting has.
    pub(super) fn no_endpoint(&self) -> Option<EndpointAddress> {
        let taken: Vec<u8> = self
            .alternates()
            .iter()
            .flat_map(|(_, endpoints)| endpoints)
            .map(|endpoint| endpoint.endpoint().to_byte())
            .collect();
        (1..16).rev().map(EndpointAddress::r#in).find(|endpoint| !taken.contains(&endpoint.to_byte()))
    }

    /// An interface number that there is not.
    pub(super) fn no_interface(&self) -> u8 {
        (0..=u8::MAX).rev().find(|&number| self.settings(number) == 0).unwrap_or(u8::MAX)
    }
}
