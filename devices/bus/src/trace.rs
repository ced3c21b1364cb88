//! Traces. The header is common; what an event says belongs to the crate that emits it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Something worth a line in a trace. `Any` lets a sink that knows a domain (a packet writer) take the event itself.
pub trait Event: fmt::Display + Any + Send {}

/// What stands before every event. The sink fills it in: it has the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the event in its trace, from 0.
    pub sequence: u64,
    /// Time since the trace began.
    pub at: Duration,
    /// Who emitted it, such as `chipidea`.
    pub source: &'static str,
}

/// Where events go.
pub trait TraceSink: Send + Sync {
    /// Takes one event of `source`. Called with the source's lock held: it must not call back.
    fn record(&self, source: &'static str, event: &dyn Event);
}

/// A source's connection to a sink. Without a sink no event is built.
#[derive(Clone, Default)]
pub struct Trace(Option<Arc<dyn TraceSink>>);

impl Trace {
    /// A trace that is off.
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// A trace into `sink`.
    #[must_use]
    pub fn to(sink: Arc<dyn TraceSink>) -> Self {
        Self(Some(sink))
    }

    /// Whether events are taken.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Emits what `build` makes, if the trace is on.
    pub fn emit<E: Event>(&self, source: &'static str, build: impl FnOnce() -> E) {
        if let Some(sink) = &self.0 {
            sink.record(source, &build());
        }
    }

    /// Hands on an event that another sink was given.
    pub fn pass(&self, source: &'static str, event: &dyn Event) {
        if let Some(sink) = &self.0 {
            sink.record(source, event);
        }
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_on() { "Trace(on)" } else { "Trace(off)" })
    }
}
