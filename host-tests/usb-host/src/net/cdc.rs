//! The class descriptors of a communications device (CDC 1.2 §5.2.3) and what they say of a network function.

use usb::ch9::{DescriptorType, Direction, EndpointDescriptor, TransferType};
use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::choice::{is_activesync, is_rndis};
use crate::configuration::{AltSetting, Configuration, Interface};
use crate::device::Device;
use crate::net::NetError;

/// Data interface class (CDC 1.2 §4.5).
const CLASS_CDC_DATA: u8 = 0x0a;

/// Bytes of a notification's header (CDC 1.2 §6.3; `struct usb_cdc_notification`).
pub const NOTIFICATION_LENGTH: usize = 8;

/// Union functional descriptor with one subordinate (CDC 1.2 §5.2.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct UnionDescriptor {
    /// `bFunctionLength`, 5 or more
    pub length: u8,
    /// `bDescriptorType`, CS_INTERFACE
    pub descriptor_type: u8,
    /// `bDescriptorSubtype`, 6
    pub sub_type: u8,
    /// `bControlInterface`
    pub control: u8,
    /// `bSubordinateInterface0`
    pub data: u8,
}

const _: () = assert!(size_of::<UnionDescriptor>() == 5);

/// Ethernet networking functional descriptor (CDC ECM 1.2 §5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct EthernetDescriptor {
    /// `bFunctionLength`, 13
    pub length: u8,
    /// `bDescriptorType`, CS_INTERFACE
    pub descriptor_type: u8,
    /// `bDescriptorSubtype`, 15
    pub sub_type: u8,
    /// `iMACAddress`
    pub mac_index: u8,
    /// `bmEthernetStatistics`
    pub statistics: U32,
    /// `wMaxSegmentSize`
    pub max_segment_size: U16,
    /// `wNumberMCFilters`
    pub multicast_filters: U16,
    /// `bNumberPowerFilters`
    pub power_filters: u8,
}

const _: () = assert!(size_of::<EthernetDescriptor>() == 13);

/// What the class descriptors say (`struct usb_cdc_parsed_header`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The header descriptor was there.
    pub header: bool,
    /// The first union descriptor.
    pub union: Option<UnionDescriptor>,
    /// The Ethernet descriptor.
    pub ethernet: Option<EthernetDescriptor>,
    /// `bmCapabilities` of the abstract control model descriptor.
    pub acm_capabilities: Option<u8>,
}

impl Header {
    /// `cdc_parse_cdc_header`. `note` gets the kernel's remarks. Empty when a descriptor is there twice that must not.
    #[must_use]
    pub fn parse(mut bytes: &[u8], mut note: impl FnMut(&str)) -> Self {
        const HEADER: u8 = 0;
        const ACM: u8 = 2;
        const UNION: u8 = 6;
        const ETHERNET: u8 = 15;
        let mut found = Self::default();
        while let Some(&length) = bytes.first() {
            let length = usize::from(length);
            if length == 0 {
                note("skipping garbage byte");
                bytes = &bytes[1..];
                continue;
            }
            if length < 3 || length > bytes.len() {
                note("invalid descriptor buffer length");
                break;
            }
            let (descriptor, rest) = bytes.split_at(length);
            bytes = rest;
            if descriptor[1] != DescriptorType::ClassInterface.0 {
                note("skipping garbage");
                continue;
            }
            match (descriptor[2], length) {
                (HEADER, 5) if found.header => return Self::default(),
                (HEADER, 5) => found.header = true,
                (ACM, 4..) => found.acm_capabilities = Some(descriptor[3]),
                (UNION, 5..) if found.union.is_some() => note("More than one union descriptor, skipping ..."),
                (UNION, 5..) => {
                    found.union = UnionDescriptor::read_from_prefix(descriptor).ok().map(|(union, _)| union)
                }
                (ETHERNET, 13) if found.ethernet.is_some() => return Self::default(),
                (ETHERNET, 13) => found.ethernet = EthernetDescriptor::read_from_bytes(descriptor).ok(),
                _ => {}
            }
        }
        found
    }
}

/// A network function's interfaces and endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Control interface.
    pub(crate) control: u8,
    /// Data interface and the alternate setting with the bulk endpoints.
    pub(crate) data: u8,
    pub(crate) alternate: u8,
    pub(crate) bulk_in: EndpointDescriptor,
    pub(crate) bulk_out: EndpointDescriptor,
    /// The notification endpoint, if it is a good one.
    pub(crate) status: Option<EndpointDescriptor>,
    pub(crate) ethernet: Option<EthernetDescriptor>,
}

