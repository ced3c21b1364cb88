//! The bench that puts pools, drivers, devices and hosts together, its scenarios and its verdicts.
//!
//! - [`Bench`]: one pool, one driver, one controller, one host, in virtual time; a [`Run`] comes out
//! - [`drivers()`]: Linux's driver, and one that assumes less
//! - [`scenario`]: what is done with them; [`Session`] is what a scenario holds
//! - [`check()`]: pools × scenarios, as [`Row`]s; recorded defects are told apart from news ([`Status`])
//! - [`Schedule`]: what happens on the wire at which of the driver's accesses; [`Bench::sweep`] tries many
//! - [`Erratum`]: what can be wrong with the controller, and whether the driver works around it
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
//! *Not implemented*: IOMMUs, non-coherent memory, interrupt context.

mod bench;
mod board;
mod check;
mod clock;
mod consequence;
mod contract;
mod driver;
mod errata;
mod error;
mod fastboot;
mod irq;
mod job;
mod judged;
#[cfg(target_os = "linux")]
mod kernel_driver;
mod live;
mod machine;
mod net;
mod observed;
#[cfg(target_os = "linux")]
mod paced;
mod preempt;
mod processor;
mod random;
mod reason;
mod record;
mod row;
mod run;
pub mod scenario;
mod schedule;
mod scope;
#[cfg(target_os = "linux")]
mod served;
mod session;
mod shared;
mod sides;
mod spans;
mod symbols;
mod trace;
mod verdict;
#[cfg(target_os = "linux")]
mod virtual_usb;
mod witness;

// Words of the crates below that the bench's own callers need.
pub use bus::{CpuAddr, Trace};
pub use chipidea_sim::explain;
pub use gadgets;
pub use pool::observed::{Access as ObservedAccess, Log as ObservedLog};
pub use pool::{Finding, MemoryError, PageOrder, Policy, policy};
pub use usb::Speed;
pub use usb_host::PortPath;

pub use bench::Bench;
pub use check::{CheckOptions, ENDPOINTS, Report, check};
pub use contract::CONTRACT;
pub use driver::{Client, Driver, DriverFactory, DriverSide, Limit};
pub use errata::Erratum;
pub use error::BenchError;
#[cfg(target_os = "linux")]
pub use kernel_driver::{UDC_C_LIMITS, kernel_driver};
pub use live::{LiveBoard, LiveBus, LiveDevice, LiveError, LiveEvents};
pub use net::HostStack;
pub use observed::{LAYOUTS, Observed};
pub use record::{InSlot, Record, Status, record_of, status};
pub use row::{Detail, Row, Seen};
pub use run::{Exercised, LogLine, Run, Variant};
pub use scenario::{Expected, Needs, Outcome, Scenario};
pub use schedule::{Act, Deed, Schedule, ScheduleError, Step, Sweep, Swept};
pub use scope::{NOT_EXERCISED, Scope};
#[cfg(target_os = "linux")]
pub use served::{
    Glue, LayoutWatch, STRIKE_INTERVAL, ServedBoard, ServedConfig, ServedController, ServedError, ServedEvent,
};
pub use session::{Session, expect_equal};
pub use shared::Shared;
pub use sides::{DEVICES, PAUSES as PLACES, drivers};
pub use spans::CPU_BASE;
pub use trace::{TraceLine, TraceLog};
pub use verdict::{Failure, Verdict};
#[cfg(target_os = "linux")]
pub use virtual_usb::{Absence, CommandError, ServedBus, VirtualBoard, VirtualBus};
pub use witness::Witnessed;

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
