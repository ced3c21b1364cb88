//! A page source that fails when it is told to, and notices who would sleep.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bus::{CpuAddr, DmaAddr};
use parking_lot::Mutex;

use super::other_thread::{OtherThread, Work};
use crate::page::{PageAllocator, PageError, PageSource, Pages};
use crate::pool::Flags;

/// How long the source waits for another thread. One that waits for the pool's own lock goes on when the pool has its page.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long once a pool was seen to keep its lock.
const LOCKED_PATIENCE: Duration = Duration::from_millis(1);

/// A source between a pool and the pages of its machine.
pub(super) struct Probe {
    pages: Arc<PageAllocator>,
    state: Mutex<State>,
    other: Mutex<Option<OtherThread>>,
}

#[derive(Default)]
struct State {
    /// Pages until the source fails; `None`: it does not.
    left: Option<u32>,
    /// The same of records.
    records_left: Option<u32>,
    /// Whether a record was refused.
    record_refused: bool,
    /// The caller of the pool must not sleep.
    atomic: bool,
    slept: Option<u64>,
    failed: bool,
    /// Runs that are out: DMA address to length.
    out: BTreeMap<u64, u64>,
    /// Requests to come before it, and what is to be done then.
    meanwhile: Option<(u32, Work)>,
    keeps_lock: bool,
}

/// What happened at the source during one call of a pool.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    /// Length of a run that was asked for with leave to sleep, when there was none.
    pub(super) slept: Option<u64>,
    /// The source gave nothing.
    pub(super) failed: bool,
}

impl Probe {
    pub(super) fn new(pages: Arc<PageAllocator>) -> Arc<Self> {
        Arc::new(Self { pages, state: Mutex::default(), other: Mutex::default() })
    }

    /// From now on the source fails after `left` runs.
    pub(super) fn fail_after(&self, left: u32) {
        self.state.lock().left = Some(left);
    }

    /// From now on the source gives what there is.
    pub(super) fn work(&self) {
        let mut state = self.state.lock();
        (state.left, state.records_left) = (None, None);
    }

    /// From now on the `left`-th record is refused, and no other.
    pub(super) fn refuse_record(&self, left: u32) {
        let mut state = self.state.lock();
        (state.records_left, state.record_refused) = (Some(left), false);
    }

    /// Whether that came to pass.
    pub(super) fn has_refused_record(&self) -> bool {
        self.state.lock().record_refused
    }

    /// A pool is called with these flags. Returns how many runs are out.
    pub(super) fn begin(&self, flags: Flags) -> usize {
        let mut state = self.state.lock();
        (state.atomic, state.slept, state.failed) = (!flags.may_sleep, None, false);
        state.out.len()
    }

    /// What happened since.
    pub(super) fn seen(&self) -> Seen {
        let state = self.state.lock();
        Seen { slept: state.slept, failed: state.failed }
    }

    /// Has another thread do `work` while a page is fetched, `after` others.
    pub(super) fn meanwhile(&self, after: u32, work: impl FnOnce() + Send + 'static) {
        self.state.lock().meanwhile = Some((after, Box::new(work)));
    }

    /// Whether the other thread had its turn.
    pub(super) fn was_interrupted(&self) -> bool {
        self.state.lock().meanwhile.is_none()
    }

    /// Waits for the other thread, if it had its turn; otherwise its work is dropped. A panic there is the pool's own, on
    /// another thread than its caller's, and goes on here.
    pub(super) fn join(&self) {
        let unused = self.state.lock().meanwhile.take();
        drop(unused);
        if let Some(other) = &mut *self.other.lock() {
            other.join();
        }
    }

    /// Lets the other thread work, if there is anything to do.
    fn interrupted(&self) {
        let (work, patience) = {
            let mut state = self.state.lock();
            let patience = if state.keeps_lock { LOCKED_PATIENCE } else { PATIENCE };
            match &mut state.meanwhile {
                Some((after, _)) if *after > 0 => {
                    *after -= 1;
                    return;
                }
                meanwhile => (meanwhile.take(), patience),
            }
        };
        let Some((_, work)) = work else { return };
        let ended = self.other.lock().get_or_insert_with(OtherThread::start).run(work, patience);
        self.state.lock().keeps_lock |= !ended;
    }

    /// DMA addresses of runs that are out.
    pub(super) fn outstanding(&self) -> BTreeSet<u64> {
        self.state.lock().out.keys().copied().collect()
    }

    /// Takes back every run but these, of pools that are used no more.
    pub(super) fn take_back_all_but(&self, kept: &BTreeSet<u64>) {
        let mut state = self.state.lock();
        state.out.retain(|&dma, &mut len| {
            let stays = kept.contains(&dma);
            if !stays {
                // The allocator knows a run by its device's address.
                self.pages.free(Pages { cpu: CpuAddr(0), dma: DmaAddr(dma), len });
            }
            stays
        });
    }

    /// Runs that are out.
    pub(super) fn out(&self) -> usize {
        self.state.lock().out.len()
    }

    /// Pages that can be had.
    pub(super) fn free_pages(&self) -> usize {
        self.pages.free_pages()
    }

    /// Runs that were given back wrongly.
    pub(super) fn wrong_frees(&self) -> u64 {
        self.pages.wrong_frees()
    }

    /// Whether an address lies in a run that is out.
    pub(super) fn is_out(&self, addr: DmaAddr) -> bool {
        let state = self.state.lock();
        state.out.range(..=addr.0).next_back().is_some_and(|(&base, &len)| addr.0 - base < len)
    }
}

impl Probe {
    fn alloc_from(
        &self,
        source: impl FnOnce(&PageAllocator) -> Result<Pages, PageError>,
        len: u64,
        flags: Flags,
    ) -> Result<Pages, PageError> {
        self.interrupted();
        let mut state = self.state.lock();
        if state.atomic && flags.may_sleep {
            state.slept = Some(len);
        }
        if state.left == Some(0) {
            state.failed = true;
            return Err(PageError::Injected);
        }
        let pages = source(&self.pages).inspect_err(|_| state.failed = true)?;
        if let Some(left) = &mut state.left {
            *left -= 1;
        }
        state.out.insert(pages.dma.0, pages.len);
        Ok(pages)
    }
}

impl PageSource for Probe {
    fn page_size(&self) -> u64 {
        self.pages.page_size()
    }

    fn alloc(&self, len: u64, flags: Flags) -> Result<Pages, PageError> {
        self.alloc_from(|pages| pages.alloc(len, flags), len, flags)
    }

    fn alloc_highest(&self, len: u64, flags: Flags) -> Result<Pages, PageError> {
        self.alloc_from(|pages| pages.alloc_highest(len, flags), len, flags)
    }

    fn free(&self, pages: Pages) {
        self.state.lock().out.remove(&pages.dma.0);
        self.pages.free(pages);
    }

    fn has_record(&self) -> bool {
        let mut state = self.state.lock();
        match &mut state.records_left {
            Some(0) => {
                (state.records_left, state.failed, state.record_refused) = (None, true, true);
                false
            }
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }
}
