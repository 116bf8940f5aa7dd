/* clock: timeouts for poll. zkl_clock itself is in client.h. Any thread. */
#ifndef ZKLOCK_CLIENT_CLOCK_H
#define ZKLOCK_CLIENT_CLOCK_H

#include <stdint.h>

/*
 * Returns the timeout for poll, in milliseconds, from the instant `now` until the instant `until`: -1 for ZKL_NEVER, 0 if that
 * instant is over, 60000 at most.
 */
int zkl_poll_timeout(int64_t until, int64_t now);

#endif
