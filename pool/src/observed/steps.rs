//! The order in which a pool handed out its blocks, counted.

use std::fmt;

use bus::DmaAddr;

/// From each allocation of a pool to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// All of them.
    pub all: usize,
    /// To a higher address.
    pub ascending: usize,
    /// To a lower address.
    pub descending: usize,
    /// To the next block above.
    pub to_next: usize,
    /// Blocks in the longest run of which each is the next above the one before.
    pub longest_run: usize,
    last: Option<DmaAddr>,
    run: usize,
}

impl Steps {
    /// Adds an allocation of the pool, whose blocks lie `distance` bytes apart if that is known.
    pub(super) fn add(&mut self, addr: DmaAddr, distance: Option<u64>) {
        let is_next = self.last.is_some_and(|last| Some(addr.0.wrapping_sub(last.0)) == distance);
        if let Some(last) = self.last {
            self.all += 1;
            self.ascending += usize::from(addr > last);
            self.descending += usize::from(addr < last);
            self.to_next += usize::from(is_next);
        }
        self.run = if is_next { self.run + 1 } else { 1 };
        self.longest_run = self.longest_run.max(self.run);
        self.last = Some(addr);
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { all, ascending, descending, to_next, longest_run, .. } = self;
        if *all == 0 {
            return f.write_str("too few blocks to speak of an order");
        }
        write!(f, "of {all} steps from a block to the next one handed out {ascending} ascend")?;
        write!(f, ", {descending} descend, {to_next} go to the neighbour above; longest run {longest_run}")
    }
}
