//! The controller as firmware stacks see theirs: one packet at a time for each endpoint and direction.

mod halt;
mod service;

use std::collections::VecDeque;
use std::sync::Arc;

use bus::Mmio;
use chipidea_driver::{Config, EndpointSetup, Engine, EngineError};
use pool::DmaApi;
use usb::gadget::{Completion, Request};
use usb::{Direction, EndpointAddress, SetupPacket, Speed, TransferType};

use crate::error::{AllocateError, PacketError};

const EP0_OUT: EndpointAddress = EndpointAddress::out(0);
const EP0_IN: EndpointAddress = EndpointAddress::r#in(0);

/// Bytes of the largest packet (USB 2.0 §5.6.3, §5.7.3).
const MOST_BYTES: u16 = 1024;
/// Lines that are kept until somebody takes them; later ones are dropped.
const MOST_LINES: usize = 64;

/// What happened to the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Power {
    /// It is idle.
    Suspended,
    /// It is active again.
    Resumed,
    /// VBUS went away.
    Removed,
    /// VBUS came.
    Detected,
}

/// Packets of endpoints by number: bit n is endpoint n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    /// A SETUP waits on endpoint 0.
    pub(crate) setup: bool,
    /// OUT packets that wait to be read.
    pub(crate) out: u16,
    /// IN packets that went since the last look.
    pub(crate) sent: u16,
}

/// An endpoint of one direction.
struct Endpoint {
    address: EndpointAddress,
    setup: EndpointSetup,
    /// OUT: the packet that came, in the first so many bytes.
    received: Option<(Vec<u8>, usize)>,
    /// Room that the next packet uses.
    spare: Vec<u8>,
}

/// Packets on the engine's transfers: each is a transfer of its own.
pub(crate) struct Packets {
    engine: Engine,
    /// In the order of their allocation.
    endpoints: Vec<Endpoint>,
    started: bool,
    /// The pull-up is wanted.
    attached: bool,
    vbus: bool,
    suspended: bool,
    reset: bool,
    power: Option<Power>,
    /// A SETUP that nobody has read.
    setup: Option<SetupPacket>,
    /// The SETUP that was read last, until it is answered.
    current: Option<SetupPacket>,
    /// Bytes of the data stage that are still to come on endpoint 0 OUT.
    expected: usize,
    sent: u16,
    /// Packets came or went since the last look.
    news: bool,
    log: Vec<String>,
    scratch: VecDeque<Completion>,
}

impl Packets {
    pub(crate) fn probe(mmio: Arc<dyn Mmio>, dma: DmaApi, config: Config) -> Result<Self, EngineError> {
        Ok(Self {
            engine: Engine::probe(mmio, dma, config)?,
            endpoints: Vec::new(),
            started: false,
            attached: false,
            vbus: false,
            suspended: false,
            reset: false,
            power: None,
            setup: None,
            current: None,
            expected: 0,
            sent: 0,
            news: false,
            log: Vec::new(),
            scratch: VecDeque::new(),
        })
    }

    /// Takes an endpoint: of that number, or the lowest that is free in this direction.
    pub(crate) fn allocate(
        &mut self,
        direction: Direction,
        number: Option<u8>,
        transfer_type: TransferType,
        max_packet: u16,
    ) -> Result<EndpointAddress, AllocateError> {
        if self.started {
            return Err(AllocateError::Started);
        }
        if max_packet > MOST_BYTES {
            return Err(AllocateError::PacketSize(max_packet));
        }
        let address = |number| EndpointAddress { number, direction };
        let is_free = |number: &u8| self.position(address(*number)).is_none();
        let endpoints = self.engine.endpoints();
        let number = match number {
            Some(number) if !is_free(&number) => return Err(AllocateError::Taken(address(number))),
            Some(number) if number >= endpoints => return Err(AllocateError::Exhausted { endpoints }),
            Some(number) => number,
            None => (1..endpoints).find(is_free).ok_or(AllocateError::Exhausted { endpoints })?,
        };
        // The engine's control transfers are those of endpoint 0.
        if (number == 0) != (transfer_type == TransferType::Control) {
            return Err(AllocateError::Control(address(number)));
        }
        let setup = EndpointSetup { transfer_type, max_packet, mult: 1 };
        self.endpoints.push(Endpoint { address: address(number), setup, received: None, spare: Vec::new() });
        Ok(address(number))
    }

