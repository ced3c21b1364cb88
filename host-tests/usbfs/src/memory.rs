//! Memory that others ask for: what cannot be had is an error, not the end of the program.

use std::alloc::{Layout, alloc_zeroed};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Zeroes, which take no memory until they are written; `None` if there is none.
pub(crate) fn zeroed(length: usize) -> Option<Vec<u8>> {
    if length == 0 {
        return Some(Vec::new());
    }
    let layout = Layout::array::<u8>(length).ok()?;
    // SAFETY: the layout is not empty.
    let bytes = unsafe { alloc_zeroed(layout) };
    if bytes.is_null() {
        return None;
    }
    // SAFETY: a vector's allocator and layout, and as many bytes, all of them zero.
    Some(unsafe { Vec::from_raw_parts(bytes, length, length) })
}

/// A limit that several share.
pub(crate) struct Limit {
    used: AtomicUsize,
    most: usize,
}

impl Limit {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), most })
    }

    /// Takes a part, until the charge is dropped.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        let take = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.most);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some(Charge { limit: self.clone(), bytes })
    }
}

/// A part of a limit.
pub(crate) struct Charge {
    limit: Arc<Limit>,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.limit.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{Limit, zeroed};

    #[test]
    fn what_cannot_be_had_is_none() {
        assert_eq!(zeroed(3), Some(vec![0; 3]));
        assert_eq!(zeroed(usize::MAX >> 1), None);
        assert_eq!(zeroed(usize::MAX), None);
    }

    #[test]
    fn a_charge_is_given_back() {
        let limit = Limit::new(10);
        let charge = limit.charge(6).unwrap();
        assert!(limit.charge(5).is_none() && limit.charge(usize::MAX).is_none());
        drop(charge);
        assert!(limit.charge(10).is_some());
    }
}
