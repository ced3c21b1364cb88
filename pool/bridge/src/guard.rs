//! What comes back from a call that does not: signal handlers and clocks of shim/guard/guard.c, which is part of this
//! program.

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::OnceLock;

unsafe extern "C" {
    fn pp_guard_install() -> c_int;
    fn pp_guard_self() -> *mut c_void;
}

/// Installs the handlers, once.
pub(crate) fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<c_int> = OnceLock::new();
    // SAFETY: called once; handlers of others are kept and called for what is not ours.
    match *INSTALLED.get_or_init(|| unsafe { pp_guard_install() }) {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// The guard of this thread, which has a clock from now on.
pub(crate) fn of_this_thread() -> *mut c_void {
    // SAFETY: a thread-local variable of the program's, and a timer that ends with the thread.
    unsafe { pp_guard_self() }
}
