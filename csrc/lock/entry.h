/*
 * entry: one znode of ours in a queue.
 */
#ifndef ZKLOCK_ENTRY_H
#define ZKLOCK_ENTRY_H

#include "acquisition.h"
#include "queue.h"

/*
 * A node serves no more after so many grants. The second half of its tokens must not overflow: later tokens would be
 * smaller. A client that is alone and takes its lock a thousand times a second reaches this number in less than two
 * weeks.
 */
#ifdef ZKL_BREAKABLE
#define ZKL_MAX_GRANTS zkl_most_grants
#else
#define ZKL_MAX_GRANTS (INT32_C(1) << 30)
#endif

/* The states of an entry. docs/design.md has the table of transitions. */
typedef enum {
    ZKL_ENTRY_PARKED,     /* Wants a node, has sent nothing. */
    ZKL_ENTRY_LOOKING,    /* A try: the list before any write is in flight. */
    ZKL_ENTRY_JOINING,    /* Create and list are in flight. */
    ZKL_ENTRY_RECOVERING, /* The create's outcome is unknown: sync, list, look for the uuid. */
    ZKL_ENTRY_QUEUED,     /* Has a node. Another contender is ahead, or may be. */
    ZKL_ENTRY_CONFIRMING, /* no contender is ahead; waits for a lease to be granted under, or for permits */
    ZKL_ENTRY_GRANTED,    /* An acquisition holds by its node. */
    ZKL_ENTRY_LINGERING,  /* It was granted, and its last acquisition was released: kept for the next one. */
    ZKL_ENTRY_LEAVING,    /* its node must be deleted */
    ZKL_ENTRY_GONE        /* nothing of it is left; freed with its last request */
} zkl_entry_state;

/* The place of an entry's node in the queue, as far as known. */
typedef enum {
    ZKL_PLACE_UNKNOWN,        /* No list has shown its node yet. */
    ZKL_PLACE_BEHIND,         /* a list has shown another node ahead, conflicting or not */
    ZKL_PLACE_HEAD_BY_NUMBER, /* no node is ahead, conflicting or not; no list has shown it: numbers alone say so */
    ZKL_PLACE_HEAD            /* no node is ahead, conflicting or not; a list has shown its node */
} zkl_place;

/* The grants by an entry's node. */
typedef enum {
    ZKL_USE_NONE,    /* no acquisition has held by it */
    ZKL_USE_GRANTED, /* an acquisition has held by it, so the next grant is a hand-over */
    ZKL_USE_LEFT     /* the entry left from GRANTED: if the node is missing then, it was deleted externally */
} zkl_use;

/* Whether an entry is handed over to the next acquisition; if not, why. */
typedef enum {
    ZKL_HANDOVER_ALLOWED,
    ZKL_HANDOVER_REVOKED,    /* its release was requested */
    ZKL_HANDOVER_GRANT_LOST, /* a grant under its node ended other than by a release */
    ZKL_HANDOVER_USED_UP     /* it was alone, and has had more acquisitions than others should wait for */
} zkl_handover;

/* Whether other contenders have come to the queue of a granted entry, as far as known. */
typedef enum {
    ZKL_CONTENTION_UNKNOWN, /* it does not watch its directory, or no list has come since */
    ZKL_CONTENTION_NONE, /* alone: no other was there, and none has come; no other client waits for its acquisitions */
    ZKL_CONTENTION_SEEN  /* another contender has come since it watches its directory */
} zkl_contention;

/* Requests of an entry that may be in flight at the same time: bits of a set. */
typedef enum {
    ZKL_REQUEST_LIST = 1,    /* a list of its directory, or the look at a downgraded reader's writer */
    ZKL_REQUEST_PREDICT = 2, /* the request that looks for the predicted predecessor */
    ZKL_REQUEST_DELETE = 4   /* the delete of its node */
} zkl_entry_request;

/* Whether an entry takes the place of a granted writer. */
typedef enum {
    ZKL_DOWNGRADE_NO,         /* its node has, or will have, a number of its own */
    ZKL_DOWNGRADE_TO_BE_MADE, /* its node will be made with the number of `writer`, which is granted */
    ZKL_DOWNGRADE_MADE        /* its node was made, or is being made, with its writer's number */
} zkl_downgrade;

