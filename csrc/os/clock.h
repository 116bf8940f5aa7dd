/* clock: the clock of leases, and timeouts for poll. Any thread. */
#ifndef ZKLOCK_OS_CLOCK_H
#define ZKLOCK_OS_CLOCK_H

#include <stdint.h>

/* The clock of leases, in nanoseconds. It counts while the machine is suspended if the system has such a clock. */
int64_t zkl_clock(void);

/*
 * Returns the timeout for poll, in milliseconds, from the instant `now` until the instant `until`: -1 for ZKL_NEVER, 0 if that
 * instant is over, 60000 at most.
 */
int zkl_poll_timeout(int64_t until, int64_t now);

#endif
