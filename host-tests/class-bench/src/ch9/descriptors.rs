//! Whether descriptors are well-formed and agree with each other and with the peripheral (USB 2.0 §9.6).

use std::collections::{BTreeMap, BTreeSet};

use usb::ch9::{
    ConfigurationDescriptor, DescriptorType, EndpointAddress, EndpointDescriptor, InterfaceDescriptor, TransferType,
    descriptors,
};
use zerocopy::FromBytes;

use super::report::Outcome;
use super::session::{ADDRESS, Session, State, show};
use super::shape::Shape;

/// What is wrong, or nothing.
#[derive(Default)]
struct Wrong(Vec<String>);

impl Wrong {
    fn unless(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(what());
        }
    }

    fn result(self) -> Result<String, String> {
        if self.0.is_empty() { Ok("sound".to_owned()) } else { Err(self.0.join("; ")) }
    }
}

pub(super) async fn check(session: &mut Session<'_>, shape: &Shape) {
    device(session, shape);
    configuration(session, shape);
    interfaces(session, shape);
    endpoints(session, shape);
    peripheral(session, shape);
    associations(session, shape);
    if let Err(why) = session.enter(State::Address).await {
        return session.note("descriptors.strings", "USB 2.0 §9.6.7", Outcome::Failed, why);
    }
    debug_assert_eq!(session.address, ADDRESS);
    strings(session, shape).await;
    object_store(session, shape).await;
    stable(session, shape).await;
}

fn device(session: &mut Session<'_>, shape: &Shape) {
    let device = &shape.device;
    let mut wrong = Wrong::default();
    wrong.unless(device.length == 18, || format!("bLength is {}", device.length));
    let bcd = device.bcd_usb.get();
    let digits = [bcd >> 12, bcd >> 8 & 15, bcd >> 4 & 15, bcd & 15];
    wrong.unless(bcd >= 0x0100 && digits.iter().all(|&digit| digit < 10), || format!("bcdUSB is {bcd:#06x}"));
    wrong.unless(device.class != 0 || device.sub_class == 0, || "a subclass without a class".to_owned());
    wrong.unless(device.configurations > 0, || "no configurations".to_owned());
    session.result("descriptors.device", "USB 2.0 §9.6.1", wrong.result());

    let size = u16::from(device.max_packet_size0);
    let mut wrong = Wrong::default();
    let allowed: &[u16] = if shape.high_speed { &[64] } else { &[8, 16, 32, 64] };
    wrong.unless(allowed.contains(&size), || format!("bMaxPacketSize0 is {size}"));
    let real = session.host.shared.state.lock().endpoint(EndpointAddress::out(0)).map(|endpoint| endpoint.max_packet);
    wrong.unless(real == Some(size), || format!("bMaxPacketSize0 is {size}, the peripheral's is {real:?}"));
    session.result("descriptors.device.max_packet0", "USB 2.0 §5.5.3", wrong.result());
}

fn configuration(session: &mut Session<'_>, shape: &Shape) {
    let bytes = &shape.configuration;
    let Ok((header, _)) = ConfigurationDescriptor::read_from_prefix(bytes) else {
        let detail = format!("{} bytes", bytes.len());
        return session.note("descriptors.configuration", "USB 2.0 §9.6.3", Outcome::Failed, detail);
    };
    let mut wrong = Wrong::default();
    wrong.unless(header.length == 9 && header.descriptor_type == 2, || format!("begins with {:02x?}", &bytes[..2]));
    wrong.unless(header.value != 0, || "bConfigurationValue is 0".to_owned());
    wrong.unless(header.attributes & 0x80 != 0, || "bit 7 of bmAttributes is 0".to_owned());
    wrong.unless(header.attributes & 0x1f == 0, || "reserved bits of bmAttributes are not 0".to_owned());
    wrong.unless(header.max_power <= 250, || format!("bMaxPower is {} mA", u16::from(header.max_power) * 2));
    session.result("descriptors.configuration", "USB 2.0 §9.6.3", wrong.result());

    let mut wrong = Wrong::default();
    let total = usize::from(header.total_length.get());
    let walked: usize = descriptors(bytes).map(|(_, descriptor)| descriptor.len()).sum();
    wrong.unless(total == bytes.len(), || format!("wTotalLength is {total}, {} bytes come", bytes.len()));
    wrong.unless(walked == bytes.len(), || format!("the descriptors' lengths add up to {walked} of {}", bytes.len()));
    session.result("descriptors.configuration.total_length", "USB 2.0 §9.6.3", wrong.result());
}

