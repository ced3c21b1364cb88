//! Serves a device model to a virtual machine: the server's side of the vfio-user protocol.
//!
//! QEMU's `vfio-user-pci` (10.1 and later) connects to a socket and has a PCI function from then on, whose registers,
//! interrupts and accesses to memory are the model's. Other threads of this process may hold the same model, such as a
//! USB host at its other end.
//!
//! - [`Service`]: a socket, and one client after another; [`Event`] is what happens there
//! - [`ClientMemory`]: the virtual machine's memory, behind [`devices::DmaMemory`]
//! - below: `wire` (bytes to messages), `connection` (requests and calls), `requests` (the commands), `irqs`, `version`
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use bus::{Mmio, Width};
//! # struct Toy;
//! # impl Toy {
//! #     fn new(_: devices::DmaPort, _: Arc<dyn bus::IrqLine>) -> Self { Self }
//! # }
//! # impl Mmio for Toy {
//! #     fn read(&self, _: u64, _: Width) -> u64 { 0 }
//! #     fn write(&self, _: u64, _: Width, _: u64) {}
//! # }
//! # impl devices::Device for Toy {
//! #     fn step(&self, _: std::time::Duration) {}
//! #     fn power_on(&self) {}
//! # }
//! use devices::DmaPort;
//! use devices::pci::{Bar, PciConfig, PciFunction, PciSlot};
//! use serve::{ClientMemory, Service};
//!
//! let memory = ClientMemory::new();
//! let slot = PciSlot::new(PciConfig::new(0x153f, 0x1006, 0x0c0380).bar(0, Bar::memory32(0x1000).device()))?;
//! let device = Toy::new(DmaPort::new("toy", slot.memory(memory.clone())), slot.line(0));
//! let function = Arc::new(PciFunction::new(slot, Arc::new(device)));
//! let service = Service::start("/tmp/toy.sock", function, memory, |event| eprintln!("{event}"))?;
//! # drop(service);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A client's life
//! The function is reset when a client has agreed on a version, when it says DEVICE_RESET (a reboot of its machine), and
//! when it is gone: power is off then. The socket stays, and the next client is served. Requests are done in the order
//! in which they came. A malformed message ends its connection ([`Malformed`]), never the process.
//!
//! # Memory
//! Regions with a file descriptor are mapped. A client is trusted not to make a file shorter than it said: like every
//! process that maps another's file, this one would die of SIGBUS (QEMU seals a memfd against that). Regions without one
//! are reached by DMA_READ and DMA_WRITE, of the length that the client allows. The client must answer these while it
//! waits for a register. QEMU cannot: it answers on its main loop, whose lock a processor holds while it waits. A model
//! that accesses memory within a register access gets a bus error after a second then, and [`Event::DmaUnanswered`] says
//! so. Give QEMU memory that is shared: `memory-backend-memfd` with `share=on`.
//!
//! # Why not crate `vfio_user`
//! It has the same purpose, and its client side served us well. As a server (0.1.7) it answers errors with errno 0, which
//! QEMU takes for success; has no DMA_READ and DMA_WRITE; leaves the payload of a command that it does not know in the
//! stream; allocates whatever a REGION_READ asks for; and serves one client on one thread that blocks, with no way to
//! stop it.
//!
//! # What QEMU 11.1 wants that is not in the specification
//! A reply is never longer than its request's buffer: the version's reply names only what the request named. A header
//! comes in one piece. Its DMA messages have a count of 32 bits (`messages.rs`). It unmasks INTx at the guest's next
//! register access; MSI-X vectors come one by one, and their table stays in QEMU.
//!
//! *Not implemented*: mapped regions and their file descriptors (GET_REGION_IO_FDS), a second socket for the server's
//! commands, migration and dirty pages, VGA and ROM regions, eventfds that unmask (KVM's shortcut for INTx; QEMU goes
//! without), error and request interrupts, big-endian hosts.
//!
//! Sources: QEMU 11.1 docs/interop/vfio-user.rst, hw/vfio-user/{proxy,device,container,pci}.c and protocol.h, and
//! hw/vfio/pci.c for the order of things; linux/vfio.h. Tried with QEMU 11.1.3: INTx, mapped memory, DMA by messages,
//! reset, reboot and reconnection; MSI and MSI-X only with the tests' own client.

#![cfg(target_os = "linux")]

mod connection;
mod error;
mod event;
mod irqs;
mod memory;
mod messages;
mod protocol;
mod requests;
mod service;
mod version;
mod wire;

pub use error::{Malformed, ServeError};
pub use event::Event;
pub use memory::ClientMemory;
pub use service::Service;
