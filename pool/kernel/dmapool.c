// SPDX-License-Identifier: GPL-2.0-only
/*
 * DMA pool allocator with its metadata outside of DMA memory
 *
 * A pool gets its memory a page at a time from dma_alloc_coherent() and hands
 * it out in blocks of one size.  Devices write to that memory, so nothing of
 * the allocator's own is kept in it: what a device does to a free block has no
 * influence on what is handed out next.
 *
 * Every block has a number: that of its page, and its slot in the page.  The
 * free blocks are a stack of numbers.  A number leads to its page by an array,
 * a DMA address by a hash of its page frame, and both take the same time
 * however many pages there are.  A byte for each block tells whether it is in
 * use.  dma_pool_free() refuses what is no block, what is not in use, and a
 * virtual address that does not belong to the DMA address.
 *
 * Numbers are taken from the stack and put back several at a time, and are
 * kept by the processor meanwhile: most calls take no lock.  Two processors
 * that free one block are told apart by a compare and exchange of its byte.
 * A processor keeps less than a page's blocks, the last ones that it freed.
 * They are out of reach for the others, which rather make the pool grow.  Pools
 * with few blocks to a page do without: theirs are always on the stack.
 */

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/device.h>
#include <linux/dma-mapping.h>
#include <linux/export.h>
#include <linux/hash.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/local_lock.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/poison.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/types.h>

/*
 * dma_pool_create() is a function of its own in some trees, and inline around
 * dma_pool_create_node() in others.  Both are exported here; a header's own
 * inline function steps aside.
 */
#define dma_pool_create dma_pool_create_inline
#include <linux/dmapool.h>
#undef dma_pool_create

#ifdef CONFIG_SLUB_DEBUG_ON
#define DMAPOOL_DEBUG 1
#endif

/* A smaller block would cost more metadata than it saves memory. */
#define POOL_MIN_SIZE		16
/* Pages that the first index has room for. */
#define POOL_MIN_PAGES		8U
/* Numbers in a part of the stack: 256 bytes to a page of them. */
#define POOL_MIN_PART		60U
#define POOL_MAX_PART		1020U
/* Numbers that a processor keeps at most: a cache line or two. */
#define POOL_CACHE_SIZE		24U
/* Fewer than that are not worth a cache. */
#define POOL_CACHE_MIN		8
/* Exact for every offset in a page and every size that fits in twice. */
#define POOL_INVERSE_SHIFT	40
/* No block begins in this slot, because it would cross a boundary. */
#define POOL_NO_OFFSET		U32_MAX

enum { BLOCK_FREE, BLOCK_IN_USE };

/* One allocation of coherent memory. */
struct dma_page {
	void *vaddr;
	dma_addr_t dma;
	u32 first;			/* number of the block in slot 0 */
	u8 state[];			/* by slot */
};

/* The stack is in parts, so that it grows without being moved. */
struct dma_part {
	struct list_head parts;
	u32 number[];
};

/* The way to the pages, from an address and from a number. */
struct dma_index {
	struct dma_index *outgrown;	/* somebody may still look at it */
	struct dma_page **by_number;
	unsigned int capacity;		/* pages */
	unsigned int hash_bits;
	struct dma_page *by_frame[];	/* open addressing, at most half full */
};

/* Free blocks that one processor keeps; the next one to hand out is the last. */
struct dma_cache {
	local_lock_t lock;
	unsigned int nr;
	u32 number[POOL_CACHE_SIZE];
};

struct dma_pool {
	/* Read by every call, and seldom written. */
	struct dma_index *index;
	struct dma_page **by_number;	/* of the index */
	struct dma_cache __percpu *cache;
	unsigned int cache_size;
	unsigned int slot_shift;	/* number = page << slot_shift | slot */
	unsigned int slot_mask;
	u64 inverse;			/* of the size */
	unsigned int page_shift;
	unsigned int frame_size;

