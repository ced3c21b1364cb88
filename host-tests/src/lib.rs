//! The bench that puts pools, drivers, devices and hosts together, its scenarios and its verdicts.
//!
//! - [`Bench`]: one pool, one driver, one controller, one host, in virtual time; a [`Run`] comes out
//! - [`scenario`]: what is done with them; [`Session`] is what a scenario holds
//! - [`check()`]: pools × scenarios, as [`Row`]s; recorded defects are told apart from news ([`Status`])
//! - [`Verdict`], [`Scope`]: what was seen, and how far it reaches
//! - [`LiveBus`]: the same boards in real time, for clients on other threads
#![cfg_attr(target_os = "linux", doc = "- [`VirtualBus`]: a live bus whose devices unmodified programs on libusb see")]
//! - `ServedBoard` (Linux): the controller in a virtual machine, with a host at its other end
//!
//! Another repository's `cargo test` brings its own pool, driver or gadget:
//!
//! ```
//! use gadgets::source_sink::{BULK_IN, SourceSinkConfig, SourceSinkGadget};
//! use scenarios::{Bench, Failure, Verdict};
//!
//! let run = Bench::new().endpoints(4).session("my gadget", async |session| {
//!     session.boot(SourceSinkGadget::new(SourceSinkConfig::default()))?;
//!     let device = session.enumerated().await?;
//!     let data = device.bulk_in(BULK_IN.address().number, 512, std::time::Duration::from_secs(1)).await;
//!     data.map(drop).map_err(|error| Failure::new(error.to_string()))
//! })?;
//! assert_eq!(run.verdict, Verdict::NoFailureFound);
//! # Ok::<(), scenarios::BenchError>(())
//! ```
//!
//! *Not implemented*: raced schedules beyond [`Bench::preempt`], IOMMUs, non-coherent memory, interrupt context.

mod bench;
mod board;
mod check;
mod clock;
mod consequence;
mod contract;
mod driver;
mod fastboot;
mod irq;
mod live;
mod machine;
mod net;
mod observed;
#[cfg(target_os = "linux")]
mod paced;
mod payload;
mod preempt;
mod processor;
mod reason;
mod record;
mod row;
mod run;
pub mod scenario;
#[cfg(target_os = "linux")]
mod served;
mod session;
mod shared;
mod sides;
mod symbols;
mod trace;
mod verdict;
#[cfg(target_os = "linux")]
mod virtual_usb;
mod witness;

// Words of the crates below that the bench's own callers need.
pub use bus::{CpuAddr, Trace};
pub use gadgets;
pub use pool::observed::{Access as ObservedAccess, Log as ObservedLog};
pub use pool::{MemoryError, PageOrder, Policy, policy};
pub use usb::Speed;
pub use usb_host::PortPath;

pub use bench::{Bench, BenchError, CPU_BASE};
pub use check::{CheckOptions, ENDPOINTS, Report, check};
pub use contract::CONTRACT;
pub use driver::{DriverFactory, DriverSide};
pub use live::{LiveBoard, LiveBus, LiveDevice, LiveError, LiveEvents};
pub use net::HostStack;
pub use observed::{LAYOUTS, Observed};
pub use record::{Record, Status, record_of, status};
pub use row::{Detail, Row};
pub use run::{Exercised, LogLine, NOT_EXERCISED, Run, Scope, Variant};
pub use scenario::{Needs, Outcome, Scenario};
#[cfg(target_os = "linux")]
pub use served::{
    Glue, LayoutWatch, STRIKE_INTERVAL, ServedBoard, ServedConfig, ServedController, ServedError, ServedEvent,
};
pub use session::{Session, expect_equal};
pub use shared::Shared;
pub use sides::DEVICES;
pub use trace::{TraceLine, TraceLog};
pub use verdict::{Failure, Verdict};
#[cfg(target_os = "linux")]
pub use virtual_usb::{Absence, CommandError, ServedBus, VirtualBoard, VirtualBus};
pub use witness::Witnessed;

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
