/* registry: all open clients of this process, and the number of its forks. */
#include "registry.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "xid.h"

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
    zkl_xid_forked();
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

/* The registry is locked. */
static void mark_all(void (*mark)(struct zkl_client *client))
{
    zkl_registration *registration;
    TAILQ_FOREACH(registration, &registry, open)
    {
        if (!registration->marked) {
            registration->marked = true;
            mark(registration->client);
        }
    }
}

void zkl_registry_drain(void (*mark)(struct zkl_client *client),
                        void (*await)(struct zkl_client *client, const struct timespec *until),
                        const struct timespec *until)
{
    zkl_registration *first;
    lock_registry();
    while (mark_all(mark), (first = TAILQ_FIRST(&registry)) != NULL) {
        struct zkl_client *client = first->client;
        remove_registration(first);
        unlock_registry(); /* the client's thread needs it on its way out */
        await(client, until);
        lock_registry();
    }
    unlock_registry();
}

uint32_t zkl_registry_forks(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}
