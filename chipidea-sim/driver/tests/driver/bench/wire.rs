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

/// The register window with a tap.
pub(crate) struct Tap {
    inner: Arc<dyn Mmio>,
    accesses: AtomicU64,
    visit: Mutex<Option<(u64, Visitor)>>,
    writes: Mutex<Vec<(u64, u32)>>,
    swallow: Mutex<Option<u64>>,
}

impl Tap {
    pub(crate) fn new(inner: Arc<dyn Mmio>) -> Self {
        Self {
            inner,
            accesses: AtomicU64::new(0),
            visit: Mutex::default(),
            writes: Mutex::default(),
            swallow: Mutex::default(),
        }
    }

    pub(crate) fn accesses(&self) -> u64 {
        self.accesses.load(Ordering::Relaxed)
    }

    /// Lets `visitor` in before the `after`-th access from now.
    pub(crate) fn visit(&self, after: u64, visitor: impl FnOnce() + Send + 'static) {
        *self.visit.lock() = Some((self.accesses() + after, Box::new(visitor)));
    }

    /// Lets nobody in any more. Returns whether somebody still waited.
    pub(crate) fn cancel(&self) -> bool {
        self.visit.lock().take().is_some()
    }

    /// Loses the next write to the register at `offset`.
    pub(crate) fn lose_write(&self, offset: u64) {
        *self.swallow.lock() = Some(offset);
    }

    /// Values written to the register at `offset`.
    pub(crate) fn written(&self, offset: u64) -> Vec<u32> {
        self.writes.lock().iter().filter(|&&(at, _)| at == offset).map(|&(_, value)| value).collect()
    }
}

impl Preempt for Tap {
    fn at(&self, _point: Point) {
        let now = self.accesses.fetch_add(1, Ordering::Relaxed);
        let visitor = self.visit.lock().take_if(|(due, _)| *due <= now);
        if let Some((_, visitor)) = visitor {
            visitor();
        }
    }
}

impl Mmio for Tap {
    fn read(&self, offset: u64, width: Width) -> u64 {
        self.at(Point::RegisterRead(offset));
        self.inner.read(offset, width)
    }

    fn write(&self, offset: u64, width: Width, value: u64) {
        self.at(Point::RegisterWrite(offset));
        if self.swallow.lock().take_if(|lost| *lost == offset).is_some() {
            return;
        }
        self.writes.lock().push((offset, value as u32));
        self.inner.write(offset, width, value);
    }
}
