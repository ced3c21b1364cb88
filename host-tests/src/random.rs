//! Numbers and data that look random and are the same for the same seed.

use std::sync::Arc;

use parking_lot::Mutex;

/// Payloads that are kept: one a scenario that shares its own.
const SHARED: usize = 4;

/// A SplitMix64 sequence (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `end`; 0 if that is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

/// The same as [`payload`], made once: for data that many runs of one seed send.
pub(crate) fn shared_payload(seed: u64, length: usize) -> Arc<Vec<u8>> {
    static LAST: Mutex<Vec<(u64, Arc<Vec<u8>>)>> = Mutex::new(Vec::new());
    let mut last = LAST.lock();
    if let Some((_, data)) = last.iter().find(|(known, data)| (*known, data.len()) == (seed, length)) {
        return Arc::clone(data);
    }
    let data = Arc::new(payload(seed, length));
    last.truncate(SHARED - 1);
    last.insert(0, (seed, Arc::clone(&data)));
    data
}

/// `length` bytes that show when one is lost, doubled or moved.
pub(crate) fn payload(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
