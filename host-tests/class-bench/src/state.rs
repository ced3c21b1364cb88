//! What the wire and the firmware share: the peripheral.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use usb::ch9::{Direction, EndpointAddress, Feature, Recipient, Request, SetupPacket};
use usb::wire::{DataPid, Packet, PortListener, Target};

use crate::endpoint::Endpoint;
use crate::fault::{Fault, Token, Transaction};
use crate::limits::Limits;
use crate::mistake::Mistake;
use crate::trace::{Action, Event, Ring, TraceLine};

/// Mistakes that are kept.
const MOST_MISTAKES: usize = 1000;

/// Endpoint numbers (USB 2.0 §8.3.2.2).
pub(crate) const NUMBERS: usize = 16;

/// The peripheral's registers, so to speak.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) limits: Limits,
    pub(crate) outs: [Option<Endpoint>; NUMBERS],
    pub(crate) ins: [Option<Endpoint>; NUMBERS],
    /// The firmware enabled the pull-up.
    pub(crate) enabled: bool,
    /// The cable is out.
    pub(crate) unplugged: bool,
    pub(crate) vbus: bool,
    pub(crate) address: u8,
    /// The address to use after the status stage.
    pub(crate) next_address: Option<u8>,
    /// A bus reset that the firmware has not handled: nothing is answered until it has.
    pub(crate) reset_pending: bool,
    pub(crate) suspended: bool,
    pub(crate) suspend_told: bool,
    pub(crate) resume_pending: bool,
    /// A SETUP that the firmware has not read.
    pub(crate) setup: Option<[u8; 8]>,
    /// The control request under way.
    pub(crate) request: Option<SetupPacket>,
    /// Something happened on the wire since the firmware last asked.
    pub(crate) fresh: bool,
    /// A packet was taken since the firmware was last called.
    pub(crate) unseen: bool,
    /// The host permits to signal resume.
    pub(crate) wakeup_enabled: bool,
    /// How often the firmware signalled resume.
    pub(crate) wakeups: u64,
    /// Grows with every step that the firmware makes.
    pub(crate) progress: u64,
    transactions: u64,
    mistakes: Vec<Mistake>,
}

impl State {
    pub(crate) fn endpoint(&self, address: EndpointAddress) -> Option<&Endpoint> {
        let side = if address.direction == Direction::In { &self.ins } else { &self.outs };
        side.get(usize::from(address.number))?.as_ref()
    }

    pub(crate) fn endpoint_mut(&mut self, address: EndpointAddress) -> Option<&mut Endpoint> {
        let side = if address.direction == Direction::In { &mut self.ins } else { &mut self.outs };
        side.get_mut(usize::from(address.number))?.as_mut()
    }

    pub(crate) fn mistake(&mut self, mistake: Mistake) {
        if self.mistakes.len() < MOST_MISTAKES {
            self.mistakes.push(mistake);
        }
    }

    pub(crate) fn mistakes(&self) -> Vec<Mistake> {
        self.mistakes.clone()
    }

    /// Whether the device hears packets for `target`.
    pub(crate) fn hears(&self, target: Target) -> bool {
        self.attached() && !self.reset_pending && !self.suspended && target.address == self.address
    }

    pub(crate) fn attached(&self) -> bool {
        self.enabled && self.vbus && !self.unplugged
    }

    pub(crate) fn next_transaction(&mut self, target: Target, token: Token) -> Transaction {
        let number = self.transactions;
        self.transactions += 1;
        Transaction { number, target, token }
    }

    /// Whether the request under way is this one.
    pub(crate) fn is_clearing_halt(&self, address: EndpointAddress) -> bool {
        self.request.is_some_and(|request| {
            request.standard() == Some(Request::ClearFeature)
                && request.recipient() == Recipient::Endpoint
                && request.value.get() == Feature::EndpointHalt.0
                && EndpointAddress::from_byte(request.index.get() as u8) == address
        })
    }

