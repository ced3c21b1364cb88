//! One entry, as it lies in memory.

use bus::CpuAddr;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::source::PAGE;

/// An entry's size in bytes.
pub const ENTRY: u64 = size_of::<Entry>() as u64;

/// Entries of a full chunk (`SG_MAX_SINGLE_ALLOC`, include/linux/scatterlist.h): what fills a page.
pub const MOST_ENTRIES: u32 = (PAGE / ENTRY) as u32;

/// `page_link` bit 0: the rest of it is the address of the chunk that follows.
const CHAIN: u64 = 1;
/// `page_link` bit 1: no entry follows.
const LAST: u64 = 2;

/// `struct scatterlist` of a 64-bit kernel with `CONFIG_NEED_SG_DMA_LENGTH` and `CONFIG_NEED_SG_DMA_FLAGS`.
///
/// Where the kernel has the address of a `struct page`, the page's own address for the processor stands here: both are
/// aligned, which is what leaves the two bits free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Entry {
    /// The page, or the chunk that follows, with bits 0 (chain) and 1 (last).
    pub page_link: U64,
    /// First byte of the data, from the beginning of the page; may lie behind its end.
    pub offset: U32,
    /// Length of the data in bytes.
    pub length: U32,
    /// Of a mapped table: where a segment begins for devices. It need not be this entry's data.
    pub dma_address: U64,
    /// Of a mapped table: the segment's length in bytes, 0 behind the last segment.
    pub dma_length: U32,
    /// Not used here: `SG_DMA_BUS_ADDRESS`, `SG_DMA_SWIOTLB`.
    pub dma_flags: U32,
}

const _: () = assert!(size_of::<Entry>() == 32);

impl Entry {
    /// Whether it is a link.
    #[must_use]
    pub fn is_chain(&self) -> bool {
        self.page_link.get() & CHAIN != 0
    }

    /// Whether it is the last one.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.page_link.get() & LAST != 0
    }

    /// The page, or of a link the chunk that follows. 0 is an entry that has none yet.
    #[must_use]
    pub fn page(&self) -> CpuAddr {
        CpuAddr(self.page_link.get() & !(CHAIN | LAST))
    }

    /// The processor's address of the data.
    #[must_use]
    pub fn data(&self) -> CpuAddr {
        self.page().offset(self.offset.get().into())
    }

    /// Takes data, and stays the last one if it is (`sg_set_page`).
    pub(super) fn set_data(&mut self, page: CpuAddr, offset: u32, length: u32) {
        self.page_link = (self.page_link.get() & (CHAIN | LAST) | page.0).into();
        self.offset = offset.into();
        self.length = length.into();
    }

    /// Becomes a link (`__sg_chain`).
    pub(super) fn set_chain(&mut self, chunk: CpuAddr) {
        self.page_link = ((chunk.0 | CHAIN) & !LAST).into();
        self.offset = 0.into();
        self.length = 0.into();
    }

    /// Becomes the last one (`sg_mark_end`).
    pub(super) fn set_last(&mut self) {
        self.page_link = ((self.page_link.get() | LAST) & !CHAIN).into();
    }
}
