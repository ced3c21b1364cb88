//! The host controller: URBs in, packets out, one port.
//!
//! A synchronous state machine. [`HostController::run`] moves packets until nothing can move, or for a bounded while;
//! it is called after a submission and after a wake-up. The lock is never held across a call of the port or of a
//! completion, so both may call back: a hint that comes while its endpoint is on the wire is remembered.

mod job;
mod state;

use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use usb::ch9::{EndpointAddress, Speed};
use usb::urb::{Transfer, Urb, UrbDone, UrbError};
use usb::wire::{PortListener, UsbPort};

use job::Job;
use state::State;
pub use state::{PortChange, PortStatus};

/// Turns on the wire, completions included, in one call of [`HostController::run`].
const TURNS_A_RUN: usize = 64;

/// What gets a finished URB. Called without the controller's lock, from [`HostController::run`]; it may submit.
pub type Completion = Box<dyn FnOnce(UrbDone) + Send>;

/// Told that [`HostController::run`] has work, that the port changed, or that a try waits for
/// [`HostController::retry`]. May be called from any thread, also within a wire call: it must only take note.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// A submitted URB's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UrbId(u64);

impl UrbId {
    /// As a number, for those who hand it on to another program.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// From [`UrbId::number`]. A number that no URB has names none.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }
}

/// A transaction that had no handshake, by its place among all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Strike(u64);

/// What [`HostController::run`] left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// Nothing can move before a submission, a hint or [`HostController::retry`]. Also when another caller is in `run`:
    /// that one goes on.
    Idle,
    /// The call's share of work is done and more waits: call again.
    More,
}

/// How a URB is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// It ends with -104 (`usb_unlink_urb`).
    Unlink,
    /// It ends with -2 (`usb_kill_urb`).
    Kill,
}

impl Cancel {
    const fn error(self) -> UrbError {
        match self {
            Self::Unlink => UrbError::Unlinked,
            Self::Kill => UrbError::Killed,
        }
    }
}

/// A host controller with one port.
pub struct HostController {
    port: Arc<dyn UsbPort>,
    state: Mutex<State>,
    waker: Mutex<Option<Waker>>,
}

/// The port's way back, without keeping the controller alive.
struct Listener(Weak<HostController>);

impl PortListener for Listener {
    fn attach_changed(&self) {
        if let Some(controller) = self.0.upgrade() {
            controller.attach_changed();
        }
    }

    fn ready(&self, endpoint: EndpointAddress) {
        if let Some(controller) = self.0.upgrade()
            && controller.state.lock().hint(endpoint)
        {
            controller.wake();
        }
    }

    fn remote_wakeup(&self) {
        if let Some(controller) = self.0.upgrade() {
            controller.state.lock().note_remote_wakeup();
            controller.wake();
        }
    }
}

/// Looks at a port whose connection changes between two of them.
const MOST_LOOKS: u32 = 16;

impl HostController {
    /// Takes over the port: becomes its listener.
    #[must_use]
    pub fn new(port: Arc<dyn UsbPort>) -> Arc<Self> {
        let controller = Arc::new_cyclic(|weak| {
            port.set_listener(Some(Arc::new(Listener(Weak::clone(weak)))));
            Self { port, state: Mutex::default(), waker: Mutex::default() }
        });
        controller.attach_changed();
        controller
    }

    /// Sets who is told that there is work; one at a time.
    pub fn set_waker(&self, waker: Option<Waker>) {
        *self.waker.lock() = waker;
    }

    fn wake(&self) {
        let waker = self.waker.lock().clone();
        if let Some(waker) = waker {
            waker();
        }
    }

    /// Queues a URB behind the others of its endpoint. Call [`HostController::run`] after it.
    ///
    /// `done` is called once in any case: with -22 when the URB makes no sense or its endpoint is not enabled
    /// ([`HostController::enable_endpoint`]), with -19 when the port is not enabled.
    pub fn submit(&self, urb: Urb, done: Completion) -> UrbId {
        let mut state = self.state.lock();
        let id = state.next_id();
        let job = |urb| Job::new(id, urb, done);
        let refused = match (state.port.enabled, &urb.transfer) {
            (None, _) => Some(UrbError::NoDevice),
            (_, Transfer::Control(setup)) => {
                let sound = urb.endpoint.is_ep0() && urb.buffer.len() == usize::from(setup.length.get());
                (!sound).then_some(UrbError::Invalid)
            }
            (_, Transfer::Bulk | Transfer::Interrupt) => {
                let sound = !urb.endpoint.is_ep0() && state.is_enabled(urb.address, urb.endpoint);
                (!sound).then_some(UrbError::Invalid)
            }
        };
        match refused {
            Some(error) => state.finish(job(urb), Err(error)),
            None => state.queue(urb.address, urb.endpoint, job(urb)),
        }
        id
    }

    /// Takes a URB back; it completes with what it moved so far, in the next [`HostController::run`]. `false` when it
    /// is not queued any more.
    pub fn cancel(&self, id: UrbId, how: Cancel) -> bool {
        self.state.lock().cancel(id, how.error())
    }

    /// Moves packets and delivers completions until nothing can move, or for a bounded number of turns.
    pub fn run(&self) -> Progress {
        let mut state = self.state.lock();
        if state.running {
            return Progress::Idle;
        }
        state.running = true;
        let mut turns = TURNS_A_RUN;
        while turns > 0 && self.turn(&mut state) {
            turns -= 1;
        }
        state.running = false;
        if turns == 0 && state.has_work() { Progress::More } else { Progress::Idle }
    }