    /// The status stage of a request without IN data went through.
    pub(crate) fn status_acknowledged(&mut self) {
        if let Some(address) = self.next_address.take() {
            self.address = address;
        }
        if let Some(request) = self.request.take_if(|request| request.direction() == Direction::Out)
            && request.recipient() == Recipient::Device
            && request.value.get() == Feature::DeviceRemoteWakeup.0
        {
            match request.standard() {
                Some(Request::SetFeature) => self.wakeup_enabled = true,
                Some(Request::ClearFeature) => self.wakeup_enabled = false,
                _ => {}
            }
        }
    }

    /// What a bus reset does to the hardware.
    pub(crate) fn bus_reset(&mut self) {
        self.reset_pending = true;
        self.suspended = false;
        self.suspend_told = false;
        self.resume_pending = false;
        self.forget_traffic();
    }

    /// All endpoints as they were allocated, address 0.
    pub(crate) fn forget_traffic(&mut self) {
        self.address = 0;
        self.next_address = None;
        self.setup = None;
        self.request = None;
        self.fresh = false;
        self.wakeup_enabled = false;
        for endpoint in self.outs.iter_mut().chain(&mut self.ins).flatten() {
            endpoint.reset();
        }
    }
}

type Faults = Box<dyn FnMut(Transaction) -> Fault + Send>;

/// The peripheral with what hangs on it. The state's lock is never held across a call of the listener.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    listener: Mutex<Option<Arc<dyn PortListener>>>,
    faults: Mutex<Option<Faults>>,
    trace: Mutex<Ring>,
    /// The run's begin, or its length once it is over.
    clock: Mutex<(Option<Instant>, Duration)>,
    /// The wire has something for the firmware.
    pub(crate) wake: Notify,
}

impl Shared {
    pub(crate) fn set_listener(&self, listener: Option<Arc<dyn PortListener>>) {
        *self.listener.lock() = listener;
    }

    pub(crate) fn set_faults(&self, faults: Option<Faults>) {
        *self.faults.lock() = faults;
    }

    pub(crate) fn fault(&self, target: Target, token: Token) -> Fault {
        let transaction = self.state.lock().next_transaction(target, token);
        self.faults.lock().as_mut().map_or(Fault::None, |faults| faults(transaction))
    }

    /// Tells the host.
    pub(crate) fn hint(&self, hint: impl FnOnce(&dyn PortListener)) {
        let listener = self.listener.lock().clone();
        if let Some(listener) = listener {
            hint(&*listener);
        }
    }

    pub(crate) fn ready(&self, endpoint: EndpointAddress) {
        self.hint(|listener| listener.ready(endpoint));
    }

    pub(crate) fn start_clock(&self) {
        *self.clock.lock() = (Some(Instant::now()), Duration::ZERO);
    }

    pub(crate) fn stop_clock(&self) {
        let mut clock = self.clock.lock();
        if let Some(start) = clock.0.take() {
            clock.1 = start.elapsed();
        }
    }

    /// Virtual time since the run began; after it, how long it was.
    pub(crate) fn now(&self) -> Duration {
        let clock = self.clock.lock();
        clock.0.map_or(clock.1, |start| start.elapsed())
    }

    fn record(&self, event: Event) {
        let at = self.now();
        self.trace.lock().push(TraceLine { at, event });
    }

    pub(crate) fn packet(&self, packet: Packet, fault: Fault) {
        self.record(Event::Packet(packet, fault));
    }

    pub(crate) fn firmware(&self, action: Action) {
        self.record(Event::Firmware(action));
    }

    pub(crate) fn trace(&self) -> Vec<TraceLine> {
        self.trace.lock().lines()
    }

    pub(crate) fn trace_tail(&self, count: usize) -> Vec<TraceLine> {
        self.trace.lock().tail(count)
    }

    /// The toggle that an endpoint will send or expects next.
    pub(crate) fn toggle(&self, endpoint: EndpointAddress) -> Option<DataPid> {
        self.state.lock().endpoint(endpoint).map(|endpoint| endpoint.toggle)
    }
}
