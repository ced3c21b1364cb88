//! Endpoints as the controller numbers them.

use std::fmt;

use usb::{Direction, EndpointAddress};

/// One direction of one endpoint: 2·endpoint + (IN ? 1 : 0), its place in the dQH table. Below 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u8);

impl Slot {
    pub(crate) const fn new(endpoint: u8, direction: Direction) -> Self {
        Self((endpoint & 15) << 1 | matches!(direction, Direction::In) as u8)
    }

    /// From the bit number in PRIME, FLUSH, STAT and COMPLETE: n for OUT n, n + 16 for IN n.
    pub(crate) const fn from_bit(bit: u32) -> Self {
        Self(((bit & 15) << 1 | (bit >> 4 & 1)) as u8)
    }

    /// From its place in the dQH table, below 32.
    pub(crate) const fn from_number(number: u8) -> Self {
        Self(number & 31)
    }

    pub(crate) const fn bit(self) -> u32 {
        1 << (self.0 >> 1 | (self.0 & 1) << 4)
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) const fn number(self) -> u32 {
        self.0 as u32
    }

    pub(crate) const fn endpoint(self) -> u8 {
        self.0 >> 1
    }

    pub(crate) const fn is_in(self) -> bool {
        self.0 & 1 == 1
    }

    pub(crate) const fn address(self) -> EndpointAddress {
        EndpointAddress {
            number: self.endpoint(),
            direction: if self.is_in() { Direction::In } else { Direction::Out },
        }
    }
}

impl fmt::Display for Slot {
    /// `ep1 IN`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ep{} {}", self.endpoint(), if self.is_in() { "IN" } else { "OUT" })
    }
}
