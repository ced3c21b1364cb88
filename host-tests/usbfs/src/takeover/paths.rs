//! Functions that take a path.

use std::ffi::{CStr, CString, c_void};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;

use libc::{FILE, c_char, c_int, mode_t, size_t, ssize_t};

use super::{Definition, fail, next, uncancelled};
use crate::error::Errno;
use crate::fd_table::{self, Taken};
use crate::open_file::OpenFile;
use crate::{bus, root};

/// Where a path of ours really lies; `None` for every other path.
///
/// # Safety
/// `path` is null or a terminated string.
pub(super) unsafe fn redirect(path: *const c_char) -> Option<CString> {
    if path.is_null() {
        return None;
    }
    // SAFETY: not null, and the caller's promise.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    root::ours(path)?;
    root::place(&root::root()?.path, path)
}

/// # Safety
/// As [`redirect`].
pub(super) unsafe fn node(path: *const c_char) -> Option<(u8, u8)> {
    if path.is_null() {
        return None;
    }
    // SAFETY: not null, and the caller's promise.
    let node = root::node_of(unsafe { CStr::from_ptr(path) }.to_bytes())?;
    root::root().map(|_| node)
}

/// A descriptor of an open device node. It starts as a file with the device's descriptors, which a client without sysfs
/// reads; the ioctl that leads to poll makes it the end of a pipe.
fn open_node(bus: u8, address: u8, flags: c_int) -> Result<c_int, Errno> {
    let node = bus::find(bus, address)?;
    if flags & (libc::O_CREAT | libc::O_EXCL) == libc::O_CREAT | libc::O_EXCL {
        return Err(Errno(libc::EEXIST));
    }
    if flags & libc::O_DIRECTORY != 0 {
        return Err(Errno(libc::ENOTDIR));
    }
    let writable = matches!(flags & libc::O_ACCMODE, libc::O_RDWR | libc::O_WRONLY);
    let close_on_exec = if flags & libc::O_CLOEXEC == 0 { 0 } else { libc::MFD_CLOEXEC };
    // SAFETY: a terminated name; the descriptor is new.
    let memory = unsafe {
        let fd = libc::memfd_create(c"usbfs".as_ptr(), close_on_exec);
        if fd < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let descriptors = &node.info().descriptors;
    // SAFETY: as many bytes as the vector has.
    unsafe { libc::pwrite(memory.as_raw_fd(), descriptors.as_ptr().cast(), descriptors.len(), 0) };
    let file: Arc<OpenFile> = OpenFile::new(node, writable)?;
    let fd = memory.as_raw_fd();
    if !fd_table::insert(fd, Taken::Device(file.clone())) {
        file.close();
        return Err(Errno(libc::EMFILE));
    }
    Ok(memory.into_raw_fd())
}

/// Opens what is ours; `None` for every other path.
///
/// # Safety
/// As [`redirect`].
unsafe fn open_ours(path: *const c_char, flags: c_int, mode: mode_t) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let (node, real) = unsafe { (node(path), redirect(path)?) };
    if let Some((bus, address)) = node {
        return Some(uncancelled(|| open_node(bus, address, flags)).unwrap_or_else(fail));
    }
    // Attributes are not writable here, and nobody makes files in sysfs.
    if flags & (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) != libc::O_RDONLY {
        return Some(fail(Errno(libc::EACCES)));
    }
    // SAFETY: a terminated path.
    Some(unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, real.as_ptr(), flags, mode) as c_int })
}

macro_rules! opens {
    ($($name:ident),*; $($fortified:ident),*; $($at:ident),*; $($fortified_at:ident),*) => {
        $(
            /// # Safety
            /// As libc's. It is variadic there: without O_CREAT nobody looks at the mode.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
                // SAFETY: the caller's promise to libc.
                unsafe {
                    match open_ours(path, flags, mode) {
                        Some(fd) => fd,
                        None => next!($name(path => *const c_char, flags => c_int, mode => mode_t) -> c_int,
                            else fail(Errno(libc::ENOSYS))),
                    }
                }
            }
        )*
        $(
            /// # Safety
            /// As libc's, which programs call that were compiled with _FORTIFY_SOURCE.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $fortified(path: *const c_char, flags: c_int) -> c_int {
                // SAFETY: the caller's promise to libc.
                unsafe {
                    match open_ours(path, flags, 0) {
                        Some(fd) => fd,
                        None => next!($fortified(path => *const c_char, flags => c_int) -> c_int,
                            else fail(Errno(libc::ENOSYS))),
                    }
                }
            }
        )*
        $(
            /// # Safety
            /// As libc's. It is variadic there: without O_CREAT nobody looks at the mode.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $at(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
                // SAFETY: the caller's promise to libc.
                unsafe {
                    match open_ours(path, flags, mode) {
                        Some(fd) => fd,
                        None => next!($at(folder => c_int, path => *const c_char, flags => c_int, mode => mode_t)
                            -> c_int, else fail(Errno(libc::ENOSYS))),
                    }
                }
            }
        )*
        $(
            /// # Safety
            /// As libc's, which programs call that were compiled with _FORTIFY_SOURCE.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $fortified_at(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
                // SAFETY: the caller's promise to libc.
                unsafe {
                    match open_ours(path, flags, 0) {
                        Some(fd) => fd,
                        None => next!($fortified_at(folder => c_int, path => *const c_char, flags => c_int) -> c_int,
                            else fail(Errno(libc::ENOSYS))),
                    }
                }
            }
        )*
        const OPENS: &[Definition] = &[
            $(Definition($name as *const c_void),)* $(Definition($fortified as *const c_void),)*
            $(Definition($at as *const c_void),)* $(Definition($fortified_at as *const c_void),)*
        ];
    };
}

