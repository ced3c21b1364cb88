/*
 * Goes before everything that is compiled with the kernel's headers: their configuration, less what a driver in user space
 * cannot have. Nothing here is linked to a kernel, so that what changes a structure does no harm.
 */
#include <linux/kconfig.h>

/* udc.c itself. A distribution for x86 need not have it. */
#undef CONFIG_USB_CHIPIDEA_UDC
#define CONFIG_USB_CHIPIDEA_UDC 1
/* HNP and SRP have a state machine in otg_fsm.c. */
#undef CONFIG_USB_OTG_FSM
/* trace.c would have the tracepoints. */
#undef CONFIG_TRACEPOINTS
#undef CONFIG_DYNAMIC_DEBUG
#undef CONFIG_DYNAMIC_DEBUG_CORE
/* Checks whose other half is in the kernel. */
#undef CONFIG_DEBUG_LIST
#undef CONFIG_LIST_HARDENED
#undef CONFIG_FORTIFY_SOURCE
#undef CONFIG_DEBUG_SPINLOCK
#undef CONFIG_DEBUG_LOCK_ALLOC
#undef CONFIG_LOCKDEP
#undef CONFIG_DEBUG_ATOMIC_SLEEP
#undef CONFIG_MEM_ALLOC_PROFILING
/* Locks are functions here, not instructions that disable interrupts. */
#undef CONFIG_INLINE_SPIN_LOCK
#undef CONFIG_INLINE_SPIN_LOCK_IRQ
#undef CONFIG_INLINE_SPIN_LOCK_IRQSAVE
#undef CONFIG_INLINE_SPIN_UNLOCK_IRQ
#undef CONFIG_INLINE_SPIN_UNLOCK_IRQRESTORE
#undef CONFIG_UNINLINE_SPIN_UNLOCK
#define CONFIG_UNINLINE_SPIN_UNLOCK 1

#include <linux/compiler_types.h>
#include <linux/bug.h>

/* On x86 these are an invalid instruction, which the kernel looks up in a table. */
void glue_warn(const char *file, int line, const char *condition);
void glue_bug(const char *file, int line, const char *condition) __attribute__((__noreturn__));

#undef BUG
#undef BUG_ON
#undef WARN_ON
#undef WARN_ON_ONCE
#define BUG() glue_bug(__FILE__, __LINE__, "BUG")
#define BUG_ON(condition) do { if (unlikely(condition)) glue_bug(__FILE__, __LINE__, #condition); } while (0)
#define WARN_ON(condition) ({ \
	const bool holds_ = !!(condition); \
	if (unlikely(holds_)) \
		glue_warn(__FILE__, __LINE__, #condition); \
	unlikely(holds_); \
})
/* Each time: a warning of one bench must not be missing in the next. */
#define WARN_ON_ONCE(condition) WARN_ON(condition)