fn interfaces(session: &mut Session<'_>, shape: &Shape) {
    let alternates = shape.alternates();
    let mut settings: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    let mut counts = Wrong::default();
    for (interface, endpoints) in &alternates {
        let InterfaceDescriptor { number, alternate, endpoints: said, .. } = *interface;
        settings.entry(number).or_default().push(alternate);
        counts.unless(usize::from(said) == endpoints.len(), || {
            format!("interface {number}.{alternate} says {said} endpoints and has {}", endpoints.len())
        });
    }
    session.result("descriptors.interface.endpoints", "USB 2.0 §9.6.5", counts.result());
    let mut wrong = Wrong::default();
    let said = shape.header().map_or(0, |header| usize::from(header.interfaces));
    wrong.unless(said == settings.len(), || format!("bNumInterfaces is {said}, there are {}", settings.len()));
    for (expected, &number) in settings.keys().enumerate() {
        wrong.unless(expected == usize::from(number), || format!("interface {number} should be {expected}"));
    }
    session.result("descriptors.interface.numbers", "USB 2.0 §9.6.5", wrong.result());
    let mut wrong = Wrong::default();
    for (number, settings) in &settings {
        let expected: Vec<u8> = (0..=u8::MAX).take(settings.len()).collect();
        let mut sorted = settings.clone();
        sorted.sort_unstable();
        wrong.unless(sorted == expected, || format!("interface {number} has the alternate settings {settings:?}"));
    }
    session.result("descriptors.interface.alternates", "USB 2.0 §9.6.5", wrong.result());
}

fn endpoints(session: &mut Session<'_>, shape: &Shape) {
    let mut addresses = Wrong::default();
    let mut sizes = Wrong::default();
    let mut intervals = Wrong::default();
    let mut owners: BTreeMap<u8, BTreeSet<u8>> = BTreeMap::new();
    for (interface, endpoints) in shape.alternates() {
        let InterfaceDescriptor { number, alternate, .. } = interface;
        let mut seen = BTreeSet::new();
        for endpoint in endpoints {
            let EndpointDescriptor { address, attributes, interval, .. } = endpoint;
            let name = endpoint.endpoint();
            owners.entry(address).or_default().insert(number);
            addresses.unless(address & 0x0f != 0, || format!("interface {number}.{alternate} describes endpoint 0"));
            addresses.unless(address & 0x70 == 0, || format!("reserved bits of bEndpointAddress {address:#04x}"));
            addresses.unless(seen.insert(address), || format!("interface {number}.{alternate} has {name} twice"));
            let reserved = if attributes & 3 == 1 { 0xc0 } else { 0xfc };
            addresses.unless(attributes & reserved == 0, || format!("reserved bits of {name}'s bmAttributes"));
            let size = endpoint.max_packet();
            let sound = match (endpoint.transfer_type(), shape.high_speed) {
                (TransferType::Bulk, true) => size == 512,
                (TransferType::Bulk, false) => matches!(size, 8 | 16 | 32 | 64),
                (TransferType::Interrupt, false) => size <= 64,
                (TransferType::Interrupt | TransferType::Isochronous, true) => size <= 1024,
                (TransferType::Isochronous, false) => size <= 1023,
                (TransferType::Control, _) => matches!(size, 8 | 16 | 32 | 64),
            };
            let kind = endpoint.transfer_type();
            sizes.unless(sound, || format!("{name}: {size} bytes for {kind:?} transfers"));
            let quiet = kind != TransferType::Isochronous || alternate != 0 || size == 0;
            sizes.unless(quiet, || format!("{name} takes isochronous bandwidth in setting 0 (§5.6.3)"));
            let periodic = match (kind, shape.high_speed) {
                (TransferType::Interrupt, false) => interval != 0,
                (TransferType::Interrupt, true) | (TransferType::Isochronous, _) => (1..=16).contains(&interval),
                (TransferType::Bulk | TransferType::Control, _) => true,
            };
            intervals.unless(periodic, || format!("{name}: bInterval {interval} for {kind:?} transfers"));
        }
    }
    for (address, interfaces) in owners {
        let name = EndpointAddress::from_byte(address);
        addresses.unless(interfaces.len() == 1, || format!("the interfaces {interfaces:?} share {name} (§9.6.5)"));
    }
    session.result("descriptors.endpoint.addresses", "USB 2.0 §9.6.6", addresses.result());
    session.result("descriptors.endpoint.max_packet", "USB 2.0 §9.6.6", sizes.result());
    session.result("descriptors.endpoint.interval", "USB 2.0 §9.6.6", intervals.result());
}

/// The endpoints that are described are those that were allocated.
fn peripheral(session: &mut Session<'_>, shape: &Shape) {
    let mut wrong = Wrong::default();
    for endpoint in shape.alternates().iter().flat_map(|(_, endpoints)| endpoints) {
        let name = endpoint.endpoint();
        let real = session.host.shared.state.lock().endpoint(name).map(|real| (real.transfer, real.max_packet));
        let described = (endpoint.transfer_type(), endpoint.max_packet());
        wrong.unless(real == Some(described), || match real {
            None => format!("{name} is described and was never allocated"),
            Some(real) => format!("{name} is described as {described:?} and was allocated as {real:?}"),
        });
    }
    session.result("descriptors.endpoint.allocated", "USB 2.0 §9.6.6", wrong.result());
}

