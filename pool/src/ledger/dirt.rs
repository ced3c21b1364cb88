//! What was written where nobody had a block.

/// Stretches that are told apart; more of them are one.
const MOST: usize = 64;

/// Writes of devices and the driver to memory of a pool outside of its live blocks, until that memory is handed out.
///
/// A pool need not zero a block again that it zeroed when it was freed: what lies in it then is not the pool's.
#[derive(Default)]
pub(super) struct Dirt {
    /// First byte and length.
    stretches: Vec<(u64, u64)>,
    /// Whether there was no room for more.
    everywhere: bool,
}

impl Dirt {
    pub(super) fn add(&mut self, start: u64, len: u64) {
        let room = self.stretches.len() < MOST;
        match self.stretches.last_mut() {
            Some(last) if last.0 + last.1 == start => last.1 += len,
            // The same again: a device that polls or retries.
            Some(last) if *last == (start, len) => {}
            _ if room => self.stretches.push((start, len)),
            _ => self.everywhere = true,
        }
    }

    pub(super) fn covers(&self, addr: u64) -> bool {
        self.everywhere || self.stretches.iter().any(|&(start, len)| addr.wrapping_sub(start) < len)
    }

    /// Forgets what lies in a block: from now on it is its holder's.
    pub(super) fn clear(&mut self, start: u64, size: u64) {
        // Usually there is none.
        if self.stretches.is_empty() {
            return;
        }
        let end = start.saturating_add(size);
        let parts = std::mem::take(&mut self.stretches).into_iter().flat_map(|(from, len)| {
            let to = from + len;
            [(from, to.min(start)), (from.max(end), to)]
        });
        self.stretches = parts.filter(|(from, to)| from < to).map(|(from, to)| (from, to - from)).collect();
        self.everywhere |= self.stretches.len() > MOST;
        self.stretches.truncate(MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_cut_out() {
        let mut dirt = Dirt::default();
        dirt.add(100, 50);
        dirt.add(150, 50);
        dirt.clear(120, 40);
        let covered: Vec<u64> = (90..210).filter(|&at| dirt.covers(at)).collect();
        let expected: Vec<u64> = (100..120).chain(160..200).collect();
        assert_eq!(covered, expected);
        dirt.clear(0, 1000);
        assert!(!(0..300).any(|at| dirt.covers(at)));
    }

    #[test]
    fn beyond_its_room_dirt_is_everywhere() {
        let mut dirt = Dirt::default();
        (0..=MOST as u64).for_each(|i| dirt.add(i * 100, 1));
        assert!(dirt.covers(7));
    }
}