/// `usbnet_generic_cdc_bind`, up to the choice of endpoints. `note` gets the remarks on the class descriptors.
pub(crate) fn find_function(
    device: &Device,
    interface: &Interface,
    note: impl FnMut(&str),
) -> Result<Function, NetError> {
    let configuration = device.active_configuration().ok_or(NetError::NoDriver)?;
    let probed = interface.first_alternate().ok_or(NetError::BadDescriptors)?;
    let rndis = is_rndis_like(probed);
    let header = Header::parse(class_descriptors(configuration, probed), note);
    let other_function = is_rndis(&probed.descriptor) && header.acm_capabilities.is_some_and(|bits| bits != 0);
    let pair = find_interfaces(configuration, interface.number, &header, rndis);
    let (control, data) = pair.filter(|_| !other_function).ok_or(NetError::BadDescriptors)?;
    let (alternate, bulk_in, bulk_out) = find_endpoints(data).ok_or(NetError::Urb(usb::urb::UrbError::Invalid))?;
    let status = control.first_alternate().and_then(status_endpoint);
    if rndis && status.is_none() {
        return Err(NetError::NoDriver);
    }
    let (control, data) = (control.number, data.number);
    Ok(Function { control, data, alternate, bulk_in, bulk_out, status, ethernet: header.ethernet })
}

/// RNDIS in its four disguises: 02/02/FF, ActiveSync EF/01/01, E0/01/03, EF/04/01.
pub(crate) fn is_rndis_like(alternate: &AltSetting) -> bool {
    let descriptor = &alternate.descriptor;
    let class = (descriptor.class, descriptor.sub_class, descriptor.protocol);
    is_rndis(descriptor) || is_activesync(descriptor) || matches!(class, (0xe0, 1, 3) | (0xef, 4, 1))
}

/// Where the class descriptors are: at the interface; some firmware has them elsewhere.
fn class_descriptors<'a>(configuration: &'a Configuration, alternate: &'a AltSetting) -> &'a [u8] {
    let endpoint = alternate.endpoints.first().map_or(&[][..], |endpoint| &endpoint.extra);
    let places = [&alternate.extra[..], &configuration.extra, endpoint];
    places.into_iter().find(|bytes| !bytes.is_empty()).unwrap_or_default()
}

/// Control and data interface, as the union descriptor names them in whatever order; for RNDIS without usable union
/// descriptor, interfaces 0 and 1.
fn find_interfaces<'a>(
    configuration: &'a Configuration,
    probed: u8,
    header: &Header,
    rndis: bool,
) -> Option<(&'a Interface, &'a Interface)> {
    let named = header
        .union
        .and_then(|union| Some((configuration.interface(union.control)?, configuration.interface(union.data)?)));
    let Some((master, slave)) = named else {
        let control = configuration.interface(0)?;
        let fits = rndis && control.number == probed;
        return fits.then_some((control, configuration.interface(1)?));
    };
    let (control, data) = match (master.number == probed, slave.number == probed) {
        (true, _) => (master, slave),
        (false, true) => (slave, master),
        (false, false) => return None,
    };
    let class = data.first_alternate()?.descriptor.class;
    let carries_data = control.number == data.number || class == CLASS_CDC_DATA;
    let described = header.header && (rndis || header.ethernet.is_some());
    (carries_data && described).then_some((control, data))
}

/// `usbnet_get_endpoints`: the first alternate setting with a bulk endpoint each way.
fn find_endpoints(data: &Interface) -> Option<(u8, EndpointDescriptor, EndpointDescriptor)> {
    data.alternates.iter().find_map(|alternate| {
        let bulk = |direction| {
            let mut endpoints = alternate.endpoints.iter().map(|endpoint| endpoint.descriptor);
            endpoints.find(|endpoint| {
                endpoint.transfer_type() == TransferType::Bulk
                    && endpoint.endpoint().direction == direction
                    && endpoint.max_packet() > 0
            })
        };
        Some((alternate.descriptor.alternate, bulk(Direction::In)?, bulk(Direction::Out)?))
    })
}

/// The control interface's only endpoint, if it is an interrupt IN endpoint with room for a notification.
fn status_endpoint(alternate: &AltSetting) -> Option<EndpointDescriptor> {
    let [endpoint] = &alternate.endpoints[..] else { return None };
    let endpoint = endpoint.descriptor;
    let sound = endpoint.transfer_type() == TransferType::Interrupt
        && endpoint.endpoint().direction == Direction::In
        && usize::from(endpoint.max_packet()) >= NOTIFICATION_LENGTH
        && endpoint.interval > 0;
    sound.then_some(endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_descriptors_are_checked_at_every_step() {
        let mut notes = Vec::new();
        let mut bytes = vec![5, 0x24, 0, 0x10, 1, 0, 4, 5, 1, 2, 5, 0x24, 6, 0, 1, 5, 0x24, 6, 3, 4];
        bytes.extend([13, 0x24, 15, 3, 0, 0, 0, 0, 0xea, 5, 0, 0, 0, 9, 0x24, 6]);
        let header = Header::parse(&bytes, |note| notes.push(note.to_owned()));
        assert!(header.header);
        assert_eq!(header.union.map(|union| (union.control, union.data)), Some((0, 1)));
        assert_eq!(
            header.ethernet.map(|ethernet| (ethernet.mac_index, ethernet.max_segment_size.get())),
            Some((3, 1514))
        );
        assert_eq!(
            notes,
            [
                "skipping garbage byte",
                "skipping garbage",
                "More than one union descriptor, skipping ...",
                "invalid descriptor buffer length"
            ]
        );
        assert_eq!(Header::parse(&[5, 0x24, 0, 0x10, 1, 5, 0x24, 0, 0x10, 1], |_| {}), Header::default());
    }
}
