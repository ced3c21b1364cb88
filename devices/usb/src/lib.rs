//! USB as all sides share it: chapter 9 types, the wire, URBs, and the gadget side.
//!
//! - [`ch9`]: setup packets, descriptors, speeds (USB 2.0 chapter 9)
//! - [`wire`]: packets between a host controller and a device ([`UsbPort`])
//! - [`urb`]: transfers, as a host's drivers ask for them
//! - [`gadget`]: a device's functions ([`Gadget`]) and the controller driver below them ([`Udc`])
//!
//! *Not here*: any controller, host or function. Isochronous transfers, split transactions and USB 3 are not modelled.

pub mod ch9;
pub mod gadget;
pub mod urb;
pub mod wire;

pub use ch9::{Direction, EndpointAddress, SetupPacket, Speed, TransferType};
pub use gadget::{Gadget, Udc, UdcDriver};
pub use urb::{Urb, UrbError};
pub use wire::UsbPort;
