//! An order that looks random and is the same for the same seed.

/// Picks for a random order: of `len` things the first is taken from anywhere, and the last put in its place; the second
/// from the rest, and so on (Fisher and Yates), by a SplitMix64 sequence (Steele, Lea and Flood, "Fast Splittable
/// Pseudorandom Number Generators", 2014).
pub(crate) fn picks(len: usize, seed: u64) -> Vec<usize> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    };
    // A few thousand in 2^64: no place is favoured that one could see.
    (1..=len as u64).rev().map(|left| (next() % left) as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(seed: u64) -> Vec<usize> {
        let mut left: Vec<usize> = (0..1000).collect();
        picks(left.len(), seed).into_iter().map(|pick| left.swap_remove(pick)).collect()
    }

    #[test]
    fn every_thing_comes_once_in_the_seeds_order() {
        let mut sorted = order(7);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
        let stayed = order(7).into_iter().enumerate().filter(|(place, thing)| place == thing).count();
        assert!(stayed < 10, "{stayed} of 1000 stayed in their places");
    }
}
