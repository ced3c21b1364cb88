//! Buffers of a slab in a frame of memory.

use super::map::FRAME;

/// Every buffer begins at a multiple of this, the smallest class of a slab.
const GRANULE: u64 = 32;

/// The buffers in one frame, a bit for every 32 bytes.
#[derive(Default)]
pub(super) struct Buffers {
    live: u128,
    /// Where live buffers begin.
    begins: u128,
    freed: u128,
}

/// What an access finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Buffer {
    /// Nothing of a slab.
    None,
    /// It lies in one live buffer.
    Live,
    /// It begins in a live buffer, or comes from one, and that ends after so many bytes.
    EndsAfter(u64),
    /// It begins in a buffer that was freed.
    Freed,
}

/// The bits of `len` bytes from `offset`, within the frame.
const fn bits(offset: u64, len: u64) -> u128 {
    let first = offset / GRANULE;
    let last = (offset + len.saturating_sub(1)) / GRANULE;
    (u128::MAX << first) & (u128::MAX >> (FRAME / GRANULE - 1 - last))
}

impl Buffers {
    /// Records a buffer's part in this frame.
    pub(super) fn give(&mut self, offset: u64, len: u64, begins: bool) {
        let bits = bits(offset, len);
        self.live |= bits;
        self.freed &= !bits;
        self.begins &= !bits;
        if begins {
            self.begins |= 1 << (offset / GRANULE);
        }
    }

    /// Records that it is freed, and whether its memory stays the slab's.
    pub(super) fn take_back(&mut self, offset: u64, len: u64, stays: bool) {
        let bits = bits(offset, len);
        self.live &= !bits;
        self.begins &= !bits;
        if stays {
            self.freed |= bits;
        } else {
            self.freed &= !bits;
        }
    }

    /// Live buffers that begin in this frame.
    pub(super) const fn live(&self) -> usize {
        self.begins.count_ones() as usize
    }

    /// What `len` bytes at `offset` are; `inside`: the bytes before them are in a live buffer.
    pub(super) const fn at(&self, offset: u64, len: u64, inside: bool) -> Buffer {
        let bits = bits(offset, len);
        let first = 1 << (offset / GRANULE);
        if inside && (self.begins & first != 0 || self.live & first == 0) {
            return Buffer::EndsAfter(0);
        }
        if self.live & first == 0 {
            return if self.freed & first == 0 { Buffer::None } else { Buffer::Freed };
        }
        let beyond = (self.begins & !first | !self.live) & bits;
        if beyond == 0 { Buffer::Live } else { Buffer::EndsAfter(beyond.trailing_zeros() as u64 * GRANULE - offset) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_told_apart() {
        let mut frame = Buffers::default();
        frame.give(0, 64, true);
        frame.give(64, 64, true);
        frame.give(FRAME - 32, 32, true);
        assert_eq!(frame.live(), 3);
        assert_eq!(frame.at(0, 64, false), Buffer::Live);
        assert_eq!(frame.at(40, 24, false), Buffer::Live);
        assert_eq!(frame.at(40, 25, false), Buffer::EndsAfter(24));
        assert_eq!(frame.at(100, 29, false), Buffer::EndsAfter(28));
        assert_eq!(frame.at(128, 1, false), Buffer::None);
        assert_eq!(frame.at(FRAME - 1, 1, false), Buffer::Live);
        assert_eq!(frame.at(0, 4, true), Buffer::EndsAfter(0));
        assert_eq!(frame.at(32, 4, true), Buffer::Live);
        frame.take_back(64, 64, true);
        assert_eq!(frame.at(127, 1, false), Buffer::Freed);
        assert_eq!(frame.at(63, 2, false), Buffer::EndsAfter(1));
        frame.give(64, 32, true);
        frame.take_back(0, 64, false);
        assert_eq!((frame.at(0, 4, false), frame.at(64, 32, false)), (Buffer::None, Buffer::Live));
        assert_eq!(frame.live(), 2);
    }
}
