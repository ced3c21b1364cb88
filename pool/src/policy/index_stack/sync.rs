//! The primitives that [`core`](super::core) is made of, by one name each: a model checker's take their place.

pub(super) use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// Unlocked by a plain store, which is half the price of a lock that also wakes sleepers.
pub(super) type Lock<T> = spin::mutex::SpinMutex<T>;
