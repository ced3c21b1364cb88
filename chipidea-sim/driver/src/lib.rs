//! A driver of the Chipidea USB device controller, after Linux's ci_hdrc (`drivers/usb/chipidea`, 6.1).
//!
//! - [`Engine`]: the raw layer: registers, SETUP packets, queues of transfers. No request of chapter 9.
//! - [`ChipideaUdc`]: ci_hdrc's chapter 9 and VBUS over it, behind [`usb::Udc`] and [`usb::UdcDriver`].
//! - [`Config`], [`DqhSource`]: how it is set up, and where the dQHs come from; [`Workarounds`] for errata.
//!
//! # What follows what
//! | here | in Linux |
//! |---|---|
//! | [`Engine::probe`] | `hw_device_init`, `ci_get_revision`, `ci_get_otg_capable`, `udc_start`, `init_eps` |
//! | [`Engine::reset_controller`], [`Engine::start`] | `hw_device_reset`, `ci_platform_configure`, `hw_device_state` |
//! | [`Engine::submit`] | `_hardware_enqueue`, `prepare_td_for_non_sg`, `add_td_to_list`, `hw_ep_prime` |
//! | [`Engine::retire`], [`Engine::nuke`], [`Engine::cancel`] | `_hardware_dequeue`, `_ep_nuke`, `ep_dequeue` |
//! | [`Engine::enable`], [`Engine::flush`], [`Engine::set_halt`] | `ep_enable`, `hw_ep_flush`, `_ep_set_halt` |
//! | [`usb::Udc::flush`], [`usb::Udc::disable`] | `ep_fifo_flush`, `ep_disable` |
//! | [`Engine::debugfs`] | `ci_qheads_show`, `ci_requests_show`, `ci_registers_show` |
//! | [`Engine::read_setup`] | the tripwire loop of `isr_setup_packet_handler` |
//! | [`usb::UdcDriver::irq`] | `ci_irq_handler`, `udc_irq`, `isr_reset_handler`, `isr_tr_complete_handler` |
//! | [`usb::Udc::match_endpoint`] | `ci_udc_match_ep` |
//! | [`ChipideaUdc::start`] | `ci_udc_start`, `ci_hdrc_gadget_connect` |
//! | [`usb::UdcDriver::shutdown`] | `ci_udc_stop`, `_gadget_stop_activity`, `destroy_eps`, `ci_hdrc_otg_destroy` |
//!
//! # Memory
//! Two pools: `ci_hw_qh` (48 bytes) and `ci_hw_td` (28 bytes), both aligned to 64 with boundary 4096. One dQH for each
//! endpoint and direction is allocated number by number, OUT before IN, and **only the first one's address goes to
//! ENDPTLISTADDR**: the driver takes for granted, as ci_hdrc does, that successive blocks are adjacent and ascending and
//! that the first is aligned to 2 KiB. It neither checks nor mends that. dTDs are allocated when a request is queued and
//! freed one completion late. A dTD carries 20 KiB, 16 KiB if its buffer is not page aligned.
//!
//! # Registers
//! Read and written in ci_hdrc's order, from the probe to the shutdown, as a board does whose device tree says
//! `dr_mode = "peripheral"`: what the kernel does for a host role (one more look at DCCPARAMS, OTGSC.IDIE) is not there.
//! Some of it looks odd and is ci_hdrc's:
//! - An endpoint that was never enabled has no number yet, and a flush of it is one of endpoint 0 OUT: so a bus reset
//!   flushes that once for each.
//! - A bus reset clears all of USBSTS when it means SLI.
//! - A wedge outlives its endpoint, and a refused halt.
//! - Nothing of an endpoint is flushed or disabled before the speed is known.
//!
//! What it writes, and every dQH and dTD that the controller finds in memory, is held against stock kernels 6.1, 6.12 and 7.3
//! (test `differential` of package `qemu`, with its snapshots).
//!
//! # Where it differs from ci_hdrc
//! Requests:
//! - A request that fails comes back with its error, and the next is primed; ci_hdrc leaves it on the queue, and with it
//!   all that follow.
//! - A request that cannot be primed, such as a data stage after which a SETUP came, is flushed and comes back whole;
//!   ci_hdrc keeps its dTDs until the function frees the request.
//! - After a dequeue the endpoint's other requests are linked and primed again; ci_hdrc leaves them unprimed. Bytes of
//!   a dTD that was under way are not accounted for, by either. A dequeue flushes even when the speed is not known.
//! - A request that is queued before the speed is known is refused with [`usb::gadget::UdcError::NotConnected`], and so
//!   is a wakeup. `ep_queue` says 0, queues nothing and never completes it: a function that waits for it waits for ever.
//! - Buffers are the driver's: it copies a request's data, where ci_hdrc maps the function's own buffer.
//! - Endpoint numbers that the controller does not have are refused, and so is a second enable, which the kernel's
//!   gadget core takes for done.
//!
//! Control transfers:
//! - A SET_ADDRESS whose status stage did not come is forgotten with the next SETUP or reset.
//! - A status stage that cannot be queued stalls; after SET_FEATURE(ENDPOINT_HALT) ci_hdrc leaves the host without an
//!   answer.
//!
//! VBUS and pull-up:
//! - A change of VBUS is handled in the interrupt, and the pull-up with it: off first, then
//!   [`disconnect`](usb::Gadget::disconnect), then USBINTR. In Linux they are two work items (`ci_otg_work`,
//!   `vbus_event_work`): the pull-up may go on or off a little later than the rest, and `disconnect` is called by both. On
//!   kernels it was seen to go anywhere from the last disabled endpoint to after the last flush, and on after the rest.
//! - [`pullup`](usb::Udc::pullup) waits for VBUS, and off tells the gadget nothing; `usb_gadget_disconnect` calls its
//!   `disconnect`.
//! - A controller without OTGSC always has VBUS; ci_hdrc of 6.1 never attaches one.
//! - A controller that does not reset is not started; `ci_hdrc_gadget_connect` starts it all the same.
//!
//! The rest:
//! - ENDPTCOMPLETE is looked at for enabled endpoints; ci_hdrc also does for those that a function has chosen and not yet
//!   enabled (`config_ep_by_speed`), as the Ethernet functions do with SET_CONFIGURATION.
//! - A shutdown flushes endpoint 0 if something is queued on it, and then frees it; a probe that fails gives its dQHs
//!   back. ci_hdrc destroys pools that are in use then.
//! - Loops that wait for the controller are bounded, and end in an error.
//! - What the msm glue does to PHYs and around them at each reset and stop (PORTSC.PTS, the ULPI viewport, AHBMODE,
//!   GENCONFIG) is not done. The PHY is woken by a probe, but not put to sleep by a shutdown.
//!
//! *Not here*: scatter-gather requests, test modes, HNP and SRP, host role, PHYs, runtime power management.

pub mod buffer;
mod config;
mod dqh;
mod dtd;
mod endpoint;
mod engine;
mod error;
mod fault;
pub mod names;
mod registers;
mod udc;
mod workarounds;

pub use config::{Config, DqhSource};
pub use endpoint::EndpointSetup;
pub use engine::Engine;
pub use error::{EngineError, SubmitError};
pub use fault::Fault;
pub use registers::Interrupts;
pub use udc::ChipideaUdc;
pub use workarounds::{Workaround, Workarounds};
