//! Observed allocations: what a real machine's pools did, from its own log.
//!
//! [`Log::read`] reads the log, [`judge()`] fills a [`Ledger`](crate::Ledger) for every device of it and says what it sees.
//! The recipes that make such a log on a machine are in `pool/observe/`: kprobe events, bpftrace.
//!
//! # The format
//! One event a line: its time in seconds, what it is, and fields in any order.
//!
//! ```text
//! # comment
//! 4.472807 create pool=0xffff000003742a80 name="ci_hw_qh" device=0xffff000008b2d810 size=48 align=64 boundary=4096
//! 4.473125 alloc pool=0xffff000003742a80 cpu=0xffff000005758000 dma=0x45758000 caller=ci_hdrc_gadget_init+0x1f8/0x4c0 [ci_hdrc]
//! 4.727731 free pool=0xffff000003742a80 cpu=0xffff000005758000 dma=0x45758000
//! 4.734082 destroy pool=0xffff000003742a80
//! ```
//!
//! | field | of | what it is |
//! |---|---|---|
//! | `pool` | each | address of the `struct dma_pool`; without it `name` tells pools apart |
//! | `name` | each | name of the pool, with `"` around it if it has spaces; once is enough |
//! | `cpu` | alloc, free | the processor's address of the block; 0 if there was none to give |
//! | `dma` | alloc, free | the device's address of the block |
//! | `caller` | any | who called, as the kernel prints symbols |
//! | `size`, `align`, `boundary` | create, alloc | bytes: of a create as the driver asked, of an alloc as the pool rounded |
//! | `device` | create, alloc | address of the `struct device`: pools of one share an address space |
//!
//! Numbers are decimal, or hexadecimal with `0x`. The time may be `-` or missing; the order is then that of the lines. Only
//! alloc and free are needed. Without create and destroy a pool is taken to begin with its first line; what else is not
//! there is not judged. Unknown fields are passed over, as are blank lines and those that begin with `#`.
//!
//! Lines of ftrace's `trace` and `trace_pipe` are read as they are, with `dma_pool_alloc: (caller <- function)` for the
//! event; events of other names are passed over. Its `entries-in-buffer/entries-written`, `[LOST n EVENTS]`, and what
//! bpftrace says of lost events, count.
//!
//! # What is not known then
//! Where events are lost, or a line that names an event cannot be read, the log begins again: which blocks are in use is
//! not known from there on, and a free of a block that was not seen is no fault. So it is for a pool that was there before
//! the log began. The log does not tell what a device or a driver does with a block, whether a block was zero, or that a
//! page went back; and where two times are the same, the order of the lines is believed.

mod book;
mod event;
mod judge;
mod line;
mod log;
mod pools;
mod report;
mod steps;

pub use book::Access;
pub use event::{Event, Known, What};
pub use judge::judge;
pub use log::{Log, Mark};
pub use report::{End, LayoutJudged, Noted, Ordered, PoolSeen, Report};
pub use steps::Steps;
