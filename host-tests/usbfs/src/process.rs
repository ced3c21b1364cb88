//! This process, and what a child of it must not share with it.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// This process. A child of fork has the parent's memory, and one of vfork even shares it: what the parent opened is not
/// theirs, and the parent's locks are not to be touched.
pub(crate) fn this_process() -> libc::pid_t {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::getpid() }
}

/// A static of which every process has its own. A forked child begins with a new one: the parent's may be locked by a
/// thread that the child does not have.
pub(crate) struct PerProcess<T: 'static> {
    /// Null, or a leaked box.
    current: AtomicPtr<(libc::pid_t, T)>,
    make: fn() -> T,
}

impl<T: Send + Sync> PerProcess<T> {
    pub(crate) const fn new(make: fn() -> T) -> Self {
        Self { current: AtomicPtr::new(ptr::null_mut()), make }
    }

    /// This process's own, if it has one. A child of vfork has none, and leaves its parent's alone.
    pub(crate) fn find(&self) -> Option<&'static T> {
        // SAFETY: null or a leaked box.
        let current = unsafe { self.current.load(Ordering::Acquire).as_ref() };
        current.filter(|(process, _)| *process == this_process()).map(|(_, own)| own)
    }

    /// This process's own.
    pub(crate) fn get(&self) -> &'static T {
        loop {
            if let Some(own) = self.find() {
                return own;
            }
            let old = self.current.load(Ordering::Acquire);
            // SAFETY: as above.
            if unsafe { old.as_ref() }.is_some_and(|(process, _)| *process == this_process()) {
                continue;
            }
            let new = Box::into_raw(Box::new((this_process(), (self.make)())));
            if self.current.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: made above, and nobody else saw it.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }
}
