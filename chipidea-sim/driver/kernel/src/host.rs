//! What this program does for udc.c while it is called: registers, pools, mappings, the gadget.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_ulonglong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::slice;
use std::sync::Arc;

use bus::{DmaAddr, Owner};
use chipidea_driver::names::{DQH, DTD, slot_of};
use pool::{Block, Direction, Flags, Geometry};
use usb::SetupPacket;
use usb::gadget::{Completion, Stall};
use zerocopy::FromBytes;

use crate::abi::{self, Host};
use crate::error;
use crate::handle::Handle;
use crate::shared::{Mapping, Shared};

/// Bytes of a dQH's slot and of a dTD's block.
const DESCRIPTOR: u64 = 64;
/// The pool of dTDs, as udc.c names it.
const DESCRIPTORS: &str = "ci_hw_td";

/// The functions behind `struct host`. The driver that each is called with is a [`Shared`].
pub(crate) static HOST: Host = Host {
    read,
    write,
    print,
    pool_create,
    pool_alloc,
    pool_free,
    pool_destroy,
    claim_head,
    map,
    unmap,
    setup,
    event,
    complete,
};

/// Does the work of a callback. A panic in it must not go through frames of C: it goes on when they are left.
///
/// # Safety
/// `driver` is the driver of the call that is under way.
unsafe fn contained<T>(driver: *mut c_void, otherwise: T, work: impl FnOnce(&Shared) -> T) -> T {
    // SAFETY: the caller's promise; a driver outlives its calls, and is only ever shared.
    let shared = unsafe { &*driver.cast_const().cast::<Shared>() };
    catch_unwind(AssertUnwindSafe(|| work(shared))).unwrap_or_else(|panic| {
        shared.panic.set(Some(panic));
        otherwise
    })
}

unsafe extern "C" fn read(driver: *mut c_void, offset: c_ulong) -> c_uint {
    // SAFETY: called by the glue with the call's driver.
    unsafe { contained(driver, 0, |shared| shared.mmio.read32(offset)) }
}

unsafe extern "C" fn write(driver: *mut c_void, offset: c_ulong, value: c_uint) {
    // SAFETY: called by the glue with the call's driver.
    unsafe { contained(driver, (), |shared| shared.mmio.write32(offset, value)) }
}

unsafe extern "C" fn print(driver: *mut c_void, text: *const c_char, length: usize) {
    // SAFETY: a buffer of the glue's with so many bytes.
    let bytes = unsafe { slice::from_raw_parts(text.cast::<u8>(), length) };
    // SAFETY: called by the glue with the call's driver.
    unsafe { contained(driver, (), |shared| shared.log(String::from_utf8_lossy(bytes).into_owned())) }
}

unsafe extern "C" fn pool_create(
    driver: *mut c_void,
    name: *const c_char,
    size: c_ulong,
    align: c_ulong,
    boundary: c_ulong,
) -> *mut c_void {
    // SAFETY: udc.c gives a string.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let create = |shared: &Shared| match shared.dma.create_pool(&name, Geometry { size, align, boundary }) {
        Ok(pool) => {
            let mut pools = shared.pools.borrow_mut();
            pools.push(Arc::new(pool));
            ptr::without_provenance_mut(pools.len())
        }
        Err(error) => {
            shared.log(format!("pool {name}: {error}"));
            ptr::null_mut()
        }
    };
    // SAFETY: called by the glue with the call's driver.
    unsafe { contained(driver, ptr::null_mut(), create) }
}

/// The pool that udc.c knows by that pointer, if it is one. Not borrowed while it works: a pool may be a kernel's file too.
fn pool(shared: &Shared, pool: *mut c_void) -> Option<Arc<pool::DmaPool>> {
    let found = pool.addr().checked_sub(1).and_then(|index| shared.pools.borrow().get(index).cloned());
    if found.is_none() {
        shared.log("a dma_pool function was given what is no pool".to_owned());
    }
    found
}

