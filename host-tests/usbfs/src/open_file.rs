//! One open of one device node: its transfers in flight and those to reap (core/devio.c, `struct usb_dev_state`).

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use usb::EndpointAddress;
use usb::urb::{Urb, UrbDone, UrbError};

use crate::backend::Once;
use crate::error::Errno;
use crate::fd_table;
use crate::node::{Answer, Call, Holder, NodeRef};
use crate::own::Own;
use crate::pending::{InFlight, Pending};
use crate::readiness::Readiness;

/// A client's URB: where it lies and where its data goes. Addresses of this process, never sent anywhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserUrb {
    /// Address of the `usbdevfs_urb`.
    pub(crate) urb: usize,
    /// IN: address of the room for data; else 0.
    pub(crate) buffer: usize,
}

/// A transfer to reap.
pub(crate) struct Completed {
    key: u64,
    pub(crate) user: UserUrb,
    /// As `usbdevfs_urb.status`: 0 or a negative error number.
    pub(crate) status: i32,
    pub(crate) done: UrbDone,
}

/// How a bulk URB belongs to others of its transfer (USBDEVFS_URB_BULK_CONTINUATION).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bulk {
    /// Not bulk.
    No,
    /// The first of a transfer.
    First,
    /// A further one: not accepted, and taken back, once one before it failed.
    Continuation,
}

/// A transfer that a client waits for.
#[derive(Default)]
struct Wait {
    done: Mutex<Option<UrbDone>>,
    changed: Condvar,
}

impl Wait {
    fn finish(&self, done: UrbDone) {
        self.done.lock().get_or_insert(done);
        self.changed.notify_all();
    }
}

struct Urbs {
    pending: InFlight,
    completed: VecDeque<Completed>,
    waits: Vec<Weak<Wait>>,
    next: u64,
    claimed: u64,
    /// USBDEVFS_DROP_PRIVILEGES: the interfaces that may still be claimed.
    allowed: Option<u32>,
    /// Endpoints (number, IN + 16) whose continuations are refused.
    disabled_bulk: u32,
    closed: bool,
    gone: bool,
    readiness: Readiness,
}

/// An open device node.
pub(crate) struct OpenFile {
    node: NodeRef,
    number: u64,
    writable: bool,
    descriptors_of_client: AtomicUsize,
    /// The client's descriptors that have become so.
    pollable: Mutex<Vec<RawFd>>,
    urbs: Mutex<Urbs>,
    settled: Condvar,
    this: Weak<OpenFile>,
}

fn bulk_bit(endpoint: EndpointAddress) -> u32 {
    let byte = endpoint.to_byte();
    1 << ((byte & 0xf) | (byte & 0x80) >> 3)
}

fn interrupted(buffer: Vec<u8>, status: UrbError) -> UrbDone {
    UrbDone { buffer, actual: 0, status: Err(status) }
}

impl OpenFile {
    pub(crate) fn new(node: NodeRef, writable: bool) -> Result<Arc<Self>, Errno> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let urbs = Urbs {
            pending: InFlight::default(),
            completed: VecDeque::new(),
            waits: Vec::new(),
            next: 0,
            claimed: 0,
            allowed: None,
            disabled_bulk: 0,
            closed: false,
            gone: false,
            readiness: Readiness::new()?,
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let file = Arc::new_cyclic(|this: &Weak<Self>| Self {
            node,
            number,
            writable,
            descriptors_of_client: AtomicUsize::new(1),
            pollable: Mutex::default(),
            urbs: Mutex::new(urbs),
            settled: Condvar::new(),
            this: this.clone(),
        });
        let holder: Weak<dyn Holder> = file.this.clone();
        file.node.open(number, holder)?;
        Ok(file)
    }

    pub(crate) fn node(&self) -> &NodeRef {
        &self.node
    }

    pub(crate) fn writable(&self) -> bool {
        self.writable
    }

    pub(crate) fn connected(&self) -> bool {
        !self.urbs.lock().gone
    }

