//! Hubs: the root hub of each bus and those on the way to a device. They hold the tree together and answer what
//! `lsusb -v` asks (USB 2.0 chapter 11); they forward nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use usb::ch9::{DescriptorType, Direction, RequestType, language_descriptor, string_descriptor};
use usb::urb::{Transfer, Urb, UrbDone, UrbError};
use usb::{EndpointAddress, SetupPacket, Speed};

use crate::DeviceInfo;
use crate::backend::{Backend, Done};

const MANUFACTURER: &str = "usbfs-shim";
const ROOT_PRODUCT: &str = "Virtual root hub";
const PRODUCT: &str = "Virtual hub";
/// The kernel's driver of every hub.
const DRIVER: &str = "hub";

/// What is plugged into each port.
pub(crate) type Ports = Arc<Mutex<BTreeMap<u8, Speed>>>;

/// A hub's device and what it answers.
pub(crate) struct Hub {
    ports: Ports,
    product: &'static str,
    descriptors: Vec<u8>,
    /// Reads of the status endpoint: nothing ever changes there, they wait until they are taken back.
    waiting: Mutex<BTreeMap<u64, (Urb, Done)>>,
    next: AtomicU64,
}

impl Hub {
    pub(crate) fn new(is_root: bool, ports: Ports) -> Self {
        let product = if is_root { ROOT_PRODUCT } else { PRODUCT };
        Self { ports, product, descriptors: descriptors(is_root), waiting: Mutex::default(), next: AtomicU64::new(1) }
    }

    /// The hub as a device.
    pub(crate) fn info(&self, bus: u8, address: u8, ports: &[u8]) -> DeviceInfo {
        let mut info = DeviceInfo::new(bus, address, ports, Speed::High, self.descriptors.clone());
        info.manufacturer = Some(MANUFACTURER.to_owned());
        info.product = Some(self.product.to_owned());
        info.kernel_drivers = vec![(0, DRIVER.to_owned())];
        info
    }

    fn control(&self, setup: &SetupPacket) -> Result<Vec<u8>, UrbError> {
        let index = setup.index.get();
        match (setup.request_type, setup.request) {
            (0x80, 6) => self.descriptor(setup.value.get()),
            (0x80, 8) => Ok(vec![1]),
            // Self powered; interface and endpoint: nothing.
            (0x80, 0) => Ok(vec![1, 0]),
            (0x81 | 0x82, 0) => Ok(vec![0, 0]),
            (0x81, 10) => Ok(vec![0]),
            (0xa0, 6) => Ok(hub_descriptor()),
            (0xa0, 0) => Ok(vec![0; 4]),
            (0xa3, 0) => self.port_status(index),
            (_, _) if setup.direction() == Direction::Out && setup.kind() == RequestType::Class => Ok(Vec::new()),
            _ => Err(UrbError::Stall),
        }
    }

    fn descriptor(&self, value: u16) -> Result<Vec<u8>, UrbError> {
        let index = value as u8;
        match DescriptorType((value >> 8) as u8) {
            DescriptorType::Device => Ok(self.descriptors[..18].to_vec()),
            DescriptorType::Configuration if index == 0 => Ok(self.descriptors[18..].to_vec()),
            // bcdUSB 2.00, hub, one transaction translator or none, 64 bytes, one configuration.
            DescriptorType::DeviceQualifier => Ok(vec![10, 6, 0, 2, 9, 0, 0, 64, 1, 0]),
            DescriptorType::String => match index {
                0 => Ok(language_descriptor(&[0x0409])),
                1 => Ok(string_descriptor(MANUFACTURER)),
                2 => Ok(string_descriptor(self.product)),
                _ => Err(UrbError::Stall),
            },
            _ => Err(UrbError::Stall),
        }
    }

    /// wPortStatus and wPortChange (USB 2.0 §11.24.2.7).
    fn port_status(&self, port: u16) -> Result<Vec<u8>, UrbError> {
        const POWER: u16 = 1 << 8;
        const LOW_SPEED: u16 = 1 << 9;
        const HIGH_SPEED: u16 = 1 << 10;
        const CONNECTED_AND_ENABLED: u16 = 0b11;
        let port = u8::try_from(port).ok().filter(|port| (1..=DeviceInfo::HUB_PORTS).contains(port));
        let port = port.ok_or(UrbError::Stall)?;
        let status = match self.ports.lock().get(&port) {
            None => POWER,
            Some(Speed::Low) => POWER | CONNECTED_AND_ENABLED | LOW_SPEED,
            Some(Speed::Full) => POWER | CONNECTED_AND_ENABLED,
            Some(Speed::High) => POWER | CONNECTED_AND_ENABLED | HIGH_SPEED,
        };
        Ok([status.to_le_bytes(), [0, 0]].concat())
    }
}

/// Device and configuration (USB 2.0 §11.23.1).
fn descriptors(is_root: bool) -> Vec<u8> {
    // 1d6b:0002 is the root hub of the kernel (core/hcd.c); the other is for hubs of software.
    let product: u16 = if is_root { 0x0002 } else { 0x0104 };
    let [low, high] = product.to_le_bytes();
    let protocol = u8::from(!is_root);
    let mut bytes = vec![18, 1, 0x00, 0x02, 9, 0, protocol, 64, 0x6b, 0x1d, low, high, 0x01, 0x06, 1, 2, 0, 1];
    bytes.extend([9, 2, 25, 0, 1, 1, 0, 0xe0, 0]);
    bytes.extend([9, 4, 0, 0, 1, 9, 0, 0, 0]);
    bytes.extend([7, 5, 0x81, 3, 4, 0, 12]);
    bytes
}

/// USB 2.0 §11.23.2.1: no power switching, no over-current protection.
fn hub_descriptor() -> Vec<u8> {
    let bitmap = usize::from(DeviceInfo::HUB_PORTS) / 8 + 1;
    let mut bytes = vec![0, 0x29, DeviceInfo::HUB_PORTS, 0x0a, 0x00, 10, 0];
    bytes.extend(vec![0x00; bitmap]);
    bytes.extend(vec![0xff; bitmap]);
    bytes[0] = bytes.len() as u8;
    bytes
}

impl Backend for Hub {
    fn submit(&self, urb: Urb, done: Done) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let Transfer::Control(setup) = urb.transfer else {
            self.waiting.lock().insert(id, (urb, done));
            return id;
        };
        let mut buffer = urb.buffer;
        let (actual, status) = match self.control(&setup) {
            Ok(bytes) if setup.direction() == Direction::In => {
                let actual = bytes.len().min(buffer.len());
                buffer[..actual].copy_from_slice(&bytes[..actual]);
                (actual, Ok(()))
            }
            Ok(_) => (buffer.len(), Ok(())),
            Err(error) => (0, Err(error)),
        };
        done(UrbDone { buffer, actual, status });
        id
    }

    fn cancel(&self, id: u64) {
        let waiting = self.waiting.lock().remove(&id);
        if let Some((urb, done)) = waiting {
            done(UrbDone { buffer: urb.buffer, actual: 0, status: Err(UrbError::Unlinked) });
        }
    }

    fn set_configuration(&self, _value: u8) -> Result<(), UrbError> {
        Ok(())
    }

    fn set_interface(&self, _interface: u8, _alternate: u8) -> Result<(), UrbError> {
        Ok(())
    }

    fn clear_halt(&self, _endpoint: EndpointAddress) -> Result<(), UrbError> {
        Ok(())
    }

    fn reset(&self) -> Result<(), UrbError> {
        Ok(())
    }
}
