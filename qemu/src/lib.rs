//! Boards whose real Linux kernel drives the device models, in QEMU by vfio-user.
//!
//! An msm8916-like board: four Cortex-A53, 1 GiB, and a Chipidea controller whose registers and DMA are `chipidea-sim`'s,
//! in this process. The kernel's own driver does the rest. At the other end of the cable is `usb-host`, in real time.
//!
//! - [`Cache`]: what `qemu/setup` brought: QEMU, kernels, the board's user land
//! - [`Machine`]: QEMU as a process; [`Marker`]: what the board's user land says on its console
//! - [`Board`]: all of it together, and [`Record`] of what both sides said
//! - [`Board::observed`]: what the kernel's DMA pools did, by its own log, against what the controller did meanwhile
//!
//! # What such a board does not show
//! A real PHY and its signals, clocks and power domains, caches that are not coherent, an IOMMU, the timing of silicon. The
//! wire has no delay: what takes a board microseconds takes none here, and what its processor does takes much longer.
//!
//! Linux only; elsewhere the crate is empty.

#![cfg(target_os = "linux")]

mod board;
mod cache;
mod config;
mod console;
mod controller;
mod driver_files;
mod error;
mod eyes;
mod folder;
mod machine;
mod network;
mod observe;
mod record;

pub use board::Board;
pub use cache::{Cache, Kernel};
pub use config::BoardConfig;
pub use console::Marker;
pub use driver_files::DriverFiles;
pub use error::BoardError;
pub use machine::{Boot, Machine};
pub use network::Network;
pub use record::{Entry, Record, Side};
pub use scenarios::Glue;
