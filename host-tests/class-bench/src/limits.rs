//! What a microcontroller's USB peripheral can do.

use usb::Speed;

/// A peripheral's limits, which `alloc_ep` keeps to.
///
/// Only what the hardware cannot do is refused; what USB does not allow, [`crate::ch9`] reports.
///
/// ```
/// use usb_class_bench::Limits;
///
/// // STM32F103: eight endpoint numbers, 512 bytes of packet memory, of which the buffer table takes 64.
/// let stm32f103 = Limits { endpoints_in: 8, endpoints_out: 8, packet_memory: Some(512 - 64), ..Limits::full_speed() };
/// assert_eq!(stm32f103.max_packet0, 64);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The fastest speed.
    pub speed: Speed,
    /// Endpoint numbers for IN, endpoint 0 included: 1 to 16.
    pub endpoints_in: u8,
    /// Endpoint numbers for OUT, endpoint 0 included: 1 to 16.
    pub endpoints_out: u8,
    /// Memory for the packets of all endpoints, both directions of endpoint 0 included, in bytes; `None`: enough.
    pub packet_memory: Option<usize>,
    /// The largest packet of endpoint 0, in bytes.
    pub max_packet0: u16,
    /// The largest packet of a bulk or interrupt endpoint, in bytes.
    pub max_packet: u16,
    /// The largest packet of an isochronous endpoint, in bytes; 0: it has none.
    pub max_packet_isochronous: u16,
    /// Whether both directions of an endpoint number have the same transfer type, as one register holds it.
    pub one_type_per_number: bool,
}

impl Limits {
    /// All that USB 2.0 allows at full speed (§5.5.3, §5.6.3, §5.7.3, §5.8.3).
    #[must_use]
    pub const fn full_speed() -> Self {
        Self {
            speed: Speed::Full,
            endpoints_in: 16,
            endpoints_out: 16,
            packet_memory: None,
            max_packet0: 64,
            max_packet: 64,
            max_packet_isochronous: 1023,
            one_type_per_number: false,
        }
    }

    /// All that USB 2.0 allows at high speed, without additional transactions in a microframe.
    #[must_use]
    pub const fn high_speed() -> Self {
        Self { speed: Speed::High, max_packet: 1024, max_packet_isochronous: 1024, ..Self::full_speed() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::full_speed()
    }
}
