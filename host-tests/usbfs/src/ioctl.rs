//! usbfs's ioctls (include/uapi/linux/usbdevice_fs.h, core/devio.c), on a client's memory.

mod arguments;

use std::ffi::c_void;
use std::mem::offset_of;
use std::time::Duration;

use libc::{c_int, c_uint};
use usb::urb::{Transfer, Urb};
use usb::{Direction, EndpointAddress, SetupPacket, Speed, TransferType};

use self::arguments::*;
use crate::error::Errno;
use crate::memory::zeroed;
use crate::node::Call;
use crate::open_file::{Bulk, Completed, OpenFile, UserUrb};

/// Capabilities: zero packets, no limit on packets, reap after disconnect, drop privileges, CONNINFO_EX.
const CAPABILITIES: u32 = 0x01 | 0x04 | 0x10 | 0x40 | 0x80;
const CAP_BULK_CONTINUATION: u32 = 0x02;
const CAP_BULK_SCATTER_GATHER: u32 = 0x08;

const URB_SHORT_NOT_OK: c_uint = 0x01;
const URB_BULK_CONTINUATION: c_uint = 0x04;
const URB_NO_FSBR: c_uint = 0x20;
const URB_ZERO_PACKET: c_uint = 0x40;
const URB_NO_INTERRUPT: c_uint = 0x80;

const CLAIM_IF_DRIVER: c_uint = 0x01;
const CLAIM_EXCEPT_DRIVER: c_uint = 0x02;

/// The most bytes of one transfer. The kernel's own limit is the memory of all transfers together, 16 MiB unless set
/// otherwise (`usbfs_memory_mb`), and ends the same way.
pub(crate) const MOST_BYTES: usize = 128 << 20;
/// The most bytes of a CONTROL's data stage (core/devio.c, `do_proc_control`: a page).
const MOST_CONTROL: u16 = 4096;
const NO_MEMORY: Errno = Errno(libc::ENOMEM);
/// Interfaces that can be claimed (`8 * sizeof(ps->ifclaimed)`).
const MOST_INTERFACES: c_uint = 64;

fn interface(number: c_uint) -> Result<u8, Errno> {
    if number < MOST_INTERFACES { Ok(number as u8) } else { Err(Errno(libc::EINVAL)) }
}

/// Whether the client may poll the descriptor after this request.
pub(crate) fn leads_to_poll(request: u32) -> bool {
    matches!(request, GET_CAPABILITIES | SUBMITURB | REAPURB | REAPURBNDELAY)
}

