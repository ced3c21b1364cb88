//! A PCI function around any [`Device`](crate::Device): configuration space, BARs, interrupts, power states, reset.
//!
//! - [`PciConfig`]: what the function is: ids, class, [`Bar`]s, capabilities; checked once ([`PciError`])
//! - [`PciSlot`]: its connection to the machine, made first: interrupt lines and the way to memory
//! - [`PciFunction`]: the function, once the device exists
//! - [`InterruptOutput`]: where interrupts leave; set by who serves the function
//!
//! ```
//! use std::sync::Arc;
//! use devices::pci::{Bar, PciConfig, PciFunction, PciSlot};
//! # use bus::{Mmio, Width};
//! # struct Toy;
//! # impl Mmio for Toy {
//! #     fn read(&self, _: u64, _: Width) -> u64 { 0x12345678 }
//! #     fn write(&self, _: u64, _: Width, _: u64) {}
//! # }
//! # impl devices::Device for Toy {
//! #     fn step(&self, _: std::time::Duration) {}
//! #     fn power_on(&self) {}
//! # }
//! let config = PciConfig::new(0x153f, 0x1006, 0x0c0380).bar(0, Bar::memory32(0x1000).device());
//! let slot = PciSlot::new(config)?;
//! let _interrupt = slot.line(0); // for the device
//! let function = PciFunction::new(slot, Arc::new(Toy));
//! function.config_write(0x04, &[0x06, 0x00]); // memory decoding and bus mastering
//! let mut bytes = [0; 4];
//! function.bar_read(0, 0, &mut bytes);
//! assert_eq!(bytes, [0x78, 0x56, 0x34, 0x12]);
//! # Ok::<(), devices::pci::PciError>(())
//! ```
//!
//! Sections are of the PCI Local Bus Specification 3.0 (`PCI`), and of the PCI Bus Power Management Interface
//! Specification 1.2 (`PM`).
//!
//! *Not implemented*: PCI Express (and with it function level reset and extended configuration space), I/O BARs,
//! expansion ROMs, bridges, several functions in a slot, VPD, power states between D0 and D3hot, PME, parity and
//! system errors: their status bits read 0. INTx has no side effect of its own on a bus: who serves the function decides
//! what its level does.

mod bars;
mod capabilities;
mod config;
mod function;
mod header;
mod interrupts;
mod msix;
mod slot;

pub use config::{Bar, InterruptPin, MsixConfig, PciConfig, PciError};
pub use function::{CONFIG_SPACE, PciFunction};
pub use interrupts::InterruptOutput;
pub use slot::PciSlot;
