/*
 * lock spec: the immutable settings of a lock, for all of its acquisitions.
 *
 * A lock spec is made once for each lock object. Acquisitions, handles and lingering nodes share it, so an acquisition
 * copies no strings. The reference count is atomic: callers and the engine drop their references on different threads.
 */
#include <string.h>

#include "lock_spec.h"

/* Whether the list is one of the C client's constants, which are neither copied nor freed. */
static bool is_constant(const struct ACL_vector *acl)
{
    return acl->data == ZOO_OPEN_ACL_UNSAFE.data || acl->data == ZOO_READ_ACL_UNSAFE.data ||
           acl->data == ZOO_CREATOR_ALL_ACL.data;
}

/* Returns the kind of a mode. */
static const zkl_kind *kind_of(zkl_mode mode)
{
#define ZKL_ROW(of, kind) [of] = &(kind),
    static const zkl_kind *const kinds[] = {ZKL_KINDS(ZKL_ROW)};
#undef ZKL_ROW
    return kinds[mode];
}

zkl_lock_spec *zkl_lock_spec_new(const zkl_lock *lock)
{
    zkl_lock_spec *spec = zkl_alloc(sizeof *spec);
    if (spec == NULL) {
        return NULL;
    }
    atomic_store_explicit(&spec->uses, 1, memory_order_relaxed);
    spec->lock = *lock;
    spec->kind = kind_of(lock->mode);
    spec->lock.path = zkl_copy(lock->path, strlen(lock->path));
    spec->lock.identity = zkl_copy(lock->identity, strlen(lock->identity));
    spec->lock.acl = &spec->acl;
    spec->lock.meter = zkl_meter_take(lock->meter);
    bool several = spec->kind->directories != NULL;
    spec->directories = several ? spec->kind->directories(lock->path) : NULL;
    bool whole = spec->lock.path != NULL && spec->lock.identity != NULL && (!several || spec->directories != NULL);
    if (is_constant(lock->acl)) {
        spec->acl = *lock->acl;
    } else {
        whole = zkl_acl_copy(&spec->acl, lock->acl) && whole;
    }
    if (!whole) {
        zkl_lock_spec_drop(spec);
        return NULL;
    }
    return spec;
}

zkl_lock_spec *zkl_lock_spec_take(zkl_lock_spec *spec)
{
    atomic_fetch_add_explicit(&spec->uses, 1, memory_order_relaxed);
    return spec;
}

void zkl_lock_spec_drop(zkl_lock_spec *spec)
{
    if (spec == NULL || atomic_fetch_sub_explicit(&spec->uses, 1, memory_order_acq_rel) > 1) {
        return;
    }
    if (!is_constant(&spec->acl)) {
        zkl_acl_free(&spec->acl);
    }
    zkl_meter_drop(spec->lock.meter);
    zkl_free((void *)(uintptr_t)spec->lock.path);
    zkl_free((void *)(uintptr_t)spec->lock.identity);
    zkl_free(spec->directories);
    zkl_free(spec);
}

const zkl_lock *zkl_lock_spec_settings(const zkl_lock_spec *spec)
{
    return &spec->lock;
}

/* --- access control lists ------------------------------------------------------------------------------------------ */

bool zkl_lock_spec_is_open(const zkl_lock_spec *spec)
{
    return spec->acl.data == ZOO_OPEN_ACL_UNSAFE.data;
}

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

bool zkl_lock_spec_alike(const zkl_lock_spec *a, const zkl_lock_spec *b)
{
    return a == b || (strcmp(a->lock.identity, b->lock.identity) == 0 && same_acl(&a->acl, &b->acl));
}
