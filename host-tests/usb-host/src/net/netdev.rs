//! A network device, as its owner holds it.

use std::sync::Arc;

use thiserror::Error;
use tokio::task::AbortHandle;

use crate::configuration::Interface;
use crate::device::Device;
use crate::net::cdc::{find_function, is_rndis_like};
use crate::net::rndis_host::ControlChannel;
use crate::net::usbnet::UsbNet;
use crate::net::{NetError, cdc_ether, rndis_host};

/// A class driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// CDC Ethernet.
    CdcEther,
    /// Remote NDIS.
    RndisHost,
}

impl Driver {
    /// Its name in Linux.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CdcEther => "cdc_ether",
            Self::RndisHost => "rndis_host",
        }
    }

    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::CdcEther => "CDC Ethernet Device",
            Self::RndisHost => "RNDIS device",
        }
    }

    /// The driver whose table has that interface.
    fn matching(interface: &Interface) -> Option<Self> {
        let alternate = interface.first_alternate()?;
        let descriptor = &alternate.descriptor;
        match (descriptor.class, descriptor.sub_class, descriptor.protocol) {
            (2, 6, 0) => Some(Self::CdcEther),
            _ if is_rndis_like(alternate) => Some(Self::RndisHost),
            _ => None,
        }
    }
}

/// Why a frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// As many frames as may be are on their way.
    #[error("the transmit queue is full")]
    Busy,
    /// No carrier, or the device is gone.
    #[error("the link is down")]
    Down,
    /// Longer than the MTU allows.
    #[error("{length} bytes do not fit into a frame of at most {most}")]
    TooLong {
        /// The frame's length.
        length: usize,
        /// The longest frame.
        most: usize,
    },
}

/// Counts since the driver was bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames received.
    pub rx_frames: u64,
    /// Transfers from the device that failed or held no frame.
    pub rx_errors: u64,
    /// Frames that reached the device.
    pub tx_frames: u64,
    /// Frames that did not.
    pub tx_errors: u64,
}

/// A network device. It moves frames as long as it lives; a frame begins with its Ethernet header and has no checksum.
///
/// [`Device::reset`], [`Device::set_configuration`] and another alternate setting end it: bind it again after them.
pub struct NetDevice {
    shared: Arc<UsbNet>,
    control: u8,
    task: AbortHandle,
}

impl NetDevice {
    /// Binds the driver for the configuration in use, and brings the interface up. Within a tokio runtime.
    ///
    /// # Errors
    /// See [`NetError`]; the log says more.
    pub async fn bind(device: &Device) -> Result<Self, NetError> {
        let configuration = device.active_configuration().ok_or(NetError::NoDriver)?;
        let mut matching = configuration.interfaces.iter();
        let found = matching.find_map(|interface| Driver::matching(interface).map(|driver| (driver, interface)));
        let (driver, interface) = found.ok_or(NetError::NoDriver)?;
        let bus = device.bus();
        let source =
            format!("{} {}:{}.{}", driver.name(), bus.config.port, configuration.descriptor.value, interface.number);
        let note = |text: String| bus.log(&source, text);
        let function = find_function(device, interface, |text| note(text.to_owned())).inspect_err(|error| {
            if *error == NetError::BadDescriptors {
                bus.log_device("bad CDC descriptors");
            }
        })?;
        let link = match driver {
            Driver::CdcEther => cdc_ether::bind(device, &function).await?,
            Driver::RndisHost => rndis_host::bind(device, &function, &note).await?,
        };
        let shared = UsbNet::register(device, link, &function, &source);
        let task = tokio::spawn(Arc::clone(&shared).serve()).abort_handle();
        Ok(Self { shared, control: function.control, task })
    }

    /// Which driver it has.
    #[must_use]
    pub fn driver(&self) -> Driver {
        self.shared.link.driver
    }

    /// `usb0`, or `eth0` with an address of its own.
    #[must_use]
    pub fn name(&self) -> &str {
        self.shared.name
    }

    /// The host's address on this link.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        self.shared.link.mac
    }

    /// Payload of the longest frame, in bytes.
    #[must_use]
    pub fn mtu(&self) -> usize {
        self.shared.link.mtu
    }

    /// Whether the link is up.
    #[must_use]
    pub fn carrier(&self) -> bool {
        self.shared.carrier()
    }

    /// Whether [`NetDevice::send`] would take a frame.
    #[must_use]
    pub fn can_send(&self) -> bool {
        self.shared.can_send()
    }

    /// What was counted so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// See [`SendError`]; after [`SendError::Busy`], [`NetDevice::changed`] tells when to try again.
    pub fn send(&self, frame: &[u8]) -> Result<(), SendError> {
        self.shared.send(frame)
    }

    /// The next frame that came, if there is one.
    pub fn try_recv(&self) -> Option<Vec<u8>> {
        self.shared.take_frame()
    }

    /// The next frame; `None` once the device is gone and all frames are taken. For one task at a time.
    pub async fn recv(&self) -> Option<Vec<u8>> {
        loop {
            if let Some(frame) = self.try_recv() {
                return Some(frame);
            }
            if self.shared.is_stopped() {
                return None;
            }
            self.changed().await;
        }
    }

    /// Waits until a frame came, a frame was sent, the carrier changed or the device went. May end without cause. For
    /// one task at a time.
    pub async fn changed(&self) {
        self.shared.changed().await;
    }

    /// Unbinds the driver: RNDIS says HALT.
    pub async fn unbind(self) {
        self.shared.unregister();
        if self.driver() == Driver::RndisHost && !self.shared.device.is_gone() {
            ControlChannel::new(&self.shared.device, self.control, &|_| {}).halt().await;
        }
    }
}

impl Drop for NetDevice {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.stop();
    }
}