unsafe extern "C" fn pool_alloc(
    driver: *mut c_void,
    from: *mut c_void,
    zero: c_int,
    may_sleep: c_int,
    dma: *mut c_ulonglong,
) -> *mut c_void {
    let flags = Flags { zero: zero != 0, may_sleep: may_sleep != 0 };
    let alloc = |shared: &Shared| {
        let pool = pool(shared, from)?;
        // udc.c knows why there is none by the GFP flags only: the reason is the pool's to tell.
        let block = pool.alloc(flags).ok()?;
        if pool.name() == DESCRIPTORS {
            let mut state = shared.state.borrow_mut();
            let slot = state.slot;
            let number = state.numbers[slot as usize];
            state.numbers[slot as usize] = number.wrapping_add(1);
            shared.dma.claim(block.dma, DESCRIPTOR, Owner::new(&DTD, slot << 16 | u32::from(number)));
        }
        Some((shared.mirror.pointer(block.cpu).cast::<c_void>(), block.dma))
    };
    // SAFETY: called by the glue with the call's driver.
    let Some((pointer, address)) = (unsafe { contained(driver, None, alloc) }) else { return ptr::null_mut() };
    // SAFETY: a variable of the glue's.
    unsafe { dma.write(address.0) };
    pointer
}

unsafe extern "C" fn pool_free(driver: *mut c_void, to: *mut c_void, block: *mut c_void, dma: c_ulonglong) {
    let free = |shared: &Shared| {
        let block = Block { cpu: shared.mirror.address(block.cast()), dma: DmaAddr(dma) };
        if let Some(pool) = pool(shared, to)
            && let Err(error) = pool.free(block)
        {
            shared.log(format!("{}: {error}", pool.name()));
        }
    };
    // SAFETY: called by the glue with the call's driver.
    unsafe { contained(driver, (), free) }
}

unsafe extern "C" fn pool_destroy(driver: *mut c_void, which: *mut c_void) {
    let destroy = |shared: &Shared| {
        if let Some(pool) = pool(shared, which)
            && let Err(error) = pool.destroy()
        {
            shared.state.borrow_mut().kept.get_or_insert(format!("pool {}: {error}", pool.name()));
        }
    };
    // SAFETY: called by the glue with the call's driver.
    unsafe { contained(driver, (), destroy) }
}

unsafe extern "C" fn claim_head(driver: *mut c_void, dma: c_ulonglong, slot: c_uint) {
    let claim = |shared: &Shared| {
        shared.dma.claim(DmaAddr(dma), DESCRIPTOR, Owner::new(&DQH, slot));
    };
    // SAFETY: called by the glue with the call's driver.
    unsafe { contained(driver, (), claim) }
}

unsafe extern "C" fn map(
    driver: *mut c_void,
    token: c_ulong,
    data: *mut c_void,
    length: c_uint,
    is_in: c_int,
    dma: *mut c_ulonglong,
) -> c_int {
    let (data, length) = (data.cast::<u8>(), length as usize);
    let map = |shared: &Shared| {
        let mut state = shared.state.borrow_mut();
        let direction = if is_in != 0 { usb::Direction::In } else { usb::Direction::Out };
        let of_gadget = state.requests.iter_mut().find(|in_flight| in_flight.token == token);
        // udc.c's own requests are all of endpoint 0.
        let number = of_gadget.as_ref().map_or(0, |in_flight| in_flight.endpoint.number);
        let endpoint = usb::EndpointAddress { number, direction };
        if let Some(in_flight) = of_gadget {
            in_flight.endpoint = endpoint;
        }
        state.slot = slot_of(endpoint);
        if length == 0 {
            return Ok(0);
        }
        let way = if is_in != 0 { Direction::ToDevice } else { Direction::FromDevice };
        let slot = state.slot;
        let buffer = state.buffers.map(&shared.dma, length as u64, way, slot).map_err(|_| -libc::ENOMEM)?;
        if is_in != 0 {
            // SAFETY: the request's data: a gadget's, which is kept until it comes back, or an object of kmalloc.
            let bytes = unsafe { slice::from_raw_parts(data, length) };
            shared.dma.write(buffer.cpu, bytes).map_err(|_| -libc::EFAULT)?;
        }
        state.mappings.push(Mapping { buffer, data, length, receives: is_in == 0 });
        Ok(buffer.dma.0)
    };
    // SAFETY: called by the glue with the call's driver.
    match unsafe { contained(driver, Err(-libc::EFAULT), map) } {
        Ok(address) => {
            // SAFETY: a variable of the glue's.
            unsafe { dma.write(address) };
            0
        }
        Err(errno) => errno,
    }
}

