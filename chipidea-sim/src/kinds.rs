//! What the controller takes pieces of memory for.

use std::fmt;

use bus::{Belief, DmaAddr, Kind};

use crate::slot::Slot;

/// A queue head (dQH). Index: its slot, 2·endpoint + (IN ? 1 : 0). Label: `ep0 OUT dQH`.
///
/// Fields: `capabilities`, `current dTD`, `next`, `overlay`, `overlay token`, `setup`; empty for capabilities, current
/// dTD and overlay in one read.
pub static DQH: Kind = Kind {
    name: "dQH",
    label: |index, f| {
        endpoint(index, f)?;
        f.write_str(" dQH")
    },
};

/// A transfer descriptor (dTD). Index: slot << 16 | position in the walk since the endpoint was primed, from 0. Label:
/// `ep1 IN dTD 2`.
///
/// Fields: `token`, `next`; empty for the whole.
pub static DTD: Kind = Kind {
    name: "dTD",
    label: |index, f| {
        endpoint(index >> 16, f)?;
        write!(f, " dTD {}", index & 0xffff)
    },
};

/// A transfer's buffer. Index: slot. Label: `ep1 IN buffer`.
pub static BUFFER: Kind = Kind {
    name: "buffer",
    label: |index, f| {
        endpoint(index, f)?;
        f.write_str(" buffer")
    },
};

fn endpoint(slot: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // There are 32.
    write!(f, "{}", Slot::from_number(slot as u8))
}

pub(crate) const fn dqh(slot: Slot, field: &'static str) -> Belief {
    Belief::new(&DQH, slot.number(), field)
}

pub(crate) const fn dtd(slot: Slot, position: u16, field: &'static str) -> Belief {
    Belief::new(&DTD, slot.number() << 16 | position as u32, field)
}

pub(crate) const fn buffer(slot: Slot) -> Belief {
    Belief::new(&BUFFER, slot.number(), "")
}

/// The controller's addresses have 32 bits.
pub(crate) const fn address(bits: u32) -> DmaAddr {
    DmaAddr(bits as u64)
}
