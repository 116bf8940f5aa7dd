/*
 * xid: keeps the C client's request numbers away from those that mean something else.
 *
 * The C client numbers the requests of all handles of a process with one signed counter of 32 bits (get_xid). The counter begins
 * at time(0). It overflows into the negative numbers, and begins at time(0) again when it has come to -1. So -8, -4 and -2 are given
 * to requests. In an answer the C client takes these for SetWatches, a credential and a ping: the request is never answered, the
 * connection is lost at the next answer, and the answer to -4, if it is an error, ends the session or dereferences NULL.
 *
 * No function of the C client tells the counter. But each request's number is in a line of the C client's log, at level DEBUG.
 * So once in LOOK_EVERY requests the level is raised for the length of one call, whose line says the number. If that is within DANGER
 * of -1, the numbers that are left are used up at once: zoo_awget takes a number before it looks at its arguments, and sends
 * nothing without a handle.
 *
 * The counter is not atomic. A thread that is suspended in the middle of an increment may later set the counter back to where it
 * was. So every call is made under a lock that calls share, and a look has that lock to itself: no call is under way when the
 * numbers are used up. Between two looks the counter moves on by LOOK_EVERY at most, for our part. Two things are not counted,
 * and DANGER has room for them: what zookeeper_close takes, and requests of somebody else in the process who uses the same library.
 */
#include <ctype.h>
#include <string.h>

#include "client_private.h"

#define LOOK_EVERY 32768
#define DANGER (2 * LOOK_EVERY)

/* A look that has seen no number (another thread's line came in between) is made again after so many requests. */
#define LOOK_AGAIN 100

/* glibc alone has a lock that waiting for exclusive use is sure to get, however many share it meanwhile. */
#ifdef PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
#define FAIR_LOCK PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
#else
#define FAIR_LOCK PTHREAD_RWLOCK_INITIALIZER
#endif

static pthread_rwlock_t calls = FAIR_LOCK;

/* Requests until the next look; none before the first. */
static _Atomic int32_t until_look;

static _Thread_local struct {
    bool wanted; /* this thread has `calls` to itself, for a look */
    bool seen;
    int32_t number;
} look __attribute__((
    tls_model("initial-exec"))); /* LeakSanitizer cannot read what a module allocates later for a thread */

void zkl_xid_begin(void)
{
    if (atomic_fetch_sub_explicit(&until_look, 1, memory_order_relaxed) > 0) {
        pthread_rwlock_rdlock(&calls);
        return;
    }
    pthread_rwlock_wrlock(&calls);
    look.wanted = true;
    look.seen = false;
    zoo_set_debug_level(ZOO_LOG_LEVEL_DEBUG);
}

/* The request that has just been made has had this number: uses up those that are left before -1. */
static void step_over(int32_t number)
{
    for (int32_t left = -2 - number; left > 0; left--) {
        (void)zoo_awget(NULL, "/", NULL, NULL, NULL, NULL);
    }
}

void zkl_xid_end(void)
{
    if (look.wanted) {
        look.wanted = false;
        zoo_set_debug_level(ZKL_ZOOKEEPER_LOG_LEVEL);
        bool danger = look.seen && look.number < 0 && look.number >= -DANGER;
        if (danger) {
            step_over(look.number);
        }
        /* After a step soon: zookeeper_close, which does not take the lock, may have set the counter back. */
        atomic_store_explicit(&until_look, look.seen && !danger ? LOOK_EVERY : LOOK_AGAIN, memory_order_relaxed);
    }
    pthread_rwlock_unlock(&calls);
}

/* "Sending request xid=0x6a01e5c3 for path [/] to …", and of a multi "Sending multi request xid=… with 2 subrequests to …". */
void zkl_xid_read(const char *text)
{
    static const char mark[] = "request xid=0x";
    if (!look.wanted || look.seen || strncmp(text, "Sending ", strlen("Sending ")) != 0) {
        return;
    }
    const char *digit = strstr(text, mark);
    if (digit == NULL) {
        return;
    }
    uint32_t number = 0;
    int digits = 0;
    for (digit += strlen(mark); isxdigit((unsigned char)*digit); digit++, digits++) {
        int value = isdigit((unsigned char)*digit) ? *digit - '0' : tolower((unsigned char)*digit) - 'a' + 10;
        number = number << 4 | (uint32_t)value;
    }
    look.seen = digits > 0 && digits <= 8 && *digit == ' ';
    look.number = (int32_t)number;
}

void zkl_xid_forked(void)
{
    /* Whoever had the lock is not in the child. */
    const pthread_rwlock_t fresh = FAIR_LOCK;
    memcpy(&calls, &fresh, sizeof calls);
    look.wanted = false;
    atomic_store(&until_look, 0);
}
