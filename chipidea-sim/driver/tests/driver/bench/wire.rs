//! Between the driver and the model: every access counted, writes recorded, and somebody else let in at the n-th.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bus::{IrqLine, Mmio, Point, Preempt, Width};
use parking_lot::Mutex;

/// The interrupt line.
#[derive(Default)]
pub(crate) struct Line(AtomicBool);

impl Line {
    pub(crate) fn is_up(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl IrqLine for Line {
    fn set(&self, asserted: bool) {
        self.0.store(asserted, Ordering::Relaxed);
    }
}

type Visitor = Box<dyn FnOnce() + Send>;

/// When a visitor comes.
enum Due {
    Access(u64),
    Write(u64),
}

/// An access to a register: read, or written with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read(u64),
    Write(u64, u32),
}

/// The register window with a tap.
pub(crate) struct Tap {
    inner: Arc<dyn Mmio>,
    accesses: AtomicU64,
    visit: Mutex<Option<(Due, Visitor)>>,
    writes: Mutex<Vec<(u64, u32)>>,
    swallow: Mutex<Option<(u64, u32)>>,
    record: Mutex<Option<Vec<Access>>>,
}

impl Tap {
    pub(crate) fn new(inner: Arc<dyn Mmio>) -> Self {
        Self {
            inner,
            accesses: AtomicU64::new(0),
            visit: Mutex::default(),
            writes: Mutex::default(),
            swallow: Mutex::default(),
            record: Mutex::default(),
        }
    }

    /// The accesses of `act`.
    pub(crate) fn during(&self, act: impl FnOnce()) -> Vec<Access> {
        *self.record.lock() = Some(Vec::new());
        act();
        self.record.lock().take().expect("nobody else records")
    }

    fn note(&self, access: Access) {
        if let Some(record) = &mut *self.record.lock() {
            record.push(access);
        }
    }

    pub(crate) fn accesses(&self) -> u64 {
        self.accesses.load(Ordering::Relaxed)
    }

    /// Lets `visitor` in before the `after`-th access from now.
    pub(crate) fn visit(&self, after: u64, visitor: impl FnOnce() + Send + 'static) {
        *self.visit.lock() = Some((Due::Access(self.accesses() + after), Box::new(visitor)));
    }

    /// Lets `visitor` in before the next write to the register at `offset`.
    pub(crate) fn visit_write(&self, offset: u64, visitor: impl FnOnce() + Send + 'static) {
        *self.visit.lock() = Some((Due::Write(offset), Box::new(visitor)));
    }

    /// Lets nobody in any more. Returns whether somebody still waited.
    pub(crate) fn cancel(&self) -> bool {
        self.visit.lock().take().is_some()
    }

    /// Loses the next `count` writes to the register at `offset`.
    pub(crate) fn lose_writes(&self, offset: u64, count: u32) {
        *self.swallow.lock() = Some((offset, count));
    }

    /// Values written to the register at `offset`.
    pub(crate) fn written(&self, offset: u64) -> Vec<u32> {
        self.writes.lock().iter().filter(|&&(at, _)| at == offset).map(|&(_, value)| value).collect()
    }
}

impl Preempt for Tap {
    fn at(&self, point: Point) {
        let now = self.accesses.fetch_add(1, Ordering::Relaxed);
        let visitor = self.visit.lock().take_if(|(due, _)| match due {
            Due::Access(access) => *access <= now,
            Due::Write(offset) => point == Point::RegisterWrite(*offset),
        });
        if let Some((_, visitor)) = visitor {
            visitor();
        }
    }
}

impl Mmio for Tap {
    fn read(&self, offset: u64, width: Width) -> u64 {
        self.at(Point::RegisterRead(offset));
        self.note(Access::Read(offset));
        self.inner.read(offset, width)
    }

    fn write(&self, offset: u64, width: Width, value: u64) {
        self.at(Point::RegisterWrite(offset));
        self.note(Access::Write(offset, value as u32));
        if let Some((lost, count)) = &mut *self.swallow.lock()
            && *lost == offset
            && *count > 0
        {
            *count -= 1;
            return;
        }
        self.writes.lock().push((offset, value as u32));
        self.inner.write(offset, width, value);
    }
}
