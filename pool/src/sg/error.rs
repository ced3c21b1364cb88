//! Errors of tables and of what their chunks come from.

use bus::{CpuAddr, DmaAddr};
use thiserror::Error;

use crate::memory::CpuFault;

use super::source::PAGE;

/// Why a source gives no chunk, or does not take one back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ChunkError {
    /// No run of free pages is this long.
    #[error("no {len} free bytes in one run of pages")]
    NoPages {
        /// Length in bytes.
        len: u64,
    },
    /// The source has no chunks of that size.
    #[error("a chunk of {len} bytes was asked for; this source has chunks of 1 to {most} bytes")]
    Size {
        /// Length in bytes.
        len: u64,
        /// The longest there is.
        most: u64,
    },
    /// No range of the virtual mapping's addresses is this long.
    #[error("no range of {len} free virtual addresses")]
    NoRange {
        /// Length in bytes.
        len: u64,
    },
    /// It was not handed out by this source, not with that length, or it is free by now.
    #[error("{len} bytes at {at} are no chunk that this source has handed out")]
    NotHandedOut {
        /// First byte.
        at: CpuAddr,
        /// Length in bytes.
        len: u64,
    },
    /// A source was told to fail.
    #[error("the source was told to fail")]
    Injected,
    /// The source's own links, which lie in memory, lead nowhere: somebody wrote over them.
    #[error("the source's own data is damaged: {0}")]
    Damaged(#[from] CpuFault),
    /// The memory that a source is to cut up is not there.
    #[error("{len} bytes at {at} are not one run of memory of whole pages")]
    NoMemory {
        /// First byte.
        at: CpuAddr,
        /// Length in bytes.
        len: u64,
    },
}

/// Why a table is not what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SgError {
    /// A table of no entries (`-EINVAL`).
    #[error("a table has at least one entry")]
    NoEntries,
    /// It has entries already.
    #[error("the table has {0} entries: free it first")]
    InUse(u32),
    /// There is no chunk (`-ENOMEM`). What was allocated before is still in the table.
    #[error("no chunk for the table: {0}")]
    NoChunk(ChunkError),
    /// A chunk was not taken back.
    #[error("a chunk of the table was not taken back: {0}")]
    NotTaken(ChunkError),
    /// An entry cannot be reached: somebody wrote over a link, or freed the chunk.
    #[error("the entry at {at} is not there: {fault}")]
    Lost {
        /// Its address, as the link has it.
        at: CpuAddr,
        /// What happened there.
        fault: CpuFault,
    },
    /// What should be the link to the chunk that follows is none.
    #[error("the entry at {0} should be a link to another chunk and is none: something wrote over it")]
    NoLink(CpuAddr),
    /// More data than entries.
    #[error("the table has {0} entries, and data for more was given")]
    Full(u32),
    /// Chunks have more than one entry and fit into a page.
    #[error("{entries} entries a chunk: expected 2 to {most}", most = super::MOST_ENTRIES)]
    ChunkSize {
        /// As asked for.
        entries: u32,
    },
    /// Pages that cannot be appended (`-EINVAL`).
    #[error("pages cannot be appended: {0}")]
    Pages(&'static str),
    /// A page does not begin where pages do.
    #[error("{0} is no page: pages begin at multiples of {PAGE}")]
    NoPage(CpuAddr),
    /// The caller promised fewer pages than came, and the chunk has no room for them. The kernel's code chains here all the
    /// same, and loses that chunk when the table is freed.
    #[error("{entries} entries are needed and the last chunk is full: count the pages that follow in left_pages")]
    LeftPages {
        /// Entries that are needed.
        entries: u32,
    },
    /// The table was ended: the last call had no pages left to come. The kernel's code goes on at NULL here.
    #[error("the table was ended: say in left_pages how many pages are to come")]
    Ended,
    /// It is mapped already.
    #[error("the table is mapped already")]
    Mapped,
    /// It is not mapped.
    #[error("the table is not mapped")]
    NotMapped,
    /// Data is no memory, or not one run of it for devices.
    #[error("{len} bytes at {at} are not one run of memory")]
    NotMemory {
        /// First byte.
        at: CpuAddr,
        /// Length in bytes.
        len: u32,
    },
    /// An entry is longer than the device takes. Linux maps it, and says so with CONFIG_DMA_API_DEBUG_SG.
    #[error("an entry of {length} bytes: the device takes segments of {most} bytes")]
    SegmentTooLong {
        /// Length in bytes.
        length: u32,
        /// The device's limit.
        most: u32,
    },
    /// An entry crosses the device's segment boundary. Linux maps it, and says so with CONFIG_DMA_API_DEBUG_SG.
    #[error("an entry of {length} bytes at {at} crosses the device's boundary of {boundary:#x} bytes")]
    CrossesBoundary {
        /// First byte for devices.
        at: DmaAddr,
        /// Length in bytes.
        length: u32,
        /// The device's limit.
        boundary: u64,
    },
    /// Limits that no device has.
    #[error("{0}")]
    Limits(&'static str),
    /// The table is shorter than what is to be cut out of it, or a part is to be empty (`-EINVAL`).
    #[error("{wanted} bytes are wanted from byte {skip} on, of a table of {len}, in parts of at least one byte")]
    TooShort {
        /// Bytes before the first part.
        skip: u64,
        /// Bytes of all parts.
        wanted: u64,
        /// Bytes of the table.
        len: u64,
    },
}
