//! The defects on record.
//!
//! A pool that descends makes no array at all. Where pages come backward, the second lies below the first whatever the pool does, and behind the first
//! memory ends.

use pool::PageOrder;

use super::{CLIENT, NAME};
use crate::record::{InSlot, Record};

const FORWARD: &[PageOrder] = &[PageOrder::Forward];
const BACKWARD: &[PageOrder] = &[PageOrder::Backward];
const OUTSIDE_AND_UNMAPPED: &[&str] = &["LayoutContract", "OutsideBlocks", "Unmapped"];
const FREED: &[&str] = &["LayoutContract", "ReadOfFreedBlock", "Unmapped", "WriteToFreedBlock"];
const UNMAPPED: &[&str] = &["LayoutContract", "Unmapped"];

/// What the client says when so many entries are answered, of those of a page and a half.
macro_rules! answered {
    ($answered:literal of $count:literal) => {
        concat!($answered, " of ", $count, " entries are answered")
    };
}

/// The records of one page size, with `$page` entries in a page.
macro_rules! with_pages {
    (
        $bytes:literal, $page:literal, last $last:literal, entries $count:literal,
        descending $descending:literal
    ) => {
        [
            record("linked-descending", &[$bytes], FORWARD, answered!($descending of $count), (1, InSlot::FreeBlock), FREED),
            record("page-list", &[$bytes], BACKWARD, answered!($last of $count), ($last, InSlot::NoBlock), OUTSIDE_AND_UNMAPPED),
            record("linked-descending", &[$bytes], BACKWARD, answered!(1 of $count), (1, InSlot::Unmapped), UNMAPPED),
            record("linked", &[$bytes], BACKWARD, answered!($page of $count), ($page, InSlot::Unmapped), UNMAPPED),
            record("external-list", &[$bytes], BACKWARD, answered!($page of $count), ($page, InSlot::Unmapped), UNMAPPED),
            record("external-bitmap", &[$bytes], BACKWARD, answered!($page of $count), ($page, InSlot::Unmapped), UNMAPPED),
            record("index-stack", &[$bytes], BACKWARD, answered!($page of $count), ($page, InSlot::Unmapped), UNMAPPED),
        ]
    };
}

const fn record(
    pool: &'static str,
    page_sizes: &'static [u64],
    page_orders: &'static [PageOrder],
    error: &'static str,
    (slot, found): (u32, InSlot),
    findings: &'static [&'static str],
) -> Record {
    let (driver, scenario, endpoints) = (CLIENT, NAME, None);
    Record { pool, driver, scenario, endpoints, page_sizes, page_orders, error, slot, found, findings }
}

/// By page size.
pub(crate) const RECORDS: &[[Record; 7]] = &[
    with_pages!(4096, 4, last 3, entries 6, descending 3),
    with_pages!(16384, 16, last 15, entries 24, descending 9),
    with_pages!(65536, 64, last 63, entries 96, descending 33),
];
