/*
 * lock spec: the immutable settings of a lock, for all of its acquisitions.
 *
 * A lock spec is made once for each lock object. Acquisitions, handles and lingering nodes share it, so an acquisition
 * copies no strings. The reference count is atomic: callers and the engine drop their references on different threads.
 */
#include <stdio.h>
#include <string.h>

#include "engine_private.h"

/* Whether the list is one of the C client's constants, which are neither copied nor freed. */
static bool is_constant(const struct ACL_vector *acl)
{
    return acl->data == ZOO_OPEN_ACL_UNSAFE.data || acl->data == ZOO_READ_ACL_UNSAFE.data ||
           acl->data == ZOO_CREATOR_ALL_ACL.data;
}

/* Returns both directories of a semaphore, one behind the other; NULL when memory is short. */
static char *copy_directories(const char *path)
{
    size_t size = 2 * strlen(path) + sizeof "/locks" + sizeof "/leases";
    char *both = zkl_alloc(size);
    if (both != NULL) {
        snprintf(both, size, "%s/locks%c%s/leases", path, '\0', path);
    }
    return both;
}

const char *zkl_terms_leases(const zkl_terms *terms)
{
    return terms->locks + strlen(terms->locks) + 1;
}

zkl_terms *zkl_terms_new(const zkl_lock *lock)
{
    zkl_terms *terms = zkl_alloc(sizeof *terms);
    if (terms == NULL) {
        return NULL;
    }
    atomic_store_explicit(&terms->uses, 1, memory_order_relaxed);
    bool semaphore = lock->mode == ZKL_MODE_PERMITS;
    terms->lock = *lock;
    terms->lock.path = zkl_copy(lock->path, strlen(lock->path));
    terms->lock.identity = zkl_copy(lock->identity, strlen(lock->identity));
    terms->lock.acl = &terms->acl;
    terms->locks = semaphore ? copy_directories(lock->path) : NULL;
    bool whole = terms->lock.path != NULL && terms->lock.identity != NULL && (!semaphore || terms->locks != NULL);
    if (is_constant(lock->acl)) {
        terms->acl = *lock->acl;
    } else {
        whole = zkl_acl_copy(&terms->acl, lock->acl) && whole;
    }
    if (!whole) {
        zkl_terms_drop(terms);
        return NULL;
    }
    return terms;
}

zkl_terms *zkl_terms_take(zkl_terms *terms)
{
    atomic_fetch_add_explicit(&terms->uses, 1, memory_order_relaxed);
    return terms;
}

void zkl_terms_drop(zkl_terms *terms)
{
    if (terms == NULL || atomic_fetch_sub_explicit(&terms->uses, 1, memory_order_acq_rel) > 1) {
        return;
    }
    if (!is_constant(&terms->acl)) {
        zkl_acl_free(&terms->acl);
    }
    zkl_free((void *)(uintptr_t)terms->lock.path);
    zkl_free((void *)(uintptr_t)terms->lock.identity);
    zkl_free(terms->locks);
    zkl_free(terms);
}

const zkl_lock *zkl_terms_lock(const zkl_terms *terms)
{
    return &terms->lock;
}

/* --- access control lists ------------------------------------------------------------------------------------------ */

static bool same_acl(const struct ACL_vector *a, const struct ACL_vector *b)
{
    if (a->data == b->data) {
        return true;
    }
    if (a->count != b->count) {
        return false;
    }
    for (int32_t i = 0; i < a->count; i++) {
        if (a->data[i].perms != b->data[i].perms || strcmp(a->data[i].id.scheme, b->data[i].id.scheme) != 0 ||
            strcmp(a->data[i].id.id, b->data[i].id.id) != 0) {
            return false;
        }
    }
    return true;
}

bool zkl_terms_alike(const zkl_terms *a, const zkl_terms *b)
{
    return a == b || (strcmp(a->lock.identity, b->lock.identity) == 0 && same_acl(&a->acl, &b->acl));
}

bool zkl_acl_copy(struct ACL_vector *copy, const struct ACL_vector *acl)
{
    *copy = (struct ACL_vector){0, zkl_alloc((size_t)acl->count * sizeof *copy->data)};
    bool whole = copy->data != NULL;
    for (int32_t i = 0; whole && i < acl->count; i++) {
        struct ACL *entry = &copy->data[copy->count++];
        entry->perms = acl->data[i].perms;
        entry->id.scheme = zkl_copy(acl->data[i].id.scheme, strlen(acl->data[i].id.scheme));
        entry->id.id = zkl_copy(acl->data[i].id.id, strlen(acl->data[i].id.id));
        whole = entry->id.scheme != NULL && entry->id.id != NULL;
    }
    return whole;
}

void zkl_acl_free(struct ACL_vector *acl)
{
    for (int32_t i = 0; i < acl->count; i++) {
        zkl_free(acl->data[i].id.scheme);
        zkl_free(acl->data[i].id.id);
    }
    zkl_free(acl->data);
    *acl = (struct ACL_vector){0, NULL};
}
