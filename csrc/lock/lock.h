/*
 * lock: the protocol of locks, on the session of csrc/zk.
 *
 * An *acquisition* is one request for a lock. An *entry* is one znode. This layer decides which entry serves which
 * acquisition. docs/design.md says what it promises, and has the table of an entry's states.
 *
 *   lock_spec.c    the immutable settings of a lock
 *   acquisition.c  one request for a lock, from the call to its end
 *   acquire.c      how it begins: it shares an entry, or gets one
 *   queue.c        a lock's directory: its parents, the entries in it, strays
 *   entry.c        one znode: what all of its states need
 *   join.c         its states until it has its node: create, recover
 *   place.c        its place in the queue, and the watch on the node ahead
 *   hold.c         no node is ahead: the lease, the grant
 *   lose.c         its node is gone, or must not be used
 *   leave.c        its node is deleted
 *   adjacent.c     an adjacent sequence number, which proves that no node is ahead
 *   predict.c      a predecessor that is predicted
 *   kind.h         what distinguishes kinds of locks: each kind_*.c has a table of it, or several
 *   share.c        acquisitions that share an entry; entries that linger
 *   kind_latch.c   a countdown latch, whose acquisitions have no nodes
 *   permits.c      a semaphore's acquisitions: a queue entry, then permits; permits_limit.c: how many it was made for
 *   meter.c        what is measured of the acquisitions of a group of locks
 *   names.c        what the names of a lock's children mean
 *   locks.c        all locks of a client, and what the session tells them
 *
 * All instants and durations are nanoseconds. All functions are for the driver's thread only, unless their comment says
 * otherwise. All strings passed in are copied.
 */
#ifndef ZKLOCK_LOCK_H
#define ZKLOCK_LOCK_H

#include "locks.h"
#include "meter.h"
#include "names.h"
#include "zk/zk.h"

/* The phases of an acquisition. */
typedef enum {
    ZKL_ACQUISITION_WAITING = 0,
    ZKL_ACQUISITION_GRANTED,
    ZKL_ACQUISITION_LOST,    /* The grant has ended for good without a release. `code` says why. */
    ZKL_ACQUISITION_REFUSED, /* Never granted, and never will be. `code` says why. */
    /* Released by its owner. `code` is set if the delete was refused, or if the node was already gone (ZKL_LOST). */
    ZKL_ACQUISITION_RELEASED
} zkl_acquisition_phase;

/* Returns the name that Lua sees. Any thread. */
const char *zkl_acquisition_phase_name(zkl_acquisition_phase phase);

/* A fencing token. Grants of conflicting locks on one path are ordered by `number`, then by `grants`. */
typedef struct {
    int64_t number; /* the node's czxid; 0: there is no token */
    int32_t grants; /* how many grants the node served before */
} zkl_token;

/* The digits of each part of a token's text: those of INT64_MAX, and those of INT32_MAX. */
#define ZKL_TOKEN_NUMBER_DIGITS 19
#define ZKL_TOKEN_GRANTS_DIGITS 10

/* The size of a token's text: both parts, a hyphen between them, and a NUL. */
#define ZKL_TOKEN_SIZE (ZKL_TOKEN_NUMBER_DIGITS + 1 + ZKL_TOKEN_GRANTS_DIGITS + 1)

/* The upper bounds of the buckets of zkl_stats.waits in nanoseconds, ascending. The last one is ZKL_NEVER. */
extern const int64_t zkl_wait_bounds[ZKL_WAIT_BUCKETS];

/* The kind of lock that is acquired. */
typedef enum {
    ZKL_MODE_MUTEX = 0,
    ZKL_MODE_READ, /* of a read/write lock */
    ZKL_MODE_WRITE,
    ZKL_MODE_PERMITS, /* permits of a semaphore */
    ZKL_MODE_LATCH,   /* the wait for a latch to open */
    ZKL_MODE_COUNT    /* a count-down of a latch */
} zkl_mode;

/* The most permits that one acquisition can request: each of them is a node. */
#define ZKL_MAX_COUNT 1000

