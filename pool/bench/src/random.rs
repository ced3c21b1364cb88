//! An order that looks random and is the same for the same seed.

/// The numbers below `len`, shuffled (Fisher and Yates) by a SplitMix64 sequence (Steele, Lea and Flood, "Fast Splittable
/// Pseudorandom Number Generators", 2014).
pub(crate) fn shuffled(len: usize, seed: u64) -> Vec<usize> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    };
    let mut order: Vec<usize> = (0..len).collect();
    for last in (1..len).rev() {
        // A few thousand in 2^64: no place is favoured that one could see.
        order.swap(last, (next() % (last as u64 + 1)) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once_in_the_seeds_order() {
        let order = shuffled(1000, 7);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
        assert_eq!(order, shuffled(1000, 7));
        assert_ne!(order, shuffled(1000, 8));
        let stayed = order.iter().enumerate().filter(|(index, number)| index == *number).count();
        assert!(stayed < 10, "{stayed} of 1000 stayed in their places");
    }
}
