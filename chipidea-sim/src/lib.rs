//! A model of the Chipidea (ci_hdrc) USB device controller: registers, dQH and dTD engine, upstream port.
//!
//! The controller that msm8916, i.MX, Tegra and others carry, as Linux's `drivers/usb/chipidea` drives it. A driver meets
//! [`Chipidea`] in registers ([`bus::Mmio`]), in memory ([`devices::DmaPort`]) and at an interrupt line
//! ([`bus::IrqLine`]); a host at its upstream port ([`usb::UsbPort`]), packet by packet or in bursts; the machine around
//! both at [`devices::Device`]. It knows no driver and no pool. One mutex is held for one register access or one burst;
//! interrupt levels and hints leave after it is open.
//!
//! # Parts
//! - [`Config`]: endpoints, register [`Layout`], capability offset, what the part can do
//! - [`Register`]: the register table, as data; [`RegisterEvent`] and [`Refused`] in traces
//! - SETUP and packets (`transfer.rs`), `prime.rs`, `retire.rs`
//! - [`DQH`], [`DTD`], [`BUFFER`]: what the controller takes pieces of memory for, said with every access
//! - [`Errata`]: what single revisions do wrong, as switches; [`Struck`] in traces and from [`Chipidea::struck`]
//! - [`Traffic`]: a trace told as what the driver did, so that drivers can be compared
//! - [`ENDPTLISTADDR`]: what it assumes of memory, shown to the watch when that register is written, before masking
//! - [`explain`]: what a real board's debugfs files and tracepoints say, held against all that
//! - a ULPI PHY behind the viewport, and the registers that Linux's msm glue touches
//!
//! # Constants
//! dQHs are 64 bytes apart, 2·endpoint + (IN ? 1 : 0), at ENDPTLISTADDR bits 31:11; the setup packet lies at dQH + 40. A
//! dTD has 28 bytes and carries at most 20 KiB in five pages. All device addresses have 32 bits.
//!
//! # Memory is what counts
//! There is no copy of a dQH or dTD that outlives a burst: capabilities, current dTD and overlay are read from memory when
//! a burst begins, and what is under way lies in the overlay again when it ends. What a driver or a pool damages there is
//! what the controller acts on. Outside memory it keeps a bit of ENDPTSTAT and a data toggle for each slot.
//!
//! # Bounded work
//! A prime looks at one dTD, and a packet retires at most one. Every call ends after the packets that its caller sent or
//! has room for, whatever the list in memory looks like.
//!
//! # Work that takes time
//! By itself a packet and all that it brings about take no time for the driver. A schedule may hold a retirement up
//! ([`devices::Device::pause`], [`PAUSES`]) between the token and the look at `next` (`next`), and between the end of the list and
//! ENDPTSTAT (`stat`): ENDPTCOMPLETE and the interrupt come behind both. A prime or flush of the slot and a bus reset wait
//! for it, packets to the slot get NAK meanwhile, and ATDTW reads 0 in the second place.
//!
//! # Derived, not measured
//! The facts come from Linux's sources and vendors' manuals. These are derivations (**D**) that nobody has measured on
//! silicon:
//! - The overlay walks its page pointers down as pages are used up, and is written back as a whole when a burst leaves a
//!   dTD half done; when one is retired only its token is. Past the fifth page the fifth is used again.
//! - SLOM = 0: a second SETUP gets no answer until ENDPTSETUPSTAT is cleared.
//! - While ENDPTSETUPSTAT is set its endpoint says NAK, primes of it fail, and what was primed stays for the driver to
//!   flush. A stall bit that is set meanwhile reads back, so that a driver that spins on it ends, but goes when
//!   ENDPTSETUPSTAT is cleared. (The manual has hardware hold it at 0 all the while.)
//! - A prime of a slot that is primed does nothing. An overlay that is not active in memory says NAK.
//! - An OUT packet that is too long fills the room that is left, is answered NAK, and ends the dTD with data buffer error
//!   and HALTED; so does memory that does not answer, which also raises SEI. The slot is primed no more, UEI and
//!   ENDPTCOMPLETE are set. A DMA failure in an IN packet breaks it off: silence.
//! - A max packet of 0 sends empty packets and never finishes an IN dTD; OUT, any byte is too long.
//! - A bus reset clears ENDPTSTAT, and spares the toggles and ENDPTCTRL. Resume takes SLI back.
//! - A bus reset takes no time: URI and PCI rise together at its begin. SLI does not come before the first reset, nor
//!   when VBUS goes.
//! - Isochronous: Mult (MultO for IN) packets to a dTD, TR_ERR when an IN dTD has bytes left then. The wire has no answer
//!   without a handshake, so an OUT that was taken says ACK.
//!
//! # Held against kernels
//! Linux's ci_hdrc of 6.1, 6.12 and 7.3 was held against a port of it on this model ([`Traffic`]; test `differential` of package
//! `qemu`): enumeration, refusals, halts, suspend, resets, data, cable. That says what a driver does and relies on, nothing of
//! silicon. Of the facts above a kernel bears out what is in its hands: it writes and expects the registers and words that are
//! here, and no derivation was contradicted. Those that it meets:
//! - ATDTW goes when the controller touches any list, not only the one that grows: the kernel's loop tries again then.
//! - URI and PCI in one interrupt: reset first, then the speed is read. SLI is masked until the first reset's handler ends.
//! - After a bus reset the type bits of ENDPTCTRL are still there, and read back with the next enable; nothing depends on
//!   them, nor on ENDPTSTAT: the reset's handler flushes everything before it primes anything.
//! - A stall bit of endpoint 0 reads back at the first look; it is set after ENDPTSETUPSTAT was cleared.
//!
//! Those that it never meets, so that they stay open: SLOM = 0 (it is 1 at once after each reset), a prime of a slot that is
//! primed, a stall or a prime while ENDPTSETUPSTAT is set (the host waited for the driver), SLI at a resume (acknowledged
//! long before), packets that are too long, memory that does not answer, a max packet of 0, isochronous endpoints. Of an
//! overlay ci_hdrc reads the token, to clear ACTIVE and HALTED, and the next pointer, to set T: which other bytes are written
//! back makes no difference to it.
//!
//! # Not implemented
//! Host mode and the OTG state machine, test modes (both are refused, with a [`Refused`] event), PING and NYET, the NAK
//! and start-of-frame interrupts (NAKI, SRI) and ENDPTNAK, the 1 ms OTG timer, general purpose timers, interrupt
//! thresholds (ITC), power states of the PHY (PHCD is plain storage), stream disable (SDIS is plain storage), errata but
//! those of [`Errata`].

mod config;
mod controller;
mod core;
mod descriptor;
mod errata;
pub mod explain;
mod kinds;
mod layout;
mod otg;
mod pause;
mod port;
mod prime;
mod register_map;
mod registers;
mod retire;
mod slot;
mod trace;
mod traffic;
mod transfer;
mod ulpi;

pub use config::{Config, Layout};
pub use controller::Chipidea;
pub use errata::{Errata, LostAppends, Revision, Struck};
pub use kinds::{BUFFER, DQH, DTD};
pub use layout::ENDPTLISTADDR;
pub use pause::PAUSES;
pub use register_map::{Register, WriteMasks};
pub use trace::{Refused, RegisterEvent};
pub use traffic::{Section, Traffic};