	spinlock_t lock ____cacheline_aligned_in_smp;
	unsigned int top;		/* numbers in the last part in use */
	unsigned int part_size;		/* numbers that fit in there */
	u32 *numbers;			/* of that part */
	struct dma_part *part;
	struct list_head parts;
	size_t nr_blocks;
	size_t nr_pages;
	size_t nr_reserved;		/* pages that there are or will be */
	size_t room;			/* of all parts */

	struct device *dev;
	int node;
	unsigned int size;
	unsigned int allocation;
	unsigned int nr_slots;
	unsigned int blocks_per_page;
	char name[32];
	struct list_head pools;
	u32 offset[];			/* by slot */
};

static DEFINE_MUTEX(pools_lock);
static DEFINE_MUTEX(pools_reg_lock);

/* Exact while nobody allocates or frees. */
static size_t pool_nr_active(struct dma_pool *pool)
{
	size_t nr_free, nr_active;
	struct dma_part *part;
	unsigned long flags;
	int cpu;

	spin_lock_irqsave(&pool->lock, flags);
	nr_active = pool->nr_blocks;
	nr_free = pool->top;
	list_for_each_entry(part, &pool->parts, parts) {
		if (part == pool->part)
			break;
		nr_free += pool->part_size;
	}
	spin_unlock_irqrestore(&pool->lock, flags);

	if (pool->cache)
		for_each_possible_cpu(cpu)
			nr_free += READ_ONCE(per_cpu_ptr(pool->cache, cpu)->nr);

	return nr_active > nr_free ? nr_active - nr_free : 0;
}

static ssize_t pools_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	struct dma_pool *pool;
	int len;

	len = sysfs_emit(buf, "poolinfo - 0.1\n");

	mutex_lock(&pools_lock);
	list_for_each_entry(pool, &dev->dma_pools, pools)
		len += sysfs_emit_at(buf, len, "%-16s %4zu %4zu %4u %2zu\n",
				     pool->name, pool_nr_active(pool),
				     READ_ONCE(pool->nr_blocks), pool->size,
				     READ_ONCE(pool->nr_pages));
	mutex_unlock(&pools_lock);

	return len;
}

static DEVICE_ATTR_RO(pools);

#ifdef DMAPOOL_DEBUG
static void pool_init_page(struct dma_pool *pool, struct dma_page *page)
{
	memset(page->vaddr, POOL_POISON_FREED, pool->allocation);
}

/* Nothing has written to a free block: all of it is as it was left. */
static void pool_init_block(struct dma_pool *pool, void *vaddr, gfp_t mem_flags)
{
	if (memchr_inv(vaddr, POOL_POISON_FREED, pool->size)) {
		dev_err(pool->dev, "%s %s, %p (corrupted)\n", __func__,
			pool->name, vaddr);
		print_hex_dump(KERN_ERR, "", DUMP_PREFIX_OFFSET, 16, 1, vaddr,
			       pool->size, true);
	}

	if (want_init_on_alloc(mem_flags))
		memset(vaddr, 0, pool->size);
	else
		memset(vaddr, POOL_POISON_ALLOCATED, pool->size);
}

static void pool_clear_block(struct dma_pool *pool, void *vaddr)
{
	memset(vaddr, POOL_POISON_FREED, pool->size);
}
#else
static void pool_init_page(struct dma_pool *pool, struct dma_page *page)
{
}

static void pool_init_block(struct dma_pool *pool, void *vaddr, gfp_t mem_flags)
{
	if (want_init_on_alloc(mem_flags))
		memset(vaddr, 0, pool->size);
}

static void pool_clear_block(struct dma_pool *pool, void *vaddr)
{
	if (want_init_on_free())
		memset(vaddr, 0, pool->size);
}
#endif

static void pool_use_part(struct dma_pool *pool, struct dma_part *part,
			  unsigned int top)
{
	pool->part = part;
	pool->numbers = part->number;
	pool->top = top;
}

