//! What is known of each page (`struct page`), outside of the memory that it is about.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

/// Orders of runs: a page to 1024 pages, 4 MiB (`MAX_PAGE_ORDER`).
pub(super) const ORDERS: usize = 11;
/// No page.
pub(super) const NONE: u32 = u32::MAX;

/// What a page is to the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The first of a free run of this order.
    Free(u8),
    /// The first of a run of this order that is in use.
    Taken(u8),
    /// Another one than the first of a run.
    Within,
}

/// A page in the zone's lists.
#[derive(Clone, Copy, Debug)]
struct Page {
    used: Use,
    next: u32,
    before: u32,
}

/// The free runs of a zone, a list for each order, the last freed first.
pub(super) struct Zone {
    pages: Vec<Page>,
    lists: [u32; ORDERS],
    /// Number of the first page, from address 0: what alignment goes by.
    first: u64,
    free: u64,
}

impl Zone {
    /// All of these pages, free, in runs as large as their alignment allows.
    pub(super) fn new(first: u64, count: u32) -> Self {
        let page = Page { used: Use::Within, next: NONE, before: NONE };
        let mut zone = Self { pages: vec![page; count as usize], lists: [NONE; ORDERS], first, free: count.into() };
        // From the end, so that the lowest run is the first of its list.
        let mut end = u64::from(count);
        while end > 0 {
            let aligned = (first + end).trailing_zeros().min(ORDERS as u32 - 1);
            let order = aligned.min(end.ilog2());
            end -= 1 << order;
            zone.link(end as u32, order as usize);
        }
        zone
    }

    pub(super) const fn free(&self) -> u64 {
        self.free
    }

    /// Free runs by order.
    pub(super) fn runs(&self) -> [usize; ORDERS] {
        let length = |head: u32| {
            let next = |&page: &u32| Some(self.pages[page as usize].next).filter(|&next| next != NONE);
            std::iter::successors(Some(head).filter(|&head| head != NONE), next).count()
        };
        self.lists.map(length)
    }

    /// Takes a run of 2^order pages: the first of the smallest that will do, of which the upper halves stay.
    pub(super) fn take(&mut self, order: usize) -> Option<u32> {
        let mut found = (order..ORDERS).find(|&order| self.lists[order] != NONE)?;
        let page = self.lists[found];
        self.unlink(page, found);
        while found > order {
            found -= 1;
            self.link(page + (1 << found), found);
        }
        self.pages[page as usize].used = Use::Taken(order as u8);
        self.free -= 1 << order;
        Some(page)
    }

    /// Gives a run back, and merges it with its buddies as long as they are free. `false` if it is not in use.
    pub(super) fn give(&mut self, mut page: u32, mut order: usize) -> bool {
        if self.pages.get(page as usize).is_none_or(|page| page.used != Use::Taken(order as u8)) {
            return false;
        }
        self.pages[page as usize].used = Use::Within;
        self.free += 1 << order;
        while order < ORDERS - 1 {
            let number = self.first + u64::from(page);
            let Some(buddy) = (number ^ 1 << order).checked_sub(self.first).map(|buddy| buddy as u32) else { break };
            if self.pages.get(buddy as usize).is_none_or(|page| page.used != Use::Free(order as u8)) {
                break;
            }
            self.unlink(buddy, order);
            page = page.min(buddy);
            order += 1;
        }
        self.link(page, order);
        true
    }

    fn link(&mut self, page: u32, order: usize) {
        let next = std::mem::replace(&mut self.lists[order], page);
        self.pages[page as usize] = Page { used: Use::Free(order as u8), next, before: NONE };
        if next != NONE {
            self.pages[next as usize].before = page;
        }
    }

    fn unlink(&mut self, page: u32, order: usize) {
        let Page { next, before, .. } = self.pages[page as usize];
        self.pages[page as usize].used = Use::Within;
        match before {
            NONE => self.lists[order] = next,
            before => self.pages[before as usize].next = next,
        }
        if next != NONE {
            self.pages[next as usize].before = before;
        }
    }
}

/// A page as the cache sees it that has it for a slab. Written under that cache's lock, but for `owner`.
#[derive(Debug, Default)]
pub(super) struct Frame {
    /// The cache that has it; 0: none has.
    pub(super) owner: AtomicU32,
    /// First free object, 0 if there is none.
    pub(super) free: AtomicU64,
    /// Free objects behind it, that one included.
    pub(super) count: AtomicU32,
    /// Where the slab is kept: see `slab_cache`.
    pub(super) place: AtomicU32,
}

impl Frame {
    pub(super) fn is_of(&self, owner: u32) -> bool {
        self.owner.load(Ordering::Acquire) == owner
    }
}

/// All pages of a zone.
pub(super) struct Frames {
    pub(super) zone: Mutex<Zone>,
    pub(super) slabs: Box<[Frame]>,
    /// The next cache's number.
    pub(super) owners: AtomicU32,
}

impl Frames {
    pub(super) fn new(first: u64, count: u32) -> Self {
        let slabs = (0..count).map(|_| Frame::default()).collect();
        Self { zone: Mutex::new(Zone::new(first, count)), slabs, owners: AtomicU32::new(1) }
    }
}
