//! `high`: pages from the highest addresses that the device's DMA mask allows, above 4 GiB if it does.
//!
//! Inside a page blocks come in ascending order: only the addresses are unusual. A client that keeps 32 bits of an address
//! has said by its mask that it needs no more, or is found here.

use super::checked::{Checked, From, Places, SMALLEST, Stack};
use crate::policy::Policy;
use crate::pool::Metadata;

pub(super) const ABOUT: &str =
    "hostile: pages from the highest addresses that the DMA mask allows, above 4 GiB if it does";

pub(super) fn policy() -> Policy {
    let mut policy = Policy::new("high", ABOUT, Metadata::OutOfBand, SMALLEST, |memory, source, geometry| {
        let places = (Places::Every, From::Highest);
        Ok(Box::new(Checked::new(memory, source, geometry, places, |_| Stack::default())?))
    });
    policy.goes_high = true;
    policy
}
