//! A USB host: controller, hub and class drivers, as Linux has them, for a device's port in virtual time.
//!
//! - [`controller`]: URBs to packets, synchronous, without clock or thread ([`HostController`])
//! - [`host`]: the port behind a hub, as a task ([`Host`]); [`HostConfig`] says where it is, [`Log`] gets its lines
//! - [`device`]: what drivers and scenarios talk to ([`Device`])
//! - [`configuration`], [`choice`], [`description`]: what a device says of itself, and which configuration is taken
//! - [`net`]: `cdc_ether` and `rndis_host` behind one [`net::NetDevice`]
//!
//! Enumeration has the tries, sleeps, timeouts, error numbers and log lines of Linux 6.1: of drivers/usb/core, and where
//! the host controller sets the address, of its driver ([`Hcd`]). All time is tokio's: with a paused clock, a timeout of
//! five seconds costs microseconds.
//!
//! ```no_run
//! # async fn example(port: std::sync::Arc<dyn usb::UsbPort>) -> Result<(), usb_host::net::NetError> {
//! use std::sync::Arc;
//! use usb_host::net::NetDevice;
//! use usb_host::{Host, HostConfig, MemoryLog};
//!
//! let log = Arc::new(MemoryLog::default());
//! let host = Host::new(port, HostConfig::default(), log.clone());
//! let task = host.clone();
//! tokio::spawn(async move { task.run().await });
//! let device = host.device().await;
//! let net = NetDevice::bind(&device).await?;
//! # let _ = net.recv().await;
//! # Ok(())
//! # }
//! ```
//!
//! *Not implemented*: more than one port, hubs as devices, isochronous transfers, split transactions, USB 3, link power
//! management, device quirks, over-current, an IP stack. The bus has no bandwidth: packets move as fast as both sides
//! can. Of an xHCI's commands there is the one that sets an address; the address is the device's number, where an xHCI
//! would choose its own.

mod address;
mod bus;
pub mod choice;
mod config;
pub mod configuration;
pub mod controller;
pub mod description;
pub mod device;
mod enumeration;
mod error;
pub mod host;
mod hub;
mod log;
pub mod net;
mod standstill;
mod strings;

pub use bus::{CONTROL_TIMEOUT, UrbTransfer};
pub use config::{Hcd, HostConfig, PortPath, PortPathError};
pub use controller::{Cancel, HostController};
pub use device::Device;
pub use error::HubError;
pub use host::Host;
pub use hub::HostEvent;
pub use log::{Line, Log, MemoryLog, NoLog};
