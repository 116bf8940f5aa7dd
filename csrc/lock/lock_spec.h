/*
 * lock spec: what the settings of a lock are kept in.
 */
#ifndef ZKLOCK_LOCK_SPEC_H
#define ZKLOCK_LOCK_SPEC_H

#include <stdatomic.h>

#include "lock.h"

/* A lock spec, with the memory that its settings refer to. */
struct zkl_lock_spec {
    zkl_lock lock; /* its pointers refer to memory of the spec */
    struct ACL_vector acl;
    char *locks; /* MODE_PERMITS: "<path>/locks", followed by "<path>/leases" in the same memory; else NULL */
    _Atomic int32_t uses;
};

/* Returns the directory of a semaphore's permits. */
const char *zkl_lock_spec_leases(const zkl_lock_spec *spec);
/* Returns whether the nodes of both specs have the same data and acl. */
bool zkl_lock_spec_alike(const zkl_lock_spec *a, const zkl_lock_spec *b);

#endif
