//! Descriptors that this library opens for itself, in somebody's program.
//!
//! A program may close every descriptor that it knows nothing of, as daemons do, and then has files of its own under their
//! numbers. So ours have high numbers; what closes descriptors or puts others in their place steps around them; and with
//! every use the number is looked at: a file that is not ours is never touched.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::{c_int, c_long};
use parking_lot::RwLock;

use crate::fd_table::{self, Identity, Lookup, Taken};
use crate::process::{PerProcess, this_process};

/// The least number, if the limit of descriptors allows it: above what programs come to, and within select(2)'s reach,
/// as a monitor's descriptor is the program's to wait for.
const HIGH: RawFd = 768;

/// How long a wait for a descriptor may last until the number is looked at again, in milliseconds.
const LOOK: c_int = 1000;

/// A descriptor of this library's own. Closed when dropped, but for a forked child, whose parent's it is.
pub(crate) struct Own(Arc<Place>);

/// Where it is. The number changes when the program wants it for itself.
struct Place {
    number: AtomicI32,
    identity: Identity,
    process: libc::pid_t,
}

/// Read while a number is used, written while one changes.
static NUMBERS: PerProcess<RwLock<BTreeMap<RawFd, Arc<Place>>>> = PerProcess::new(|| RwLock::new(BTreeMap::new()));

fn lost() -> io::Error {
    // What an ioctl says of a device that is gone.
    io::Error::from_raw_os_error(libc::ENODEV)
}

/// A copy with a number from `least`, closed on exec.
fn copy(fd: RawFd, least: RawFd) -> Option<RawFd> {
    // SAFETY: a system call on a descriptor, no memory involved.
    let copy = unsafe { libc::syscall(libc::SYS_fcntl, c_long::from(fd), libc::F_DUPFD_CLOEXEC, c_long::from(least)) };
    RawFd::try_from(copy).ok().filter(|copy| *copy >= 0)
}

fn close(fd: RawFd) {
    // SAFETY: closes a descriptor that the caller has found to be this library's.
    unsafe { libc::syscall(libc::SYS_close, c_long::from(fd)) };
}

impl Own {
    /// Takes a new descriptor over, to a high number if there is one.
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        let identity = Identity::of(descriptor.as_raw_fd()).ok_or_else(lost)?;
        let (place, stale) = {
            let mut numbers = NUMBERS.get().write();
            let number = copy(descriptor.as_raw_fd(), HIGH).unwrap_or_else(|| descriptor.into_raw_fd());
            let place = Arc::new(Place { number: AtomicI32::new(number), identity, process: this_process() });
            numbers.insert(number, place.clone());
            (place, fd_table::insert_own(number))
        };
        fd_table::finish(stale);
        Ok(Self(place))
    }

    /// Uses the number, which stays what it is until the call returns: it must not block.
    ///
    /// # Errors
    /// The number is another file's, or this process is not the one that opened it.
    pub(crate) fn with<R>(&self, call: impl FnOnce(RawFd) -> R) -> io::Result<R> {
        if self.0.process != this_process() {
            return Err(lost());
        }
        let _unchanged = NUMBERS.get().read();
        let number = self.0.number.load(Ordering::Acquire);
        if Identity::of(number) != Some(self.0.identity) {
            return Err(lost());
        }
        Ok(call(number))
    }

    /// Waits until an event has come, or for a while: the caller looks whether it has.
    ///
    /// # Errors
    /// As [`Own::with`], and that of poll(2): EINTR.
    pub(crate) fn wait(&self, events: i16) -> io::Result<()> {
        let mut wait = libc::pollfd { fd: self.with(|number| number)?, events, revents: 0 };
        // SAFETY: one entry, on the stack.
        if unsafe { libc::poll(&raw mut wait, 1, LOOK) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if self.0.process != this_process() {
            return;
        }
        let mut numbers = NUMBERS.get().write();
        let number = self.0.number.load(Ordering::Acquire);
        numbers.remove(&number);
        if Identity::of(number) == Some(self.0.identity) {
            fd_table::remove_own(number);
            close(number);
        }
    }
}

/// Whether a number is one of this library's own now.
pub(crate) fn is_own(number: RawFd) -> bool {
    matches!(fd_table::lookup(number), Lookup::Ours(Taken::Own))
}

/// A number that the program is about to put another file behind (dup2). If it is one of ours, we go elsewhere.
pub(crate) struct Vacated(Option<(RawFd, Identity)>);

impl Vacated {
    pub(crate) fn new(number: RawFd) -> Self {
        if !is_own(number) {
            return Self(None);
        }
        let (place, stale) = {
            let mut numbers = NUMBERS.get().write();
            let Some(place) = numbers.get(&number).cloned() else { return Self(None) };
            // Without another number the program's file wins, and the loss is seen by the next use.
            let Some(new) = copy(number, HIGH).or_else(|| copy(number, 3)) else { return Self(None) };
            fd_table::remove_own(number);
            place.number.store(new, Ordering::Release);
            numbers.remove(&number);
            numbers.insert(new, place.clone());
            (place, fd_table::insert_own(new))
        };
        fd_table::finish(stale);
        Self(Some((number, place.identity)))
    }

    /// The program's call failed: nothing has closed our file under the old number.
    pub(crate) fn failed(self) {
        if let Some((number, identity)) = self.0
            && Identity::of(number) == Some(identity)
        {
            close(number);
        }
    }
}

/// Calls with each range of numbers from `first` to `last` that holds none of this library's own, until one fails.
pub(crate) fn around(first: u32, last: u32, mut call: impl FnMut(u32, u32) -> c_int) -> c_int {
    let Some(numbers) = NUMBERS.find() else { return call(first, last) };
    // Nothing new comes between.
    let numbers = numbers.read();
    let still = numbers.iter().filter(|(number, place)| Identity::of(**number) == Some(place.identity));
    let own = still.filter_map(|(number, _)| u32::try_from(*number).ok());
    let own: Vec<u32> = own.filter(|number| (first..=last).contains(number)).collect();
    if own.is_empty() {
        return call(first, last);
    }
    let starts = std::iter::once(Some(first)).chain(own.iter().map(|number| number.checked_add(1)));
    let ends = own.iter().map(|number| number.checked_sub(1)).chain([Some(last)]);
    for (start, end) in starts.zip(ends) {
        if let (Some(start), Some(end)) = (start, end)
            && start <= end
        {
            let result = call(start, end);
            if result != 0 {
                return result;
            }
        }
    }
    0
}
