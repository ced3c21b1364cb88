//! What the ioctls' arguments point to, and their numbers.

use std::ffi::c_void;

use libc::{_IO, _IOR, _IOW, _IOWR, c_int, c_uint};

use crate::error::Errno;

/// `usbdevfs_ctrltransfer`.
#[repr(C)]
pub(super) struct ControlTransfer {
    pub(super) request_type: u8,
    pub(super) request: u8,
    pub(super) value: u16,
    pub(super) index: u16,
    pub(super) length: u16,
    pub(super) timeout: u32,
    pub(super) data: *mut u8,
}

/// `usbdevfs_bulktransfer`.
#[repr(C)]
pub(super) struct BulkTransfer {
    pub(super) endpoint: c_uint,
    pub(super) length: c_uint,
    pub(super) timeout: c_uint,
    pub(super) data: *mut u8,
}

/// `usbdevfs_urb`, without the isochronous packets.
#[repr(C)]
pub(super) struct UserUrbMemory {
    pub(super) kind: u8,
    pub(super) endpoint: u8,
    pub(super) status: c_int,
    pub(super) flags: c_uint,
    pub(super) buffer: *mut u8,
    pub(super) buffer_length: c_int,
    pub(super) actual_length: c_int,
    pub(super) start_frame: c_int,
    pub(super) number_of_packets: c_int,
    pub(super) error_count: c_int,
    pub(super) signr: c_uint,
    pub(super) usercontext: *mut c_void,
}

/// `usbdevfs_getdriver`.
#[repr(C)]
pub(super) struct GetDriver {
    pub(super) interface: c_uint,
    pub(super) driver: [u8; 256],
}

/// `usbdevfs_setinterface`.
#[repr(C)]
pub(super) struct SetInterface {
    pub(super) interface: c_uint,
    pub(super) alternate: c_uint,
}

/// `usbdevfs_connectinfo`.
#[repr(C)]
pub(super) struct ConnectInfo {
    pub(super) number: c_uint,
    pub(super) slow: u8,
}

/// `usbdevfs_conninfo_ex`.
#[repr(C)]
pub(super) struct ConnectInfoEx {
    pub(super) size: u32,
    pub(super) bus: u32,
    pub(super) number: u32,
    pub(super) speed: u32,
    pub(super) num_ports: u8,
    pub(super) ports: [u8; 7],
}

/// `usbdevfs_ioctl`.
#[repr(C)]
pub(super) struct InterfaceIoctl {
    pub(super) interface: c_int,
    pub(super) code: c_int,
    pub(super) data: *mut c_void,
}

/// `usbdevfs_disconnect_claim`.
#[repr(C)]
pub(super) struct DisconnectClaim {
    pub(super) interface: c_uint,
    pub(super) flags: c_uint,
    pub(super) driver: [u8; 256],
}

pub(super) const U: u32 = b'U' as u32;
pub(super) const CONTROL: u32 = _IOWR::<ControlTransfer>(U, 0) as u32;
pub(super) const BULK: u32 = _IOWR::<BulkTransfer>(U, 2) as u32;
pub(super) const SETINTERFACE: u32 = _IOR::<SetInterface>(U, 4) as u32;
pub(super) const SETCONFIGURATION: u32 = _IOR::<c_uint>(U, 5) as u32;
pub(super) const GETDRIVER: u32 = _IOW::<GetDriver>(U, 8) as u32;
pub(super) const SUBMITURB: u32 = _IOR::<UserUrbMemory>(U, 10) as u32;
pub(super) const DISCARDURB: u32 = _IO(U, 11) as u32;
pub(super) const REAPURB: u32 = _IOW::<*mut c_void>(U, 12) as u32;
pub(super) const REAPURBNDELAY: u32 = _IOW::<*mut c_void>(U, 13) as u32;
pub(super) const CLAIMINTERFACE: u32 = _IOR::<c_uint>(U, 15) as u32;
pub(super) const RELEASEINTERFACE: u32 = _IOR::<c_uint>(U, 16) as u32;
pub(super) const CONNECTINFO: u32 = _IOW::<ConnectInfo>(U, 17) as u32;
pub(super) const IOCTL: u32 = _IOWR::<InterfaceIoctl>(U, 18) as u32;
pub(super) const RESET: u32 = _IO(U, 20) as u32;
pub(super) const CLEAR_HALT: u32 = _IOR::<c_uint>(U, 21) as u32;
pub(super) const DISCONNECT: u32 = _IO(U, 22) as u32;
pub(super) const CONNECT: u32 = _IO(U, 23) as u32;
pub(super) const GET_CAPABILITIES: u32 = _IOR::<u32>(U, 26) as u32;
pub(super) const DISCONNECT_CLAIM: u32 = _IOR::<DisconnectClaim>(U, 27) as u32;
pub(super) const DROP_PRIVILEGES: u32 = _IOW::<u32>(U, 30) as u32;
pub(super) const GET_SPEED: u32 = _IO(U, 31) as u32;
/// Its size field is the caller's.
pub(super) const CONNINFO_EX: u32 = _IOR::<ConnectInfoEx>(U, 32) as u32;
/// The size field of a request (include/uapi/asm-generic/ioctl.h).
pub(super) const SIZE: u32 = 0x3fff << SIZE_SHIFT;
pub(super) const SIZE_SHIFT: u32 = 16;

/// What an ioctl's argument points to.
///
/// # Safety
/// `address` is null, or the client vouches for a readable `T` there, as it does to the kernel.
pub(super) unsafe fn get<T>(address: *const c_void) -> Result<T, Errno> {
    if address.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: not null, and the caller's promise.
    Ok(unsafe { address.cast::<T>().read_unaligned() })
}

/// # Safety
/// As [`get`], for writing.
pub(super) unsafe fn put<T>(address: *mut c_void, value: T) -> Result<(), Errno> {
    if address.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: not null, and the caller's promise.
    unsafe { address.cast::<T>().write_unaligned(value) };
    Ok(())
}

/// # Safety
/// As [`get`], for `length` bytes.
pub(super) unsafe fn get_bytes(address: *const u8, length: usize) -> Result<Vec<u8>, Errno> {
    if length == 0 {
        return Ok(Vec::new());
    }
    if address.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| Errno(libc::ENOMEM))?;
    // SAFETY: not null, and the caller's promise.
    bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(address, length) });
    Ok(bytes)
}

/// # Safety
/// As [`put`], for as many bytes as `bytes` has.
pub(super) unsafe fn put_bytes(address: *mut u8, bytes: &[u8]) -> Result<(), Errno> {
    if bytes.is_empty() {
        return Ok(());
    }
    if address.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: not null, the caller's promise, and the client's memory is not part of `bytes`.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address, bytes.len()) };
    Ok(())
}
