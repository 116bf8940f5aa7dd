/*
 * poll owner: decides which thread polls the C client's socket.
 *
 * By default that is the I/O thread. A caller that blocks would sleep next to it, and be woken by it: so the caller becomes the poll
 * owner for as long as it waits, and the I/O thread leaves the socket alone.
 *
 * A caller whose wait is over is likely to wait again soon, for example for its release. Returning ownership to the I/O thread
 * would wake that thread each time. Instead the socket has no owner for a while: an alarm is set, and when it wakes the I/O thread,
 * the thread takes ownership if no caller has had it for RETURNS_WITHIN. Until then nothing is read from the socket. The alarm is
 * not cancelled when the caller returns, which would be a system call in each wait. So it goes off at most once in RETURNS_WITHIN,
 * and once for a wait that is longer.
 *
 *   THREAD -> CALLER   a caller blocks while connected; the I/O thread is woken to leave the socket
 *   CALLER -> NOBODY   there are notifications, or the caller's time is up
 *   NOBODY -> CALLER   a caller blocks again
 *   NOBODY -> THREAD   no caller did, for RETURNS_WITHIN
 *   CALLER -> THREAD   the connection is lost, or the client closes: both are the I/O thread's work
 *
 * Timed work is done by whichever thread is awake first: the I/O thread's sleep never goes beyond it.
 */
#include "client_object.h"

#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "handle.h"

/* How long the socket may have no poll owner. */
#define RETURNS_WITHIN (2 * ZKL_SECOND / 1000)

/* How often a caller tries to lock the engine, and how long each try takes. The I/O thread uses the engine only for moments. */
#define LOCK_TRIES 50
#define LOCK_WITHIN (2 * ZKL_SECOND / 1000)

/*
 * glibc 2.30 has a function that waits for a mutex by the monotonic clock. musl has none, and ThreadSanitizer does not support it.
 * Without it, the mutex is tried TRIES_IN_TIME times within LOCK_WITHIN.
 */
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ) && !defined(__SANITIZE_THREAD__)
#if __GLIBC_PREREQ(2, 30)
#define HAS_CLOCKLOCK
#endif
#endif
#define TRIES_IN_TIME 20

/* I/O thread, engine_mutex held. Returns until when the thread sleeps. Takes poll ownership if no caller has returned in time. */
static int64_t plan_sleep(zkl_client *client, int64_t wake_at)
{
    if (client->poll_owner.polled_by != ZKL_POLLED_BY_NOBODY) {
        return wake_at;
    }
    int64_t returns_by = client->poll_owner.left_at + RETURNS_WITHIN;
    if (zkl_clock() >= returns_by) {
        client->poll_owner.polled_by = ZKL_POLLED_BY_THREAD;
        return wake_at;
    }
    return zkl_earlier(wake_at, returns_by);
}

void zkl_io_thread_sleep(zkl_client *client, const zkl_poll *wanted)
{
    client->poll_owner.sleeping_until = plan_sleep(client, wanted->wake_at);
    bool owner = client->poll_owner.polled_by == ZKL_POLLED_BY_THREAD;
    const struct pollfd nothing = {.fd = -1};
    struct pollfd fds[4] = {
        {.fd = client->desk.wake_pipe.ends[0], .events = POLLIN},
        {.fd = owner ? wanted->fd : -1, .events = wanted->events},
        {.fd = client->poll_owner.alarm.fd, .events = POLLIN},
        owner ? zkl_client_link_poll(client) : nothing,
    };
    int timeout = zkl_poll_timeout(client->poll_owner.sleeping_until, zkl_clock());
    pthread_mutex_unlock(&client->engine_mutex);
    if (poll(fds, 4, timeout) < 0) {
        fds[0].revents = fds[1].revents = fds[2].revents = fds[3].revents = 0;
    }
    pthread_mutex_lock(&client->engine_mutex);
    if (fds[0].revents != 0) {
        zkl_desk_awake(&client->desk);
    }
    if (fds[2].revents != 0) {
        zkl_alarm_read(&client->poll_owner.alarm);
    }
    zkl_client_read(client, zkl_client_arrived(client, &fds[1], &fds[3]));
}

