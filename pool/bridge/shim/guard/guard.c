/*
 * Comes back from calls into kernel files, whatever happens there: a fault and an endless loop end the call, and not the
 * program. A signal is taken for the file's only while its own code runs; in the C library and in the host it is passed on.
 *
 * Part of the program and not of the files: their thread-local data is allocated when it is first touched, which no signal
 * handler may do. There is one handler and one clock a thread, however many files are loaded.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include "guard.h"

/* Processor time after which a call is looked at, and how often it is found there before it counts as endless. */
#define PP_TICK_NS	100000000L
#define PP_MOST_TICKS	10

static __thread struct pp_guard pp_guard;
static __thread timer_t pp_timer;
static __thread bool pp_timed;
static pthread_key_t pp_thread_end;

static const int pp_signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGVTALRM };
static struct sigaction pp_before[NSIG];

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

/* The program's own. */
static void pp_pass_on(int signal, siginfo_t *info, void *context)
{
	const struct sigaction *before = &pp_before[signal];

	if (before->sa_flags & SA_SIGINFO)
		before->sa_sigaction(signal, info, context);
	else if (before->sa_handler != SIG_IGN && before->sa_handler != SIG_DFL)
		before->sa_handler(signal);
	else
		/* The instruction comes again, and ends the program as it would have without us. */
		sigaction(signal, before, NULL);
}

static void pp_on_fault(int signal, siginfo_t *info, void *context)
{
	struct pp_frame *frame = pp_guard.frame;

	if (!frame || !frame->in_file) {
		pp_pass_on(signal, info, context);
		return;
	}
	frame->in_file = 0;
	frame->call->end = PP_SIGNAL;
	frame->call->signal = signal;
	frame->call->address = info->si_addr;
	frame->call->instruction = pp_instruction(context);
	siglongjmp(frame->back, 1);
}

static void pp_on_clock(int signal, siginfo_t *info, void *context)
{
	struct pp_frame *frame = pp_guard.frame;
	sigset_t clock;

	(void)info;
	if (!frame || !frame->in_file || ++frame->ticks <= PP_MOST_TICKS)
		return;
	frame->in_file = 0;
	frame->call->end = PP_ENDLESS;
	frame->call->instruction = pp_instruction(context);
	/* It is blocked in its handler, and this does not return. */
	sigemptyset(&clock);
	sigaddset(&clock, signal);
	pthread_sigmask(SIG_UNBLOCK, &clock, NULL);
	siglongjmp(frame->back, 1);
}

static void pp_drop_timer(void *unused)
{
	(void)unused;
	if (pp_timed)
		timer_delete(pp_timer);
	pp_timed = false;
}

/* Once for the program. Returns 0, or the errno of what stands in the way. */
int pp_guard_install(void)
{
	size_t i;

	for (i = 0; i < sizeof(pp_signals) / sizeof(pp_signals[0]); i++) {
		int signal = pp_signals[i];
		struct sigaction action = { .sa_flags = SA_SIGINFO | SA_RESTART };

		sigemptyset(&action.sa_mask);
		if (signal == SIGVTALRM) {
			action.sa_sigaction = pp_on_clock;
		} else {
			action.sa_sigaction = pp_on_fault;
			/* A fault may be that of a full stack. */
			action.sa_flags |= SA_ONSTACK | SA_NODEFER;
		}
		if (sigaction(signal, &action, &pp_before[signal]))
			return errno;
	}
	return pthread_key_create(&pp_thread_end, pp_drop_timer);
}

/* A clock of this thread's own processor time: one that waits, or is not run, is not endless. */
static void pp_watch_thread(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGVTALRM };
	const struct itimerspec every = { { 0, PP_TICK_NS }, { 0, PP_TICK_NS } };

	event._sigev_un._tid = syscall(SYS_gettid);
	/* Without a clock, an endless call is endless. */
	if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &pp_timer))
		return;
	pp_timed = true;
	timer_settime(pp_timer, 0, &every, NULL);
	pthread_setspecific(pp_thread_end, &pp_guard);
}

/* This thread's guard. */
struct pp_guard *pp_guard_self(void)
{
	if (!pp_timed)
		pp_watch_thread();
	return &pp_guard;
}
