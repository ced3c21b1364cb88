//! Recorded defects: failures that are known, so that a plain check speaks of news only.

use std::collections::BTreeSet;

use pool::{Finding, Found, PageOrder};

use crate::run::Run;
use crate::scenario::two_pages;
use crate::spans::LOW_BITS;
use crate::verdict::Verdict;

/// A defect on record. Another failure of the same run, or a pass, is news.
///
/// It holds for pages forward and backward, and for a DMA mask of 32 bits, which it was seen with: pages in another order
/// put other bits into an in-block link, and what the device makes of these decides what the host sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Name of the pool.
    pub pool: &'static str,
    /// Name of the driver under test, or of the scenario's own client.
    pub driver: &'static str,
    /// Name of the scenario.
    pub scenario: &'static str,
    /// Endpoint numbers of the controller; `None` for a client with a device of its own.
    pub endpoints: Option<u8>,
    /// Page sizes in bytes.
    pub page_sizes: &'static [u64],
    /// Orders of pages.
    pub page_orders: &'static [PageOrder],
    /// The failure, word for word.
    pub error: &'static str,
    /// The first slot of the layout contract that differs.
    pub slot: u32,
    /// What is there.
    pub found: InSlot,
    /// Names of all its findings, in alphabetical order.
    pub findings: &'static [&'static str],
}

/// What a record says of the first slot that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InSlot {
    /// The driver's object of this name.
    Object(&'static str),
    /// A block of the pool that is free.
    FreeBlock,
    /// Memory of the pool that holds no block.
    NoBlock,
    /// Memory that no one mapped.
    Unmapped,
}

const SILENCE: &str = "device descriptor read/64, error -110";
const STALL: &str = "device descriptor read/64, error -32";
const K4: u64 = 4 << 10;
const K16: u64 = 16 << 10;
const K64: u64 = 64 << 10;
const EITHER: &[PageOrder] = &[PageOrder::Forward, PageOrder::Backward];
const FORWARD: &[PageOrder] = &[PageOrder::Forward];
const BACKWARD: &[PageOrder] = &[PageOrder::Backward];

const fn descending(
    scenario: &'static str,
    endpoints: u8,
    page_sizes: &'static [u64],
    page_orders: &'static [PageOrder],
    error: &'static str,
) -> Record {
    let (found, findings): (_, &[_]) = if endpoints == 16 {
        (InSlot::Object("ep15 IN dQH"), &["LayoutContract"])
    } else {
        (InSlot::FreeBlock, &["LayoutContract", "ReadOfFreedBlock", "WriteToFreedBlock"])
    };
    let (pool, driver, endpoints) = ("linked-descending", "ci_hdrc", Some(endpoints));
    Record { pool, driver, scenario, endpoints, page_sizes, page_orders, error, slot: 0, found, findings }
}

/// With 16 endpoints a zeroed dQH takes the SETUP. With fewer a free block does, and bit 15 of the link in it decides
/// (at the bench's usual addresses): it is clear in the first pages of up to 32 KiB, and set in the upper half of a larger
/// one and in the last pages.
macro_rules! descending_everywhere {
    ($($scenario:literal),*) => {
        [$(
            descending($scenario, 4, &[K4, K16], FORWARD, SILENCE),
            descending($scenario, 8, &[K4, K16], FORWARD, SILENCE),
            descending($scenario, 4, &[K64], FORWARD, STALL),
            descending($scenario, 8, &[K64], FORWARD, STALL),
            descending($scenario, 4, &[K4, K16, K64], BACKWARD, STALL),
            descending($scenario, 8, &[K4, K16, K64], BACKWARD, STALL),
            descending($scenario, 16, &[K4, K16, K64], EITHER, SILENCE),
        )*]
    };
}

/// The regression of 2023 in every scenario that runs Linux's driver on the pool. Another number of endpoints than the
/// recorded 4, 8 and 16 is not excused.
const RECORDS: &[Record] = &descending_everywhere![
    "bootloader-to-ethernet",
    "ecm",
    "rndis",
    "fastboot",
    "replug",
    "stall",
    "setup-abort",
    "append",
    "dequeue",
    "disable",
    "surprise",
    "suspend",
    "short-packets",
    "foreign-in",
    "fail-alloc"
];

/// The defect on record for this run's pool, driver, scenario, endpoints and pages.
#[must_use]
pub fn record_of(run: &Run) -> Option<&'static Record> {
    let endpoints = run.has_controller.then_some(run.variant.endpoints);
    let records = RECORDS.iter().chain(two_pages::RECORDS.iter().flatten());
    records.filter(|_| run.mask_bits == LOW_BITS).find(|record| {
        record.pool == run.pool
            && record.driver == run.driver
            && record.scenario == run.scenario
            && record.endpoints == endpoints
            && record.page_sizes.contains(&run.variant.page_size)
            && record.page_orders.contains(&run.page_order)
    })
}

impl Record {
    /// Whether the run broke in just this way.
    fn fits(&self, run: &Run) -> bool {
        let error = run.failure.as_ref().is_some_and(|failure| failure.error == self.error);
        let names: BTreeSet<&str> = run.findings.iter().map(Finding::name).collect();
        let layout = run.findings.iter().find_map(|finding| match finding {
            Finding::LayoutContract(layout) => Some(layout),
            _ => None,
        });
        let slot = layout.is_some_and(|layout| layout.slot == self.slot && self.found.fits(&layout.found));
        error && slot && names.into_iter().eq(self.findings.iter().copied())
    }
}

impl InSlot {
    fn fits(self, found: &Found) -> bool {
        match (found, self) {
            (Found::Claimed(owner), Self::Object(name)) => owner.to_string() == name,
            (Found::FreeBlock(..), Self::FreeBlock)
            | (Found::PoolMemory(_), Self::NoBlock)
            | (Found::Unmapped, Self::Unmapped) => true,
            _ => false,
        }
    }
}

/// How a run stands against the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Nothing wrong, nothing on record.
    Pass,
    /// It is not judged, and says what it saw.
    Reported,
    /// It showed what its scenario declares of such a pool.
    Declared,
    /// It failed as the record says.
    KnownBad,
    /// It failed, and not as a record says; or a pass where the record says it fails.
    Broken,
}

/// Holds a run against the records. Without `excuse` nothing is excused.
#[must_use]
pub fn status(run: &Run, excuse: bool) -> Status {
    if run.verdict == Verdict::NotJudged {
        return Status::Reported;
    }
    let record = record_of(run).filter(|_| excuse);
    match (run.is_broken(), record) {
        (false, None) if run.verdict == Verdict::AsDeclared => Status::Declared,
        (false, None) => Status::Pass,
        (true, Some(record)) if record.fits(run) => Status::KnownBad,
        (true, Some(_)) => Status::Broken,
        (true, None) | (false, Some(_)) => Status::Broken,
    }
}
