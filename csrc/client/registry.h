/*
 * registry: what the clients of this process share: the list of open clients, the number of forks, the counter of requests.
 *
 * A client is in the registry from its opening until its I/O thread ends. The registry does not own it. After fork() the child's
 * registry is empty.
 */
#ifndef ZKLOCK_CLIENT_REGISTRY_H
#define ZKLOCK_CLIENT_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* A client's place in the registry. All fields: the registry's mutex. */
typedef struct zkl_registration {
    TAILQ_ENTRY(zkl_registration) open; /* `open.tqe_prev` is NULL while it is not in the registry */
    struct zkl_client *client;          /* constant once it was added */
    bool marked;                        /* by zkl_registry_take */
} zkl_registration;

/* Once a process, before the first client is opened: from then on the registry notices forks. */
void zkl_registry_start(void);
/* Any thread. */
void zkl_registry_add(zkl_registration *registration, struct zkl_client *client);
/* Harmless if it is not in the registry any more. Any thread. */
void zkl_registry_remove(zkl_registration *registration);
/*
 * Calls `mark` for each client that was not marked, then takes the first one out and returns it; NULL: the registry is empty. It is locked
 * meanwhile, so that no client ends in between. Any thread.
 */
struct zkl_client *zkl_registry_take(void (*mark)(struct zkl_client *client));
/*
 * Returns the number of forks between this process and the process that loaded the module. Every call of a client compares it.
 * getpid() would do too, but it is a system call, and each acquisition would take about twenty of them. Any thread.
 */
uint32_t zkl_registry_forks(void);

/* --- request numbers: those that the C client gives to requests, for all clients -------------------------------------- */

/* The level of the C client's log, one for the process. Below this level every connection and every request makes a line. */
#define ZKL_ZOOKEEPER_LOG_LEVEL ZOO_LOG_LEVEL_WARN

/*
 * To be called before and after each call of the C client that makes a request, on one thread. Nothing between the two may wait.
 * Any thread.
 */
void zkl_xid_begin(void);
void zkl_xid_end(void);
/* Reads a line of the C client's log below that level, made on this thread. */
void zkl_xid_read(const char *text);

#endif
