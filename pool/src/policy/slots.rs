//! Where the blocks of a page are, and which of them an offset is in.

use crate::pool::Layout;

/// The places of a page, numbered from 0 by rising offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots {
    size: u64,
    boundary: u64,
    in_boundary: u64,
    count: u64,
    /// 2^64 / size, rounded up: a multiplication instead of a division for offsets and sizes below 2^32 (Lemire, Kaser
    /// and Kurz, "Faster Remainder by Direct Computation", 2019). 0 stands for size 1.
    reciprocal: u64,
}

impl Slots {
    pub(super) const fn new(layout: Layout) -> Self {
        let in_boundary = layout.boundary / layout.size;
        let count = layout.allocation / layout.boundary * in_boundary;
        let reciprocal = (u64::MAX / layout.size).wrapping_add(1);
        Self { size: layout.size, boundary: layout.boundary, in_boundary, count, reciprocal }
    }

    /// How many blocks a page has.
    pub(super) const fn count(&self) -> usize {
        self.count as usize
    }

    /// Offset of a place in its page.
    pub(super) const fn offset(&self, slot: u64) -> u64 {
        slot / self.in_boundary * self.boundary + slot % self.in_boundary * self.size
    }

    /// The place that `offset` is in and the offset at which it begins; `None` behind the last block of a boundary.
    pub(super) const fn containing(&self, offset: u64) -> Option<(usize, u64)> {
        let (base, within, before) = if offset < self.boundary {
            (0, offset, 0)
        } else {
            // The allocation is a boundary itself unless that is a power of two.
            let number = offset >> self.boundary.trailing_zeros();
            (number * self.boundary, offset & (self.boundary - 1), number * self.in_boundary)
        };
        let index = if self.size == 1 { within } else { ((self.reciprocal as u128 * within as u128) >> 64) as u64 };
        let slot = before + index;
        if index < self.in_boundary && slot < self.count {
            Some((slot as usize, base + index * self.size))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Geometry;

    #[test]
    fn slots_are_where_the_layout_puts_blocks() {
        for size in [1, 2, 3, 4, 12, 16, 17, 64, 68, 96, 100, 1000, 1024, 2049, 4096, 5000, 70_000] {
            for align in [1, 4, 32, 64] {
                for boundary in [0, 128, 512, 4096, 1 << 17] {
                    for page_size in [4096, 16384, 65536] {
                        let Ok(layout) = Geometry { size, align, boundary }.layout(1, page_size) else { continue };
                        let slots = Slots::new(layout);
                        let offsets: Vec<_> = layout.offsets().collect();
                        assert_eq!(slots.count(), offsets.len(), "{layout:?}");
                        for (slot, &offset) in offsets.iter().enumerate() {
                            assert_eq!(slots.offset(slot as u64), offset, "{layout:?}");
                            assert_eq!(slots.containing(offset), Some((slot, offset)), "{layout:?}");
                            let last = offset + layout.size - 1;
                            assert_eq!(slots.containing(last), Some((slot, offset)), "{layout:?}");
                            let behind = slots.containing(last + 1);
                            let next = offsets.get(slot + 1).filter(|&&next| next == last + 1);
                            assert_eq!(behind, next.map(|&next| (slot + 1, next)), "{layout:?} {last:#x}");
                        }
                    }
                }
            }
        }
    }
}
