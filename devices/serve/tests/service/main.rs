//! The service as a client sees it: a small vfio-user client of our own that talks as QEMU does.
//!
//! Every wait is bounded, so that what would hang fails.

mod board;
mod client;
mod interrupts;
mod malformed;
mod memory;
mod messages;
mod protocol;
mod socket;
