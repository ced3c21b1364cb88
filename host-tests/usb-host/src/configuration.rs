//! A configuration as the device describes it, parsed as core/config.c does: broken parts are told and left out.

use usb::ch9::{
    ConfigurationDescriptor, DescriptorType, EndpointAddress, EndpointDescriptor, InterfaceDescriptor, TransferType,
};
use zerocopy::FromBytes;

/// The most interfaces of a configuration (USB_MAXINTERFACES).
const MOST_INTERFACES: usize = 32;

/// An endpoint with the descriptors that follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its descriptor.
    pub descriptor: EndpointDescriptor,
    /// Class-specific descriptors behind it.
    pub extra: Vec<u8>,
}

impl Endpoint {
    /// Its address.
    #[must_use]
    pub fn address(&self) -> EndpointAddress {
        self.descriptor.endpoint()
    }
}

/// An alternate setting of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AltSetting {
    /// Its descriptor.
    pub descriptor: InterfaceDescriptor,
    /// Class-specific descriptors between it and its first endpoint.
    pub extra: Vec<u8>,
    /// Its endpoints, without endpoint 0.
    pub endpoints: Vec<Endpoint>,
}

/// An interface with its alternate settings, in the order of their descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// `bInterfaceNumber`.
    pub number: u8,
    /// Alternate settings; at least one.
    pub alternates: Vec<AltSetting>,
}

impl Interface {
    /// The alternate setting of that number.
    #[must_use]
    pub fn alternate(&self, number: u8) -> Option<&AltSetting> {
        self.alternates.iter().find(|alternate| alternate.descriptor.alternate == number)
    }

    /// The setting after SET_CONFIGURATION: 0, else the first.
    #[must_use]
    pub fn first_alternate(&self) -> Option<&AltSetting> {
        self.alternate(0).or_else(|| self.alternates.first())
    }
}

/// A configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Its descriptor, as the device sent it.
    pub descriptor: ConfigurationDescriptor,
    /// Class-specific descriptors between it and its first interface.
    pub extra: Vec<u8>,
    /// Its interfaces, in the order of their descriptors.
    pub interfaces: Vec<Interface>,
    /// All of it, as the device sent it.
    pub raw: Vec<u8>,
}

impl Configuration {
    /// Parses `raw`, configuration `index` of a device. `note` gets the kernel's remarks. `None` when the first
    /// descriptor is no configuration (-22).
    pub fn parse(index: u8, raw: Vec<u8>, mut note: impl FnMut(String)) -> Option<Self> {
        let Ok((descriptor, _)) = ConfigurationDescriptor::read_from_prefix(&raw) else {
            return None;
        };
        let value = descriptor.value;
        let start = usize::from(descriptor.length);
        let sound = descriptor.descriptor_type == DescriptorType::Configuration.0
            && start >= size_of::<ConfigurationDescriptor>()
            && start <= raw.len();
        if !sound {
            note(format!(
                "invalid descriptor for config index {index}: type = 0x{:X}, length = {start}",
                descriptor.descriptor_type
            ));
            return None;
        }
        let mut walk = Walk { value, note: &mut note, extra: Vec::new(), interfaces: Vec::new(), current: None };
        walk.all(&raw[start..]);
        let Walk { extra, interfaces, .. } = walk;
        let (found, said) = (interfaces.len(), descriptor.interfaces);
        if found != usize::from(said).min(MOST_INTERFACES) {
            let plural = if found == 1 { "" } else { "s" };
            note(format!(
                "config {value} has {found} interface{plural}, different from the descriptor's value: {said}"
            ));
        } else if found == 0 {
            note(format!("config {value} has no interfaces?"));
        }
        Some(Self { descriptor, extra, interfaces, raw })
    }

    /// The interface of that number.
    #[must_use]
    pub fn interface(&self, number: u8) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.number == number)
    }
}

