//! What a log tells.

use std::time::Duration;

use crate::pool::Block;

/// One thing that a pool did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Number of its line in the log, from 1.
    pub line: usize,
    /// The machine's time, if it was told.
    pub time: Option<Duration>,
    /// What it is.
    pub what: What,
    /// Address of the pool itself.
    pub pool: Option<u64>,
    /// Name of the pool. It has this or an address.
    pub name: Option<String>,
    /// Who called, as the kernel prints symbols.
    pub caller: Option<String>,
    /// What is known of the pool.
    pub known: Known,
}

/// What a pool did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It was created.
    Create,
    /// It handed out a block; `None` if it had none.
    Alloc(Option<Block>),
    /// It took a block back.
    Free(Block),
    /// It was destroyed.
    Destroy,
}

/// What an event tells of its pool. In bytes; each as far as it was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Size of a block.
    pub size: Option<u64>,
    /// Alignment of a block.
    pub align: Option<u64>,
    /// What no block crosses a multiple of.
    pub boundary: Option<u64>,
    /// Address of the device.
    pub device: Option<u64>,
}

impl Known {
    /// The same with what `other` knows and this does not.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            size: self.size.or(other.size),
            align: self.align.or(other.align),
            boundary: self.boundary.or(other.boundary),
            device: self.device.or(other.device),
        }
    }
}
