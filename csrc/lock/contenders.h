/*
 * contenders: the holders and waiters of a path.
 */
#ifndef ZKLOCK_CONTENDERS_H
#define ZKLOCK_CONTENDERS_H

#include "lock.h"

/* One query for the holders and waiters of a path. */
struct zkl_query {
    LIST_ENTRY(zkl_query) all;
    zkl_locks *locks;
    char *path;
    zkl_contenders_fn done;
    void *user;
    bool identities;
    bool sent;
    bool lost; /* its connection was lost */
    bool answered;
    int32_t count;
    int32_t next;   /* index of the contender whose identity is read next, once the list is in */
    int32_t flying; /* such reads in flight */
    zkl_contender *contenders;
};

/* Handles the identity of the contender whose index is the request's tag. */
void zkl_query_got(void *owner, int rc, const zkl_reply *reply);

#endif
