//! realpath(3): in the program's view, links of sysfs resolved.

use std::ffi::{CStr, c_void};
use std::ptr;

use libc::{c_char, c_int, size_t};

use super::paths::redirect;
use super::{Definition, fail, next};
use crate::error::Errno;
use crate::root;

/// The real path of one of ours, into the program's room or memory that it frees.
///
/// # Safety
/// `real` is a terminated string; `resolved` is null or has PATH_MAX bytes.
unsafe fn resolve(real: &CStr, resolved: *mut c_char) -> *mut c_char {
    let mut place = [0; libc::PATH_MAX as usize];
    // SAFETY: a terminated path and room for one.
    let found = unsafe {
        next!(realpath(real.as_ptr() => *const c_char, place.as_mut_ptr() => *mut c_char) -> *mut c_char,
            else ptr::null_mut())
    };
    if found.is_null() {
        return found;
    }
    // SAFETY: realpath left a terminated path there.
    let place = unsafe { CStr::from_ptr(place.as_ptr()) };
    let view = root::root().and_then(|root| root::view(&root.path, place.to_bytes()));
    // A link that leads elsewhere stays what it is.
    let path = view.as_deref().unwrap_or(place);
    // SAFETY: a terminated path, no longer than PATH_MAX; room as the caller promised.
    unsafe {
        if resolved.is_null() {
            return libc::strdup(path.as_ptr());
        }
        libc::strcpy(resolved, path.as_ptr())
    }
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn realpath(path: *const c_char, resolved: *mut c_char) -> *mut c_char {
    // SAFETY: the caller's promise to libc.
    unsafe {
        match redirect(path) {
            Some(real) => resolve(&real, resolved),
            None => next!(realpath(path => *const c_char, resolved => *mut c_char) -> *mut c_char,
                else null()),
        }
    }
}

/// # Safety
/// As libc's, which programs call that were compiled with _FORTIFY_SOURCE.
#[unsafe(no_mangle)]
unsafe extern "C" fn __realpath_chk(path: *const c_char, resolved: *mut c_char, room: size_t) -> *mut c_char {
    // SAFETY: the caller's promise to libc. Too little room is libc's to punish.
    unsafe {
        match redirect(path) {
            Some(real) if room >= libc::PATH_MAX as size_t => resolve(&real, resolved),
            _ => next!(__realpath_chk(path => *const c_char, resolved => *mut c_char, room => size_t) -> *mut c_char,
                else null()),
        }
    }
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn canonicalize_file_name(path: *const c_char) -> *mut c_char {
    // SAFETY: the caller's promise to libc.
    unsafe { realpath(path, ptr::null_mut()) }
}

fn null() -> *mut c_char {
    let _: c_int = fail(Errno(libc::ENOSYS));
    ptr::null_mut()
}

pub(super) static KEEP: &[&[Definition]] = &[&[
    Definition(realpath as *const c_void),
    Definition(__realpath_chk as *const c_void),
    Definition(canonicalize_file_name as *const c_void),
]];