/* The fields that belong to one node of an entry. An entry that starts over under a new name begins with an empty one. */
typedef struct {
    int64_t czxid;  /* its node's; for a downgraded reader that of its writer's node */
    int64_t writes; /* locks->writes less queue->creates when its create was acknowledged */
    /* How many grants there were under that czxid before its own: the second half of the token. */
    int32_t grants;
    int32_t ahead; /* at most so many conflicting nodes are ahead, as far as known */
    zkl_place place : 8;
    zkl_use use : 8;
    zkl_handover handover : 8;
    zkl_contention contention : 8;
    uint8_t requests;            /* those in flight, as far as their replies count: see zkl_entry_request */
    bool delete_outcome_unknown; /* outcome unknown: a delete of its node may have been executed or not */
    bool passes;     /* several nodes were ahead, so contenders may be behind: its first delete passes the lock on */
    bool made_flags; /* the directory of flags was missing, and its creation was sent */
} zkl_tenure;

/* One znode of this client, from the wish for it to the proof that it is gone. */
struct zkl_entry {
    TAILQ_ENTRY(zkl_entry) all;
    TAILQ_ENTRY(zkl_entry) in_queue;
    zkl_link in_serials;
    zkl_item item; /* its node, for heartbeats; the watch on its predecessor or on a directory, and on its own node */
    TAILQ_ENTRY(zkl_entry) in_wait_list;
    /*
     * Where it waits to be stepped, since it has something to send that may not go out yet: locks->runnable, ->over_watch_budget or
     * ->backing_off; NULL: nowhere.
     */
    struct zkl_entry_list *wait_list;
    LIST_ENTRY(zkl_entry) in_acquisition;
    TAILQ_ENTRY(zkl_entry) in_lingering;
    zkl_locks *locks;
    zkl_queue *queue;
    const zkl_kind *kind;
    /* The acquisition that it serves first, or, while leaving, served last; NULL: it lingers, or is adopted. */
    zkl_acquisition *acquisition;
    struct zkl_acquisition_list sharers; /* the other acquisitions that share it or wait for it, in their order */
    zkl_lock_spec *spec;                 /* the spec of its node, once it has lingered */
    int64_t linger_until;                /* if it is LINGERING: it is in locks->lingering, and leaves at this time */
    /* A reader takes the place of this granted writer; NULL if it does not, or once that is not needed any more. */
    zkl_entry *writer;
    char *node; /* full path, NULL while unknown */
    zkl_tenure tenure;
    uint64_t serial;     /* the serial number of its uuid */
    uint32_t generation; /* grows when replies to earlier requests must not count any more */
    uint32_t connection; /* the connection on which its create, or its sync, was answered */
    int32_t sequence;
    /* How often it was promised; readers that wait together count once. The promises stay when it starts over. */
    int32_t turns;
    int32_t flying; /* requests in flight that point here */
    zkl_entry_state state;
    zkl_downgrade downgrade : 8;
    bool create_retries; /* create retries: the reply to its latest create was lost, and the node was not there */
    bool wanted;         /* an acquisition waits for it or holds by it, or it lingers; zkl_entry_not_wanted clears it */
    bool reserved;       /* its share of ZKL_MAX_WATCHED_BYTES is reserved */
};

/* --- names --------------------------------------------------------------------------------------------------------- */

/* Writes the text of the entry's uuid. `uuid` has room for ZKL_UUID_LENGTH + 1. */
void zkl_entry_uuid(const zkl_entry *entry, char *uuid);
/* Returns the node's name, without the directory. The entry must have a node. */
const char *zkl_entry_name(const zkl_entry *entry);
/* Sets the name of the entry's node, and the number in it. Returns false when memory is short. */
bool zkl_entry_set_node(zkl_entry *entry, const char *name, int32_t sequence);

/* Gives the entry another serial number. */
void zkl_entry_set_serial(zkl_entry *entry, uint64_t serial);
/* Sets whether the entry takes the place of a writer. */
void zkl_entry_set_downgrade(zkl_entry *entry, zkl_downgrade downgrade);

/* --- beginning and end --------------------------------------------------------------------------------------------- */

/* Returns a new entry for the acquisition in `queue`; NULL when memory is short. */
zkl_entry *zkl_entry_new(zkl_acquisition *acquisition, zkl_queue *queue, const zkl_kind *kind);
/* Returns the serial number for the uuid of a new node. `acquisition` wants it; NULL: none does. */
uint64_t zkl_entry_next_serial(zkl_locks *locks, zkl_acquisition *acquisition, const zkl_kind *kind);

/* Returns an entry for a stray, whose uuid has this serial number; NULL when memory is short. No acquisition wants it. */
zkl_entry *zkl_entry_new_stray(zkl_queue *queue, uint64_t serial);
/*
 * Nothing of the entry is left on the server. The caller must not use the entry afterwards unless a request in flight
 * holds it.
 */
void zkl_entry_gone(zkl_entry *entry);
/* Frees the entry at once, in any state. To be called when everything is freed. */
void zkl_entry_destroy(zkl_entry *entry);

/* --- the state ----------------------------------------------------------------------------------------------------- */

