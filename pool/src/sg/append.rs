//! Tables of pages, one call after the other (`sg_alloc_append_table_from_pages`).

use bus::CpuAddr;

use crate::memory::Memory;
use crate::pool::Flags;

use super::entry::Entry;
use super::error::SgError;
use super::source::PAGE;
use super::table::{Table, expect_page};

/// Pages that hold a buffer, in its order.
#[derive(Clone, Copy, Debug)]
pub struct PageRun<'a> {
    /// Their addresses for the processor.
    pub pages: &'a [CpuAddr],
    /// First byte of the buffer in the first page; 0 for pages that go on where others ended.
    pub offset: u32,
    /// Length of the buffer in bytes: it ends in the last page.
    pub size: u64,
    /// Longest segment in bytes, at least a page; rounded down to whole pages.
    pub max_segment: u32,
    /// Pages that later calls will append, at least as many as they will; 0 ends the table. Chunks are as large as it says.
    pub left_pages: u32,
}

impl PageRun<'_> {
    /// The longest segment, in whole pages.
    fn check(&self) -> Result<u64, SgError> {
        self.pages.iter().try_for_each(|&page| expect_page(page))?;
        let max_segment = u64::from(self.max_segment) / PAGE * PAGE;
        let room = self.pages.len() as u64 * PAGE;
        let end = u64::from(self.offset).checked_add(self.size);
        if self.pages.is_empty() {
            Err(SgError::Pages("there is none"))
        } else if max_segment == 0 {
            Err(SgError::Pages("max_segment is less than a page"))
        } else if u64::from(self.offset) >= PAGE {
            Err(SgError::Pages("offset is not in the first page"))
        } else if self.size == 0 || end.is_none_or(|end| end > room || end <= room - PAGE) {
            Err(SgError::Pages("size does not end in the last page"))
        } else {
            Ok(max_segment)
        }
    }
}

/// Adjacent for devices, which is what the kernel's page frame numbers say.
fn are_adjacent(memory: &Memory, before: CpuAddr, page: CpuAddr) -> bool {
    let end = memory.dma(before).and_then(|dma| dma.0.checked_add(PAGE));
    end.is_some() && end == memory.dma(page).map(|dma| dma.0)
}

/// Pages at the beginning of `pages` that are one segment.
fn first_segment(memory: &Memory, pages: &[CpuAddr], max_segment: u64) -> usize {
    let most = usize::try_from(max_segment / PAGE).unwrap_or(usize::MAX);
    let broken = pages.windows(2).position(|pair| !are_adjacent(memory, pair[0], pair[1]));
    broken.map_or(pages.len(), |index| index + 1).min(most)
}

impl Table {
    /// Appends a buffer that lies in pages. Adjacent pages are one entry, with the one before too, up to the longest segment.
    ///
    /// Pages that are merged into the entry before count as whole ones, as in the kernel: only a buffer that ends with a
    /// page has no other length there.
    ///
    /// # Errors
    /// [`SgError::Pages`], [`SgError::NoPage`]: the run makes no sense, nothing is changed. [`SgError::NoChunk`]: the
    /// entries of this call do not count, and chunks that it allocated are freed with the table. [`SgError::LeftPages`],
    /// [`SgError::Ended`]: an earlier call promised less. [`SgError::Mapped`], [`SgError::InUse`]: it is mapped, or
    /// [`Table::alloc`] made it.
    pub fn append(&mut self, run: &PageRun<'_>, flags: Flags) -> Result<(), SgError> {
        let max_segment = run.check()?;
        if self.is_mapped {
            return Err(SgError::Mapped);
        }
        let Some(last) = self.appended else {
            self.expect_empty()?;
            return self.append_rest(run, run.pages, max_segment, flags);
        };
        if run.offset != 0 {
            return Err(SgError::Pages("offset is for the first pages of a table"));
        }
        let before = self.load(last)?;
        let merged = self.merged(&before, run.pages, max_segment);
        let longer = u64::from(before.length.get()) + merged as u64 * PAGE;
        // It was below the longest segment, which has 32 bits.
        self.update(last, |entry| entry.length = (longer as u32).into())?;
        if merged == run.pages.len() {
            return self.end(last, run.left_pages);
        }
        self.append_rest(run, &run.pages[merged..], max_segment, flags).inspect_err(|_| {
            // As before the call. What could be written a moment ago can be.
            let _ = self.update(last, |entry| entry.length = before.length);
        })
    }

