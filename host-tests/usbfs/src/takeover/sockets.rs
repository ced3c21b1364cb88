//! The netlink socket on which libusb without libudev hears of hot-plug.

use std::ffi::c_void;
use std::os::fd::AsRawFd;

use libc::{c_int, c_long, msghdr, sockaddr, sockaddr_nl, socklen_t, ssize_t};

use super::{Definition, fail, next, uncancelled};
use crate::error::Errno;
use crate::fd_table::{self, Lookup, Taken};
use crate::{root, uevents};

/// The kernel's multicast group of uevents; libudev's daemon sends on another.
const GROUP_KERNEL: u32 = 1;

/// # Safety
/// As bind's.
unsafe fn listens_for_uevents(fd: c_int, address: *const sockaddr, length: socklen_t) -> bool {
    if address.is_null() || (length as usize) < size_of::<sockaddr_nl>() {
        return false;
    }
    // SAFETY: long enough, and the caller's promise.
    let address = unsafe { address.cast::<sockaddr_nl>().read_unaligned() };
    if c_int::from(address.nl_family) != libc::AF_NETLINK || address.nl_groups & GROUP_KERNEL == 0 {
        return false;
    }
    let mut protocol: c_int = 0;
    let mut size = size_of::<c_int>() as socklen_t;
    // SAFETY: room for one number.
    let result =
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL, (&raw mut protocol).cast(), &raw mut size) };
    result == 0 && protocol == libc::NETLINK_KOBJECT_UEVENT && root::root().is_some()
}

/// Puts our listener in the socket's place, with the socket's flags.
fn replace(fd: c_int) -> Result<(), Errno> {
    let listener = uevents::listen()?;
    crate::bus::connect();
    // SAFETY: system calls on the client's descriptor and one of ours, no memory involved.
    unsafe {
        let descriptor = libc::syscall(libc::SYS_fcntl, c_long::from(fd), libc::F_GETFD);
        let status = libc::syscall(libc::SYS_fcntl, c_long::from(fd), libc::F_GETFL);
        let flags = if descriptor & c_long::from(libc::FD_CLOEXEC) == 0 { 0 } else { libc::O_CLOEXEC };
        if libc::syscall(libc::SYS_dup3, c_long::from(listener.as_raw_fd()), c_long::from(fd), c_long::from(flags)) < 0
        {
            return Err(std::io::Error::last_os_error().into());
        }
        libc::syscall(libc::SYS_fcntl, c_long::from(fd), libc::F_SETFL, status);
    }
    fd_table::insert(fd, Taken::Uevents);
    Ok(())
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: the caller's promise to libc.
    unsafe {
        if listens_for_uevents(fd, address, length) {
            return uncancelled(|| replace(fd)).map_or_else(fail, |()| 0);
        }
        next!(bind(fd => c_int, address => *const sockaddr, length => socklen_t) -> c_int,
            else fail(Errno(libc::ENOSYS)))
    }
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    let uevents = matches!(fd_table::lookup(fd), Lookup::Ours(Taken::Uevents));
    // SAFETY: the caller's promise to libc.
    unsafe {
        let room = if uevents { (*message).msg_namelen } else { 0 };
        let received = next!(recvmsg(fd => c_int, message => *mut msghdr, flags => c_int) -> ssize_t,
            else fail(Errno(libc::ENOSYS)) as ssize_t);
        if uevents && received >= 0 {
            as_from_kernel(message, room);
        }
        received
    }
}

/// The sender is the kernel: group 1, process 0, root.
///
/// # Safety
/// `message` is what a successful recvmsg filled; its name has `room` bytes.
unsafe fn as_from_kernel(message: *mut msghdr, room: socklen_t) {
    // SAFETY: the caller's promise; control messages are walked as cmsg(3) says, within what the kernel filled.
    unsafe {
        let message = &mut *message;
        if !message.msg_name.is_null() && room as usize >= size_of::<sockaddr_nl>() {
            let mut name: sockaddr_nl = std::mem::zeroed();
            name.nl_family = libc::AF_NETLINK as libc::sa_family_t;
            name.nl_groups = GROUP_KERNEL;
            message.msg_name.cast::<sockaddr_nl>().write_unaligned(name);
            message.msg_namelen = size_of::<sockaddr_nl>() as socklen_t;
        }
        let mut control = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = control.as_ref() {
            if header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_CREDENTIALS {
                let kernel = libc::ucred { pid: 0, uid: 0, gid: 0 };
                libc::CMSG_DATA(control).cast::<libc::ucred>().write_unaligned(kernel);
            }
            control = libc::CMSG_NXTHDR(message, control);
        }
    }
}

pub(super) static KEEP: &[&[Definition]] =
    &[&[Definition(bind as *const c_void), Definition(recvmsg as *const c_void)]];
