//! Ranges of addresses that are free (`free_vmap_area_root`, mm/vmalloc.c).

use std::collections::{BTreeMap, BTreeSet};

/// Free ranges, by place and by length. Neighbours are one range.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// Start to length.
    places: BTreeMap<u64, u64>,
    /// Length and start.
    lengths: BTreeSet<(u64, u64)>,
}

impl Ranges {
    /// One range that is free.
    pub(super) fn new(start: u64, len: u64) -> Self {
        let mut ranges = Self::default();
        ranges.add(start, len);
        ranges
    }

    fn add(&mut self, start: u64, len: u64) {
        if len > 0 {
            self.places.insert(start, len);
            self.lengths.insert((len, start));
        }
    }

    fn remove(&mut self, start: u64, len: u64) {
        self.places.remove(&start);
        self.lengths.remove(&(len, start));
    }

    /// The beginning of the smallest range that has room, the lowest of several.
    pub(super) fn take(&mut self, len: u64) -> Option<u64> {
        let &(room, start) = self.lengths.range((len, 0)..).next()?;
        self.remove(start, room);
        self.add(start + len, room - len);
        Some(start)
    }

    /// Gives a range back, which is one with what is free on both sides.
    pub(super) fn give(&mut self, mut start: u64, mut len: u64) {
        if let Some((&before, &length)) = self.places.range(..start).next_back().filter(|(s, l)| **s + **l == start) {
            self.remove(before, length);
            (start, len) = (before, len + length);
        }
        if let Some(&behind) = self.places.get(&(start + len)) {
            self.remove(start + len, behind);
            len += behind;
        }
        self.add(start, len);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_smallest_range_with_room_is_taken() {
        let mut ranges = Ranges::new(0, 100);
        assert_eq!([10, 20, 10, 30].map(|len| ranges.take(len)), [Some(0), Some(10), Some(30), Some(40)]);
        ranges.give(10, 20);
        ranges.give(40, 30);
        // 20 at 10, 60 at 40.
        assert_eq!(ranges.take(15), Some(10));
        assert_eq!(ranges.take(61), None);
        assert_eq!(ranges.take(60), Some(40));
    }

    proptest! {
        #[test]
        fn what_is_given_back_is_one_range_again(lens in prop::collection::vec(1_u64..50, 1..40), seed in any::<u64>()) {
            let mut ranges = Ranges::new(7, 1000);
            let mut taken: Vec<(u64, u64)> =
                lens.into_iter().filter_map(|len| ranges.take(len).map(|start| (start, len))).collect();
            taken.sort_unstable();
            prop_assert!(taken.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{:?}", taken);
            let mut random = seed;
            while !taken.is_empty() {
                let index = crate::page::split_mix(&mut random) as usize % taken.len();
                let (start, len) = taken.swap_remove(index);
                ranges.give(start, len);
            }
            prop_assert_eq!(ranges.places.into_iter().collect::<Vec<_>>(), [(7, 1000)]);
            prop_assert_eq!(ranges.lengths.len(), 1);
        }
    }
}
