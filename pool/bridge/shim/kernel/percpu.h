/*
 * Variables of each processor, and what is done in one step (include/linux/{percpu,local_lock,atomic}.h). A thread is a
 * processor: nothing else runs on it, and there is one more for every thread that comes.
 */
#ifndef POOLPROOF_PERCPU_H
#define POOLPROOF_PERCPU_H

#define xchg(p, v)	__atomic_exchange_n(p, v, __ATOMIC_SEQ_CST)
#define cmpxchg(p, old, new) ({ \
	typeof(*(p)) pp_old = (old); \
	__atomic_compare_exchange_n(p, &pp_old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
	pp_old; \
})

/* One variable's places on two processors are that far apart. */
#define PP_PROCESSOR_BYTES (1UL << 20)

/* This thread's processor and 1, or 0. A bench has the one-instruction access that the kernel has. */
#ifdef POOLPROOF_BARE
extern __thread unsigned int pp_processor __attribute__((__tls_model__("initial-exec")));
#else
extern __thread unsigned int pp_processor;
#endif
/* Processors that there have been. */
extern unsigned int pp_processors;

unsigned int pp_become_processor(void) __cold;
void *pp_alloc_percpu(size_t size);
void free_percpu(void *variable);

static inline unsigned int smp_processor_id(void)
{
	unsigned int processor = pp_processor;

	if (unlikely(!processor))
		processor = pp_become_processor();
	return processor - 1;
}

#define nr_cpu_ids	__atomic_load_n(&pp_processors, __ATOMIC_RELAXED)
#define for_each_possible_cpu(cpu) for ((cpu) = 0; (unsigned int)(cpu) < nr_cpu_ids; (cpu)++)
#define for_each_online_cpu(cpu) for_each_possible_cpu(cpu)
#define alloc_percpu(type) ((typeof(type) *)pp_alloc_percpu(sizeof(type)))
#define per_cpu_ptr(p, cpu) ((typeof(p))((char *)(p) + (size_t)(cpu) * PP_PROCESSOR_BYTES))
#define this_cpu_ptr(p)	per_cpu_ptr(p, smp_processor_id())
#define raw_cpu_ptr(p)	this_cpu_ptr(p)
#define get_cpu_ptr(p)	this_cpu_ptr(p)
#define put_cpu_ptr(p)	((void)(p))

/* As a kernel without lockdep has it where a bench runs, and as a real-time kernel has it where locks are watched. */
#ifdef POOLPROOF_BARE

typedef struct { } local_lock_t;
#define INIT_LOCAL_LOCK(name) { }
#define local_lock_init(lock) ((void)(lock))
#define local_lock(lock) do { (void)(lock); barrier(); } while (0)
#define local_unlock(lock) do { barrier(); (void)(lock); } while (0)

#else

typedef struct {
	spinlock_t lock;
} local_lock_t;
#define INIT_LOCAL_LOCK(name) { __SPIN_LOCK_UNLOCKED(name) }
#define local_lock_init(l) spin_lock_init(&(l)->lock)
#define local_lock(l)	pp_spin_lock(&this_cpu_ptr(l)->lock, #l)
#define local_unlock(l)	pp_spin_unlock(&this_cpu_ptr(l)->lock, #l)

#endif

#define local_lock_irqsave(lock, flags) do { (flags) = 0; local_lock(lock); } while (0)
#define local_unlock_irqrestore(lock, flags) do { (void)(flags); local_unlock(lock); } while (0)
#define local_lock_irq(lock) local_lock(lock)
#define local_unlock_irq(lock) local_unlock(lock)

#endif
