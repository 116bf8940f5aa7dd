/*
 * machine: see machine.h. The wrapped functions behave as on a machine with one processor, on which a thread may have
 * to wait before it runs, but is never interrupted.
 */
#include "machine.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "client/log.h"

/* sim_network.c numbers its descriptors from here. */
#define FIRST_SIMULATED 1000

#define STACK_SIZE ((size_t)512 * 1024)

/* The descriptors of timerfd_create have numbers from here. */
#define FIRST_ALARM 1000000
#define MOST_ALARMS (2 * MOST_FIBERS)

/*
 * How long a reading of the clock takes, in nanoseconds. If it were 0, a program that reads the clock until some time
 * has passed would never end.
 */
#ifndef LOOK_AT_CLOCK
#define LOOK_AT_CLOCK 0
#endif

/* If there are more changes of threads than this at one instant, a thread spins. */
#define MOST_CHANGES 20000

typedef struct {
    struct pollfd *fds;
    nfds_t count;
    int64_t until; /* simulated time */
} sleep_state;

typedef struct {
    ucontext_t context;
    void *stack; /* NULL: there is no such fiber */
    void *(*start)(void *);
    void *argument;
    sleep_state asleep;
    bool done;
    bool detached;
    zkl_log *speaks; /* the client whose log lines are written on this thread */
    int64_t paused_until;
} fiber;

static struct {
    bool open;
    int64_t at; /* INT64_MAX: not set */
} alarms[MOST_ALARMS];

static fiber fibers[MOST_FIBERS];
static fiber *present; /* the fiber that runs; NULL: the program itself */
static ucontext_t program;
static int64_t changed_at;
static int changes;
static int64_t clock_read; /* at the last reading of the clock; the world catches up when a thread sleeps */

int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);
int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_detach(pthread_t thread);
int __wrap_pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until);
int __wrap_timerfd_create(clockid_t clock, int flags);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *before);
ssize_t __real_read(int fd, void *bytes, size_t size);
ssize_t __wrap_read(int fd, void *bytes, size_t size);
int __real_close(int fd);
int __wrap_close(int fd);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags);
int __wrap_shutdown(int fd, int how);
time_t __wrap_time(time_t *now);
pid_t __wrap_getpid(void);
int __wrap_gethostname(char *name, size_t size);

_Noreturn void machine_fail(const char *what)
{
    fprintf(stderr, "machine: %s at %.6f\n", what, (double)sim_now() / 1e9);
    abort();
}

/*
 * --- which threads are ready ---------------------------------------------------------------------------------------
 */

/* Fills in the results of poll, and returns its result; 0 also if poll would continue to sleep. */
static int look(const sleep_state *asleep)
{
    int ready = 0;
    for (nfds_t i = 0; i < asleep->count; i++) {
        struct pollfd *fd = &asleep->fds[i];
        fd->revents = 0;
        if (fd->fd >= FIRST_ALARM) {
            fd->revents = alarms[fd->fd - FIRST_ALARM].at <= sim_now() ? POLLIN : 0;
        } else if (fd->fd >= FIRST_SIMULATED) {
            fd->revents = sim_poll(fd->fd, fd->events);
        } else if (fd->fd >= 0) {
            __real_poll(fd, 1, 0);
        }
        ready += fd->revents != 0;
    }
    return ready;
}

static bool is_ready(const sleep_state *asleep)
{
    return look(asleep) > 0 || asleep->until <= sim_now();
}

static bool may_run(const fiber *each)
{
    return each->stack != NULL && !each->done && each->paused_until <= sim_now() && is_ready(&each->asleep);
}

/* --- changing ------------------------------------------------------------------------------------------------------ */

static void begin_fiber(unsigned number)
{
    fiber *self = &fibers[number];
    self->start(self->argument);
    self->done = true;
    swapcontext(&self->context, &program);
}

static void forget(fiber *each)
{
    free(each->stack);
    memset(each, 0, sizeof *each);
}

static void run_fiber(fiber *each)
{
    if (changed_at != sim_now()) {
        changed_at = sim_now();
        changes = 0;
    }
    if (++changes > MOST_CHANGES) {
        machine_fail("a thread spins");
    }
    sim_set_caller((int)(each - fibers));
    zkl_log *before = zkl_log_speaks(each->speaks);
    present = each;
    swapcontext(&program, &each->context);
    present = NULL;
    each->speaks = zkl_log_speaks(before);
    if (each->done && each->detached) {
        forget(each);
    }
}

static void nothing(void *context, int64_t argument)
{
    (void)context, (void)argument;
}

/* Schedules an empty event, so that time stops at that instant once. */
static void mark(int64_t at)
{
    if (at < INT64_MAX) {
        sim_schedule(at, nothing, NULL, 0);
    }
}

/*
 * The program sleeps. Runs one fiber, or lets the world take a step, unless the program is the next to run. Returns
 * true if it is.
 */
static bool pass(const sleep_state *asleep)
{
    fiber *ready[MOST_FIBERS];
    int count = 0;
    for (int i = 0; i < MOST_FIBERS; i++) {
        if (may_run(&fibers[i])) {
            ready[count++] = &fibers[i];
        }
    }
    bool mine = is_ready(asleep);
    if (count + mine == 0 || sim_chance(1, 4)) {
        if (count + mine > 0) {
            mark(sim_now() + sim_below(SIM_MILLISECOND)); /* threads that are ready run soon */
        }
        if (!sim_step()) {
            machine_fail("everybody waits, for nothing");
        }
        return false;
    }
    int next = (int)sim_below(count + mine);
    if (next < count) {
        run_fiber(ready[next]);
        return false;
    }
    return true;
}

