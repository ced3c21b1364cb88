/* Which processor a thread is, and the memory of variables that every processor has. */
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include "runtime.h"

/* Threads at a time that touch such variables. */
#define PP_MOST_PROCESSORS 256
/* What memory is given out in. */
#define PP_CELL	64
#define PP_CELLS (PP_PROCESSOR_BYTES / PP_CELL)

#ifdef POOLPROOF_BARE
__thread unsigned int pp_processor __attribute__((__tls_model__("initial-exec")));
#else
__thread unsigned int pp_processor;
#endif
unsigned int pp_processors;

static pthread_once_t pp_percpu_once = PTHREAD_ONCE_INIT;
static pthread_key_t pp_processor_end;
static u32 pp_percpu_lock;
static bool pp_taken[PP_MOST_PROCESSORS];
/* Of the first processor; the others' follow. Cells of no variable are zero on every processor. */
static char *pp_area;
/* By cell: of a variable, its number of cells in its first and PP_REST in the others. */
static u8 pp_cells[PP_CELLS];
static size_t pp_next_cell;
#define PP_REST	0xff

static void pp_percpu_acquire(void)
{
	while (__atomic_exchange_n(&pp_percpu_lock, 1, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void pp_percpu_release(void)
{
	__atomic_store_n(&pp_percpu_lock, 0, __ATOMIC_RELEASE);
}

/* A thread has ended. The next one becomes its processor, with what it left in its variables. */
static void pp_leave_processor(void *processor)
{
	pp_percpu_acquire();
	pp_taken[(uintptr_t)processor - 1] = false;
	pp_percpu_release();
}

static void pp_percpu_begin(void)
{
	void *area = mmap(NULL, PP_MOST_PROCESSORS * PP_PROCESSOR_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (area != MAP_FAILED && !pthread_key_create(&pp_processor_end, pp_leave_processor))
		pp_area = area;
}

unsigned int pp_become_processor(void)
{
	unsigned int processor = 0;

	pp_leave_file();
	pp_percpu_acquire();
	while (processor < PP_MOST_PROCESSORS && pp_taken[processor])
		processor++;
	if (processor < PP_MOST_PROCESSORS) {
		pp_taken[processor] = true;
		__atomic_store_n(&pp_processors, max(pp_processors, processor + 1), __ATOMIC_RELAXED);
	}
	pp_percpu_release();
	if (processor == PP_MOST_PROCESSORS)
		pp_bug(__FILE__, __LINE__, "more threads at a time than processors");
	pp_processor = processor + 1;
	pthread_setspecific(pp_processor_end, (void *)(uintptr_t)pp_processor);
	pp_enter_file();
	return pp_processor;
}

/* The first of that many free cells in a row, or PP_CELLS. */
static size_t pp_find_cells(size_t from, size_t wanted)
{
	size_t at, run = 0;

	for (at = from; at < PP_CELLS; at++) {
		run = pp_cells[at] ? 0 : run + 1;
		if (run == wanted)
			return at + 1 - wanted;
	}
	return PP_CELLS;
}

void *pp_alloc_percpu(size_t size)
{
	size_t wanted = DIV_ROUND_UP(max_t(size_t, size, 1), PP_CELL), at = PP_CELLS;

	pp_might_alloc(GFP_KERNEL);
	if (wanted >= PP_REST)
		return NULL;
	pp_leave_file();
	pthread_once(&pp_percpu_once, pp_percpu_begin);
	pp_percpu_acquire();
	if (pp_area) {
		at = pp_find_cells(pp_next_cell, wanted);
		if (at == PP_CELLS)
			at = pp_find_cells(0, wanted);
	}
	if (at < PP_CELLS) {
		memset(pp_cells + at, PP_REST, wanted);
		pp_cells[at] = wanted;
		pp_next_cell = at + wanted;
	}
	pp_percpu_release();
	pp_enter_file();
	if (at == PP_CELLS)
		return NULL;
	pp_count(1);
	return pp_area + at * PP_CELL;
}

void free_percpu(void *variable)
{
	size_t at = ((char *)variable - pp_area) / PP_CELL, cells;
	unsigned int processor;

	if (!variable)
		return;
	if ((char *)variable < pp_area || at >= PP_CELLS || ((char *)variable - pp_area) % PP_CELL ||
	    !pp_cells[at] || pp_cells[at] == PP_REST) {
		pp_complain(PP_MEMORY, "free_percpu(%px): nothing of alloc_percpu begins there", variable);
		return;
	}
	pp_count(-1);
	pp_leave_file();
	pp_percpu_acquire();
	cells = pp_cells[at];
	for (processor = 0; processor < pp_processors; processor++)
		memset(per_cpu_ptr(variable, processor), 0, cells * PP_CELL);
	memset(pp_cells + at, 0, cells);
	pp_percpu_release();
	pp_enter_file();
}
