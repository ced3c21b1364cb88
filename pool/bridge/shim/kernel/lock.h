/*
 * Locks (include/linux/{spinlock,mutex}.h). There are no interrupts here: what disables them counts as atomic context.
 * A pool under test has every lock watched: who takes one twice, or sleeps with a spinlock held, is reported, and what a
 * crash leaves locked is unlocked. POOLPROOF_BARE is for benches: a spinlock is one exchange and one store.
 */
#ifndef POOLPROOF_LOCK_H
#define POOLPROOF_LOCK_H

typedef struct {
	u32 held;
	/* Of the thread that holds it; only where locks are watched. */
	u32 owner;
} spinlock_t;
typedef spinlock_t raw_spinlock_t;

struct mutex {
	spinlock_t lock;
};

#define __SPIN_LOCK_UNLOCKED(name) { 0, 0 }
#define DEFINE_SPINLOCK(name) spinlock_t name = __SPIN_LOCK_UNLOCKED(name)
#define DEFINE_MUTEX(name) struct mutex name = { __SPIN_LOCK_UNLOCKED(name) }

static inline void spin_lock_init(spinlock_t *lock)
{
	lock->held = 0;
	lock->owner = 0;
}

static inline void mutex_init(struct mutex *mutex)
{
	spin_lock_init(&mutex->lock);
}

#define mutex_destroy(mutex) ((void)(mutex))

void pp_spin_lock(spinlock_t *lock, const char *name);
void pp_spin_unlock(spinlock_t *lock, const char *name);
bool pp_is_held(const spinlock_t *lock);
void pp_mutex_lock(struct mutex *mutex, const char *name);
void pp_mutex_unlock(struct mutex *mutex, const char *name);
void pp_might_sleep(const char *what);
void pp_warn(const char *file, int line, const char *condition);

#ifdef POOLPROOF_BARE

static inline void pp_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield");
#endif
}

static inline void spin_lock(spinlock_t *lock)
{
	while (unlikely(__atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE)))
		do
			pp_relax();
		while (__atomic_load_n(&lock->held, __ATOMIC_RELAXED));
}

static inline void spin_unlock(spinlock_t *lock)
{
	__atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
}

static inline void mutex_lock(struct mutex *mutex) { spin_lock(&mutex->lock); }
static inline void mutex_unlock(struct mutex *mutex) { spin_unlock(&mutex->lock); }
#define might_sleep()	((void)0)
#define lockdep_assert_held(lock) ((void)(lock))

#else

#define spin_lock(lock)	pp_spin_lock(lock, #lock)
#define spin_unlock(lock) pp_spin_unlock(lock, #lock)
#define mutex_lock(mutex) pp_mutex_lock(mutex, #mutex)
#define mutex_unlock(mutex) pp_mutex_unlock(mutex, #mutex)
#define might_sleep()	pp_might_sleep("might_sleep()")
#define lockdep_assert_held(l) \
	do { if (!pp_is_held(l)) pp_warn(__FILE__, __LINE__, "lockdep_assert_held(" #l ")"); } while (0)

#endif

#define spin_lock_irq(lock) spin_lock(lock)
#define spin_unlock_irq(lock) spin_unlock(lock)
#define spin_lock_bh(lock) spin_lock(lock)
#define spin_unlock_bh(lock) spin_unlock(lock)
#define spin_lock_irqsave(lock, flags) do { (flags) = 0; spin_lock(lock); } while (0)
#define spin_unlock_irqrestore(lock, flags) do { (void)(flags); spin_unlock(lock); } while (0)
#define raw_spin_lock_init spin_lock_init
#define raw_spin_lock_irqsave spin_lock_irqsave
#define raw_spin_unlock_irqrestore spin_unlock_irqrestore
#define local_irq_save(flags) ((flags) = 0)
#define local_irq_restore(flags) ((void)(flags))
#define preempt_disable() barrier()
#define preempt_enable() barrier()
#define need_resched()	0
#define cond_resched()	might_sleep()

#endif
