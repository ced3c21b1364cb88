//! Endpoints as a function declares them: one descriptor for each speed.

use usb::ch9::EndpointDescriptor;
use usb::gadget::{Stall, Udc};
use usb::{EndpointAddress, Speed, TransferType};

/// An endpoint at full and at high speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    full: EndpointDescriptor,
    high: EndpointDescriptor,
}

impl Endpoint {
    /// A bulk endpoint: 64 bytes at full, 512 at high speed (USB 2.0 §5.8.3).
    #[must_use]
    pub const fn bulk(address: EndpointAddress) -> Self {
        Self {
            full: EndpointDescriptor::new(address, TransferType::Bulk, 64, 0),
            high: EndpointDescriptor::new(address, TransferType::Bulk, 512, 0),
        }
    }

    /// An interrupt endpoint of `max_packet` bytes, polled every `milliseconds` (1 to 255) at full speed and every
    /// 2^(n-1) microframes, the largest such time within `milliseconds`, at high speed (USB 2.0 §9.6.6; Linux:
    /// `USB_MS_TO_HS_INTERVAL`).
    #[must_use]
    pub const fn interrupt(address: EndpointAddress, max_packet: u16, milliseconds: u8) -> Self {
        const MICROFRAMES: u32 = 8;
        let milliseconds = if milliseconds == 0 { 1 } else { milliseconds };
        let exponent = (milliseconds as u32 * MICROFRAMES).ilog2() as u8 + 1;
        Self {
            full: EndpointDescriptor::new(address, TransferType::Interrupt, max_packet, milliseconds),
            high: EndpointDescriptor::new(address, TransferType::Interrupt, max_packet, exponent),
        }
    }

    /// Its address.
    #[must_use]
    pub const fn address(&self) -> EndpointAddress {
        self.full.endpoint()
    }

    /// The descriptor at `speed`.
    #[must_use]
    pub fn at(&self, speed: Speed) -> &EndpointDescriptor {
        if speed == Speed::High { &self.high } else { &self.full }
    }
}

/// Enables two endpoints, or none, at the bus's speed, which it returns.
pub(crate) fn enable_both(udc: &mut dyn Udc, first: &Endpoint, second: &Endpoint) -> Result<Speed, Stall> {
    let speed = udc.speed().unwrap_or(Speed::Full);
    udc.enable(first.at(speed)).map_err(|_| Stall)?;
    if udc.enable(second.at(speed)).is_err() {
        // What was enabled a moment ago can be disabled; there is nobody to tell otherwise.
        let _ = udc.disable(first.address());
        return Err(Stall);
    }
    Ok(speed)
}

/// Disables two endpoints. After a bus reset the driver may have done so already.
pub(crate) fn disable_both(udc: &mut dyn Udc, first: &Endpoint, second: &Endpoint) {
    let _ = udc.disable(first.address());
    let _ = udc.disable(second.address());
}
