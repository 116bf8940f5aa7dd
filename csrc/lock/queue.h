/*
 * queue: a lock's directory, with the entries of this client in it.
 */
#ifndef ZKLOCK_QUEUE_H
#define ZKLOCK_QUEUE_H

#include "lock.h"

/* The outcome for a directory that zkl_queue_make_parents has made, or tried to make. */
typedef enum {
    ZKL_DIRECTORY_READY, /* it exists, or may exist: a create in it can be tried */
    ZKL_DIRECTORY_LATER, /* the server was busy: the same, but not at once */
    ZKL_DIRECTORY_FAILED /* it cannot be made */
} zkl_directory_outcome;

/* Queues report these events to the locks. */
typedef struct {
    /* The replies to zkl_queue_make_parents are in. `rc` says why the directory could not be made. */
    void (*directory_ready)(zkl_queue *queue, zkl_directory_outcome outcome, int rc);
    /*
     * A list has shown a stray, with this name and the serial number of its uuid. The stray is to be deleted. Returns
     * false when memory is short.
     */
    bool (*stray_found)(zkl_queue *queue, const char *name, uint64_t serial);
} zkl_queue_listener;

extern const zkl_queue_listener zkl_queue_events;

/* predict.c: the mutex's node that was the predecessor of our latest node. */
typedef struct {
    char stem[ZKL_UUID_STEM_LENGTH]; /* the beginning of its uuid; no NUL */
    uint64_t serial;                 /* the serial number at the end of its uuid */
    uint64_t stride;                 /* how much that had grown since the predecessor before */
    /* It grew by the same amount the time before, and both nodes were the same client's. */
    bool steady;
    bool own; /* it was our entry before */
} zkl_predecessor;

/* A lock's directory, with what is known of it. */
struct zkl_queue {
    zkl_link in_queues;
    zkl_locks *locks;
    uint32_t uses; /* references from acquisitions, entries and requests, and from locks->kept */
    struct zkl_entry_list entries;
    int32_t lingering;      /* how many of them are LINGERING */
    int32_t downgraded;     /* how many of them are, or will be, downgraded readers */
    int32_t parents_flying; /* creates of directories in flight */
    int parents_error;      /* the first error that says why they cannot be made */
    int parents_last;       /* the answer to the create of the queue's own directory */
    bool warned;            /* the warning about high sequence numbers was logged */

    /* adjacent.c: every node up to this one, which was ours, is gone. 0: no such node is known. */
    int64_t cleared_czxid;
    int64_t cleared_at; /* when its deletion was sent, or that of the latest node before it which a list had shown */
    int64_t cleared_writes;
    int32_t cleared_sequence;
    uint32_t cleared_on;    /* the connection on which the deletion was acknowledged */
    bool last_was_adjacent; /* our latest sequence number was adjacent to that of this node */
    int64_t lost_in; /* the session in which a create here was lost, and its node was not found; 0: none was lost */
    int64_t creates; /* how many writes of locks->writes were creates in this directory */

    zkl_predecessor predecessor;
    int64_t cleaned_at; /* a list showed all nodes of ours at this instant */
    bool no_flags;      /* the directory of its flags could not be made, or not be used, in this session */

    TAILQ_ENTRY(zkl_queue) in_kept;

    /* permits.c and permits_limit.c, for the directory of a semaphore's leases */
    /* The directory's mzxid, that is, of the write that set the known limit; 0: no limit is known. */
    int64_t limit_mzxid;
    uint32_t limit_on;     /* the connection on which it was read or written */
    int32_t limit;         /* for how many permits it was made; 0: it has no limit written in it */
    int32_t limit_wanted;  /* the limit of the acquisition that asked first */
    bool limit_flying;     /* the request that reads or writes the limit is in flight */
    bool limit_unwritable; /* no limit is written there, and we may not write one */
    bool busy;             /* the latest acquisition of permits had to wait */
    bool kept;             /* in locks->kept */
    char path[];
};

/* Returns the queue of `path`, with one more reference; NULL when memory is short. */
zkl_queue *zkl_queue_take(zkl_locks *locks, const char *path);
/* Gives back one reference. The last one frees the queue. */
void zkl_queue_drop(zkl_queue *queue);
/* Returns the entry of this client that has the node with this full path; NULL: none has it. */
zkl_entry *zkl_queue_entry_of_node(const zkl_locks *locks, const char *path);
/* Creates the directory, with `data`, and those above it. `directory_ready` tells when the replies are in. */
void zkl_queue_make_parents(zkl_queue *queue, const char *data, const struct ACL_vector *acl);
/* --- flags (leave.c) ---------------------------------------------------------------------------------------------- */

/*
 * Returns the full path of the flag of the node with this name, or of the directory of the flags if it is "". The caller frees it; NULL
 * when memory is short. The flag of /jobs/x/N is /jobs/_flags_x/N: in the lock's own directory a flag would take a number, and
 * go-zookeeper would stop at it.
 */
char *zkl_queue_flag(const zkl_queue *queue, const char *name);
/* Returns whether flags can be made, as far as known. */
bool zkl_queue_has_flags(const zkl_queue *queue);
/* Sends the creation of the directory of the flags, as a container. Returns false if that could not be sent. */
bool zkl_queue_make_flags(zkl_queue *queue);
/* No flag is made in this session any more. */
void zkl_queue_refuse_flags(zkl_queue *queue);

/* Keeps an unused queue in memory, until newer ones have taken its place. */
void zkl_queue_keep(zkl_queue *queue);
/*
 * Reports the strays in a list of the queue, that is, nodes of this client that belong to none of its entries. They are
 * deleted now, or as soon as possible. Returns false if there was no memory for that; only the next list will find them
 * then.
 */
bool zkl_queue_remove_strays(zkl_queue *queue, const struct String_vector *names);
/* The same for one node. An entry is about to wait for it. */
void zkl_queue_remove_if_stray(zkl_queue *queue, const char *name);
/* Returns whether a create in this directory was lost in this session: it may still be executed. */
bool zkl_queue_may_have_strays(const zkl_queue *queue);
/* The session is over: no conclusion about any directory counts any more. docs/design.md has the list. */
void zkl_queues_forget(zkl_locks *locks);
/* Frees the queues that are kept. No other queue may be left. */
void zkl_queues_free(zkl_locks *locks);

#endif
