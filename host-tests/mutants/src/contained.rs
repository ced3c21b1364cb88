//! Work that may panic or never end, and takes nothing else with it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It panicked, in these words.
    Panic(String),
    /// It did not end in time. Its thread is left behind.
    Hang(Duration),
    /// There is no thread to run it on.
    NoThread(String),
}

/// Runs `work` on a thread called `name`, for `limit` of wall time at most.
pub(crate) fn contained<T: Send + 'static>(
    name: &str,
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Lost> {
    let (sender, receiver) = channel();
    let body = move || {
        // Nobody listens any more if it took too long.
        let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
    };
    // The name is what a panic prints.
    thread::Builder::new().name(name.to_owned()).spawn(body).map_err(|error| Lost::NoThread(error.to_string()))?;
    match receiver.recv_timeout(limit) {
        Ok(result) => result.map_err(|panic| Lost::Panic(words(&*panic).to_owned())),
        Err(RecvTimeoutError::Timeout) => Err(Lost::Hang(limit)),
        Err(RecvTimeoutError::Disconnected) => Err(Lost::Panic("a panic without words".to_owned())),
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn a_result_comes_through() {
        assert_eq!(contained("right", LONG, || 7), Ok(7));
    }

    #[test]
    fn a_panic_is_told_in_its_words() {
        let panic = contained("wrong", LONG, || -> () { panic!("no block {}", 3) });
        assert_eq!(panic, Err(Lost::Panic("no block 3".to_owned())));
    }

    #[test]
    fn what_does_not_end_is_left_behind() {
        let limit = Duration::from_millis(10);
        assert_eq!(contained("endless", limit, thread::park), Err(Lost::Hang(limit)));
    }
}
