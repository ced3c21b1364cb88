//! The same scenario with the driver in this process and with each kernel's own, held against each other.
//!
//! Both drive the same model, before the same host. What they do to the controller ([`chipidea_sim::Traffic`]) must be the
//! same, or differ for a reason that [`reasons`] has. Snapshots: the traffic in process, and for each kernel the difference
//! with its reasons above it.
//!
//! The kernels need what `qemu/setup` brings, and are run by `qemu/test`: `smoke` on every change, all by `qemu/test --all`.

#![cfg(target_os = "linux")]

mod difference;
mod frames;
mod kernel;
mod kernels;
mod process;
mod reasons;
mod scenario;
mod snapshot;
mod variant;
