/* What a compiled kernel file and the program that loaded it say to each other. src/abi.rs is the other side. */
#ifndef POOLPROOF_ABI_H
#define POOLPROOF_ABI_H

#include <stddef.h>
#include <stdint.h>

/* What the program does for the file. Every function may be called on any thread that made a call. */
struct pp_host {
	void *(*dma_alloc)(void *context, size_t size, uint64_t *dma, int may_sleep);
	void (*dma_free)(void *context, size_t size, void *vaddr, uint64_t dma);
	void (*print)(void *context, int level, const char *text, size_t length);
	/* Whether there is memory for an object of kmalloc. */
	int (*has_record)(void *context);
	/* Something that must not be: a sleep in atomic context, a wrong kfree. */
	void (*complain)(void *context, int kind, const char *text, size_t length);
	/* The address that stands for a pointer in a message. */
	uint64_t (*shown)(void *context, const void *pointer);
};

enum pp_complaint { PP_SLEPT, PP_MEMORY, PP_LOCKING };

/* Why a call did not come back by itself. */
enum pp_end { PP_RETURNED, PP_SIGNAL, PP_ENDLESS, PP_BUG };

struct pp_guard;

/* One call into the file, and how it ended. */
struct pp_call {
	/* That of the thread which makes it. */
	struct pp_guard *guard;
	const struct pp_host *host;
	void *context;
	unsigned long page_size;
	int may_sleep;
	/* Objects of kmalloc that were made, less those that were freed. */
	long objects;
	/* How it ended: enum pp_end, the signal, the address it was about, and the instruction. */
	int end;
	int signal;
	void *address;
	void *instruction;
	char words[128];
};

#endif