    /// The descriptor whose readiness is this file's.
    pub(crate) fn polled(&self) -> Arc<Own> {
        self.urbs.lock().readiness.descriptor().clone()
    }

    /// The client's descriptor becomes one that tells what there is to reap, before the client may poll it.
    pub(crate) fn become_pollable(&self, fd: RawFd) {
        let mut pollable = self.pollable.lock();
        if !pollable.contains(&fd) {
            pollable.push(fd);
            // What the program has closed of ours it cannot poll.
            let _ = self.polled().with(|polled| fd_table::exchange(fd, polled));
        }
    }

    /// A descriptor is a copy of another.
    pub(crate) fn copied(&self, from: RawFd, to: RawFd) {
        let mut pollable = self.pollable.lock();
        pollable.retain(|fd| *fd != to);
        if pollable.contains(&from) {
            pollable.push(to);
        }
    }

    /// One more descriptor of the client refers to this file.
    pub(crate) fn duplicate(&self) {
        self.descriptors_of_client.fetch_add(1, Ordering::Relaxed);
    }

    /// A descriptor was closed. The last one ends the file: transfers in flight are killed, claims released.
    pub(crate) fn close(&self) {
        if self.descriptors_of_client.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        self.kill(|_| true);
        {
            let mut urbs = self.urbs.lock();
            urbs.closed = true;
            urbs.completed.clear();
            urbs.readiness.break_off();
        }
        self.node.close(self.number);
    }

    /// Whether the file claimed the interface.
    pub(crate) fn claims(&self, interface: u8) -> bool {
        self.urbs.lock().claimed & (1 << interface) != 0
    }

    pub(crate) fn claim(&self, interface: u8) -> Result<(), Errno> {
        {
            let urbs = self.urbs.lock();
            if urbs.claimed & (1 << interface) != 0 {
                return Ok(());
            }
            if urbs.allowed.is_some_and(|allowed| allowed.checked_shr(interface.into()).unwrap_or(0) & 1 == 0) {
                return Err(Errno(libc::EACCES));
            }
        }
        self.node.call(self.number, Call::Claim(interface))?;
        self.urbs.lock().claimed |= 1 << interface;
        Ok(())
    }

    pub(crate) fn release(&self, interface: u8) -> Result<(), Errno> {
        if !self.node.settings().lock().has_interface(interface) {
            return Err(Errno(libc::ENOENT));
        }
        if !self.claims(interface) {
            return Err(Errno(libc::EINVAL));
        }
        self.kill(|pending| pending.interface == Some(interface));
        self.urbs.lock().claimed &= !(1 << interface);
        self.node.call(self.number, Call::Release(interface))?;
        Ok(())
    }

    pub(crate) fn drop_privileges(&self, mask: u32) {
        let mut urbs = self.urbs.lock();
        urbs.allowed = Some(urbs.allowed.unwrap_or(u32::MAX) & mask);
    }

    pub(crate) fn privileges_dropped(&self) -> bool {
        self.urbs.lock().allowed.is_some()
    }

    /// Kills the transfers on an interface and waits for them (`destroy_async_on_interface`).
    pub(crate) fn kill_interface(&self, interface: u8) {
        self.kill(|pending| pending.interface == Some(interface));
    }

    pub(crate) fn call(&self, call: Call) -> Result<Answer, Errno> {
        self.node.call(self.number, call)
    }