/// The walk over a configuration's descriptors.
struct Walk<'a> {
    value: u8,
    note: &'a mut dyn FnMut(String),
    extra: Vec<u8>,
    interfaces: Vec<Interface>,
    /// The interface and alternate setting that descriptors now belong to, by index.
    current: Option<(usize, usize)>,
}

impl Walk<'_> {
    fn all(&mut self, mut bytes: &[u8]) {
        let value = self.value;
        while let Some(&length) = bytes.first() {
            let length = usize::from(length);
            if bytes.len() < 2 {
                (self.note)(format!("config {value} descriptor has 1 excess byte, ignoring"));
                return;
            }
            if length < 2 || length > bytes.len() {
                (self.note)(format!(
                    "config {value} has an invalid descriptor of length {length}, skipping remainder of the config"
                ));
                return;
            }
            let (descriptor, rest) = bytes.split_at(length);
            bytes = rest;
            self.one(descriptor);
        }
    }

    fn one(&mut self, descriptor: &[u8]) {
        let value = self.value;
        match DescriptorType(descriptor[1]) {
            DescriptorType::Interface => match InterfaceDescriptor::read_from_prefix(descriptor) {
                Ok((interface, _)) => self.interface(interface),
                Err(_) => (self.note)(format!(
                    "config {value} has an invalid interface descriptor of length {}, skipping",
                    descriptor.len()
                )),
            },
            DescriptorType::Endpoint => match EndpointDescriptor::read_from_prefix(descriptor) {
                Ok((endpoint, _)) => self.endpoint(endpoint),
                Err(_) => {
                    let (interface, alternate) = self.numbers();
                    (self.note)(format!(
                        "config {value} interface {interface} altsetting {alternate} has an invalid endpoint \
                         descriptor of length {}, skipping",
                        descriptor.len()
                    ));
                }
            },
            DescriptorType::Device | DescriptorType::Configuration => (self.note)(format!(
                "config {value} contains an unexpected descriptor of type 0x{:X}, skipping",
                descriptor[1]
            )),
            _ => self.extra_bytes().extend_from_slice(descriptor),
        }
    }

    fn alternate(&mut self) -> Option<&mut AltSetting> {
        let (interface, alternate) = self.current?;
        self.interfaces.get_mut(interface)?.alternates.get_mut(alternate)
    }

    fn numbers(&mut self) -> (u8, u8) {
        self.alternate().map_or((0, 0), |alternate| (alternate.descriptor.number, alternate.descriptor.alternate))
    }

    fn extra_bytes(&mut self) -> &mut Vec<u8> {
        let Some((interface, alternate)) = self.current else { return &mut self.extra };
        let alternate = &mut self.interfaces[interface].alternates[alternate];
        match alternate.endpoints.last_mut() {
            Some(endpoint) => &mut endpoint.extra,
            None => &mut alternate.extra,
        }
    }

    fn interface(&mut self, descriptor: InterfaceDescriptor) {
        let number = descriptor.number;
        let index = match self.interfaces.iter().position(|interface| interface.number == number) {
            Some(index) => index,
            None if self.interfaces.len() < MOST_INTERFACES => {
                self.interfaces.push(Interface { number, alternates: Vec::new() });
                self.interfaces.len() - 1
            }
            None => return,
        };
        let alternates = &mut self.interfaces[index].alternates;
        if alternates.iter().any(|alternate| alternate.descriptor.alternate == descriptor.alternate) {
            (self.note)(format!(
                "Duplicate descriptor for config {} interface {number} altsetting {}, skipping",
                self.value, descriptor.alternate
            ));
            return;
        }
        alternates.push(AltSetting { descriptor, extra: Vec::new(), endpoints: Vec::new() });
        self.current = Some((index, alternates.len() - 1));
    }

    fn endpoint(&mut self, descriptor: EndpointDescriptor) {
        let value = self.value;
        let (interface, number) = self.numbers();
        let Some(alternate) = self.alternate() else { return };
        let address = descriptor.endpoint();
        let room = usize::from(alternate.descriptor.endpoints);
        let full = alternate.endpoints.len() >= room;
        let twice = alternate.endpoints.iter().any(|endpoint| endpoint.address() == address);
        let place = format_args!("config {value} interface {interface} altsetting {number}").to_string();
        if address.is_ep0() {
            let byte = descriptor.address;
            (self.note)(format!("{place} has an invalid endpoint with address 0x{byte:X}, skipping"));
        } else if twice {
            let byte = descriptor.address;
            (self.note)(format!("{place} has a duplicate endpoint with address 0x{byte:X}, skipping"));
        } else if !full {
            alternate.endpoints.push(Endpoint { descriptor, extra: Vec::new() });
        }
    }
}

