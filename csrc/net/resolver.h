/*
 * resolver: resolves a name, and nobody waits for it.
 *
 * getaddrinfo does not return before the name servers have answered, or half a minute is over, and nothing ends it. So each name that
 * is being resolved has a thread of its own, which ends with the answer. Who no longer wants the answer does not wait: the thread then
 * frees what is left. Nothing here decides anything. In virtual time this file is replaced (spec/simulation/dials.c).
 */
#ifndef ZKLOCK_NET_RESOLVER_H
#define ZKLOCK_NET_RESOLVER_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

/* A name that is being resolved, or was. */
typedef struct zkl_resolution zkl_resolution;

typedef struct {
    int error;              /* 0, or an error of getaddrinfo */
    int system;             /* errno, with EAI_SYSTEM */
    struct addrinfo *found; /* with 0 */
    int64_t at;             /* when it came (zkl_clock) */
} zkl_answer;

/* Begins. `host` that is `numeric` is an address, and answered at once. Returns NULL if there is no memory. Any thread. */
zkl_resolution *zkl_resolution_begin(const char *host, const char *port, bool numeric);
/* Returns the answer, valid until zkl_resolution_end; NULL: it is not there yet. */
const zkl_answer *zkl_resolution_answer(const zkl_resolution *resolution);
/* The descriptor that is readable once the answer is there; -1 if it was there at once. */
int zkl_resolution_fd(const zkl_resolution *resolution);
/* Whoever began it is done with it. */
void zkl_resolution_end(zkl_resolution *resolution);

#endif