/* Functions that send the requests of each state; NULL: nothing to send. The functions are those of the files that have the states. */
typedef void (*zkl_entry_sender)(zkl_entry *entry);
extern const zkl_entry_sender zkl_entry_senders[];

/* Sends what the entry's state requires, now or as soon as requests may go out. Idempotent. */
void zkl_entry_step(zkl_entry *entry);
/*
 * Sets the state of an entry that exists. Only states of the table in entry.c may follow its present one. An entry that was
 * LINGERING is taken out of locks->lingering; zkl_entry_linger puts it there.
 */
void zkl_entry_move(zkl_entry *entry, zkl_entry_state state);
/* The entry has no acquisition any more. It is LINGERING from now on, until this time of the session's clock at most. */
void zkl_entry_linger(zkl_entry *entry, int64_t until);
/* Returns whether the entry is at the head of its queue and was granted: an acquisition holds by its node, or it lingers. */
bool zkl_entry_is_granted(const zkl_entry *entry);
/* No acquisition wants the entry any more. Its node, if it may have one, counts in the session's `cleaning` until it is gone. */
void zkl_entry_not_wanted(zkl_entry *entry);
/*
 * Detaches the readers that were to take the place of this writer: they cannot do so any more. `unsent_only`: only
 * readers whose create was not sent.
 */
void zkl_entry_detach_readers(const zkl_entry *writer, bool unsent_only);

/* Makes the entry runnable: it cannot go on now, and is stepped when requests may go out again. */
void zkl_entry_make_runnable(zkl_entry *entry);
/* Lets the entry back off: the same, but the server gets time first. */
void zkl_entry_back_off(zkl_entry *entry);
/* Puts the entry among those over the watch budget: it is stepped when ZKL_MAX_WATCHED_BYTES has room for its watch. */
void zkl_entry_wait_for_budget(zkl_entry *entry);
/* Takes the entry off the list in which it waits to be stepped, if it is in one. */
void zkl_entry_leave_wait_list(zkl_entry *entry);
/* Makes the entries that back off runnable: what the server refused may be tried again. `owner`: the zkl_locks, as the session knows it. */
void zkl_entries_end_backoff(void *owner);

/* --- watches ------------------------------------------------------------------------------------------------------- */

/* Returns whether the entry's watched path still fits under ZKL_MAX_WATCHED_BYTES. */
bool zkl_entry_fits(const zkl_entry *entry);
/* Reserves the entry's share of ZKL_MAX_WATCHED_BYTES, or gives it back. */
void zkl_entry_reserve(zkl_entry *entry, bool reserved);
/* Watches a node of the queue, ahead of the entry. Deletes it if it is a stray. */
void zkl_entry_watch_node(zkl_entry *entry, const char *name);
/* Watches the children of the queue's directory: see zkl_watch_children. */
bool zkl_entry_watch_children(zkl_entry *entry, zkl_queue *queue);
/* Watches its own node for requests to release the lock. */
void zkl_entry_watch_own(zkl_entry *entry);

/* --- requests ------------------------------------------------------------------------------------------------------ */

/* Returns whether a request is in flight whose reply counts. */
bool zkl_entry_has_sent(const zkl_entry *entry, zkl_entry_request request);
/* Notes that a request is in flight, or is not any more. Returns `in_flight`. */
bool zkl_entry_note_request(zkl_entry *entry, zkl_entry_request request, bool in_flight);
/* Returns the parameters of a request about the entry, which stays until it was answered (zkl_entry_sent). */
zkl_ask zkl_entry_ask(zkl_entry *entry, zkl_on_reply on_reply);
/* Counts the request as one that points to the entry, if it was sent (`rc` is ZOK). Returns whether it was. */
bool zkl_entry_sent(zkl_entry *entry, int rc);
/* Lists the entry's directory. Returns false if that could not be sent. */
bool zkl_entry_list(zkl_entry *entry, zkl_on_reply on_reply, int32_t tag);
/* One request less points to the entry. Frees it if it is gone and this was the last request. */
void zkl_entry_release(void *entry);

/* --- what it tells acquisitions and its kind ----------------------------------------------------------------------- */

/* Tells the acquisitions that wait in the entry that they wait for another node than before. */
void zkl_entry_blocker_changed(const zkl_entry *entry);
/* The entry serves no more acquisitions: those that wait in it get others. */
void zkl_entry_close(zkl_entry *entry);
/* The entry is not handed over any more, for this reason. An earlier reason stays. */
void zkl_entry_end_handover(zkl_entry *entry, zkl_handover why);
/* Tells the kind that what was known of the entry's node does not count any more. */
void zkl_entry_node_lost(zkl_entry *entry, zkl_loss loss);

#endif
