//! What can be seen of a pool from outside: where it keeps its own data, its smallest block, whether it loses the last.
//!
//! A kernel file does not say it. Blocks are filled with a pattern and freed: what then differs is the pool's.

use std::collections::BTreeSet;
use std::sync::Arc;

use bus::{CpuAddr, DmaAddr};
use pool::policy::Create;
use pool::{Block, Flags, Geometry, Memory, Metadata, MetadataField, PageAllocator, PageOrder, PageSource, Pool, Span};

use crate::mirror;

/// What a free block is filled with, none of the kernel's poisons.
const PATTERN: u8 = 0x5c;
/// What a debug build fills a freed block with (include/linux/poison.h, POOL_POISON_FREED).
const POISON: u8 = 0xa7;
const PAGE: u64 = 4096;
const SPAN: Span = Span { cpu: CpuAddr(0xffff_8000_1234_0000), dma: DmaAddr(0x9000_0000), len: 64 * PAGE };
/// Blocks that are looked at.
const BLOCKS: usize = 8;

/// What was seen. A pool that does not come so far keeps nothing in blocks, and is found out elsewhere.
pub(crate) struct Seen {
    pub(crate) metadata: Metadata,
    pub(crate) smallest: u64,
    pub(crate) loses_last: bool,
}

/// Looks at pools that `create` makes, until it is `hopeless`.
pub(crate) fn probe(create: &Arc<Create>, hopeless: impl Fn() -> bool) -> Seen {
    let Ok(memory) = Memory::new(&[SPAN]) else {
        return Seen { metadata: Metadata::OutOfBand, smallest: 1, loses_last: false };
    };
    let source: Arc<dyn PageSource> = PageAllocator::new(Arc::clone(&memory), PAGE, u64::MAX, PageOrder::Forward);
    let pool = |size| {
        let geometry = Geometry { size, align: 1, boundary: 0 };
        if hopeless() { None } else { create(Arc::clone(&memory), Arc::clone(&source), geometry).ok() }
    };
    let smallest = pool(1).map_or(1, |pool| smallest(&*pool));
    let loses_last = pool(64).is_some_and(|pool| loses_last(&*pool, 64));
    let metadata = pool(64).map_or(Metadata::OutOfBand, |pool| metadata(&*pool, &memory, 64));
    Seen { metadata, smallest, loses_last }
}

fn take(pool: &dyn Pool, count: usize) -> Vec<Block> {
    (0..count).map_while(|_| pool.alloc(Flags::KERNEL).ok()).collect()
}

fn give_back(pool: &dyn Pool, blocks: Vec<Block>) {
    // What it says to it is for the contract stage to judge.
    blocks.into_iter().for_each(|block| drop(pool.free(block)));
    let _ = pool.destroy();
}

/// The least distance of two blocks of one byte.
fn smallest(pool: &dyn Pool) -> u64 {
    let blocks = take(pool, BLOCKS);
    let addresses: BTreeSet<u64> = blocks.iter().map(|block| block.dma.0).collect();
    let distances = addresses.iter().zip(addresses.iter().skip(1)).map(|(one, next)| next - one);
    let least = distances.min().unwrap_or(1);
    give_back(pool, blocks);
    least
}

/// Whether a page has one block less than fits.
fn loses_last(pool: &dyn Pool, size: u64) -> bool {
    let mut blocks = Vec::new();
    let fits = (PAGE / size) as usize;
    while pool.pages() < 2 && blocks.len() <= fits {
        let one = take(pool, 1);
        if one.is_empty() {
            break;
        }
        blocks.extend(one);
    }
    // The last of them is the second page's.
    let lost = pool.pages() == 2 && blocks.len() == fits;
    give_back(pool, blocks);
    lost
}

/// The bytes of a free block that the pool wrote to, less what a debug build fills it with.
fn metadata(pool: &dyn Pool, memory: &Memory, size: usize) -> Metadata {
    let blocks = take(pool, BLOCKS);
    for block in &blocks {
        let _ = memory.fill(block.cpu, size as u64, PATTERN);
    }
    for &block in &blocks {
        let _ = pool.free(block);
    }
    let freed = |&block: &Block| {
        let mut bytes = vec![PATTERN; size];
        memory.read(block.cpu, &mut bytes).ok().map(|()| (block, bytes))
    };
    let freed: Vec<(Block, Vec<u8>)> = blocks.iter().filter_map(freed).collect();
    let _ = pool.destroy();
    let mut own = vec![false; size];
    for (_, bytes) in &freed {
        own.iter_mut().zip(bytes).for_each(|(own, &byte)| *own |= byte != PATTERN && byte != POISON);
    }
    let fields = fields(&own, |start, len| name(&freed, start, len));
    if fields.is_empty() { Metadata::OutOfBand } else { Metadata::InBlock(Box::leak(fields.into_boxed_slice())) }
}

/// Words of 8 bytes that hold such a byte, or of 4 where the other half holds none.
fn fields(own: &[bool], name: impl Fn(usize, usize) -> &'static str) -> Vec<MetadataField> {
    let field = |(word, bytes): (usize, &[bool])| {
        let (low, high) = bytes.split_at(bytes.len().min(4));
        let (start, len) = match (low.contains(&true), high.contains(&true)) {
            (true, true) => (0, bytes.len()),
            (true, false) => (0, low.len()),
            (false, true) => (low.len(), high.len()),
            (false, false) => return None,
        };
        let start = word * 8 + start;
        Some(MetadataField { start: start as u64, len: len as u64, name: name(start, len) })
    };
    own.chunks(8).enumerate().filter_map(field).collect()
}

/// What a word of free blocks is, by its values.
fn name(freed: &[(Block, Vec<u8>)], start: usize, len: usize) -> &'static str {
    let values = || freed.iter().map(|(block, bytes)| (block, word(&bytes[start..start + len])));
    let is_pointer = |value| value == 0 || mirror::points_into(value, SPAN);
    if len == 8 && values().all(|(block, value)| value == block.dma.0) {
        "DMA address"
    } else if len == 8 && values().all(|(_, value)| is_pointer(value)) {
        "next pointer"
    } else if len == 4 && values().all(|(_, value)| value <= PAGE) {
        "next offset"
    } else {
        "the pool's own data"
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_fields_of_whole_words() {
        let mut own = vec![false; 32];
        for byte in [1, 12, 16, 23] {
            own[byte] = true;
        }
        let found: Vec<_> = fields(&own, |_, _| "").into_iter().map(|field| (field.start, field.len)).collect();
        assert_eq!(found, [(0, 4), (12, 4), (16, 8)]);
        assert_eq!(fields(&[false; 8], |_, _| ""), []);
    }

    #[test]
    fn the_built_in_policies_are_seen_as_they_say_they_are() {
        for policy in pool::policy::table() {
            let seen = probe(&policy.create, || false);
            assert_eq!((seen.smallest, seen.loses_last), (policy.smallest, policy.loses_last), "{policy:?}");
            let fields = |metadata| match metadata {
                Metadata::OutOfBand => &[][..],
                Metadata::InBlock(fields) => fields,
            };
            assert_eq!(fields(seen.metadata), fields(policy.metadata), "{policy:?}");
        }
    }
}
