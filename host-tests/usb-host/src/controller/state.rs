//! What the controller's lock protects: the endpoints with their queues, and the port.

use std::collections::VecDeque;

use usb::ch9::{EndpointAddress, Speed};
use usb::urb::{UrbDone, UrbError};
use usb::wire::DataPid;

use super::job::{Job, Turn};
use super::{Completion, Strike, UrbId};

/// A port, as a hub reports it (USB 2.0 table 11-21).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStatus {
    /// A device's pull-up is there.
    pub connected: bool,
    /// The speed agreed on by the last reset, while the port is enabled.
    pub enabled: Option<Speed>,
    /// The bus is suspended.
    pub suspended: bool,
}

/// Changes at a port, latched until they are taken (USB 2.0 table 11-22).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortChange {
    /// C_PORT_CONNECTION: connected or disconnected, perhaps both.
    pub connection: bool,
    /// The suspended device signalled resume.
    pub remote_wakeup: bool,
}

/// A pipe: device address and endpoint. The two directions of endpoint 0 are one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) address: u8,
    endpoint: EndpointAddress,
}

impl Key {
    fn new(address: u8, endpoint: EndpointAddress) -> Self {
        let endpoint = if endpoint.is_ep0() { EndpointAddress::out(0) } else { endpoint };
        Self { address, endpoint }
    }

    pub(super) fn is(self, address: u8, endpoint: EndpointAddress) -> bool {
        self == Self::new(address, endpoint)
    }
}

struct Endpoint {
    key: Key,
    max_packet: u16,
    toggle: DataPid,
    queue: VecDeque<Job>,
    /// The device said NAK and has given no hint since.
    parked: bool,
    /// The strike after which the next try has to be asked for.
    struck: Option<Strike>,
}

impl Endpoint {
    /// The head has gone: the next one is always tried.
    fn set_free(&mut self) {
        self.parked = false;
        self.struck = None;
    }
}

/// The URB that the runner has on the wire, and what came for it meanwhile.
struct InFlight {
    id: UrbId,
    key: Key,
    hinted: bool,
    toggle_reset: bool,
    cancelled: Option<UrbError>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) running: bool,
    pub(super) port: PortStatus,
    pub(super) change: PortChange,
    /// After a strike, the next try has to be asked for.
    pub(super) spaced: bool,
    pub(super) finished: VecDeque<(Completion, UrbDone)>,
    endpoints: Vec<Endpoint>,
    in_flight: Option<InFlight>,
    /// Where the round robin goes on.
    cursor: usize,
    last_id: u64,
    last_strike: u64,
}

impl State {
    pub(super) fn next_id(&mut self) -> UrbId {
        self.last_id += 1;
        UrbId(self.last_id)
    }

    fn position(&self, key: Key) -> Option<usize> {
        self.endpoints.iter().position(|endpoint| endpoint.key == key)
    }

    pub(super) fn is_enabled(&self, address: u8, endpoint: EndpointAddress) -> bool {
        self.position(Key::new(address, endpoint)).is_some()
    }

    pub(super) fn enable(&mut self, address: u8, endpoint: EndpointAddress, max_packet: u16) {
        let key = Key::new(address, endpoint);
        match self.position(key) {
            Some(index) => {
                self.endpoints[index].max_packet = max_packet;
                self.reset_toggle(address, endpoint);
            }
            None => self.endpoints.push(Endpoint {
                key,
                max_packet,
                toggle: DataPid::Data0,
                queue: VecDeque::new(),
                parked: false,
                struck: None,
            }),
        }
    }

    pub(super) fn reset_toggle(&mut self, address: u8, endpoint: EndpointAddress) {
        let key = Key::new(address, endpoint);
        if let Some(index) = self.position(key) {
            self.endpoints[index].toggle = DataPid::Data0;
        }
        if let Some(flight) = self.in_flight.as_mut().filter(|flight| flight.key == key) {
            flight.toggle_reset = true;
        }
    }

    pub(super) fn queue(&mut self, address: u8, endpoint: EndpointAddress, job: Job) {
        let key = Key::new(address, endpoint);
        let index = self.position(key).unwrap_or_else(|| {
            let max_packet = if self.port.enabled == Some(Speed::Low) { 8 } else { 64 };
            self.enable(address, endpoint, max_packet);
            self.endpoints.len() - 1
        });
        let endpoint = &mut self.endpoints[index];
        // A new head is always tried; behind a head that waits, it waits.
        if endpoint.queue.is_empty() {
            endpoint.set_free();
        }
        endpoint.queue.push_back(job);
    }

    pub(super) fn finish(&mut self, job: Job, status: Result<(), UrbError>) {
        self.finished.push_back(job.finish(status));
    }

    pub(super) fn cancel(&mut self, id: UrbId, error: UrbError) -> bool {
        if let Some(flight) = self.in_flight.as_mut().filter(|flight| flight.id == id) {
            flight.cancelled.get_or_insert(error);
            return true;
        }
        for endpoint in &mut self.endpoints {
            if let Some(index) = endpoint.queue.iter().position(|job| job.id == id)
                && let Some(job) = endpoint.queue.remove(index)
            {
                if index == 0 {
                    endpoint.set_free();
                }
                self.finished.push_back(job.finish(Err(error)));
                return true;
            }
        }
        false
    }

