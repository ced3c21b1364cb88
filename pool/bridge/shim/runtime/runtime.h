/* What the parts of the runtime share. */
#ifndef POOLPROOF_RUNTIME_H
#define POOLPROOF_RUNTIME_H

#include "../guard/guard.h"

/* Locks of one thread that a crash can leave behind. More are not watched, and in a bench none is. */
#ifdef POOLPROOF_BARE
#define PP_MOST_LOCKS 1
#else
#define PP_MOST_LOCKS 16
#endif

struct pp_held {
	spinlock_t *lock;
	bool sleeps;
};

extern __thread struct pp_frame *pp_frame;
extern __thread struct pp_held pp_locks[PP_MOST_LOCKS];
extern __thread unsigned int pp_lock_count;

/* Of a thread that makes bare calls. */
extern __thread struct pp_call *pp_bound;

static inline struct pp_call *pp_call(void) { return pp_frame ? pp_frame->call : pp_bound; }

/* Around everything that must not be left half done: the C library and the host. */
static inline void pp_leave_file(void) { if (pp_frame) pp_frame->in_file = 0; }
static inline void pp_enter_file(void) { if (pp_frame) pp_frame->in_file = 1; }

void pp_complain(enum pp_complaint kind, const char *format, ...);
void pp_end_call(void *instruction) __attribute__((__noreturn__));
void pp_release_locks(unsigned int down_to);
int pp_format(char *buffer, size_t size, const char *format, va_list arguments);

/*
 * Runs `body` as a call into the file. It comes back in any case; call->end says how. Only frames of C are left behind, and
 * what was locked is unlocked.
 */
#define PP_CALL(call_, body) do { \
	struct pp_frame here_ = { .call = (call_), .outer = pp_frame }; \
	const unsigned int locks_ = pp_lock_count; \
	(call_)->end = PP_RETURNED; \
	pp_frame = &here_; \
	(call_)->guard->frame = &here_; \
	if (!sigsetjmp(here_.back, 0)) { \
		here_.in_file = 1; \
		body; \
		here_.in_file = 0; \
	} else { \
		pp_release_locks(locks_); \
	} \
	pp_frame = here_.outer; \
	(call_)->guard->frame = here_.outer; \
} while (0)

#endif
