//! What the glue in C and this program say to each other. `glue/glue.h` and `glue/calls.c` are the other side.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_ulonglong, c_void};
use std::ptr;

use c_bridge::BuildError;
use c_bridge::parts::{Call, Library};

/// What the program does for a driver (`struct host`).
#[repr(C)]
pub(crate) struct Host {
    pub(crate) read: unsafe extern "C" fn(*mut c_void, c_ulong) -> c_uint,
    pub(crate) write: unsafe extern "C" fn(*mut c_void, c_ulong, c_uint),
    pub(crate) print: unsafe extern "C" fn(*mut c_void, *const c_char, usize),
    pub(crate) pool_create: unsafe extern "C" fn(*mut c_void, *const c_char, c_ulong, c_ulong, c_ulong) -> *mut c_void,
    pub(crate) pool_alloc:
        unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, c_int, *mut c_ulonglong) -> *mut c_void,
    pub(crate) pool_free: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, c_ulonglong),
    pub(crate) pool_destroy: unsafe extern "C" fn(*mut c_void, *mut c_void),
    pub(crate) claim_head: unsafe extern "C" fn(*mut c_void, c_ulonglong, c_uint),
    pub(crate) map: unsafe extern "C" fn(*mut c_void, c_ulong, *mut c_void, c_uint, c_int, *mut c_ulonglong) -> c_int,
    pub(crate) unmap: unsafe extern "C" fn(*mut c_void, c_ulonglong),
    pub(crate) setup: unsafe extern "C" fn(*mut c_void, *const c_void) -> c_int,
    pub(crate) event: unsafe extern "C" fn(*mut c_void, c_int),
    pub(crate) complete: unsafe extern "C" fn(*mut c_void, c_ulong, c_int, c_uint),
}

/// `enum event`
pub(crate) const RESET: c_int = 0;
pub(crate) const DISCONNECT: c_int = 1;
pub(crate) const SUSPEND: c_int = 2;

/// One driver (`struct context`).
#[repr(C)]
pub(crate) struct Context {
    host: *const Host,
    driver: *mut c_void,
    objects: [*mut c_void; 3],
    /// Objects of kmalloc that are in use, without those that go with the device.
    pub(crate) live_count: c_ulong,
    freed_count: c_ulong,
    dead: c_int,
}

impl Context {
    pub(crate) const fn new(host: *const Host, driver: *mut c_void) -> Self {
        Self { host, driver, objects: [ptr::null_mut(); 3], live_count: 0, freed_count: 0, dead: 0 }
    }
}

/// `struct glue_config`
#[repr(C)]
pub(crate) struct Config {
    pub(crate) name: *const c_char,
    pub(crate) capoffset: c_ulong,
    pub(crate) interrupt_threshold: c_uint,
    pub(crate) registers_shared: c_int,
    pub(crate) disable_streaming: c_int,
    pub(crate) ahb_burst: c_int,
    pub(crate) works_around: c_int,
}

/// `struct glue_request`
#[repr(C)]
pub(crate) struct Request {
    pub(crate) token: c_ulong,
    pub(crate) data: *mut c_void,
    pub(crate) length: c_uint,
    pub(crate) zero: c_int,
    pub(crate) short_not_ok: c_int,
    pub(crate) no_interrupt: c_int,
}

/// `struct glue_udc`
pub(crate) enum Udc {}

macro_rules! calls {
    ($($name:ident($($parameter:ty),*);)*) => {
        /// Every call of `glue/calls.c`. The result is 0, a value, or an error of the kernel's, which is negative.
        pub(crate) struct Calls {
            $(pub(crate) $name: unsafe extern "C" fn(*mut Call, $($parameter),*) -> c_int,)*
            pub(crate) release: unsafe extern "C" fn(*mut Context),
        }

        impl Calls {
            pub(crate) fn of(library: &Library) -> Result<Self, BuildError> {
                Ok(Self {
                    $($name: library.symbol(call_name(concat!("pp_udc_", stringify!($name), "\0")))?,)*
                    release: library.symbol(c"pp_udc_release")?,
                })
            }
        }
    };
}

calls! {
    probe(*const Config, *mut *mut Udc);
    start(*mut Udc);
    interrupt(*mut Udc);
    speed(*mut Udc);
    match_endpoint(*mut Udc, c_int, c_int, c_uint);
    enable(*mut Udc, *const u8);
    disable(*mut Udc, u8);
    queue(*mut Udc, u8, *const Request, *mut *mut c_void);
    dequeue(*mut Udc, u8, *mut c_void);
    set_halt(*mut Udc, u8, c_int);
    set_wedge(*mut Udc, u8);
    flush(*mut Udc, u8);
    set_self_powered(*mut Udc, c_int);
    pullup(*mut Udc, c_int);
    wakeup(*mut Udc);
    remove(*mut Udc);
}

const fn call_name(name: &'static str) -> &'static std::ffi::CStr {
    match std::ffi::CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name that ends with 0"),
    }
}
