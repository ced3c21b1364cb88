//! Which file descriptors of this process are ours.
//!
//! Looked up by every ioctl and close of the whole process, from signal handlers and forked children too: a descriptor
//! that never was ours costs two loads and takes no lock.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::os::fd::RawFd;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

use libc::c_long;
use parking_lot::Mutex;

use crate::open_file::OpenFile;

/// What a descriptor of ours is.
#[derive(Clone)]
pub(crate) enum Taken {
    /// An open device node.
    Device(Arc<OpenFile>),
    /// A listener for the kernel's uevents.
    Uevents,
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

/// A number that was ours at least once. Never freed: there are as many as descriptors were open at a time.
struct Cell {
    live: AtomicBool,
    /// The process that opened it.
    process: AtomicI32,
    taken: Mutex<Option<(Taken, Identity)>>,
}

const CHUNK: usize = 1 << 16;
const CHUNKS: usize = 1 << 15;

/// Every positive number, in chunks that are made when a number in them is first ours.
static TABLE: [AtomicPtr<AtomicPtr<Cell>>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];

/// This process. A child of fork has the parent's table, and one of vfork even shares it: what the parent opened is not
/// theirs, and the parent's locks are not to be touched.
pub(crate) fn this_process() -> libc::pid_t {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::getpid() }
}

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
    if cell.process.load(Ordering::Acquire) != this_process() {
        return Lookup::Parents;
    }
    {
        // Locked while the identity is seen, so that `exchange` does not come between.
        let taken = cell.taken.lock();
        let Some((taken, identity)) = taken.as_ref() else { return Lookup::Other };
        if Identity::of(fd) == Some(*identity) {
            return Lookup::Ours(taken.clone());
        }
    }
    // Closed without close(2), by close_range or a libc that calls itself.
    remove(fd);
    Lookup::Other
}

/// From now on the descriptor is ours, until it is removed.
pub(crate) fn insert(fd: RawFd, taken: Taken) -> bool {
    let (Some(slot), Some(identity)) = (make_slot(fd), Identity::of(fd)) else { return false };
    let mut cell = slot.load(Ordering::Acquire);
    if cell.is_null() {
        let process = AtomicI32::new(0);
        let new = Box::into_raw(Box::new(Cell { live: AtomicBool::new(false), process, taken: Mutex::new(None) }));
        cell = match slot.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
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
    let old = cell.taken.lock().replace((taken, identity));
    cell.process.store(this_process(), Ordering::Release);
    cell.live.store(true, Ordering::Release);
    finish(old);
    true
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
    }
}

/// The descriptor is no longer ours. Ends the open file if it was its last.
pub(crate) fn remove(fd: RawFd) {
    let Some(cell) = cell(fd) else { return };
    if cell.process.load(Ordering::Acquire) == this_process() {
        cell.live.store(false, Ordering::Release);
        let old = cell.taken.lock().take();
        finish(old);
    }
}

fn finish(old: Option<(Taken, Identity)>) {
    if let Some((Taken::Device(file), _)) = old {
        file.close();
    }
}
