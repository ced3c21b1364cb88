//! A trace in memory: every event as a line, with its header.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bus::{Event, Header, TraceSink};
use parking_lot::Mutex;

use crate::clock::Clock;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// Number, time, source.
    pub header: Header,
    /// What the event says.
    pub text: String,
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Header { sequence, at, source } = self.header;
        write!(f, "{sequence:6} {:4}.{:06} {source:<9} {}", at.as_secs(), at.subsec_micros(), self.text)
    }
}

/// A sink that keeps lines.
pub struct TraceLog {
    clock: Arc<Clock>,
    lines: Mutex<Vec<TraceLine>>,
}

impl TraceLog {
    pub(crate) fn new(clock: Arc<Clock>) -> Arc<Self> {
        Arc::new(Self { clock, lines: Mutex::default() })
    }

    /// Takes the lines out.
    #[must_use]
    pub fn take(&self) -> Vec<TraceLine> {
        std::mem::take(&mut *self.lines.lock())
    }
}

impl TraceSink for TraceLog {
    fn record(&self, source: &'static str, event: &dyn Event) {
        let at: Duration = self.clock.now();
        let mut lines = self.lines.lock();
        let header = Header { sequence: lines.len() as u64, at, source };
        lines.push(TraceLine { header, text: event.to_string() });
    }
}
