//! ci_hdrc's gadget side: chapter 9 and VBUS over the engine, behind [`usb::Udc`] and [`usb::UdcDriver`].

mod chapter9;
mod interrupt;
mod requests;
mod vbus;

use std::collections::VecDeque;
use std::sync::Arc;

use bus::Mmio;
use pool::DmaApi;
use usb::ch9::EndpointDescriptor;
use usb::gadget::{Completion, DebugFile, QueueError, Request, UdcError};
use usb::{Direction, EndpointAddress, Gadget, Speed, TransferType, Udc, UdcDriver};

use crate::config::Config;
use crate::endpoint::EndpointSetup;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::names::slot_of;

use requests::{EP0, Ep0Request};

/// Bytes in a full packet of endpoint 0 (`CTRL_PAYLOAD_MAX`).
const EP0_MAX_PACKET: u16 = 64;

/// The device controller driver (`struct ci_hdrc` in its gadget role).
///
/// [`ChipideaUdc::probe`] allocates, [`ChipideaUdc::start`] binds it to a gadget. From then on VBUS decides whether the
/// pull-up is on, unless the gadget says no with [`Udc::pullup`].
#[derive(Debug)]
pub struct ChipideaUdc {
    engine: Engine,
    /// A gadget is bound.
    started: bool,
    vbus_active: bool,
    /// What the gadget wants of the pull-up.
    wants_pullup: bool,
    /// Whether the pull-up is on (`gadget->connected`).
    connected: bool,
    speed: Option<Speed>,
    self_powered: bool,
    remote_wakeup: bool,
    suspended: bool,
    /// The address to take when the status stage is over.
    next_address: Option<u8>,
    /// Whether there is a request for status stages (`ci->status`): from a bus reset to the end of activity.
    status_ready: bool,
    /// Direction of the control transfer, `In` without a data stage (`ci->ep0_dir`).
    ep0_direction: Direction,
    /// Whose request is queued on endpoint 0: OUT, IN. There is never more than one.
    ep0: [Option<Ep0Request>; 2],
    /// By slot.
    wedged: u32,
    /// What came back and was not delivered yet.
    done: VecDeque<Completion>,
    /// Room that is used again for what comes back from the engine.
    scratch: VecDeque<Completion>,
}

impl ChipideaUdc {
    /// Finds the controller and allocates its structures; then watches VBUS (`ci_hdrc_probe`).
    ///
    /// # Errors
    /// The controller cannot be a device, or there is no memory. Nothing stays allocated then.
    pub fn probe(mmio: Arc<dyn Mmio>, dma: DmaApi, config: Config) -> Result<Self, UdcError> {
        let mut udc = Self {
            engine: Engine::probe(mmio, dma, config)?,
            started: false,
            vbus_active: false,
            wants_pullup: true,
            connected: false,
            speed: None,
            self_powered: false,
            remote_wakeup: false,
            suspended: false,
            next_address: None,
            status_ready: false,
            ep0_direction: Direction::Out,
            ep0: [None, None],
            wedged: 0,
            done: VecDeque::new(),
            scratch: VecDeque::new(),
        };
        udc.vbus_changed();
        udc.engine.watch_vbus(true);
        Ok(udc)
    }