/// One ioctl on an open device node; the value that it returns.
///
/// # Safety
/// `argument` is what the request asks for, as for the kernel's ioctl(2).
pub(crate) unsafe fn ioctl(file: &OpenFile, request: u32, argument: *mut c_void) -> Result<c_int, Errno> {
    if !file.writable() {
        return Err(Errno(libc::EPERM));
    }
    // SAFETY: each request reads and writes what its definition says, at the client's address.
    unsafe {
        match request {
            REAPURB => return reap_blocking(file, argument),
            REAPURBNDELAY => {
                let empty = Errno(if file.connected() { libc::EAGAIN } else { libc::ENODEV });
                return file.reap().ok_or(empty).and_then(|completed| put_completed(&completed, argument));
            }
            _ if !file.connected() => return Err(Errno(libc::ENODEV)),
            _ => {}
        }
        match request {
            CONTROL => return control(file, get(argument)?),
            BULK => return bulk(file, get(argument)?),
            SUBMITURB => submit(file, get(argument)?, argument)?,
            DISCARDURB => file.discard(argument as usize)?,
            CLAIMINTERFACE => file.claim(interface(get(argument)?)?)?,
            RELEASEINTERFACE => file.release(interface(get(argument)?)?)?,
            SETINTERFACE => {
                let SetInterface { interface: number, alternate } = get(argument)?;
                let number = interface(number)?;
                check_interface(file, number)?;
                file.kill_interface(number);
                file.call(Call::SetInterface(number, u8::try_from(alternate).map_err(|_| Errno(libc::EINVAL))?))?;
            }
            SETCONFIGURATION => {
                // -1 is "unconfigured" too (core/message.c, `usb_set_configuration`).
                let value: c_int = get(argument)?;
                let value = u8::try_from(value.max(0)).map_err(|_| Errno(libc::EINVAL))?;
                file.call(Call::SetConfiguration(value))?;
            }
            CLEAR_HALT => {
                let endpoint = endpoint(get(argument)?)?;
                check_interface(file, interface_of(file, endpoint)?)?;
                file.call(Call::ClearHalt(endpoint))?;
            }
            RESET => {
                file.call(Call::Reset)?;
            }
            GETDRIVER => {
                let GetDriver { interface: number, .. } = get(argument)?;
                let number = interface(number).map_err(|_| Errno(libc::ENODATA))?;
                put_driver(argument, &file.call(Call::Driver(number))?.driver)?;
            }
            IOCTL => return interface_ioctl(file, get(argument)?),
            DISCONNECT_CLAIM => disconnect_claim(file, get(argument)?)?,
            DROP_PRIVILEGES => file.drop_privileges(get(argument)?),
            CONNECTINFO => {
                let info = file.node().info();
                let slow = u8::from(info.speed == Speed::Low);
                put(argument, ConnectInfo { number: info.address.into(), slow })?;
            }
            GET_CAPABILITIES => put(argument, capabilities(file))?,
            GET_SPEED => return Ok(speed(file) as c_int),
            other if other & !SIZE == CONNINFO_EX & !SIZE => connect_info_ex(file, argument, other & SIZE)?,
            _ => return Err(Errno(libc::ENOTTY)),
        }
    }
    Ok(0)
}

/// A host controller that takes transfers whole has no need of continuations, as xhci_hcd (`no_stop_on_short`).
fn capabilities(file: &OpenFile) -> u32 {
    let bulk = if file.node().info().scatter_gather { CAP_BULK_SCATTER_GATHER } else { CAP_BULK_CONTINUATION };
    CAPABILITIES | bulk
}

/// `enum usb_device_speed`.
fn speed(file: &OpenFile) -> u32 {
    match file.node().info().speed {
        Speed::Low => 1,
        Speed::Full => 2,
        Speed::High => 3,
    }
}

/// # Safety
/// `argument` has room for as many bytes as `size` says.
unsafe fn connect_info_ex(file: &OpenFile, argument: *mut c_void, size: u32) -> Result<(), Errno> {
    let size = (size >> SIZE_SHIFT) as usize;
    if size < size_of::<u32>() {
        return Err(Errno(libc::EINVAL));
    }
    let info = file.node().info();
    let mut ports = [0; 7];
    for (slot, port) in ports.iter_mut().zip(&info.ports) {
        *slot = *port;
    }
    let whole = ConnectInfoEx {
        size: size_of::<ConnectInfoEx>() as u32,
        bus: info.bus.into(),
        number: info.address.into(),
        speed: speed(file),
        num_ports: info.ports.len() as u8,
        ports,
    };
    let length = size.min(size_of::<ConnectInfoEx>());
    // SAFETY: the structure has no padding; `length` is at most its size and the client's room.
    unsafe { put_bytes(argument.cast(), std::slice::from_raw_parts((&raw const whole).cast::<u8>(), length)) }
}

/// # Safety
/// `argument` is null or a `usbdevfs_getdriver` to write.
unsafe fn put_driver(argument: *mut c_void, name: &str) -> Result<(), Errno> {
    if argument.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    let mut driver = [0; 256];
    let length = name.len().min(driver.len() - 1);
    driver[..length].copy_from_slice(&name.as_bytes()[..length]);
    // SAFETY: the field lies in the structure that the caller vouches for.
    unsafe { put(argument.byte_add(offset_of!(GetDriver, driver)), driver) }
}

