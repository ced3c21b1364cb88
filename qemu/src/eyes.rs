//! What the controller does, seen from outside, with the time of each thing.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::{Access, AccessKind, DmaAddr, Event, LayoutContract, Trace, TraceSink, Watch};
use chipidea_sim::RegisterEvent;
use parking_lot::Mutex;

/// Accesses that are kept; of a board that moves many data the first ones.
const MOST: usize = 1 << 20;

/// Keeps the accesses of the controller to memory, and when the driver's `registers` file was read. Hands all on.
pub(crate) struct Eyes {
    began: Instant,
    trace: Trace,
    watch: Arc<dyn Watch>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    accesses: Vec<(Duration, Access)>,
    dropped: usize,
    /// The last register access, if it was a read of USBCMD.
    command_read: Option<Duration>,
    reads: Vec<FileRead>,
}

/// When two registers were read that nobody reads one behind the other but the file `registers` of Linux's ci_hdrc
/// (drivers/usb/chipidea/debug.c, `ci_registers_show`). Of the host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileRead {
    /// USBCMD.
    pub(crate) first: Duration,
    /// PORTSC.
    pub(crate) then: Duration,
}

impl Eyes {
    /// Hands events on to `trace` and what a watch is told to `watch`.
    pub(crate) fn new(trace: Trace, watch: Arc<dyn Watch>) -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), trace, watch, seen: Mutex::default() })
    }

    /// The time, of the clock that everything here has.
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Reads of the file `registers` since then.
    pub(crate) fn file_reads_since(&self, since: Duration) -> Vec<FileRead> {
        self.seen.lock().reads.iter().filter(|read| read.first >= since).copied().collect()
    }

    /// Accesses to memory so far, in order, and how many came when there was no more room.
    pub(crate) fn accesses(&self) -> (Vec<(Duration, Access)>, usize) {
        let seen = self.seen.lock();
        (seen.accesses.clone(), seen.dropped)
    }

    fn keep(&self, access: &Access) {
        let now = self.now();
        let mut seen = self.seen.lock();
        if seen.accesses.len() < MOST {
            seen.accesses.push((now, *access));
        } else {
            seen.dropped += 1;
        }
    }

    fn register(&self, event: &RegisterEvent) {
        let now = self.now();
        let mut seen = self.seen.lock();
        let command_read = seen.command_read.take();
        match (event.access, event.name, command_read) {
            (AccessKind::Read, Some("USBCMD"), _) => seen.command_read = Some(now),
            (AccessKind::Read, Some("PORTSC"), Some(first)) => seen.reads.push(FileRead { first, then: now }),
            _ => {}
        }
    }
}

impl TraceSink for Eyes {
    fn record(&self, source: &'static str, event: &dyn Event) {
        let any: &dyn Any = event;
        if let Some(event) = any.downcast_ref() {
            self.register(event);
        }
        self.trace.pass(source, event);
    }
}

impl Watch for Eyes {
    fn access(&self, access: &Access) {
        self.keep(access);
        self.watch.access(access);
    }

    fn write(&self, access: &Access, data: &[u8]) {
        self.keep(access);
        self.watch.write(access, data);
    }

    fn layout(&self, contract: &'static LayoutContract, written: DmaAddr, count: u32) {
        self.watch.layout(contract, written, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Watch for Nothing {
        fn access(&self, _access: &Access) {}
        fn layout(&self, _contract: &'static LayoutContract, _written: DmaAddr, _count: u32) {}
    }

    #[test]
    fn only_the_file_reads_the_port_behind_the_command() {
        let eyes = Eyes::new(Trace::off(), Arc::new(Nothing));
        let told = |name, access| {
            let event = RegisterEvent { name: Some(name), index: None, offset: 0, access, value: 0 };
            eyes.record("chipidea", &event);
        };
        use AccessKind::{Read, Write};
        for (name, access) in
            [("USBCMD", Read), ("USBCMD", Write), ("PORTSC", Read), ("USBCMD", Read), ("USBSTS", Read)]
        {
            told(name, access);
        }
        told("PORTSC", Read);
        assert_eq!(eyes.file_reads_since(Duration::ZERO), []);
        told("USBCMD", Read);
        told("PORTSC", Read);
        let reads = eyes.file_reads_since(Duration::ZERO);
        assert!(matches!(reads[..], [FileRead { first, then }] if first <= then), "{reads:?}");
        assert_eq!(eyes.file_reads_since(eyes.now()), []);
    }
}
