//! The words that pools, drivers and device models share.
//!
//! A model never depends on a pool or a driver, nor a driver on a model: they meet in registers ([`Mmio`]), in memory
//! ([`DmaAddr`]) and at an interrupt line ([`IrqLine`]). This crate holds the names for these meeting places and for
//! what is seen there ([`Watch`], [`Event`]). It uses no other crate and has no behaviour of its own.
//!
//! *Not here*: what an event says (the domain crate that emits it knows), how memory is mapped, clocks.

mod addr;
mod irq;
mod mmio;
mod name;
mod preempt;
mod trace;
mod watch;

pub use addr::{CpuAddr, DmaAddr};
pub use irq::{IrqLine, NoIrq};
pub use mmio::{Mmio, Width};
pub use name::{Belief, Kind, Owner};
pub use preempt::{Point, Preempt};
pub use trace::{Event, Header, Trace, TraceSink};
pub use watch::{Access, AccessKind, LayoutContract, PoolLayout, Watch};
