//! A trace in memory: every event as a line, with its header.

use std::sync::Arc;
use std::time::Duration;

use bus::{Event, Header, TraceSink};
use parking_lot::Mutex;

use pool::Ledger;

use crate::clock::Clock;
use crate::symbols::symbolic;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// Number, time, source.
    pub header: Header,
    /// What the event says.
    pub text: String,
    /// The same with names in place of addresses.
    pub symbolic: String,
}

/// A sink that keeps lines.
pub struct TraceLog {
    clock: Arc<Clock>,
    ledger: Arc<Ledger>,
    lines: Mutex<Vec<TraceLine>>,
}

impl TraceLog {
    pub(crate) fn new(clock: Arc<Clock>, ledger: Arc<Ledger>) -> Arc<Self> {
        Arc::new(Self { clock, ledger, lines: Mutex::default() })
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
        let symbolic = symbolic(event, &self.ledger);
        let mut lines = self.lines.lock();
        let header = Header { sequence: lines.len() as u64, at, source };
        lines.push(TraceLine { header, text: event.to_string(), symbolic });
    }
}
