//! What can be wrong with a kernel file, as changes of its lines. They fit Linux's mm/dmapool.c from 6.4 on.

/// A fault: what it is called, what it does, and what it changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edit {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// What stands there once, and what takes its place.
    changes: &'static [(&'static str, &'static str)],
}

impl Edit {
    /// The changed text; `None` if the file does not have what is to be changed just once.
    pub(super) fn apply(&self, text: &str) -> Option<String> {
        self.changes.iter().try_fold(text.to_owned(), |text, (from, to)| {
            (text.matches(from).count() == 1).then(|| text.replacen(from, to, 1))
        })
    }
}

macro_rules! edits {
    ($($name:literal, $about:literal, [$(($from:literal, $to:literal)),+ $(,)?];)*) => {
        pub(super) const EDITS: &[Edit] = &[$(Edit { name: $name, about: $about, changes: &[$(($from, $to)),+] }),*];
    };
}

edits! {
    // Where blocks lie.
    "size-not-rounded", "the size is not rounded up to the alignment: the second block is not aligned",
        [("size = ALIGN(size, align);", "")];
    "align-capped", "no block is aligned to more than 64 bytes",
        [("size = ALIGN(size, align);", "size = ALIGN(size, min_t(size_t, align, 64));")];
    "size-rounded-down", "the size is rounded down to the alignment: blocks overlap",
        [("size = ALIGN(size, align);", "size = max_t(size_t, ALIGN_DOWN(size, align), align);")];
    "boundary-ignored", "blocks cross the boundary",
        [("boundary = min(boundary, allocation);", "boundary = allocation;")];
    "boundary-by-one", "a block may cross the boundary with its last byte",
        [("if (offset + pool->size > next_boundary)", "if (offset + pool->size - 1 > next_boundary)")];
    "first-boundary-only", "only the first boundary in a page is kept",
        [("next_boundary += pool->boundary;", "next_boundary = pool->allocation;")];
    "overlap-at-boundary", "a block that would cross the boundary ends there, over the one before it",
        [("offset = next_boundary;", "offset = next_boundary - pool->size;")];
    "past-page-end", "the last block of a page ends behind it",
        [
            ("while (offset + pool->size <= pool->allocation)", "while (offset < pool->allocation)"),
            ("boundary = min(boundary, allocation);", "boundary = boundary < allocation ? boundary : 2 * allocation;"),
        ];
    "later-pages-shifted", "blocks of every page but the first lie 8 bytes further on",
        [("next_boundary = pool->boundary, offset = 0;", "next_boundary = pool->boundary, offset = pool->nr_pages ? 8 : 0;")];
    // What is taken and refused.
    "zero-size-taken", "size 0 is taken for the smallest",
        [("if (size == 0 || size > INT_MAX)", "if (size > INT_MAX)")];
    "odd-align-taken", "an alignment that is no power of two is taken",
        [("else if (align & (align - 1))", "else if (0)")];
    "odd-boundary-taken", "a boundary that is no power of two is taken",
        [("else if ((boundary < size) || (boundary & (boundary - 1)))", "else if (boundary < size)")];
    "small-boundary-taken", "a boundary smaller than a block is taken",
        [("else if ((boundary < size) || (boundary & (boundary - 1)))", "else if (boundary & (boundary - 1))")];
    "large-size-refused", "a block larger than a page is refused",
        [("if (size == 0 || size > INT_MAX)", "if (size == 0 || size > PAGE_SIZE)")];
    // Order and distance: no promise, and clients rely on it.
    "descending", "a fresh page's last block comes first, as in linux-next of January 2023",
        [
            ("block->next_block = NULL;", "block->next_block = first;"),
            ("if (last)\n", "if (0)\n"),
            ("last = block;", "last = last ? last : block;"),
        ];
    "page-header", "each page begins with a header, one block long",
        [("next_boundary = pool->boundary, offset = 0;",
          "next_boundary = pool->boundary, offset = 2 * pool->size <= pool->boundary ? pool->size : 0;")];
    // The list.
    "double-hand-out", "now and then a block stays on the list when it is handed out",
        [("pool->next_block = block->next_block;", "if (pool->nr_active % 7 != 6)\n\t\t\tpool->next_block = block->next_block;")];
    "stale-link", "now and then a freed block is made the head before it is linked: it links to itself",
        [("block->next_block = pool->next_block;", "block->next_block = pool->nr_active % 7 == 1 ? block : pool->next_block;")];
    "lost-block", "now and then a freed block is lost",
        [("pool_block_push(pool, block, dma);", "if (pool->nr_active % 7 != 1)\n\t\t\tpool_block_push(pool, block, dma);")];
    "lost-page-begin", "a page's first block is not linked",
        [("last->next_block = pool->next_block;", "first = first == last ? first : first->next_block, last->next_block = pool->next_block;")];
    "narrow-dma", "32 bits of the DMA address are handed out",
        [("*handle = block->dma;", "*handle = (u32)block->dma;")];
    "neighbours-dma", "a page's later blocks have the DMA address of the one before",
        [("block->dma = page->dma + offset;", "block->dma = page->dma + (offset ? offset - pool->size : 0);")];
    // Zeroing.
    "not-zeroed", "nothing is zeroed",
        [("memset(block, 0, pool->size);", ";")];
    "links-zeroed", "only the links are zeroed",
        [("memset(block, 0, pool->size);", "memset(block, 0, sizeof(*block));")];
    "zeroed-too-short", "whole words of the block are zeroed, and not the rest",
        [("memset(block, 0, pool->size);", "memset(block, 0, ALIGN_DOWN(pool->size, 8));")];
    "zeroed-too-long", "whole cache lines are zeroed, and what follows the block with them",
        [("memset(block, 0, pool->size);", "memset(block, 0, ALIGN(pool->size, 64));")];
    "zeroed-when-freed", "blocks are zeroed when they are freed, before they are linked, and not when they are handed out",
        [
            ("memset(block, 0, pool->size);", ";"),
            ("pool_block_push(pool, block, dma);", "memset(block, 0, pool->size);\n\t\tpool_block_push(pool, block, dma);"),
        ];
    "atomic-not-zeroed", "atomic allocations are not zeroed",
        [("if (want_init_on_alloc(mem_flags))", "if (want_init_on_alloc(mem_flags) && gfpflags_allow_blocking(mem_flags))")];
    // Pages, failures, the end.
    "atomic-sleeps", "an atomic allocation sleeps for a page",
        [("pool_alloc_page(pool, mem_flags & (~__GFP_ZERO));", "pool_alloc_page(pool, GFP_KERNEL);")];
    "atomic-sleeps-later", "an atomic allocation sleeps for every page but the first",
        [("pool_alloc_page(pool, mem_flags & (~__GFP_ZERO));", "pool_alloc_page(pool, pool->nr_pages ? GFP_KERNEL : GFP_ATOMIC);")];
    "locked-while-fetching", "the lock is held while a page is fetched",
        [("spin_unlock_irqrestore(&pool->lock, flags);\n\n\t\tpage =", "page =")];
    "failure-leaks-record", "the record of a page that could not be had is not freed",
        [("kfree(page);\n\t\treturn NULL;", "return NULL;")];
    "failure-counts", "a failed allocation is counted",
        [("page = pool_alloc_page(pool, mem_flags & (~__GFP_ZERO));",
          "page = pool_alloc_page(pool, mem_flags & (~__GFP_ZERO));\n\t\tpool->nr_active += !page;")];
    "wait-loses-list", "what others free while a page is fetched is lost",
        [("\t\tpool_initialise_page(pool, page);", "\t\tpool->next_block = NULL;\n\t\tpool_initialise_page(pool, page);")];
    "free-not-counted", "now and then a free is not counted",
        [("pool->nr_active--;", "pool->nr_active -= pool->nr_active % 7 != 1;")];
    "destroy-leaks-page", "the newest page is not given back at the end",
        [("if (!busy)\n", "if (!busy && page->page_list.prev != &pool->page_list)\n")];
    "destroyed-in-use", "a pool in use is destroyed",
        [("if (pool->nr_active) {", "if (0) {")];
    "destroyed-with-one", "a pool with one block in use is destroyed",
        [("if (pool->nr_active) {", "if (pool->nr_active > 1) {")];
    "record-leaks", "the pool's own record is not freed at its end",
        [("kfree(pool);", "")];
    "record-freed-twice", "the records of pages are freed twice",
        [("list_del(&page->page_list);\n\t\tkfree(page);", "list_del(&page->page_list);\n\t\tkfree(page);\n\t\tkfree(page);")];
    "file-stays", "the device's file stays when its last pool goes: there is no other pool after it",
        [("device_remove_file(pool->dev, &dev_attr_pools);", ";")];
}
