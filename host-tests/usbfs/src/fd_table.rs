//! Which file descriptors of this process are ours.
//!
//! Looked up by every ioctl and close of the whole process, from signal handlers and forked children too: a descriptor
//! that never was ours costs two loads and takes no lock.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::os::fd::RawFd;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use libc::c_long;
use parking_lot::Mutex;

use crate::open_file::OpenFile;
use crate::process::this_process;

/// What a descriptor of ours is.
#[derive(Clone)]
pub(crate) enum Taken {
    /// An open device node.
    Device(Arc<OpenFile>),
    /// A listener for the kernel's uevents.
    Uevents,
    /// This library's own, and no affair of the program's.
    Own,
}

/// A descriptor as the kernel knows it: device and inode. Tells whether a number was closed behind our back and is
/// another file now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(libc::dev_t, libc::ino_t);

impl Identity {
    pub(crate) fn of(fd: RawFd) -> Option<Self> {
        let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: fstat fills the structure when it returns 0. The system call, as fstat itself is taken over.
        let stat = unsafe {
            if libc::syscall(libc::SYS_fstat, c_long::from(fd), stat.as_mut_ptr()) != 0 {
                return None;
            }
            stat.assume_init()
        };
        Some(Self(stat.st_dev, stat.st_ino))
    }
}

/// A number that was ours at least once, in one process. Never freed: there are as many as descriptors were open at a time.
struct Cell {
    /// The process that opened it. Not that of a forked child, which makes cells of its own: locks of these may be held by
    /// threads that it does not have.
    process: libc::pid_t,
    live: AtomicBool,
    taken: Mutex<Option<(Taken, Identity)>>,
    /// The same identity, for children.
    seen: [AtomicU64; 2],
}

impl Cell {
    fn new() -> Self {
        let seen = [const { AtomicU64::new(0) }; 2];
        Self { process: this_process(), live: AtomicBool::new(false), taken: Mutex::new(None), seen }
    }

    fn see(&self, identity: Identity) {
        self.seen[0].store(identity.0, Ordering::Relaxed);
        self.seen[1].store(identity.1, Ordering::Relaxed);
    }

    fn seen(&self) -> Identity {
        Identity(self.seen[0].load(Ordering::Relaxed), self.seen[1].load(Ordering::Relaxed))
    }
}

const CHUNK: usize = 1 << 16;
const CHUNKS: usize = 1 << 15;

/// Every positive number, in chunks that are made when a number in them is first ours.
static TABLE: [AtomicPtr<AtomicPtr<Cell>>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];

fn slot(fd: RawFd) -> Option<&'static AtomicPtr<Cell>> {
    let fd = usize::try_from(fd).ok()?;
    let chunk = TABLE.get(fd / CHUNK)?.load(Ordering::Acquire);
    if chunk.is_null() {
        return None;
    }
    // SAFETY: a chunk has CHUNK entries, is never freed, and all zeroes is an array of null pointers.
    Some(unsafe { &*chunk.add(fd % CHUNK) })
}

fn make_slot(fd: RawFd) -> Option<&'static AtomicPtr<Cell>> {
    let entry = TABLE.get(usize::try_from(fd).ok()? / CHUNK)?;
    if entry.load(Ordering::Acquire).is_null() {
        let layout = Layout::array::<AtomicPtr<Cell>>(CHUNK).ok()?;
        // SAFETY: the layout is not empty.
        let chunk = unsafe { alloc_zeroed(layout) }.cast::<AtomicPtr<Cell>>();
        if chunk.is_null() {
            handle_alloc_error(layout);
        }
        if entry.compare_exchange(ptr::null_mut(), chunk, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: made above with this layout, and nobody else saw it.
            unsafe { std::alloc::dealloc(chunk.cast(), layout) };
        }
    }
    slot(fd)
}

fn cell(fd: RawFd) -> Option<&'static Cell> {
    let cell = slot(fd)?.load(Ordering::Acquire);
    // SAFETY: null or a leaked box.
    unsafe { cell.as_ref() }.filter(|cell| cell.live.load(Ordering::Acquire))
}

/// Who a descriptor belongs to.
pub(crate) enum Lookup {
    /// Not ours: straight on to libc.
    Other,
    /// Ours.
    Ours(Taken),
    /// It was opened by the process that this one forked from; the device is out of reach.
    Parents,
}