/* The settings of a lock, the same for all of its acquisitions. */
typedef struct {
    const char *path;     /* the lock's directory: absolute, valid (zkl_path_problem) */
    const char *identity; /* data of the lock's nodes */
    const struct ACL_vector *acl;
    zkl_meter *meter; /* what measures its acquisitions; NULL: nothing */
    int64_t max_hold; /* A grant ends by itself after so many nanoseconds. 0: it does not. */
    /* A released node stays for so many nanoseconds, for later acquisitions of this client. 0: it does not. */
    int64_t linger;
    /* How many turns in a row a node may serve after its first one, before others get theirs; 0: none. */
    int32_t handoff;
    int32_t permits; /* MODE_PERMITS: how many the semaphore has; of a latch: its count; 1 or more */
    zkl_mode mode;
    bool revocable; /* watch for requests to release the lock: zkl_acquisition_view.revocations */
} zkl_lock;

/*
 * A lock spec: an immutable copy of a zkl_lock with a reference count. Any thread. zkl_lock_spec_new returns NULL when
 * memory is short; else the caller owns one reference. zkl_lock_spec_take adds a reference, zkl_lock_spec_drop gives one back.
 */
typedef struct zkl_lock_spec zkl_lock_spec;
zkl_lock_spec *zkl_lock_spec_new(const zkl_lock *lock);
zkl_lock_spec *zkl_lock_spec_take(zkl_lock_spec *spec);
void zkl_lock_spec_drop(zkl_lock_spec *spec); /* NULL is allowed */
const zkl_lock *zkl_lock_spec_settings(const zkl_lock_spec *spec);

/* The parameters of one acquisition. */
typedef struct {
    zkl_lock_spec *spec;
    int32_t count;   /* MODE_PERMITS: so many are wanted, 1 to `permits`, ZKL_MAX_COUNT at most. */
    bool try_only;   /* Refuse with ZKL_TIMEOUT instead of waiting. Nothing is written if another contender is ahead. */
    bool optimistic; /* With try_only: join first and look afterwards. A refused try deletes its node. */
} zkl_acquisition_request;

/*
 * Ends an acquisition in any phase. A granted one is released (with ZKL_CLOSED: lost), a waiting one is refused with
 * `code`. A second call is harmless.
 */
void zkl_acquisition_end(zkl_acquisition *acquisition, zkl_code code, int64_t now);

/*
 * Ends a granted acquisition after another thread has seen that its lease or max_hold is over: it is lost from now on.
 * `now` is a reading of the clock after that, so that the reason is known.
 */
void zkl_acquisition_lapsed(zkl_acquisition *acquisition, int64_t now);

/* Ends the acquisition if need be, and frees it when nothing of it is left on the server. The caller must not use it again. */
void zkl_acquisition_forget(zkl_acquisition *acquisition, int64_t now);

/* Returns whether nothing of an ended acquisition is left on the server, or its session is over. */
bool zkl_acquisition_settled(const zkl_acquisition *acquisition);
/* An acquisition, as its owner sees it. The strings are valid until the acquisition changes. */
typedef struct {
    zkl_acquisition_phase phase;
    bool settled; /* zkl_acquisition_settled */
    /* It shares the entry of another acquisition of this client, and waits for that one or holds together with it. */
    bool sharing;
    zkl_code code;       /* Why it has ended. ZKL_OK while it has not, or after a release without problems. */
    const char *message; /* It names the attempt, the path and ZooKeeper's answer; "": there is no problem. */
    zkl_token token;     /* The fencing token. Both parts are 0 before the grant. */
    int32_t revocations; /* How often the release has been requested while it was granted (Curator's revocation). */
    const char *node;    /* The full path of its znode. NULL: it has none. */
    const char *blocker; /* The full path of the node that it waits for. NULL: it waits for none now. */
    int64_t hold_until;  /* The grant ends by itself at this instant. ZKL_NEVER: it does not. */
    /* How long a granted one has waited, 1 or more; 0 if no contender that conflicts was before it, however long the servers took. */
    int64_t waited;
} zkl_acquisition_view;

zkl_acquisition_view zkl_acquisition_look(const zkl_acquisition *acquisition);
/*
 * Writes a token as text: both parts in decimal, with leading zeros, and a hyphen between them; "" for no token. The
 * texts sort like the tokens, by bytes and by strcoll in every locale. Letters could not be used: "aa" comes after "z"
 * in Danish. The hyphen always stands at the same place, so it decides nothing, even in a locale that ignores
 * punctuation.
 */
