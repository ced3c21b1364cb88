//! The kernel's own `drivers/usb/chipidea/udc.c`, unmodified, as a driver of the bench.
//!
//! [`UdcFile`] compiles the user's file against prepared headers of the user's, with glue in C around it, and loads it;
//! [`KernelUdc`] is a driver of it behind [`usb::Udc`] and [`usb::UdcDriver`], as [`chipidea_driver::ChipideaUdc`] is: any
//! gadget runs on it, and registers, pools and mappings are the bench's. Nothing of the kernel's is in this crate.
//!
//! # Headers
//! Debian's `linux-headers-VERSION-amd64` with the `-common` beside it, as `pool/bridge/sources --headers` brings them, or a
//! tree that was built for x86. Of Linux 6.1, for which the glue is written: what the kernel's inline functions call has other
//! names in other versions.
//!
//! # What is the kernel's and what is not
//! | | |
//! |---|---|
//! | udc.c, its headers `ci.h`, `udc.h`, `bits.h`, `otg.h` | the user's |
//! | `struct usb_gadget`, lists, `struct device`: all structures and inlines | the user's headers |
//! | core.c and otg.c: probe, reset, interrupt, VBUS | `glue/core.c`, in their order |
//! | the gadget core: endpoints, mappings, pull-up | `glue/gadget.c` |
//! | memory, locks, messages, pools, registers | `glue/kernel.c` and this program |
//!
//! # What it does not reach
//! - **Descriptor accesses are plain loads and stores**: no preemption points, and not judged. Registers are both. A race
//!   therefore has fewer points than with the port, and its schedules count differently.
//! - debugfs (debug.c), tracepoints (trace.c), HNP, SRP and the host role (otg_fsm.c, host.c), PHYs, extcon, pinctrl, runtime
//!   power management, scatter-gather requests.
//! - Work items: a change of VBUS and the pull-up are handled in the interrupt.
//! - Workarounds for errata: udc.c has them by the controller's revision, all or none. Without them it is told that the
//!   revision is 2.5.
//! - Buffers are the glue's, as with the port, and a request's data is copied at its mapping and unmapping.
//! - What `ep_queue` and `ci_udc_wakeup` silently ignore before the speed is known is refused.
//!
//! # What is watched
//! A spinlock that is taken twice or unlocked free, wrong and repeated `kfree`, objects left at the removal, an allocation
//! with leave to sleep under a spinlock, a request that comes back while its buffer is mapped, registers that are read for
//! ever. A fault or an endless loop ends the call and the driver ([`usb::UdcDriver::failure`]), not the program; but code that
//! overwrites this program's memory may end it by a signal.

mod abi;
mod compile;
mod driver;
mod error;
mod glue;
mod handle;
mod headers;
mod host;
mod shared;
mod udc_file;

pub use driver::KernelUdc;
pub use error::OpenError;
pub use udc_file::UdcFile;