    /// Ends the URBs of some endpoints and forgets these.
    pub(super) fn disable(&mut self, error: UrbError, which: impl Fn(Key) -> bool) {
        let finished = &mut self.finished;
        self.endpoints.retain_mut(|endpoint| {
            let goes = which(endpoint.key);
            if goes {
                finished.extend(endpoint.queue.drain(..).map(|job| job.finish(Err(error))));
            }
            !goes
        });
        if let Some(flight) = self.in_flight.as_mut().filter(|flight| which(flight.key)) {
            flight.cancelled.get_or_insert(error);
        }
    }

    pub(super) fn flush(&mut self, address: u8, endpoint: EndpointAddress) {
        let key = Key::new(address, endpoint);
        if let Some(index) = self.position(key) {
            let endpoint = &mut self.endpoints[index];
            endpoint.set_free();
            self.finished.extend(endpoint.queue.drain(..).map(|job| job.finish(Err(UrbError::Shutdown))));
        }
        if let Some(flight) = self.in_flight.as_mut().filter(|flight| flight.key == key) {
            flight.cancelled.get_or_insert(UrbError::Shutdown);
        }
    }

    /// A hint for all addresses' endpoints of that number. Returns whether one waited for it.
    pub(super) fn hint(&mut self, endpoint: EndpointAddress) -> bool {
        let hinted = Key::new(0, endpoint).endpoint;
        let mut woken = false;
        for waiting in self.endpoints.iter_mut().filter(|waiting| waiting.key.endpoint == hinted && waiting.parked) {
            waiting.parked = false;
            woken |= !waiting.queue.is_empty();
        }
        if let Some(flight) = self.in_flight.as_mut().filter(|flight| flight.key.endpoint == hinted) {
            flight.hinted = true;
        }
        woken
    }

    pub(super) fn note_remote_wakeup(&mut self) {
        if self.port.suspended {
            self.change.remote_wakeup = true;
        }
    }

    /// Returns whether it changed.
    pub(super) fn set_connected(&mut self, connected: bool) -> bool {
        if self.port.connected == connected {
            return false;
        }
        self.port.connected = connected;
        self.change.connection = true;
        if !connected {
            self.port.enabled = None;
            self.port.suspended = false;
            self.disable(UrbError::Shutdown, |_| true);
        }
        true
    }

    fn next_ready(&self) -> Option<usize> {
        if self.port.suspended || self.port.enabled.is_none() {
            return None;
        }
        let count = self.endpoints.len();
        (0..count).map(|step| (self.cursor + step) % count).find(|&index| {
            let endpoint = &self.endpoints[index];
            !endpoint.parked && endpoint.struck.is_none() && !endpoint.queue.is_empty()
        })
    }

    pub(super) fn has_work(&self) -> bool {
        !self.finished.is_empty() || self.next_ready().is_some()
    }

    /// Takes the next URB to the wire, with its endpoint's toggle and packet size. Comes back by `put_back`.
    pub(super) fn take_next(&mut self) -> Option<(Job, DataPid, usize)> {
        let index = self.next_ready()?;
        self.cursor = index + 1;
        let endpoint = &mut self.endpoints[index];
        let job = endpoint.queue.pop_front()?;
        self.in_flight =
            Some(InFlight { id: job.id, key: endpoint.key, hinted: false, toggle_reset: false, cancelled: None });
        Some((job, endpoint.toggle, usize::from(endpoint.max_packet)))
    }

    /// The last strike after which a try waits to be asked for.
    pub(super) fn last_struck(&self) -> Option<Strike> {
        self.endpoints.iter().filter_map(|endpoint| endpoint.struck).max()
    }

    pub(super) fn retry(&mut self, last: Strike) {
        for endpoint in self.endpoints.iter_mut().filter(|endpoint| endpoint.struck <= Some(last)) {
            endpoint.struck = None;
        }
    }

    /// After a turn on the wire. Returns whether the next one has to be asked for.
    pub(super) fn put_back(&mut self, job: Job, pid: DataPid, turn: Turn) -> bool {
        let Some(flight) = self.in_flight.take() else { return false };
        let struck = (self.spaced && matches!(turn, Turn::Strike | Turn::Wait)).then(|| {
            self.last_strike += 1;
            Strike(self.last_strike)
        });
        let position = self.position(flight.key);
        if let Some(index) = position {
            let endpoint = &mut self.endpoints[index];
            if !flight.toggle_reset {
                endpoint.toggle = pid;
            }
            endpoint.parked = matches!(turn, Turn::Nak) && !flight.hinted;
            endpoint.struck = struck;
        }
        let status = match turn {
            Turn::Again | Turn::Nak | Turn::Strike | Turn::Wait => None,
            Turn::Over(status) => Some(status),
        };
        // What the wire says after the device is gone means nothing: its end was decided before.
        let status = match (status, flight.cancelled) {
            (Some(Ok(())), _) => Some(Ok(())),
            (_, Some(error)) => Some(Err(error)),
            (status, None) => status,
        };
        match (status, position) {
            (None, Some(index)) => {
                self.endpoints[index].queue.push_front(job);
                return struck.is_some();
            }
            (None, None) => self.finish(job, Err(UrbError::Shutdown)),
            (Some(status), position) => {
                if let Some(index) = position {
                    self.endpoints[index].set_free();
                }
                self.finish(job, status);
            }
        }
        false
    }
}
