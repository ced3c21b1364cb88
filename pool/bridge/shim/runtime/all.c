/* The whole runtime as one unit. */
#include "guard.c"
#include "lock.c"
#include "memory.c"
#include "print.c"
#include "device.c"
