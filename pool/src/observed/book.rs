//! A log, told to ledgers.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::sync::Arc;
use std::time::Duration;

use bus::{CpuAddr, DmaAddr, LayoutContract, Owner, PoolLayout, Watch};

use super::event::{Event, What};
use super::pools::{Assigned, Instance};
use super::report::{End, LayoutJudged, Noted, PoolSeen, Report};
use super::steps::Steps;
use crate::finding::{Finding, Promise};
use crate::ledger::{AddressOrder, Ledger, PoolId};
use crate::page::Pages;
use crate::pool::Block;

/// First allocations of a pool that are remembered for its order.
const REMEMBERED: usize = 64;
/// Findings that are kept.
const NOTED: usize = 64;
/// Holders that a finding names.
const NAMED: usize = 8;

/// One access of a device, and when it was on the machine's clock, as far as that is known.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Not before this.
    pub earliest: Duration,
    /// Not after this.
    pub latest: Duration,
    /// What the device did.
    pub access: bus::Access,
}

/// What was told so far.
pub(super) struct Book<'a> {
    instances: &'a [Instance],
    layouts: &'a [&'static PoolLayout],
    /// A ledger for each address space.
    spaces: Vec<Arc<Ledger>>,
    /// Of each ledger: findings in all, and those kept, that were looked at.
    looked_at: Vec<(u64, usize)>,
    /// For each instance, since its first event.
    open: BTreeMap<usize, Open>,
    /// Each instance of which nothing more is told.
    closed: BTreeMap<usize, PoolSeen>,
    /// Blocks in use, by the processor's address: end, instance and begin for the device. Of all spaces: there a block of
    /// one device may have another's DMA address, but never its memory.
    in_use: BTreeMap<u64, (u64, usize, DmaAddr)>,
    report: Report,
}

/// A pool that is being watched.
struct Open {
    id: PoolId,
    /// Pages of it that the ledger has, by their first byte.
    pages: BTreeSet<u64>,
    /// Blocks that overlap another pool's, which are not in the ledger.
    strayed: BTreeSet<DmaAddr>,
    /// Where the processor has its blocks in use.
    mapped: BTreeSet<u64>,
    /// Who allocated each block in use.
    callers: BTreeMap<DmaAddr, Option<String>>,
    first: Vec<DmaAddr>,
    steps: Steps,
    handed_out: usize,
    refused: usize,
    freed: usize,
    /// Whether a free shows that blocks were handed out before the log began.
    began_late: bool,
    /// Objects of a layout so far; closed by the first free.
    layout: Option<LayoutSoFar>,
}

struct LayoutSoFar {
    layout: &'static PoolLayout,
    base: Option<DmaAddr>,
    objects: u32,
}

