//! Where pools get their pages (Linux: `dma_alloc_coherent`).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bus::{CpuAddr, DmaAddr};
use parking_lot::Mutex;
use thiserror::Error;

use crate::free_pages::FreePages;
use crate::memory::Memory;
use crate::pool::Flags;

/// A run of pages, as its source gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pages {
    /// The processor's address.
    pub cpu: CpuAddr,
    /// The devices' address.
    pub dma: DmaAddr,
    /// Length in bytes, a multiple of the page size.
    pub len: u64,
}

/// Why there is no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PageError {
    /// No run of free pages of this length that the device can reach.
    #[error("memory exhausted: no {len} free bytes in one run below {mask:#x}")]
    Exhausted {
        /// Length in bytes.
        len: u64,
        /// The device's DMA mask.
        mask: u64,
    },
    /// Memory lies only where the device does not reach.
    #[error("DMA mask {mask:#x}: no memory below it")]
    Mask {
        /// The device's DMA mask.
        mask: u64,
    },
    /// An injected failure.
    #[error("the page source was told to fail")]
    Injected,
}

/// A source of pages. Pages are zeroed.
pub trait PageSource: Send + Sync {
    /// Page size in bytes: 4, 16 or 64 KiB.
    fn page_size(&self) -> u64;

    /// A run of at least `len` bytes, aligned for devices to the smallest power of two of pages that holds it
    /// (`dma_alloc_coherent`, Documentation/core-api/dma-api-howto.rst).
    ///
    /// # Errors
    /// [`PageError`]; without [`Flags::may_sleep`] it may come sooner.
    fn alloc(&self, len: u64, flags: Flags) -> Result<Pages, PageError>;

    /// The same at the highest addresses that the device reaches, from a source that can choose.
    ///
    /// # Errors
    /// As [`PageSource::alloc`].
    fn alloc_highest(&self, len: u64, flags: Flags) -> Result<Pages, PageError> {
        self.alloc(len, flags)
    }

    /// Takes a run back, whole.
    fn free(&self, pages: Pages);

    /// Whether there is kernel memory for a record of the pool's own (Linux: `kmalloc`). A pool of Rust does not ask.
    fn has_record(&self) -> bool {
        true
    }
}

/// The smallest page in bytes: the ledger's own grid, and that of spans.
const SMALLEST_PAGE: u64 = 4096;

/// Which free page comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum PageOrder {
    /// The lowest.
    #[default]
    Forward,
    /// The highest.
    Backward,
    /// Any, by this seed; never the neighbour of the page before while others are free.
    Scattered(u64),
}

/// Why a word names no order of pages.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{}` is no order of pages: it is forward, backward, scattered or scattered:SEED with a seed from 0 to {max}", .0.escape_debug(), max = u64::MAX)]
pub struct PageOrderError(String);

impl FromStr for PageOrder {
    type Err = PageOrderError;

    /// `forward`, `backward`, `scattered:SEED`; `scattered` alone has seed 0.
    fn from_str(text: &str) -> Result<Self, PageOrderError> {
        let wrong = || PageOrderError(text.to_owned());
        match text.split_once(':') {
            None if text == "forward" => Ok(Self::Forward),
            None if text == "backward" => Ok(Self::Backward),
            None if text == "scattered" => Ok(Self::Scattered(0)),
            Some(("scattered", seed)) if seed.bytes().all(|byte| byte.is_ascii_digit()) => {
                seed.parse().map(Self::Scattered).map_err(|_| wrong())
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for PageOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forward => f.write_str("forward"),
            Self::Backward => f.write_str("backward"),
            Self::Scattered(seed) => write!(f, "scattered by seed {seed}"),
        }
    }
}

/// A page source over a [`Memory`].
pub struct PageAllocator {
    memory: Arc<Memory>,
    page_size: u64,
    mask: u64,
    order: PageOrder,
    /// Whether there is any page below the mask, free or not.
    reachable: bool,
    state: Mutex<State>,
}

struct State {
    /// Free pages below the mask, by their DMA addresses.
    free: FreePages,
    /// Runs in use: DMA address to length.
    used: BTreeMap<u64, u64>,
    wrong_frees: u64,
    random: u64,
    last: u64,
}

impl PageAllocator {
    /// A source of pages of `page_size` bytes, whose every byte is at or below `mask` for devices.
    ///
    /// A page size that is no power of two, or below 4096, is taken as the next larger that is right;
    /// [`PageSource::page_size`] tells it.
    #[must_use]
    pub fn new(memory: Arc<Memory>, page_size: u64, mask: u64, order: PageOrder) -> Arc<Self> {
        // No next one: the largest there is, of which no memory has a page.
        let page_size = page_size.max(SMALLEST_PAGE).checked_next_power_of_two().unwrap_or(1 << 63);
        let free = FreePages::new(memory.spans(), page_size, mask);
        let random = if let PageOrder::Scattered(seed) = order { seed } else { 0 };
        let reachable = free.len() > 0;
        let state = State { free, used: BTreeMap::new(), wrong_frees: 0, random, last: u64::MAX };
        Arc::new(Self { memory, page_size, mask, order, reachable, state: Mutex::new(state) })
    }