    /// USBDEVFS_SUBMITURB, once checked.
    pub(crate) fn submit(&self, user: UserUrb, urb: Urb, interface: Option<u8>, bulk: Bulk) -> Result<(), Errno> {
        let key = {
            let mut urbs = self.urbs.lock();
            if urbs.gone || urbs.closed {
                return Err(Errno(libc::ENODEV));
            }
            let bit = bulk_bit(urb.endpoint);
            match bulk {
                Bulk::First => urbs.disabled_bulk &= !bit,
                Bulk::Continuation if urbs.disabled_bulk & bit != 0 => return Err(Errno(libc::EREMOTEIO)),
                Bulk::Continuation | Bulk::No => {}
            }
            let key = urbs.next;
            urbs.next += 1;
            let endpoint = urb.endpoint;
            let pending = Pending { user, endpoint, interface, bulk, id: None, cancelled: false, discarded: false };
            urbs.pending.insert(key, pending);
            key
        };
        let this = self.this.clone();
        let once = Once::new(move |done| {
            if let Some(file) = this.upgrade() {
                file.complete(key, done);
            }
        });
        let id = match self.node.submit(urb, Box::new(move |done| once.call(done))) {
            Ok(id) => id,
            Err(error) => {
                // `complete` may have had it already, when `once` was dropped.
                self.forget(key);
                return Err(error);
            }
        };
        let cancel = {
            let mut urbs = self.urbs.lock();
            let gone = urbs.gone;
            match urbs.pending.get_mut(key) {
                Some(pending) => {
                    pending.id = Some(id);
                    pending.cancelled
                }
                None => gone,
            }
        };
        if cancel {
            self.node.cancel(id);
        }
        Ok(())
    }

    /// A transfer that was never started is not there to reap.
    fn forget(&self, key: u64) {
        let mut urbs = self.urbs.lock();
        urbs.pending.remove(key);
        urbs.completed.retain(|completed| completed.key != key);
        if urbs.completed.is_empty() {
            urbs.readiness.set(false);
        }
    }

    fn complete(&self, key: u64, done: UrbDone) {
        let cancels = {
            let mut urbs = self.urbs.lock();
            let Some(pending) = urbs.pending.remove(key) else { return };
            let unlinked = matches!(done.status, Err(UrbError::Unlinked | UrbError::Killed));
            let status = match done.status {
                Ok(()) => 0,
                Err(_) if unlinked && pending.discarded => -libc::ENOENT,
                Err(error) => error.errno(),
            };
            let failed = status < 0 && !unlinked && pending.bulk != Bulk::No;
            let cancels = if failed { urbs.cut_off(pending.endpoint) } else { Vec::new() };
            urbs.completed.push_back(Completed { key, user: pending.user, status, done });
            urbs.readiness.set(true);
            cancels
        };
        self.settled.notify_all();
        for id in cancels {
            self.node.cancel(id);
        }
    }

    /// USBDEVFS_DISCARDURB: waits until the transfer has ended (`usb_kill_urb`).
    pub(crate) fn discard(&self, urb: usize) -> Result<(), Errno> {
        let keys = self.urbs.lock().pending.at(urb);
        if keys.is_empty() {
            return Err(Errno(libc::EINVAL));
        }
        self.take_back(&keys);
        self.settle(keys);
        Ok(())
    }

    /// Takes transfers back and waits until they have ended.
    fn kill(&self, which: impl Fn(&Pending) -> bool) {
        let keys = self.urbs.lock().pending.keys(which);
        self.take_back(&keys);
        self.settle(keys);
    }

    fn settle(&self, mut keys: Vec<u64>) {
        let mut urbs = self.urbs.lock();
        while let Some(key) = keys.last() {
            if urbs.pending.contains(*key) {
                self.settled.wait(&mut urbs);
            } else {
                keys.pop();
            }
        }
    }

    /// The last one first.
    fn take_back(&self, keys: &[u64]) {
        let mut ids = Vec::new();
        {
            let mut urbs = self.urbs.lock();
            for key in keys.iter().rev() {
                if let Some(pending) = urbs.pending.get_mut(*key) {
                    pending.discarded = true;
                    pending.cancelled = true;
                    ids.extend(pending.id);
                }
            }
        }
        for id in ids {
            self.node.cancel(id);
        }
    }

