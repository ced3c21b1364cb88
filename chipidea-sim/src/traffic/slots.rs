//! dQHs and dTDs as the controller finds them in memory.

use bus::AccessKind;
use devices::DmaEvent;
use zerocopy::FromBytes;

use crate::descriptor::{Dtd, Token};
use crate::kinds::{DQH, DTD};
use crate::slot::Slot;

use super::names;

/// What the controller found or left in memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found {
    /// The first word of a dQH.
    Capabilities(u32),
    /// A dTD at an address, that became the current one.
    Loaded(u64, Dtd),
    /// The token of a dTD that is done.
    Retired(Token),
    /// The next pointer of one.
    Next(u32),
}

/// Whether an access shows something of the driver's doing.
pub(super) fn is_told(event: &DmaEvent) -> bool {
    found(event).is_some()
}

/// What it shows, and of which slot.
pub(super) fn found(event: &DmaEvent) -> Option<(Slot, Found)> {
    use AccessKind::{Read, Write};
    let belief = event.access.belief;
    let word = || u32::read_from_prefix(&event.data).ok().map(|(word, _)| u32::from_le(word));
    let found = match (belief.kind.name, event.access.kind, belief.field) {
        (name, Read, "capabilities" | "") if name == DQH.name => Found::Capabilities(word()?),
        (name, Read, "") if name == DTD.name => {
            Found::Loaded(event.access.addr.0, Dtd::read_from_bytes(&event.data).ok()?)
        }
        (name, Write, "token") if name == DTD.name => Found::Retired(Token::from_bits(word()?)),
        (name, Read, "next") if name == DTD.name => Found::Next(word()?),
        _ => return None,
    };
    let slot = if belief.kind.name == DTD.name { belief.index >> 16 } else { belief.index };
    // A slot's number has five bits.
    Some((Slot::from_number((slot & 31) as u8), found))
}

/// What is known of a slot.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    /// Capabilities that it had, each once in a row.
    pub(super) capabilities: Vec<u32>,
    /// Address of the dTD that it had last, since it was flushed.
    last: Option<u64>,
    /// The control transfer in which its bit of ENDPTCOMPLETE was set.
    pub(super) completed_in: usize,
}

impl View {
    pub(super) fn saw_capabilities(&mut self, capabilities: u32) {
        if self.capabilities.last() != Some(&capabilities) {
            self.capabilities.push(capabilities);
        }
    }

    pub(super) fn flushed(&mut self) {
        self.last = None;
    }

    /// A dTD in words.
    pub(super) fn loaded(&mut self, address: u64, dtd: &Dtd) -> String {
        let which = match self.last.replace(address) {
            None => "dTD",
            Some(last) if last == address => "dTD again",
            Some(_) => "another dTD",
        };
        format!(
            "{which}: next {}, token {:08x}, {}",
            names::link(dtd.next.get()),
            dtd.token.get(),
            names::pages(dtd.pages.map(|page| page.get()))
        )
    }
}
