//! Functions that take a file descriptor.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::{c_int, c_long, c_ulong};

use super::{Definition, fail, next};
use crate::error::Errno;
use crate::fd_table::{self, Lookup, Taken};
use crate::ioctl;

/// # Safety
/// As libc's. It is variadic there, with one pointer or number.
#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    let file = match fd_table::lookup(fd) {
        Lookup::Ours(Taken::Device(file)) => file,
        Lookup::Parents => return fail(Errno(libc::ENODEV)),
        Lookup::Ours(Taken::Uevents) | Lookup::Other => {
            // SAFETY: the caller's promise to libc.
            return unsafe {
                next!(ioctl(fd => c_int, request => c_ulong, argument => *mut c_void) -> c_int,
                    else fail(Errno(libc::ENOSYS)))
            };
        }
    };
    // A request is 32 bits wide: some callers extend its sign.
    let request = request as u32;
    if ioctl::leads_to_poll(request) {
        file.become_pollable(fd);
    }
    // SAFETY: the caller's promise to usbfs. A panic of a backend must not unwind into C.
    let result = catch_unwind(AssertUnwindSafe(|| unsafe { ioctl::ioctl(&file, request, argument) }));
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
    fd_table::remove(fd);
    // SAFETY: the caller's promise to libc.
    unsafe { next!(close(fd => c_int) -> c_int, else libc::syscall(libc::SYS_close, c_long::from(fd)) as c_int) }
}

/// A copy of a descriptor of ours is ours too.
fn copied(fd: c_int, copy: c_int) -> c_int {
    if copy >= 0
        && fd != copy
        && let Lookup::Ours(taken) = fd_table::lookup(fd)
    {
        if let Taken::Device(file) = &taken {
            file.duplicate();
            file.copied(fd, copy);
        }
        fd_table::insert(copy, taken);
    }
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

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    if fd != to {
        fd_table::remove(to);
    }
    // SAFETY: the caller's promise to libc.
    let copy = unsafe { next!(dup2(fd => c_int, to => c_int) -> c_int, else fail(Errno(libc::ENOSYS))) };
    copied(fd, copy)
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    if fd != to {
        fd_table::remove(to);
    }
    // SAFETY: the caller's promise to libc.
    let copy =
        unsafe { next!(dup3(fd => c_int, to => c_int, flags => c_int) -> c_int, else fail(Errno(libc::ENOSYS))) };
    copied(fd, copy)
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
    Definition(dup as *const c_void),
    Definition(dup2 as *const c_void),
    Definition(dup3 as *const c_void),
];

pub(super) static KEEP: &[&[Definition]] = &[OTHERS, FCNTLS];
