/* What the parts of the runtime share. */
#ifndef POOLPROOF_RUNTIME_H
#define POOLPROOF_RUNTIME_H

#include <setjmp.h>
#include <signal.h>
#include "../abi.h"

/* Locks of one thread that a crash can leave behind. More are not watched. */
#define PP_MOST_LOCKS 16

struct pp_held {
	spinlock_t *lock;
	bool sleeps;
};

/* A call that is under way on this thread, and the one that it was made in. */
struct pp_frame {
	sigjmp_buf back;
	struct pp_call *call;
	struct pp_frame *outer;
	/* Whether a signal now is the kernel file's, and not the host's or the runtime's own. */
	volatile sig_atomic_t in_file;
	/* Seconds of processor time that this call has seen pass. */
	volatile sig_atomic_t ticks;
	unsigned int locks_before;
};

extern __thread struct pp_frame *pp_frame;
extern __thread struct pp_held pp_locks[PP_MOST_LOCKS];
extern __thread unsigned int pp_lock_count;

extern __thread bool pp_timed;

/* Of a thread that makes bare calls. */
extern __thread struct pp_call *pp_bound;

static inline struct pp_call *pp_call(void) { return pp_frame ? pp_frame->call : pp_bound; }

/* Around everything that must not be left half done: the C library and the host. */
static inline void pp_leave_file(void) { if (pp_frame) pp_frame->in_file = 0; }
static inline void pp_enter_file(void) { if (pp_frame) pp_frame->in_file = 1; }

void pp_complain(enum pp_complaint kind, const char *format, ...);
void pp_end_call(enum pp_end end, int signal, void *address, void *instruction) __attribute__((__noreturn__));
void pp_watch_thread(void);
void pp_release_locks(unsigned int down_to);
int pp_format(char *buffer, size_t size, const char *format, va_list arguments);

/* Runs `body` as a call into the file. It comes back in any case; call->end says how. */
#define PP_CALL(call_, body) do { \
	struct pp_frame here_ = { .call = (call_), .outer = pp_frame, .locks_before = pp_lock_count }; \
	if (!pp_timed) \
		pp_watch_thread(); \
	(call_)->end = PP_RETURNED; \
	pp_frame = &here_; \
	if (!sigsetjmp(here_.back, 0)) { \
		here_.in_file = 1; \
		body; \
		here_.in_file = 0; \
	} \
	pp_frame = here_.outer; \
} while (0)

#endif
