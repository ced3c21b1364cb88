//! USB functions on any device controller: what a board is to its host.
//!
//! A gadget implements [`usb::Gadget`] over [`usb::Udc`] and knows no controller. It has no clock, thread or socket: it
//! runs when its controller's driver calls it, and in [`usb::Gadget::step`].
//!
//! - [`composite`]: chapter 9 for all gadgets ([`Composite`] over the [`Functions`] of its configurations), with
//!   [`configuration`], [`strings`], [`endpoint`]
//! - [`ethernet`]: Linux's Ethernet gadget 0525:a4a2 with RNDIS and CDC Ethernet, and a network behind it
//! - [`fastboot`]: the bootloader gadget 18d1:d00d
//! - [`vendor`]: descriptors of devices with nothing but vendor interfaces
//! - [`source_sink`]: Gadget Zero 0525:a4a0, for throughput
//!
//! *Not implemented*: remote wakeup, USB 3, isochronous endpoints, OS descriptors; Gadget Zero's loopback; sparse images
//! and slots; RNDIS power management and multicast
//! lists, several RNDIS packets in one transfer; ECM statistics and multicast filters.

pub mod composite;
pub mod configuration;
pub mod endpoint;
pub mod ethernet;
pub mod fastboot;
pub mod scripted;
pub mod source_sink;
pub mod strings;
pub mod vendor;

pub use composite::{Composite, Functions};
pub use ethernet::{EthernetConfig, EthernetGadget};
pub use fastboot::{FastbootConfig, FastbootGadget};
pub use source_sink::{SourceSinkConfig, SourceSinkGadget};
