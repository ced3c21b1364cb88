//! Configurations: one byte string for each speed, made once.

use usb::Speed;
use usb::ch9::{ConfigurationDescriptor, DescriptorType, InterfaceDescriptor, descriptors};
use zerocopy::{FromBytes, IntoBytes};

/// `bmAttributes` of a bus-powered configuration: reserved bit 7 alone (USB 2.0 table 9-10).
pub const BUS_POWERED: u8 = 0x80;
/// `bmAttributes` of a self-powered configuration: reserved bit 7, and bit 6 (USB 2.0 table 9-10).
pub const SELF_POWERED: u8 = 0xc0;

/// One configuration of a gadget (Linux: `struct usb_configuration`). Its index is its place in
/// [`Identity::configurations`](crate::composite::Identity::configurations), its value is what SET_CONFIGURATION names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    header: ConfigurationDescriptor,
    full: Vec<u8>,
    high: Vec<u8>,
    interfaces: Vec<u8>,
}

impl Configuration {
    /// A configuration with `bConfigurationValue` `value` (not 0) and `bmAttributes` `attributes` that draws nothing from
    /// the bus. `body` makes everything after the configuration descriptor, for one speed.
    #[must_use]
    pub fn new(value: u8, attributes: u8, body: impl Fn(Speed) -> Vec<u8>) -> Self {
        let (full, high) = (body(Speed::Full), body(Speed::High));
        let mut interfaces = Vec::new();
        for (kind, bytes) in descriptors(&full) {
            if kind == DescriptorType::Interface
                && let Ok((interface, _)) = InterfaceDescriptor::read_from_prefix(bytes)
                && !interfaces.contains(&interface.number)
            {
                interfaces.push(interface.number);
            }
        }
        let header = ConfigurationDescriptor {
            length: 9,
            descriptor_type: DescriptorType::Configuration.0,
            total_length: 0.into(),
            interfaces: interfaces.len() as u8,
            value,
            string_index: 0,
            attributes,
            max_power: 0,
        };
        Self { header, full, high, interfaces }
    }

    /// The same with `iConfiguration` `index`.
    #[must_use]
    pub fn with_string(mut self, index: u8) -> Self {
        self.header.string_index = index;
        self
    }

    /// The same with `bMaxPower` for `milliamperes`, rounded up to 2 and at most 510.
    #[must_use]
    pub fn with_power(mut self, milliamperes: u16) -> Self {
        self.header.max_power = u8::try_from(milliamperes.div_ceil(2)).unwrap_or(u8::MAX);
        self
    }

    /// `bConfigurationValue`.
    #[must_use]
    pub fn value(&self) -> u8 {
        self.header.value
    }

    /// Whether `bmAttributes` says self-powered.
    #[must_use]
    pub fn self_powered(&self) -> bool {
        self.header.attributes & 0x40 != 0
    }

    /// The numbers of its interfaces, in the order of the descriptors.
    #[must_use]
    pub fn interfaces(&self) -> &[u8] {
        &self.interfaces
    }

    /// Everything that GET_DESCRIPTOR answers at `speed`, with type `kind`: CONFIGURATION or
    /// OTHER_SPEED_CONFIGURATION (USB 2.0 §9.6.3, §9.6.4).
    #[must_use]
    pub fn descriptor(&self, speed: Speed, kind: DescriptorType) -> Vec<u8> {
        let body = if speed == Speed::High { &self.high } else { &self.full };
        let mut header = self.header;
        header.descriptor_type = kind.0;
        let total = size_of_val(&header) + body.len();
        header.total_length = u16::try_from(total).unwrap_or(u16::MAX).into();
        [header.as_bytes(), body].concat()
    }
}
