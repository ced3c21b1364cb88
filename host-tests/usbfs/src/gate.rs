//! The lock of a device: whoever changes it is alone with it, and transfers that are started meanwhile wait.
//!
//! The kernel holds the device's lock in every ioctl of usbfs but reaping (core/devio.c, `usbdev_do_ioctl`). Here nobody
//! who starts a transfer is stopped: its transfer is held back, and let go when the change is done.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex, MutexGuard};
use usb::urb::{Urb, UrbDone, UrbError};

use crate::backend::{Backend, Done};
use crate::error::Errno;

/// Marks the number of a transfer that was held back. The backend's own have it not set.
const HELD: u64 = 1 << 63;

/// The way to a backend.
pub(crate) struct Gate {
    backend: Arc<dyn Backend>,
    turn: Mutex<()>,
    state: Mutex<State>,
    entered: Condvar,
    this: Weak<Gate>,
}

#[derive(Default)]
struct State {
    closed: bool,
    gone: bool,
    /// Submissions that are at the backend now.
    entering: usize,
    held: VecDeque<(u64, Urb, Done)>,
    /// What became of those that were held back and let go, until they end.
    let_go: BTreeMap<u64, LetGo>,
    next: u64,
}

/// Transfers that were held back when the device went.
pub(crate) struct HeldBack(VecDeque<(u64, Urb, Done)>);

impl HeldBack {
    pub(crate) fn end(self) {
        for (_, urb, done) in self.0 {
            done(UrbDone { buffer: urb.buffer, actual: 0, status: Err(UrbError::NoDevice) });
        }
    }
}

enum LetGo {
    /// The backend has not given it a number yet.
    Entering { cancelled: bool },
    /// Its number there.
    InFlight(u64),
}

/// Who has it holds the device's lock.
pub(crate) struct Turn<'a>(&'a Gate, #[expect(dead_code, reason = "held")] MutexGuard<'a, ()>);

impl Gate {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            backend,
            turn: Mutex::new(()),
            state: Mutex::default(),
            entered: Condvar::new(),
            this: this.clone(),
        })
    }

    /// Waits for the device's lock.
    pub(crate) fn turn(&self) -> Turn<'_> {
        Turn(self, self.turn.lock())
    }

    /// Starts a transfer, or holds it back. Never waits.
    pub(crate) fn submit(&self, urb: Urb, done: Done) -> Result<u64, Errno> {
        {
            let mut state = self.state.lock();
            if state.gone {
                return Err(Errno(libc::ENODEV));
            }
            if state.closed {
                state.next += 1;
                let id = HELD | state.next;
                state.held.push_back((id, urb, done));
                return Ok(id);
            }
            state.entering += 1;
        }
        let _leave = Leave(self);
        Ok(self.backend.submit(urb, done))
    }

    pub(crate) fn cancel(&self, id: u64) {
        if id & HELD == 0 {
            return self.backend.cancel(id);
        }
        let mut state = self.state.lock();
        if let Some(at) = state.held.iter().position(|(held, ..)| *held == id) {
            let held = state.held.remove(at);
            drop(state);
            if let Some((_, urb, done)) = held {
                done(UrbDone { buffer: urb.buffer, actual: 0, status: Err(UrbError::Unlinked) });
            }
            return;
        }
        match state.let_go.get_mut(&id) {
            Some(LetGo::Entering { cancelled }) => *cancelled = true,
            Some(LetGo::InFlight(number)) => {
                let number = *number;
                drop(state);
                self.backend.cancel(number);
            }
            None => {}
        }
    }

    /// The device is gone: nothing goes to the backend any more. What was held back is the caller's to end, once those who
    /// have the device open know.
    pub(crate) fn unplug(&self) -> HeldBack {
        let mut state = self.state.lock();
        state.gone = true;
        HeldBack(std::mem::take(&mut state.held))
    }

    fn open(&self) {
        loop {
            let (id, urb, done) = {
                let mut state = self.state.lock();
                let Some(held) = state.held.pop_front() else {
                    state.closed = false;
                    return;
                };
                state.let_go.insert(held.0, LetGo::Entering { cancelled: false });
                held
            };
            let ended = Ended(self.this.clone(), id);
            let done = move |how| {
                drop(ended);
                done(how);
            };
            let number = self.backend.submit(urb, Box::new(done));
            let cancelled = match self.state.lock().let_go.get_mut(&id) {
                Some(fate) => {
                    let cancelled = matches!(fate, LetGo::Entering { cancelled: true });
                    *fate = LetGo::InFlight(number);
                    cancelled
                }
                None => false,
            };
            if cancelled {
                self.backend.cancel(number);
            }
        }
    }
}

/// A submission has left the backend.
struct Leave<'a>(&'a Gate);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.entering -= 1;
        if state.closed && state.entering == 0 {
            self.0.entered.notify_all();
        }
    }
}

/// A transfer that was held back has ended, or its end was dropped.
struct Ended(Weak<Gate>, u64);

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(gate) = self.0.upgrade() {
            gate.state.lock().let_go.remove(&self.1);
        }
    }
}

/// Opens the gate again, even if the backend panicked.
struct Open<'a>(&'a Gate);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

impl Turn<'_> {
    /// Asks the backend for a change while it starts no transfer.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&dyn Backend) -> R) -> R {
        let gate = self.0;
        {
            let mut state = gate.state.lock();
            state.closed = true;
            while state.entering > 0 {
                gate.entered.wait(&mut state);
            }
        }
        let _open = Open(gate);
        change(&*gate.backend)
    }
}
