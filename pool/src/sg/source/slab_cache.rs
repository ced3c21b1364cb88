//! Objects of one size (Linux: `kmem_cache_alloc`, mm/slub.c of 5.2).
//!
//! A slab is a run of pages cut up into objects. Each thread has one that it allocates from, and a list of its free objects
//! that no other thread touches: taking from it and freeing into it takes no lock. What other threads free into that slab
//! goes to a second list, the slab's own, which its thread takes over when its own list is empty. A slab without a thread
//! is full and nowhere, or partly free and in the cache's list.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bus::CpuAddr;
use parking_lot::Mutex;
use thread_local::ThreadLocal;

use crate::pool::Flags;

use super::super::error::ChunkError;
use super::buddy::Buddy;
use super::frames::{Frame, NONE};
use super::{ChunkSource, PAGE};

/// Runs of 8 pages are the largest for objects that are not larger themselves (`slub_max_order`).
const LARGEST_ORDER: usize = 3;
/// Objects that a slab should have at least: four times as many for one processor as for none (`calculate_order`).
const FEWEST_OBJECTS: u64 = 8;
/// Slabs in the list; beyond that those without a live object go back to the pages (`min_partial`).
const KEPT: usize = 5;

/// [`Frame::place`]: all objects are in use, or the slab is no more.
const FULL: u32 = 0;
/// A thread has it.
const ACTIVE: u32 = 1;
/// In the list, at this place and up.
const LISTED: u32 = 2;

/// A slab cache over the pages of a [`Buddy`].
///
/// As in Linux without debugging, a free object's link is in the object, and of repeated frees only that of the last freed
/// object is noticed. Dropped, it gives its pages back, but for slabs with objects that are in use.
pub struct SlabCache {
    pages: Arc<Buddy>,
    owner: u32,
    size: u64,
    /// Where in a free object the link to the next one is: not at its beginning, which overruns hit (Linux 5.7).
    link: u64,
    order: usize,
    objects: u32,
    threads: ThreadLocal<Active>,
    /// First pages of slabs that are partly free and no thread's.
    partial: Mutex<Vec<u32>>,
}

/// A thread's slab.
struct Active {
    /// Its first page.
    slab: Cell<u32>,
    /// Its first free object that is the thread's own, 0 if there is none.
    free: Cell<u64>,
}

impl SlabCache {
    /// A cache of objects of `size` bytes, rounded up to 8; powers of two of up to a page are aligned to themselves.
    ///
    /// # Errors
    /// [`ChunkError::Size`] for 0, or more than 4 MiB.
    pub fn new(pages: Arc<Buddy>, size: u64) -> Result<Self, ChunkError> {
        let owner = pages.frames().owners.fetch_add(1, Ordering::Relaxed);
        Self::of_owner(pages, size, owner)
    }

    pub(super) fn of_owner(pages: Arc<Buddy>, size: u64, owner: u32) -> Result<Self, ChunkError> {
        let smallest = Buddy::order(size)?;
        let size = size.next_multiple_of(8);
        let order = order(size, smallest);
        let objects = ((PAGE << order) / size) as u32;
        let link = size / 2 / 8 * 8;
        Ok(Self { pages, owner, size, link, order, objects, threads: ThreadLocal::new(), partial: Mutex::default() })
    }

    /// Size of an object in bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Objects of a slab.
    #[must_use]
    pub const fn objects_of_a_slab(&self) -> u32 {
        self.objects
    }

    fn active(&self) -> &Active {
        self.threads.get_or(|| Active { slab: Cell::new(NONE), free: Cell::new(0) })
    }

    /// An object, its contents not defined.
    pub(super) fn take(&self, flags: Flags) -> Result<CpuAddr, ChunkError> {
        let active = self.active();
        if active.free.get() == 0 {
            self.refill(active, flags)?;
        }
        let object = CpuAddr(active.free.get());
        active.free.set(self.next(object)?);
        Ok(object)
    }

    /// Takes an object back.
    pub(super) fn give(&self, at: CpuAddr) -> Result<(), ChunkError> {
        let wrong = ChunkError::NotHandedOut { at, len: self.size };
        let head = self.pages.page(at).and_then(|page| self.pages.head(page, self.order)).ok_or(wrong)?;
        let slab = self.pages.frame(head).filter(|slab| slab.is_of(self.owner)).ok_or(wrong)?;
        // A slab has less than 2^32 bytes.
        let (offset, size) = ((at.0 - self.pages.address(head).0) as u32, self.size as u32);
        if !offset.is_multiple_of(size) || offset / size >= self.objects {
            return Err(wrong);
        }
        let active = self.active();
        if head == active.slab.get() {
            if active.free.get() == at.0 {
                return Err(wrong);
            }
            self.set_next(at, active.free.get())?;
            active.free.set(at.0);
            return Ok(());
        }
        self.give_to_slab(slab, head, at).map_err(|error| error.unwrap_or(wrong))
    }

    /// Frees into a slab that is not the thread's. `Err(None)`: it is its last freed object.
    fn give_to_slab(&self, slab: &Frame, head: u32, at: CpuAddr) -> Result<(), Option<ChunkError>> {
        let mut partial = self.partial.lock();
        let first = slab.free.load(Ordering::Relaxed);
        if first == at.0 {
            return Err(None);
        }
        self.set_next(at, first).map_err(Some)?;
        slab.free.store(at.0, Ordering::Relaxed);
        let count = slab.count.load(Ordering::Relaxed) + 1;
        slab.count.store(count, Ordering::Relaxed);
        match slab.place.load(Ordering::Relaxed) {
            ACTIVE => return Ok(()),
            FULL => self.list(&mut partial, slab, head),
            _ => {}
        }
        if count == self.objects && partial.len() > KEPT {
            self.unlist(&mut partial, slab);
            drop(partial);
            self.release(head).map_err(Some)?;
        }
        Ok(())
    }