    /// Pages at the beginning of `pages` that the entry before takes.
    fn merged(&self, before: &Entry, pages: &[CpuAddr], max_segment: u64) -> usize {
        let length = u64::from(before.length.get());
        // The page that the entry's end lies in; of one that ends with a page, the page behind.
        let start = self.memory().dma(before.page()).map(|dma| dma.0);
        let next = start.map(|start| (start + u64::from(before.offset.get()) + length) / PAGE * PAGE);
        let first = pages.first().and_then(|&page| self.memory().dma(page)).map(|dma| dma.0);
        if next.is_none() || next != first {
            return 0;
        }
        let room = max_segment.saturating_sub(length) / PAGE * PAGE;
        if room == 0 { 0 } else { first_segment(self.memory(), pages, room) }
    }

    /// Appends what was not merged, a segment an entry.
    fn append_rest(
        &mut self,
        run: &PageRun<'_>,
        pages: &[CpuAddr],
        max_segment: u64,
        flags: Flags,
    ) -> Result<(), SgError> {
        let segments = self.segments(pages, max_segment);
        let (mut offset, mut size, mut pages) = (run.offset, run.size, pages);
        let mut last = self.appended;
        for (index, &count) in segments.iter().enumerate() {
            let needed = (segments.len() - index) as u64 + u64::from(run.left_pages);
            let entry = self.next_slot(last, u32::try_from(needed).unwrap_or(u32::MAX), flags)?;
            let whole = count as u64 * PAGE - u64::from(offset);
            // A segment has 32 bits.
            self.update(entry, |entry| entry.set_data(pages[0], offset, whole.min(size) as u32))?;
            size = size.saturating_sub(whole);
            offset = 0;
            pages = &pages[count..];
            last = Some(entry);
        }
        self.entries += segments.len() as u32;
        self.nents = self.entries;
        self.appended = last;
        last.map_or(Ok(()), |last| self.end(last, run.left_pages))
    }

    /// How many pages each segment has.
    fn segments(&self, mut pages: &[CpuAddr], max_segment: u64) -> Vec<usize> {
        let mut segments = Vec::new();
        while !pages.is_empty() {
            let count = first_segment(self.memory(), pages, max_segment);
            segments.push(count);
            pages = &pages[count..];
        }
        segments
    }

    /// The entry behind `last`, in a new chunk if need be; `needed` entries are to come, this one among them.
    fn next_slot(&mut self, last: Option<CpuAddr>, needed: u32, flags: Flags) -> Result<CpuAddr, SgError> {
        let size = needed.min(self.most());
        let Some(last) = last else {
            let chunk = self.chunk(size, flags)?;
            (self.first, self.slots, self.last_chunk) = (Some(chunk), size, size);
            return Ok(chunk);
        };
        let next = self.next(last)?.ok_or(SgError::Ended)?;
        // The last place of a chunk is for the link, unless nothing follows.
        if !self.load(next)?.is_last() || needed == 1 {
            return Ok(next);
        }
        if self.last_chunk < self.most() {
            return Err(SgError::LeftPages { entries: needed });
        }
        let chunk = self.chunk(size, flags)?;
        self.update(next, |entry| entry.set_chain(chunk))?;
        self.slots += size - 1;
        self.last_chunk = size;
        Ok(chunk)
    }

    fn end(&self, last: CpuAddr, left_pages: u32) -> Result<(), SgError> {
        if left_pages == 0 { self.update(last, Entry::set_last) } else { Ok(()) }
    }
}
