//! The time that a thread has had of a processor: what other programs take is not in it.

use std::time::Duration;

/// What [`thread_time`] is.
#[cfg(unix)]
pub(crate) const THREAD_TIME: &str = "CPU time of the thread";
/// What [`thread_time`] is.
#[cfg(not(unix))]
pub(crate) const THREAD_TIME: &str = "wall time";

/// Time since some moment in the past.
#[cfg(unix)]
pub(crate) fn thread_time() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let now = clock_gettime(ClockId::ThreadCPUTime);
    // The time of a thread is never negative, and nanoseconds are below a second.
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Time since some moment in the past.
#[cfg(not(unix))]
pub(crate) fn thread_time() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}
