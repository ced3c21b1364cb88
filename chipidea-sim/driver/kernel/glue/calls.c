/*
 * The half of the glue that is compiled with the C library's headers: calls into udc.c, each of which comes back whatever
 * happens there, and what udc.c asks of the program.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "guard/guard.h"
#include "glue.h"

/* Register reads in one call, after which it counts as endless. */
#define MOST_READS 200000
/* Freed objects that are kept, so that what is freed twice or used afterwards is found. */
#define MOST_FREED 256

#define LIVE 0x6576696cul
#define FREED 0x64656572ul

struct object {
	struct object *before, *after;
	size_t size;
	unsigned long state;
	int managed;
	_Alignas(16) unsigned char data[];
};

/* What the program does (src/host.rs). `driver` is the context's. */
struct host {
	unsigned int (*read)(void *driver, unsigned long offset);
	void (*write)(void *driver, unsigned long offset, unsigned int value);
	void (*print)(void *driver, const char *text, size_t length);
	void *(*pool_create)(void *driver, const char *name, unsigned long size, unsigned long align, unsigned long boundary);
	void *(*pool_alloc)(void *driver, void *pool, int zero, int may_sleep, unsigned long long *dma);
	void (*pool_free)(void *driver, void *pool, void *block, unsigned long long dma);
	void (*pool_destroy)(void *driver, void *pool);
	void (*claim_head)(void *driver, unsigned long long dma, unsigned int slot);
	int (*map)(void *driver, unsigned long token, void *data, unsigned int length, int in, unsigned long long *dma);
	void (*unmap)(void *driver, unsigned long long dma);
	int (*setup)(void *driver, const void *packet);
	void (*event)(void *driver, int event);
	void (*complete)(void *driver, unsigned long token, int status, unsigned int actual);
};

enum event { RESET, DISCONNECT, SUSPEND, RESUME };

/* One driver (src/abi.rs): `struct pp_call`'s context. */
struct context {
	const struct host *host;
	void *driver;
	/* Objects of kmalloc, the newest first, and those that were freed. */
	struct object *live, *freed, *freed_last;
	unsigned long live_count, freed_count;
	/* A call did not come back. */
	int dead;
};

/* A call that is under way on this thread. */
struct entry {
	struct pp_frame frame;
	unsigned int reads;
};

static __thread struct entry *now;

static struct context *context(void) { return now->frame.call->context; }

static void end(const char *format, va_list arguments) __attribute__((__noreturn__));
static void end(const char *format, va_list arguments)
{
	struct pp_call *call = now->frame.call;

	now->frame.in_file = 0;
	vsnprintf(call->words, sizeof(call->words), format, arguments);
	call->end = PP_BUG;
	call->instruction = NULL;
	siglongjmp(now->frame.back, 1);
}

void host_end(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	end(format, arguments);
}

/* Around everything that must not be left half done. */
static void leave(void) { now->frame.in_file = 0; }

static void enter(void)
{
	/* A pool of another bridge has frames of its own. */
	now->frame.call->guard->frame = &now->frame;
	/* What was called within this call is lost, and with it what this one works on. */
	if (context()->dead)
		host_end("a call within it did not return");
	now->frame.in_file = 1;
}

/* Runs `body` as a call into udc.c. Only frames of C are left behind. */
#define ENTER(call_, body) do { \
	struct entry here_ = { .frame = { .call = (call_), .outer = (call_)->guard->frame } }; \
	struct entry *const outer_ = now; \
	(call_)->end = PP_RETURNED; \
	now = &here_; \
	(call_)->guard->frame = &here_.frame; \
	if (!sigsetjmp(here_.frame.back, 0)) { \
		here_.frame.in_file = 1; \
		body; \
		here_.frame.in_file = 0; \
	} else { \
		context()->dead = 1; \
		glue_forget_locks(); \
	} \
	now = outer_; \
	(call_)->guard->frame = here_.frame.outer; \
} while (0)

