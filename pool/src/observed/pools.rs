//! Which pool each event is of, and what the whole log tells of it.

use std::collections::BTreeMap;

use super::event::{Event, Known, What};
use super::log::{Item, Log};
use crate::pool::{Block, Geometry};

/// The ledger's grid.
const FRAME: u64 = 4096;

/// A pool as far as the log goes without a gap.
pub(super) struct Instance {
    /// Its name, or else its address.
    pub(super) name: String,
    /// Whether its creation was seen: then every block of it was.
    pub(super) created: bool,
    /// Whether its first line here may be taken for its first: it was created, or the log tells of no creation at all.
    pub(super) whole: bool,
    pub(super) known: Known,
    /// Its address space.
    pub(super) space: usize,
    /// Frames that its blocks lie in: first byte and length, rising.
    pub(super) pages: Vec<(u64, u64)>,
}

/// The events of a log, each with its pool.
pub(super) struct Assigned {
    pub(super) instances: Vec<Instance>,
    /// For each item of the log its instance; `None` for a gap and for what cannot be.
    pub(super) of_item: Vec<Option<usize>>,
    /// Number of address spaces.
    pub(super) spaces: usize,
    /// Blocks that would end behind the last address.
    pub(super) beyond: usize,
}

/// What tells pools apart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Address(u64),
    Name(String),
}

/// A pool while the log is read.
struct Draft {
    key: Key,
    name: Option<String>,
    created: bool,
    known: Known,
    blocks: Vec<Block>,
}

impl Instance {
    /// What was asked of the pool, as far as it is known. A block has a byte at least.
    pub(super) fn geometry(&self) -> Geometry {
        let Known { size, align, boundary, .. } = self.known;
        // Without a boundary of the driver's Linux notes the size of its pages, which need not be a power of two.
        let boundary = boundary.filter(|boundary| boundary.is_power_of_two()).unwrap_or(0);
        Geometry { size: size.unwrap_or(1).max(1), align: align.unwrap_or(1).max(1), boundary }
    }

    /// From one block to its neighbour, if the size is known.
    pub(super) fn distance(&self) -> Option<u64> {
        let Geometry { align, .. } = self.geometry();
        self.known.size?.max(1).checked_next_multiple_of(align)
    }
}

impl Assigned {
    pub(super) fn of(log: &Log) -> Self {
        let mut drafts: Vec<Draft> = Vec::new();
        let mut current: BTreeMap<Key, usize> = BTreeMap::new();
        // Pools that were open before a gap, with their last drafts. Names and geometries stay known, blocks do not.
        let mut before_gap: BTreeMap<Key, usize> = BTreeMap::new();
        let mut after_gap = log.overwritten > 0;
        let mut late = vec![];
        let mut of_item = Vec::with_capacity(log.items.len());
        for item in &log.items {
            let Item::Event(event) = item else {
                after_gap = true;
                // One by one: `append` would walk all that were there before.
                before_gap.extend(std::mem::take(&mut current));
                of_item.push(None);
                continue;
            };
            let Some(key) = key(event) else {
                of_item.push(None);
                continue;
            };
            if event.what == What::Create {
                // A creation in the place of another: that its end was not logged is no matter.
                current.remove(&key);
                before_gap.remove(&key);
            }
            let index = *current.entry(key.clone()).or_insert_with(|| {
                let before = before_gap.remove(&key).map(|index| (drafts[index].name.clone(), drafts[index].known));
                late.push(after_gap || before.is_some());
                let (name, known) = before.unwrap_or_default();
                drafts.push(Draft { key, name, created: false, known, blocks: Vec::new() });
                drafts.len() - 1
            });
            drafts[index].learn(event);
            if event.what == What::Destroy {
                current.retain(|_, open| *open != index);
            }
            of_item.push(Some(index));
        }
        Self::from_drafts(log, drafts, &late, of_item)
    }

    fn from_drafts(log: &Log, drafts: Vec<Draft>, late: &[bool], mut of_item: Vec<Option<usize>>) -> Self {
        let tells_of_creations = drafts.iter().any(|draft| draft.created);
        let mut devices: BTreeMap<u64, usize> = BTreeMap::new();
        let mut spaces = 0;
        let mut instances = Vec::with_capacity(drafts.len());
        for (draft, late) in drafts.into_iter().zip(late) {
            let mut own = || {
                spaces += 1;
                spaces - 1
            };
            let space = match draft.known.device {
                Some(device) => *devices.entry(device).or_insert_with(own),
                None => own(),
            };
            let name = draft.name.unwrap_or_else(|| match draft.key {
                Key::Address(address) => format!("at {address:#x}"),
                Key::Name(name) => name,
            });
            let whole = draft.created || !(tells_of_creations || *late);
            let mut instance =
                Instance { name, created: draft.created, whole, known: draft.known, space, pages: Vec::new() };
            instance.pages = pages(&draft.blocks, instance.geometry().size);
            instances.push(instance);
        }
        let mut beyond = 0;
        for (item, of_item) in log.items.iter().zip(&mut of_item) {
            if let (Item::Event(Event { what: What::Alloc(Some(block)) | What::Free(block), .. }), Some(index)) =
                (item, *of_item)
                && frames(*block, instances[index].geometry().size).is_none()
            {
                *of_item = None;
                beyond += 1;
            }
        }
        Self { instances, of_item, spaces, beyond }
    }
}

/// `None` for a creation that failed.
fn key(event: &Event) -> Option<Key> {
    match (event.pool, &event.name) {
        (Some(0), _) => None,
        (Some(address), _) => Some(Key::Address(address)),
        (None, name) => name.clone().map(Key::Name),
    }
}

impl Draft {
    fn learn(&mut self, event: &Event) {
        self.created |= event.what == What::Create;
        // What the driver asked for comes first, and counts.
        self.known = self.known.or(event.known);
        if self.name.is_none() {
            self.name.clone_from(&event.name);
        }
        if let What::Alloc(Some(block)) = event.what {
            self.blocks.push(block);
        }
    }
}

/// The frames that blocks lie in; frames of one block are one page.
fn pages(blocks: &[Block], size: u64) -> Vec<(u64, u64)> {
    let mut covers: Vec<_> = blocks.iter().filter_map(|&block| frames(block, size)).collect();
    covers.sort_unstable();
    let mut pages: Vec<(u64, u64)> = Vec::new();
    for (start, len) in covers {
        match pages.last_mut() {
            Some((last, last_len)) if start < *last + *last_len => {
                *last_len = (*last_len).max(start + len - *last);
            }
            _ => pages.push((start, len)),
        }
    }
    pages
}

/// The frames of a block, if it ends below the last one, for the processor too.
fn frames(block: Block, size: u64) -> Option<(u64, u64)> {
    block.cpu.0.checked_add(size)?;
    let start = block.dma.0 & !(FRAME - 1);
    let end = block.dma.0.checked_add(size)?.checked_next_multiple_of(FRAME)?;
    Some((start, end - start))
}