    /// Binds to a gadget: endpoint 0 is enabled, and if VBUS is there the controller runs (`ci_udc_start`). A second
    /// call does nothing.
    ///
    /// # Errors
    /// The controller does not reset or was shut down.
    pub fn start(&mut self) -> Result<(), UdcError> {
        if self.started {
            return Ok(());
        }
        let setup = EndpointSetup { transfer_type: TransferType::Control, max_packet: EP0_MAX_PACKET, mult: 1 };
        for address in EP0 {
            match self.engine.enable(address, setup) {
                // Enabled by a start that failed later on.
                Ok(()) | Err(EngineError::Busy(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if self.vbus_active {
            self.connect()?;
        }
        self.started = true;
        Ok(())
    }

    /// The layer below.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Whether VBUS is there, as far as the driver was told.
    #[must_use]
    pub const fn vbus_active(&self) -> bool {
        self.vbus_active
    }

    fn is_wedged(&self, endpoint: EndpointAddress) -> bool {
        self.wedged & 1 << slot_of(endpoint) != 0
    }

    fn set_wedged(&mut self, endpoint: EndpointAddress, on: bool) {
        let bit = 1 << slot_of(endpoint);
        self.wedged = if on { self.wedged | bit } else { self.wedged & !bit };
    }

    /// Halts, or ends a halt and a wedge (`_ep_set_halt`).
    fn change_halt(&mut self, endpoint: EndpointAddress, halt: bool) -> Result<(), UdcError> {
        self.check_haltable(endpoint)?;
        if !halt {
            self.set_wedged(endpoint, false);
        }
        Ok(self.engine.set_halt(endpoint, halt)?)
    }

    /// Refuses halts of isochronous endpoints.
    fn check_haltable(&self, endpoint: EndpointAddress) -> Result<(), UdcError> {
        let setup = self.engine.endpoint_setup(endpoint).ok_or(UdcError::NoEndpoint(endpoint))?;
        match setup.transfer_type {
            TransferType::Isochronous => Err(UdcError::Unsupported("a halt of an isochronous endpoint")),
            _ => Ok(()),
        }
    }

    /// Refuses a halt while an IN endpoint has data to send (`ep_set_halt`).
    fn check_halt(&self, endpoint: EndpointAddress) -> Result<(), UdcError> {
        self.check_haltable(endpoint)?;
        let sends = endpoint.direction == Direction::In && !endpoint.is_ep0() && self.engine.queued(endpoint) > 0;
        if sends { Err(UdcError::Again(endpoint)) } else { Ok(()) }
    }

    /// Gives an endpoint's requests back as shut down.
    fn nuke(&mut self, endpoint: EndpointAddress) {
        let mut scratch = std::mem::take(&mut self.scratch);
        self.engine.nuke(endpoint, &mut scratch);
        for completion in scratch.drain(..) {
            self.give_back(completion);
        }
        self.scratch = scratch;
    }

    /// Disables an endpoint (`ep_disable`). While the speed is not known nothing can be queued on it, and the
    /// controller is left alone.
    fn disable_now(&mut self, endpoint: EndpointAddress) -> Result<(), UdcError> {
        if self.speed.is_none() && self.engine.queued(endpoint) == 0 {
            return Ok(self.engine.forget(endpoint)?);
        }
        self.nuke(endpoint);
        Ok(self.engine.disable(endpoint)?)
    }

    /// The endpoints but 0 in the order of `gadget->ep_list` (`init_eps`).
    fn endpoint_list(&self) -> impl Iterator<Item = EndpointAddress> + use<> {
        let numbers = 1..self.engine.endpoints();
        numbers.flat_map(|number| [EndpointAddress::out(number), EndpointAddress::r#in(number)])
    }

    /// Flushes all endpoints and disables all but 0 (`_gadget_stop_activity`).
    fn stop_activity(&mut self) {
        for address in self.endpoint_list().chain(EP0) {
            let flushed = self.flush(address);
            self.warn_of(address, flushed);
        }
        for address in self.endpoint_list() {
            if self.engine.endpoint_setup(address).is_some() {
                let disabled = self.disable_now(address);
                self.warn_of(address, disabled);
            }
        }
        self.status_ready = false;
        self.next_address = None;
        self.speed = None;
        self.remote_wakeup = false;
        self.suspended = false;
    }

    fn warn_of(&mut self, endpoint: EndpointAddress, result: Result<(), UdcError>) {
        if let Err(error) = result {
            self.engine.warn(format!("{endpoint}: {error}"));
        }
    }
}

impl Udc for ChipideaUdc {
    fn name(&self) -> &str {
        &self.engine.config().name
    }

    fn max_speed(&self) -> Speed {
        self.engine.config().max_speed
    }

    fn endpoints(&self) -> u8 {
        self.engine.endpoints()
    }

    fn speed(&self) -> Option<Speed> {
        self.speed
    }

    fn match_endpoint(&self, kind: TransferType, direction: Direction, taken: &[EndpointAddress]) -> Option<u8> {
        let conflicts = kind == TransferType::Isochronous && direction == Direction::In;
        if !conflicts || !self.engine.config().workarounds.isochronous_in_from_highest {
            return None;
        }
        (1..self.engine.endpoints()).rev().find(|&number| !taken.contains(&EndpointAddress::r#in(number)))
    }

    fn enable(&mut self, descriptor: &EndpointDescriptor) -> Result<(), UdcError> {
        let setup = EndpointSetup {
            transfer_type: descriptor.transfer_type(),
            max_packet: descriptor.max_packet(),
            mult: 1 + (descriptor.max_packet_size.get() >> 11 & 3).min(2) as u8,
        };
        Ok(self.engine.enable(descriptor.endpoint(), setup)?)
    }

    fn disable(&mut self, endpoint: EndpointAddress) -> Result<(), UdcError> {
        if endpoint.is_ep0() {
            return Err(UdcError::Unsupported("to disable endpoint 0"));
        }
        if self.engine.endpoint_setup(endpoint).is_none() {
            return Err(UdcError::NoEndpoint(endpoint));
        }
        self.disable_now(endpoint)
    }

    fn queue(&mut self, endpoint: EndpointAddress, request: Request) -> Result<(), QueueError> {
        if self.speed.is_none() {
            return Err(QueueError { error: UdcError::NotConnected, request });
        }
        if endpoint.is_ep0() {
            return self.queue_ep0(request, Ep0Request::Gadget);
        }
        self.engine
            .submit(endpoint, request)
            .map_err(|refused| QueueError { error: refused.error.into(), request: refused.request })
    }

    fn dequeue(&mut self, endpoint: EndpointAddress, id: u64) -> Result<(), UdcError> {
        let endpoint = if endpoint.is_ep0() { self.ep0_holder(id).unwrap_or(endpoint) } else { endpoint };
        let completion = self.engine.cancel(endpoint, id)?;
        self.give_back(completion);
        Ok(())
    }

    fn set_halt(&mut self, endpoint: EndpointAddress, halt: bool) -> Result<(), UdcError> {
        if halt {
            self.check_halt(endpoint)?;
        }
        self.change_halt(endpoint, halt)
    }

    fn set_wedge(&mut self, endpoint: EndpointAddress) -> Result<(), UdcError> {
        self.engine.endpoint_setup(endpoint).ok_or(UdcError::NoEndpoint(endpoint))?;
        // A wedge whose halt is refused stays, as in ci_hdrc.
        self.set_wedged(endpoint, true);
        self.set_halt(endpoint, true)
    }

    fn flush(&mut self, endpoint: EndpointAddress) -> Result<(), UdcError> {
        if endpoint.number >= self.engine.endpoints() {
            return Err(UdcError::NoEndpoint(endpoint));
        }
        // ci_hdrc leaves the controller alone until the speed is known.
        if self.speed.is_none() { Ok(()) } else { Ok(self.engine.flush_fifo(endpoint)?) }
    }

    fn set_self_powered(&mut self, on: bool) {
        self.self_powered = on;
    }

    fn pullup(&mut self, on: bool) -> Result<(), UdcError> {
        if self.engine.is_shut_down() {
            return Err(UdcError::NotConnected);
        }
        self.wants_pullup = on;
        if on {
            self.start()?;
        }
        if self.started && self.vbus_active {
            self.change_pullup(on);
        }
        Ok(())
    }

    fn wakeup(&mut self) -> Result<(), UdcError> {
        if self.speed.is_none() {
            return Err(UdcError::NotConnected);
        }
        if !self.remote_wakeup {
            return Err(UdcError::Unsupported("remote wakeup: the host did not allow it"));
        }
        if self.engine.force_resume() { Ok(()) } else { Err(UdcError::Unsupported("remote wakeup: not suspended")) }
    }
}

impl UdcDriver for ChipideaUdc {
    fn irq(&mut self, gadget: &mut dyn Gadget) {
        self.handle_interrupt(gadget);
    }

    fn take_log(&mut self) -> Vec<String> {
        self.engine.take_log()
    }

    fn debugfs(&self) -> Result<Vec<DebugFile>, UdcError> {
        Ok(self.engine.debugfs()?)
    }

    fn deliver(&mut self, gadget: &mut dyn Gadget) -> bool {
        // What the gadget takes back in its completions waits for the next call: no gadget keeps us here for ever.
        let waiting = self.done.len();
        for _ in 0..waiting {
            let Some(completion) = self.done.pop_front() else { break };
            gadget.complete(self, completion);
        }
        waiting > 0
    }

    fn shutdown(&mut self) -> Result<(), UdcError> {
        if self.engine.is_shut_down() {
            return Ok(());
        }
        self.change_pullup(false);
        if self.started && self.vbus_active {
            self.engine.stop();
            self.stop_activity();
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = self.engine.release(&mut scratch);
        self.engine.watch_vbus(false);
        for completion in scratch.drain(..) {
            self.give_back(completion);
        }
        self.started = false;
        self.vbus_active = false;
        self.speed = None;
        Ok(result?)
    }
}
