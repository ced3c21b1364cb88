//! A table: allocated in chunks, filled, walked, freed.

use std::fmt;
use std::sync::Arc;

use bus::CpuAddr;
use zerocopy::{FromZeros, IntoBytes};

use crate::memory::{CpuFault, Memory};
use crate::pool::Flags;

use super::entry::{ENTRY, Entry, MOST_ENTRIES};
use super::error::SgError;
use super::source::{ChunkSource, PAGE};

/// Data of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The first page, by the processor's address.
    pub page: CpuAddr,
    /// First byte of the data, from the beginning of the page.
    pub offset: u32,
    /// Length in bytes. What lies behind the page is in the pages that follow it.
    pub length: u32,
}

/// A scatter-gather table (`struct sg_table`, `struct sg_append_table`).
///
/// The entries lie in the machine's memory, in chunks of a [`ChunkSource`]. It begins empty; [`Table::alloc`] or
/// [`Table::append`] gives it entries. Dropped, it gives its chunks back.
pub struct Table {
    memory: Arc<Memory>,
    source: Arc<dyn ChunkSource>,
    /// Entries of a full chunk.
    most: u32,
    pub(super) first: Option<CpuAddr>,
    /// Entries whose chunks are allocated, links not counted: what freeing goes by (`total_nents`).
    pub(super) slots: u32,
    /// Entries of the last chunk.
    pub(super) last_chunk: u32,
    /// Entries of the table (`orig_nents`).
    pub(super) entries: u32,
    /// Of a mapped table its segments, as many as it has entries otherwise (`nents`).
    pub(super) nents: u32,
    pub(super) is_mapped: bool,
    /// The entry that was appended last (`prv`).
    pub(super) appended: Option<CpuAddr>,
}

impl Table {
    /// An empty table in `memory`, with chunks of up to a page from `source`.
    #[must_use]
    pub fn new(memory: Arc<Memory>, source: Arc<dyn ChunkSource>) -> Self {
        let (most, first, appended) = (MOST_ENTRIES, None, None);
        let (slots, last_chunk, entries, nents, is_mapped) = (0, 0, 0, 0, false);
        Self { memory, source, most, first, slots, last_chunk, entries, nents, is_mapped, appended }
    }

    /// An empty table like this one.
    pub(super) fn another(&self) -> Self {
        let mut another = Self::new(Arc::clone(&self.memory), Arc::clone(&self.source));
        another.most = self.most;
        another
    }

    /// The same with chunks of up to `most` entries (`max_ents` of `__sg_alloc_table`).
    ///
    /// # Errors
    /// [`SgError::ChunkSize`] unless they are 2 to 128; [`SgError::InUse`] if it has entries.
    pub fn chunks_of(mut self, most: u32) -> Result<Self, SgError> {
        self.expect_empty()?;
        if !(2..=MOST_ENTRIES).contains(&most) {
            return Err(SgError::ChunkSize { entries: most });
        }
        self.most = most;
        Ok(self)
    }

    pub(super) fn expect_empty(&self) -> Result<(), SgError> {
        if self.first.is_some() { Err(SgError::InUse(self.entries)) } else { Ok(()) }
    }

    /// Allocates `nents` entries without data (`sg_alloc_table`).
    ///
    /// If a chunk in mid-chain cannot be had, what was allocated stays: [`Table::orig_nents`] counts it, the entry that
    /// would have been the link too, and [`Table::free`] gives it back.
    ///
    /// # Errors
    /// [`SgError::NoEntries`], [`SgError::InUse`], [`SgError::NoChunk`]; [`SgError::Lost`] if the source's chunk is no
    /// memory.
    pub fn alloc(&mut self, nents: u32, flags: Flags) -> Result<(), SgError> {
        self.expect_empty()?;
        if nents == 0 {
            return Err(SgError::NoEntries);
        }
        let mut left = nents;
        let mut before: Option<CpuAddr> = None;
        loop {
            let size = left.min(self.most);
            let used = if left > self.most { size - 1 } else { size };
            let chunk = match self.chunk(size, flags) {
                Ok(chunk) => chunk,
                Err(error) => {
                    // Nothing follows: what would be the link is an entry.
                    self.count(u32::from(before.is_some()));
                    return Err(error);
                }
            };
            match before {
                Some(before) => self.update(slot(before, self.most - 1), |entry| entry.set_chain(chunk))?,
                None => self.first = Some(chunk),
            }
            self.count(used);
            self.last_chunk = size;
            left -= used;
            before = Some(chunk);
            if left == 0 {
                return Ok(());
            }
        }
    }