/* The part in use is empty. */
static noinline bool pool_step_down(struct dma_pool *pool)
{
	if (pool->part == list_first_entry_or_null(&pool->parts,
						   struct dma_part, parts))
		return false;

	pool_use_part(pool, list_prev_entry(pool->part, parts),
		      pool->part_size);
	return true;
}

/* The part in use is full. There is room for every block. */
static noinline void pool_step_up(struct dma_pool *pool)
{
	pool_use_part(pool, list_next_entry(pool->part, parts), 0);
}

/* These are called with the pool's lock. */
static bool pool_pop(struct dma_pool *pool, u32 *number)
{
	if (unlikely(!pool->top) && !pool_step_down(pool))
		return false;
	*number = pool->numbers[--pool->top];
	return true;
}

static void pool_push(struct dma_pool *pool, u32 number)
{
	if (unlikely(pool->top == pool->part_size))
		pool_step_up(pool);
	pool->numbers[pool->top++] = number;
}

/* The processor has none left. The order of the stack is that of the cache. */
static noinline void pool_fill_cache(struct dma_pool *pool,
				     struct dma_cache *cache)
{
	unsigned int lowest = pool->cache_size;

	spin_lock(&pool->lock);
	while (lowest && pool_pop(pool, &cache->number[lowest - 1]))
		lowest--;
	spin_unlock(&pool->lock);

	WRITE_ONCE(cache->nr, pool->cache_size - lowest);
	if (unlikely(lowest))
		memmove(cache->number, cache->number + lowest,
			cache->nr * sizeof(cache->number[0]));
}

/* The processor has as many as it may keep: the older half goes. */
static noinline void pool_drain_cache(struct dma_pool *pool,
				      struct dma_cache *cache)
{
	unsigned int i, nr = DIV_ROUND_UP(cache->nr, 2);

	spin_lock(&pool->lock);
	for (i = 0; i < nr; i++)
		pool_push(pool, cache->number[i]);
	spin_unlock(&pool->lock);

	WRITE_ONCE(cache->nr, cache->nr - nr);
	memmove(cache->number, cache->number + nr,
		cache->nr * sizeof(cache->number[0]));
}

/* Takes a free block, if one is in reach. */
static bool pool_take(struct dma_pool *pool, u32 *number)
{
	struct dma_cache *cache;
	unsigned long flags;
	bool taken;

	if (pool->cache) {
		local_lock_irqsave(&pool->cache->lock, flags);
		cache = this_cpu_ptr(pool->cache);
		if (unlikely(!cache->nr))
			pool_fill_cache(pool, cache);
		taken = cache->nr;
		if (likely(taken)) {
			WRITE_ONCE(cache->nr, cache->nr - 1);
			*number = cache->number[cache->nr];
		}
		local_unlock_irqrestore(&pool->cache->lock, flags);
		return taken;
	}

	spin_lock_irqsave(&pool->lock, flags);
	taken = pool_pop(pool, number);
	spin_unlock_irqrestore(&pool->lock, flags);

	return taken;
}

/* Gives a block back. False if it is not in use. */
static bool pool_give(struct dma_pool *pool, struct dma_page *page,
		      unsigned int slot, void *vaddr)
{
	struct dma_cache *cache;
	unsigned long flags;
	bool in_use;

	if (pool->cache) {
		if (unlikely(cmpxchg(&page->state[slot], BLOCK_IN_USE,
				     BLOCK_FREE) != BLOCK_IN_USE))
			return false;
		pool_clear_block(pool, vaddr);

		local_lock_irqsave(&pool->cache->lock, flags);
		cache = this_cpu_ptr(pool->cache);
		if (unlikely(cache->nr == pool->cache_size))
			pool_drain_cache(pool, cache);
		cache->number[cache->nr] = page->first + slot;
		WRITE_ONCE(cache->nr, cache->nr + 1);
		local_unlock_irqrestore(&pool->cache->lock, flags);
		return true;
	}

	spin_lock_irqsave(&pool->lock, flags);
	in_use = page->state[slot] == BLOCK_IN_USE;
	if (likely(in_use)) {
		page->state[slot] = BLOCK_FREE;
		pool_clear_block(pool, vaddr);
		pool_push(pool, page->first + slot);
	}
	spin_unlock_irqrestore(&pool->lock, flags);

	return in_use;
}

