// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A small dma_pool that is right: free blocks are on a stack outside of DMA memory. The tests put one fault at a time
 * into it, by defining FAULT_… before it.
 */
#include <linux/device.h>
#include <linux/dma-mapping.h>
#include <linux/dmapool.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

struct plain_page {
	struct list_head entry;
	void *vaddr;
	dma_addr_t dma;
};

struct plain_block {
	void *vaddr;
	dma_addr_t dma;
};

struct dma_pool {
	spinlock_t lock;
	struct list_head pages;
	struct device *dev;
	size_t size, allocation, boundary;
	size_t in_use, free, room;
	struct plain_block *stack;
	char name[32];
};

struct dma_pool *dma_pool_create(const char *name, struct device *dev, size_t size, size_t align, size_t boundary)
{
	struct dma_pool *pool;

	align = align ? align : 1;
	if (!dev || !size || size > INT_MAX || (align & (align - 1)))
		return NULL;
	size = ALIGN(size, align);
	if (boundary && (boundary < size || (boundary & (boundary - 1))))
		return NULL;
#ifdef FAULT_MISSING
	vmap_pfn(NULL, 0, 0);
#endif
#ifdef FAULT_SYNTAX
	this is no C;
#endif
	pool = kzalloc(sizeof(*pool), GFP_KERNEL);
	if (!pool)
		return NULL;
	spin_lock_init(&pool->lock);
	INIT_LIST_HEAD(&pool->pages);
	strscpy(pool->name, name, sizeof(pool->name));
	pool->dev = dev;
	pool->size = size;
	pool->allocation = max_t(size_t, size, PAGE_SIZE);
	pool->boundary = boundary ? min(boundary, pool->allocation) : pool->allocation;
	return pool;
}

/* Without the lock: the source may sleep. */
static struct plain_page *plain_fetch(struct dma_pool *pool, gfp_t flags)
{
	struct plain_page *page = kmalloc(sizeof(*page), flags);

	if (!page)
		return NULL;
#ifdef FAULT_GFP
	flags = GFP_KERNEL;
#endif
	page->vaddr = dma_alloc_coherent(pool->dev, pool->allocation, &page->dma, flags);
	if (page->vaddr)
		return page;
	kfree(page);
	return NULL;
}

/* Room for every block, so that a free needs none. */
static bool plain_add(struct dma_pool *pool, struct plain_page *page)
{
	size_t blocks = pool->allocation / pool->boundary * (pool->boundary / pool->size);
	size_t room = pool->room + blocks, offset, edge = pool->boundary, first = pool->free;
	struct plain_block *stack;

#ifdef FAULT_SLEEP
	stack = krealloc(pool->stack, room * sizeof(*stack), GFP_KERNEL);
#else
	stack = krealloc(pool->stack, room * sizeof(*stack), GFP_ATOMIC);
#endif
	if (!stack)
		return false;
	pool->stack = stack;
	pool->room = room;
	for (offset = 0; offset + pool->size <= pool->allocation;) {
		if (offset + pool->size > edge) {
			offset = edge;
			edge += pool->boundary;
			continue;
		}
		stack[pool->free++] = (struct plain_block){ page->vaddr + offset, page->dma + offset };
		offset += pool->size;
	}
#ifdef FAULT_OVERRUN
	((volatile char *)stack)[room * sizeof(*stack)] = 1;
#endif
#ifdef FAULT_BEHIND
	/* Far behind, where no guard of ours stands. */
	((volatile char *)stack)[room * sizeof(*stack) + 20] = 1;
#endif
	/* The lowest on top. */
	for (offset = 0; offset < (pool->free - first) / 2; offset++)
		swap(stack[first + offset], stack[pool->free - 1 - offset]);
	list_add(&page->entry, &pool->pages);
	return true;
}

void *dma_pool_alloc(struct dma_pool *pool, gfp_t flags, dma_addr_t *dma)
{
	struct plain_block block;
	unsigned long irq;

	might_alloc(flags);
	spin_lock_irqsave(&pool->lock, irq);
	if (!pool->free) {
		struct plain_page *page;
		bool added;

		spin_unlock_irqrestore(&pool->lock, irq);
		page = plain_fetch(pool, flags & ~__GFP_ZERO);
		if (!page)
			return NULL;
		spin_lock_irqsave(&pool->lock, irq);
		added = plain_add(pool, page);
		if (!added) {
			spin_unlock_irqrestore(&pool->lock, irq);
			dma_free_coherent(pool->dev, pool->allocation, page->vaddr, page->dma);
			kfree(page);
			return NULL;
		}
	}
#ifdef FAULT_DEADLOCK
	spin_lock(&pool->lock);
#endif
#ifdef FAULT_ASSERTION
	BUG_ON(pool->in_use == 2);
#endif
	block = pool->stack[--pool->free];
	pool->in_use++;
#ifdef FAULT_LOCKED
	if (pool->in_use == 2)
		return block.vaddr;
#endif
	spin_unlock_irqrestore(&pool->lock, irq);
#ifdef FAULT_FAULT
	if (pool->in_use == 2)
		*(volatile int *)0x10 = 1;
#endif
	*dma = block.dma;
	if (want_init_on_alloc(flags))
		memset(block.vaddr, 0, pool->size);
	return block.vaddr;
}

void dma_pool_free(struct dma_pool *pool, void *vaddr, dma_addr_t dma)
{
	unsigned long irq;

#ifdef FAULT_ENDLESS
	while (READ_ONCE(pool->in_use))
		;
#endif
#ifdef FAULT_RACE
	irq = 0;
	pool->stack[pool->free++] = (struct plain_block){ vaddr, dma };
	pool->in_use--;
	return;
#endif
	spin_lock_irqsave(&pool->lock, irq);
	if (pool->free == pool->room) {
		spin_unlock_irqrestore(&pool->lock, irq);
		dev_err(pool->dev, "%s %s, %p/%pad (more is freed than was handed out)\n", __func__, pool->name, vaddr, &dma);
		return;
	}
	pool->stack[pool->free++] = (struct plain_block){ vaddr, dma };
	pool->in_use--;
	spin_unlock_irqrestore(&pool->lock, irq);
}

void dma_pool_destroy(struct dma_pool *pool)
{
	struct plain_page *page, *next;

	if (pool->in_use)
		dev_err(pool->dev, "%s %s busy\n", __func__, pool->name);
	list_for_each_entry_safe(page, next, &pool->pages, entry) {
		if (!pool->in_use)
			dma_free_coherent(pool->dev, pool->allocation, page->vaddr, page->dma);
		list_del(&page->entry);
#ifndef FAULT_LEAK
		kfree(page);
#endif
	}
	kfree(pool->stack);
#ifdef FAULT_TWICE
	kfree(pool->stack);
#endif
	kfree(pool);
}
