//! Firmware USB stacks on the Chipidea device controller.
//!
//! Classes that were written for microcontrollers run on the controller's model, and on any pool: below them is
//! [`chipidea_driver::Engine`], whose queue heads come from the pool as ci_hdrc's do.
//!
//! - [`ChipideaBus`]: `usb_device::bus::UsbBus`, for every class on `usb-device` 0.3
//! - [`ChipideaEmbassy`]: `embassy_usb_driver::Driver`, for `embassy-usb` on any executor
//! - [`Firmware`]: a stack with its classes as a board's driver: its interrupt handler polls the stack
//!
//! The conformance class of `usb-device` on a bench, with these dependencies, out of a checkout until they are published:
//!
//! ```toml
//! [dev-dependencies]
//! chipidea-driver = { path = "../poolproof/chipidea-sim/driver" }
//! chipidea-stacks = { path = "../poolproof/chipidea-sim/driver/stacks" }
//! scenarios = { path = "../poolproof/host-tests" }
//! usb = { package = "poolproof-usb", path = "../poolproof/devices/usb" }
//! usb-device = "0.3.2"
//! ```
//!
//! ```
//! use chipidea_driver::Config;
//! use chipidea_stacks::{ChipideaBus, Firmware, NoGadget};
//! use scenarios::{Bench, Verdict};
//! use usb_device::bus::UsbBusAllocator;
//! use usb_device::test_class::{PRODUCT, TestClass};
//!
//! // The class has packets of full speed.
//! let config = Config { max_speed: usb::Speed::Full, ..Config::default() };
//! let bench = Bench::new().driver("usb-device", move |side| {
//!     let bus = ChipideaBus::probe(side.mmio, side.dma, config.clone())?;
//!     // A board's firmware owns its allocator for ever.
//!     let allocator = Box::leak(Box::new(UsbBusAllocator::new(bus.clone())));
//!     let mut class = TestClass::new(allocator);
//!     let mut device = class.make_device(allocator);
//!     let poll = move || {
//!         device.poll(&mut [&mut class]);
//!         class.poll();
//!     };
//!     Ok(Box::new(Firmware::new(&bus, poll)))
//! });
//! let run = bench.session("enumerate", async |session| {
//!     session.boot(NoGadget)?;
//!     let device = session.enumerated().await?;
//!     scenarios::expect_equal("product", &device.strings().product.as_deref(), &Some(PRODUCT))
//! })?;
//! assert_eq!(run.verdict, Verdict::NoFailureFound);
//! # Ok::<(), scenarios::BenchError>(())
//! ```
//!
//! # What a packet is here
//! Each packet is a transfer of its own: one dTD, one buffer from [`pool::DmaApi`], mapped while it is queued. An OUT
//! endpoint has room for one packet, and again after that was read; an IN endpoint takes one, and the next when that
//! has gone. A packet that finds no memory is refused; room for an OUT packet is tried again with the next poll.
//!
//! # What a stack does not say
//! Stacks do not tell their bus of every standard request, so some are seen as they pass:
//! - SET_CONFIGURATION ends halts and starts data toggles again (USB 2.0 §9.1.1.5).
//! - CLEAR_FEATURE(ENDPOINT_HALT) starts the toggle again also where there was no halt (USB 2.0 §9.4.5).
//! - SET_ADDRESS takes effect in the controller when the host acknowledges the status stage (DEVICEADDR.USBADRA), with
//!   no time between in which the device would be deaf.
//!
//! SET_INTERFACE is not: which endpoints belong to an interface only the classes know, and `usb-device` has no call
//! that says it (`embassy-usb` has one). A host that selects the same interface again after data has moved starts
//! with DATA0 and may lose a packet.
//!
//! *Not here*: transfers of more than a packet, double buffering, more than one packet a microframe, test modes, low
//! power of the PHY.

mod embassy;
mod error;
mod firmware;
mod packets;
mod usb_bus;

pub use embassy::{ChipideaControl, ChipideaEmbassy, ChipideaEmbassyBus, ChipideaEndpoint};
pub use firmware::{Firmware, NoGadget};
pub use usb_bus::ChipideaBus;
