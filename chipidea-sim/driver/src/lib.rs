//! A driver of the Chipidea USB device controller, after Linux's ci_hdrc (`drivers/usb/chipidea`, 6.1).
//!
//! - [`Engine`]: the raw layer: registers, SETUP packets, queues of transfers. No request of chapter 9.
//! - [`ChipideaUdc`]: ci_hdrc's chapter 9 and VBUS over it, behind [`usb::Udc`] and [`usb::UdcDriver`].
//! - [`Config`], [`DqhSource`]: how it is set up, and where the dQHs come from.
//!
//! # What follows what
//! | here | in Linux |
//! |---|---|
//! | [`Engine::probe`] | `hw_device_init`, `ci_get_otg_capable`, `udc_start`, `init_eps` |
//! | [`Engine::reset_controller`], [`Engine::start`] | `hw_device_reset`, `ci_platform_configure`, `hw_device_state` |
//! | [`Engine::submit`] | `_hardware_enqueue`, `prepare_td_for_non_sg`, `add_td_to_list`, `hw_ep_prime` |
//! | [`Engine::retire`], [`Engine::nuke`], [`Engine::cancel`] | `_hardware_dequeue`, `_ep_nuke`, `ep_dequeue` |
//! | [`Engine::enable`], [`Engine::flush`], [`Engine::set_halt`] | `ep_enable`, `hw_ep_flush`, `_ep_set_halt` |
//! | [`Engine::read_setup`] | the tripwire loop of `isr_setup_packet_handler` |
//! | [`usb::UdcDriver::irq`] | `ci_irq_handler`, `udc_irq`, `isr_reset_handler`, `isr_tr_complete_handler` |
//! | [`ChipideaUdc::start`] | `ci_udc_start`, `ci_hdrc_gadget_connect` |
//! | [`usb::UdcDriver::shutdown`] | `ci_hdrc_gadget_destroy`, `destroy_eps` |
//!
//! # Memory
//! Two pools: `ci_hw_qh` (48 bytes) and `ci_hw_td` (28 bytes), both aligned to 64 with boundary 4096. One dQH for each
//! endpoint and direction is allocated number by number, OUT before IN, and **only the first one's address goes to
//! ENDPTLISTADDR**: the driver takes for granted, as ci_hdrc does, that successive blocks are adjacent and ascending and
//! that the first is aligned to 2 KiB. It neither checks nor mends that. dTDs are allocated when a request is queued and
//! freed one completion late. A dTD carries 20 KiB, 16 KiB if its buffer is not page aligned.
//!
//! # Where it differs from ci_hdrc
//! - A request that fails comes back with its error, and the next is primed; ci_hdrc leaves it on the queue, and with it
//!   all that follow.
//! - After a dequeue the endpoint's other requests are linked and primed again; ci_hdrc leaves them unprimed. Bytes of
//!   a dTD that was under way are not accounted for, by either.
//! - A SET_ADDRESS whose status stage did not come is forgotten with the next SETUP or reset.
//! - A probe that fails gives its dQHs back; ci_hdrc destroys the pool with dQHs in it.
//! - Loops that wait for the controller are bounded, and end in an error.
//! - Endpoint numbers that the controller does not have are refused.
//! - Buffers are the driver's: it copies a request's data, where ci_hdrc maps the function's own buffer.
//!
//! *Not here*: scatter-gather requests, test modes, HNP and SRP, host role, PHYs, runtime power management.

mod buffer;
mod config;
mod dqh;
mod dtd;
mod endpoint;
mod engine;
mod error;
mod names;
mod registers;
mod udc;

pub use config::{Config, DqhSource};
pub use endpoint::EndpointSetup;
pub use engine::Engine;
pub use error::{EngineError, SubmitError};
pub use registers::Interrupts;
pub use udc::ChipideaUdc;
