//! `scatter`: every block on a page of its own.
//!
//! What a client reaches behind a block is another page, and soon nobody's. A page stays with its block: a block that is
//! freed comes again, with its page, before another page is asked for.

use super::checked::{Checked, From, Places, SMALLEST, Stack};
use crate::policy::Policy;
use crate::pool::Metadata;

pub(super) const ABOUT: &str = "hostile: every block on a page of its own";

pub(super) fn policy() -> Policy {
    Policy::new("scatter", ABOUT, Metadata::OutOfBand, SMALLEST, |memory, source, geometry| {
        let places = (Places::First, From::Anywhere);
        Ok(Box::new(Checked::new(memory, source, geometry, places, |_| Stack::default())?))
    })
}
