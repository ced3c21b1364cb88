//! Injected failures of memory accesses: data, never a second copy of a model.

use bus::{Access, AccessKind};

/// What happens to an access that a fault matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultEffect {
    /// The bus reports an error.
    BusError,
    /// The access takes place with these bits of its first byte flipped.
    Flip(u8),
}

/// A pattern over accesses and what happens to those that match. Empty fields match everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmaFault {
    /// Name of the kind of object as the device believes it, such as `dTD`.
    pub kind: Option<&'static str>,
    /// Index of the object as the device believes it.
    pub index: Option<u32>,
    /// Which way.
    pub access: Option<AccessKind>,
    /// Matches to let pass before the first failure.
    pub after: u32,
    /// Failures from there on.
    pub times: u32,
    /// What happens.
    pub effect: FaultEffect,
}

impl DmaFault {
    pub(crate) fn matches(&self, access: &Access) -> bool {
        self.kind.is_none_or(|kind| kind == access.belief.kind.name)
            && self.index.is_none_or(|index| index == access.belief.index)
            && self.access.is_none_or(|kind| kind == access.kind)
    }
}
