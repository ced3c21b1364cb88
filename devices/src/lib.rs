//! What a device model is built on.
//!
//! - [`DmaPort`]: the only way from a device to memory; checked, traced, able to fail
//! - [`DmaMemory`]: what lies behind it: `vm-memory`, or a peer that is asked
//! - [`DmaFault`]: injected failures, as data
//! - [`Device`]: a model as the machine around it sees it; [`Effects`]: what leaves a model after its lock
//! - [`pci`]: a PCI function around any device
//!
//! A model is a synchronous state machine behind one mutex, held for one register access or one burst on its wire. It
//! knows no pool, no driver and no clock: time comes in through [`Device::step`].

mod device;
mod dma;
mod effects;
mod fault;
mod guest;
mod memory;
pub mod pci;

pub use device::Device;
pub use dma::{DmaEvent, DmaPort};
pub use effects::Effects;
pub use fault::{DmaFault, FaultEffect};
pub use guest::CheckedMemory;
pub use memory::{DmaError, DmaMemory};
