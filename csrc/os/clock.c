/* clock: the clock of leases, and timeouts for poll. */
#include "clock.h"

#include <time.h>

#include "base/base.h"

int64_t zkl_clock(void)
{
    struct timespec now;
#ifdef CLOCK_BOOTTIME
    if (clock_gettime(CLOCK_BOOTTIME, &now) == 0) {
        return (int64_t)now.tv_sec * ZKL_SECOND + now.tv_nsec;
    }
#endif
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * ZKL_SECOND + now.tv_nsec;
}

int zkl_poll_timeout(int64_t until, int64_t now)
{
    if (until == ZKL_NEVER) {
        return -1;
    }
    int64_t left = until - now;
    if (left <= 0) {
        return 0;
    }
    int64_t ms = (left + 999999) / 1000000;
    return ms > 60000 ? 60000 : (int)ms;
}
