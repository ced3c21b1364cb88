//! Objects of any size (Linux: `kmalloc`, mm/slab_common.c).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bus::CpuAddr;

use crate::pool::Flags;

use super::super::error::ChunkError;
use super::ChunkSource;
use super::buddy::Buddy;
use super::slab_cache::SlabCache;

/// Sizes of the classes in bytes (`kmalloc_info`). Larger objects have pages of their own.
const CLASSES: [u64; 13] = [8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192];

/// Up to here classes lie closer than powers of two, and are looked up (`size_index`).
const LOOKED_UP: u64 = 192;
/// The class of each multiple of 8 up to it.
const LOOK_UP: [u8; (LOOKED_UP / 8) as usize] = {
    let mut classes = [0; (LOOKED_UP / 8) as usize];
    let mut index = 0;
    while index < classes.len() {
        while CLASSES[classes[index] as usize] < 8 * (index as u64 + 1) {
            classes[index] += 1;
        }
        index += 1;
    }
    classes
};
/// Above, classes are powers of two, and that of 2^(n + 1) bytes has number n.
const _: () = assert!(CLASSES[7] == 1 << 8 && CLASSES[12] == 1 << 13);

/// A slab cache for each of 13 sizes of 8 bytes to 8 KiB, over the pages of a [`Buddy`], and pages for larger objects.
///
/// Freeing looks up whose page it is, and takes the object's size from there, as `kfree` does.
pub struct SizeClasses {
    pages: Arc<Buddy>,
    classes: Vec<SlabCache>,
    /// Number of the first class's cache; the others follow.
    first: u32,
}

impl SizeClasses {
    /// Classes over `pages`.
    ///
    /// # Errors
    /// None today: every class has a size that a [`SlabCache`] can have.
    pub fn new(pages: Arc<Buddy>) -> Result<Self, ChunkError> {
        let first = pages.frames().owners.fetch_add(CLASSES.len() as u32, Ordering::Relaxed);
        let cache = |(owner, &size)| SlabCache::of_owner(Arc::clone(&pages), size, owner);
        let classes = (first..).zip(&CLASSES).map(cache).collect::<Result<_, _>>()?;
        Ok(Self { pages, classes, first })
    }

    /// The class for objects of that size (`kmalloc_index`).
    fn class(&self, len: u64) -> Option<&SlabCache> {
        let index = if len <= LOOKED_UP {
            usize::from(LOOK_UP[(len.checked_sub(1)? / 8) as usize])
        } else {
            (len - 1).ilog2() as usize
        };
        self.classes.get(index)
    }

    /// The class that a page is of; `None`: it has no objects.
    fn class_of_page(&self, at: CpuAddr) -> Option<&SlabCache> {
        let owner = self.pages.frame(self.pages.page(at)?)?.owner.load(Ordering::Acquire);
        self.classes.get(owner.checked_sub(self.first)? as usize)
    }
}

impl ChunkSource for SizeClasses {
    fn alloc(&self, len: u64, flags: Flags) -> Result<CpuAddr, ChunkError> {
        match self.class(len) {
            Some(class) => class.alloc(len, flags),
            None => ChunkSource::alloc(&*self.pages, len, flags),
        }
    }

    fn free(&self, at: CpuAddr, len: u64) -> Result<(), ChunkError> {
        match self.class_of_page(at) {
            Some(class) if len != 0 && len <= class.size() => class.give(at),
            None if self.class(len).is_none() => ChunkSource::free(&*self.pages, at, len),
            _ => Err(ChunkError::NotHandedOut { at, len }),
        }
    }
}

impl fmt::Debug for SizeClasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SizeClasses").field("pages", &self.pages).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_of_the_smallest_class_that_has_room() {
        let memory = crate::sg::source::tests::memory(64);
        let classes = SizeClasses::new(memory.1).expect("classes");
        for len in 1..=8192 {
            let smallest = CLASSES.into_iter().find(|&size| size >= len);
            assert_eq!(classes.class(len).map(SlabCache::size), smallest, "{len}");
        }
        assert!(classes.class(0).is_none() && classes.class(8193).is_none());
    }
}
