/*
 * acquisition: one request for a lock.
 */
#ifndef ZKLOCK_ACQUISITION_H
#define ZKLOCK_ACQUISITION_H

#include "lock.h"
#include "lock_spec.h"

LIST_HEAD(zkl_acquisition_entries, zkl_entry);

/* One request for a lock. */
struct zkl_acquisition {
    TAILQ_ENTRY(zkl_acquisition) all;
    TAILQ_ENTRY(zkl_acquisition) in_holds;
    TAILQ_ENTRY(zkl_acquisition) in_entry; /* in entry->sharers, if it shares the entry */
    zkl_locks *locks;
    zkl_queue *queue; /* where it waits */
    /* Its entry in the queue, its own or a shared one; NULL when it has none (any more). */
    zkl_entry *entry;
    struct zkl_acquisition_entries entries; /* its own entries; empty when the server has none of its nodes any more */
    void *part;                             /* what its kind has added to it, in one piece of memory; NULL: nothing */
    zkl_lock_spec *spec;
    char *message;
    void *user;
    int64_t asked_at;
    int64_t granted_at;
    int64_t hold_until; /* in locks->holds if not ZKL_NEVER */
    zkl_token token;
    uint64_t serial; /* of a semaphore: the latest of its nodes' numbers (zkl_entry_next_serial) */
    zkl_code code;
    int32_t revocations;
    zkl_acquisition_phase phase : 8;
    bool try_only;
    bool optimistic;
    bool forgotten;
    bool was_behind; /* a contender that conflicts was before it */
    bool sharing;    /* shares an entry, and is not the acquisition that the entry serves first */
};

/* Returns the kind of lock that is acquired. */
static inline const zkl_kind *zkl_acquisition_kind(const zkl_acquisition *acquisition)
{
    return acquisition->spec->kind;
}

/* Returns what measures the acquisition; NULL: nothing does. */
static inline zkl_meter *zkl_acquisition_meter(const zkl_acquisition *acquisition)
{
    return acquisition->spec->lock.meter;
}

/* Ends a waiting or granted acquisition for good, with a code and a message made like printf. Does not change its entry. */
void zkl_acquisition_finish(zkl_acquisition *acquisition, zkl_acquisition_phase phase, zkl_code code,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Refuses a waiting acquisition, likewise, and gives up its entries. May free it. */
void zkl_acquisition_refuse(zkl_acquisition *acquisition, zkl_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Grants the acquisition by `entry`. The token is made of that entry's node. */
void zkl_acquisition_grant(zkl_acquisition *acquisition, const zkl_entry *entry);
/* Ends a granted acquisition as lost, and gives up its entries. Does nothing if it is not granted. */
void zkl_acquisition_lose(zkl_acquisition *acquisition, zkl_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Gives up the acquisition's entries: they pass to other acquisitions, or their nodes are deleted in the background. */
void zkl_acquisition_leave(zkl_acquisition *acquisition);
/* Notes that the release of a granted acquisition has been requested. */
void zkl_acquisition_revoked(zkl_acquisition *acquisition);
/* Frees the acquisition at once. */
void zkl_acquisition_free(zkl_acquisition *acquisition);
/* Tells the host that the acquisition has a node and waits behind another one; zkl_acquisition_view.blocker may have changed. */
void zkl_acquisition_blocker_changed(zkl_acquisition *acquisition);
/*
 * The release of an acquisition has found that a node by which it held until then was deleted externally. The host
 * learns this when the acquisition is settled.
 */
void zkl_acquisition_deleted_externally(zkl_acquisition *acquisition, const char *node);
/* The server refuses to delete the node of a released acquisition. */
void zkl_acquisition_delete_refused(zkl_acquisition *acquisition, int rc, const char *node);
/* If the acquisition is settled: tells the host, or frees the acquisition if its owner has forgotten it. */
void zkl_acquisition_settle(zkl_acquisition *acquisition);
/* An entry of the acquisition is gone. With the last one the acquisition is settled. */
void zkl_acquisition_entry_gone(zkl_acquisition *acquisition, zkl_entry *entry);

#endif
