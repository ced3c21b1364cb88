/* Locks under watch. */
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "runtime.h"

__thread struct pp_held pp_locks[PP_MOST_LOCKS];
__thread unsigned int pp_lock_count;
static __thread u32 pp_self;

static u32 pp_thread(void)
{
	if (!pp_self)
		pp_self = syscall(SYS_gettid);
	return pp_self;
}

/* Spinlocks that this thread holds. */
static const spinlock_t *pp_atomic(void)
{
	unsigned int i;

	for (i = 0; i < pp_lock_count && i < PP_MOST_LOCKS; i++)
		if (!pp_locks[i].sleeps)
			return pp_locks[i].lock;
	return NULL;
}

static void pp_bug_in(const char *doing, const char *name)
{
	struct pp_call *call = pp_call();

	if (!call)
		return;
	pp_leave_file();
	scnprintf(call->words, sizeof(call->words), "%s %s", doing, name);
	pp_end_call(__builtin_return_address(0));
}

static void pp_take(spinlock_t *lock, const char *name, bool sleeps)
{
	u32 self = pp_thread();

	while (__atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE)) {
		if (__atomic_load_n(&lock->owner, __ATOMIC_RELAXED) == self)
			pp_bug_in("deadlock: this thread takes a second time", name);
		/* Its holder may have to run on this processor first. */
		sched_yield();
	}
	__atomic_store_n(&lock->owner, self, __ATOMIC_RELAXED);
	if (pp_lock_count < PP_MOST_LOCKS)
		pp_locks[pp_lock_count] = (struct pp_held){ lock, sleeps };
	pp_lock_count++;
}

static void pp_put(spinlock_t *lock, const char *name)
{
	unsigned int i;

	if (__atomic_load_n(&lock->owner, __ATOMIC_RELAXED) != pp_thread()) {
		pp_bug_in("this thread does not hold what it unlocks,", name);
		return;
	}
	for (i = min_t(unsigned int, pp_lock_count, PP_MOST_LOCKS); i-- > 0;) {
		if (pp_locks[i].lock != lock)
			continue;
		memmove(&pp_locks[i], &pp_locks[i + 1], (PP_MOST_LOCKS - i - 1) * sizeof(pp_locks[0]));
		break;
	}
	pp_lock_count--;
	__atomic_store_n(&lock->owner, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
}

/* What a call that did not come back has left locked. */
void pp_release_locks(unsigned int down_to)
{
	unsigned int i;

	for (i = min_t(unsigned int, pp_lock_count, PP_MOST_LOCKS); i-- > down_to;) {
		__atomic_store_n(&pp_locks[i].lock->owner, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&pp_locks[i].lock->held, 0, __ATOMIC_RELEASE);
	}
	pp_lock_count = min(pp_lock_count, down_to);
}

void pp_spin_lock(spinlock_t *lock, const char *name) { pp_take(lock, name, false); }
void pp_spin_unlock(spinlock_t *lock, const char *name) { pp_put(lock, name); }

void pp_mutex_lock(struct mutex *mutex, const char *name)
{
	pp_might_sleep("mutex_lock()");
	pp_take(&mutex->lock, name, true);
}

void pp_mutex_unlock(struct mutex *mutex, const char *name) { pp_put(&mutex->lock, name); }

bool pp_is_held(const spinlock_t *lock)
{
	return __atomic_load_n(&lock->owner, __ATOMIC_RELAXED) == pp_thread();
}

void pp_might_sleep(const char *what)
{
	struct pp_call *call = pp_call();

	if (pp_atomic())
		pp_complain(PP_SLEPT, "%s while a spinlock is held", what);
	else if (call && !call->may_sleep)
		pp_complain(PP_SLEPT, "%s in a call that must not sleep", what);
}

void pp_might_alloc(gfp_t flags)
{
	if (gfpflags_allow_blocking(flags))
		pp_might_sleep("an allocation with GFP_KERNEL");
}

void pp_warn(const char *file, int line, const char *condition)
{
	pp_complain(PP_LOCKING, "%s:%d: %s", file, line, condition);
}
