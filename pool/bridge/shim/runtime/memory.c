/* kmalloc with guards, and coherent pages from the host. */
#include <stdlib.h>
#include "runtime.h"

/* In front of every object, so that a wrong kfree is found and not obeyed. The C library writes to what is free's beginning. */
struct pp_object {
	u64 unused[4];
	u64 size;
	u64 state;
} __attribute__((__aligned__(16)));

#define PP_LIVE	0x6c697665206f626aull
#define PP_FREED 0x667265656420626aull
/* Behind it. */
#define PP_GUARD 0x5aa55aa55aa55aa5ull

static void pp_count(long objects)
{
	struct pp_call *call = pp_call();

	if (call)
		call->objects += objects;
}

/* Whether an allocation is to be tried. */
static bool pp_has_memory(void)
{
	struct pp_call *call = pp_call();
	bool has;

	if (!call)
		return true;
	pp_leave_file();
	has = call->host->has_record(call->context);
	pp_enter_file();
	return has;
}

#if defined(__SANITIZE_ADDRESS__) || defined(POOLPROOF_BARE)

/* The sanitizer has guards of its own; a bench has none. */
void *kmalloc(size_t size, gfp_t flags)
{
	void *object;

	might_alloc(flags);
	if (!pp_has_memory())
		return NULL;
	pp_leave_file();
	object = flags & __GFP_ZERO ? calloc(1, size ? size : 1) : malloc(size ? size : 1);
	pp_enter_file();
	pp_count(object != NULL);
	return object;
}

void kfree(const void *object)
{
	if (!object)
		return;
	pp_count(-1);
	pp_leave_file();
	free((void *)object);
	pp_enter_file();
}

void *krealloc(const void *object, size_t size, gfp_t flags)
{
	void *moved;

	might_alloc(flags);
	if (!pp_has_memory())
		return NULL;
	pp_leave_file();
	moved = realloc((void *)object, size ? size : 1);
	pp_enter_file();
	pp_count(!object && moved);
	return moved;
}

#else

static struct pp_object *pp_object(const void *object)
{
	return (struct pp_object *)((char *)object - sizeof(struct pp_object));
}

static void pp_set_guard(struct pp_object *object)
{
	u64 guard = PP_GUARD;

	memcpy((char *)(object + 1) + object->size, &guard, sizeof(guard));
}

void *kmalloc(size_t size, gfp_t flags)
{
	struct pp_object *object;

	might_alloc(flags);
	if (size > (size_t)1 << 40 || !pp_has_memory())
		return NULL;
	pp_leave_file();
	object = malloc(sizeof(*object) + size + sizeof(u64));
	pp_enter_file();
	if (!object)
		return NULL;
	object->size = size;
	object->state = PP_LIVE;
	/* What is not asked for zeroed is anything but. */
	memset(object + 1, flags & __GFP_ZERO ? 0 : 0x6b, size);
	pp_set_guard(object);
	pp_count(1);
	return object + 1;
}

void kfree(const void *pointer)
{
	struct pp_object *object = pp_object(pointer);
	u64 guard;

	if (!pointer)
		return;
	if (object->state != PP_LIVE) {
		pp_complain(PP_MEMORY, "kfree(%px): %s", pointer,
			    object->state == PP_FREED ? "it is free already" : "nothing of kmalloc begins there");
		return;
	}
	memcpy(&guard, (char *)pointer + object->size, sizeof(guard));
	if (guard != PP_GUARD)
		pp_complain(PP_MEMORY, "kfree(%px): something wrote behind its %zu bytes", pointer, (size_t)object->size);
	object->state = PP_FREED;
	memset((void *)pointer, 0x6b, object->size);
	pp_count(-1);
	pp_leave_file();
	free(object);
	pp_enter_file();
}

void *krealloc(const void *pointer, size_t size, gfp_t flags)
{
	void *moved = kmalloc(size, flags);

	if (pointer && moved) {
		memcpy(moved, pointer, min_t(size_t, size, pp_object(pointer)->size));
		kfree(pointer);
	}
	return moved;
}

#endif

void *dma_alloc_coherent(struct device *dev, size_t size, dma_addr_t *dma, gfp_t flags)
{
	struct pp_call *call = pp_call();
	uint64_t address = 0;
	void *vaddr;

	(void)dev;
	might_alloc(flags);
	if (!call)
		return NULL;
	pp_leave_file();
	vaddr = call->host->dma_alloc(call->context, size, &address, gfpflags_allow_blocking(flags));
	pp_enter_file();
	/* Wherever the file wants it: a wild pointer is its own fault. */
	if (vaddr)
		*dma = address;
	return vaddr;
}

void dma_free_coherent(struct device *dev, size_t size, void *vaddr, dma_addr_t dma)
{
	struct pp_call *call = pp_call();

	(void)dev;
	if (!call)
		return;
	pp_leave_file();
	call->host->dma_free(call->context, size, vaddr, dma);
	pp_enter_file();
}
