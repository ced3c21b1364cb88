//! Recorded defects: failures that are known, so that a plain check speaks of news only.

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
    /// Name of the finding that explains it.
    pub finding: &'static str,
}

const SILENCE: &str = "device descriptor read/64, error -110";
const STALL: &str = "device descriptor read/64, error -32";

const fn descending(scenario: &'static str, endpoints: u8, page_sizes: &'static [u64], error: &'static str) -> Record {
    Record { pool: "linked-descending", scenario, endpoints, page_sizes, error, finding: "LayoutContract" }
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
const RECORDS: &[Record] =
    &descending_everywhere!["bootloader-to-ethernet", "ecm", "rndis", "fastboot", "replug", "stall"];

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
        (true, Some(record)) => {
            let error = run.failure.as_ref().is_some_and(|failure| failure.error == record.error);
            let finding = run.first_finding().is_some_and(|finding| finding.name() == record.finding);
            if error && finding { Status::KnownBad } else { Status::Broken }
        }
        (true, None) | (false, Some(_)) => Status::Broken,
    }
}