    fn count(&mut self, more: u32) {
        self.slots += more;
        self.entries += more;
        self.nents = self.entries;
    }

    /// A chunk of `size` empty entries, the last of which ends the table (`sg_init_table`).
    pub(super) fn chunk(&self, size: u32, flags: Flags) -> Result<CpuAddr, SgError> {
        let len = u64::from(size) * ENTRY;
        // Every byte is written below.
        let chunk = self.source.alloc(len, Flags { zero: false, ..flags }).map_err(SgError::NoChunk)?;
        self.clear(chunk, len).and_then(|()| self.update(slot(chunk, size - 1), Entry::set_last)).inspect_err(
            |_| {
                // It is no memory: there is nothing to be lost.
                let _ = self.source.free(chunk, len);
            },
        )?;
        Ok(chunk)
    }

    /// Zeroes a chunk, which is in one piece up to the end of a page.
    fn clear(&self, chunk: CpuAddr, len: u64) -> Result<(), SgError> {
        let mut done = 0;
        while done < len {
            let at = chunk.offset(done);
            let now = (PAGE - at.0 % PAGE).min(len - done);
            let lost = |fault| SgError::Lost { at, fault };
            let place = self.source.linear(at).ok_or(CpuFault { cpu: at, len: now }).map_err(lost)?;
            self.memory.fill(place, now, 0).map_err(lost)?;
            done += now;
        }
        Ok(())
    }

    /// Gives all chunks back (`sg_free_table`, `sg_free_append_table`). The table is empty then, in any case.
    ///
    /// # Errors
    /// [`SgError::NotTaken`], [`SgError::NoLink`], [`SgError::Lost`]: something damaged the table. Chunks that cannot be
    /// reached any more stay allocated.
    pub fn free(&mut self) -> Result<(), SgError> {
        let (mut chunk, mut left) = (self.first.take(), self.slots);
        (self.slots, self.entries, self.nents, self.last_chunk) = (0, 0, 0, 0);
        (self.is_mapped, self.appended) = (false, None);
        while let Some(at) = chunk {
            let size = left.min(self.most);
            let is_followed = left > self.most;
            chunk = if is_followed { Some(self.link(slot(at, size - 1))?) } else { None };
            left -= if is_followed { size - 1 } else { size };
            self.source.free(at, u64::from(size) * ENTRY).map_err(SgError::NotTaken)?;
        }
        Ok(())
    }

    /// The chunk that a link leads to.
    fn link(&self, at: CpuAddr) -> Result<CpuAddr, SgError> {
        let entry = self.load(at)?;
        if entry.is_chain() { Ok(entry.page()) } else { Err(SgError::NoLink(at)) }
    }

    /// Gives the first entries their data; returns how many got some.
    ///
    /// # Errors
    /// [`SgError::Full`] if there are more segments than entries, [`SgError::NoPage`]; what came before it is done.
    pub fn fill(&mut self, segments: impl IntoIterator<Item = Segment>) -> Result<u32, SgError> {
        let (mut at, mut count) = (self.first, 0);
        for Segment { page, offset, length } in segments {
            let entry = at.filter(|_| count < self.entries).ok_or(SgError::Full(self.entries))?;
            expect_page(page)?;
            self.update(entry, |entry| entry.set_data(page, offset, length))?;
            count += 1;
            at = if count < self.entries { self.next(entry)? } else { None };
        }
        Ok(count)
    }

