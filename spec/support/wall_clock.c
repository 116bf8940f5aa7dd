/*
 * wall_clock: for LD_PRELOAD. Changes the time of day: with WALL_CLOCK=stop it stands from the program's start on, with a number it
 * differs by so many seconds. Other clocks are left alone. (libfaketime does the same, and makes a Java server five times slower.)
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

static int (*real_clock)(clockid_t, struct timespec *);
static struct timespec start;
static bool stands;
static time_t difference;

__attribute__((constructor)) static void prepare(void)
{
    const char *wish = getenv("WALL_CLOCK");
    *(void **)&real_clock = dlsym(RTLD_NEXT, "clock_gettime");
    real_clock(CLOCK_REALTIME, &start);
    stands = wish != NULL && strcmp(wish, "stop") == 0;
    difference = wish != NULL && !stands ? (time_t)strtoll(wish, NULL, 10) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *result)
{
    if (real_clock == NULL) {
        prepare();
    }
    if (clock == CLOCK_REALTIME && stands) {
        *result = start;
        return 0;
    }
    int status = real_clock(clock, result);
    if (status == 0 && clock == CLOCK_REALTIME) {
        result->tv_sec += difference;
    }
    return status;
}

int gettimeofday(struct timeval *restrict result, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    result->tv_sec = now.tv_sec;
    result->tv_usec = now.tv_nsec / 1000;
    return 0;
}
