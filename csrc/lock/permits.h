/*
 * permits: a semaphore's acquisitions.
 */
#ifndef ZKLOCK_PERMITS_H
#define ZKLOCK_PERMITS_H

#include "acquisition.h"
#include "queue.h"

/* The states of a semaphore's acquisition. The head of permits.c has the transitions. */
typedef enum {
    ZKL_PERMITS_IN_QUEUE, /* not at the head of the queue, or not stepped there yet; has no lease entries */
    ZKL_PERMITS_LOOKING,  /* at the head: lists the leases, to see whether there is room */
    ZKL_PERMITS_WAITING,  /* at the head: there is no room */
    ZKL_PERMITS_TAKING,   /* has lease entries; it may still be in the queue */
    ZKL_PERMITS_FULL,     /* has lease entries, but there were too many: keeps its nodes, and waits for others to go */
    ZKL_PERMITS_GRANTED
} zkl_permits_state;

/* The part of a semaphore's acquisition beside its queue entry. */
typedef struct {
    zkl_queue *leases;   /* the directory of the leases; acquisition->queue is the semaphore's "locks" */
    int32_t limit;       /* how many permits the semaphore has, by the latest list that was evaluated */
    int32_t count;       /* how many are wanted */
    int32_t excess;      /* how many other permits have to go, by the latest list, before there is room */
    int32_t handed_over; /* how often in a row its permits have passed from one acquisition to another */
    uint32_t generation; /* grows when an earlier list must not count any more */
    zkl_permits_state state;
    bool listing;   /* a list of the leases is in flight */
    bool waited;    /* had to wait, in the queue or for room */
    bool undecided; /* the watch may be armed, but no list since then has been evaluated */
    bool search;    /* waits in the queue, and there may be permits of this client that no acquisition knows */
} zkl_permits;

/* Why the leases were listed. This decides what the reply is used for: it is the request's tag. */
typedef enum {
    ZKL_LEASES_TRY,  /* a try has written nothing yet */
    ZKL_LEASES_JOIN, /* together with the creates of the permits' nodes: counts on the same connection only */
    ZKL_LEASES_LOOK
} zkl_leases_purpose;

/* The kind of a lease entry, one permit of a semaphore. No acquisition has this kind. */
extern const zkl_kind zkl_permit_kind;

/* Adds the permits to a new acquisition. Returns false when memory is short; zkl_permits_end is needed even then. */
bool zkl_permits_init(zkl_acquisition *acquisition, const zkl_acquisition_request *request);
/* Gives back what hangs on the permits of an acquisition that is being freed. */
void zkl_permits_end(zkl_acquisition *acquisition);
/* Does what the state of the entry's acquisition asks for, once that is at the head of its queue. Idempotent. */
void zkl_permits_step(zkl_entry *entry);
/* Sends a try's list of the leases, which comes before any write. Returns false if that could not be sent. */
bool zkl_permits_look(zkl_entry *queue_entry);
/* The create and the list of the queue entry are in flight: takes permits along if some are likely to be free. */
void zkl_permits_joined(zkl_entry *queue_entry);
/* The queue entry waits: looks for permits of this client that no acquisition knows, if there may be some. */
void zkl_permits_search(zkl_entry *queue_entry);
/* Goes on with that search, if it has not come to its end. */
void zkl_permits_search_on(zkl_entry *queue_entry);
/*
 * The acquisition is not at the head of the queue (any more): gives its permits back. The flag says whether another
 * contender is ahead.
 */
void zkl_permits_retreat(zkl_acquisition *acquisition, bool others_ahead);
/* The same when its nodes are gone with their session. */
void zkl_permits_restart(zkl_acquisition *acquisition);
/* One of its permits is being made anew: earlier lists do not count, nor the room that they showed. */
void zkl_permits_changed(zkl_acquisition *acquisition);
/* At the head of the queue, under a watch that came with no list: the list is requested. */
void zkl_permits_look_again(zkl_entry *queue_entry);
/* At the head of the queue: a permit was taken or given back. */
void zkl_permits_event(zkl_acquisition *acquisition);
/* Grants the acquisition: the entries of all its permits are in CONFIRMING, and there is a lease. */
void zkl_permits_confirm(zkl_entry *entry);
/*
 * Gives up the entries of an acquisition that has ended. The permits of a released one pass to another acquisition of
 * this client that waits for as many or fewer, if allowed.
 */
void zkl_permits_released(zkl_acquisition *acquisition);
/* Returns the nodes of the permits, as zkl_acquisition_nodes. */
char *zkl_permits_nodes(const zkl_acquisition *acquisition);
/* Handles the list of the leases that has armed the watch. */
void zkl_permits_listed(zkl_acquisition *acquisition, int rc, const zkl_reply *reply);

#endif
