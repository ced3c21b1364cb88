//! Tables for devices (`dma_map_sg`).

use bus::{CpuAddr, DmaAddr};

use super::entry::Entry;
use super::error::SgError;
use super::table::Table;

/// What a device takes for a segment (`struct device_dma_parameters`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest segment in bytes (`dma_set_max_seg_size`).
    pub max_segment: u32,
    /// No segment crosses a multiple of this, a power of two; 0: none is there (`dma_set_seg_boundary` plus one).
    pub boundary: u64,
}

impl Default for Limits {
    /// As Linux has them for a device that set none: 64 KiB, 4 GiB.
    fn default() -> Self {
        Self { max_segment: 0x1_0000, boundary: 1 << 32 }
    }
}

impl Limits {
    const fn check(&self) -> Result<(), SgError> {
        if self.max_segment == 0 {
            Err(SgError::Limits("max_segment is 0: the shortest segment has a byte"))
        } else if self.boundary != 0 && !self.boundary.is_power_of_two() {
            Err(SgError::Limits("boundary is no power of two"))
        } else {
            Ok(())
        }
    }

    /// Whether bytes cross the boundary.
    const fn is_crossed(&self, start: u64, length: u32) -> bool {
        self.boundary != 0 && length != 0 && (start ^ (start + (length as u64 - 1))) & !(self.boundary - 1) != 0
    }

    /// The segment with `more` bytes at `next` behind it, if that is one segment to the device.
    fn merged(&self, (start, length): Run, (next, more): Run) -> Option<Run> {
        let both = length.checked_add(more).filter(|both| *both <= self.max_segment)?;
        let fits = start + u64::from(length) == next && !self.is_crossed(start, both);
        fits.then_some((start, both))
    }
}

/// A devices' address and a length.
pub(super) type Run = (u64, u32);

impl Table {
    /// Maps the table: entries that are adjacent for devices become one segment, as far as the device takes it.
    ///
    /// Segments stand in the first entries, in order; the entry behind the last one has length 0, which is where a driver
    /// that does not count stops. Returns how many there are; [`Table::nents`] is the same. Linux leaves it to the
    /// implementation whether it merges (Documentation/core-api/dma-api.rst); one with an IOMMU does (`__finalise_sg`,
    /// drivers/iommu/dma-iommu.c).
    ///
    /// # Errors
    /// [`SgError::SegmentTooLong`], [`SgError::CrossesBoundary`]: an entry by itself is not what the device takes.
    /// [`SgError::NotMemory`], [`SgError::Limits`], [`SgError::NoEntries`], [`SgError::Mapped`], [`SgError::Lost`]. The
    /// table is not mapped then.
    pub fn map(&mut self, limits: &Limits) -> Result<u32, SgError> {
        limits.check()?;
        if self.is_mapped {
            return Err(SgError::Mapped);
        }
        let mut segments: Vec<Run> = Vec::new();
        let mut entries: Vec<CpuAddr> = Vec::new();
        for entry in self.entries().take(self.entries as usize) {
            let (at, entry) = entry?;
            entries.push(at);
            let run = self.run(&entry, limits)?;
            match segments.last_mut().and_then(|last| limits.merged(*last, run).map(|both| (last, both))) {
                Some((last, both)) => *last = both,
                None => segments.push(run),
            }
        }
        if segments.is_empty() {
            return Err(SgError::NoEntries);
        }
        let behind = std::iter::repeat((0, 0));
        for (&at, (start, length)) in entries.iter().zip(segments.iter().copied().chain(behind)) {
            self.set_dma(at, (start, length))?;
        }
        self.nents = segments.len() as u32;
        self.is_mapped = true;
        Ok(self.nents)
    }

    /// An entry's data for devices, if a device with these limits takes it.
    fn run(&self, entry: &Entry, limits: &Limits) -> Result<Run, SgError> {
        let (at, length) = (entry.data(), entry.length.get());
        let start = self.memory().run(at, length.into()).ok_or(SgError::NotMemory { at, len: length })?;
        if length == 0 {
            Err(SgError::NotMemory { at, len: 0 })
        } else if length > limits.max_segment {
            Err(SgError::SegmentTooLong { length, most: limits.max_segment })
        } else if limits.is_crossed(start.0, length) {
            Err(SgError::CrossesBoundary { at: start, length, boundary: limits.boundary })
        } else {
            Ok((start.0, length))
        }
    }

    pub(super) fn set_dma(&self, at: CpuAddr, (start, length): Run) -> Result<(), SgError> {
        self.update(at, |entry| {
            entry.dma_address = start.into();
            entry.dma_length = length.into();
        })
    }

    /// The segments of a mapped table.
    ///
    /// # Errors
    /// [`SgError::NotMapped`], [`SgError::Lost`]
    pub fn segments_for_devices(&self) -> Result<Vec<(DmaAddr, u32)>, SgError> {
        if !self.is_mapped {
            return Err(SgError::NotMapped);
        }
        let segment = |entry: Result<(CpuAddr, Entry), SgError>| {
            entry.map(|(_, entry)| (DmaAddr(entry.dma_address.get()), entry.dma_length.get()))
        };
        self.entries().take(self.nents as usize).map(segment).collect()
    }

    /// Ends the mapping (`dma_unmap_sg`).
    ///
    /// # Errors
    /// [`SgError::NotMapped`], [`SgError::Lost`]
    pub fn unmap(&mut self) -> Result<(), SgError> {
        if !self.is_mapped {
            return Err(SgError::NotMapped);
        }
        for entry in self.entries() {
            self.set_dma(entry?.0, (0, 0))?;
        }
        self.is_mapped = false;
        self.nents = self.entries;
        Ok(())
    }
}
