//! What is known of a device when it appears.

use usb::Speed;

use crate::AttachError;

/// A device as the host knows it after enumeration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Bus number, from 1.
    pub bus: u8,
    /// Device address, 2 to 127: 1 is the root hub's.
    pub address: u8,
    /// Ports from the root hub down, 1 to 15 each: `[1, 3]` for `5-1.3`. Hubs on the way appear by themselves.
    pub ports: Vec<u8>,
    /// Bus speed.
    pub speed: Speed,
    /// The device descriptor, then each configuration whole, as the device sent them (sysfs `descriptors`).
    pub descriptors: Vec<u8>,
    /// The active configuration's value; 0 for none.
    pub configuration: u8,
    /// Text of the manufacturer string.
    pub manufacturer: Option<String>,
    /// Text of the product string.
    pub product: Option<String>,
    /// Text of the serial number string.
    pub serial: Option<String>,
    /// Interfaces that a driver of the kernel holds when the device appears, as `(0, "rndis_host")`. A client must detach
    /// it first, as on a real host.
    pub kernel_drivers: Vec<(u8, String)>,
    /// Whether the host controller takes a bulk transfer of any length in one piece
    /// (`USBDEVFS_CAP_BULK_SCATTER_GATHER`). If not, libusb splits it into 16 KiB URBs.
    pub scatter_gather: bool,
}

impl DeviceInfo {
    /// The deepest chain of ports (USB 2.0 §4.1.1: five hubs below the root).
    const MOST_PORTS: usize = 6;
    /// Ports of every hub here; a bus of the kernel's has at most 31 (`USB_MAXCHILDREN`), a real hub at most 15.
    pub(crate) const HUB_PORTS: u8 = 15;

    /// A device in its first configuration, without strings and drivers.
    #[must_use]
    pub fn new(bus: u8, address: u8, ports: &[u8], speed: Speed, descriptors: Vec<u8>) -> Self {
        // bConfigurationValue of the configuration that follows the device descriptor (USB 2.0 §9.6.3).
        let configuration = descriptors.get(18 + 5).copied().unwrap_or(0);
        Self {
            bus,
            address,
            ports: ports.to_vec(),
            speed,
            descriptors,
            configuration,
            manufacturer: None,
            product: None,
            serial: None,
            kernel_drivers: Vec::new(),
            scatter_gather: true,
        }
    }

    /// The device's name in sysfs: `5-1.3`, for the root hub `usb5`.
    #[must_use]
    pub fn name(&self) -> String {
        name(self.bus, &self.ports)
    }

    /// The path of the device's node.
    #[must_use]
    pub fn node(&self) -> String {
        format!("/dev/bus/usb/{:03}/{:03}", self.bus, self.address)
    }

    /// Minor number of the device's node (core/usb.c, `usb_device_devt`).
    pub(crate) fn minor(&self) -> u32 {
        (u32::from(self.bus).saturating_sub(1)) * 128 + u32::from(self.address).saturating_sub(1)
    }

    pub(crate) fn check(&self) -> Result<(), AttachError> {
        Self::check_ports(self.bus, &self.ports)?;
        if (2..=127).contains(&self.address) { Ok(()) } else { Err(AttachError::Address(self.address)) }
    }

    /// Whether a device can be attached at these ports, as long as nothing else is.
    ///
    /// # Errors
    /// [`AttachError::Place`], if a bus has no such place.
    pub fn check_ports(bus: u8, ports: &[u8]) -> Result<(), AttachError> {
        let place = bus > 0
            && (1..=Self::MOST_PORTS).contains(&ports.len())
            && ports.iter().all(|port| (1..=Self::HUB_PORTS).contains(port));
        if place { Ok(()) } else { Err(AttachError::Place { bus, ports: ports.to_vec() }) }
    }
}

/// The name in sysfs of what is at `ports`.
pub(crate) fn name(bus: u8, ports: &[u8]) -> String {
    if ports.is_empty() { format!("usb{bus}") } else { format!("{bus}-{}", devpath(ports)) }
}

/// The port path without its bus: `1.3`, for the root hub `0` (sysfs `devpath`).
pub(crate) fn devpath(ports: &[u8]) -> String {
    if ports.is_empty() {
        return "0".to_owned();
    }
    ports.iter().map(u8::to_string).collect::<Vec<_>>().join(".")
}
