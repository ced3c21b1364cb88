//! What is at an address, in words that do not depend on where memory lies.

use std::fmt;

use bus::{DmaAddr, Owner};

use super::Ledger;

/// What is at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The driver's claim on it, and the offset from the claim's begin in bytes.
    pub claim: Option<(Owner, u64)>,
    /// The pool whose page it is, with the number of the page in the order of addresses, and the offset in the page in
    /// bytes.
    pub pool: Option<(String, usize, u64)>,
    /// Whether it is in use: a block that was handed out, or a mapping.
    pub in_use: bool,
}

impl Ledger {
    /// What is at `addr`; `None` where nothing is mapped for the device.
    #[must_use]
    pub fn place(&self, addr: DmaAddr) -> Option<Place> {
        let state = self.state.lock();
        if let Some(page) = state.map.pool_page(addr.0) {
            let block = page.block(addr.0).filter(|block| block.is_live() && block.contains(addr.0));
            let earlier = state.map.pool_pages().filter(|other| other.pool == page.pool && other.base < page.base);
            return Some(Place {
                claim: block.and_then(|block| Some((block.owner?, addr.0 - block.start))),
                pool: Some((state.pools[page.pool].name.clone(), earlier.count(), addr.0 - page.base)),
                in_use: block.is_some(),
            });
        }
        let mut mappings = state.map.mappings_at(addr.0).peekable();
        mappings.peek()?;
        let mut claims = mappings.flat_map(|mapping| &mapping.claims);
        let claim = claims.find(|&&(start, len, _)| addr.0.wrapping_sub(start) < len);
        Some(Place { claim: claim.map(|&(start, _, owner)| (owner, addr.0 - start)), pool: None, in_use: true })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.claim, &self.pool) {
            (Some((owner, offset)), _) => {
                write!(f, "{owner}")?;
                if *offset != 0 {
                    write!(f, "+{offset:#x}")?;
                }
                Ok(())
            }
            (None, Some((pool, page, offset))) => {
                write!(f, "{pool}[{page}]+{offset:#x}")?;
                f.write_str(if self.in_use { "" } else { " (free)" })
            }
            (None, None) => f.write_str("an unnamed mapping"),
        }
    }
}