    /// Pages that are free.
    #[must_use]
    pub fn free_pages(&self) -> usize {
        self.state.lock().free.len()
    }

    /// Runs that were given back without being in use, or in part. They are not taken.
    #[must_use]
    pub fn wrong_frees(&self) -> u64 {
        self.state.lock().wrong_frees
    }
}

impl State {
    /// First page of a run of `count` free pages.
    fn find(&mut self, count: u64, page_size: u64, order: PageOrder, memory: &Memory) -> Option<u64> {
        let run = count.checked_mul(page_size).and_then(u64::checked_next_power_of_two)?;
        // Spans that touch for devices need not touch for the processor.
        let adjacent = |page: u64, len: u64| {
            let cpu = memory.cpu(DmaAddr(page));
            cpu.is_some_and(|cpu| memory.run(cpu, len).is_some())
        };
        let fits = |&page: &u64| {
            page & (run - 1) == 0
                && (1..count).all(|i| page.checked_add(i * page_size).is_some_and(|next| self.free.contains(next)))
                && (count == 1 || adjacent(page, count * page_size))
        };
        match order {
            PageOrder::Forward => self.free.rising().find(fits),
            PageOrder::Backward => self.free.falling().find(fits),
            PageOrder::Scattered(_) => {
                let all: Vec<u64> = self.free.rising().filter(fits).collect();
                let apart: Vec<u64> =
                    all.iter().copied().filter(|page| page.abs_diff(self.last) > count * page_size).collect();
                let choice = if apart.is_empty() { all } else { apart };
                let index = split_mix(&mut self.random) % (choice.len().max(1) as u64);
                choice.get(index as usize).copied()
            }
        }
    }
}

/// The next number of a SplitMix64 sequence: small, fixed, good enough to scatter with.
pub(crate) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl PageAllocator {
    fn alloc_by(&self, order: PageOrder, len: u64) -> Result<Pages, PageError> {
        let len = len.max(1).checked_next_multiple_of(self.page_size);
        let exhausted = PageError::Exhausted { len: len.unwrap_or(u64::MAX), mask: self.mask };
        let len = len.ok_or(exhausted)?;
        let mut state = self.state.lock();
        let count = len / self.page_size;
        let Some(first) = state.find(count, self.page_size, order, &self.memory) else {
            return Err(if self.reachable { exhausted } else { PageError::Mask { mask: self.mask } });
        };
        for i in 0..count {
            state.free.remove(first + i * self.page_size);
        }
        state.used.insert(first, len);
        state.last = first;
        drop(state);
        // Every free page lies in a span of the memory.
        let dma = DmaAddr(first);
        let cpu = self.memory.cpu(dma).ok_or(exhausted)?;
        self.memory.fill(cpu, len, 0).map_err(|_| exhausted)?;
        Ok(Pages { cpu, dma, len })
    }
}

impl PageSource for PageAllocator {
    fn page_size(&self) -> u64 {
        self.page_size
    }

    fn alloc(&self, len: u64, _flags: Flags) -> Result<Pages, PageError> {
        self.alloc_by(self.order, len)
    }

    fn alloc_highest(&self, len: u64, _flags: Flags) -> Result<Pages, PageError> {
        self.alloc_by(PageOrder::Backward, len)
    }

    fn free(&self, pages: Pages) {
        let mut state = self.state.lock();
        if state.used.get(&pages.dma.0) != Some(&pages.len) {
            state.wrong_frees += 1;
            return;
        }
        state.used.remove(&pages.dma.0);
        for i in 0..pages.len / self.page_size {
            state.free.insert(pages.dma.0 + i * self.page_size);
        }
    }
}

impl fmt::Debug for PageAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageAllocator")
            .field("page_size", &self.page_size)
            .field("mask", &self.mask)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}
