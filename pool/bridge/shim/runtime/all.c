/* The whole runtime as one unit. */
#include "call.c"
#include "lock.c"
#include "memory.c"
#include "percpu.c"
#include "print.c"
#include "device.c"
