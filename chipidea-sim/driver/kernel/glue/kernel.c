/* What udc.c uses of the kernel: memory, locks, messages, DMA pools, mappings of requests. */

/* Spinlocks that are held. One driver runs on one thread at a time. */
static __thread unsigned int glue_locks_held;

__printf(1, 2) static void glue_print(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	host_print("", format, &arguments);
	va_end(arguments);
}

void glue_warn(const char *file, int line, const char *condition)
{
	glue_print("WARNING: %s at %s:%d", condition, kbasename(file), line);
}

void glue_bug(const char *file, int line, const char *condition)
{
	host_end("BUG: %s at %s:%d", condition, kbasename(file), line);
}

/* Messages: the device's name is left out, as every line is this driver's. */
#define GLUE_DEVICE_MESSAGE(function, level) \
	void function(const struct device *dev, const char *format, ...) \
	{ \
		va_list arguments; \
		va_start(arguments, format); \
		host_print(level, format, &arguments); \
		va_end(arguments); \
	}
GLUE_DEVICE_MESSAGE(_dev_err, "error: ")
GLUE_DEVICE_MESSAGE(_dev_warn, "")
GLUE_DEVICE_MESSAGE(_dev_info, "")

/* The C library's, which knows the few conversions that a driver's names have. */
extern int vsnprintf(char *buffer, size_t size, const char *format, va_list arguments);

int scnprintf(char *buffer, size_t size, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(buffer, size, format, arguments);
	va_end(arguments);
	return size ? min_t(int, length, size - 1) : 0;
}

/* Memory. */

/* kmalloc of a size that is known names one of these, and nobody looks at it. */
struct kmem_cache *kmalloc_caches[NR_KMALLOC_TYPES][KMALLOC_SHIFT_HIGH + 1];

void *kmalloc_trace(struct kmem_cache *cache, gfp_t flags, size_t size)
{
	return host_kmalloc(size, !!(flags & __GFP_ZERO), 0);
}

void *__kmalloc(size_t size, gfp_t flags)
{
	return host_kmalloc(size, !!(flags & __GFP_ZERO), 0);
}

void *devm_kmalloc(struct device *dev, size_t size, gfp_t flags)
{
	return host_kmalloc(size, !!(flags & __GFP_ZERO), 1);
}

void kfree(const void *object)
{
	host_kfree(object);
}

/* Locks: with one thread, one that is taken twice is a deadlock, and one that is given back free is wrong. */

static void glue_lock(raw_spinlock_t *lock)
{
	atomic_t *held = &lock->raw_lock.val;

	if (held->counter)
		host_end("deadlock: a spinlock is taken a second time");
	held->counter = 1;
	glue_locks_held++;
}

static void glue_unlock(raw_spinlock_t *lock)
{
	atomic_t *held = &lock->raw_lock.val;

	if (!held->counter)
		host_end("a spinlock is unlocked that is not held");
	held->counter = 0;
	glue_locks_held--;
}

void glue_forget_locks(void) { glue_locks_held = 0; }

void _raw_spin_lock(raw_spinlock_t *lock) { glue_lock(lock); }
void _raw_spin_unlock(raw_spinlock_t *lock) { glue_unlock(lock); }
void _raw_spin_lock_irq(raw_spinlock_t *lock) { glue_lock(lock); }
void _raw_spin_unlock_irq(raw_spinlock_t *lock) { glue_unlock(lock); }

unsigned long _raw_spin_lock_irqsave(raw_spinlock_t *lock)
{
	glue_lock(lock);
	return 0;
}

void _raw_spin_unlock_irqrestore(raw_spinlock_t *lock, unsigned long flags) { glue_unlock(lock); }

/* Time does not pass in a driver, and nothing sleeps. */
void __const_udelay(unsigned long loops) {}
int __pm_runtime_idle(struct device *dev, int flags) { return 0; }
int __pm_runtime_resume(struct device *dev, int flags) { return 0; }
int pinctrl_select_state(struct pinctrl *pinctrl, struct pinctrl_state *state) { return 0; }

/* No request here has a scatter list. */
struct scatterlist *sg_next(struct scatterlist *entry) { return NULL; }

/* Registers: their addresses are offsets from here. */
#define GLUE_REGISTERS ((void __iomem *)0x100000)

unsigned int ioread32(const void __iomem *address) { return host_read(address - GLUE_REGISTERS); }
void iowrite32(u32 value, void __iomem *address) { host_write(address - GLUE_REGISTERS, value); }

/* The pools under test. */

struct dma_pool *dma_pool_create(const char *name, struct device *dev, size_t size, size_t align, size_t boundary)
{
	return host_pool_create(name, size, align, boundary);
}

void *dma_pool_alloc(struct dma_pool *pool, gfp_t flags, dma_addr_t *dma)
{
	const bool may_sleep = gfpflags_allow_blocking(flags);
	unsigned long long address = 0;
	void *block;

	if (may_sleep && glue_locks_held)
		glue_print("BUG: sleeping function called from invalid context: dma_pool_alloc");
	block = host_pool_alloc(pool, !!(flags & __GFP_ZERO), may_sleep, &address);
	*dma = address;
	return block;
}

void dma_pool_free(struct dma_pool *pool, void *block, dma_addr_t dma) { host_pool_free(pool, block, dma); }
void dma_pool_destroy(struct dma_pool *pool) { host_pool_destroy(pool); }
