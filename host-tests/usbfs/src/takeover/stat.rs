//! The stat family: a device node is a character device, wherever its file really lies.

use std::ffi::c_void;

use libc::{c_char, c_int, c_uint};

use super::paths::{node, redirect};
use super::{Definition, fail, next};
use crate::error::Errno;
use crate::fd_table::{self, Lookup, Taken};
use crate::sysfs::MAJOR;

/// Everybody may use the node: permissions are the real host's matter.
const MODE: libc::mode_t = libc::S_IFCHR | 0o666;

fn minor(bus: u8, address: u8) -> c_uint {
    c_uint::from(bus).saturating_sub(1) * 128 + c_uint::from(address).saturating_sub(1)
}

/// # Safety
/// `stat` is what a successful call filled.
unsafe fn as_device<T: Stat>(stat: *mut T, (bus, address): (u8, u8)) {
    // SAFETY: the caller's promise.
    unsafe { (*stat).set(MODE, libc::makedev(MAJOR, minor(bus, address))) };
}

trait Stat {
    fn set(&mut self, mode: libc::mode_t, device: libc::dev_t);
}

impl Stat for libc::stat {
    fn set(&mut self, mode: libc::mode_t, device: libc::dev_t) {
        (self.st_mode, self.st_rdev, self.st_size) = (mode, device, 0);
    }
}

impl Stat for libc::stat64 {
    fn set(&mut self, mode: libc::mode_t, device: libc::dev_t) {
        (self.st_mode, self.st_rdev, self.st_size) = (mode, device, 0);
    }
}

fn node_of_descriptor(fd: c_int) -> Option<(u8, u8)> {
    match fd_table::lookup(fd) {
        Lookup::Ours(Taken::Device(file)) => {
            let info = file.node().info();
            Some((info.bus, info.address))
        }
        _ => None,
    }
}

macro_rules! stats {
    ($($path:ident: $path_type:ty),*; $($fd:ident: $fd_type:ty),*; $($at:ident: $at_type:ty),*) => {
        $(
            /// # Safety
            /// As libc's.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $path(path: *const c_char, stat: *mut $path_type) -> c_int {
                // SAFETY: the caller's promise to libc.
                unsafe {
                    let (real, node) = (redirect(path), node(path));
                    let path = real.as_ref().map_or(path, |real| real.as_ptr());
                    let result = next!($path(path => *const c_char, stat => *mut $path_type) -> c_int,
                        else fail(Errno(libc::ENOSYS)));
                    if let (0, Some(node)) = (result, node) {
                        as_device(stat, node);
                    }
                    result
                }
            }
        )*
        $(
            /// # Safety
            /// As libc's.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $fd(fd: c_int, stat: *mut $fd_type) -> c_int {
                // SAFETY: the caller's promise to libc.
                unsafe {
                    let result = next!($fd(fd => c_int, stat => *mut $fd_type) -> c_int,
                        else fail(Errno(libc::ENOSYS)));
                    if let (0, Some(node)) = (result, node_of_descriptor(fd)) {
                        as_device(stat, node);
                    }
                    result
                }
            }
        )*
        $(
            /// # Safety
            /// As libc's.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $at(folder: c_int, path: *const c_char, stat: *mut $at_type, flags: c_int) -> c_int {
                // SAFETY: the caller's promise to libc.
                unsafe {
                    let (real, node) = (redirect(path), node(path));
                    let path = real.as_ref().map_or(path, |real| real.as_ptr());
                    let result = next!($at(folder => c_int, path => *const c_char, stat => *mut $at_type,
                        flags => c_int) -> c_int, else fail(Errno(libc::ENOSYS)));
                    if let (0, Some(node)) = (result, node) {
                        as_device(stat, node);
                    }
                    result
                }
            }
        )*
        const STATS: &[Definition] = &[
            $(Definition($path as *const c_void),)* $(Definition($fd as *const c_void),)*
            $(Definition($at as *const c_void),)*
        ];
    };
}

stats!(
    stat: libc::stat, stat64: libc::stat64, lstat: libc::stat, lstat64: libc::stat64;
    fstat: libc::stat, fstat64: libc::stat64;
    fstatat: libc::stat, fstatat64: libc::stat64
);

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn statx(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    buffer: *mut libc::statx,
) -> c_int {
    // SAFETY: the caller's promise to libc.
    unsafe {
        let (real, mut node) = (redirect(path), node(path));
        if node.is_none() && flags & libc::AT_EMPTY_PATH != 0 && !path.is_null() && *path == 0 {
            node = node_of_descriptor(folder);
        }
        let path = real.as_ref().map_or(path, |real| real.as_ptr());
        let result = next!(statx(folder => c_int, path => *const c_char, flags => c_int, mask => c_uint,
            buffer => *mut libc::statx) -> c_int, else fail(Errno(libc::ENOSYS)));
        if let (0, Some((bus, address))) = (result, node) {
            (*buffer).stx_mode = MODE as u16;
            (*buffer).stx_size = 0;
            ((*buffer).stx_rdev_major, (*buffer).stx_rdev_minor) = (MAJOR, minor(bus, address));
        }
        result
    }
}

pub(super) static KEEP: &[&[Definition]] = &[STATS, &[Definition(statx as *const c_void)]];
