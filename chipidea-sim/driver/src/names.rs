//! What the driver calls its memory: the claims that it registers after allocation.

use std::fmt;

use bus::Kind;
use usb::{Direction, EndpointAddress};

/// A dQH; its index is the slot, 2·endpoint + (IN ? 1 : 0).
pub static DQH: Kind = Kind { name: "dQH", label: |slot, f| write!(f, "{} dQH", endpoint_of(slot)) };

/// A dTD; its index is slot << 16 | running number.
pub static DTD: Kind = Kind { name: "dTD", label: label_dtd };

/// A request's buffer; its index is the endpoint's slot.
pub static BUFFER: Kind = Kind { name: "buffer", label: |slot, f| write!(f, "{} buffer", endpoint_of(slot)) };

fn label_dtd(index: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{} dTD {}", endpoint_of(index >> 16), index & 0xffff)
}

/// An endpoint's slot.
#[must_use]
pub const fn slot_of(endpoint: EndpointAddress) -> u32 {
    2 * endpoint.number as u32 + matches!(endpoint.direction, Direction::In) as u32
}

/// The endpoint of a slot.
#[must_use]
pub const fn endpoint_of(slot: u32) -> EndpointAddress {
    // Slots are below 32.
    let number = (slot / 2) as u8;
    if slot.is_multiple_of(2) { EndpointAddress::out(number) } else { EndpointAddress::r#in(number) }
}

#[cfg(test)]
mod tests {
    use bus::Owner;

    use super::*;

    #[test]
    fn claims_have_the_fields_names() {
        assert_eq!(Owner::new(&DQH, 0).to_string(), "ep0 OUT dQH");
        assert_eq!(Owner::new(&DTD, 3 << 16 | 2).to_string(), "ep1 IN dTD 2");
        assert_eq!(Owner::new(&BUFFER, slot_of(EndpointAddress::r#in(1))).to_string(), "ep1 IN buffer");
    }
}
