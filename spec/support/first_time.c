/*
 * first_time: for LD_PRELOAD. The first call of time() by the ZooKeeper C client returns $FIRST_TIME, from which the client takes
 * the number of its first request. All other calls return the real time.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static _Atomic int asked;

time_t time(time_t *result)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time_t seconds = now.tv_sec;
    const char *first = getenv("FIRST_TIME");
    Dl_info caller;
    if (first != NULL && dladdr(__builtin_return_address(0), &caller) != 0 &&
        strstr(caller.dli_fname, "libzookeeper") != NULL && atomic_fetch_add(&asked, 1) == 0) {
        seconds = (time_t)strtoll(first, NULL, 10);
    }
    if (result != NULL) {
        *result = seconds;
    }
    return seconds;
}
