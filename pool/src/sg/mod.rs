//! Scatter-gather tables, as Linux has them (`struct scatterlist`, lib/scatterlist.c).
//!
//! - [`Entry`]: 32 bytes in the machine's memory: a page, where the data begins in it, how long it is, and where devices
//!   find it
//! - [`Table`]: chunks of such entries, chained. 128 fill a page ([`MOST_ENTRIES`]); the last of a chunk that another one
//!   follows is the link to it
//! - [`ChunkSource`]: where chunks come from. [`Buddy`] has pages, [`SizeClasses`] is kmalloc, [`SlabCache`] has objects of one
//!   size, [`VirtualMapping`] is vmalloc. [`FullAndShort`] is what the kernel does: pages for full chunks, kmalloc for the rest
//!
//! What lib/scatterlist.c of Linux 6.1, 6.12 and 7.3 writes into entries, a [`Table`] writes: the chain bit, the end bit and
//! the links too.
//!
//! *Not here*: a first chunk of the caller's own, `sg_chain` of tables that were allocated apart, pages of other sizes than
//! 4 KiB, tables from an `iov_iter`. Of the sources: per-processor page lists, NUMA nodes, reclaim, TLB flushes.

mod append;
mod copy;
mod entry;
mod error;
mod map;
mod source;
mod split;
mod table;

pub use append::PageRun;
pub use entry::{ENTRY, Entry, MOST_ENTRIES};
pub use error::{ChunkError, SgError};
pub use map::Limits;
pub use source::{Buddy, ChunkSource, FullAndShort, PAGE, SizeClasses, SlabCache, VirtualMapping};
pub use table::{Entries, Segment, Table};
