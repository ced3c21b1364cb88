//! The time that a thread has had of a processor: what other programs take is not in it.

use std::time::Duration;

use crate::error::BenchError;

/// What [`thread_time`] is.
#[cfg(unix)]
pub(crate) const THREAD_TIME: &str = "CPU time of the thread";
/// What [`thread_time`] is.
#[cfg(not(unix))]
pub(crate) const THREAD_TIME: &str = "wall time";

/// Time since some moment in the past.
#[cfg(unix)]
pub(crate) fn thread_time() -> Result<Duration, BenchError> {
    use nix::time::{ClockId, clock_gettime};
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    now.map(Duration::from).map_err(|error| BenchError::Clock(error.to_string()))
}

/// Time since some moment in the past.
#[cfg(not(unix))]
pub(crate) fn thread_time() -> Result<Duration, BenchError> {
    use std::sync::OnceLock;
    use std::time::Instant;
    static FIRST: OnceLock<Instant> = OnceLock::new();
    Ok(FIRST.get_or_init(Instant::now).elapsed())
}
