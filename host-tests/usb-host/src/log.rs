//! The kernel log as this host writes it.

use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;

/// Where log lines go.
pub trait Log: Send + Sync {
    /// One line without its end: `usb 5-1.3: new full-speed USB device number 92 using xhci_hcd`, written `time` after
    /// the host's machine started.
    fn line(&self, time: Duration, text: &str);
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Time since the host's machine started.
    pub time: Duration,
    /// The text, without its end.
    pub text: String,
}

impl fmt::Display for Line {
    /// As `dmesg` prints it: `[128788.310000] usb 5-1.3: …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:5}.{:06}] {}", self.time.as_secs(), self.time.subsec_micros(), self.text)
    }
}

/// A log in memory.
#[derive(Debug, Default)]
pub struct MemoryLog(Mutex<Vec<Line>>);

impl MemoryLog {
    /// The lines so far.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        self.0.lock().clone()
    }

    /// The lines so far, without their times.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        self.0.lock().iter().map(|line| line.text.clone()).collect()
    }
}

impl Log for MemoryLog {
    fn line(&self, time: Duration, text: &str) {
        self.0.lock().push(Line { time, text: text.to_owned() });
    }
}

/// A log that keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLog;

impl Log for NoLog {
    fn line(&self, _: Duration, _: &str) {}
}
