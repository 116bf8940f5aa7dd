/*
 * registry: all open clients of this process.
 *
 * exit() closes them, so that their locks pass on at once. After fork() the child has none of them.
 */
#include <stdlib.h>
#include <time.h>

#include "client_private.h"

/* How long exit() waits for all clients together to close their sessions. */
#define EXIT_WITHIN_SECONDS 2

static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static TAILQ_HEAD(, zkl_client) registry = TAILQ_HEAD_INITIALIZER(registry);
static pthread_once_t registry_once = PTHREAD_ONCE_INIT;

static void lock_registry(void)
{
    pthread_mutex_lock(&registry_mutex);
}

static void unlock_registry(void)
{
    pthread_mutex_unlock(&registry_mutex);
}

/*
 * How many forks lie between this process and the one that loaded the module. Compared in every call. getpid() would do
 * too, but it is a system call, and each acquisition would take about twenty of them.
 */
static _Atomic uint32_t forks;

/* The child has no I/O threads, and no clients yet. */
static void forget_registry(void)
{
    atomic_fetch_add(&forks, 1);
    TAILQ_INIT(&registry);
    zkl_xid_forked();
    unlock_registry();
}

static void take_leave(void);

static void set_up_registry(void)
{
    pthread_atfork(lock_registry, unlock_registry, forget_registry);
    atexit(take_leave);
    zoo_set_debug_level(ZKL_ZOOKEEPER_LOG_LEVEL);
}

/* exit(): closes every open client, so that its locks pass on now and not after the session timeout. */
static void take_leave(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += EXIT_WITHIN_SECONDS;
    lock_registry();
    zkl_client *client;
    TAILQ_FOREACH(client, &registry, open)
    {
        atomic_fetch_add(&client->references, 1); /* stays while we look at it */
        zkl_client_close(client);
    }
    while ((client = TAILQ_FIRST(&registry)) != NULL) {
        TAILQ_REMOVE(&registry, client, open);
        client->open.tqe_prev = NULL;
        unlock_registry(); /* its thread takes this lock on its way out */
        pthread_mutex_lock(&client->mutex);
        while (!client->exited && pthread_cond_timedwait(&client->gone, &client->mutex, &until) == 0) {
        }
        pthread_mutex_unlock(&client->mutex);
        lock_registry();
    }
    unlock_registry();
}

void zkl_registry_add(zkl_client *client)
{
    lock_registry();
    TAILQ_INSERT_TAIL(&registry, client, open);
    unlock_registry();
}

void zkl_registry_remove(zkl_client *client)
{
    lock_registry();
    if (client->open.tqe_prev != NULL) {
        TAILQ_REMOVE(&registry, client, open);
        client->open.tqe_prev = NULL;
    }
    unlock_registry();
}

void zkl_registry_start(void)
{
    pthread_once(&registry_once, set_up_registry);
}

uint32_t zkl_registry_forks(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}
