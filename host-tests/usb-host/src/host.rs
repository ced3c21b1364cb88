//! The host as a scenario holds it.

use std::sync::Arc;

use usb::wire::UsbPort;

use crate::bus::Bus;
use crate::config::HostConfig;
use crate::controller::HostController;
use crate::device::Device;
use crate::error::HubError;
use crate::hub::{HostEvent, Hub};
use crate::log::Log;

/// A host with one port. Clones are the same host. Nothing happens before [`Host::run`] runs.
#[derive(Clone)]
pub struct Host(Arc<Hub>);

impl Host {
    /// A host at `port`, which it becomes the listener of.
    #[must_use]
    pub fn new(port: Arc<dyn UsbPort>, config: HostConfig, log: Arc<dyn Log>) -> Self {
        let bus = Bus::new(HostController::new(port), config, log);
        Self(Arc::new(Hub::new(bus)))
    }

    /// Another port of the same bus: device numbers are shared, nothing else is. `config` gives the rest.
    #[must_use]
    pub fn beside(&self, port: Arc<dyn UsbPort>, config: HostConfig, log: Arc<dyn Log>) -> Self {
        let bus = Bus::new(HostController::new(port), config, log);
        Self(Arc::new(Hub::beside(&self.0, bus)))
    }

    /// The hub's task: powers the port, moves packets, enumerates devices. Never ends; spawn it or select over it.
    pub async fn run(&self) {
        // The log's clock starts here.
        self.0.bus.now();
        tokio::select! {
            biased;
            () = self.0.bus.pump() => {}
            () = self.0.run() => {}
        }
    }

    /// The device at the port; waits for one.
    pub async fn device(&self) -> Device {
        let mut device = self.0.device.subscribe();
        loop {
            if let Some(device) = device.borrow_and_update().clone() {
                return device;
            }
            // The sender lives as long as the host.
            if device.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The device at the port now.
    #[must_use]
    pub fn current_device(&self) -> Option<Device> {
        self.0.current()
    }

    /// The next event; each is given once. At most 1024 wait, the oldest are dropped.
    pub async fn event(&self) -> HostEvent {
        loop {
            let told = self.0.event.notified();
            if let Some(event) = self.0.take_event() {
                return event;
            }
            told.await;
        }
    }

    /// Suspends the port with its device; remote wakeup is enabled if the configuration allows it. Other URBs stay
    /// queued.
    ///
    /// # Errors
    /// -19 without a device, else those of SET_FEATURE.
    pub async fn suspend(&self) -> Result<(), HubError> {
        self.0.suspend().await
    }

    /// Resumes the port and asks the device for its status.
    ///
    /// # Errors
    /// -19 without a device; those of GET_STATUS, when the device is given up.
    pub async fn resume(&self) -> Result<(), HubError> {
        self.0.resume().await
    }

    /// Time since the host's machine started, as in the log.
    #[must_use]
    pub fn now(&self) -> std::time::Duration {
        self.0.bus.now()
    }

    /// The controller below.
    #[must_use]
    pub fn controller(&self) -> &Arc<HostController> {
        &self.0.bus.controller
    }
}
