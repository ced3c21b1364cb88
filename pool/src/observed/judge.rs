//! Judging a log.

use std::collections::BTreeMap;
use std::time::Duration;

use bus::PoolLayout;

use super::book::{Access, Book};
use super::event::{Event, What};
use super::log::{Item, Log};
use super::pools::Assigned;
use super::report::Report;

const FRAME: u64 = 4096;

/// Holds a log against what dma_pool promises, and pools whose names are in `layouts` against those contracts.
///
/// `accesses` are what the device did meanwhile, in its order, if anybody saw it. Each is judged where the log says who
/// had its memory then.
#[must_use]
pub fn judge(log: &Log, layouts: &[&'static PoolLayout], accesses: &[Access]) -> Report {
    let assigned = Assigned::of(log);
    // Of use only to order accesses.
    let happened = if accesses.is_empty() { Happened::default() } else { Happened::of(log, &assigned) };
    let mut book = Book::new(&assigned, layouts);
    let mut waiting = accesses.iter().peekable();
    for (item, of_item) in log.items.iter().zip(&assigned.of_item) {
        if let Item::Event(Event { time: Some(time), .. }) = item {
            while let Some(access) = waiting.next_if(|access| access.earliest <= *time) {
                book.access(access, happened.about(access));
            }
        }
        match (item, of_item) {
            (Item::Event(event), Some(index)) => book.tell(*index, event),
            (Item::Event(_), None) => {}
            (Item::Gap, _) => book.gap(),
        }
    }
    for access in waiting {
        book.access(access, happened.about(access));
    }
    book.end()
}

/// When something happened to a frame of memory.
#[derive(Default)]
struct Happened {
    /// By the number of the frame, rising.
    frames: BTreeMap<u64, Vec<Duration>>,
    /// Times of gaps, and of what has no time of its own.
    anywhere: Vec<Duration>,
}

impl Happened {
    fn of(log: &Log, assigned: &Assigned) -> Self {
        let mut happened = Self::default();
        let mut latest = Duration::ZERO;
        for (item, of_item) in log.items.iter().zip(&assigned.of_item) {
            let Item::Event(Event { time, what, .. }) = item else {
                happened.anywhere.push(latest);
                continue;
            };
            let Some(index) = *of_item else { continue };
            latest = time.unwrap_or(latest);
            let instance = &assigned.instances[index];
            match what {
                What::Alloc(Some(block)) | What::Free(block) => {
                    let last = block.dma.0.saturating_add(instance.geometry().size - 1);
                    (block.dma.0 / FRAME..=last / FRAME).for_each(|frame| happened.add(frame, latest));
                }
                What::Destroy => {
                    for &(start, len) in &instance.pages {
                        (start / FRAME..(start + len) / FRAME).for_each(|frame| happened.add(frame, latest));
                    }
                }
                What::Create | What::Alloc(None) => {}
            }
        }
        happened
    }

    fn add(&mut self, frame: u64, time: Duration) {
        self.frames.entry(frame).or_default().push(time);
    }

    /// Whether something happened to the memory of an access at a time when that may have been.
    fn about(&self, access: &Access) -> bool {
        let first = access.access.addr.0;
        let last = first.saturating_add(access.access.len.max(1) - 1);
        let near = |times: &Vec<Duration>| {
            let at = times.partition_point(|&time| time < access.earliest);
            times.get(at).is_some_and(|&time| time <= access.latest)
        };
        near(&self.anywhere) || self.frames.range(first / FRAME..=last / FRAME).any(|(_, times)| near(times))
    }
}