/// Interface associations (their ECN; the device's class says that there are some).
fn associations(session: &mut Session<'_>, shape: &Shape) {
    const NAME: &str = "descriptors.associations";
    const CITE: &str = "USB 2.0 ECN Interface Association Descriptors";
    let found: Vec<&[u8]> = descriptors(&shape.configuration)
        .filter(|(kind, _)| *kind == DescriptorType::InterfaceAssociation)
        .map(|(_, bytes)| bytes)
        .collect();
    if found.is_empty() {
        return session.note(NAME, CITE, Outcome::Skipped("there are none"), String::new());
    }
    let mut wrong = Wrong::default();
    let device = &shape.device;
    let class = (device.class, device.sub_class, device.protocol);
    wrong.unless(class == (0xef, 2, 1), || format!("the device's class is {class:02x?}, not EF/02/01"));
    let interfaces: BTreeSet<u8> = shape.alternates().iter().map(|(interface, _)| interface.number).collect();
    for bytes in found {
        let (&[_, _, first, count, ..], 8) = (bytes, bytes.len()) else {
            wrong.unless(false, || format!("an association of {} bytes", bytes.len()));
            continue;
        };
        let all = (u16::from(first)..u16::from(first) + u16::from(count))
            .all(|number| u8::try_from(number).is_ok_and(|number| interfaces.contains(&number)));
        wrong.unless(count > 0 && all, || format!("{count} interfaces from {first} on are not all there"));
    }
    session.result(NAME, CITE, wrong.result());
}

async fn strings(session: &mut Session<'_>, shape: &Shape) {
    const NAME: &str = "descriptors.strings";
    const CITE: &str = "USB 2.0 §9.6.7";
    let device = &shape.device;
    let mut indexes = BTreeSet::from([device.manufacturer_index, device.product_index, device.serial_index]);
    indexes.extend(shape.header().map(|header| header.string_index));
    indexes.extend(shape.alternates().iter().map(|(interface, _)| interface.string_index));
    indexes.remove(&0);
    if indexes.is_empty() {
        return session.note(NAME, CITE, Outcome::Skipped("no descriptor names a string"), String::new());
    }
    let languages = session.descriptor(DescriptorType::String, 0, 0, 255).await;
    let Some(list) = languages.as_deref().ok().filter(|bytes| bytes.len() >= 4) else {
        let detail = format!("the languages are {}", show(&languages));
        return session.note(NAME, CITE, Outcome::Failed, detail);
    };
    let languages: Vec<u16> = list[2..].chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    let mut wrong = Wrong::default();
    for &language in &languages {
        for &index in &indexes {
            let answer = session.descriptor(DescriptorType::String, index, language, 255).await;
            let sound = matches!(&answer, Ok(bytes)
                if bytes.len() >= 2 && bytes.len().is_multiple_of(2) && usize::from(bytes[0]) == bytes.len() && bytes[1] == 3);
            wrong.unless(sound, || format!("string {index} in language {language:#06x}: {}", show(&answer)));
        }
    }
    session.result(NAME, CITE, wrong.result());
}

/// The binary device object store, which a device with bcdUSB 2.01 or more has.
async fn object_store(session: &mut Session<'_>, shape: &Shape) {
    const NAME: &str = "descriptors.bos";
    const CITE: &str = "USB 3.2 §9.6.2";
    const BOS: DescriptorType = DescriptorType(15);
    if shape.device.bcd_usb.get() < 0x0201 {
        return session.note(NAME, CITE, Outcome::Skipped("bcdUSB is below 2.01"), String::new());
    }
    let answer = session.descriptor(BOS, 0, 0, 4096).await;
    let mut wrong = Wrong::default();
    match &answer {
        Ok(bytes) if bytes.len() >= 5 => {
            let total = usize::from(u16::from_le_bytes([bytes[2], bytes[3]]));
            let walked: usize = descriptors(bytes).map(|(_, descriptor)| descriptor.len()).sum();
            let count = descriptors(bytes).skip(1).count();
            wrong.unless(total == bytes.len(), || format!("wTotalLength is {total}, {} bytes come", bytes.len()));
            wrong.unless(walked == bytes.len(), || format!("lengths add up to {walked} of {}", bytes.len()));
            wrong.unless(count == usize::from(bytes[4]), || {
                format!("bNumDeviceCaps is {}, there are {count}", bytes[4])
            });
        }
        other => wrong.unless(false, || show(other)),
    }
    session.result(NAME, CITE, wrong.result());
}

/// What a device says of itself does not depend on when it is asked.
async fn stable(session: &mut Session<'_>, shape: &Shape) {
    let mut wrong = Wrong::default();
    for state in State::ALL {
        if let Err(why) = session.enter(state).await {
            wrong.unless(false, || why);
            continue;
        }
        let device = session.descriptor(DescriptorType::Device, 0, 0, 18).await;
        wrong.unless(device.as_ref() == Ok(&shape.device_bytes), || {
            format!("{}: the device descriptor is {}", state.name(), show(&device))
        });
        let configuration = session.descriptor(DescriptorType::Configuration, 0, 0, 4096).await;
        wrong.unless(configuration.as_ref() == Ok(&shape.configuration), || {
            format!("{}: the configuration is {}", state.name(), show(&configuration))
        });
    }
    session.result("descriptors.stable", "USB 2.0 §9.5", wrong.result());
}
