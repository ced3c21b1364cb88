//! The descriptor that a client polls: writable when there is something to reap, in error when the device is gone.
//!
//! A one-page pipe does it without help from the kernel's USB: full is "nothing to reap", drained is POLLOUT, a closed
//! read end is POLLERR.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use crate::own::Own;

/// A page, the least a pipe holds. The kernel rounds up.
const PAGE: usize = 4096;

pub(crate) struct Readiness {
    read: Option<Own>,
    write: Arc<Own>,
    capacity: usize,
    full: bool,
}

impl Readiness {
    pub(crate) fn new() -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: the array has room for both ends.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both were just made and belong to nobody else.
        let (read, write) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
        // SAFETY: a call on a descriptor of ours, no memory involved.
        let capacity = unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, PAGE) };
        let capacity = usize::try_from(capacity).map_err(|_| io::Error::last_os_error())?;
        let (read, write) = (Some(Own::new(read)?), Arc::new(Own::new(write)?));
        let mut readiness = Self { read, write, capacity, full: false };
        readiness.set(false);
        Ok(readiness)
    }

    /// The end to poll. Stays open as long as this does.
    pub(crate) fn descriptor(&self) -> &Arc<Own> {
        &self.write
    }

    pub(crate) fn set(&mut self, ready: bool) {
        let Some(read) = &self.read else { return };
        if self.full != ready {
            return;
        }
        let mut page = [0u8; PAGE];
        let mut left = self.capacity;
        while left > 0 {
            let length = left.min(PAGE);
            let moved = if ready {
                // SAFETY: the page has `length` bytes; both descriptors are ours and do not block.
                read.with(|read| unsafe { libc::read(read, page.as_mut_ptr().cast(), length) })
            } else {
                // SAFETY: as above.
                self.write.with(|write| unsafe { libc::write(write, page.as_ptr().cast(), length) })
            };
            match moved.map(usize::try_from) {
                Ok(Ok(moved)) if moved > 0 => left -= moved,
                // Full or empty; or lost, and then nobody is told.
                _ => break,
            }
        }
        self.full = !ready;
    }

    /// POLLERR from now on.
    pub(crate) fn break_off(&mut self) {
        self.read = None;
    }
}
