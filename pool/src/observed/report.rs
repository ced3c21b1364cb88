//! What a log shows.

use std::time::Duration;

use bus::PoolLayout;

use super::event::Known;
use super::steps::Steps;
use crate::finding::Finding;
use crate::ledger::AddressOrder;

/// What a log shows.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What was wrong, in the order of the log; of a flood its beginning.
    pub findings: Vec<Noted>,
    /// How many findings there were in all.
    pub findings_total: u64,
    /// Each pool, in the order of its first line; one that goes on behind a gap comes again.
    pub pools: Vec<PoolSeen>,
    /// Each pool that a layout contract is known for.
    pub layouts: Vec<LayoutJudged>,
    /// Frees that are no fault because the log need not have seen the block handed out.
    pub excused_frees: usize,
    /// Blocks that would end behind the last address, which were passed over.
    pub beyond: usize,
    /// Accesses of the device, if there were any.
    pub accesses: Ordered,
}

/// Accesses of a device, and whether they could be ordered against the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ordered {
    /// Judged: at the time of the access it is known who had the memory.
    pub judged: usize,
    /// Order unknown: something happened to that memory about the time of the access.
    pub unknown: usize,
    /// To memory of a pool that was there before the log began.
    pub before_log: usize,
    /// To memory of no pool.
    pub elsewhere: usize,
}

/// A finding, and where the log shows it.
#[derive(Clone, Debug)]
pub struct Noted {
    /// Number of the line, from 1; `None` for what an access of the device showed.
    pub line: Option<usize>,
    /// The machine's time.
    pub time: Option<Duration>,
    /// Who called the pool.
    pub caller: Option<String>,
    /// What was wrong.
    pub finding: Finding,
}

/// A pool as the log shows it.
#[derive(Clone, Debug)]
pub struct PoolSeen {
    /// Its name, or `at` its address.
    pub name: String,
    /// Whether its creation was seen.
    pub created: bool,
    /// Why nothing more of it is told.
    pub end: End,
    /// What is known of it.
    pub known: Known,
    /// Blocks that it handed out.
    pub handed_out: usize,
    /// Allocations that got no block.
    pub refused: usize,
    /// Blocks that it took back.
    pub freed: usize,
    /// Blocks in use when it was seen last: not a fault, unless it was destroyed.
    pub in_use: usize,
    /// Whose these are, by who allocated them: the caller and how many, the most first.
    pub holders: Vec<(String, usize)>,
    /// The order of its first blocks.
    pub order: AddressOrder,
    /// The order of all of them, counted.
    pub steps: Steps,
}

/// Why nothing more of a pool is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was destroyed.
    Destroyed,
    /// What happened then is not in the log.
    Gap,
    /// The log ends.
    Log,
}

/// A layout contract that a pool was held against.
#[derive(Clone, Debug)]
pub struct LayoutJudged {
    /// The contract.
    pub layout: &'static PoolLayout,
    /// Objects of it that were seen, one for each allocation.
    pub objects: usize,
    /// Whether each is where the device looks for it, or why that cannot be said.
    pub held: Result<bool, String>,
}
