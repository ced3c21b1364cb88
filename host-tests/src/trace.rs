//! A trace in memory: every event as a line, with its header.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bus::{Event, Header, Trace, TraceSink};
use parking_lot::Mutex;
use pool::Ledger;
use usb_host::{Line, Log, MemoryLog, NoLog};

use crate::clock::Clock;
use crate::symbols::{actor, symbolic};

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// Number, time, source.
    pub header: Header,
    /// Who acted: `driver` on a register, `device` on memory, `wire` for a packet, `host` for a line of its log, `race` for a step of
    /// a schedule.
    pub actor: &'static str,
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
        lines.push(TraceLine { header, actor: actor(event), text: event.to_string(), symbolic });
    }
}

/// A line of the host's log, in its place among the other events.
pub(crate) struct HostLine(String);

impl Event for HostLine {}

impl fmt::Display for HostLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The host's log, which also goes into the trace, and to whoever else wants it.
pub(crate) struct HostLog {
    lines: MemoryLog,
    trace: Trace,
    also: Arc<dyn Log>,
}

impl HostLog {
    pub(crate) fn new(trace: Trace) -> Arc<Self> {
        Arc::new(Self { lines: MemoryLog::default(), trace, also: Arc::new(NoLog) })
    }

    pub(crate) fn telling(also: Arc<dyn Log>) -> Arc<Self> {
        Arc::new(Self { lines: MemoryLog::default(), trace: Trace::off(), also })
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        self.lines.lines()
    }
}

impl Log for HostLog {
    fn line(&self, time: Duration, text: &str) {
        self.lines.line(time, text);
        self.also.line(time, text);
        self.trace.emit("host", || HostLine(text.to_owned()));
    }
}