    /// Starts the controller: endpoint 0 is ready, and the pull-up is on while VBUS is there.
    pub(crate) fn start(&mut self) -> Result<(), EngineError> {
        self.engine.reset_controller()?;
        for endpoint in self.endpoints.iter().filter(|endpoint| endpoint.address.is_ep0()) {
            if self.engine.endpoint_setup(endpoint.address).is_none() {
                self.engine.enable(endpoint.address, endpoint.setup)?;
            }
        }
        self.engine.start()?;
        self.started = true;
        self.attached = true;
        self.engine.watch_vbus(true);
        self.vbus = self.engine.vbus();
        self.engine.set_pullup(self.vbus);
        Ok(())
    }

    /// Switches the pull-up off and on.
    pub(crate) fn reattach(&mut self) {
        self.detach();
        self.attach();
    }

    /// Wants the pull-up, which is on while VBUS is there.
    pub(crate) fn attach(&mut self) {
        if self.started && !self.attached && !self.engine.is_shut_down() {
            self.attached = true;
            self.engine.set_pullup(self.vbus);
        }
    }

    /// Switches the pull-up off.
    pub(crate) fn detach(&mut self) {
        if self.attached && !self.engine.is_shut_down() {
            self.attached = false;
            self.engine.set_pullup(false);
            self.stop_activity();
        }
    }

    /// Whether it was started.
    pub(crate) const fn is_started(&self) -> bool {
        self.started
    }

    /// Whether a control transfer at hand is of the past: a SETUP came, or a bus reset, or the cable went.
    pub(crate) const fn control_is_over(&self) -> bool {
        self.setup.is_some() || self.reset || matches!(self.power, Some(Power::Removed))
    }

    /// Whether a packet waits to go.
    pub(crate) fn is_sending(&self, address: EndpointAddress) -> bool {
        self.engine.queued(address) > 0
    }

    /// Whether something came that nobody was told of.
    pub(crate) const fn has_news(&self) -> bool {
        self.reset || self.power.is_some() || self.news && !self.is_idle()
    }

    /// Whether there was a bus reset since the last call. [`Packets::enable_endpoints`] is next.
    pub(crate) fn take_reset(&mut self) -> bool {
        std::mem::take(&mut self.reset)
    }

    /// What happened to the bus last, if nobody was told.
    pub(crate) const fn power(&self) -> Option<Power> {
        self.power
    }

    /// The same, and takes it.
    pub(crate) fn take_power(&mut self) -> Option<Power> {
        self.power.take()
    }

    /// Whether nothing can move: suspended, or without VBUS.
    pub(crate) const fn is_idle(&self) -> bool {
        self.suspended || !self.vbus
    }

    /// Whether packets came or went since [`Packets::take_ready`].
    pub(crate) const fn has_packets(&self) -> bool {
        self.news
    }

    /// The packets there are. What went is told once, what came until it is read.
    pub(crate) fn take_ready(&mut self) -> Ready {
        self.news = false;
        let received = self.endpoints.iter().filter(|endpoint| endpoint.received.is_some());
        let out = received.fold(0, |bits, endpoint| bits | 1 << endpoint.address.number);
        Ready { setup: self.setup.is_some(), out, sent: std::mem::take(&mut self.sent) }
    }

