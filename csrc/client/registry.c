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

void zkl_registry_each(void (*visit)(struct zkl_client *client))
{
    lock_registry();
    zkl_registration *registration;
    TAILQ_FOREACH(registration, &registry, open)
    {
        visit(registration->client);
    }
    unlock_registry();
}

struct zkl_client *zkl_registry_take(void)
{
    lock_registry();
    zkl_registration *first = TAILQ_FIRST(&registry);
    struct zkl_client *client = NULL;
    if (first != NULL) {
        client = first->client;
        remove_registration(first);
    }
    unlock_registry();
    return client;
}

uint32_t zkl_registry_forks(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}