/// Looks a descriptor up, and makes sure that it still is what we opened.
pub(crate) fn lookup(fd: RawFd) -> Lookup {
    let Some(cell) = cell(fd) else { return Lookup::Other };
    if cell.process != this_process() {
        // The child may have closed it, and opened something else.
        return if Identity::of(fd) == Some(cell.seen()) { Lookup::Parents } else { Lookup::Other };
    }
    let old = {
        // Locked while the identity is seen, so that `exchange` does not come between.
        let mut taken = cell.taken.lock();
        match taken.as_ref() {
            None => return Lookup::Other,
            Some((taken, identity)) if Identity::of(fd) == Some(*identity) => return Lookup::Ours(taken.clone()),
            // Closed without close(2), by a system call or a libc that calls itself.
            Some(_) => {
                cell.live.store(false, Ordering::Release);
                taken.take()
            }
        }
    };
    finish(old);
    Lookup::Other
}

/// From now on the descriptor is ours, until it is removed.
pub(crate) fn insert(fd: RawFd, taken: Taken) -> bool {
    let stale = put(fd, taken);
    stale.map(finish).is_some()
}

/// The library's own descriptor. To be finished by the caller, who holds locks: what a number of the program's own was
/// before it was closed behind our back.
#[must_use]
pub(crate) fn insert_own(fd: RawFd) -> Stale {
    put(fd, Taken::Own).flatten()
}

/// What was behind a number.
pub(crate) type Stale = Option<(Taken, Identity)>;

fn put(fd: RawFd, taken: Taken) -> Option<Stale> {
    let (slot, identity) = (make_slot(fd)?, Identity::of(fd)?);
    let mut cell = slot.load(Ordering::Acquire);
    // SAFETY: null or a leaked box.
    if unsafe { cell.as_ref() }.is_none_or(|cell| cell.process != this_process()) {
        let new = Box::into_raw(Box::new(Cell::new()));
        cell = match slot.compare_exchange(cell, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => new,
            Err(other) => {
                // SAFETY: made above, and nobody else saw it.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        };
    }
    // SAFETY: a leaked box.
    let cell = unsafe { &*cell };
    let mut slot = cell.taken.lock();
    cell.see(identity);
    cell.live.store(true, Ordering::Release);
    Some(slot.replace((taken, identity)))
}

/// Puts another file behind a number of ours (dup3), keeping its close-on-exec flag.
pub(crate) fn exchange(fd: RawFd, file: RawFd) {
    let Some(cell) = cell(fd) else { return };
    let mut taken = cell.taken.lock();
    // SAFETY: system calls on two open descriptors, no memory involved.
    unsafe {
        let flags = libc::syscall(libc::SYS_fcntl, c_long::from(fd), libc::F_GETFD);
        let flags = if flags & c_long::from(libc::FD_CLOEXEC) == 0 { 0 } else { libc::O_CLOEXEC };
        libc::syscall(libc::SYS_dup3, c_long::from(file), c_long::from(fd), c_long::from(flags));
    }
    if let (Some(taken), Some(identity)) = (taken.as_mut(), Identity::of(fd)) {
        taken.1 = identity;
        cell.see(identity);
    }
}

/// The descriptor is no longer ours.
pub(crate) fn remove(fd: RawFd) {
    let Some(cell) = cell(fd) else { return };
    if cell.process == this_process() {
        let old = {
            let mut taken = cell.taken.lock();
            cell.live.store(false, Ordering::Release);
            taken.take()
        };
        finish(old);
    }
}

/// A number is no longer the library's own.
pub(crate) fn remove_own(fd: RawFd) {
    let Some(cell) = cell(fd).filter(|cell| cell.process == this_process()) else { return };
    let mut taken = cell.taken.lock();
    if matches!(*taken, Some((Taken::Own, _))) {
        cell.live.store(false, Ordering::Release);
        *taken = None;
    }
}

/// Removes what the program has opened in a range of numbers.
pub(crate) fn remove_range(first: u32, last: u32) {
    let (first, last) = (first as usize, last as usize);
    for (at, chunk) in TABLE.iter().enumerate().take(last / CHUNK + 1).skip(first / CHUNK) {
        if chunk.load(Ordering::Acquire).is_null() {
            continue;
        }
        let numbers = (at * CHUNK).max(first)..=(at * CHUNK + CHUNK - 1).min(last);
        for fd in numbers.filter_map(|number| RawFd::try_from(number).ok()) {
            if cell(fd).is_some() && matches!(lookup(fd), Lookup::Ours(Taken::Device(_) | Taken::Uevents)) {
                remove(fd);
            }
        }
    }
}

/// Ends the open file if this was its last descriptor.
pub(crate) fn finish(old: Stale) {
    if let Some((Taken::Device(file), _)) = old {
        file.close();
    }
}