void zkl_token_format(zkl_token token, char text[ZKL_TOKEN_SIZE]);
/*
 * Returns all znodes by which a granted acquisition of several permits holds. Each is the part behind the acquisition's
 * path and '/', ended by a NUL; the last one is ended by another NUL. They stay the same as long as it holds. The
 * caller gives the result to zkl_free. NULL when memory is short, and for any other acquisition, which holds by
 * zkl_acquisition_view.node alone.
 */
char *zkl_acquisition_nodes(const zkl_acquisition *acquisition);
/* Returns the path of the lock, from its lock spec. */
const char *zkl_acquisition_path(const zkl_acquisition *acquisition);
/* Returns the `user` of zkl_locks_acquire. */
void *zkl_acquisition_user(const zkl_acquisition *acquisition);
/*
 * The host has changed the end of a grant: it ends by itself at `until`; ZKL_NEVER: it does not. Does nothing after the
 * grant. The call is only needed for an earlier end. Before the engine ends a grant, it asks the host (zkl_hold_over_fn).
 */
void zkl_acquisition_end_at(zkl_acquisition *acquisition, int64_t until);
/* The data that a contender writes into the holder's node to ask for the lock. Curator's Revoker writes the same. */
#define ZKL_REVOKE "__REVOKE__"

/* --- the object ----------------------------------------------------------------------------------------------------- */

/*
 * Makes a locks object in zeroed memory, for a session that stays as long. `random` makes the uuids of its nodes unique.
 * `acquisition_changed` is called when an acquisition has changed: its phase, code, revocations, or the node it waits for;
 * or zkl_acquisition_settled became true. It must not call anything here except for the accessors of that acquisition.
 * `hold_over` may be NULL: the host never changes the end of a grant.
 * Returns false when memory is short; zkl_locks_free is needed even then.
 */
bool zkl_locks_init(zkl_locks *locks, zkl_session *session, const uint64_t random[2],
                    void (*acquisition_changed)(void *context, zkl_acquisition *acquisition),
                    zkl_hold_over_fn hold_over, void *context);
/*
 * Frees everything, acquisitions included. The session's handle must be closed. Zeroed memory has nothing to free.
 */
void zkl_locks_free(zkl_locks *locks);
/* Ends every acquisition with ZKL_CLOSED. */
void zkl_locks_close(zkl_locks *locks, int64_t now);

/* The session calls these. The owner of all of them is the zkl_locks. */
extern const zkl_session_listener zkl_locks_listener;
extern const zkl_item_ops zkl_entry_items;

/*
 * Starts an acquisition. Returns an object that stays valid until zkl_acquisition_forget, or NULL when memory is short.
 * `user` is for the caller: zkl_acquisition_user returns it.
 */
zkl_acquisition *zkl_locks_acquire(zkl_locks *locks, const zkl_acquisition_request *request,
                                   const zkl_acquisition *writer, void *user, int64_t now);

/* --- what is due ---------------------------------------------------------------------------------------------------- */

/* The functions that end in _at return the instant, ZKL_NEVER if there is none; the other one is then called. */

/* Returns when the next grant ends by its max_hold; ZKL_NEVER: none does. */
int64_t zkl_acquisitions_expire_at(const zkl_locks *locks);
/* Ends the grants whose max_hold has passed. */
void zkl_acquisitions_expire(zkl_locks *locks);
/* Returns when the next entry has lingered long enough; ZKL_NEVER: none lingers. */
int64_t zkl_share_expires_at(const zkl_locks *locks);
/* Entries that have lingered long enough leave. `all`: every entry that lingers. */
void zkl_share_expire(zkl_locks *locks, bool all);
/* Steps the runnable entries that may send now, in order. It may be called in each turn. */
void zkl_entries_run(zkl_locks *locks);
/* Returns when runnable entries are to be stepped, if nothing else happens before; ZKL_NEVER: no entry is runnable. */
int64_t zkl_entries_run_at(const zkl_locks *locks);

#ifdef ZKL_BREAKABLE
/* The value of ZKL_MAX_GRANTS, so that the simulation can reach it. */
extern int32_t zkl_most_grants;
#endif

#endif