opens!(open, open64; __open_2, __open64_2; openat, openat64; __openat_2, __openat64_2);

/// Whether fopen's mode only reads. After a comma it names a character set.
///
/// # Safety
/// `mode` is null or a terminated string.
unsafe fn reads_only(mode: *const c_char) -> bool {
    // SAFETY: not null, and the caller's promise.
    let mode = if mode.is_null() { c"" } else { unsafe { CStr::from_ptr(mode) } };
    mode.to_bytes().iter().take_while(|letter| **letter != b',').all(|letter| !b"wa+".contains(letter))
}

macro_rules! fopens {
    ($($name:ident),*) => {
        $(
            /// # Safety
            /// As libc's.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(path: *const c_char, mode: *const c_char) -> *mut FILE {
                // SAFETY: the caller's promise to libc.
                unsafe {
                    match redirect(path) {
                        Some(real) if node(path).is_none() && reads_only(mode) => {
                            next!($name(real.as_ptr() => *const c_char, mode => *const c_char) -> *mut FILE,
                                else std::ptr::null_mut())
                        }
                        Some(_) => {
                            fail(Errno(libc::EACCES));
                            std::ptr::null_mut()
                        }
                        None => next!($name(path => *const c_char, mode => *const c_char) -> *mut FILE,
                            else std::ptr::null_mut()),
                    }
                }
            }
        )*
        const FOPENS: &[Definition] = &[$(Definition($name as *const c_void),)*];
    };
}

fopens!(fopen, fopen64);

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn opendir(path: *const c_char) -> *mut libc::DIR {
    // SAFETY: the caller's promise to libc.
    unsafe {
        let real = redirect(path);
        let path = real.as_ref().map_or(path, |real| real.as_ptr());
        next!(opendir(path => *const c_char) -> *mut libc::DIR, else std::ptr::null_mut())
    }
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn readlink(path: *const c_char, buffer: *mut c_char, size: size_t) -> ssize_t {
    // SAFETY: the caller's promise to libc.
    unsafe {
        let real = redirect(path);
        let path = real.as_ref().map_or(path, |real| real.as_ptr());
        next!(readlink(path => *const c_char, buffer => *mut c_char, size => size_t) -> ssize_t,
            else fail(Errno(libc::ENOSYS)) as ssize_t)
    }
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn readlinkat(folder: c_int, path: *const c_char, buffer: *mut c_char, size: size_t) -> ssize_t {
    // SAFETY: the caller's promise to libc.
    unsafe {
        let real = redirect(path);
        let path = real.as_ref().map_or(path, |real| real.as_ptr());
        next!(readlinkat(folder => c_int, path => *const c_char, buffer => *mut c_char, size => size_t) -> ssize_t,
            else fail(Errno(libc::ENOSYS)) as ssize_t)
    }
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: the caller's promise to libc.
    unsafe {
        let real = redirect(path);
        let path = real.as_ref().map_or(path, |real| real.as_ptr());
        next!(access(path => *const c_char, mode => c_int) -> c_int, else fail(Errno(libc::ENOSYS)))
    }
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller's promise to libc.
    unsafe {
        let real = redirect(path);
        let path = real.as_ref().map_or(path, |real| real.as_ptr());
        next!(faccessat(folder => c_int, path => *const c_char, mode => c_int, flags => c_int) -> c_int,
            else fail(Errno(libc::ENOSYS)))
    }
}

macro_rules! attributes {
    ($($name:ident),*) => {
        $(
            /// # Safety
            /// As libc's. `ls -l` asks for access lists.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(
                path: *const c_char,
                name: *const c_char,
                value: *mut c_void,
                size: size_t,
            ) -> ssize_t {
                // SAFETY: the caller's promise to libc.
                unsafe {
                    let real = redirect(path);
                    let path = real.as_ref().map_or(path, |real| real.as_ptr());
                    next!($name(path => *const c_char, name => *const c_char, value => *mut c_void, size => size_t)
                        -> ssize_t, else fail(Errno(libc::ENOSYS)) as ssize_t)
                }
            }
        )*
        const ATTRIBUTES: &[Definition] = &[$(Definition($name as *const c_void),)*];
    };
}

attributes!(getxattr, lgetxattr);

const OTHERS: &[Definition] = &[
    Definition(opendir as *const c_void),
    Definition(readlink as *const c_void),
    Definition(readlinkat as *const c_void),
    Definition(access as *const c_void),
    Definition(faccessat as *const c_void),
];

pub(super) static KEEP: &[&[Definition]] = &[OPENS, FOPENS, ATTRIBUTES, OTHERS];
