//! Base address registers in configuration space (PCI §6.2.5.1).

use super::config::{Bar, PciConfig};
use super::header::{BARS, Space};

/// Type, bits 2:1: anywhere in 64 bits.
const WIDE: u32 = 0b10 << 1;
const PREFETCHABLE: u32 = 1 << 3;

/// The address bits below the size read 0, so that all ones written read back as the size. Absent BARs, and the
/// expansion ROM's, read 0 whatever is written.
pub(super) fn lay_out(space: &mut Space, config: &PciConfig) {
    for (number, bar) in config.bars.iter().enumerate() {
        let Some(Bar { size, wide, prefetchable, .. }) = *bar else { continue };
        let kind = if wide { WIDE } else { 0 } | if prefetchable { PREFETCHABLE } else { 0 };
        let mask = !(size - 1);
        // The mask's halves.
        space.put32(BARS + 4 * number, kind, mask as u32);
        if wide {
            space.put32(BARS + 4 * number + 4, 0, (mask >> 32) as u32);
        }
    }
}