/// Whether an endpoint can carry transfers that this host knows: bulk or interrupt, with a packet size.
pub(crate) fn is_usable(endpoint: &EndpointDescriptor) -> bool {
    matches!(endpoint.transfer_type(), TransferType::Bulk | TransferType::Interrupt) && endpoint.max_packet() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The RNDIS configuration of a running 6.1 board.
    pub(crate) const RNDIS: [u8; 75] = [
        0x09, 0x02, 0x4b, 0x00, 0x02, 0x02, 0x00, 0xc0, 0x00, 0x08, 0x0b, 0x00, 0x02, 0x02, 0x06, 0x00, 0x06, 0x09,
        0x04, 0x00, 0x00, 0x01, 0x02, 0x02, 0xff, 0x04, 0x05, 0x24, 0x00, 0x10, 0x01, 0x05, 0x24, 0x01, 0x00, 0x01,
        0x04, 0x24, 0x02, 0x00, 0x05, 0x24, 0x06, 0x00, 0x01, 0x07, 0x05, 0x82, 0x03, 0x08, 0x00, 0x20, 0x09, 0x04,
        0x01, 0x00, 0x02, 0x0a, 0x00, 0x00, 0x05, 0x07, 0x05, 0x81, 0x02, 0x40, 0x00, 0x00, 0x07, 0x05, 0x01, 0x02,
        0x40, 0x00, 0x00,
    ];

    #[test]
    fn the_recorded_configuration_has_its_parts() {
        let mut notes = Vec::new();
        let parsed = Configuration::parse(0, RNDIS.to_vec(), |note| notes.push(note)).unwrap();
        assert_eq!(notes, Vec::<String>::new());
        assert_eq!(parsed.descriptor.value, 2);
        assert_eq!(parsed.interfaces.len(), 2);
        assert_eq!(parsed.interfaces[0].alternates[0].extra.len(), 19);
        let data = parsed.interface(1).unwrap().first_alternate().unwrap();
        let endpoints: Vec<_> = data.endpoints.iter().map(|endpoint| endpoint.address().to_byte()).collect();
        assert_eq!(endpoints, [0x81, 0x01]);
    }

    #[test]
    fn broken_descriptors_are_told_and_left_out() {
        let mut notes = Vec::new();
        let mut bytes = RNDIS[..18 + 8].to_vec();
        bytes.extend([7, 5, 0x82, 3, 8, 0, 0x20, 7, 5, 0x80, 3, 8, 0, 0x20, 0, 9]);
        let parsed = Configuration::parse(0, bytes, |note| notes.push(note)).unwrap();
        assert_eq!(parsed.interfaces[0].alternates[0].endpoints.len(), 1);
        assert_eq!(
            notes,
            [
                "config 2 interface 0 altsetting 0 has an invalid endpoint with address 0x80, skipping",
                "config 2 has an invalid descriptor of length 0, skipping remainder of the config",
                "config 2 has 1 interface, different from the descriptor's value: 2",
            ]
        );
        notes.clear();
        assert_eq!(Configuration::parse(1, vec![9, 3, 9, 0, 0, 0, 0, 0, 0], |note| notes.push(note)), None);
        assert_eq!(notes, ["invalid descriptor for config index 1: type = 0x3, length = 9"]);
    }
}
