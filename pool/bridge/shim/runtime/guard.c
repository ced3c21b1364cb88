/*
 * Calls into the kernel file that come back whatever happens there: a fault, an assertion and an endless loop end the
 * call, and not the program. Only frames of C are left behind. A signal is taken for the file's only while its own code
 * runs; in the C library and in the host it is passed on.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include "runtime.h"

/* Processor time after which a call is looked at, and how often it is found there before it counts as endless. */
#define PP_TICK_NS	100000000L
#define PP_MOST_TICKS	10

__thread struct pp_frame *pp_frame;
static __thread timer_t pp_timer;
__thread bool pp_timed;
static pthread_key_t pp_thread_end;

static const int pp_signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGVTALRM };
static struct sigaction pp_before[NSIG];

__thread struct pp_call *pp_bound;

/* From here on a call outside of PP_CALL is this one's, without a guard. */
void pp_bind(struct pp_call *call)
{
	pp_bound = call;
}

unsigned long pp_page_size(void)
{
	struct pp_call *call = pp_call();

	return call ? call->page_size : 4096;
}

void pp_end_call(enum pp_end end, int signal, void *address, void *instruction)
{
	struct pp_frame *frame = pp_frame;
	struct pp_call *call = frame->call;

	frame->in_file = 0;
	call->end = end;
	call->signal = signal;
	call->address = address;
	call->instruction = instruction;
	pp_release_locks(frame->locks_before);
	siglongjmp(frame->back, 1);
}

static void *pp_instruction(void *context)
{
#if defined(__x86_64__)
	return (void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (void *)((ucontext_t *)context)->uc_mcontext.pc;
#else
	(void)context;
	return NULL;
#endif
}

/* Another kernel file's, or the program's own. */
static void pp_pass_on(int signal, siginfo_t *info, void *context)
{
	const struct sigaction *before = &pp_before[signal];

	if (before->sa_flags & SA_SIGINFO) {
		before->sa_sigaction(signal, info, context);
	} else if (before->sa_handler != SIG_IGN && before->sa_handler != SIG_DFL) {
		before->sa_handler(signal);
	} else if (signal != SIGVTALRM) {
		/* The instruction comes again, and ends the program as it would have without us. */
		sigaction(signal, before, NULL);
	}
}

static void pp_on_signal(int signal, siginfo_t *info, void *context)
{
	struct pp_frame *frame = pp_frame;

	if (signal == SIGVTALRM) {
		if (info->si_value.sival_ptr != pp_before) {
			pp_pass_on(signal, info, context);
			return;
		}
		if (!frame || !frame->in_file || ++frame->ticks <= PP_MOST_TICKS)
			return;
		pp_end_call(PP_ENDLESS, 0, NULL, pp_instruction(context));
	}
	if (!frame || !frame->in_file) {
		pp_pass_on(signal, info, context);
		return;
	}
	pp_end_call(PP_SIGNAL, signal, info->si_addr, pp_instruction(context));
}

static void pp_drop_timer(void *unused)
{
	(void)unused;
	if (pp_timed)
		timer_delete(pp_timer);
	pp_timed = false;
}

/* Once for each file that is loaded. Returns 0, or what stands in the way. */
int pp_install(void)
{
	struct sigaction action = { .sa_sigaction = pp_on_signal };
	size_t i;

	sigemptyset(&action.sa_mask);
	for (i = 0; i < ARRAY_SIZE(pp_signals); i++) {
		action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
		/*
		 * A fault may be that of a full stack, a clock's signal is not. The clocks of several files strike together, and
		 * the other stack has room for one frame: a processor's state takes up to 11 KiB of it.
		 */
		if (pp_signals[i] != SIGVTALRM)
			action.sa_flags |= SA_ONSTACK;
		if (sigaction(pp_signals[i], &action, &pp_before[pp_signals[i]]))
			return errno;
	}
	return pthread_key_create(&pp_thread_end, pp_drop_timer);
}

/* A clock of this thread's own processor time: one that waits, or is not run, is not endless. */
void pp_watch_thread(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGVTALRM };
	const struct itimerspec every = { { 0, PP_TICK_NS }, { 0, PP_TICK_NS } };

	pp_timed = true;
	event.sigev_value.sival_ptr = pp_before;
	event._sigev_un._tid = syscall(SYS_gettid);
	if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &pp_timer)) {
		pp_timed = false;
		return;
	}
	timer_settime(pp_timer, 0, &every, NULL);
	pthread_setspecific(pp_thread_end, pp_before);
}
