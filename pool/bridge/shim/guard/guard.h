/* A call that is under way, as the guard and what it guards know it. One thread has one guard, whatever files it calls. */
#ifndef POOLPROOF_GUARD_H
#define POOLPROOF_GUARD_H

#include <setjmp.h>
#include <signal.h>
#include "../abi.h"

/* A call on this thread, and the one that it was made in. */
struct pp_frame {
	sigjmp_buf back;
	struct pp_call *call;
	struct pp_frame *outer;
	/* Whether a signal now is the kernel file's, and not the host's or the runtime's own. */
	volatile sig_atomic_t in_file;
	/* How often the thread's clock has struck in it. */
	volatile sig_atomic_t ticks;
};

struct pp_guard {
	struct pp_frame *frame;
};

#endif
