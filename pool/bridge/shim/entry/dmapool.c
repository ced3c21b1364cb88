/* The pool under test, as the program that loaded it calls it. */
#include "../runtime/runtime.h"
#include <linux/dmapool.h>

void pp_create(struct pp_call *call, const char *name, struct device *dev, size_t size, size_t align, size_t boundary,
	       struct dma_pool **pool)
{
	PP_CALL(call, *pool = dma_pool_create(name, dev, size, align, boundary));
}

void pp_alloc(struct pp_call *call, struct dma_pool *pool, int zero, void **vaddr, uint64_t *dma)
{
	gfp_t flags = (call->may_sleep ? GFP_KERNEL : GFP_ATOMIC) | (zero ? __GFP_ZERO : 0);

	PP_CALL(call, *vaddr = dma_pool_alloc(pool, flags, dma));
}

void pp_free(struct pp_call *call, struct dma_pool *pool, void *vaddr, uint64_t dma)
{
	PP_CALL(call, dma_pool_free(pool, vaddr, dma));
}

void pp_destroy(struct pp_call *call, struct dma_pool *pool)
{
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
