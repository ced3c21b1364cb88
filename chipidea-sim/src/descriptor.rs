//! dQH and dTD as they lie in memory (Linux: `struct ci_hw_qh` and `struct ci_hw_td`, `drivers/usb/chipidea/udc.h`).

use bitfield_struct::bitfield;
use bus::DmaAddr;
use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// dQH +0: what the endpoint can do.
#[bitfield(u32)]
pub(crate) struct Capabilities {
    #[bits(15)]
    __: u32,
    /// IOS: interrupt on SETUP.
    pub interrupt_on_setup: bool,
    /// Largest packet in bytes.
    #[bits(11)]
    pub max_packet: u16,
    #[bits(2)]
    __: u8,
    /// ZLT: *no* automatic zero-length packet.
    pub no_zero_packet: bool,
    /// Mult: packets in a microframe, for isochronous endpoints.
    #[bits(2)]
    pub mult: u8,
}

/// dTD +4.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub(crate) struct Token {
    #[bits(3)]
    __: u8,
    /// TR_ERR: an isochronous dTD was not carried out in full.
    pub transaction_error: bool,
    __: bool,
    /// DT_ERR: data buffer error: an overflow, or a memory access failed.
    pub data_error: bool,
    /// HALTED.
    pub halted: bool,
    /// ACTIVE.
    pub active: bool,
    #[bits(2)]
    __: u8,
    /// MultO: overrides Mult of the dQH on isochronous IN endpoints.
    #[bits(2)]
    pub mult_override: u8,
    #[bits(3)]
    __: u8,
    /// IOC.
    pub interrupt_on_complete: bool,
    /// Bytes still to move.
    #[bits(15)]
    pub total_bytes: u16,
    __: bool,
}

/// A pointer to a dTD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link(pub(crate) u32);

impl Link {
    /// The dTD's address, 32-byte aligned; `None` if T (bit 0) ends the list.
    pub(crate) const fn target(self) -> Option<u32> {
        if self.0 & 1 == 1 { None } else { Some(self.0 & !0x1f) }
    }
}

/// A dTD, 28 bytes; also the overlay of a dQH.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Dtd {
    /// Address of the next one; bit 0 (T) ends the list.
    pub(crate) next: U32,
    pub(crate) token: U32,
    /// Page 0 keeps its offset in bits 11:0; the others are 4 KiB aligned.
    pub(crate) pages: [U32; 5],
}

const _: () = assert!(size_of::<Dtd>() == 28);

/// A dQH up to its overlay, 36 bytes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct QueueHead {
    pub(crate) capabilities: U32,
    pub(crate) current: U32,
    pub(crate) overlay: Dtd,
}

const _: () = assert!(size_of::<QueueHead>() == 36);

/// Byte offsets in a dQH.
pub(crate) mod dqh {
    /// Distance from one dQH to the next.
    pub(crate) const STRIDE: u64 = 64;
    pub(crate) const CAPABILITIES: u64 = 0;
    pub(crate) const CURRENT: u64 = 4;
    pub(crate) const OVERLAY: u64 = 8;
    pub(crate) const SETUP: u64 = 40;
}

/// Byte offsets in a dTD, and in an overlay.
pub(crate) mod dtd {
    pub(crate) const NEXT: u64 = 0;
    pub(crate) const TOKEN: u64 = 4;
}

const PAGE: u32 = 0x1000;

/// Five page pointers that walk on as bytes are moved: page 0 is the one in use, with its offset.
///
/// When a page is used up the others move down. The overlay in memory is thus all there is to know about a transfer
/// that is under way. Past the fifth page the fifth is used again (**D**: the manual calls it undefined).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pages([u32; 5]);

impl Pages {
    pub(crate) fn of(overlay: &Dtd) -> Self {
        Self(overlay.pages.map(U32::get))
    }

    /// The pointer to the page behind that of `pointer`, as a buffer in one piece has it.
    pub(crate) const fn following(pointer: u32) -> u32 {
        (pointer & !(PAGE - 1)).wrapping_add(PAGE)
    }

    pub(crate) fn store(self, overlay: &mut Dtd) {
        overlay.pages = self.0.map(U32::new);
    }

    /// Takes up to `len` bytes that lie in one piece: where, and how many (at least one if `len` is not 0).
    pub(crate) fn take(&mut self, len: usize) -> (DmaAddr, usize) {
        let start = DmaAddr(u64::from(self.0[0]));
        let mut taken = 0;
        while taken < len {
            let page = self.0[0] & !(PAGE - 1);
            let offset = self.0[0] & (PAGE - 1);
            let part = (len - taken).min((PAGE - offset) as usize);
            taken += part;
            if offset + (part as u32) < PAGE {
                self.0[0] += part as u32;
                break;
            }
            self.0.copy_within(1.., 0);
            self.0[0] &= !(PAGE - 1);
            if page.checked_add(PAGE) != Some(self.0[0]) {
                break;
            }
        }
        (start, taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_in_one_piece_are_taken_together() {
        let mut pages = Pages([0x1ff0, 0x2000, 0x3000, 0x9000, 0xa000]);
        assert_eq!(pages.take(0x20), (DmaAddr(0x1ff0), 0x20));
        assert_eq!(pages.take(0x2000), (DmaAddr(0x2010), 0x1ff0));
        assert_eq!(pages.take(0x10), (DmaAddr(0x9000), 0x10));
    }

    #[test]
    fn the_low_bits_of_later_pages_are_dropped() {
        let mut pages = Pages([0x1fff, 0x5abc, 0, 0, 0]);
        assert_eq!(pages.take(2), (DmaAddr(0x1fff), 1));
        assert_eq!(pages.take(1), (DmaAddr(0x5000), 1));
    }

    #[test]
    fn past_the_fifth_page_the_fifth_is_used_again() {
        let mut pages = Pages([0x1000, 0x3000, 0x5000, 0x7000, 0x9000]);
        for page in [0x1000, 0x3000, 0x5000, 0x7000, 0x9000, 0x9000, 0x9000] {
            assert_eq!(pages.take(0x2000), (DmaAddr(page), 0x1000));
        }
    }

    #[test]
    fn the_last_page_below_4_gib_does_not_run_on() {
        let mut pages = Pages([0xffff_f000, 0, 0, 0, 0]);
        assert_eq!(pages.take(0x2000), (DmaAddr(0xffff_f000), 0x1000));
    }
}
