/* os: what the clients need of the system. */
#include "os.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

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

/* A kernel before 3.17, or a filter of system calls, knows no getrandom. */
void zkl_random(void *bytes, size_t size)
{
    static _Atomic uint64_t times;
    if (getrandom(bytes, size, 0) == (ssize_t)size) {
        return;
    }
    uint64_t state = (uint64_t)zkl_clock() ^ (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)bytes ^
                     atomic_fetch_add(&times, 1) << 48;
    for (size_t at = 0; at < size; at += sizeof state) {
        uint64_t mixed = state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
        mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
        mixed ^= mixed >> 31;
        memcpy((char *)bytes + at, &mixed, size - at < sizeof mixed ? size - at : sizeof mixed);
    }
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

bool zkl_pipe_open(zkl_pipe *pipe)
{
    if (pipe2(pipe->ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        *pipe = ZKL_NO_PIPE;
        return false;
    }
    return true;
}

void zkl_pipe_close(zkl_pipe *pipe)
{
    for (int i = 0; i < 2; i++) {
        if (pipe->ends[i] >= 0) {
            close(pipe->ends[i]);
            pipe->ends[i] = -1;
        }
    }
}

void zkl_pipe_write(const zkl_pipe *pipe)
{
    while (write(pipe->ends[1], "", 1) < 0 && errno == EINTR) {
    }
}

bool zkl_pipe_drain(const zkl_pipe *pipe)
{
    char bytes[16];
    ssize_t n;
    while ((n = read(pipe->ends[0], bytes, sizeof bytes)) < 0 && errno == EINTR) {
    }
    return n > 0;
}

void zkl_alarm_open(zkl_alarm *alarm)
{
    alarm->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
}

void zkl_alarm_close(zkl_alarm *alarm)
{
    if (alarm->fd >= 0) {
        close(alarm->fd);
        alarm->fd = -1;
    }
}

bool zkl_alarm_set(zkl_alarm *alarm, int64_t nanoseconds)
{
    struct itimerspec once = {.it_value = {.tv_nsec = nanoseconds}};
    alarm->set = alarm->set || (alarm->fd >= 0 && timerfd_settime(alarm->fd, 0, &once, NULL) == 0);
    return alarm->set;
}

void zkl_alarm_read(zkl_alarm *alarm)
{
    uint64_t times;
    if (read(alarm->fd, &times, sizeof times) >= 0) {
        alarm->set = false;
    }
}

/* Enough for getaddrinfo with any of its plugins. */
#define STACK_SIZE ((size_t)512 * 1024)

int zkl_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0) {
        return error;
    }
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, &attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}
