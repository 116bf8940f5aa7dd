/*
 * lock spec: what the settings of a lock are kept in.
 */
#ifndef ZKLOCK_LOCK_SPEC_H
#define ZKLOCK_LOCK_SPEC_H

#include <stdatomic.h>

#include "kind.h"

/* A lock spec, with the memory that its settings refer to. */
struct zkl_lock_spec {
    zkl_lock lock; /* its pointers refer to memory of the spec */
    struct ACL_vector acl;
    const zkl_kind *kind; /* what the mode says */
    char *directories;    /* of its kind's `directories`; NULL: the lock's path is its queue */
    _Atomic int32_t uses;
};

/* Returns whether the acl is "open": anybody may do anything with the nodes. */
bool zkl_lock_spec_is_open(const zkl_lock_spec *spec);
/* Returns whether the nodes of both specs have the same data and acl. */
bool zkl_lock_spec_alike(const zkl_lock_spec *a, const zkl_lock_spec *b);

#endif