impl<'a> Book<'a> {
    pub(super) fn new(assigned: &'a Assigned, layouts: &'a [&'static PoolLayout]) -> Self {
        Self {
            instances: &assigned.instances,
            layouts,
            spaces: (0..assigned.spaces).map(|_| Ledger::of_log()).collect(),
            looked_at: vec![(0, 0); assigned.spaces],
            open: BTreeMap::new(),
            closed: BTreeMap::new(),
            in_use: BTreeMap::new(),
            report: Report { beyond: assigned.beyond, ..Report::default() },
        }
    }

    /// Tells an event of the instance with this index.
    pub(super) fn tell(&mut self, index: usize, event: &Event) {
        self.open_pool(index);
        match event.what {
            What::Create => {}
            What::Alloc(None) => self.pool(index, |pool| pool.refused += 1),
            What::Alloc(Some(block)) => self.alloc(index, block, event.caller.clone()),
            What::Free(block) => self.free(index, block),
            What::Destroy => self.destroy(index),
        }
        self.note(index, Some(event));
        if event.what == What::Destroy {
            self.close(index, End::Destroyed);
        }
    }

    /// Forgets which blocks are in use: something happened that nobody knows.
    pub(super) fn gap(&mut self) {
        self.close_all(End::Gap);
    }

    fn close_all(&mut self, end: End) {
        while let Some((&index, _)) = self.open.first_key_value() {
            self.judge_layout(index);
            self.note(index, None);
            self.close(index, end);
        }
    }

    /// Tells an access of the device; `unordered` if something happened to that memory about then.
    pub(super) fn access(&mut self, access: &Access, unordered: bool) {
        let addr = access.access.addr;
        let of_page = |ledger: &Arc<Ledger>| ledger.pool_observed_at(addr).map(|(id, _)| id);
        let found = self.spaces.iter().enumerate().find_map(|(space, ledger)| Some((space, of_page(ledger)?)));
        let Some((space, id)) = found else {
            self.report.accesses.elsewhere += 1;
            return;
        };
        let of_id =
            |(index, open): (&usize, &Open)| (open.id == id && self.instances[*index].space == space).then_some(*index);
        let Some(index) = self.open.iter().find_map(of_id) else { return };
        if !self.instances[index].created {
            self.report.accesses.before_log += 1;
        } else if unordered {
            self.report.accesses.unknown += 1;
        } else {
            self.report.accesses.judged += 1;
            self.spaces[space].access(&access.access);
            self.note(index, None);
        }
    }

    /// What came of it.
    pub(super) fn end(mut self) -> Report {
        self.close_all(End::Log);
        self.report.pools = self.closed.into_values().collect();
        self.report.findings_total = self.spaces.iter().map(|ledger| ledger.findings_total()).sum();
        self.report
    }

    fn open_pool(&mut self, index: usize) {
        let btree_map::Entry::Vacant(entry) = self.open.entry(index) else { return };
        let instance = &self.instances[index];
        let layout = self.layouts.iter().find(|layout| layout.pool == instance.name);
        entry.insert(Open {
            id: self.spaces[instance.space].pool_observed(&instance.name, instance.geometry()),
            pages: BTreeSet::new(),
            strayed: BTreeSet::new(),
            mapped: BTreeSet::new(),
            callers: BTreeMap::new(),
            first: Vec::new(),
            steps: Steps::default(),
            handed_out: 0,
            refused: 0,
            freed: 0,
            began_late: false,
            layout: layout.map(|&layout| LayoutSoFar { layout, base: None, objects: 0 }),
        });
    }

    fn ledger(&self, index: usize) -> &Arc<Ledger> {
        &self.spaces[self.instances[index].space]
    }

    fn pool(&mut self, index: usize, change: impl FnOnce(&mut Open)) {
        if let Some(open) = self.open.get_mut(&index) {
            change(open);
        }
    }

    fn alloc(&mut self, index: usize, block: Block, caller: Option<String>) {
        let instance = &self.instances[index];
        let overlapped = self.overlapped(index, block);
        if overlapped.is_none() {
            self.make_page(index, block);
        }
        let ledger = Arc::clone(&self.spaces[instance.space]);
        let size = instance.geometry().size;
        let Some(open) = self.open.get_mut(&index) else { return };
        match overlapped {
            Some(seen) => {
                ledger.broke(open.id, Promise::NoOverlap, block, seen);
                open.strayed.insert(block.dma);
            }
            None => {
                ledger.handed_out_unseen(open.id, block);
                let end = block.cpu.0.saturating_add(size);
                self.in_use.insert(block.cpu.0, (end, index, block.dma));
                open.mapped.insert(block.cpu.0);
            }
        }
        open.handed_out += 1;
        open.callers.insert(block.dma, caller);
        open.steps.add(block.dma, instance.distance());
        if open.first.len() < REMEMBERED {
            open.first.push(block.dma);
        }
        if let Some(so_far) = &mut open.layout {
            so_far.base.get_or_insert(block.dma);
            ledger.claim(block.dma, size, Owner::new(so_far.layout.contract.kind, so_far.objects));
            so_far.objects += 1;
        }
    }

    /// The block in use of another pool that a new one shares memory with, in words.
    fn overlapped(&self, index: usize, block: Block) -> Option<String> {
        let end = block.cpu.0.saturating_add(self.instances[index].geometry().size);
        let below = self.in_use.range(..end).next_back();
        let (start, &(_, other, dma)) =
            below.filter(|&(_, &(other_end, other, _))| other_end > block.cpu.0 && other != index)?;
        let (other, start) = (&self.instances[other].name, CpuAddr(*start));
        Some(format!("{} / {} is the memory of {start} / {dma}, in use by pool {other}", block.cpu, block.dma))
    }

    /// Tells the ledger of the page that a block lies in, if it is new.
    fn make_page(&mut self, index: usize, block: Block) {
        let instance = &self.instances[index];
        let ledger = &self.spaces[instance.space];
        let at = instance.pages.partition_point(|&(start, _)| start <= block.dma.0);
        let Some(&(start, len)) = at.checked_sub(1).and_then(|at| instance.pages.get(at)) else { return };
        let Some(open) = self.open.get_mut(&index).filter(|open| !open.pages.contains(&start)) else { return };
        let frames = (0..len).step_by(4096).map(|offset| DmaAddr(start + offset));
        let others: BTreeMap<_, _> = frames
            .filter_map(|frame| ledger.pool_observed_at(frame))
            .map(|(id, in_use)| (id.number(), (id, in_use)))
            .collect();
        // Another pool's page, of which a block is in use, stays that pool's: the ledger says so.
        if others.values().any(|&(_, in_use)| in_use) {
            return;
        }
        // An idle pool that went without a word.
        others.values().for_each(|&(id, _)| ledger.page_given_up(id, DmaAddr(start), len));
        open.pages.insert(start);
        let cpu = CpuAddr(block.cpu.0.wrapping_sub(block.dma.0 - start));
        ledger.page_observed(open.id, Pages { cpu, dma: DmaAddr(start), len });
    }

    fn free(&mut self, index: usize, block: Block) {
        let created = self.instances[index].created;
        let ledger = Arc::clone(self.ledger(index));
        let Some(open) = self.open.get_mut(&index) else { return };
        let is_known = open.strayed.contains(&block.dma) || ledger.has_handed_out(open.id, block.dma);
        open.began_late |= !created && !is_known;
        self.judge_layout(index);
        let Some(open) = self.open.get_mut(&index) else { return };
        open.freed += 1;
        open.callers.remove(&block.dma);
        if open.strayed.remove(&block.dma) {
            return;
        }
        if !created && !is_known {
            self.report.excused_frees += 1;
        } else if ledger.freed(open.id, block) {
            open.mapped.remove(&block.cpu.0);
            self.in_use.remove(&block.cpu.0);
        }
    }

    fn destroy(&mut self, index: usize) {
        self.judge_layout(index);
        let ledger = Arc::clone(self.ledger(index));
        let Some(open) = self.open.get(&index) else { return };
        let held = ledger.live_blocks_of(open.id);
        if held.is_empty() {
            return;
        }
        let name = |dma: &DmaAddr| match open.callers.get(dma).and_then(Option::as_ref) {
            Some(caller) => format!("{dma} of {caller}"),
            None => dma.to_string(),
        };
        let owners = held.iter().take(NAMED).map(name).collect();
        ledger.destroyed_in_use(held.len(), owners);
    }

    /// Holds what the pool handed out so far against the layout that its name stands for.
    fn judge_layout(&mut self, index: usize) {
        let instance = &self.instances[index];
        let ledger = Arc::clone(&self.spaces[instance.space]);
        let Some(open) = self.open.get_mut(&index) else { return };
        let Some(LayoutSoFar { layout, base, objects }) = open.layout.take() else { return };
        let Some(base) = base else { return };
        let missing = if instance.created { 0 } else { missing_before(layout.contract, &open.first) };
        let held = if !instance.whole || open.began_late {
            Err("the log does not show its first block".to_owned())
        } else if missing > 0 {
            Err(format!("{missing} of its blocks may have come before the log: no creation is in it"))
        } else {
            let before = ledger.findings_total();
            ledger.layout(layout.contract, base, objects);
            Ok(ledger.findings_total() == before)
        };
        self.report.layouts.push(LayoutJudged { layout, objects: objects as usize, held });
    }

    /// Notes what the ledger of a pool found since, with the event that showed it.
    fn note(&mut self, index: usize, event: Option<&Event>) {
        let space = self.instances[index].space;
        let (total, kept) = self.looked_at[space];
        let now = self.spaces[space].findings_total();
        if now == total {
            return;
        }
        let findings = self.spaces[space].findings();
        self.looked_at[space] = (now, findings.len());
        let room = NOTED.saturating_sub(self.report.findings.len());
        for finding in findings.into_iter().skip(kept).take(room) {
            // That a layout is complete is seen by what comes behind it.
            let event = event.filter(|_| !matches!(finding, Finding::LayoutContract(_)));
            let (line, time) = (event.map(|event| event.line), event.and_then(|event| event.time));
            let caller = event.and_then(|event| event.caller.clone());
            self.report.findings.push(Noted { line, time, caller, finding });
        }
    }

    fn close(&mut self, index: usize, end: End) {
        let Some(open) = self.open.remove(&index) else { return };
        let instance = &self.instances[index];
        let ledger = &self.spaces[instance.space];
        let in_use = ledger.live_blocks_of(open.id).len() + open.strayed.len();
        ledger.pool_unobserved(open.id);
        for cpu in &open.mapped {
            // Another pool may have been handed out the same.
            if self.in_use.get(cpu).is_some_and(|&(_, other, _)| other == index) {
                self.in_use.remove(cpu);
            }
        }
        let seen = PoolSeen {
            name: instance.name.clone(),
            created: instance.created,
            end,
            known: instance.known,
            handed_out: open.handed_out,
            refused: open.refused,
            freed: open.freed,
            in_use,
            holders: if in_use > 0 { holders(open.callers) } else { Vec::new() },
            order: AddressOrder::of(&open.first),
            steps: open.steps,
        };
        self.closed.insert(index, seen);
    }
}

/// Objects before these with which they would lie as the contract wants; 0 if none need be missing, or no number helps.
fn missing_before(contract: &LayoutContract, objects: &[DmaAddr]) -> u64 {
    let beyond = objects.first().map_or(0, |first| first.0 & (contract.align - 1));
    let follow = objects.windows(2).all(|pair| pair[1].0.wrapping_sub(pair[0].0) == contract.stride);
    if follow && beyond.is_multiple_of(contract.stride) { beyond / contract.stride } else { 0 }
}

/// Who allocated how many of the blocks, the most first.
fn holders(callers: BTreeMap<DmaAddr, Option<String>>) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for caller in callers.into_values() {
        *counts.entry(caller.unwrap_or_else(|| "a caller that is not told".to_owned())).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    counts
}