/* The page that an address is in the first page frame of. */
static struct dma_page *pool_find_page(struct dma_pool *pool, dma_addr_t dma)
{
	struct dma_index *index = READ_ONCE(pool->index);
	unsigned int at = hash_64(dma >> pool->page_shift, index->hash_bits);
	struct dma_page *page;

	while ((page = READ_ONCE(index->by_frame[at]))) {
		if (likely(dma - page->dma < pool->frame_size))
			break;
		at = (at + 1) & ((1U << index->hash_bits) - 1);
	}
	return page;
}

static void pool_index_page(struct dma_pool *pool, struct dma_index *index,
			    struct dma_page *page)
{
	unsigned int at = hash_64(page->dma >> pool->page_shift,
				  index->hash_bits);

	while (index->by_frame[at])
		at = (at + 1) & ((1U << index->hash_bits) - 1);
	/* Who finds the page finds all of it. */
	smp_store_release(&index->by_frame[at], page);
	index->by_number[page->first >> pool->slot_shift] = page;
}

static struct dma_index *pool_alloc_index(unsigned int capacity, gfp_t mem_flags,
					  int node)
{
	/* Twice as much for the hash. */
	struct dma_index *index;

	index = kzalloc_node(struct_size(index, by_frame, 3 * (size_t)capacity),
			     mem_flags, node);
	if (!index)
		return NULL;
	index->capacity = capacity;
	index->hash_bits = ilog2(capacity) + 1;
	index->by_number = index->by_frame + 2 * (size_t)capacity;
	return index;
}

/*
 * An index that has become too small stays until the pool goes: others may look
 * up an address in it without a lock.  All of them together are smaller than
 * the one in use.
 */
static bool pool_grow_index(struct dma_pool *pool, gfp_t mem_flags)
{
	struct dma_index *index = READ_ONCE(pool->index), *larger;
	unsigned long flags;
	size_t i;

	/* The number of a block has 32 bits. */
	if (index->capacity > U32_MAX >> (pool->slot_shift + 1))
		return false;
	larger = pool_alloc_index(2 * index->capacity, mem_flags, pool->node);
	if (!larger)
		return false;

	spin_lock_irqsave(&pool->lock, flags);
	/* Somebody else may have been faster. */
	if (pool->index == index) {
		for (i = 0; i < pool->nr_pages; i++)
			pool_index_page(pool, larger, index->by_number[i]);
		larger->outgrown = index;
		/* Who finds the index finds all of it. */
		smp_store_release(&pool->by_number, larger->by_number);
		/* Likewise. */
		smp_store_release(&pool->index, larger);
		larger = NULL;
	}
	spin_unlock_irqrestore(&pool->lock, flags);

	kfree(larger);
	return true;
}

static bool pool_grow_stack(struct dma_pool *pool, gfp_t mem_flags)
{
	struct dma_part *part;
	unsigned long flags;

	part = kmalloc_node(struct_size(part, number, pool->part_size),
			    mem_flags, pool->node);
	if (!part)
		return false;

	spin_lock_irqsave(&pool->lock, flags);
	list_add_tail(&part->parts, &pool->parts);
	pool->room += pool->part_size;
	if (!pool->part)
		pool_use_part(pool, part, 0);
	spin_unlock_irqrestore(&pool->lock, flags);

	return true;
}

