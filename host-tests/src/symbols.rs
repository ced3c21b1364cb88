//! Trace events in symbols: names where an address would stand.

use std::any::Any;
use std::fmt::Write as _;

use bus::{DmaAddr, Event};
use devices::DmaEvent;
use pool::{Ledger, Place};
use usb::wire::Packet;

use crate::schedule::{Begins, StepTaken};
use crate::sides;
use crate::trace::HostLine;

/// Page pointers of one buffer follow each other at this distance.
const PAGE: u32 = 4096;

/// The event with every address of known memory replaced by what is there, and a note where the driver means the memory
/// to be something else than the device believes. Two pools that differ in order give lines that differ in what matters.
pub(crate) fn symbolic(event: &dyn Event, ledger: &Ledger) -> String {
    match (event as &dyn Any).downcast_ref::<DmaEvent>() {
        Some(access) => memory_access(access, ledger),
        None => register_access(event, ledger),
    }
}

/// Who acts in an event.
pub(crate) fn actor(event: &dyn Event) -> &'static str {
    let event = event as &dyn Any;
    if event.is::<DmaEvent>() {
        "device"
    } else if event.is::<Packet>() {
        "wire"
    } else if event.is::<HostLine>() {
        "host"
    } else if event.is::<StepTaken>() || event.is::<Begins>() {
        "race"
    } else {
        "driver"
    }
}

/// The value of a register that takes an address is one; other registers have numbers that may look like addresses.
fn register_access(event: &dyn Event, ledger: &Ledger) -> String {
    let text = event.to_string();
    if !sides::takes_address(&text) {
        return text;
    }
    let split = text.rsplit_once("= ").and_then(|(head, word)| Some((head, u32::from_str_radix(word, 16).ok()?)));
    let place = split.and_then(|(head, word)| Some((head, place(word, ledger)?)));
    match place {
        Some((head, place)) => format!("{head}= [{place}{}]", at(&place)),
        None => text,
    }
}

fn memory_access(event: &DmaEvent, ledger: &Ledger) -> String {
    let belief = event.access.belief;
    let verb = match event.access.kind {
        bus::AccessKind::Read => "read ",
        bus::AccessKind::Write => "write",
    };
    let is_words = sides::is_descriptor(belief) && event.data.len().is_multiple_of(4);
    let mut text =
        if is_words { format!("{verb} {belief} ={}", words(&event.data, ledger)) } else { event.to_string() };
    match ledger.place(event.access.addr) {
        Some(Place { claim: Some((owner, _)), .. }) if sides::agree(belief, owner) => {}
        Some(place) => {
            let whose = place.claim.map_or_else(|| "free".to_owned(), |(owner, _)| format!("the driver's {owner}"));
            let _ = write!(text, "   <- {whose}{}", at(&place));
        }
        None => text.push_str("   <- not mapped"),
    }
    text
}

fn words(data: &[u8], ledger: &Ledger) -> String {
    let mut text = String::new();
    let mut before: Option<u32> = None;
    for word in data.chunks_exact(4) {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let follows = before.is_some_and(|before| word == (before & !(PAGE - 1)).wrapping_add(PAGE));
        let _ = match place(word, ledger) {
            _ if follows => write!(text, " +page"),
            Some(place) => write!(text, " [{place}]"),
            None => write!(text, " {word:08x}"),
        };
        before = (word >= PAGE).then_some(word);
    }
    text
}

fn place(word: u32, ledger: &Ledger) -> Option<Place> {
    ledger.place(DmaAddr(u64::from(word)))
}

/// Where in its pool a place is.
fn at(place: &Place) -> String {
    place.pool.as_ref().map_or_else(String::new, |(pool, page, offset)| format!(" at {pool}[{page}]+{offset:#x}"))
}
