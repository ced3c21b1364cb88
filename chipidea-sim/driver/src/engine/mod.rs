//! The raw layer: registers, dQHs, dTDs, SETUP packets, queues of transfers. It knows no request of chapter 9.

mod control;
mod debugfs;
mod endpoints;
mod heads;
mod queue;
mod retire;
mod setup;

use std::collections::VecDeque;
use std::sync::Arc;

use bus::{DmaAddr, Mmio};
use pool::{DmaApi, DmaPool, Geometry};
use usb::gadget::Completion;
use usb::{Direction, EndpointAddress};

use crate::buffer::Buffers;
use crate::config::Config;
use crate::dtd;
use crate::endpoint::Endpoint;
use crate::error::EngineError;
use crate::fault::Fault;
use crate::names::slot_of;
use crate::registers::{Register, Registers, USBINTR, USBSTS, UsbCmd};
use crate::workarounds::Reprime;

use heads::Heads;

/// Reads of a register before the driver gives up: ci_hdrc waits for ever, or 1000 rounds of 10 µs.
const MOST_POLLS: u32 = 1000;
/// Rounds of a loop whose every round ends in a register's own time: flush, halt, tripwires.
const MOST_ROUNDS: u32 = 64;
/// Warnings that are kept until somebody takes them; later ones are dropped.
const MOST_WARNINGS: usize = 256;
/// Name of the dTDs' pool.
const DESCRIPTORS: &str = "ci_hw_td";
/// Alignment of both pools, and their boundary (`udc_start`).
const ALIGN: u64 = 64;
const BOUNDARY: u64 = 4096;

/// The controller as a machine that moves transfers.
///
/// It handles one transfer queue for each endpoint and direction, and hands SETUP packets out as they come. Stages of a
/// control transfer are transfers that its user queues on endpoint 0.
pub struct Engine {
    registers: Registers,
    dma: DmaApi,
    config: Config,
    heads: Heads,
    descriptors: DmaPool,
    /// By slot.
    endpoints: Vec<Endpoint>,
    buffers: Buffers,
    warnings: Vec<String>,
    reprime: Reprime,
    live: bool,
}

impl Engine {
    /// Looks at the controller behind `mmio`, silences it, and allocates the dQHs from `dma` (`hw_device_init`,
    /// `ci_get_otg_capable`, `udc_start`). It does not run yet: [`Engine::reset_controller`], [`Engine::start`].
    ///
    /// # Errors
    /// A controller that cannot be a device, or no memory. Nothing stays allocated then.
    pub fn probe(mmio: Arc<dyn Mmio>, dma: DmaApi, config: Config) -> Result<Self, EngineError> {
        let mut registers = Registers::probe(mmio, config.capoffset)?;
        registers.leave_low_power();
        registers.store(USBINTR, 0);
        registers.store(USBSTS, u32::MAX);
        let reprime = Reprime::of(&config.workarounds, registers.revision());
        if registers.detect_otg() {
            registers.silence_otgsc();
        }
        if !registers.detect_device() {
            return Err(EngineError::NoDevice);
        }
        let mut heads = Heads::new(&dma, config.dqh_source, registers.endpoints())?;
        let geometry = Geometry { size: dtd::SIZE, align: ALIGN, boundary: BOUNDARY };
        let descriptors = match dma.create_pool(DESCRIPTORS, geometry) {
            Ok(pool) => pool,
            Err(error) => {
                // The first failure is the one to tell.
                let _ = heads.destroy(&dma);
                return Err(error.into());
            }
        };
        let mut endpoints = Vec::with_capacity(2 * usize::from(registers.endpoints()));
        for number in 0..registers.endpoints() {
            for address in [EndpointAddress::out(number), EndpointAddress::r#in(number)] {
                match heads.allocate(&dma, address) {
                    Ok(head) => endpoints.push(Endpoint::new(address, head)),
                    Err(error) => {
                        let _ = heads.free(&endpoints);
                        let _ = descriptors.destroy();
                        let _ = heads.destroy(&dma);
                        return Err(error);
                    }
                }
            }
        }
        registers.update(|cmd: UsbCmd| cmd.with_run(false));
        let buffers = Buffers::new(config.headroom);
        let (warnings, live) = (Vec::new(), true);
        Ok(Self { registers, dma, config, heads, descriptors, endpoints, buffers, warnings, reprime, live })
    }

