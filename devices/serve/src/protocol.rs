//! The messages of vfio-user as they are on the wire (QEMU 10.1 to 11.1, docs/interop/vfio-user.rst).
//!
//! The protocol has the host's byte order; ours are little-endian.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub(crate) const VERSION: u16 = 1;
pub(crate) const DMA_MAP: u16 = 2;
pub(crate) const DMA_UNMAP: u16 = 3;
pub(crate) const DEVICE_GET_INFO: u16 = 4;
pub(crate) const DEVICE_GET_REGION_INFO: u16 = 5;
pub(crate) const DEVICE_GET_IRQ_INFO: u16 = 7;
pub(crate) const DEVICE_SET_IRQS: u16 = 8;
pub(crate) const REGION_READ: u16 = 9;
pub(crate) const REGION_WRITE: u16 = 10;
pub(crate) const DMA_READ: u16 = 11;
pub(crate) const DMA_WRITE: u16 = 12;
pub(crate) const DEVICE_RESET: u16 = 13;
pub(crate) const REGION_WRITE_MULTI: u16 = 15;

/// The version spoken: 0.1 and below.
pub(crate) const MAJOR: u16 = 0;
pub(crate) const MINOR: u16 = 1;

/// The protocol's default for data in one message, in bytes, and what this service takes.
pub(crate) const MAX_TRANSFER: usize = 1 << 20;
/// The longest message that is taken: data, and what stands before it.
pub(crate) const MAX_MESSAGE: usize = MAX_TRANSFER + 4096;
/// Descriptors in one message.
pub(crate) const MAX_DESCRIPTORS: usize = 16;
/// DMA regions at a time.
pub(crate) const MAX_DMA_MAPS: usize = 65535;

/// Flags of a header.
pub(crate) mod flags {
    /// Message type.
    pub(crate) const TYPE: u32 = 0xf;
    pub(crate) const COMMAND: u32 = 0;
    pub(crate) const REPLY: u32 = 1;
    /// No reply is wanted.
    pub(crate) const NO_REPLY: u32 = 1 << 4;
    /// The command failed; the error field has an errno.
    pub(crate) const ERROR: u32 = 1 << 5;
}

macro_rules! wire {
    ($(#[$meta:meta])* $name:ident, $size:literal, { $($field:ident: $kind:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
        #[repr(C)]
        pub(crate) struct $name {
            $(pub(crate) $field: $kind,)*
        }
        const _: () = assert!(size_of::<$name>() == $size);
    };
}

wire!(Header, 16, { id: U16, command: U16, size: U32, flags: U32, error: U32 });
wire!(
    /// JSON follows, with its NUL.
    Version, 4, { major: U16, minor: U16 }
);
wire!(DmaMap, 32, { argsz: U32, flags: U32, offset: U64, address: U64, size: U64 });
wire!(DmaUnmap, 24, { argsz: U32, flags: U32, address: U64, size: U64 });
wire!(DeviceInfo, 16, { argsz: U32, flags: U32, regions: U32, irqs: U32 });
wire!(RegionInfo, 32, { argsz: U32, flags: U32, index: U32, cap_offset: U32, size: U64, offset: U64 });
wire!(IrqInfo, 16, { argsz: U32, flags: U32, index: U32, count: U32 });
wire!(
    /// Booleans follow, one byte each, if they are in the flags.
    IrqSet, 20, { argsz: U32, flags: U32, index: U32, start: U32, count: U32 }
);
wire!(
    /// Data follows.
    RegionAccess, 16, { offset: U64, region: U32, count: U32 }
);
wire!(WriteMulti, 8, { count: U64 });
wire!(WriteOne, 24, { offset: U64, region: U32, count: U32, data: [u8; 8] });
wire!(
    /// Data follows. QEMU's `VFIOUserDMARW` has a count of 32 bits and data right behind it: see `dma.rs`.
    DmaAccess, 16, { address: U64, count: U64 }
);

impl Header {
    pub(crate) const SIZE: usize = size_of::<Self>();

    pub(crate) fn is_reply(&self) -> bool {
        self.flags.get() & flags::TYPE == flags::REPLY
    }

    pub(crate) fn wants_reply(&self) -> bool {
        self.flags.get() & flags::NO_REPLY == 0
    }
}