    /// A completion or a turn on the wire; `false` when there is none.
    fn turn(&self, state: &mut MutexGuard<'_, State>) -> bool {
        if let Some((done, result)) = state.finished.pop_front() {
            MutexGuard::unlocked(state, || done(result));
            return true;
        }
        let Some((mut job, mut pid, max_packet)) = state.take_next() else { return false };
        let turn = MutexGuard::unlocked(state, || job.turn(&*self.port, &mut pid, max_packet));
        if state.put_back(job, pid, turn) {
            MutexGuard::unlocked(state, || self.wake());
        }
        true
    }

    /// Whether the tries of a transaction without a handshake are spaced by the caller: after a strike its endpoint waits
    /// for [`HostController::retry`]. At first they are not: the next try comes at once.
    pub fn space_strikes(&self, spaced: bool) {
        self.state.lock().spaced = spaced;
    }

    /// The last strike after which an endpoint waits for [`HostController::retry`].
    #[must_use]
    pub fn last_strike(&self) -> Option<Strike> {
        self.state.lock().last_struck()
    }

    /// Lets the endpoints try again whose strikes are not later than `last`. Call [`HostController::run`] after it.
    pub fn retry(&self, last: Strike) {
        self.state.lock().retry(last);
    }

    /// Enables an endpoint with its packet size, DATA0. Endpoint 0 is enabled by its first use, with 64 bytes, or 8 at
    /// low speed.
    pub fn enable_endpoint(&self, address: u8, endpoint: EndpointAddress, max_packet: u16) {
        self.state.lock().enable(address, endpoint, max_packet);
    }

    /// Ends an endpoint's URBs with -108 and forgets it (`usb_disable_endpoint`).
    pub fn disable_endpoint(&self, address: u8, endpoint: EndpointAddress) {
        self.state.lock().disable(UrbError::Shutdown, |key| key.is(address, endpoint));
    }

    /// Ends an endpoint's URBs with -108; its toggle stays (`usb_hcd_flush_endpoint`).
    pub fn flush_endpoint(&self, address: u8, endpoint: EndpointAddress) {
        self.state.lock().flush(address, endpoint);
    }

    /// Ends all URBs of an address with -108 and forgets its endpoints (`usb_disable_device`).
    pub fn disable_address(&self, address: u8) {
        self.state.lock().disable(UrbError::Shutdown, |key| key.address == address);
    }

    /// Sets an endpoint's toggle to DATA0 (`usb_reset_endpoint`): after CLEAR_FEATURE(ENDPOINT_HALT), for instance.
    pub fn reset_toggle(&self, address: u8, endpoint: EndpointAddress) {
        self.state.lock().reset_toggle(address, endpoint);
    }

    /// The port, as its hub's status says.
    #[must_use]
    pub fn port_status(&self) -> PortStatus {
        self.state.lock().port
    }

    /// What changed at the port since the last call; clears it.
    pub fn take_changes(&self) -> PortChange {
        std::mem::take(&mut self.state.lock().change)
    }

    /// Whether [`HostController::take_changes`] has something to tell.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.state.lock().change != PortChange::default()
    }

    /// Bus reset. All URBs end with -108, all endpoints are forgotten; the port is enabled if a device answered.
    pub fn reset_port(&self, max: Speed) -> Option<Speed> {
        self.disable_port();
        let speed = self.port.reset(max);
        let attached = speed.is_some() && self.port.attached().is_some();
        let mut state = self.state.lock();
        state.port.suspended = false;
        state.port.enabled = speed.filter(|_| attached && state.port.connected);
        state.port.enabled
    }

    /// Disables the port: all URBs end with -108, the bus is quiet until the next reset.
    pub fn disable_port(&self) {
        let mut state = self.state.lock();
        state.port.enabled = None;
        state.disable(UrbError::Shutdown, |_| true);
    }

    /// VBUS.
    pub fn set_power(&self, on: bool) {
        if !on {
            self.disable_port();
        }
        self.port.set_vbus(on);
        self.attach_changed();
    }

    /// Suspends the bus: URBs stay queued, nothing moves.
    pub fn suspend_port(&self) {
        self.state.lock().port.suspended = true;
        self.port.suspend();
    }

    /// Signals resume. URBs move again after [`HostController::finish_resume`], when the device had its time to
    /// recover.
    pub fn resume_port(&self) {
        self.port.resume();
    }

    /// The resumed bus carries packets again. Call [`HostController::run`] after it.
    pub fn finish_resume(&self) {
        let mut state = self.state.lock();
        state.port.suspended = false;
        state.change.remote_wakeup = false;
    }

    fn attach_changed(&self) {
        // Hints from two threads may overtake each other between look and note: look until it stays. A port that never
        // does gets its next look with its next hint.
        for _ in 0..MOST_LOOKS {
            let connected = self.port.attached().is_some();
            let changed = self.state.lock().set_connected(connected);
            if changed {
                self.wake();
            }
            if self.port.attached().is_some() == connected {
                return;
            }
        }
    }
}

impl Drop for HostController {
    fn drop(&mut self) {
        self.port.set_listener(None);
    }
}
