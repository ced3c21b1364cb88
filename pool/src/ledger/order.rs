//! The order in which a pool handed out its blocks.

use std::fmt;

use bus::DmaAddr;

/// The order of a pool's first allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressOrder {
    /// None or one so far.
    TooFew,
    /// Each `stride` bytes above the one before.
    Ascending {
        /// Distance in bytes.
        stride: u64,
        /// The first block.
        from: DmaAddr,
    },
    /// Each `stride` bytes below the one before.
    Descending {
        /// Distance in bytes.
        stride: u64,
        /// The first block.
        from: DmaAddr,
    },
    /// Neither; the first place where it broke.
    Mixed {
        /// The block before.
        before: DmaAddr,
        /// The block that did not follow.
        then: DmaAddr,
    },
}

impl AddressOrder {
    /// The order of `addresses`.
    #[must_use]
    pub fn of(addresses: &[DmaAddr]) -> Self {
        let [first, second, rest @ ..] = addresses else { return Self::TooFew };
        let step = second.0.wrapping_sub(first.0);
        if step == 0 {
            return Self::Mixed { before: *first, then: *second };
        }
        let mut before = *second;
        for &then in rest {
            if then.0.wrapping_sub(before.0) != step {
                return Self::Mixed { before, then };
            }
            before = then;
        }
        if second > first {
            Self::Ascending { stride: step, from: *first }
        } else {
            Self::Descending { stride: step.wrapping_neg(), from: *first }
        }
    }
}

impl fmt::Display for AddressOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFew => f.write_str("too few blocks to speak of an order"),
            Self::Ascending { stride, from } => write!(f, "ascending blocks, {stride} bytes apart, from {from}"),
            Self::Descending { stride, from } => write!(f, "descending blocks, {stride} bytes apart, from {from}"),
            Self::Mixed { before, then } => write!(f, "blocks in no order ({then} after {before})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(addresses: &[u64]) -> AddressOrder {
        AddressOrder::of(&addresses.iter().copied().map(DmaAddr).collect::<Vec<_>>())
    }

    #[test]
    fn orders_are_told_apart() {
        assert_eq!(order(&[0x40]), AddressOrder::TooFew);
        assert_eq!(order(&[0, 0x40, 0x80]), AddressOrder::Ascending { stride: 0x40, from: DmaAddr(0) });
        assert_eq!(order(&[0xfc0, 0xf80]), AddressOrder::Descending { stride: 0x40, from: DmaAddr(0xfc0) });
        assert_eq!(order(&[0x40, 0x40]), AddressOrder::Mixed { before: DmaAddr(0x40), then: DmaAddr(0x40) });
        assert_eq!(order(&[0, 0x40, 0x100]), AddressOrder::Mixed { before: DmaAddr(0x40), then: DmaAddr(0x100) });
    }
}
