//! A page source that fails when it is told to, and notices who would sleep.

use std::collections::BTreeMap;
use std::sync::Arc;

use bus::DmaAddr;
use parking_lot::Mutex;

use crate::page::{PageAllocator, PageError, PageSource, Pages};
use crate::pool::Flags;

/// A source between a pool and the pages of its machine.
pub(super) struct Probe {
    pages: Arc<PageAllocator>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Pages until the source fails; `None`: it does not.
    left: Option<u32>,
    /// The caller of the pool must not sleep.
    atomic: bool,
    slept: Option<u64>,
    failed: bool,
    /// Runs that are out: DMA address to length.
    out: BTreeMap<u64, u64>,
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
        Arc::new(Self { pages, state: Mutex::default() })
    }

    /// From now on the source fails after `left` runs.
    pub(super) fn fail_after(&self, left: u32) {
        self.state.lock().left = Some(left);
    }

    /// From now on the source gives what there is.
    pub(super) fn work(&self) {
        self.state.lock().left = None;
    }

    /// A pool is called with these flags.
    pub(super) fn begin(&self, flags: Flags) {
        let mut state = self.state.lock();
        (state.atomic, state.slept, state.failed) = (!flags.may_sleep, None, false);
    }

    /// What happened since.
    pub(super) fn seen(&self) -> Seen {
        let state = self.state.lock();
        Seen { slept: state.slept, failed: state.failed }
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
}
