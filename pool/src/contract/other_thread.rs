//! Another thread, for work beside a pool's caller. One for many pieces of work: to start one costs more than most of them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// A piece of work.
pub(super) type Work = Box<dyn FnOnce() + Send>;

/// How a piece of work ended: a panic in it is its caller's.
type Ended = Result<(), Box<dyn Any + Send>>;

/// A thread that does one piece of work after the other. It ends when this is dropped, and with what it does then.
pub(super) struct OtherThread {
    work: Sender<Work>,
    ended: Receiver<Ended>,
    /// What ended and was not asked for yet.
    last: Option<Ended>,
    busy: bool,
}

impl OtherThread {
    pub(super) fn start() -> Self {
        let (work, pieces) = channel::<Work>();
        let (tell, ended) = channel();
        thread::spawn(move || {
            for piece in pieces {
                if tell.send(catch_unwind(AssertUnwindSafe(piece))).is_err() {
                    return;
                }
            }
        });
        Self { work, ended, last: None, busy: false }
    }

    /// Has it do `work`, and waits for the end of it, but not longer than that. Returns whether it has ended.
    pub(super) fn run(&mut self, work: Work, patience: Duration) -> bool {
        // A thread that is gone tells of it at once: its end of the channel is dropped.
        self.busy = self.work.send(work).is_ok();
        match self.ended.recv_timeout(patience) {
            Ok(ended) => self.last = Some(ended),
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => {}
        }
        self.busy = false;
        true
    }

    /// Waits for what it does. Goes on with the panic if it panicked.
    pub(super) fn join(&mut self) {
        if std::mem::take(&mut self.busy) {
            self.last = self.ended.recv().ok();
        }
        if let Some(Err(panic)) = self.last.take() {
            resume_unwind(panic);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn it_does_one_piece_after_the_other_and_says_when_one_is_late() {
        let mut other = OtherThread::start();
        let count = Arc::new(AtomicU32::new(0));
        for done in 1..=3 {
            let counted = Arc::clone(&count);
            let counts = move || {
                counted.fetch_add(1, Ordering::Relaxed);
            };
            assert!(other.run(Box::new(counts), LONG));
            other.join();
            assert_eq!(count.load(Ordering::Relaxed), done);
        }
        let (go_on, wait) = channel::<()>();
        let counted = Arc::clone(&count);
        let late = move || {
            let _ = wait.recv();
            counted.fetch_add(1, Ordering::Relaxed);
        };
        assert!(!other.run(Box::new(late), Duration::from_millis(1)), "it waits for us");
        go_on.send(()).expect("it waits");
        other.join();
        assert_eq!(count.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn its_panic_is_its_callers() {
        let mut other = OtherThread::start();
        assert!(other.run(Box::new(|| panic!("on another thread")), LONG));
        let panic = catch_unwind(AssertUnwindSafe(|| other.join())).expect_err("a panic");
        assert_eq!(panic.downcast_ref(), Some(&"on another thread"));
        other.join();
        assert!(other.run(Box::new(|| ()), LONG), "it goes on");
    }
}
