//! Tests classes of the [`usb-device`](usb_device) ecosystem on the development machine, in plain `cargo test`.
//!
//! [`Bench::bus`] is a `UsbBus` without hardware: a `UsbDevice` with its classes, built on it as on any microcontroller,
//! talks packets to a host that enumerates and times out as Linux does. No controller, kernel, cable or root, no unsafe
//! code, on any platform. All time is virtual: a timeout of five seconds takes none, and two runs leave one trace.
//!
//! ```
//! use std::time::Duration;
//! use usb_class_bench::{Bench, BenchError};
//! use usb_device::bus::UsbBusAllocator;
//! use usb_device::prelude::*;
//!
//! // The firmware: an echo on a serial port.
//! let bench = Bench::new();
//! let allocator = UsbBusAllocator::new(bench.bus());
//! let mut serial = usbd_serial::SerialPort::new(&allocator);
//! let mut device = UsbDeviceBuilder::new(&allocator, UsbVidPid(0x16c0, 0x27dd))
//!     .device_class(usbd_serial::USB_CLASS_CDC)
//!     .build();
//! let firmware = || {
//!     if device.poll(&mut [&mut serial]) {
//!         let mut buffer = [0; 64];
//!         if let Ok(count) = serial.read(&mut buffer) {
//!             let _ = serial.write(&buffer[..count]);
//!         }
//!     }
//! };
//!
//! // The host's program.
//! let report = bench.run(firmware, async |host| {
//!     let device = host.device().await?;
//!     device.bulk_out(1, b"hello".to_vec(), Duration::from_secs(1)).await?;
//!     assert_eq!(device.bulk_in(2, 64, Duration::from_secs(1)).await?, b"hello");
//!     Ok::<_, BenchError>(host.ch9().await)
//! })??;
//! assert!(report.is_clean(), "{report}");
//! # Ok::<(), BenchError>(())
//! ```
//!
//! - [`Bench`]: the peripheral's [`Limits`] (endpoints, packet memory, speed), the wire's [`Fault`]s, [`Bench::run`]
//! - [`ClassHost`]: what the host's program sees: [`ClassHost::device`] for transfers, reset, suspend and resume, remote
//!   wakeup, unplugging, isochronous packets
//! - [`ch9`]: [`ClassHost::ch9`] asks every standard request in every state and holds descriptors, halts and toggles
//!   against USB 2.0; the [`ch9::Report`] is text for people and JUnit for CI
//! - [`TraceLine`], [`Mistake`]: what happened, and what firmware must not do; a panic shows the last packets
//!
//! Packets are as USB 2.0 chapter 8 has them: NAK while an endpoint's packet is not read or not written, data toggles with
//! repetitions dropped, STALL, empty packets, SETUP over anything. The wire has no bandwidth: packets move as fast as both
//! sides can, and the firmware is polled between them.
//!
//! *Not here*: interrupts and races inside a controller (test the controller's driver for these), double-buffered
//! endpoints, control endpoints beside endpoint 0, additional transactions in a microframe, split transactions, USB 3.
//!
//! The feature `junit` (on by default) is [`ch9::Report::junit`].

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

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
