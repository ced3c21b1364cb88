//! Tests classes of the [`usb-device`](usb_device) ecosystem on the development machine.

mod bench;
mod bus;
pub mod ch9;
mod endpoint;
mod error;
mod fault;
mod host;
mod limits;
mod mistake;
mod port;
mod state;
mod trace;

pub use bench::Bench;
pub use bus::BenchBus;
pub use error::{BenchError, Seen};
pub use fault::{Fault, Token, Transaction, every};
pub use host::ClassHost;
pub use limits::Limits;
pub use mistake::Mistake;
pub use trace::{Action, Event, TraceLine};
pub use usb;
pub use usb::Speed;
pub use usb::ch9::{DescriptorType, EndpointAddress, SetupPacket};
pub use usb::urb::UrbError;
pub use usb_host::{self, Device, HubError, Line};
