/* The interface, for a file that does not lie in a tree with a linux/dmapool.h of its own. */
#ifndef LINUX_DMAPOOL_H
#define LINUX_DMAPOOL_H

struct device;
struct dma_pool;

#ifdef POOLPROOF_CREATE_NODE
struct dma_pool *dma_pool_create_node(const char *name, struct device *dev, size_t size, size_t align, size_t boundary,
				      int node);
static inline struct dma_pool *dma_pool_create(const char *name, struct device *dev, size_t size, size_t align,
					       size_t boundary)
{
	return dma_pool_create_node(name, dev, size, align, boundary, NUMA_NO_NODE);
}
#else
struct dma_pool *dma_pool_create(const char *name, struct device *dev, size_t size, size_t align, size_t boundary);
#endif
void dma_pool_destroy(struct dma_pool *pool);
void *dma_pool_alloc(struct dma_pool *pool, gfp_t flags, dma_addr_t *dma);
void dma_pool_free(struct dma_pool *pool, void *vaddr, dma_addr_t dma);
struct dma_pool *dmam_pool_create(const char *name, struct device *dev, size_t size, size_t align, size_t boundary);
void dmam_pool_destroy(struct dma_pool *pool);

static inline void *dma_pool_zalloc(struct dma_pool *pool, gfp_t flags, dma_addr_t *dma)
{
	return dma_pool_alloc(pool, flags | __GFP_ZERO, dma);
}

#endif
