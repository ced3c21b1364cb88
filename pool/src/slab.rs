//! A slab source: buffers of any size (Linux: `kmalloc`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bus::CpuAddr;
use parking_lot::Mutex;

use crate::page::{PageError, PageSource, Pages};
use crate::pool::Flags;

const SMALLEST_CLASS: u64 = 32;

/// Buffers from a page source: powers of two up to half a page out of shared pages, larger ones in pages of their own.
///
/// Lists are kept outside the memory, so that a device's stray write damages data and not the allocator.
pub struct Slab {
    source: Arc<dyn PageSource>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Free buffers by class, last freed first out.
    free: BTreeMap<u64, Vec<CpuAddr>>,
    /// Live buffers: address to class, or to the pages of a large one.
    live: BTreeMap<CpuAddr, Live>,
    /// Pages cut up for classes; they stay until the slab is dropped.
    pages: Vec<Pages>,
}

enum Live {
    Class(u64),
    Pages(Pages),
}

impl Slab {
    /// A slab on `source`.
    #[must_use]
    pub fn new(source: Arc<dyn PageSource>) -> Self {
        Self { source, state: Mutex::default() }
    }

    /// A buffer of at least `len` bytes, aligned to its rounded size up to a page. Its contents are not defined.
    ///
    /// # Errors
    /// [`PageError`] if the source has no page.
    pub fn alloc(&self, len: u64, flags: Flags) -> Result<CpuAddr, PageError> {
        let page_size = self.source.page_size();
        if len > page_size / 2 {
            let pages = self.source.alloc(len, flags)?;
            self.state.lock().live.insert(pages.cpu, Live::Pages(pages));
            return Ok(pages.cpu);
        }
        let class = len.max(SMALLEST_CLASS).next_power_of_two();
        let mut state = self.state.lock();
        let buffer = match state.free.get_mut(&class).and_then(Vec::pop) {
            Some(buffer) => buffer,
            None => {
                // The source may sleep.
                drop(state);
                let pages = self.source.alloc(page_size, flags)?;
                state = self.state.lock();
                state.pages.push(pages);
                let others = (1..pages.len / class).rev().map(|i| pages.cpu.offset(i * class));
                state.free.entry(class).or_default().extend(others);
                pages.cpu
            }
        };
        state.live.insert(buffer, Live::Class(class));
        Ok(buffer)
    }

    /// Takes a buffer back; `false` if it is none of this slab's live ones.
    pub fn free(&self, buffer: CpuAddr) -> bool {
        let mut state = self.state.lock();
        match state.live.remove(&buffer) {
            Some(Live::Class(class)) => state.free.entry(class).or_default().push(buffer),
            Some(Live::Pages(pages)) => {
                drop(state);
                self.source.free(pages);
            }
            None => return false,
        }
        true
    }

    /// Room of a live buffer in bytes, and whether its memory stays the slab's when it is freed.
    pub(crate) fn room(&self, buffer: CpuAddr) -> Option<(u64, bool)> {
        self.state.lock().live.get(&buffer).map(|live| match live {
            Live::Class(class) => (*class, true),
            Live::Pages(pages) => (pages.len, false),
        })
    }

    /// Buffers that are in use.
    #[must_use]
    pub fn live(&self) -> usize {
        self.state.lock().live.len()
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        let State { live, pages, .. } = std::mem::take(self.state.get_mut());
        let large = live.into_values().filter_map(|live| match live {
            Live::Pages(pages) => Some(pages),
            Live::Class(_) => None,
        });
        pages.into_iter().chain(large).for_each(|pages| self.source.free(pages));
    }
}

impl fmt::Debug for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slab").field("live", &self.live()).finish_non_exhaustive()
    }
}