/* Makes sure of a place for one page more. */
static bool pool_reserve_page(struct dma_pool *pool, gfp_t mem_flags)
{
	bool (*grow)(struct dma_pool *pool, gfp_t mem_flags);
	unsigned long flags;

	do {
		grow = NULL;
		spin_lock_irqsave(&pool->lock, flags);
		if (pool->nr_reserved == pool->index->capacity)
			grow = pool_grow_index;
		else if (pool->room < (pool->nr_reserved + 1) *
				      pool->blocks_per_page)
			grow = pool_grow_stack;
		else
			pool->nr_reserved++;
		spin_unlock_irqrestore(&pool->lock, flags);

		if (grow && !grow(pool, mem_flags))
			return false;
	} while (grow);

	return true;
}

static void pool_unreserve_page(struct dma_pool *pool)
{
	unsigned long flags;

	spin_lock_irqsave(&pool->lock, flags);
	pool->nr_reserved--;
	spin_unlock_irqrestore(&pool->lock, flags);
}

/* Coherent memory comes last: it could not be given back in atomic context. */
static struct dma_page *pool_alloc_page(struct dma_pool *pool, gfp_t mem_flags)
{
	struct dma_page *page;

	page = kmalloc_node(struct_size(page, state, pool->nr_slots), mem_flags,
			    pool->node);
	if (!page)
		return NULL;
	memset(page->state, BLOCK_FREE, pool->nr_slots);

	if (!pool_reserve_page(pool, mem_flags))
		goto free_page;

	page->vaddr = dma_alloc_coherent(pool->dev, pool->allocation,
					 &page->dma, mem_flags);
	if (!page->vaddr)
		goto unreserve_page;

	pool_init_page(pool, page);
	return page;

unreserve_page:
	pool_unreserve_page(pool);
free_page:
	kfree(page);
	return NULL;
}

/* Its lowest block is the caller's, the others go on the stack. */
static u32 pool_add_page(struct dma_pool *pool, struct dma_page *page)
{
	unsigned int slot = pool->nr_slots;
	unsigned long flags;

	spin_lock_irqsave(&pool->lock, flags);
	page->first = pool->nr_pages++ << pool->slot_shift;
	pool_index_page(pool, pool->index, page);
	/* From the last to the first, so that they are handed out ascending. */
	while (--slot)
		if (pool->offset[slot] != POOL_NO_OFFSET)
			pool_push(pool, page->first + slot);
	pool->nr_blocks += pool->blocks_per_page;
	spin_unlock_irqrestore(&pool->lock, flags);

	return page->first;
}

/* Until the caller has the block, nobody else changes its state. */
static __always_inline void *pool_hand_out(struct dma_pool *pool, u32 number,
					   gfp_t mem_flags, dma_addr_t *handle)
{
	struct dma_page *page;
	unsigned int slot, offset;
	void *vaddr;

	page = READ_ONCE(pool->by_number)[number >> pool->slot_shift];
	slot = number & pool->slot_mask;
	WRITE_ONCE(page->state[slot], BLOCK_IN_USE);
	offset = pool->offset[slot];
	vaddr = page->vaddr + offset;
	*handle = page->dma + offset;
	pool_init_block(pool, vaddr, mem_flags);

	return vaddr;
}

/* No block is in reach. May sleep, if the caller may. */
static noinline void *pool_grow(struct dma_pool *pool, gfp_t mem_flags,
				dma_addr_t *handle)
{
	struct dma_page *page;

	page = pool_alloc_page(pool, mem_flags & ~__GFP_ZERO);
	if (!page)
		return NULL;
	return pool_hand_out(pool, pool_add_page(pool, page), mem_flags,
			     handle);
}

/* Where the blocks of a page begin. A slot is an offset divided by the size. */
static void pool_lay_out(struct dma_pool *pool, unsigned int boundary)
{
	unsigned int offset = 0, next_boundary = boundary, slot;

	for (slot = 0; slot < pool->nr_slots; slot++)
		pool->offset[slot] = POOL_NO_OFFSET;

	while (offset + pool->size <= pool->allocation) {
		if (offset + pool->size > next_boundary) {
			offset = next_boundary;
			next_boundary += boundary;
			continue;
		}
		pool->offset[offset / pool->size] = offset;
		pool->blocks_per_page++;
		offset += pool->size;
	}
}

