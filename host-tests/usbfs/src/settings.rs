//! A device's configurations, parsed, and what of them is selected.

use std::collections::BTreeMap;
use std::sync::Arc;

use usb::EndpointAddress;
use usb::ch9::{
    ConfigurationDescriptor, DescriptorType, DeviceDescriptor, EndpointDescriptor, InterfaceDescriptor, descriptors,
};
use zerocopy::FromBytes;

use crate::{AttachError, DeviceInfo};

/// One alternate setting.
#[derive(Clone, Debug)]
pub(crate) struct Alternate {
    pub(crate) descriptor: InterfaceDescriptor,
    pub(crate) endpoints: Vec<EndpointDescriptor>,
}

/// One configuration.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    pub(crate) descriptor: ConfigurationDescriptor,
    /// In the order of the descriptors, as `usb_host_config.interface`.
    pub(crate) interfaces: Vec<(u8, Vec<Alternate>)>,
}

impl Configuration {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (descriptor, _) = ConfigurationDescriptor::read_from_prefix(bytes).ok()?;
        let mut interfaces: Vec<(u8, Vec<Alternate>)> = Vec::new();
        let mut current: Option<usize> = None;
        for (kind, bytes) in descriptors(bytes) {
            if kind == DescriptorType::Interface {
                let Ok((descriptor, _)) = InterfaceDescriptor::read_from_prefix(bytes) else { continue };
                let alternate = Alternate { descriptor, endpoints: Vec::new() };
                let at = interfaces.iter().position(|(number, _)| *number == descriptor.number);
                let at = at.unwrap_or_else(|| {
                    interfaces.push((descriptor.number, Vec::new()));
                    interfaces.len() - 1
                });
                interfaces[at].1.push(alternate);
                current = Some(at);
            } else if kind == DescriptorType::Endpoint {
                let Ok((endpoint, _)) = EndpointDescriptor::read_from_prefix(bytes) else { continue };
                if let Some(alternate) = current.and_then(|at| interfaces[at].1.last_mut()) {
                    alternate.endpoints.push(endpoint);
                }
            }
        }
        Some(Self { descriptor, interfaces })
    }

    fn alternates(&self, interface: u8) -> Option<&[Alternate]> {
        self.interfaces.iter().find(|(number, _)| *number == interface).map(|(_, alternates)| alternates.as_slice())
    }
}

/// Configurations and what is selected.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) device: DeviceDescriptor,
    pub(crate) configurations: Arc<[Configuration]>,
    /// The active configuration's value; 0 for none.
    pub(crate) active: u8,
    /// Alternate settings other than 0.
    pub(crate) alternates: BTreeMap<u8, u8>,
}

impl Settings {
    pub(crate) fn parse(info: &DeviceInfo) -> Result<Self, AttachError> {
        let bytes = &info.descriptors[..];
        let error = || AttachError::Descriptors { length: bytes.len() };
        let (device, mut rest) = DeviceDescriptor::read_from_prefix(bytes).map_err(|_| error())?;
        if device.descriptor_type != DescriptorType::Device.0 {
            return Err(error());
        }
        let mut configurations = Vec::new();
        for _ in 0..device.configurations {
            let (head, _) = ConfigurationDescriptor::read_from_prefix(rest).map_err(|_| error())?;
            let length = usize::from(head.total_length.get());
            if head.descriptor_type != DescriptorType::Configuration.0
                || length < size_of_val(&head)
                || length > rest.len()
            {
                return Err(error());
            }
            configurations.push(Configuration::parse(&rest[..length]).ok_or_else(error)?);
            rest = &rest[length..];
        }
        Ok(Self {
            device,
            configurations: configurations.into(),
            active: info.configuration,
            alternates: BTreeMap::new(),
        })
    }

    pub(crate) fn configuration(&self) -> Option<&Configuration> {
        self.configurations.iter().find(|configuration| configuration.descriptor.value == self.active)
    }

    pub(crate) fn has_configuration(&self, value: u8) -> bool {
        self.configurations.iter().any(|configuration| configuration.descriptor.value == value)
    }

    pub(crate) fn has_interface(&self, interface: u8) -> bool {
        self.configuration().is_some_and(|configuration| configuration.alternates(interface).is_some())
    }

    pub(crate) fn alternate(&self, interface: u8, alternate: u8) -> Option<&Alternate> {
        let alternates = self.configuration()?.alternates(interface)?;
        alternates.iter().find(|setting| setting.descriptor.alternate == alternate)
    }

    pub(crate) fn selected(&self, interface: u8) -> u8 {
        self.alternates.get(&interface).copied().unwrap_or(0)
    }

    /// The interface with this endpoint in any of its alternate settings (core/devio.c, `findintfep`).
    pub(crate) fn interface_of(&self, endpoint: EndpointAddress) -> Option<u8> {
        let configuration = self.configuration()?;
        let has = |alternate: &Alternate| alternate.endpoints.iter().any(|has| has.endpoint() == endpoint);
        configuration.interfaces.iter().find(|(_, alternates)| alternates.iter().any(has)).map(|(number, _)| *number)
    }

    /// The endpoint, if a selected alternate setting has it.
    pub(crate) fn endpoint(&self, endpoint: EndpointAddress) -> Option<EndpointDescriptor> {
        let configuration = self.configuration()?;
        configuration.interfaces.iter().find_map(|(number, _)| {
            let alternate = self.alternate(*number, self.selected(*number))?;
            alternate.endpoints.iter().find(|has| has.endpoint() == endpoint).copied()
        })
    }

    /// A configuration was selected: every interface is in setting 0.
    pub(crate) fn select(&mut self, configuration: u8) {
        self.active = configuration;
        self.alternates.clear();
    }

    pub(crate) fn select_alternate(&mut self, interface: u8, alternate: u8) {
        if alternate == 0 {
            self.alternates.remove(&interface);
        } else {
            self.alternates.insert(interface, alternate);
        }
    }
}