unsafe extern "C" fn unmap(driver: *mut c_void, dma: c_ulonglong) {
    // SAFETY: called by the glue with the call's driver.
    unsafe { contained(driver, (), |shared| end_mapping(shared, DmaAddr(dma))) }
}

/// Ends a mapping; what came is the request's.
pub(crate) fn end_mapping(shared: &Shared, dma: DmaAddr) {
    let state = &mut *shared.state.borrow_mut();
    let Some(index) = state.mappings.iter().position(|mapping| mapping.buffer.dma == dma) else { return };
    let Mapping { buffer, data, length, receives } = state.mappings.swap_remove(index);
    shared.dma.unmap_single(dma);
    if receives {
        // SAFETY: as in `map`: a request is kept until its mapping has ended.
        let room = unsafe { slice::from_raw_parts_mut(data, length) };
        if let Err(fault) = shared.dma.read(buffer.cpu, room) {
            state.log.push(format!("buffer: {fault}"));
        }
    }
    state.buffers.keep(&shared.dma, buffer);
}

unsafe extern "C" fn setup(driver: *mut c_void, packet: *const c_void) -> c_int {
    // SAFETY: a `struct usb_ctrlrequest`, of eight bytes.
    let bytes = unsafe { packet.cast::<[u8; 8]>().read_unaligned() };
    let ask = |shared: &Shared| {
        let Ok(packet) = SetupPacket::read_from_bytes(&bytes) else { return -libc::EINVAL };
        match shared.with_gadget(|gadget| gadget.setup(&mut Handle(shared), packet)) {
            Some(Ok(())) => 0,
            Some(Err(Stall)) | None => -libc::EOPNOTSUPP,
        }
    };
    // SAFETY: called by the glue with the call's driver.
    unsafe { contained(driver, -libc::EIO, ask) }
}

unsafe extern "C" fn event(driver: *mut c_void, event: c_int) {
    let tell = |shared: &Shared| {
        shared.with_gadget(|gadget| match event {
            abi::RESET => gadget.reset(&mut Handle(shared)),
            abi::DISCONNECT => gadget.disconnect(&mut Handle(shared)),
            abi::SUSPEND => gadget.suspend(&mut Handle(shared)),
            _ => gadget.resume(&mut Handle(shared)),
        });
    };
    // SAFETY: called by the glue with the call's driver.
    unsafe { contained(driver, (), tell) }
}

unsafe extern "C" fn complete(driver: *mut c_void, token: c_ulong, status: c_int, actual: c_uint) {
    let complete = |shared: &Shared| {
        let Some(in_flight) = shared.take_request(token) else {
            shared.log("a request came back twice".to_owned());
            return;
        };
        let status = error::status(status, actual as usize);
        let completion = Completion { endpoint: in_flight.endpoint, request: in_flight.request, status };
        shared.state.borrow_mut().done.push_back(completion);
        // To a gadget that is being called it goes afterwards.
        shared.with_gadget(|_| ());
    };
    // SAFETY: called by the glue with the call's driver.
    unsafe { contained(driver, (), complete) }
}