/* Pages of which a device may go on using something are left alone. */
static void pool_free(struct dma_pool *pool, bool busy)
{
	struct dma_index *index, *outgrown;
	struct dma_part *part, *next;
	struct dma_page *page;
	size_t i;

	for (i = 0; i < pool->nr_pages; i++) {
		page = pool->by_number[i];
		if (!busy)
			dma_free_coherent(pool->dev, pool->allocation,
					  page->vaddr, page->dma);
		kfree(page);
	}
	list_for_each_entry_safe(part, next, &pool->parts, parts)
		kfree(part);
	for (index = pool->index; index; index = outgrown) {
		outgrown = index->outgrown;
		kfree(index);
	}
	free_percpu(pool->cache);
	kfree(pool);
}

/* The processors keep less than a page, and nothing if that would be little. */
static bool pool_alloc_cache(struct dma_pool *pool)
{
	int cpu;

	if (pool->blocks_per_page <= POOL_CACHE_MIN)
		return true;

	pool->cache_size = min(pool->blocks_per_page - 1, POOL_CACHE_SIZE);
	pool->cache = alloc_percpu(struct dma_cache);
	if (!pool->cache)
		return false;
	for_each_possible_cpu(cpu)
		local_lock_init(&per_cpu_ptr(pool->cache, cpu)->lock);
	return true;
}

static bool pool_register(struct dma_pool *pool)
{
	struct device *dev = pool->dev;
	int err = 0;
	bool first;

	/*
	 * pools_lock keeps the list of pools whole; pools_reg_lock makes one of
	 * its first member and the attribute, and of its last.
	 */
	mutex_lock(&pools_reg_lock);
	mutex_lock(&pools_lock);
	first = list_empty(&dev->dma_pools);
	list_add(&pool->pools, &dev->dma_pools);
	mutex_unlock(&pools_lock);
	if (first)
		err = device_create_file(dev, &dev_attr_pools);
	if (err) {
		mutex_lock(&pools_lock);
		list_del(&pool->pools);
		mutex_unlock(&pools_lock);
	}
	mutex_unlock(&pools_reg_lock);

	return !err;
}

static void pool_unregister(struct dma_pool *pool)
{
	bool last;

	mutex_lock(&pools_reg_lock);
	mutex_lock(&pools_lock);
	list_del(&pool->pools);
	last = list_empty(&pool->dev->dma_pools);
	mutex_unlock(&pools_lock);
	if (last)
		device_remove_file(pool->dev, &dev_attr_pools);
	mutex_unlock(&pools_reg_lock);
}

/**
 * dma_pool_create_node - Creates a pool of coherent DMA memory blocks.
 * @name: name of pool, for diagnostics
 * @dev: device that will be doing the DMA
 * @size: size of the blocks in this pool.
 * @align: alignment requirement for blocks; must be a power of two
 * @boundary: returned blocks won't cross this power of two boundary
 * @node: NUMA node for what the pool knows about its blocks, or %NUMA_NO_NODE
 * Context: not in_interrupt()
 *
 * dma_pool_alloc() takes blocks of such a pool.  They are coherent: device and
 * driver see each other's writes without flushing caches.  A block may be
 * larger than @size, because of alignment.
 *
 * If @boundary is nonzero, no block crosses a multiple of it.  This is for
 * devices that cannot go over such an address in one transfer.
 *
 * Return: the pool, or %NULL if one can't be created.
 */