    /// Takes the next finished transfer (`async_getcompleted`).
    pub(crate) fn reap(&self) -> Option<Completed> {
        let mut urbs = self.urbs.lock();
        let completed = urbs.completed.pop_front();
        if urbs.completed.is_empty() {
            urbs.readiness.set(false);
        }
        completed
    }

    /// A transfer that the caller waits for, `None`: forever (`usbfs_start_wait_urb`).
    pub(crate) fn transfer(&self, urb: Urb, timeout: Option<Duration>) -> Result<UrbDone, Errno> {
        let wait = Arc::new(Wait::default());
        {
            let mut urbs = self.urbs.lock();
            if urbs.gone || urbs.closed {
                return Err(Errno(libc::ENODEV));
            }
            urbs.waits.retain(|wait| wait.strong_count() > 0);
            urbs.waits.push(Arc::downgrade(&wait));
        }
        let end = timeout.map(|timeout| Instant::now() + timeout);
        let finish = wait.clone();
        let once = Once::new(move |done| finish.finish(done));
        let id = self.node.submit(urb, Box::new(move |done| once.call(done)))?;
        let mut timed_out = false;
        let mut done = wait.done.lock();
        loop {
            if let Some(done) = done.take() {
                return match done.status {
                    Ok(()) => Ok(done),
                    Err(UrbError::Unlinked | UrbError::Killed) if timed_out => Err(Errno(libc::ETIMEDOUT)),
                    Err(error) => Err(error.into()),
                };
            }
            match end {
                Some(end) if !timed_out => {
                    if wait.changed.wait_until(&mut done, end).timed_out() && done.is_none() {
                        timed_out = true;
                        drop(done);
                        self.node.cancel(id);
                        done = wait.done.lock();
                    }
                }
                _ => wait.changed.wait(&mut done),
            }
        }
    }
}

impl Urbs {
    /// A URB of a split bulk transfer failed: the rest of it is taken back, and what still comes of it refused
    /// (`cancel_bulk_urbs`). Returns the numbers to cancel, last first.
    fn cut_off(&mut self, endpoint: EndpointAddress) -> Vec<u64> {
        let mut ids = Vec::new();
        for pending in self.pending.values_mut().filter(|pending| pending.endpoint == endpoint) {
            match pending.bulk {
                // The next transfer has begun.
                Bulk::First | Bulk::No => {
                    ids.reverse();
                    return ids;
                }
                Bulk::Continuation => {
                    pending.cancelled = true;
                    ids.extend(pending.id);
                }
            }
        }
        self.disabled_bulk |= bulk_bit(endpoint);
        ids.reverse();
        ids
    }
}

impl Holder for OpenFile {
    fn lost(&self, _open: u64, interface: u8) {
        if let Some(bit) = 1u64.checked_shl(interface.into()) {
            self.urbs.lock().claimed &= !bit;
        }
        // Not waited for: the one who tells may be the one who brings their end.
        let keys = self.urbs.lock().pending.keys(|pending| pending.interface == Some(interface));
        self.take_back(&keys);
    }

    /// Everything in flight ends with -ESHUTDOWN and can still be reaped (USBDEVFS_CAP_REAP_AFTER_DISCONNECT).
    fn gone(&self, _open: u64) {
        let (ids, waits) = {
            let mut urbs = self.urbs.lock();
            urbs.gone = true;
            let pending = urbs.pending.take();
            let mut ids = Vec::new();
            for (key, pending) in pending {
                ids.extend(pending.id);
                let done = interrupted(Vec::new(), UrbError::Shutdown);
                urbs.completed.push_back(Completed { key, user: pending.user, status: -libc::ESHUTDOWN, done });
            }
            urbs.readiness.set(true);
            urbs.readiness.break_off();
            (ids, std::mem::take(&mut urbs.waits))
        };
        self.settled.notify_all();
        for wait in waits.iter().filter_map(Weak::upgrade) {
            wait.finish(interrupted(Vec::new(), UrbError::NoDevice));
        }
        for id in ids {
            self.node.cancel(id);
        }
    }
}
