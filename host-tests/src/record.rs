//! Recorded defects: failures that are known, so that a plain check speaks of news only.

use std::collections::BTreeSet;

use pool::{Finding, Found};

use crate::run::Run;

/// A defect on record. Another failure of the same run, or a pass, is news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Name of the pool.
    pub pool: &'static str,
    /// Name of the scenario.
    pub scenario: &'static str,
    /// Endpoint numbers of the controller.
    pub endpoints: u8,
    /// Page sizes in bytes.
    pub page_sizes: &'static [u64],
    /// The failure, word for word.
    pub error: &'static str,
    /// What the layout contract's first difference finds in slot 0: the driver's object of this name, or `None` for memory
    /// of the pool that is free.
    pub found: Option<&'static str>,
    /// Names of all its findings, in alphabetical order.
    pub findings: &'static [&'static str],
}

const SILENCE: &str = "device descriptor read/64, error -110";
const STALL: &str = "device descriptor read/64, error -32";

const fn descending(scenario: &'static str, endpoints: u8, page_sizes: &'static [u64], error: &'static str) -> Record {
    let (found, findings): (_, &[_]) = if endpoints == 16 {
        (Some("ep15 IN dQH"), &["LayoutContract"])
    } else {
        (None, &["LayoutContract", "ReadOfFreedBlock", "WriteToFreedBlock"])
    };
    Record { pool: "linked-descending", scenario, endpoints, page_sizes, error, found, findings }
}

/// With 16 endpoints a zeroed dQH takes the SETUP. With fewer a free block does, and bit 15 of the link in it decides
/// (at the bench's usual addresses): it is clear in pages of up to 32 KiB, and set in the upper half of a larger one.
macro_rules! descending_everywhere {
    ($($scenario:literal),*) => {
        [$(
            descending($scenario, 4, &[4 << 10, 16 << 10], SILENCE),
            descending($scenario, 8, &[4 << 10, 16 << 10], SILENCE),
            descending($scenario, 4, &[64 << 10], STALL),
            descending($scenario, 8, &[64 << 10], STALL),
            descending($scenario, 16, &[4 << 10, 16 << 10, 64 << 10], SILENCE),
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
    "foreign-in"
];

/// The defect on record for this run's pool, scenario, endpoints and page size.
#[must_use]
pub fn record_of(run: &Run) -> Option<&'static Record> {
    RECORDS.iter().find(|record| {
        record.pool == run.pool
            && record.scenario == run.scenario
            && record.endpoints == run.variant.endpoints
            && record.page_sizes.contains(&run.variant.page_size)
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
        let slot = layout.is_some_and(|layout| {
            let found = match (&layout.found, self.found) {
                (Found::Claimed(owner), Some(name)) => owner.to_string() == name,
                (Found::FreeBlock(..), None) => true,
                _ => false,
            };
            layout.slot == 0 && found
        });
        error && slot && names.into_iter().eq(self.findings.iter().copied())
    }
}

/// How a run stands against the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Nothing wrong, nothing on record.
    Pass,
    /// It failed as the record says.
    KnownBad,
    /// It failed, and not as a record says; or a pass where the record says it fails.
    Broken,
}

/// Holds a run against the records. Without `excuse` nothing is excused.
#[must_use]
pub fn status(run: &Run, excuse: bool) -> Status {
    let record = record_of(run).filter(|_| excuse);
    match (run.is_broken(), record) {
        (false, None) => Status::Pass,
        (true, Some(record)) if record.fits(run) => Status::KnownBad,
        (true, Some(_)) => Status::Broken,
        (true, None) | (false, Some(_)) => Status::Broken,
    }
}
