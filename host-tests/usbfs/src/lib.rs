//! A virtual USB bus for unmodified libusb programs: no kernel support, no root, no cable.
//!
//! libusb reaches a device on Linux through usbfs: an `ioctl` on a node below `/dev/bus/usb`, found by files below
//! `/sys/bus/usb`. This crate defines those C functions itself, answers them for paths below these two folders, and passes
//! everything else straight on to libc. What a program does with a device arrives as [`usb::Urb`]s at a [`Backend`]: a
//! simulator, a recording, a few lines of a test.
//!
//! # In a test
//! Depend on this crate, and on `rusb` with its feature `vendored`: then no libusb need be installed. Put a device on the
//! bus, and use rusb as ever; [`attach`] is all there is to call.
//!
//! ```
//! use std::sync::Arc;
//! use usbfs_shim::usb::urb::{Urb, UrbDone, UrbError};
//! use usbfs_shim::usb::{EndpointAddress, Speed};
//! use usbfs_shim::{Backend, DeviceInfo, Done};
//!
//! /// Stalls whatever it is asked.
//! struct Stalls;
//!
//! impl Backend for Stalls {
//!     fn submit(&self, urb: Urb, done: Done) -> u64 {
//!         done(UrbDone { buffer: urb.buffer, actual: 0, status: Err(UrbError::Stall) });
//!         1
//!     }
//!     fn cancel(&self, _id: u64) {}
//!     fn set_configuration(&self, _value: u8) -> Result<(), UrbError> {
//!         Ok(())
//!     }
//!     fn set_interface(&self, _interface: u8, _alternate: u8) -> Result<(), UrbError> {
//!         Ok(())
//!     }
//!     fn clear_halt(&self, _endpoint: EndpointAddress) -> Result<(), UrbError> {
//!         Ok(())
//!     }
//!     fn reset(&self) -> Result<(), UrbError> {
//!         Ok(())
//!     }
//! }
//!
//! let descriptors = [
//!     &[18, 1, 0x00, 0x02, 0xff, 0, 0, 64, 0x09, 0x12, 0x01, 0x00, 0, 1, 0, 0, 0, 1][..],
//!     &[9, 2, 18, 0, 1, 1, 0, 0x80, 50],
//!     &[9, 4, 0, 0, 0, 0xff, 0, 0, 0],
//! ];
//! let info = DeviceInfo::new(5, 7, &[1, 3], Speed::High, descriptors.concat());
//! let attached = usbfs_shim::attach(info, Arc::new(Stalls))?;
//! assert_eq!(attached.name(), "5-1.3");
//!
//! let handle = rusb::open_device_with_vid_pid(0x1209, 0x0001).expect("on the bus");
//! let answer = handle.read_control(0xc0, 1, 0, 0, &mut [0; 4], std::time::Duration::from_secs(1));
//! assert_eq!(answer, Err(rusb::Error::Pipe));
//! drop(attached); // unplugged
//! # Ok::<(), usbfs_shim::AttachError>(())
//! ```
//!
//! All tests of an executable share one bus, and see each other's devices: give each test a bus number or an address of its
//! own. The machine's own USB devices are not seen by an executable that this crate is linked into.
//!
//! Hot-plug callbacks work both ways. A libusb with libudev asks that library, whose functions are taken over too; one
//! without (`vendored`) listens on a netlink socket for the kernel's uevents, and gets another socket in its place, on which
//! this crate sends them. If a test is to use a *shared* libusb with libudev, its package's build script must print
//! `cargo:rustc-link-arg-tests=-Wl,--export-dynamic-symbol=udev_*`, as linkers leave these out of an executable otherwise.
//!
//! # Other programs
//! [`serve`] opens the bus to other processes, and [`Server::command`] starts a program with this crate's shared library
//! preloaded (`LD_PRELOAD`) and the bus's folder named ([`ROOT_VARIABLE`]): `lsusb`, `fastboot`, anything on libusb. What
//! goes over the socket are transfers, never memory; a client that dies or misbehaves is dropped, its claims with it, and
//! clients see ENODEV when the server ends. A client has 256 MiB of transfers in flight at most, each counting a KiB beside
//! its data, all clients together a GiB (ENOMEM), and 4096 open files (EMFILE).
//!
//! # What is there
//! - usbfs: CONTROL, BULK, SUBMITURB for control, bulk and interrupt, REAPURB and REAPURBNDELAY, DISCARDURB, claims with
//!   conflicts between opens and processes, SETCONFIGURATION, SETINTERFACE, CLEAR_HALT, RESET, GETDRIVER, CONNECT and
//!   DISCONNECT of [kernel drivers](DeviceInfo::kernel_drivers), DISCONNECT_CLAIM, DROP_PRIVILEGES, CONNECTINFO,
//!   CONNINFO_EX, GET_SPEED, GET_CAPABILITIES; zero packets, short-not-ok, and transfers that libusb splits; while one
//!   client resets or configures a device, the others' requests wait
//! - poll on the node: writable when there is a transfer to reap, in error when the device is gone; waiting costs no CPU
//! - sysfs attributes of devices, interfaces, root hubs and the hubs between, as libusb and `lsusb -v` and `-t` read them
//!
//! # What is not
//! - Static programs, setuid programs (the loader ignores LD_PRELOAD), and system calls made without libc are out of reach.
//!   [`Server::command`] refuses to start such a program ([`Unreachable`]); what a program starts in its turn is not looked
//!   at, and a static one there sees the machine's own bus.
//! - Isochronous transfers (EINVAL), streams, RESETEP, claims of hub ports, power management, mmap of transfer memory,
//!   DISCSIGNAL and signals on completion (ENOTTY, or never sent). USB 3.
//! - Paths relative to a folder's descriptor (`openat` in `/dev/bus/usb`) reach files, not devices; so do `chdir`, paths over
//!   somebody's links (`/proc/self/root/dev/bus/usb`), and what libc calls inside itself (`scandir`, `glob`, `fts`). `fopen`
//!   of a device node is EACCES, and O_PATH opens it like every other open.
//! - Paths as long as PATH_MAX: the bus's folder comes before them (ENAMETOOLONG). An empty folder `/dev/bus/usb/001` is
//!   there without a bus 1: libusb takes an empty `/dev/bus/usb` for a machine without USB.
//! - poll and epoll on a node before its first ioctl that leads there (GET_CAPABILITIES, SUBMITURB, REAPURB), and on its
//!   copies from before: until then the descriptor is a file to read the device's descriptors from, which is always ready,
//!   and which epoll refuses. libusb asks for the capabilities first.
//! - libudev beyond what libusb calls: a device that the bus made knows its name, node and action.
//! - The kernel's own uevents, once a listener has our socket.
//! - A child of fork without exec that uses its parent's descriptors: they answer ENODEV there. It opens devices of its own,
//!   if the bus is another process's; one that execs a program with the library preloaded is a client like others.
//! - Descriptors that are closed or replaced by system calls made without libc: if they were this library's own, a client's
//!   open devices are gone with them, and are there again for the next open. A process that serves the bus, or has it, must
//!   not close what it has not opened.
//! - A signal ends REAPURB with EINTR, but not CONTROL and BULK, which their timeouts end.
//! - A bus's folder (`usbfs-shim.PID.…` in TMPDIR if that is an absolute path of 64 bytes at most, else in `/dev/shm` or
//!   `/tmp`) is removed at exit; that of a killed process stays until the next bus is made there.
//!
//! Linux with glibc only; elsewhere the crate is empty.

#![cfg(target_os = "linux")]

mod backend;
mod bus;
mod client;
mod error;
mod fd_table;
mod folder;
mod gate;
mod host_device;
mod hub;
mod info;
mod ioctl;
mod memory;
mod node;
mod open_file;
mod outgoing;
mod own;
mod pending;
mod process;
mod program;
mod protocol;
mod readiness;
mod root;
mod server;
mod session;
mod settings;
mod socket;
mod sysfs;
mod takeover;
mod uevents;

pub use backend::{Backend, Done};
pub use bus::{Attached, attach};
pub use error::{AttachError, CommandError};
pub use info::DeviceInfo;
pub use program::{Unreachable, reachable};
pub use root::ROOT_VARIABLE;
pub use server::{LIBRARY_VARIABLE, Server, library, serve};
/// What transfers and descriptors are made of.
pub use usb;
