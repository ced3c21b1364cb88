//! A virtual USB bus for unmodified libusb programs, without kernel, root or cable.

#![cfg(target_os = "linux")]

mod backend;
mod bus;
mod client;
mod error;
mod fd_table;
mod host_device;
mod hub;
mod info;
mod ioctl;
mod node;
mod open_file;
mod protocol;
mod readiness;
mod root;
mod server;
mod settings;
mod socket;
mod sysfs;
mod takeover;
mod uevents;

pub use backend::{Backend, Done};
pub use bus::{Attached, attach};
pub use error::AttachError;
pub use info::DeviceInfo;
pub use root::ROOT_VARIABLE;
pub use server::{LIBRARY_VARIABLE, Server, library, serve};
