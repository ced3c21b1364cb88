//! Who names a piece of memory: the device by what it does, the driver by what it meant.

use std::fmt;

/// A kind of object in memory, such as a dQH or a PRP list. One `static` for each kind.
///
/// Device and driver crates each have their own; they agree when [`Kind::name`] is equal.
#[derive(Debug)]
pub struct Kind {
    /// The specification's name of it, such as `dQH`.
    pub name: &'static str,
    /// Writes the name of the `index`-th of them, such as `ep0 OUT dQH`.
    pub label: fn(index: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result,
}

/// The driver's claim: what it means a block to be. Registered after allocation.
#[derive(Clone, Copy)]
pub struct Owner {
    /// What it is.
    pub kind: &'static Kind,
    /// Which of them.
    pub index: u32,
}

/// The device's belief: what it takes an address for, from registers, slot and order of walk. Always there.
#[derive(Clone, Copy)]
pub struct Belief {
    /// What the device takes it for.
    pub kind: &'static Kind,
    /// Which of them.
    pub index: u32,
    /// Which part of it, such as `setup`; empty for the whole.
    pub field: &'static str,
}

impl Owner {
    /// The claim of the `index`-th `kind`.
    #[must_use]
    pub const fn new(kind: &'static Kind, index: u32) -> Self {
        Self { kind, index }
    }
}

impl Belief {
    /// The belief in `field` of the `index`-th `kind`.
    #[must_use]
    pub const fn new(kind: &'static Kind, index: u32, field: &'static str) -> Self {
        Self { kind, index, field }
    }

    /// The same object as a claim would name it.
    #[must_use]
    pub const fn object(self) -> Owner {
        Owner::new(self.kind, self.index)
    }
}

impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && self.kind.name == other.kind.name
    }
}

impl Eq for Owner {}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.kind.label)(self.index, f)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({self})")
    }
}

impl fmt::Display for Belief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.kind.label)(self.index, f)?;
        if !self.field.is_empty() {
            write!(f, " {}", self.field)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Belief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Belief({self})")
    }
}