    /// Every entry with its address, links left out. At most as many as are allocated, however damaged the table is.
    #[must_use]
    pub fn entries(&self) -> Entries<'_> {
        Entries { table: self, at: self.first, left: self.slots }
    }

    /// Entries of the table, filled or not (`orig_nents`).
    #[must_use]
    pub const fn orig_nents(&self) -> u32 {
        self.entries
    }

    /// Segments of a mapped table; otherwise the same as [`Table::orig_nents`] (`nents`).
    #[must_use]
    pub const fn nents(&self) -> u32 {
        self.nents
    }

    /// Entries that its chunks have room for, links not counted (`total_nents` of an append table).
    #[must_use]
    pub const fn total_nents(&self) -> u32 {
        self.slots
    }

    /// The first entry.
    #[must_use]
    pub const fn first(&self) -> Option<CpuAddr> {
        self.first
    }

    /// Bytes of all data.
    ///
    /// # Errors
    /// [`SgError::Lost`]
    pub fn data_len(&self) -> Result<u64, SgError> {
        self.entries().map(|entry| entry.map(|(_, entry)| u64::from(entry.length.get()))).sum()
    }

    /// Whether it has no entries.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Entries that the first `len` bytes lie in (`sg_nents_for_len`); `None` if it has less data (`-EINVAL`).
    ///
    /// # Errors
    /// [`SgError::Lost`]
    pub fn nents_for_len(&self, len: u64) -> Result<Option<u32>, SgError> {
        let (mut count, mut total) = (0, 0);
        if len == 0 {
            return Ok(Some(0));
        }
        for entry in self.entries() {
            total += u64::from(entry?.1.length.get());
            count += 1;
            if total >= len {
                return Ok(Some(count));
            }
        }
        Ok(None)
    }

    /// The entry behind one (`sg_next`), through a link if there is one.
    pub(super) fn next(&self, at: CpuAddr) -> Result<Option<CpuAddr>, SgError> {
        if self.load(at)?.is_last() {
            return Ok(None);
        }
        let next = at.offset(ENTRY);
        let entry = self.load(next)?;
        Ok(Some(if entry.is_chain() { entry.page() } else { next }))
    }

    pub(super) fn load(&self, at: CpuAddr) -> Result<Entry, SgError> {
        let mut entry = Entry::new_zeroed();
        let lost = |fault| SgError::Lost { at, fault };
        let place = self.source.linear(at).ok_or(CpuFault { cpu: at, len: ENTRY }).map_err(lost)?;
        self.memory.read(place, entry.as_mut_bytes()).map_err(lost)?;
        Ok(entry)
    }

    pub(super) fn update(&self, at: CpuAddr, change: impl FnOnce(&mut Entry)) -> Result<(), SgError> {
        let mut entry = self.load(at)?;
        change(&mut entry);
        let lost = |fault| SgError::Lost { at, fault };
        let place = self.source.linear(at).ok_or(CpuFault { cpu: at, len: ENTRY }).map_err(lost)?;
        self.memory.write(place, entry.as_bytes()).map_err(lost)
    }

    pub(super) const fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    pub(super) const fn most(&self) -> u32 {
        self.most
    }
}

/// An entry's address in a chunk.
pub(super) const fn slot(chunk: CpuAddr, index: u32) -> CpuAddr {
    chunk.offset(index as u64 * ENTRY)
}

pub(super) const fn expect_page(page: CpuAddr) -> Result<(), SgError> {
    if page.0.is_multiple_of(PAGE) { Ok(()) } else { Err(SgError::NoPage(page)) }
}

impl Drop for Table {
    fn drop(&mut self) {
        // A damaged table leaks what it cannot reach; who wants to know calls `free`.
        let _ = self.free();
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("orig_nents", &self.entries)
            .field("nents", &self.nents)
            .field("total_nents", &self.slots)
            .finish_non_exhaustive()
    }
}

/// The entries of a [`Table`] with their addresses; see [`Table::entries`].
pub struct Entries<'a> {
    table: &'a Table,
    at: Option<CpuAddr>,
    left: u32,
}

impl Iterator for Entries<'_> {
    type Item = Result<(CpuAddr, Entry), SgError>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at.take().filter(|_| self.left > 0)?;
        self.left -= 1;
        let step = || {
            let entry = self.table.load(at)?;
            Ok((entry, if self.left > 0 { self.table.next(at)? } else { None }))
        };
        match step() {
            Ok((entry, next)) => {
                self.at = next;
                Some(Ok((at, entry)))
            }
            Err(error) => Some(Err(error)),
        }
    }
}
