/*
 * kernel.h: as much of the kernel's own API as mm/dmapool.c and lib/scatterlist.c use, for a program in user space.
 * Put before the file that is compiled (-include); the <linux/...> headers that the file names are empty.
 */
#ifndef POOLPROOF_KERNEL_H
#define POOLPROOF_KERNEL_H

#include "kernel/types.h"
#include "kernel/math.h"
#include "kernel/list.h"
#include "kernel/lock.h"
#include "kernel/memory.h"
#include "kernel/percpu.h"
#include "kernel/print.h"
#include "kernel/device.h"
#include "kernel/module.h"

#endif
