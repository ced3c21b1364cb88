//! One table as several (`sg_split`, lib/sg_split.c).

use bus::CpuAddr;

use crate::pool::Flags;

use super::error::SgError;
use super::table::{Segment, Table};

/// Part of a run of a list: which one, where it begins in it, how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    run: usize,
    offset: u32,
    length: u32,
}

/// Cuts runs of these lengths into parts of these sizes, the first `skip` bytes left out; `None` if there is not as much.
fn cut(lengths: &[u32], skip: u64, sizes: &[u64]) -> Option<Vec<Vec<Piece>>> {
    let mut runs = lengths.iter().enumerate();
    let mut current = runs.next()?;
    let mut offset = skip;
    let mut part = |mut size: u64| {
        let mut pieces = Vec::new();
        while size > 0 {
            let (run, &length) = current;
            let Some(left) = u64::from(length).checked_sub(offset).filter(|left| *left > 0) else {
                offset -= u64::from(length);
                current = runs.next()?;
                continue;
            };
            let now = left.min(size);
            // Both lie within a run, which has 32 bits.
            pieces.push(Piece { run, offset: offset as u32, length: now as u32 });
            offset += now;
            size -= now;
        }
        Some(pieces)
    };
    sizes.iter().map(|&size| part(size)).collect()
}

impl Table {
    /// Tables of the bytes `skip .. skip + sizes[0]`, the `sizes[1]` bytes behind them, and so on, with chunks of their own
    /// from the same source. The pages are the same. Of a mapped table they are mapped too, each with its part of the
    /// segments; none of them is to be unmapped for itself.
    ///
    /// Every entry keeps its offset. The kernel's `sg_split` (Linux 6.15) takes 0 for all but the first of a part: right
    /// only where data begins with its page.
    ///
    /// # Errors
    /// [`SgError::TooShort`]: the table has not as much data, or a size is 0. [`SgError::NoChunk`], [`SgError::Lost`].
    pub fn split(&self, skip: u64, sizes: &[u64], flags: Flags) -> Result<Vec<Self>, SgError> {
        let entries = self.entries().map(|entry| entry.map(|(_, entry)| entry));
        let entries: Vec<_> = entries.take(self.entries as usize).collect::<Result<_, _>>()?;
        let lengths: Vec<u32> = entries.iter().map(|entry| entry.length.get()).collect();
        let wanted = sizes.iter().fold(0, |sum: u64, &size| sum.saturating_add(size));
        let len = lengths.iter().map(|&length| u64::from(length)).sum();
        let is_there = !sizes.contains(&0) && skip.checked_add(wanted).is_some_and(|end| end <= len);
        let parts = if is_there { cut(&lengths, skip, sizes) } else { None };
        let parts = parts.ok_or(SgError::TooShort { skip, wanted, len })?;
        let mut tables = Vec::with_capacity(parts.len());
        for pieces in parts {
            let mut table = self.another();
            table.alloc(pieces.len() as u32, flags)?;
            table.fill(pieces.iter().map(|piece| {
                let entry = &entries[piece.run];
                let offset = entry.offset.get().wrapping_add(piece.offset);
                Segment { page: entry.page(), offset, length: piece.length }
            }))?;
            tables.push(table);
        }
        if self.is_mapped {
            self.split_segments(skip, sizes, &mut tables)?;
        }
        Ok(tables)
    }

    /// The parts' share in the segments: never more than their entries, which were merged into them.
    fn split_segments(&self, skip: u64, sizes: &[u64], tables: &mut [Self]) -> Result<(), SgError> {
        let segments = self.segments_for_devices()?;
        let lengths: Vec<u32> = segments.iter().map(|(_, length)| *length).collect();
        let len = lengths.iter().map(|&length| u64::from(length)).sum();
        let wanted = sizes.iter().sum();
        let parts = cut(&lengths, skip, sizes).ok_or(SgError::TooShort { skip, wanted, len })?;
        for (table, pieces) in tables.iter_mut().zip(parts) {
            let places: Vec<CpuAddr> =
                table.entries().map(|entry| entry.map(|(at, _)| at)).collect::<Result<_, SgError>>()?;
            for (&at, piece) in places.iter().zip(&pieces) {
                let start = segments[piece.run].0.offset(piece.offset.into());
                table.set_dma(at, (start.0, piece.length))?;
            }
            table.nents = pieces.len() as u32;
            table.is_mapped = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn piece(run: usize, offset: u32, length: u32) -> Piece {
        Piece { run, offset, length }
    }

    #[test]
    fn parts_are_cut_where_their_sizes_end() {
        let cut_of = |skip, sizes: &[u64]| cut(&[10, 0, 20, 5], skip, sizes);
        assert_eq!(cut_of(0, &[10, 25]), Some(vec![vec![piece(0, 0, 10)], vec![piece(2, 0, 20), piece(3, 0, 5)]]));
        assert_eq!(cut_of(3, &[8]), Some(vec![vec![piece(0, 3, 7), piece(2, 0, 1)]]));
        assert_eq!(cut_of(10, &[1, 1]), Some(vec![vec![piece(2, 0, 1)], vec![piece(2, 1, 1)]]));
        assert_eq!(cut_of(34, &[1]), Some(vec![vec![piece(3, 4, 1)]]));
        assert_eq!(cut_of(34, &[2]), None);
        assert_eq!(cut(&[], 0, &[1]), None);
    }
}