fn endpoint(number: c_uint) -> Result<EndpointAddress, Errno> {
    match u8::try_from(number) {
        Ok(byte) if byte & !0x8f == 0 => Ok(EndpointAddress::from_byte(byte)),
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// `findintfep`.
fn interface_of(file: &OpenFile, endpoint: EndpointAddress) -> Result<u8, Errno> {
    let settings = file.node().settings().lock();
    settings.configuration().ok_or(Errno(libc::ESRCH))?;
    settings.interface_of(endpoint).ok_or(Errno(libc::ENOENT))
}

/// An interface is claimed by its first use (`checkintf`).
fn check_interface(file: &OpenFile, number: u8) -> Result<(), Errno> {
    if file.node().settings().lock().active == 0 {
        return Err(Errno(libc::EHOSTUNREACH));
    }
    interface(number.into())?;
    if file.claims(number) { Ok(()) } else { file.claim(number) }
}

/// A request to an interface or endpoint needs the claim, unless it is a vendor's (`check_ctrlrecip`).
fn check_recipient(file: &OpenFile, setup: &SetupPacket) -> Result<(), Errno> {
    const TYPE: u8 = 0x60;
    const VENDOR: u8 = 0x40;
    const PRINTER: u8 = 7;
    if setup.request_type & TYPE == VENDOR {
        return Ok(());
    }
    let index = setup.index.get();
    // A printer's GET_DEVICE_ID names the alternate setting in the low byte.
    if setup.request_type == 0xa1 && setup.request == 0 {
        let settings = file.node().settings().lock();
        let alternate = settings.alternate((index >> 8) as u8, index as u8);
        if alternate.is_some_and(|alternate| alternate.descriptor.class == PRINTER) {
            return Ok(());
        }
    }
    let low = index as u8;
    match setup.request_type & 0x1f {
        1 => check_interface(file, low),
        2 if low & 0x7f == 0 => Ok(()),
        2 => {
            let number = interface_of(file, endpoint(low.into())?)
                .or_else(|_| interface_of(file, endpoint((low ^ 0x80).into())?))?;
            check_interface(file, number)
        }
        _ => Ok(()),
    }
}

fn timeout(milliseconds: u32) -> Option<Duration> {
    (milliseconds > 0).then(|| Duration::from_millis(milliseconds.into()))
}

fn urb(file: &OpenFile, endpoint: EndpointAddress, transfer: Transfer, buffer: Vec<u8>) -> Urb {
    let address = file.node().info().address;
    Urb { address, endpoint, transfer, buffer, zero_packet: false, short_not_ok: false }
}

fn control_endpoint(setup: &SetupPacket) -> EndpointAddress {
    let data_in = setup.direction() == Direction::In && setup.length.get() > 0;
    if data_in { EndpointAddress::r#in(0) } else { EndpointAddress::out(0) }
}

/// # Safety
/// The transfer's data is the client's memory.
unsafe fn control(file: &OpenFile, control: ControlTransfer) -> Result<c_int, Errno> {
    let ControlTransfer { request_type, request, value, index, length, .. } = control;
    let setup = SetupPacket::new(request_type, request, value, index, length);
    check_recipient(file, &setup)?;
    if length > MOST_CONTROL {
        return Err(Errno(libc::EINVAL));
    }
    let endpoint = control_endpoint(&setup);
    let data_in = endpoint.direction == Direction::In;
    let buffer = if data_in {
        zeroed(length.into()).ok_or(NO_MEMORY)?
    } else {
        // SAFETY: the client's promise.
        unsafe { get_bytes(control.data, length.into()) }?
    };
    let done = file.transfer(urb(file, endpoint, Transfer::Control(setup), buffer), timeout(control.timeout))?;
    let actual = done.actual.min(length.into()).min(done.buffer.len());
    if data_in {
        // SAFETY: the client's promise; no more than it has room for.
        unsafe { put_bytes(control.data, &done.buffer[..actual]) }?;
    }
    Ok(actual as c_int)
}

/// # Safety
/// The transfer's data is the client's memory.
unsafe fn bulk(file: &OpenFile, bulk: BulkTransfer) -> Result<c_int, Errno> {
    let address = endpoint(bulk.endpoint)?;
    check_interface(file, interface_of(file, address)?)?;
    let found = file.node().settings().lock().endpoint(address);
    let transfer = match found.map(|endpoint| endpoint.transfer_type()) {
        Some(TransferType::Bulk) => Transfer::Bulk,
        Some(TransferType::Interrupt) => Transfer::Interrupt,
        _ => return Err(Errno(libc::EINVAL)),
    };
    let length = bulk.length as usize;
    if length > MOST_BYTES {
        return Err(Errno(libc::ENOMEM));
    }
    let data_in = address.direction == Direction::In;
    let buffer = if data_in {
        zeroed(length).ok_or(NO_MEMORY)?
    } else {
        // SAFETY: the client's promise.
        unsafe { get_bytes(bulk.data, length) }?
    };
    let done = file.transfer(urb(file, address, transfer, buffer), timeout(bulk.timeout))?;
    let actual = done.actual.min(length);
    if data_in {
        // SAFETY: the client's promise; no more than it has room for.
        unsafe { put_bytes(bulk.data, &done.buffer[..actual.min(done.buffer.len())]) }?;
    }
    Ok(actual as c_int)
}

/// # Safety
/// The URB's buffer is the client's memory.
unsafe fn submit(file: &OpenFile, user: UserUrbMemory, address: *mut c_void) -> Result<(), Errno> {
    const CONTROL: u8 = 2;
    const BULK: u8 = 3;
    const INTERRUPT: u8 = 1;
    let known = URB_SHORT_NOT_OK | URB_BULK_CONTINUATION | URB_NO_FSBR | URB_ZERO_PACKET | URB_NO_INTERRUPT;
    let length = usize::try_from(user.buffer_length).map_err(|_| Errno(libc::EINVAL))?;
    if user.flags & !known != 0 || (length > 0 && user.buffer.is_null()) {
        return Err(Errno(libc::EINVAL));
    }
    if length > MOST_BYTES {
        return Err(Errno(libc::ENOMEM));
    }
    let mut to = endpoint(user.endpoint.into())?;
    if user.kind == CONTROL && to.number == 0 {
        if length < 8 {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: the client vouches for `length` bytes, at least the eight of a setup packet.
        let setup = SetupPacket::from_bytes(unsafe { get(user.buffer.cast()) }?);
        let data = usize::from(setup.length.get());
        if length < data + 8 {
            return Err(Errno(libc::EINVAL));
        }
        check_recipient(file, &setup)?;
        to = control_endpoint(&setup);
        // SAFETY: data follow the setup packet in the same memory.
        let (buffer, room) = unsafe { split(user.buffer.add(8), data, to.direction) }?;
        let mut urb = urb(file, to, Transfer::Control(setup), buffer);
        urb.short_not_ok = to.direction == Direction::In && user.flags & URB_SHORT_NOT_OK != 0;
        return file.submit(UserUrb { urb: address as usize, buffer: room }, urb, None, Bulk::No);
    }
    let interface = interface_of(file, to)?;
    check_interface(file, interface)?;
    let found = file.node().settings().lock().endpoint(to).ok_or(Errno(libc::ENOENT))?;
    let (transfer, bulk) = match (user.kind, found.transfer_type()) {
        (BULK, TransferType::Bulk) if user.flags & URB_BULK_CONTINUATION != 0 => (Transfer::Bulk, Bulk::Continuation),
        (BULK, TransferType::Bulk) => (Transfer::Bulk, Bulk::First),
        (BULK | INTERRUPT, TransferType::Interrupt) => (Transfer::Interrupt, Bulk::No),
        _ => return Err(Errno(libc::EINVAL)),
    };
    // SAFETY: the client vouches for `length` bytes.
    let (buffer, room) = unsafe { split(user.buffer, length, to.direction) }?;
    let mut urb = urb(file, to, transfer, buffer);
    urb.zero_packet = to.direction == Direction::Out && user.flags & URB_ZERO_PACKET != 0;
    urb.short_not_ok = to.direction == Direction::In && user.flags & URB_SHORT_NOT_OK != 0;
    file.submit(UserUrb { urb: address as usize, buffer: room }, urb, Some(interface), bulk)
}

/// A transfer's own buffer, and where IN data goes when it is reaped.
///
/// # Safety
/// `data` are `length` bytes of the client's memory.
unsafe fn split(data: *mut u8, length: usize, direction: Direction) -> Result<(Vec<u8>, usize), Errno> {
    match direction {
        Direction::In => Ok((zeroed(length).ok_or(NO_MEMORY)?, data as usize)),
        // SAFETY: the caller's promise.
        Direction::Out => Ok((unsafe { get_bytes(data, length) }?, 0)),
    }
}

/// # Safety
/// `argument` is where the client wants the URB's address.
unsafe fn reap_blocking(file: &OpenFile, argument: *mut c_void) -> Result<c_int, Errno> {
    loop {
        let connected = file.connected();
        if let Some(completed) = file.reap() {
            // SAFETY: the caller's promise.
            return unsafe { put_completed(&completed, argument) };
        }
        if !connected {
            return Err(Errno(libc::ENODEV));
        }
        // poll, so that a signal ends it with EINTR as in the kernel.
        file.polled().wait(libc::POLLOUT)?;
    }
}

/// Data, status and length to the client's URB, the URB's address to the client (`processcompl`).
///
/// # Safety
/// The URB and its buffer are still the client's, as usbfs demands until a URB is reaped.
unsafe fn put_completed(completed: &Completed, argument: *mut c_void) -> Result<c_int, Errno> {
    let Completed { user, status, done, .. } = completed;
    let actual = done.actual;
    // SAFETY: the caller's promise; IN data is never longer than the URB's room, which `buffer` was made from.
    unsafe {
        if user.buffer != 0 {
            put_bytes(user.buffer as *mut u8, &done.buffer[..actual.min(done.buffer.len())])?;
        }
        let urb = user.urb as *mut c_void;
        put(urb.byte_add(offset_of!(UserUrbMemory, status)), *status)?;
        put(urb.byte_add(offset_of!(UserUrbMemory, actual_length)), actual as c_int)?;
        put(urb.byte_add(offset_of!(UserUrbMemory, error_count)), 0 as c_int)?;
        put(argument, urb)?;
    }
    Ok(0)
}

fn interface_ioctl(file: &OpenFile, request: InterfaceIoctl) -> Result<c_int, Errno> {
    if file.privileges_dropped() {
        return Err(Errno(libc::EACCES));
    }
    if file.node().settings().lock().active == 0 {
        return Err(Errno(libc::EHOSTUNREACH));
    }
    let number = c_uint::try_from(request.interface).map_err(|_| Errno(libc::EINVAL)).and_then(interface)?;
    match request.code as u32 {
        DISCONNECT => file.call(Call::Disconnect(number)).map(|_| 0),
        CONNECT => file.call(Call::Connect(number)).map(|answer| answer.value.into()),
        _ if !file.node().settings().lock().has_interface(number) => Err(Errno(libc::EINVAL)),
        _ => Err(Errno(libc::ENOTTY)),
    }
}

fn disconnect_claim(file: &OpenFile, request: DisconnectClaim) -> Result<(), Errno> {
    let number = interface(request.interface)?;
    if !file.node().settings().lock().has_interface(number) {
        return Err(Errno(libc::EINVAL));
    }
    if let Ok(answer) = file.call(Call::Driver(number)) {
        if file.privileges_dropped() {
            return Err(Errno(libc::EACCES));
        }
        let end = request.driver.iter().position(|byte| *byte == 0).unwrap_or(request.driver.len());
        let same = answer.driver.as_bytes() == &request.driver[..end];
        if (request.flags & CLAIM_IF_DRIVER != 0 && !same) || (request.flags & CLAIM_EXCEPT_DRIVER != 0 && same) {
            return Err(Errno(libc::EBUSY));
        }
        file.call(Call::Disconnect(number))?;
    }
    file.claim(number)
}