    fn list(&self, partial: &mut Vec<u32>, slab: &Frame, head: u32) {
        slab.place.store(LISTED + partial.len() as u32, Ordering::Relaxed);
        partial.push(head);
    }

    /// Takes a slab out of the list; the last one takes its place there.
    fn unlist(&self, partial: &mut Vec<u32>, slab: &Frame) {
        let place = slab.place.swap(FULL, Ordering::Relaxed) - LISTED;
        partial.swap_remove(place as usize);
        if let Some(moved) = partial.get(place as usize).and_then(|&moved| self.pages.frame(moved)) {
            moved.place.store(LISTED + place, Ordering::Relaxed);
        }
    }

    /// Gives the thread free objects: those that others freed into its slab, or those of another slab.
    #[cold]
    fn refill(&self, active: &Active, flags: Flags) -> Result<(), ChunkError> {
        {
            let mut partial = self.partial.lock();
            if let Some(slab) = self.pages.frame(active.slab.get()) {
                if slab.count.load(Ordering::Relaxed) > 0 {
                    take_over(active, slab);
                    return Ok(());
                }
                slab.place.store(FULL, Ordering::Relaxed);
                active.slab.set(NONE);
            }
            if let Some(head) = partial.pop() {
                if let Some(slab) = self.pages.frame(head) {
                    slab.place.store(ACTIVE, Ordering::Relaxed);
                    take_over(active, slab);
                }
                active.slab.set(head);
                return Ok(());
            }
        }
        self.grow(active, flags)
    }

    /// A new slab for the thread. The pages may sleep: no lock is held.
    fn grow(&self, active: &Active, flags: Flags) -> Result<(), ChunkError> {
        let first = self.pages.alloc_pages(self.order, Flags { zero: false, ..flags })?;
        let objects = (0..u64::from(self.objects)).map(|index| first.offset(index * self.size));
        let next = objects.clone().skip(1).map(|object| object.0).chain([0]);
        objects.zip(next).try_for_each(|(object, next)| self.set_next(object, next))?;
        let head = self.pages.page(first).unwrap_or(NONE);
        for page in self.pages_of(head) {
            page.free.store(0, Ordering::Relaxed);
            page.count.store(0, Ordering::Relaxed);
            page.place.store(ACTIVE, Ordering::Relaxed);
            page.owner.store(self.owner, Ordering::Release);
        }
        active.slab.set(head);
        active.free.set(first.0);
        Ok(())
    }

    /// Gives a slab's pages back.
    fn release(&self, head: u32) -> Result<(), ChunkError> {
        self.pages_of(head).for_each(|page| page.owner.store(0, Ordering::Release));
        self.pages.free_pages(self.pages.address(head), self.order)
    }

    fn pages_of(&self, head: u32) -> impl Iterator<Item = &Frame> {
        (head..head.saturating_add(1 << self.order)).filter_map(|page| self.pages.frame(page))
    }

    fn next(&self, object: CpuAddr) -> Result<u64, ChunkError> {
        Ok(self.pages.memory().read_u64(object.offset(self.link))?)
    }

    fn set_next(&self, object: CpuAddr, next: u64) -> Result<(), ChunkError> {
        Ok(self.pages.memory().write_u64(object.offset(self.link), next)?)
    }

    /// Objects in a list that begins with this one. Ends where it is damaged.
    fn count(&self, mut object: u64) -> u32 {
        let mut count = 0;
        while object != 0 && count < self.objects {
            count += 1;
            object = self.next(CpuAddr(object)).unwrap_or(0);
        }
        count
    }
}

/// The slab's own list becomes the thread's.
fn take_over(active: &Active, slab: &Frame) {
    active.free.set(slab.free.swap(0, Ordering::Relaxed));
    slab.count.store(0, Ordering::Relaxed);
}

/// The smallest order that wastes no more than a sixteenth and has enough objects (`calculate_order`).
fn order(size: u64, smallest: usize) -> usize {
    let is_good = |order: &usize| {
        let slab = PAGE << order;
        slab / size >= FEWEST_OBJECTS && slab % size <= slab / 16
    };
    (smallest..=LARGEST_ORDER).find(is_good).unwrap_or(smallest.max(LARGEST_ORDER))
}

impl ChunkSource for SlabCache {
    fn alloc(&self, len: u64, flags: Flags) -> Result<CpuAddr, ChunkError> {
        if len == 0 || len > self.size {
            return Err(ChunkError::Size { len, most: self.size });
        }
        let object = self.take(flags)?;
        if flags.zero {
            self.pages.memory().fill(object, self.size, 0)?;
        }
        Ok(object)
    }

    fn free(&self, at: CpuAddr, _len: u64) -> Result<(), ChunkError> {
        self.give(at)
    }
}

impl Drop for SlabCache {
    fn drop(&mut self) {
        let actives: Vec<(u32, u64)> = self.threads.iter_mut().map(|it| (it.slab.get(), it.free.get())).collect();
        let own = |head: u32| actives.iter().find(|(slab, _)| *slab == head).map_or(0, |(_, free)| self.count(*free));
        let partial = std::mem::take(&mut *self.partial.lock());
        for head in partial.into_iter().chain(actives.iter().map(|(slab, _)| *slab)) {
            let Some(slab) = self.pages.frame(head) else { continue };
            if slab.count.load(Ordering::Relaxed) + own(head) == self.objects {
                // Pages that this cache has from there are taken.
                let _ = self.release(head);
            }
        }
    }
}

impl fmt::Debug for SlabCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlabCache").field("size", &self.size).field("order", &self.order).finish_non_exhaustive()
    }
}
