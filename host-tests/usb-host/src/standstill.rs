//! Virtual time that stands still: a device that makes work for ever would keep every timeout from coming.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Turns at one instant, many more than any transfer needs, after which time is made to move.
const MOST_TURNS: u32 = 20_000;

/// Counts turns at one instant. On the real clock there are no two.
pub(crate) struct Standstill {
    instant: Instant,
    turns: u32,
    pause: Duration,
}

impl Standstill {
    pub(crate) fn new() -> Self {
        Self { instant: Instant::now(), turns: 0, pause: Duration::from_millis(1) }
    }

    /// One more turn; lets time pass, each time twice as much, when there were too many.
    pub(crate) async fn turn(&mut self) {
        let now = Instant::now();
        if now != self.instant {
            (self.instant, self.turns) = (now, 0);
        }
        self.turns += 1;
        if self.turns == MOST_TURNS {
            sleep(self.pause).await;
            self.pause = self.pause.saturating_mul(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_timeout_comes_in_spite_of_work_that_never_ends() {
        let work = async {
            let mut standstill = Standstill::new();
            loop {
                standstill.turn().await;
            }
        };
        let end: Result<(), _> = tokio::time::timeout(Duration::from_secs(5), work).await;
        assert!(end.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn little_work_takes_no_time() {
        let begin = Instant::now();
        let mut standstill = Standstill::new();
        for _ in 1..MOST_TURNS {
            standstill.turn().await;
        }
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }
}