struct dma_pool *dma_pool_create_node(const char *name, struct device *dev,
				      size_t size, size_t align,
				      size_t boundary, int node)
{
	struct dma_pool *pool;
	size_t allocation;
	unsigned int nr_slots;

	if (!dev)
		return NULL;

	if (align == 0)
		align = 1;
	else if (!is_power_of_2(align))
		return NULL;

	if (size == 0 || size > INT_MAX)
		return NULL;
	size = ALIGN(max_t(size_t, size, POOL_MIN_SIZE), align);
	if (size > INT_MAX)
		return NULL;
	allocation = max_t(size_t, size, PAGE_SIZE);

	if (!boundary)
		boundary = allocation;
	else if (boundary < size || !is_power_of_2(boundary))
		return NULL;
	boundary = min(boundary, allocation);

	nr_slots = DIV_ROUND_UP(allocation, size);
	pool = kzalloc_node(struct_size(pool, offset, nr_slots), GFP_KERNEL,
			    node);
	if (!pool)
		return NULL;

	strscpy(pool->name, name, sizeof(pool->name));
	pool->dev = dev;
	pool->node = node;
	pool->size = size;
	pool->allocation = allocation;
	pool->nr_slots = nr_slots;
	pool->slot_shift = order_base_2(nr_slots);
	pool->slot_mask = (1U << pool->slot_shift) - 1;
	pool->page_shift = PAGE_SHIFT;
	pool->frame_size = PAGE_SIZE;
	pool->inverse = div64_u64((1ULL << POOL_INVERSE_SHIFT) + size - 1,
				  size);
	spin_lock_init(&pool->lock);
	INIT_LIST_HEAD(&pool->parts);
	pool_lay_out(pool, boundary);
	pool->part_size = clamp(POOL_MIN_PAGES * pool->blocks_per_page,
				POOL_MIN_PART, POOL_MAX_PART);

	pool->index = pool_alloc_index(POOL_MIN_PAGES, GFP_KERNEL, node);
	if (!pool->index)
		goto free;
	pool->by_number = pool->index->by_number;

	if (!pool_alloc_cache(pool) || !pool_register(pool))
		goto free;
	return pool;

free:
	pool_free(pool, false);
	return NULL;
}
EXPORT_SYMBOL(dma_pool_create_node);

/**
 * dma_pool_create - Creates a pool of coherent DMA memory blocks.
 * @name: name of pool, for diagnostics
 * @dev: device that will be doing the DMA
 * @size: size of the blocks in this pool.
 * @align: alignment requirement for blocks; must be a power of two
 * @boundary: returned blocks won't cross this power of two boundary
 * Context: not in_interrupt()
 *
 * dma_pool_create_node() without a preference for a node.
 *
 * Return: the pool, or %NULL if one can't be created.
 */
struct dma_pool *dma_pool_create(const char *name, struct device *dev,
				 size_t size, size_t align, size_t boundary)
{
	return dma_pool_create_node(name, dev, size, align, boundary,
				    NUMA_NO_NODE);
}
EXPORT_SYMBOL(dma_pool_create);

/**
 * dma_pool_destroy - destroys a pool of dma memory blocks.
 * @pool: dma pool that will be destroyed
 * Context: !in_interrupt()
 *
 * Caller guarantees that no more memory from the pool is in use,
 * and that nothing will try to use the pool after this call.
 */
void dma_pool_destroy(struct dma_pool *pool)
{
	bool busy;

	if (unlikely(!pool))
		return;

	pool_unregister(pool);

	busy = pool_nr_active(pool);
	if (busy)
		dev_err(pool->dev, "%s %s busy\n", __func__, pool->name);

	pool_free(pool, busy);
}
EXPORT_SYMBOL(dma_pool_destroy);

/**
 * dma_pool_alloc - get a block of coherent memory
 * @pool: dma pool that will produce the block
 * @mem_flags: GFP_* bitmask
 * @handle: pointer to dma address of block
 *
 * Return: the kernel virtual address of a currently unused block,
 * and reports its dma address through the handle.
 * If such a memory block can't be allocated, %NULL is returned.
 */
void *dma_pool_alloc(struct dma_pool *pool, gfp_t mem_flags,
		     dma_addr_t *handle)
{
	u32 number;

	might_alloc(mem_flags);

	if (unlikely(!pool_take(pool, &number)))
		return pool_grow(pool, mem_flags, handle);
	return pool_hand_out(pool, number, mem_flags, handle);
}
EXPORT_SYMBOL(dma_pool_alloc);

