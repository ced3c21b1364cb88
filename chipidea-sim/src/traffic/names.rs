//! Names for what a number points to.

use crate::descriptor::{Link, Pages};
use crate::layout::ENDPTLISTADDR;
use crate::slot::Slot;

/// The slots behind the bits of PRIME, FLUSH, STAT and COMPLETE, OUT first.
pub(super) fn slots(bits: u32) -> impl Iterator<Item = Slot> {
    (0..32).filter(move |bit| bits & 1 << bit != 0).map(Slot::from_bit)
}

/// `ep1 OUT, ep2 IN`, or `all`.
pub(super) fn slot_list(bits: u32) -> String {
    match bits {
        u32::MAX => "all".to_owned(),
        bits => slots(bits).map(|slot| slot.to_string()).collect::<Vec<_>>().join(", "),
    }
}

/// What a driver writes to ENDPTLISTADDR.
pub(super) fn list_address(written: u32) -> String {
    match u64::from(written) & (ENDPTLISTADDR.align - 1) {
        _ if written == 0 || written == u32::MAX => format!("{written:08x}"),
        0 => "dQH table".to_owned(),
        beyond => format!("{beyond:#x} behind a boundary of {} bytes", ENDPTLISTADDR.align),
    }
}

/// A next pointer.
pub(super) fn link(link: u32) -> &'static str {
    if Link(link).target().is_some() { "dTD" } else { "T" }
}

/// The page pointers of a dTD.
pub(super) fn pages(pages: [u32; 5]) -> String {
    if pages == [0; 5] {
        return "no buffer".to_owned();
    }
    match pages.windows(2).take_while(|pair| pair[1] == Pages::following(pair[0])).count() {
        4 => "buffer".to_owned(),
        pages => format!("buffer of which {} pages follow each other", pages + 1),
    }
}
