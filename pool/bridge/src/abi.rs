//! What a compiled kernel file and this program say to each other. `shim/abi.h` is the other side.

use std::ffi::{c_char, c_int, c_long, c_ulong, c_void};
use std::ptr;

use crate::guard;

/// What the program does for the file (`struct pp_host`).
#[repr(C)]
pub(crate) struct Host {
    pub(crate) dma_alloc: unsafe extern "C" fn(*mut c_void, usize, *mut u64, c_int) -> *mut c_void,
    pub(crate) dma_free: unsafe extern "C" fn(*mut c_void, usize, *mut c_void, u64),
    pub(crate) print: unsafe extern "C" fn(*mut c_void, c_int, *const c_char, usize),
    pub(crate) has_record: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub(crate) complain: unsafe extern "C" fn(*mut c_void, c_int, *const c_char, usize),
    pub(crate) shown: unsafe extern "C" fn(*mut c_void, *const c_void) -> u64,
}

/// `enum pp_complaint`: a sleep in atomic context.
pub(crate) const SLEPT: c_int = 0;

/// `enum pp_end`
pub(crate) const RETURNED: c_int = 0;
pub(crate) const SIGNAL: c_int = 1;
pub(crate) const ENDLESS: c_int = 2;

/// One call into the file, and how it ended (`struct pp_call`).
#[repr(C)]
pub struct Call {
    pub(crate) guard: *mut c_void,
    pub(crate) host: *const Host,
    pub(crate) context: *mut c_void,
    pub(crate) page_size: c_ulong,
    pub(crate) may_sleep: c_int,
    pub(crate) objects: c_long,
    pub(crate) end: c_int,
    pub(crate) signal: c_int,
    pub(crate) address: *mut c_void,
    pub(crate) instruction: *mut c_void,
    pub(crate) words: [c_char; 128],
}

impl Call {
    /// A call of another bridge, whose C text has what it needs behind `context`.
    #[must_use]
    pub fn with(context: *mut c_void) -> Self {
        Self::new(ptr::null(), context, 0, true)
    }

    /// A call for that host's context, which has not begun.
    pub(crate) fn new(host: *const Host, context: *mut c_void, page_size: u64, may_sleep: bool) -> Self {
        Self {
            guard: guard::of_this_thread(),
            host,
            context,
            page_size: page_size as c_ulong,
            may_sleep: may_sleep as c_int,
            objects: 0,
            end: RETURNED,
            signal: 0,
            address: ptr::null_mut(),
            instruction: ptr::null_mut(),
            words: [0; 128],
        }
    }
}

/// `struct device`
pub(crate) enum Device {}
/// `struct dma_pool`
pub(crate) enum DmaPool {}

pub(crate) type DeviceNew = unsafe extern "C" fn(*const c_char) -> *mut Device;
pub(crate) type DeviceDrop = unsafe extern "C" fn(*mut Device);
pub(crate) type Create =
    unsafe extern "C" fn(*mut Call, *const c_char, *mut Device, usize, usize, usize, *mut *mut DmaPool);
pub(crate) type Alloc = unsafe extern "C" fn(*mut Call, *mut DmaPool, c_int, *mut *mut c_void, *mut u64);
pub(crate) type Free = unsafe extern "C" fn(*mut Call, *mut DmaPool, *mut c_void, u64);
pub(crate) type Destroy = unsafe extern "C" fn(*mut Call, *mut DmaPool);
pub(crate) type ShowPools = unsafe extern "C" fn(*mut Call, *mut Device, *mut c_char, *mut c_long);
/// Makes a call that of this thread, for bare calls; null ends it.
pub(crate) type Bind = unsafe extern "C" fn(*mut Call);
/// `dma_pool_alloc` itself.
pub(crate) type BareAlloc = unsafe extern "C" fn(*mut DmaPool, u32, *mut u64) -> *mut c_void;
/// `dma_pool_free` itself.
pub(crate) type BareFree = unsafe extern "C" fn(*mut DmaPool, *mut c_void, u64);
