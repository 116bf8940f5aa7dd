/* registry: what the clients of this process share: the list of open clients, the number of forks, the counter of requests. */
#include "registry.h"

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/base.h"

/* --- request numbers -------------------------------------------------------------------------------------------------- */

/*
 * Keeps the C client's request numbers away from numbers that mean something else.
 *
 * docs/design.md, "Request numbers", says which these are. No function of the C client returns its counter. But each request's number
 * is in a line of its log, at level DEBUG. So once in LOOK_EVERY requests the level is raised for the length of one call. If the
 * number is within DANGER of -1, those that are left are used up at once: zoo_awget takes a number before it looks at its arguments,
 * and sends nothing without a handle.
 *
 * The counter is not atomic, so every call is made under a lock that calls share, and that a look has to itself. Two things are not
 * counted, and DANGER has room for them: the numbers that zookeeper_close takes, and requests of another user of the same library in
 * the process.
 */
#define LOOK_EVERY 32768
#define DANGER (2 * LOOK_EVERY)

/* A look that has seen no number is repeated after so many requests. Another thread's line may have come in between. */
#define LOOK_AGAIN 100

/* Only glibc has a lock that a thread is sure to get for exclusive use, however many threads share it meanwhile. */
#ifdef PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
#define FAIR_LOCK PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
#else
#define FAIR_LOCK PTHREAD_RWLOCK_INITIALIZER
#endif

static pthread_rwlock_t calls = FAIR_LOCK;

/* Requests until the next look. The very first request looks. */
static _Atomic int32_t until_look;

/* LeakSanitizer cannot read the memory that a module allocates later for a thread, hence the initial-exec model. */
static _Thread_local struct {
    bool wanted; /* this thread has `calls` to itself, for a look */
    bool seen;
    int32_t number;
} look __attribute__((tls_model("initial-exec")));

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

/* Uses up the numbers that are left before -1. `number` is that of the latest request. */
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
        /*
         * After a step the next look comes soon: zookeeper_close, which does not take the lock, may have set the
         * counter back.
         */
        atomic_store_explicit(&until_look, look.seen && !danger ? LOOK_EVERY : LOOK_AGAIN, memory_order_relaxed);
    }
    pthread_rwlock_unlock(&calls);
}

/*
 * Reads the number in a log line: "Sending request xid=0x6a01e5c3 for path [/] to …", or for a multi "Sending multi
 * request xid=… with 2 subrequests to …".
 */
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

static void forget_requests(void)
{
    /* The thread that had the lock does not exist in the child. */
    const pthread_rwlock_t fresh = FAIR_LOCK;
    memcpy(&calls, &fresh, sizeof calls);
    look.wanted = false;
    atomic_store(&until_look, 0);
}

/* --- open clients and forks ------------------------------------------------------------------------------------------- */

static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static TAILQ_HEAD(, zkl_registration) registry = TAILQ_HEAD_INITIALIZER(registry);
static _Atomic uint32_t forks;

static void lock_registry(void)
{
    pthread_mutex_lock(&registry_mutex);
}

static void unlock_registry(void)
{
    pthread_mutex_unlock(&registry_mutex);
}

/* The child has no I/O threads, and no clients yet. */
static void forget_registry(void)
{
    atomic_fetch_add(&forks, 1);
    TAILQ_INIT(&registry);
    forget_requests();
    unlock_registry();
}

void zkl_registry_start(void)
{
    pthread_atfork(lock_registry, unlock_registry, forget_registry);
}

void zkl_registry_add(zkl_registration *registration, struct zkl_client *client)
{
    lock_registry();
    registration->client = client;
    registration->marked = false;
    TAILQ_INSERT_TAIL(&registry, registration, open);
    unlock_registry();
}

/* The registry is locked. */
static void remove_registration(zkl_registration *registration)
{
    TAILQ_REMOVE(&registry, registration, open);
    registration->open.tqe_prev = NULL;
}

void zkl_registry_remove(zkl_registration *registration)
{
    lock_registry();
    if (registration->open.tqe_prev != NULL) {
        remove_registration(registration);
    }
    unlock_registry();
}

struct zkl_client *zkl_registry_take(void (*mark)(struct zkl_client *client))
{
    lock_registry();
    zkl_registration *registration;
    TAILQ_FOREACH(registration, &registry, open)
    {
        if (!registration->marked) {
            registration->marked = true;
            mark(registration->client);
        }
    }
    zkl_registration *first = TAILQ_FIRST(&registry);
    struct zkl_client *client = first != NULL ? first->client : NULL;
    if (first != NULL) {
        remove_registration(first);
    }
    unlock_registry(); /* the client's thread needs it on its way out */
    return client;
}

uint32_t zkl_registry_forks(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}