/* engine_mutex held. Whether a caller may do the I/O thread's work: none of it will block. */
static bool may_poll_inline(const zkl_client *client)
{
    return client->engine != NULL && !zkl_life_has_reached(&client->desk.life, ZKL_LIFE_CLOSING) &&
           zkl_engine_may_call(client->engine);
}

static bool is_connected(zkl_client *client)
{
    pthread_mutex_lock(&client->desk.mutex);
    bool connected = client->published.state == ZKL_STATE_CONNECTED &&
                     !zkl_life_has_reached(&client->desk.life, ZKL_LIFE_CLOSE_WANTED);
    pthread_mutex_unlock(&client->desk.mutex);
    return connected;
}

/*
 * Locks the mutex if it can be had within LOCK_WITHIN. pthread_mutex_timedlock would wait by the wall clock: for an hour, if that is
 * set back by an hour meanwhile.
 */
static bool lock_in_time(pthread_mutex_t *mutex)
{
#ifdef HAS_CLOCKLOCK
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOCK_WITHIN;
    until.tv_sec += until.tv_nsec / ZKL_SECOND;
    until.tv_nsec %= ZKL_SECOND;
    return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until) == 0;
#else
    const struct timespec moment = {.tv_nsec = LOCK_WITHIN / TRIES_IN_TIME};
    bool locked = pthread_mutex_trylock(mutex) == 0;
    for (int i = 0; i < TRIES_IN_TIME && !locked; i++) {
        nanosleep(&moment, NULL);
        locked = pthread_mutex_trylock(mutex) == 0;
    }
    return locked;
#endif
}

/*
 * Takes engine_mutex; returns false if the I/O thread keeps it. Without a connection the I/O thread may keep it for long, to
 * close a session.
 */
static bool take_engine(zkl_client *client)
{
    bool taken = pthread_mutex_trylock(&client->engine_mutex) == 0;
    for (int i = 0; i < LOCK_TRIES && !taken && is_connected(client); i++) {
        taken = lock_in_time(&client->engine_mutex);
    }
    return taken;
}

/* Enters the engine: takes engine_mutex if a caller may do the I/O thread's work. `may_block`: retries if the mutex is taken. */
static bool enter_engine(zkl_client *client, bool may_block)
{
    if (!(may_block ? take_engine(client) : pthread_mutex_trylock(&client->engine_mutex) == 0)) {
        return false;
    }
    if (!may_poll_inline(client)) {
        pthread_mutex_unlock(&client->engine_mutex);
        return false;
    }
    return true;
}

static void take_polling(zkl_client *client)
{
    bool with_thread = client->poll_owner.polled_by == ZKL_POLLED_BY_THREAD;
    client->poll_owner.polled_by = ZKL_POLLED_BY_CALLER;
    if (with_thread) {
        zkl_desk_wake(&client->desk); /* the I/O thread sleeps on the socket */
    }
}

/* Unlocks engine_mutex. */
static void leave_polling(zkl_client *client)
{
    client->poll_owner.left_at = zkl_clock();
    client->poll_owner.polled_by = may_poll_inline(client) ? ZKL_POLLED_BY_NOBODY : ZKL_POLLED_BY_THREAD;
    /* Far below 0: the machine was suspended meanwhile. */
    int64_t wakes_in = client->poll_owner.sleeping_until - client->poll_owner.left_at;
    bool in_time = wakes_in <= RETURNS_WITHIN && wakes_in >= -RETURNS_WITHIN;
    bool wake = client->poll_owner.polled_by == ZKL_POLLED_BY_THREAD ||
                !(in_time || zkl_alarm_set(&client->poll_owner.alarm, RETURNS_WITHIN));
    pthread_mutex_unlock(&client->engine_mutex);
    if (wake) {
        zkl_desk_wake(&client->desk);
    }
}

/* engine_mutex held. Whether the caller's wait is over: its result is there, and it needs no notification of it. */
static bool wait_is_over(zkl_client *client, const zkl_handle *subject)
{
    return (subject != NULL && zkl_handle_decided(subject)) || zkl_client_has_notifications(client);
}

