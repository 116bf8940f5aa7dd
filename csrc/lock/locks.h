/*
 * locks: all locks of a client.
 *
 * Only the files of this folder, and tests, use the fields. The struct is public so that the layer above can embed it.
 */
#ifndef ZKLOCK_LOCKS_H
#define ZKLOCK_LOCKS_H

#include <sys/queue.h>

#include "names.h"
#include "zk/zk.h"

typedef struct zkl_locks zkl_locks;
typedef struct zkl_acquisition zkl_acquisition;
typedef struct zkl_entry zkl_entry;
typedef struct zkl_kind zkl_kind;
typedef struct zkl_queue zkl_queue;

TAILQ_HEAD(zkl_entry_list, zkl_entry);
TAILQ_HEAD(zkl_acquisition_list, zkl_acquisition);
TAILQ_HEAD(zkl_kept_queues, zkl_queue);

/* The length of a uuid without the serial number at its end. This part is the same in all uuids of one client. */
#define ZKL_UUID_STEM_LENGTH (ZKL_UUID_LENGTH - 12)

/*
 * Called when a grant is to end by itself at `now`. Returns the instant at which it ends: `now` or earlier, and then the
 * host does not put it off any more; or later, if the host has put it off.
 */
typedef int64_t (*zkl_hold_over_fn)(void *context, const zkl_acquisition *acquisition, int64_t now);

/* Whether the servers have containers, as far as known. It does not end with the session: queue.c. */
typedef enum {
    ZKL_CONTAINERS_UNKNOWN, /* none was made yet */
    ZKL_CONTAINERS_DOUBTED, /* set by note_container: a connection was lost while one was made */
    ZKL_CONTAINERS_MADE,    /* set by note_container: one was made, or was there */
    ZKL_CONTAINERS_NONE     /* set by note_container: they have none. Persistent nodes are made, and no flags */
} zkl_containers;

/* All locks of a client. */
struct zkl_locks {
    zkl_session *session;
    zkl_wire *wire; /* of the session */
    void (*acquisition_changed)(void *context, zkl_acquisition *acquisition);
    zkl_hold_over_fn hold_over;
    void *context;

    /* queue.c */
    zkl_table queues;            /* by path */
    struct zkl_kept_queues kept; /* unused queues that stay in memory, the oldest at the head */
    int32_t kept_count;
    zkl_containers containers;
    uint32_t doubted_on; /* the connection that was lost when containers became ZKL_CONTAINERS_DOUBTED */

    /* entry.c */
    struct zkl_entry_list entries; /* all entries */
    zkl_table serials;             /* the same, by the serial numbers of their uuids */
    /* Runnable: they have something to send that may not go out yet; first in, first out. */
    struct zkl_entry_list runnable;
    /* Over the watch budget: they may not join before ZKL_MAX_WATCHED_BYTES has room; likewise. */
    struct zkl_entry_list over_watch_budget;
    struct zkl_entry_list backing_off; /* backing off: they try again at backing_off_until */
    int64_t writes;                    /* acknowledged creates and deletes of entries' nodes */
    uint64_t serial;                   /* the latest uuid's */
    char uuid_stem[ZKL_UUID_STEM_LENGTH + 1];

    /* acquisition.c, share.c */
    struct zkl_acquisition_list acquisitions;
    struct zkl_entry_list lingering;   /* LINGERING entries, the first to leave at the head */
    struct zkl_acquisition_list holds; /* granted acquisitions with a max_hold, the first to end at the head */
};

#endif
