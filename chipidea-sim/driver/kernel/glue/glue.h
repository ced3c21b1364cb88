/*
 * What the two halves of the glue say to each other. One is compiled with the kernel's headers (all.c), the other with the
 * C library's (calls.c), and no file can have both.
 */
#ifndef POOLPROOF_UDC_GLUE_H
#define POOLPROOF_UDC_GLUE_H

/* How the controller is set up (struct ci_hdrc_platform_data). src/abi.rs has it too. */
struct glue_config {
	const char *name;
	unsigned long capoffset;
	unsigned int interrupt_threshold;
	int registers_shared;
	int disable_streaming;
	/* SBUSCFG.AHBBRST, or negative: as it is. */
	int ahb_burst;
	/* Whether udc.c may know the controller's revision, by which it works around errata. */
	int works_around;
};

/* One request of a gadget's. */
struct glue_request {
	unsigned long token;
	void *data;
	unsigned int length;
	int zero;
	int short_not_ok;
	int no_interrupt;
};

/* The kernel's half: struct glue_udc is a controller with its driver. Results are 0 or an error of the kernel's. */
struct glue_udc;

int glue_probe(const struct glue_config *config, struct glue_udc **udc);
int glue_start(struct glue_udc *udc);
int glue_interrupt(struct glue_udc *udc);
int glue_speed(struct glue_udc *udc);
int glue_match_endpoint(struct glue_udc *udc, int type, int in, unsigned int taken);
int glue_enable(struct glue_udc *udc, const unsigned char *descriptor);
int glue_disable(struct glue_udc *udc, unsigned char address);
int glue_queue(struct glue_udc *udc, unsigned char address, const struct glue_request *request, void **handle);
int glue_dequeue(struct glue_udc *udc, unsigned char address, void *handle);
int glue_set_halt(struct glue_udc *udc, unsigned char address, int halt);
int glue_set_wedge(struct glue_udc *udc, unsigned char address);
int glue_flush(struct glue_udc *udc, unsigned char address);
int glue_set_self_powered(struct glue_udc *udc, int on);
int glue_pullup(struct glue_udc *udc, int on);
int glue_wakeup(struct glue_udc *udc);
int glue_remove(struct glue_udc *udc);
/* After a call that did not come back. */
void glue_forget_locks(void);

/* The other half: the program, and the C library. */
unsigned int host_read(unsigned long offset);
void host_write(unsigned long offset, unsigned int value);
/* `managed` goes with the device (devm_kmalloc). */
void *host_kmalloc(unsigned long size, int zero, int managed);
void host_kfree(const void *object);
void host_print(const char *level, const char *format, __builtin_va_list *arguments);
/* Ends the call: udc.c cannot go on. */
void host_end(const char *format, ...) __attribute__((__noreturn__, __format__(__printf__, 1, 2)));
void *host_pool_create(const char *name, unsigned long size, unsigned long align, unsigned long boundary);
void *host_pool_alloc(void *pool, int zero, int may_sleep, unsigned long long *dma);
void host_pool_free(void *pool, void *block, unsigned long long dma);
void host_pool_destroy(void *pool);
/* A dQH is that of a slot from now on. */
void host_claim_head(unsigned long long dma, unsigned int slot);
/* Maps a request's data, if it has any; what comes next is for that request. `token` is 0 for udc.c's own. */
int host_map(unsigned long token, void *data, unsigned int length, int in, unsigned long long *dma);
void host_unmap(unsigned long long dma);
int host_setup(const void *packet);
void host_reset(void);
void host_disconnect(void);
void host_suspend(void);
void host_resume(void);
void host_complete(unsigned long token, int status, unsigned int actual);

#endif
