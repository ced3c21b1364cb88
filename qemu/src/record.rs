//! What both sides said, in order.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::{Event, Trace, TraceSink};
use parking_lot::Mutex;

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The kernel on the board, by its console.
    Board,
    /// The host's log.
    Host,
    /// The controller's trace.
    Device,
    /// QEMU, and the connection to it.
    Qemu,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Time since the board was switched on.
    pub at: Duration,
    /// Who said it.
    pub side: Side,
    /// The line without its end.
    pub text: String,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Board => "board ",
            Side::Host => "host  ",
            Side::Device => "device",
            Side::Qemu => "qemu  ",
        };
        write!(f, "{:4}.{:03} {side} | {}", self.at.as_secs(), self.at.subsec_millis(), self.text)
    }
}

/// Takes each entry as it comes.
type Listener = Box<dyn Fn(&Entry) + Send + Sync>;

/// Everything that was said since the board was switched on. Clones are the same record.
#[derive(Clone)]
pub struct Record(Arc<Shared>);

struct Shared {
    began: Instant,
    entries: Mutex<Vec<Entry>>,
    listener: Listener,
}

impl Record {
    /// An empty record that begins now; `listener` is called with each entry, in order.
    #[must_use]
    pub fn new(listener: impl Fn(&Entry) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared { began: Instant::now(), entries: Mutex::default(), listener: Box::new(listener) }))
    }

    /// A trace whose events are lines of the record.
    #[must_use]
    pub fn sink(&self) -> Trace {
        Trace::to(Arc::new(self.clone()))
    }

    /// Adds a line.
    pub(crate) fn add(&self, side: Side, text: impl Into<String>) {
        let mut entries = self.0.entries.lock();
        let entry = Entry { at: self.0.began.elapsed(), side, text: text.into() };
        (self.0.listener)(&entry);
        entries.push(entry);
    }

    /// All lines so far.
    #[must_use]
    pub fn all(&self) -> Vec<Entry> {
        self.0.entries.lock().clone()
    }

    /// The lines of one side so far.
    #[must_use]
    pub fn of(&self, side: Side) -> Vec<Entry> {
        self.0.entries.lock().iter().filter(|entry| entry.side == side).cloned().collect()
    }

    /// The last line of one side.
    #[must_use]
    pub fn last(&self, side: Side) -> Option<String> {
        self.0.entries.lock().iter().rev().find(|entry| entry.side == side).map(|entry| entry.text.clone())
    }
}

impl TraceSink for Record {
    fn record(&self, _source: &'static str, event: &dyn Event) {
        self.add(Side::Device, event.to_string());
    }
}
