//! The C functions that this crate defines in libc's place. Each looks whether it is about the bus, and if not, goes
//! straight on to libc.

mod descriptors;
mod paths;
mod realpath;
mod sockets;
mod stat;
mod udev;

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::c_int;

use crate::error::Errno;

/// The function of the same name in the next library: libc's or libudev's.
pub(crate) struct Next<F> {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
    function: PhantomData<F>,
}

impl<F: Copy> Next<F> {
    /// # Safety
    /// `F` is the type of the C function `name`.
    pub(crate) const unsafe fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(ptr::null_mut()), function: PhantomData }
    }

    pub(crate) fn get(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let mut address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            // SAFETY: a terminated name; RTLD_NEXT is where this library's own definitions are passed over.
            address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            if address.is_null() {
                address = in_libudev(self.name);
            }
            self.address.store(address, Ordering::Relaxed);
        }
        if address.is_null() {
            return None;
        }
        // SAFETY: F is a function pointer of the same size and, as `new` was promised, of this function's type.
        Some(unsafe { std::mem::transmute_copy(&address) })
    }
}

/// Looks into a libudev that came with a plug-in (`dlopen` without `RTLD_GLOBAL`): RTLD_NEXT does not reach that far.
fn in_libudev(name: &CStr) -> *mut c_void {
    // SAFETY: a terminated name. Nothing is loaded and run by it; the handle only counts one more user, so that what is
    // found in the library stays where it is.
    let library = unsafe { libc::dlopen(c"libudev.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: an open library and a terminated name.
    unsafe { libc::dlsym(library, name.as_ptr()) }
}

/// Calls libc's function of the name, with the given types.
macro_rules! next {
    ($name:ident($($arg:expr => $type:ty),*) -> $result:ty, else $missing:expr) => {{
        const NAME: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => c"",
        };
        type Function = unsafe extern "C" fn($($type),*) -> $result;
        // SAFETY: the type stands beside the name, as its header declares it.
        static NEXT: $crate::takeover::Next<Function> = unsafe { $crate::takeover::Next::new(NAME) };
        match NEXT.get() {
            Some(function) => function($($arg),*),
            None => $missing,
        }
    }};
}
use next;

/// Leaves an error as a C function does.
fn fail(error: Errno) -> c_int {
    // SAFETY: the calling thread's own errno.
    unsafe { *libc::__errno_location() = error.0 };
    -1
}

/// Runs what libc's function would not do, without the thread being cancelled in it (pthread_cancel(3)): ioctl(2) is no
/// cancellation point, and those that are, as open(2), are ended by it where they call libc's. It leaves errno alone.
fn uncancelled<R>(run: impl FnOnce() -> R) -> R {
    /// The thread's state and errno, to be put back.
    struct Before(c_int, c_int);
    impl Drop for Before {
        fn drop(&mut self) {
            // SAFETY: the state that the first call gave; the calling thread's own errno.
            unsafe {
                pthread_setcancelstate(self.0, ptr::null_mut());
                *libc::__errno_location() = self.1;
            }
        }
    }
    unsafe extern "C" {
        fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    }
    const DISABLE: c_int = 1;
    let mut state = 0;
    // SAFETY: room for the old state; the calling thread's own errno.
    let errno = unsafe {
        pthread_setcancelstate(DISABLE, &raw mut state);
        *libc::__errno_location()
    };
    let _before = Before(state, errno);
    run()
}

/// Makes sure that the linker takes the definitions into an executable that never names them.
pub(crate) fn keep() {
    for definitions in [descriptors::KEEP, paths::KEEP, realpath::KEEP, sockets::KEEP, stat::KEEP, udev::KEEP] {
        std::hint::black_box(definitions);
    }
}

/// Addresses of definitions, to be kept.
#[derive(Clone, Copy)]
struct Definition(#[expect(dead_code, reason = "only its being there matters to the linker")] *const c_void);

// SAFETY: an address of code, never read through.
unsafe impl Sync for Definition {}