    /// How it was set up.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Endpoint numbers, endpoint 0 included.
    #[must_use]
    pub const fn endpoints(&self) -> u8 {
        self.registers.endpoints()
    }

    /// Whether the controller has the LPM register map.
    #[must_use]
    pub const fn lpm(&self) -> bool {
        self.registers.lpm()
    }

    /// Whether the controller says when VBUS is there.
    #[must_use]
    pub const fn otg(&self) -> bool {
        self.registers.otg()
    }

    /// What goes to ENDPTLISTADDR: the address of endpoint 0 OUT's dQH.
    #[must_use]
    pub fn list_address(&self) -> DmaAddr {
        self.endpoints.first().map_or(DmaAddr(0), |endpoint| endpoint.head.block.dma)
    }

    /// What the driver would have put into the kernel log since the last call.
    pub fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Whether [`Engine::shutdown`] has run.
    #[must_use]
    pub const fn is_shut_down(&self) -> bool {
        !self.live
    }

    /// Stops the controller and gives back every transfer, dTD, dQH and buffer; destroys both pools
    /// (`ci_hdrc_gadget_destroy`). Transfers go to `done`. A second call does nothing.
    ///
    /// # Errors
    /// The first thing that could not be given back; the rest was.
    pub fn shutdown(&mut self, done: &mut VecDeque<Completion>) -> Result<(), EngineError> {
        if !self.live {
            return Ok(());
        }
        self.set_pullup(false);
        self.stop();
        self.release(done)
    }

    /// Gives everything back, of a controller that was stopped.
    pub(crate) fn release(&mut self, done: &mut VecDeque<Completion>) -> Result<(), EngineError> {
        for slot in 0..self.endpoints.len() {
            let address = self.endpoints[slot].address;
            if self.endpoints[slot].queue.is_empty() {
                self.free_pending(address);
            } else {
                self.nuke(address, done);
            }
            if !address.is_ep0() && self.endpoints[slot].setup.is_some() {
                self.registers.update_endpoint(address, |control| control.with_enable(false));
            }
            self.endpoints[slot].setup = None;
        }
        self.live = false;
        self.buffers.release(&self.dma);
        let freed = self.heads.free(&self.endpoints);
        let descriptors = self.descriptors.destroy();
        let descriptors = descriptors.map_err(|error| EngineError::DestroyPool { name: DESCRIPTORS, error });
        let heads = self.heads.destroy(&self.dma);
        freed.and(descriptors).and(heads)
    }

    /// Whether it has this fault.
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.config.fault == Some(fault)
    }

    /// Writes a line to the driver's log.
    pub(crate) fn warn(&mut self, line: impl Into<String>) {
        if self.warnings.len() < MOST_WARNINGS {
            self.warnings.push(line.into());
        }
    }

    fn endpoint(&self, address: EndpointAddress) -> Result<&Endpoint, EngineError> {
        self.endpoints.get(slot_of(address) as usize).ok_or(EngineError::NoEndpoint(address))
    }

    fn endpoint_mut(&mut self, address: EndpointAddress) -> Result<&mut Endpoint, EngineError> {
        self.endpoints.get_mut(slot_of(address) as usize).ok_or(EngineError::NoEndpoint(address))
    }

    /// Both directions of a control endpoint, the one direction of another.
    fn directions(&self, address: EndpointAddress) -> impl Iterator<Item = EndpointAddress> + use<> {
        let control = self.endpoint(address).is_ok_and(Endpoint::is_control);
        let other = match address.direction {
            Direction::Out => EndpointAddress::r#in(address.number),
            Direction::In => EndpointAddress::out(address.number),
        };
        std::iter::once(address).chain(control.then_some(other))
    }

    /// Waits until `bits` of a register that clears them itself are 0.
    fn wait_clear(&self, register: Register, bits: u32) -> Result<(), EngineError> {
        for _ in 0..MOST_POLLS {
            if self.registers.load(register) & bits == 0 {
                return Ok(());
            }
        }
        Err(EngineError::Timeout { register: register.name(), bits, state: "set", polls: MOST_POLLS })
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("config", &self.config)
            .field("endpoints", &self.endpoints())
            .field("lpm", &self.lpm())
            .field("list_address", &self.list_address())
            .finish_non_exhaustive()
    }
}
