//! What a device knows of the pools of Linux: how free blocks are linked, from the kernel's public source.
//!
//! - from 6.4 on, `struct dma_block` (mm/dmapool.c): the processor's address of the next free block, and the block's own
//!   DMA address, 8 bytes each
//! - up to 6.3, `pool_initialise_page`: the offset of the page's next free block, 4 bytes
//!
//! Nothing here knows a pool: all that is recognised is what stands in memory.

use std::collections::{BTreeMap, BTreeSet};

use bus::DmaAddr;

/// The smallest page of any machine, in bytes.
const PAGE: u64 = 4096;
/// The largest, which no offset reaches.
const LARGEST_PAGE: u64 = 64 << 10;
/// Links that must agree before they are taken for links.
const ENOUGH: usize = 2;

/// The begin of a block that the device had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Glimpse {
    pub(super) at: DmaAddr,
    pub(super) bytes: [u8; 16],
}

/// The free list, as far as a device can make it out. The head is the block that comes next: no other links to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    /// Pointers to the next block; the processor's address of memory is that of devices and `to_cpu`, modulo 2^64.
    Pointers { head: DmaAddr, to_cpu: u64 },
    /// Offsets in the page that begins at `page`.
    Offsets { head: DmaAddr, page: DmaAddr },
}

impl Glimpse {
    fn pointer(&self) -> u64 {
        u64::from_le_bytes(*self.bytes.first_chunk().unwrap_or(&[0; 8]))
    }

    fn own_address(&self) -> u64 {
        u64::from_le_bytes(*self.bytes.last_chunk().unwrap_or(&[0; 8]))
    }

    fn offset(&self) -> u64 {
        u32::from_le_bytes(*self.bytes.first_chunk().unwrap_or(&[0; 4])).into()
    }
}

/// The links in these blocks, if there are any.
pub(super) fn recognise(glimpses: &[Glimpse]) -> Option<Links> {
    pointers(glimpses).or_else(|| offsets(glimpses))
}

/// A block that names its own address is linked by pointers; that they lead to one another tells where the processor has
/// this memory.
fn pointers(glimpses: &[Glimpse]) -> Option<Links> {
    let linked: Vec<_> = glimpses.iter().filter(|glimpse| glimpse.own_address() == glimpse.at.0).collect();
    let values: BTreeSet<u64> = linked.iter().map(|glimpse| glimpse.pointer()).collect();
    let places: Vec<_> = linked.iter().map(|glimpse| glimpse.at).collect();
    let to_cpu = agreed(&values, &places, |value, at| value.wrapping_sub(at.0))?;
    let head = places.into_iter().find(|at| !values.contains(&at.0.wrapping_add(to_cpu)))?;
    Some(Links::Pointers { head, to_cpu })
}

/// Small numbers that lead from the same begin of a page to one another's blocks are offsets.
fn offsets(glimpses: &[Glimpse]) -> Option<Links> {
    let small = |glimpse: &Glimpse| Some(glimpse.offset()).filter(|&offset| offset < LARGEST_PAGE);
    let values: BTreeSet<u64> = glimpses.iter().filter_map(small).collect();
    let places: Vec<_> = glimpses.iter().map(|glimpse| glimpse.at).collect();
    let page = agreed(&values, &places, |value, at| at.0.wrapping_sub(value))?;
    let in_page = |at: &DmaAddr| at.0.checked_sub(page).is_some_and(|offset| offset < LARGEST_PAGE);
    let head = places.into_iter().filter(in_page).find(|at| !values.contains(&(at.0 - page)))?;
    Some(Links::Offsets { head, page: DmaAddr(page) })
}

/// The difference, in whole pages, that explains the most values as links to these places; the lowest of several.
fn agreed(values: &BTreeSet<u64>, places: &[DmaAddr], difference: impl Fn(u64, DmaAddr) -> u64) -> Option<u64> {
    let mut votes: BTreeMap<u64, usize> = BTreeMap::new();
    for &value in values {
        let differences = places.iter().map(|&at| difference(value, at)).filter(|one| one.is_multiple_of(PAGE));
        differences.for_each(|one| *votes.entry(one).or_default() += 1);
    }
    let enough = votes.into_iter().filter(|&(_, votes)| votes >= ENOUGH);
    enough.min_by_key(|&(_, votes)| std::cmp::Reverse(votes)).map(|(difference, _)| difference)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO_CPU: u64 = 0xfffe_ffff_c000_0000;

    fn glimpse(at: u64, words: [u64; 2]) -> Glimpse {
        let [first, second] = words.map(u64::to_le_bytes);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&first);
        bytes[8..].copy_from_slice(&second);
        Glimpse { at: DmaAddr(at), bytes }
    }

    /// Blocks in the order in which they were freed: each links to the one before it.
    fn freed(blocks: &[u64], link: impl Fn(u64, u64) -> [u64; 2]) -> Vec<Glimpse> {
        blocks.windows(2).map(|pair| glimpse(pair[1], link(pair[0], pair[1]))).collect()
    }

    #[test]
    fn pointers_tell_where_the_processor_has_memory() {
        let blocks = [0x8000_0040, 0x8000_0080, 0x8000_0100, 0x8000_1f00, 0x8000_00c0];
        let glimpses = freed(&blocks, |next, own| [next.wrapping_add(TO_CPU), own]);
        assert_eq!(recognise(&glimpses), Some(Links::Pointers { head: DmaAddr(0x8000_00c0), to_cpu: TO_CPU }));
    }

    #[test]
    fn offsets_tell_where_the_page_begins() {
        let blocks = [0x8000_3040, 0x8000_3080, 0x8000_3100, 0x8000_30c0];
        // What follows the offset is what the block held before.
        let glimpses = freed(&blocks, |next, _| [0xc0de_0000_0000 | (next - 0x8000_3000), 0xc0de]);
        let page = DmaAddr(0x8000_3000);
        assert_eq!(recognise(&glimpses), Some(Links::Offsets { head: DmaAddr(0x8000_30c0), page }));
    }

    #[test]
    fn what_is_no_link_is_not_taken_for_one() {
        let blocks = [0x8000_0000, 0x8000_0040, 0x8000_0080, 0x8000_1000, 0x8000_2000];
        for words in [[0; 2], [0xa7a7_a7a7_a7a7_a7a7; 2], [0x0000_0005_ffff_fffb, 0xc0de]] {
            let glimpses = freed(&blocks, |_, _| words);
            assert_eq!(recognise(&glimpses), None, "{words:x?}");
        }
        let one = freed(&[0x8000_0040, 0x8000_0080], |next, own| [next.wrapping_add(TO_CPU), own]);
        assert_eq!(recognise(&one), None, "one link alone proves nothing");
        assert_eq!(recognise(&[]), None);
    }
}