/* engine_mutex held. Whether there is work before the I/O thread wakes up. */
static bool wants_turn(const zkl_client *client)
{
    int64_t sleeping_until = client->poll_owner.sleeping_until;
    return zkl_engine_wants_turn(client->engine, sleeping_until) ||
           zkl_handles_expire_at(&client->desk) < sleeping_until;
}

/* engine_mutex held; unlocked while it sleeps. Returns false if the caller's wait is over, for whatever reason. */
static bool poll_inline_once(zkl_client *client, const zkl_handle *subject, int64_t until)
{
    zkl_poll wanted;
    client->desk.quiet = subject;
    bool ready_to_wait = zkl_client_turn(client, &wanted, true);
    if (!ready_to_wait || wait_is_over(client, subject) || !may_poll_inline(client)) {
        return false;
    }
    int64_t now = zkl_clock();
    if (now >= until) {
        return false;
    }
    client->desk.quiet = NULL; /* the I/O thread may finish the work meanwhile, and must then wake the caller */
    struct pollfd fds[3] = {{.fd = client->desk.notifications.pipe.ends[0], .events = POLLIN},
                            {.fd = wanted.fd, .events = wanted.events},
                            zkl_client_link_poll(client)};
    int timeout = zkl_poll_timeout(zkl_earlier(wanted.wake_at, until), now);
    pthread_mutex_unlock(&client->engine_mutex);
    int ready = poll(fds, 3, timeout);
    pthread_mutex_lock(&client->engine_mutex);
    if (client->engine == NULL) {
        return false;
    }
    client->desk.quiet = subject;
    if (ready < 0) {
        fds[1].revents = fds[2].revents = 0;
    }
    zkl_engine_process(client->engine, zkl_clock(), zkl_client_arrived(client, &fds[1], &fds[2]));
    if (ready < 0) {
        zkl_client_turn(client, &wanted, true); /* a signal: the program must be able to handle it */
        return false;
    }
    if (wait_is_over(client, subject) && !wants_turn(client)) {
        zkl_client_end_turn(client, true); /* the next caller that waits computes what to poll for */
        return false;
    }
    return true;
}

/* engine_mutex held; unlocks it. */
static void poll_inline(zkl_client *client, const zkl_handle *subject, int64_t until)
{
    take_polling(client);
    while (poll_inline_once(client, subject, until)) {
    }
    client->desk.quiet = NULL;
    leave_polling(client);
}

/*
 * Leaves the engine. engine_mutex held; unlocks it. Ends the turn of a caller that does not wait: the rest is the I/O thread's
 * work.
 */
static void leave_engine(zkl_client *client)
{
    client->desk.quiet = NULL;
    zkl_client_end_turn(client, false);
    bool due = zkl_handles_flushing(&client->desk) || wants_turn(client);
    pthread_mutex_unlock(&client->engine_mutex);
    if (due) {
        zkl_desk_wake(&client->desk);
    }
}

void zkl_client_serve(zkl_client *client, const zkl_handle *subject, int64_t block_for)
{
    if (!enter_engine(client, block_for > 0)) {
        zkl_desk_wake(&client->desk);
        return;
    }
    zkl_log *before = zkl_log_speaks(&client->log);
    client->desk.quiet = subject;
    zkl_handles_run(&client->desk);
    if (block_for > 0 && !zkl_handle_decided(subject)) {
        poll_inline(client, subject, zkl_clock() + block_for);
    } else {
        leave_engine(client);
    }
    zkl_log_speaks(before);
}

void zkl_client_catch_up(zkl_client *client)
{
    if (enter_engine(client, true)) {
        zkl_log *before = zkl_log_speaks(&client->log);
        zkl_handles_run(&client->desk);
        leave_engine(client);
        zkl_log_speaks(before);
    }
}

void zkl_client_wait(zkl_client *client, int64_t nanoseconds)
{
    int64_t until = zkl_clock() + nanoseconds;
    if (enter_engine(client, true)) {
        zkl_log *before = zkl_log_speaks(&client->log);
        poll_inline(client, NULL, until);
        zkl_log_speaks(before);
    } else {
        struct pollfd notify_fd = {.fd = client->desk.notifications.pipe.ends[0], .events = POLLIN};
        poll(&notify_fd, 1, zkl_poll_timeout(until, zkl_clock()));
    }
}