    /// Takes the SETUP that waits. Endpoint 0 OUT gets room for the data stage, or for the status stage of an IN
    /// transfer, which the host may begin before it has all data (USB 2.0 §8.5.3).
    pub(crate) fn take_setup(&mut self) -> Option<SetupPacket> {
        let setup = self.setup.take()?;
        let length = usize::from(setup.length.get());
        self.current = Some(setup);
        self.expected = if setup.direction() == Direction::Out { length } else { 0 };
        if length > 0 {
            self.prime(EP0_OUT);
        }
        Some(setup)
    }

    /// Whether a SETUP waits.
    pub(crate) const fn has_setup(&self) -> bool {
        self.setup.is_some()
    }

    /// Takes the packet that came, and makes room for the next. A packet that does not fit stays.
    pub(crate) fn read(&mut self, address: EndpointAddress, buffer: &mut [u8]) -> Result<usize, PacketError> {
        let index = self.index(address, Direction::Out)?;
        let endpoint = &mut self.endpoints[index];
        let (data, length) = endpoint.received.take().ok_or(PacketError::WouldBlock)?;
        let Some(room) = buffer.get_mut(..length) else {
            endpoint.received = Some((data, length));
            return Err(PacketError::Overflow { endpoint: address, bytes: length });
        };
        room.copy_from_slice(&data[..length]);
        endpoint.spare = data;
        if !address.is_ep0() {
            self.prime(address);
            return Ok(length);
        }
        self.expected = self.expected.saturating_sub(length);
        if self.expected > 0 {
            self.prime(address);
        }
        Ok(length)
    }

    /// Whether an endpoint is enabled.
    pub(crate) fn is_enabled(&self, address: EndpointAddress) -> bool {
        self.engine.endpoint_setup(address).is_some()
    }

    /// Sends a packet.
    pub(crate) fn write(&mut self, address: EndpointAddress, data: &[u8]) -> Result<(), PacketError> {
        let index = self.index(address, Direction::In)?;
        if data.len() > usize::from(self.endpoints[index].setup.max_packet) {
            return Err(PacketError::Overflow { endpoint: address, bytes: data.len() });
        }
        let outdated = address.is_ep0() && self.setup.is_some();
        if outdated || !self.is_enabled(address) || self.engine.queued(address) > 0 {
            return Err(PacketError::WouldBlock);
        }
        let mut packet = std::mem::take(&mut self.endpoints[index].spare);
        packet.clear();
        packet.extend_from_slice(data);
        if address.is_ep0() {
            let configures = data.is_empty() && self.configures();
            self.current = None;
            if configures {
                self.forget_halts();
            }
        }
        match self.engine.submit(address, Request { data: packet, ..Request::default() }) {
            Ok(()) => Ok(()),
            Err(refused) => {
                self.endpoints[index].spare = refused.request.data;
                Err(refused.error.into())
            }
        }
    }

    /// Takes an address once the host has acknowledged the status stage, which is to be written next.
    pub(crate) fn set_address_in_advance(&mut self, address: u8) {
        if !self.engine.is_shut_down() {
            self.engine.set_address_in_advance(address);
        }
    }

    /// Sets the endpoints but 0 up as they were allocated: no halt, DATA0, room for a packet. To be called after a bus
    /// reset.
    pub(crate) fn enable_endpoints(&mut self) {
        for index in 0..self.endpoints.len() {
            self.enable(self.endpoints[index].address);
        }
    }

    /// Sets an endpoint but 0 up as it was allocated, unless it is.
    pub(crate) fn enable(&mut self, address: EndpointAddress) {
        let Some(index) = self.position(address) else { return };
        if address.is_ep0() || self.is_enabled(address) || self.engine.is_shut_down() {
            return;
        }
        match self.engine.enable(address, self.endpoints[index].setup) {
            Ok(()) if address.direction == Direction::Out => self.prime(address),
            Ok(()) => {}
            Err(error) => self.warn(format!("{address}: enable: {error}")),
        }
    }

