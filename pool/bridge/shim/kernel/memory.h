/* Kernel memory and coherent pages (include/linux/{gfp,slab,poison,dma-mapping,overflow}.h). */
#ifndef POOLPROOF_MEMORY_H
#define POOLPROOF_MEMORY_H

#define __GFP_HIGH	0x20u
#define __GFP_IO	0x40u
#define __GFP_FS	0x80u
#define __GFP_ZERO	0x100u
#define __GFP_DIRECT_RECLAIM 0x400u
#define __GFP_KSWAPD_RECLAIM 0x800u
#define __GFP_NOWARN	0x2000u
#define GFP_ATOMIC	(__GFP_HIGH | __GFP_KSWAPD_RECLAIM)
#define GFP_NOWAIT	__GFP_KSWAPD_RECLAIM
#define GFP_NOIO	(__GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM)
#define GFP_KERNEL	(GFP_NOIO | __GFP_IO | __GFP_FS)
#define GFP_DMA		0u
#define NUMA_NO_NODE	(-1)
#define numa_node_id()	0
#define numa_mem_id()	0
#define dev_to_node(dev) NUMA_NO_NODE

/* include/linux/poison.h: what a debug build fills blocks with. */
#define POOL_POISON_FREED	0xa7
#define POOL_POISON_ALLOCATED	0xa9

static inline bool gfpflags_allow_blocking(gfp_t flags)
{
	return flags & __GFP_DIRECT_RECLAIM;
}

void pp_might_alloc(gfp_t flags);
#ifdef POOLPROOF_BARE
#define might_alloc(flags) ((void)(flags))
#else
#define might_alloc(flags) pp_might_alloc(flags)
#endif

static inline bool want_init_on_alloc(gfp_t flags) { return flags & __GFP_ZERO; }
static inline bool want_init_on_free(void) { return false; }

/* The first byte that is another (include/linux/string.h). */
static inline void *memchr_inv(const void *start, int byte, size_t size)
{
	const u8 *at = start;

	for (; size && *at == (u8)byte; at++)
		size--;
	return size ? (void *)at : NULL;
}

void *kmalloc(size_t size, gfp_t flags);
void kfree(const void *object);
void *krealloc(const void *object, size_t size, gfp_t flags);

static inline void *kmalloc_array(size_t count, size_t size, gfp_t flags)
{
	size_t bytes;

	return __builtin_mul_overflow(count, size, &bytes) ? NULL : kmalloc(bytes, flags);
}

static inline void *krealloc_array(void *object, size_t count, size_t size, gfp_t flags)
{
	size_t bytes;

	return __builtin_mul_overflow(count, size, &bytes) ? NULL : krealloc(object, bytes, flags);
}

#define kzalloc(size, flags) kmalloc(size, (flags) | __GFP_ZERO)
#define kcalloc(count, size, flags) kmalloc_array(count, size, (flags) | __GFP_ZERO)
#define kmalloc_node(size, flags, node) ((void)(node), kmalloc(size, flags))
#define kzalloc_node(size, flags, node) ((void)(node), kzalloc(size, flags))
#define kmalloc_array_node(count, size, flags, node) ((void)(node), kmalloc_array(count, size, flags))
#define kcalloc_node(count, size, flags, node) ((void)(node), kcalloc(count, size, flags))
#define kvmalloc(size, flags) kmalloc(size, flags)
#define kvzalloc(size, flags) kzalloc(size, flags)
#define kvmalloc_node(size, flags, node) kmalloc_node(size, flags, node)
#define kvzalloc_node(size, flags, node) kzalloc_node(size, flags, node)
#define kvmalloc_array(count, size, flags) kmalloc_array(count, size, flags)
#define kvcalloc(count, size, flags) kcalloc(count, size, flags)
#define kvfree(object)	kfree(object)
#define kfree_sensitive(object) kfree(object)
#define struct_size(p, member, count) (sizeof(*(p)) + sizeof(*(p)->member) * (count))
#define array_size(a, b) ((size_t)(a) * (b))

/* Since 7.0 by the type: GFP_KERNEL unless other flags are given. */
#define pp_flags(first, ...) first
#define kmalloc_obj(type, ...) ((typeof(type) *)kmalloc(sizeof(type), pp_flags(__VA_ARGS__ __VA_OPT__(,) GFP_KERNEL)))
#define kzalloc_obj(type, ...) ((typeof(type) *)kzalloc(sizeof(type), pp_flags(__VA_ARGS__ __VA_OPT__(,) GFP_KERNEL)))
#define kmalloc_objs(type, count, ...) \
	((typeof(type) *)kmalloc_array(count, sizeof(type), pp_flags(__VA_ARGS__ __VA_OPT__(,) GFP_KERNEL)))
#define kzalloc_objs(type, count, ...) \
	((typeof(type) *)kcalloc(count, sizeof(type), pp_flags(__VA_ARGS__ __VA_OPT__(,) GFP_KERNEL)))

struct device;
void *dma_alloc_coherent(struct device *dev, size_t size, dma_addr_t *dma, gfp_t flags);
void dma_free_coherent(struct device *dev, size_t size, void *vaddr, dma_addr_t dma);
#define DMA_BIT_MASK(n)	((n) == 64 ? ~0ULL : (1ULL << (n)) - 1)

#endif