/* pp_udc_NAME is glue_NAME as a call. */
#define CALL(name, parameters, arguments) \
	int pp_udc_##name parameters \
	{ \
		volatile int result = -EIO; \
		ENTER(call, result = glue_##name arguments); \
		return result; \
	}

CALL(probe, (struct pp_call *call, const struct glue_config *config, struct glue_udc **udc), (config, udc))
CALL(start, (struct pp_call *call, struct glue_udc *udc), (udc))
CALL(interrupt, (struct pp_call *call, struct glue_udc *udc), (udc))
CALL(speed, (struct pp_call *call, struct glue_udc *udc), (udc))
CALL(match_endpoint, (struct pp_call *call, struct glue_udc *udc, int type, int in, unsigned int taken), (udc, type, in, taken))
CALL(enable, (struct pp_call *call, struct glue_udc *udc, const unsigned char *descriptor), (udc, descriptor))
CALL(disable, (struct pp_call *call, struct glue_udc *udc, unsigned char address), (udc, address))
CALL(queue, (struct pp_call *call, struct glue_udc *udc, unsigned char address, const struct glue_request *request,
	     void **handle), (udc, address, request, handle))
CALL(dequeue, (struct pp_call *call, struct glue_udc *udc, unsigned char address, void *handle), (udc, address, handle))
CALL(set_halt, (struct pp_call *call, struct glue_udc *udc, unsigned char address, int halt), (udc, address, halt))
CALL(set_wedge, (struct pp_call *call, struct glue_udc *udc, unsigned char address), (udc, address))
CALL(flush, (struct pp_call *call, struct glue_udc *udc, unsigned char address), (udc, address))
CALL(set_self_powered, (struct pp_call *call, struct glue_udc *udc, int on), (udc, on))
CALL(pullup, (struct pp_call *call, struct glue_udc *udc, int on), (udc, on))
CALL(wakeup, (struct pp_call *call, struct glue_udc *udc), (udc))
CALL(remove, (struct pp_call *call, struct glue_udc *udc), (udc))

/* Objects of kmalloc. */

static void take_out(struct object *object, struct object **first)
{
	if (object->before)
		object->before->after = object->after;
	else
		*first = object->after;
	if (object->after)
		object->after->before = object->before;
}

void *host_kmalloc(unsigned long size, int zero, int managed)
{
	struct context *of = context();
	struct object *object;

	leave();
	object = malloc(sizeof(*object) + size);
	if (object) {
		*object = (struct object){ .after = of->live, .size = size, .state = LIVE, .managed = managed };
		memset(object->data, zero ? 0 : 0x5a, size);
		if (of->live)
			of->live->before = object;
		of->live = object;
		of->live_count += !managed;
	}
	enter();
	return object ? object->data : NULL;
}

/* Puts it behind the freed, of which the oldest goes. */
static void bury(struct context *of, struct object *object)
{
	object->after = NULL;
	object->before = of->freed_last;
	if (of->freed_last)
		of->freed_last->after = object;
	else
		of->freed = object;
	of->freed_last = object;
	if (++of->freed_count > MOST_FREED) {
		struct object *oldest = of->freed;

		take_out(oldest, &of->freed);
		of->freed_count--;
		free(oldest);
	}
}

void host_kfree(const void *data)
{
	struct context *of = context();
	struct object *object;

	if (!data)
		return;
	object = (struct object *)((char *)(unsigned long)data - offsetof(struct object, data));
	if (object->state == FREED)
		host_end("kfree of an object that is free already");
	if (object->state != LIVE)
		host_end("kfree of what kmalloc did not give");
	leave();
	take_out(object, &of->live);
	of->live_count -= !object->managed;
	object->state = FREED;
	memset(object->data, 0x6b, object->size);
	bury(of, object);
	enter();
}

/* Frees everything: the driver is gone. Outside of calls. */
void pp_udc_release(struct context *of)
{
	struct object *lists[] = { of->live, of->freed }, *next;
	size_t i;

	for (i = 0; i < 2; i++)
		for (; lists[i]; lists[i] = next) {
			next = lists[i]->after;
			free(lists[i]);
		}
	of->live = of->freed = of->freed_last = NULL;
	of->live_count = of->freed_count = 0;
}

/* What the program does. */

#define HOST(function, ...) context()->host->function(context()->driver, ##__VA_ARGS__)

#define ASK(type, ask) do { \
	type answer_; \
	leave(); \
	answer_ = (ask); \
	enter(); \
	return answer_; \
} while (0)

#define TELL(tell) do { \
	leave(); \
	tell; \
	enter(); \
} while (0)

unsigned int host_read(unsigned long offset)
{
	if (++now->reads > MOST_READS)
		host_end("it reads registers for ever: %u times in one call", MOST_READS);
	ASK(unsigned int, HOST(read, offset));
}

void host_write(unsigned long offset, unsigned int value) { TELL(HOST(write, offset, value)); }

void host_print(const char *level, const char *format, va_list *arguments)
{
	char text[512];
	int length;

	leave();
	length = snprintf(text, sizeof(text), "%s", level);
	length += vsnprintf(text + length, sizeof(text) - length, format, *arguments);
	if (length > (int)sizeof(text) - 1)
		length = sizeof(text) - 1;
	while (length > 0 && text[length - 1] == '\n')
		length--;
	HOST(print, text, length);
	enter();
}

void *host_pool_create(const char *name, unsigned long size, unsigned long align, unsigned long boundary)
{
	ASK(void *, HOST(pool_create, name, size, align, boundary));
}

void *host_pool_alloc(void *pool, int zero, int may_sleep, unsigned long long *dma)
{
	ASK(void *, HOST(pool_alloc, pool, zero, may_sleep, dma));
}

void host_pool_free(void *pool, void *block, unsigned long long dma) { TELL(HOST(pool_free, pool, block, dma)); }
void host_pool_destroy(void *pool) { TELL(HOST(pool_destroy, pool)); }
void host_claim_head(unsigned long long dma, unsigned int slot) { TELL(HOST(claim_head, dma, slot)); }

int host_map(unsigned long token, void *data, unsigned int length, int in, unsigned long long *dma)
{
	ASK(int, HOST(map, token, data, length, in, dma));
}

void host_unmap(unsigned long long dma) { TELL(HOST(unmap, dma)); }
int host_setup(const void *packet) { ASK(int, HOST(setup, packet)); }
void host_reset(void) { TELL(HOST(event, RESET)); }
void host_disconnect(void) { TELL(HOST(event, DISCONNECT)); }
void host_suspend(void) { TELL(HOST(event, SUSPEND)); }
void host_resume(void) { TELL(HOST(event, RESUME)); }

void host_complete(unsigned long token, int status, unsigned int actual)
{
	TELL(HOST(complete, token, status, actual));
}
