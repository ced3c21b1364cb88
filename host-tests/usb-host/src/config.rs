//! Where the port is, and what the host is called.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;
use usb::ch9::Speed;

/// A port's place: bus number and the port numbers from the root hub down, `5-1.3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortPath {
    /// Bus number.
    pub bus: u8,
    /// Ports from the root hub down; not empty.
    pub ports: Vec<u8>,
}

/// Why a text names no port.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is no port: it should look like 5-1.3, a bus and one to six ports")]
pub struct PortPathError(String);

impl PortPath {
    /// The most hubs and ports in a row (USB 2.0 §4.1.1: five hubs below the root).
    const MOST_PORTS: usize = 6;

    /// The ports: `1.3` (`devpath`).
    #[must_use]
    pub fn devpath(&self) -> String {
        self.ports.iter().map(u8::to_string).collect::<Vec<_>>().join(".")
    }

    /// Whether the port is the root hub's own.
    #[must_use]
    pub fn on_root_hub(&self) -> bool {
        self.ports.len() < 2
    }

    /// The port's device name: `5-1-port3`, on the root hub `usb5-port3`.
    #[must_use]
    pub fn port_name(&self) -> String {
        match self.ports.split_last() {
            Some((port, [])) => format!("usb{}-port{port}", self.bus),
            Some((port, hubs)) => {
                let hub = Self { bus: self.bus, ports: hubs.to_vec() };
                format!("{hub}-port{port}")
            }
            None => format!("usb{}-port0", self.bus),
        }
    }
}

impl fmt::Display for PortPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.bus, self.devpath())
    }
}

impl FromStr for PortPath {
    type Err = PortPathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Digits only: `parse` would take a sign.
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let number = |text: &str| text.parse::<u8>().ok().filter(|&number| number > 0 && digits(text));
        let parse = || {
            let (bus, ports) = text.split_once('-')?;
            let ports = ports.split('.').map(number).collect::<Option<Vec<_>>>()?;
            (ports.len() <= Self::MOST_PORTS).then_some(Self { bus: number(bus)?, ports })
        };
        parse().ok_or_else(|| PortPathError(text.to_owned()))
    }
}

/// The host controller's driver. It decides how a device gets its address (core/hub.c, `hub_set_address`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hcd {
    /// SET_ADDRESS is part of a command to the controller (Address Device, xHCI §4.6.5), which the driver aborts with -62
    /// after five seconds and which ends with -71 whenever the device does not acknowledge (host/xhci.c,
    /// `xhci_setup_device`). An xHCI chooses the address itself; this one takes the device's number.
    #[default]
    Xhci,
    /// SET_ADDRESS is a control transfer like others.
    Ehci,
}

impl fmt::Display for Hcd {
    /// The driver's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Xhci => "xhci_hcd",
            Self::Ehci => "ehci-pci",
        })
    }
}

/// A host, as its log shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// The port.
    pub port: PortPath,
    /// The host controller's driver.
    pub hcd: Hcd,
    /// The host controller's bus name: `0000:31:00.3`.
    pub pci: String,
    /// The first device number that is tried.
    pub first_device_number: u8,
    /// The fastest speed of the hub: [`Speed::Full`] or [`Speed::High`].
    pub max_speed: Speed,
    /// Time since the machine's start when the host starts to run.
    pub origin: Duration,
    /// The configuration to select, instead of the one that Linux chooses.
    pub configuration: Option<u8>,
    /// Time between the three tries of a transaction without a handshake, at least; zero: at once, as controllers do.
    ///
    /// On a wire without delay three tries take no time, and a device is silent while its driver is about to serve an
    /// interrupt, to take its address for instance. A device that runs in real time wants some milliseconds here.
    pub strike_interval: Duration,
    /// Whether a transfer's packets move in [`crate::Host::run`] alone. Else they move in the call that submits it, as far
    /// as they can, and one that finds its device ready is over before the submitting side has a look at anything else.
    pub deferred: bool,
}

impl Default for HostConfig {
    /// Port `5-1.3` of the recorded session, with its xHCI; high speed.
    fn default() -> Self {
        Self {
            port: PortPath { bus: 5, ports: vec![1, 3] },
            hcd: Hcd::default(),
            pci: "0000:31:00.3".to_owned(),
            first_device_number: 1,
            max_speed: Speed::High,
            origin: Duration::ZERO,
            configuration: None,
            strike_interval: Duration::ZERO,
            deferred: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_the_kernels_names() {
        let port: PortPath = "5-1.3".parse().unwrap();
        assert_eq!(
            (port.to_string(), port.port_name(), port.devpath()),
            ("5-1.3".into(), "5-1-port3".into(), "1.3".into())
        );
        let root: PortPath = "2-4".parse().unwrap();
        assert_eq!((root.to_string(), root.port_name()), ("2-4".into(), "usb2-port4".into()));
        for wrong in ["", "5", "5-", "0-1", "5-0", "5-1.", "5-1.300", "x-1", "5-1.1.1.1.1.1.1", "+5-1", "5-+1"] {
            assert!(wrong.parse::<PortPath>().is_err(), "{wrong}");
        }
    }
}
