/* The pool under test, as the program that loaded it calls it. */
#include "../runtime/runtime.h"
#include <linux/dmapool.h>

/*
 * How a pool comes from the thread that made it to others, and from them to the one that destroys it, and how a block comes
 * from the thread that allocated it to the one that frees it, is the program's business: ThreadSanitizer does not see it.
 * Nothing else is said about the calls in between.
 */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define pp_made(pool)	__tsan_release(pool)
#define pp_begins(pool)	__tsan_acquire(pool)
#define pp_ends(pool)	__tsan_release((char *)(pool) + 1)
#define pp_is_last(pool) __tsan_acquire((char *)(pool) + 1)
#define pp_given(block)	__tsan_release(block)
#define pp_back(block)	__tsan_acquire(block)
#else
#define pp_made(pool)	((void)(pool))
#define pp_begins(pool)	((void)(pool))
#define pp_ends(pool)	((void)(pool))
#define pp_is_last(pool) ((void)(pool))
#define pp_given(block)	((void)(block))
#define pp_back(block)	((void)(block))
#endif

void pp_create(struct pp_call *call, const char *name, struct device *dev, size_t size, size_t align, size_t boundary,
	       struct dma_pool **pool)
{
	PP_CALL(call, *pool = dma_pool_create(name, dev, size, align, boundary));
	pp_made(*pool);
}

void pp_alloc(struct pp_call *call, struct dma_pool *pool, int zero, void **vaddr, uint64_t *dma)
{
	gfp_t flags = (call->may_sleep ? GFP_KERNEL : GFP_ATOMIC) | (zero ? __GFP_ZERO : 0);

	pp_begins(pool);
	PP_CALL(call, *vaddr = dma_pool_alloc(pool, flags, dma));
	pp_given(*vaddr);
	pp_ends(pool);
}

void pp_free(struct pp_call *call, struct dma_pool *pool, void *vaddr, uint64_t dma)
{
	pp_begins(pool);
	pp_back(vaddr);
	PP_CALL(call, dma_pool_free(pool, vaddr, dma));
	pp_ends(pool);
}

void pp_destroy(struct pp_call *call, struct dma_pool *pool)
{
	pp_begins(pool);
	pp_is_last(pool);
	PP_CALL(call, dma_pool_destroy(pool));
}

/* The sysfs file `pools`, into one page: its length, or an error of the kernel's. */
void pp_show_pools(struct pp_call *call, struct device *dev, char *page, long *length)
{
	*length = -ENOENT;
	if (dev->file)
		PP_CALL(call, *length = dev->file->show(dev, dev->file, page));
}

#ifdef POOLPROOF_BARE
/* For benches: the functions themselves. */
void *(*const pp_bare_alloc)(struct dma_pool *, gfp_t, dma_addr_t *) = dma_pool_alloc;
void (*const pp_bare_free)(struct dma_pool *, void *, dma_addr_t) = dma_pool_free;
#endif
