//! Virtual time of a bench.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time since the bench was switched on, on tokio's (paused) clock.
///
/// A trace may be written from places that have no runtime; they get the time of the last look.
#[derive(Debug, Default)]
pub(crate) struct Clock(Mutex<(Option<Instant>, Duration)>);

impl Clock {
    /// Starts the clock. To be called inside the runtime.
    pub(crate) fn start(&self) {
        *self.0.lock() = (Some(Instant::now()), Duration::ZERO);
    }

    /// Stops it: it shows its last time from now on.
    pub(crate) fn stop(&self) {
        let mut clock = self.0.lock();
        if let Some(start) = clock.0.take() {
            clock.1 = start.elapsed();
        }
    }

    /// Time since the start; zero before it.
    #[must_use]
    pub(crate) fn now(&self) -> Duration {
        let clock = self.0.lock();
        clock.0.map_or(clock.1, |start| start.elapsed())
    }
}
