//! Functions that take a file descriptor.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::{c_int, c_long, c_uint, c_ulong};

use super::{Definition, fail, next, uncancelled};
use crate::error::Errno;
use crate::fd_table::{self, Lookup, Taken};
use crate::ioctl;
use crate::own::{self, Vacated};

/// # Safety
/// As libc's. It is variadic there, with one pointer or number.
#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    let file = match fd_table::lookup(fd) {
        Lookup::Ours(Taken::Device(file)) => file,
        Lookup::Parents => return fail(Errno(libc::ENODEV)),
        Lookup::Ours(Taken::Uevents | Taken::Own) | Lookup::Other => {
            // SAFETY: the caller's promise to libc.
            return unsafe {
                next!(ioctl(fd => c_int, request => c_ulong, argument => *mut c_void) -> c_int,
                    else fail(Errno(libc::ENOSYS)))
            };
        }
    };
    // A request is 32 bits wide: some callers extend its sign.
    let request = request as u32;
    let result = uncancelled(|| {
        if ioctl::leads_to_poll(request) {
            file.become_pollable(fd);
        }
        // SAFETY: the caller's promise to usbfs. A panic of a backend must not unwind into C.
        let result = catch_unwind(AssertUnwindSafe(|| unsafe { ioctl::ioctl(&file, request, argument) }));
        drop(file);
        result
    });
    match result {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => fail(error),
        Err(_) => fail(Errno(libc::EIO)),
    }
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn close(fd: c_int) -> c_int {
    match fd_table::lookup(fd) {
        // As if it were not there.
        Lookup::Ours(Taken::Own) => return fail(Errno(libc::EBADF)),
        Lookup::Ours(Taken::Device(_) | Taken::Uevents) => uncancelled(|| fd_table::remove(fd)),
        Lookup::Parents | Lookup::Other => {}
    }
    // SAFETY: the caller's promise to libc.
    unsafe { next!(close(fd => c_int) -> c_int, else libc::syscall(libc::SYS_close, c_long::from(fd)) as c_int) }
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    /// CLOSE_RANGE_UNSHARE: of those flags that a kernel may know, the one with which it closes.
    const UNSHARE: c_int = 1 << 1;
    let one = |first, last| {
        // SAFETY: the caller's promise to libc, or numbers that this library does not use.
        unsafe {
            next!(close_range(first => c_uint, last => c_uint, flags => c_int) -> c_int, else
                libc::syscall(libc::SYS_close_range, c_long::from(first), c_long::from(last), c_long::from(flags)) as c_int)
        }
    };
    if flags & !UNSHARE != 0 || first > last {
        // Nothing is closed: ours are closed on exec as they are.
        return one(first, last);
    }
    uncancelled(|| fd_table::remove_range(first, last));
    own::around(first, last, one)
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn closefrom(first: c_int) {
    let least = c_uint::try_from(first).unwrap_or(0);
    // SAFETY: the caller's promise to libc.
    unsafe {
        if close_range(least, c_uint::MAX, 0) != 0 {
            // A kernel without the call: libc has another way, by system calls that do not come by here.
            next!(closefrom(first => c_int) -> (), else ());
        }
    }
}

/// A copy of a descriptor of ours is ours too; what was behind the copy's number is not.
fn copied(fd: c_int, copy: c_int) -> c_int {
    if copy < 0 || fd == copy {
        return copy;
    }
    uncancelled(|| match fd_table::lookup(fd) {
        Lookup::Ours(taken @ (Taken::Device(_) | Taken::Uevents)) => {
            if let Taken::Device(file) = &taken {
                file.duplicate();
                file.copied(fd, copy);
            }
            fd_table::insert(copy, taken);
        }
        _ => fd_table::remove(copy),
    });
    copy
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn dup(fd: c_int) -> c_int {
    // SAFETY: the caller's promise to libc.
    let copy = unsafe { next!(dup(fd => c_int) -> c_int, else fail(Errno(libc::ENOSYS))) };
    copied(fd, copy)
}

/// Makes a copy with a number that the program chose.
fn onto(fd: c_int, to: c_int, dup: impl FnOnce() -> c_int) -> c_int {
    if fd == to {
        return dup();
    }
    let vacated = Vacated::new(to);
    let copy = dup();
    if copy < 0 {
        vacated.failed();
    }
    copied(fd, copy)
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    onto(fd, to, || {
        // SAFETY: the caller's promise to libc.
        unsafe { next!(dup2(fd => c_int, to => c_int) -> c_int, else fail(Errno(libc::ENOSYS))) }
    })
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    onto(fd, to, || {
        // SAFETY: the caller's promise to libc.
        unsafe { next!(dup3(fd => c_int, to => c_int, flags => c_int) -> c_int, else fail(Errno(libc::ENOSYS))) }
    })
}

macro_rules! fcntls {
    ($($name:ident),*) => {
        $(
            /// # Safety
            /// As libc's. It is variadic there, with one pointer or number.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
                // SAFETY: the caller's promise to libc.
                let result = unsafe {
                    next!($name(fd => c_int, command => c_int, argument => *mut c_void) -> c_int,
                        else fail(Errno(libc::ENOSYS)))
                };
                if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) { copied(fd, result) } else { result }
            }
        )*
        const FCNTLS: &[Definition] = &[$(Definition($name as *const c_void),)*];
    };
}

fcntls!(fcntl, fcntl64);

const OTHERS: &[Definition] = &[
    Definition(ioctl as *const c_void),
    Definition(close as *const c_void),
    Definition(close_range as *const c_void),
    Definition(closefrom as *const c_void),
    Definition(dup as *const c_void),
    Definition(dup2 as *const c_void),
    Definition(dup3 as *const c_void),
];

pub(super) static KEEP: &[&[Definition]] = &[OTHERS, FCNTLS];