/* Lets the time pass in the world that threads have spent reading the clock. */
static void catch_up(void)
{
    if (clock_read > sim_now()) {
        machine_freeze(clock_read);
    }
}

/* --- functions that the program calls ----------------------------------------------------------------------------- */

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    catch_up();
    /* The call itself takes some time. Otherwise a program that waits for one more nanosecond would wait for ever. */
    sleep_state asleep = {fds, count,
                          timeout < 0 ? INT64_MAX : sim_now() + timeout * SIM_MILLISECOND + SIM_MICROSECOND};
    mark(asleep.until);
    if (present != NULL) {
        present->asleep = asleep;
        swapcontext(&present->context, &program);
    } else {
        while (!pass(&asleep)) {
        }
    }
    return look(&asleep);
}

int __wrap_shutdown(int fd, int how)
{
    (void)how;
    sim_shut_down(fd);
    return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    int64_t at = machine_now();
    now->tv_sec = at / SIM_SECOND;
    now->tv_nsec = at % SIM_SECOND;
    return 0;
}

time_t __wrap_time(time_t *now)
{
    if (now != NULL) {
        *now = 0;
    }
    return 0;
}

static fiber *spare_fiber(void)
{
    for (int i = 0; i < MOST_FIBERS; i++) {
        if (fibers[i].stack == NULL) {
            return &fibers[i];
        }
    }
    return NULL;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    (void)attributes;
    fiber *fresh = spare_fiber();
    if (fresh == NULL) {
        return EAGAIN;
    }
    fresh->stack = malloc(STACK_SIZE);
    if (fresh->stack == NULL || getcontext(&fresh->context) != 0) {
        machine_fail("no memory for a thread");
    }
    fresh->start = start;
    fresh->argument = argument;
    fresh->asleep = (sleep_state){NULL, 0, sim_now()};
    fresh->context.uc_stack.ss_sp = fresh->stack;
    fresh->context.uc_stack.ss_size = STACK_SIZE;
    makecontext(&fresh->context, (void (*)(void))begin_fiber, 1, (unsigned)(fresh - fibers));
    *thread = (pthread_t)(fresh - fibers) + 1;
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    (void)result;
    fiber *each = &fibers[thread - 1];
    const sleep_state never = {NULL, 0, INT64_MAX};
    catch_up();
    while (!each->done) {
        pass(&never);
    }
    forget(each);
    return 0;
}

int __wrap_pthread_detach(pthread_t thread)
{
    fiber *each = &fibers[thread - 1];
    each->detached = true;
    if (each->done) {
        forget(each);
    }
    return 0;
}

/* No fiber sleeps while it holds a mutex, so the mutex is free. */
int __wrap_pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
    (void)clock, (void)until;
    return pthread_mutex_trylock(mutex);
}

int __wrap_timerfd_create(clockid_t clock, int flags)
{
    (void)clock, (void)flags;
    for (int i = 0; i < MOST_ALARMS; i++) {
        if (!alarms[i].open) {
            alarms[i].open = true;
            alarms[i].at = INT64_MAX;
            return FIRST_ALARM + i;
        }
    }
    errno = EMFILE;
    return -1;
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *before)
{
    (void)flags, (void)before;
    int64_t after = value->it_value.tv_sec * SIM_SECOND + value->it_value.tv_nsec;
    alarms[fd - FIRST_ALARM].at = sim_now() + after;
    mark(sim_now() + after);
    return 0;
}

ssize_t __wrap_read(int fd, void *bytes, size_t size)
{
    if (fd < FIRST_ALARM) {
        return __real_read(fd, bytes, size);
    }
    if (alarms[fd - FIRST_ALARM].at > sim_now()) {
        errno = EAGAIN;
        return -1;
    }
    alarms[fd - FIRST_ALARM].at = INT64_MAX;
    memset(bytes, 0, size);
    return (ssize_t)size;
}

int __wrap_close(int fd)
{
    if (fd < FIRST_ALARM) {
        return __real_close(fd);
    }
    alarms[fd - FIRST_ALARM].open = false;
    return 0;
}

ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < size; i++) {
        ((unsigned char *)bytes)[i] = (unsigned char)sim_random();
    }
    return (ssize_t)size;
}

/*
 * A client's name consists of these two, and the length of a text decides where memory is allocated. With the real
 * ones, processes whose numbers have four and five digits would not traverse tables in the same order.
 */
pid_t __wrap_getpid(void)
{
    return 4711;
}

int __wrap_gethostname(char *name, size_t size)
{
    snprintf(name, size, "simulated");
    return 0;
}

/* --- functions that the tests call -------------------------------------------------------------------------------- */

int machine_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    return __wrap_poll(fds, count, timeout);
}

int64_t machine_now(void)
{
    if (clock_read < sim_now()) {
        clock_read = sim_now();
    }
    clock_read += LOOK_AT_CLOCK;
    return clock_read;
}

void machine_begin(void)
{
    if (!machine_is_idle()) {
        machine_fail("threads of another world are left");
    }
    changed_at = clock_read = 0;
}

bool machine_is_idle(void)
{
    bool idle = true;
    for (int i = 0; i < MOST_FIBERS; i++) {
        idle = idle && (fibers[i].stack == NULL || fibers[i].done);
    }
    return idle;
}

int machine_room(void)
{
    int room = 0;
    for (int i = 0; i < MOST_FIBERS; i++) {
        room += fibers[i].stack == NULL;
    }
    return room;
}

void machine_pause(int caller, int64_t until)
{
    fibers[caller].paused_until = until;
    mark(until);
}

void machine_freeze(int64_t until)
{
    mark(until);
    while (sim_now() < until) {
        sim_step();
    }
}
