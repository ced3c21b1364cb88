//! What a device says of itself, read and announced as `usb_new_device` does.

use std::sync::Arc;

use usb::ch9::{ConfigurationDescriptor, DescriptorType, DeviceDescriptor, DeviceQualifier};
use usb::urb::UrbError;

use crate::bus::Bus;
use crate::configuration::Configuration;
use crate::error::HubError;
use crate::strings::{Language, read_string};

/// USB_MAXCONFIG.
const MOST_CONFIGURATIONS: u8 = 8;

/// The strings of the device descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    /// iManufacturer's text.
    pub manufacturer: Option<String>,
    /// iProduct's text.
    pub product: Option<String>,
    /// iSerialNumber's text.
    pub serial: Option<String>,
}

/// `check_highspeed`: a full-speed device with a qualifier could run at high speed.
pub(crate) async fn check_highspeed(bus: &Arc<Bus>, address: u8) {
    const LENGTH: usize = size_of::<DeviceQualifier>();
    let qualifier = bus.get_descriptor(address, DescriptorType::DeviceQualifier, 0, LENGTH as u16).await;
    if qualifier.is_ok_and(|bytes| bytes.len() == LENGTH) {
        bus.log_device("not running at top speed; connect to a high speed hub");
    }
}

/// `usb_get_configuration`: all configurations, each in two reads.
pub(crate) async fn read_configurations(
    bus: &Arc<Bus>,
    address: u8,
    descriptor: &DeviceDescriptor,
) -> Result<Vec<Configuration>, HubError> {
    let mut count = descriptor.configurations;
    if count > MOST_CONFIGURATIONS {
        bus.log_device(format_args!("too many configurations: {count}, using maximum allowed: {MOST_CONFIGURATIONS}"));
        count = MOST_CONFIGURATIONS;
    }
    if count == 0 {
        bus.log_device("no configurations");
        return Err(UrbError::Invalid.into());
    }
    let mut configurations = Vec::with_capacity(count.into());
    for index in 0..count {
        match read_configuration(bus, address, index).await? {
            Some(configuration) => configurations.push(configuration),
            None => break,
        }
    }
    Ok(configurations)
}

/// `None` when the device refuses to describe it: it has fewer than it said.
async fn read_configuration(bus: &Arc<Bus>, address: u8, index: u8) -> Result<Option<Configuration>, HubError> {
    const LENGTH: u16 = size_of::<ConfigurationDescriptor>() as u16;
    let start = match bus.get_descriptor(address, DescriptorType::Configuration, index, LENGTH).await {
        Ok(start) => start,
        Err(error) => {
            let number = error.errno();
            bus.log_device(format_args!("unable to read config index {index} descriptor/start: {number}"));
            if error != HubError::Urb(UrbError::Stall) {
                return Err(error);
            }
            bus.log_device(format_args!("chopping to {index} config(s)"));
            return Ok(None);
        }
    };
    let &[_, _, low, high, ..] = start.as_slice() else {
        let got = start.len();
        bus.log_device(format_args!("config index {index} descriptor too short (expected {LENGTH}, got {got})"));
        return Err(UrbError::Invalid.into());
    };
    let length = u16::from_le_bytes([low, high]).max(LENGTH);
    let all = bus.get_descriptor(address, DescriptorType::Configuration, index, length).await.inspect_err(|_| {
        bus.log_device(format_args!("unable to read config index {index} descriptor/all"));
    })?;
    if all.len() < length.into() {
        let got = all.len();
        bus.log_device(format_args!("config index {index} descriptor too short (expected {length}, got {got})"));
    }
    Configuration::parse(index, all, |note| bus.log_device(note)).map(Some).ok_or(UrbError::Invalid.into())
}

/// The three strings, in the kernel's order.
pub(crate) async fn read_strings(
    bus: &Arc<Bus>,
    address: u8,
    language: &Language,
    descriptor: &DeviceDescriptor,
) -> Strings {
    let product = read_string(bus, address, language, descriptor.product_index).await;
    let manufacturer = read_string(bus, address, language, descriptor.manufacturer_index).await;
    let serial = read_string(bus, address, language, descriptor.serial_index).await;
    Strings { manufacturer, product, serial }
}

/// `announce_device`.
pub(crate) fn announce(bus: &Bus, descriptor: &DeviceDescriptor, strings: &Strings) {
    let [minor, major] = descriptor.bcd_device.get().to_le_bytes();
    bus.log_device(format_args!(
        "New USB device found, idVendor={:04x}, idProduct={:04x}, bcdDevice={major:2x}.{minor:02x}",
        descriptor.vendor, descriptor.product
    ));
    bus.log_device(format_args!(
        "New USB device strings: Mfr={}, Product={}, SerialNumber={}",
        descriptor.manufacturer_index, descriptor.product_index, descriptor.serial_index
    ));
    let shown =
        [("Product", &strings.product), ("Manufacturer", &strings.manufacturer), ("SerialNumber", &strings.serial)];
    for (name, text) in shown {
        if let Some(text) = text {
            bus.log_device(format_args!("{name}: {text}"));
        }
    }
}