    /// Signals resume if the bus is suspended. Returns whether it was.
    pub(crate) fn wake_up(&mut self) -> bool {
        !self.engine.is_shut_down() && self.suspended && self.engine.force_resume()
    }

    /// The bus speed; it holds after a bus reset.
    pub(crate) fn speed(&self) -> Speed {
        self.engine.speed()
    }

    /// What went wrong since the last call.
    pub(crate) fn take_log(&mut self) -> Vec<String> {
        let mut lines = std::mem::take(&mut self.log);
        lines.append(&mut self.engine.take_log());
        lines
    }

    /// Stops the controller and gives everything back.
    pub(crate) fn shutdown(&mut self) -> Result<(), EngineError> {
        if self.engine.is_shut_down() {
            return Ok(());
        }
        self.engine.watch_vbus(false);
        let result = self.engine.shutdown(&mut self.scratch);
        self.scratch.clear();
        for endpoint in &mut self.endpoints {
            endpoint.received = None;
        }
        (self.setup, self.sent, self.news) = (None, 0, false);
        result
    }

    fn position(&self, address: EndpointAddress) -> Option<usize> {
        self.endpoints.iter().position(|endpoint| endpoint.address == address)
    }

    fn index(&self, address: EndpointAddress, direction: Direction) -> Result<usize, PacketError> {
        let index = self.position(address).filter(|_| address.direction == direction);
        index.ok_or(PacketError::NoEndpoint(address))
    }

    pub(crate) fn warn(&mut self, line: String) {
        if self.log.len() < MOST_LINES {
            self.log.push(line);
        }
    }

    /// Takes everything back and disables the endpoints but 0.
    pub(crate) fn stop_activity(&mut self) {
        for index in 0..self.endpoints.len() {
            let address = self.endpoints[index].address;
            self.disable(address);
        }
        self.suspended = false;
        (self.setup, self.current, self.expected) = (None, None, 0);
        (self.sent, self.news) = (0, false);
    }

    /// Takes an endpoint's packets back and disables it; of endpoint 0 only the packets.
    pub(crate) fn disable(&mut self, address: EndpointAddress) {
        self.drop_packets(address);
        if !address.is_ep0()
            && self.is_enabled(address)
            && let Err(error) = self.engine.disable(address)
        {
            self.warn(format!("{address}: disable: {error}"));
        }
    }

    fn drop_packets(&mut self, address: EndpointAddress) {
        let Some(index) = self.position(address) else { return };
        if let Some((data, _)) = self.endpoints[index].received.take() {
            self.endpoints[index].spare = data;
        }
        if self.is_enabled(address) {
            self.engine.nuke(address, &mut self.scratch);
            for completion in self.scratch.drain(..) {
                self.endpoints[index].spare = completion.request.data;
            }
        }
    }

    fn prime_all(&mut self) {
        for index in 0..self.endpoints.len() {
            let address = self.endpoints[index].address;
            if !address.is_ep0() && address.direction == Direction::Out && self.is_enabled(address) {
                self.prime(address);
            }
        }
    }

    /// Makes room for a packet, unless there is some or one waits to be read.
    fn prime(&mut self, address: EndpointAddress) {
        let Some(index) = self.position(address) else { return };
        let endpoint = &mut self.endpoints[index];
        if endpoint.received.is_some() || self.engine.queued(address) > 0 {
            return;
        }
        let mut room = std::mem::take(&mut endpoint.spare);
        room.resize(endpoint.setup.max_packet.into(), 0);
        if let Err(refused) = self.engine.submit(address, Request { data: room, ..Request::default() }) {
            self.endpoints[index].spare = refused.request.data;
            // After a SETUP that came meanwhile the stage is of the past.
            if !matches!(refused.error, EngineError::SetupPending(_)) {
                self.warn(format!("{address}: prime: {}", refused.error));
            }
        }
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.shutdown();
    }
}
