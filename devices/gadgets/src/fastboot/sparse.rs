//! Sparse images (AOSP `system/core/libsparse/sparse_format.h`), as far as a partition's size goes.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const MAGIC: u32 = 0xed26_ff3a;

/// `sparse_header_t`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    magic: U32,
    major_version: U16,
    minor_version: U16,
    file_header_size: U16,
    chunk_header_size: U16,
    /// Bytes in a block.
    block_size: U32,
    /// Blocks of the image that is unpacked.
    total_blocks: U32,
    total_chunks: U32,
    image_checksum: U32,
}

const _: () = assert!(size_of::<Header>() == 28);

/// Bytes that a sparse image has unpacked; `None` for another image.
pub(super) fn unpacked(image: &[u8]) -> Option<u64> {
    let (header, _) = Header::ref_from_prefix(image).ok()?;
    let is_sparse = header.magic.get() == MAGIC;
    is_sparse.then(|| u64::from(header.block_size.get()) * u64::from(header.total_blocks.get()))
}
