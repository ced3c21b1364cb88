//! Which configuration Linux selects (core/generic.c, `usb_choose_configuration`, with rndis_host in the kernel).

use usb::ch9::{DeviceDescriptor, InterfaceDescriptor};

use crate::configuration::Configuration;

/// What a bus-powered hub's port or a self-powered hub's gives, in mA. This host's hub is self-powered.
const BUS_MILLIAMPERES: u16 = 500;

const CLASS_AUDIO: u8 = 0x01;
const CLASS_COMM: u8 = 0x02;
const CLASS_MISC: u8 = 0xef;
const CLASS_VENDOR: u8 = 0xff;
const PROTOCOL_UAC3: u8 = 0x30;

/// RNDIS as the Ethernet gadget announces it: 02/02/FF.
pub(crate) fn is_rndis(interface: &InterfaceDescriptor) -> bool {
    (interface.class, interface.sub_class, interface.protocol) == (CLASS_COMM, 2, 0xff)
}

/// ActiveSync: EF/01/01.
pub(crate) fn is_activesync(interface: &InterfaceDescriptor) -> bool {
    (interface.class, interface.sub_class, interface.protocol) == (CLASS_MISC, 1, 1)
}

/// The choice and what the log says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// `bConfigurationValue`, if there is one to select.
    pub value: Option<u8>,
    /// Configurations that would draw too much.
    pub rejected: usize,
}

/// The configuration to select: the first that is not vendor-specific; a first one with RNDIS only if no other comes.
#[must_use]
pub fn choose_configuration(device: &DeviceDescriptor, configurations: &[Configuration]) -> Choice {
    let mut best: Option<&Configuration> = None;
    let mut rejected = 0;
    for (index, configuration) in configurations.iter().enumerate() {
        let first = configuration.interfaces.first().and_then(|interface| interface.alternates.first());
        let first = first.map(|alternate| &alternate.descriptor);
        if u16::from(configuration.descriptor.max_power) * 2 > BUS_MILLIAMPERES {
            rejected += 1;
            continue;
        }
        if let Some(audio) = first.filter(|interface| interface.class == CLASS_AUDIO) {
            if audio.protocol == PROTOCOL_UAC3 {
                best = Some(configuration);
                break;
            }
            if index == 0 {
                best = Some(configuration);
            }
            continue;
        }
        let microsoft = first.is_some_and(|interface| is_rndis(interface) || is_activesync(interface));
        if index == 0 && configurations.len() > 1 && microsoft {
            best = Some(configuration);
        } else if device.class != CLASS_VENDOR && first.is_some_and(|interface| interface.class != CLASS_VENDOR) {
            best = Some(configuration);
            break;
        } else if best.is_none() {
            best = Some(configuration);
        }
    }
    Choice { value: best.map(|configuration| configuration.descriptor.value), rejected }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::*;

    fn configuration(value: u8, class: [u8; 3], milliamperes: u16) -> Configuration {
        let raw = vec![9, 2, 18, 0, 1, value, 0, 0xc0, (milliamperes / 2) as u8];
        let raw = [raw, vec![9, 4, 0, 0, 0, class[0], class[1], class[2], 0]].concat();
        Configuration::parse(0, raw, |note| panic!("{note}")).unwrap()
    }

    fn chosen(configurations: &[Configuration]) -> Option<u8> {
        choose_configuration(&DeviceDescriptor::new_zeroed(), configurations).value
    }

    #[test]
    fn rndis_gives_way_to_cdc_and_to_no_vendor() {
        let rndis = configuration(2, [2, 2, 0xff], 0);
        let cdc = configuration(1, [2, 6, 0], 0);
        let vendor = configuration(3, [0xff, 0x42, 3], 0);
        assert_eq!(chosen(&[rndis.clone(), cdc.clone()]), Some(1));
        assert_eq!(chosen(std::slice::from_ref(&rndis)), Some(2));
        assert_eq!(chosen(&[rndis, vendor.clone()]), Some(2));
        assert_eq!(chosen(&[vendor.clone(), cdc]), Some(1));
        assert_eq!(chosen(&[vendor]), Some(3));
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn a_hungry_configuration_is_rejected() {
        let hungry = configuration(1, [2, 6, 0], 502);
        let choice =
            choose_configuration(&DeviceDescriptor::new_zeroed(), &[hungry, configuration(2, [8, 6, 80], 500)]);
        assert_eq!(choice, Choice { value: Some(2), rejected: 1 });
    }
}