/* Says what is wrong with a block that was not taken back. */
static noinline __cold void pool_refuse(struct dma_pool *pool,
					struct dma_page *page, void *vaddr,
					dma_addr_t dma)
{
	const char *why = "(bad dma)";

	if (page && vaddr != page->vaddr + (dma - page->dma))
		why = "(bad vaddr)";
	else if (page)
		why = "(not a block)";
	dev_err(pool->dev, "dma_pool_free %s, %p/%pad %s\n", pool->name, vaddr,
		&dma, why);
}

static noinline __cold void pool_refuse_free(struct dma_pool *pool,
					     dma_addr_t dma)
{
	dev_err(pool->dev, "dma_pool_free %s, dma %pad already free\n",
		pool->name, &dma);
}

/**
 * dma_pool_free - put block back into dma pool
 * @pool: the dma pool holding the block
 * @vaddr: virtual address of block
 * @dma: dma address of block
 *
 * Caller promises neither device nor driver will again touch this block
 * unless it is first re-allocated.  What is no block of the pool, or not in
 * use, is reported and left alone.
 */
void dma_pool_free(struct dma_pool *pool, void *vaddr, dma_addr_t dma)
{
	struct dma_page *page = pool_find_page(pool, dma);
	unsigned int offset, slot;

	if (unlikely(!page)) {
		pool_refuse(pool, NULL, vaddr, dma);
		return;
	}

	/* Within the page frame: the slot is one of the page's. */
	offset = dma - page->dma;
	slot = (offset * pool->inverse) >> POOL_INVERSE_SHIFT;
	if (unlikely(pool->offset[slot] != offset ||
		     vaddr != page->vaddr + offset)) {
		pool_refuse(pool, page, vaddr, dma);
		return;
	}

	if (unlikely(!pool_give(pool, page, slot, vaddr)))
		pool_refuse_free(pool, dma);
}
EXPORT_SYMBOL(dma_pool_free);

/* Managed pools */
static void dmam_pool_release(struct device *dev, void *res)
{
	struct dma_pool **pool = res;

	dma_pool_destroy(*pool);
}

static int dmam_pool_match(struct device *dev, void *res, void *match_data)
{
	struct dma_pool **pool = res;

	return *pool == match_data;
}

/**
 * dmam_pool_create - Managed dma_pool_create()
 * @name: name of pool, for diagnostics
 * @dev: device that will be doing the DMA
 * @size: size of the blocks in this pool.
 * @align: alignment requirement for blocks; must be a power of two
 * @allocation: returned blocks won't cross this boundary (or zero)
 *
 * Managed dma_pool_create().  DMA pool created with this function is
 * automatically destroyed on driver detach.
 *
 * Return: a managed dma allocation pool with the requested
 * characteristics, or %NULL if one can't be created.
 */
struct dma_pool *dmam_pool_create(const char *name, struct device *dev,
				  size_t size, size_t align, size_t allocation)
{
	struct dma_pool **res;

	res = devres_alloc(dmam_pool_release, sizeof(*res), GFP_KERNEL);
	if (!res)
		return NULL;

	*res = dma_pool_create(name, dev, size, align, allocation);
	if (!*res) {
		devres_free(res);
		return NULL;
	}
	devres_add(dev, res);

	return *res;
}
EXPORT_SYMBOL(dmam_pool_create);

/**
 * dmam_pool_destroy - Managed dma_pool_destroy()
 * @pool: dma pool that will be destroyed
 *
 * Managed dma_pool_destroy().
 */
void dmam_pool_destroy(struct dma_pool *pool)
{
	struct device *dev = pool->dev;

	WARN_ON(devres_release(dev, dmam_pool_release, dmam_pool_match, pool));
}
EXPORT_SYMBOL(dmam_pool_destroy);
