/*
 * The interfaces that the engine's files share with each other only.
 *
 *   engine.c      the engine object, the public functions, acquisitions
 *   session.c     the ZooKeeper handle, session events, the driver's calls
 *   lease.c       how long the session certainly exists, and its heartbeats
 *   request.c     requests in flight: one context each, completed exactly once
 *   queue.c        a lock's directory: its parents, the entries in it, strays
 *   entry.c        one znode: join, recover, queue, hold, leave
 *   adjacent.c      an adjacent sequence number, which proves that no node is ahead
 *   predict.c     a predecessor that is predicted
 *   watch.c       one watcher object per watched node
 *   lock_spec.c       lock specs
 *   share.c       acquisitions that share an entry; entries that linger
 *   permits.c     a semaphore's acquisitions: a queue entry, then permits
 *   contenders.c  holders and waiters of a path
 *   operation.c   the program's own reads and writes
 *   user_watch.c  the watches of these reads
 *
 * All functions are for the driver's thread.
 */
#ifndef ZKLOCK_ENGINE_PRIVATE_H
#define ZKLOCK_ENGINE_PRIVATE_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "engine.h"

/* The most requests in flight at once, so that one client cannot flood a server (docs/neighbours.md). */
#ifdef ZKL_BREAKABLE
#define ZKL_MAX_IN_FLIGHT zkl_most_in_flight
#else
#define ZKL_MAX_IN_FLIGHT 1000
#endif

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

/*
 * The most bytes of watched paths per ZooKeeper handle, chroots included. After a reconnect the C client sends all of
 * them in one SetWatches packet. The server drops a packet above jute.maxbuffer (1 MB by default), connection after
 * connection.
 */
#ifdef ZKL_BREAKABLE
#define ZKL_MAX_WATCHED_BYTES zkl_most_watched_bytes
#else
#define ZKL_MAX_WATCHED_BYTES ZKL_USUAL_WATCHED_BYTES
#endif
/* The same limit for the watches of holders on their own nodes. It is separate, so that waiters do not wait for holders. */
#define ZKL_MAX_OWN_BYTES (INT64_C(200) * 1024)
/* The bytes that a path takes there besides its own. */
#define ZKL_WATCH_OVERHEAD 4

/* The length of a uuid without the serial number at its end. This part is the same in all uuids of one engine. */
#define ZKL_UUID_STEM_LENGTH (ZKL_UUID_LENGTH - 12)

typedef struct zkl_queue zkl_queue;
typedef struct zkl_entry zkl_entry;
typedef struct zkl_watch zkl_watch;
typedef struct zkl_request zkl_request;
typedef struct zkl_query zkl_query;
typedef struct zkl_permits zkl_permits;
typedef struct zkl_user_watch zkl_user_watch;

TAILQ_HEAD(zkl_entry_list, zkl_entry);
LIST_HEAD(zkl_acquisition_entries, zkl_entry);
TAILQ_HEAD(zkl_acquisition_list, zkl_acquisition);
TAILQ_HEAD(zkl_kept_queues, zkl_queue);
TAILQ_HEAD(zkl_request_list, zkl_request);
LIST_HEAD(zkl_queue_list, zkl_queue);
LIST_HEAD(zkl_query_list, zkl_query);
TAILQ_HEAD(zkl_checks_list, zkl_checks);
LIST_HEAD(zkl_user_watch_list, zkl_user_watch);
TAILQ_HEAD(zkl_operation_list, zkl_operation);

/* An instant before all others: none is known. */
#define ZKL_LONG_AGO (INT64_MIN / 2)

/* What an answer with ZOK proves of the way that a request has taken. */
typedef enum {
    ZKL_PROOF_NONE,     /* nothing: a read, or a request that may be one */
    ZKL_PROOF_LEADER,   /* the server that answered has asked the leader, or is the leader */
    ZKL_PROOF_QUORUM,   /* a majority of the servers has acknowledged the request */
    ZKL_PROOF_HEARTBEAT /* the same, for the check of our own nodes */
} zkl_proof;

/* lease.c: what a request's answer will prove, as known when the request was sent. */
typedef struct {
    int64_t first;    /* a request that was sent at this instant had been answered */
    int64_t reported; /* if a leader answers: its follower has reported a request of this instant, or a later one */
    int64_t arrived;  /* if a leader answers: such a report has arrived at the leader */
} zkl_evidence;

/*
 * lease.c: when the leader restarted the session's timer, as far as the present connection proves it. ZKL_LONG_AGO: no
 * such instant is known.
 */
typedef struct {
    int64_t first; /* when the latest answered request was sent */
    struct zkl_heard {
        int64_t first; /* a pair of requests: one was sent at this instant, the other after the answer to it */
        int64_t since; /* both were answered by this instant; ZKL_NEVER until that is known */
    } heard[32];       /* ring buffer of some of these pairs */
    int64_t reported;  /* the follower has reported a request of this instant, or a later one */
    int64_t arrived;   /* such a report has arrived at the leader */
    int64_t proven;    /* the same, and a quorum write was acknowledged afterwards; not dated yet */
    /* The leader restarted the timer at this instant or later, if the follower's leader is the leader. */
    int64_t restarted_at;
    int64_t round_began;    /* start of the latest round of requests */
    int64_t unbroken_since; /* since then each restart became known less than 9T/10 after the one before */
    bool sound;             /* unbroken since the session began, or for so long that this is as good */
    bool begins;            /* the connection itself is not dated yet */
    int32_t heard_count;    /* how many pairs were ever written to `heard` */
    bool round_over;        /* the latest round has ended, and its end is not dated yet */
} zkl_chain;

/*
 * What the session tells the modules above it, in the order in which they are listed. NULL: not wanted.
 */
typedef struct {
    /* Requests may go out again: there is a connection, and the server answers. */
    void (*ready)(zkl_engine *engine);
    /* The connection is lost, or is not there for so long that tries must be answered. */
    void (*lost)(zkl_engine *engine);
    /* The session is over, and with it all that it had. */
    void (*over)(zkl_engine *engine, const char *why);
    /* The ZooKeeper handle is closed: no watcher is called any more. */
    void (*closed)(zkl_engine *engine);
    /* No session will be opened any more. */
    void (*refused)(zkl_engine *engine, zkl_code code, const char *message);
    /* What could not be sent, or was refused for now, may be tried again (zkl_try_later). */
    void (*retry)(zkl_engine *engine);
    /* The lease has ended before it was extended: what depends on it is lost. */
    void (*lapsed)(zkl_engine *engine);
    /* There is a lease, for which an item has waited. */
    void (*leased)(zkl_engine *engine);
} zkl_session_listener;

/* Calls one function of each listener that has it, in their order. */
#define ZKL_TELL(engine, what, ...)                                                                                    \
    for (const zkl_session_listener *const *each = (engine)->listeners; *each != NULL; each++) {                       \
        if ((*each)->what != NULL) {                                                                                   \
            (*each)->what(__VA_ARGS__);                                                                                \
        }                                                                                                              \
    }

/* An answer: what its request was, and what the server said. Fields that do not belong to the request's type are empty. */
typedef struct {
    uint32_t connection; /* the connection that the request was sent on */
    uint32_t generation; /* what was given with the request */
    int32_t tag;
    int32_t length;
    int64_t sent_at;
    const char *data;
    const char *path;
    const struct String_vector *names;
    const struct Stat *stat;
} zkl_reply;

/* Handles the answer to a request, exactly once: `rc` is the server's or the C client's. */
typedef void (*zkl_on_reply)(void *owner, int rc, const zkl_reply *reply);

/* Who waits for the answer to a request, and what it needs to know then. */
typedef struct {
    zkl_on_reply on_reply;
    void *owner;
    void *memory;        /* freed when the C client does not know the request any more; NULL: none */
    uint32_t generation; /* comes back with the reply */
    int32_t tag;         /* likewise */
    zkl_proof proof;
} zkl_ask;

/* What watches something: at most one node or directory, and its own node. Part of a larger object. */
typedef struct zkl_watcher {
    LIST_ENTRY(zkl_watcher) in_watch;
    zkl_watch *watch; /* on a node, or on a directory; NULL: none */
    zkl_watch *own;   /* on its own node; NULL: none */
} zkl_watcher;

LIST_HEAD(zkl_watch_list, zkl_watch);

/* A directory, with the watches on it and on the nodes in it. Part of a larger object. */
typedef struct {
    char *path;
    struct zkl_watch_list watches;
} zkl_directory;

/* What watches do with their watchers, and with directories. The watcher is detached before `gone` and `look_…`. */
typedef struct {
    /* The node is gone for good, or the directory has changed. */
    void (*gone)(zkl_watcher *watcher);
    /* The watch could not be armed, or must be armed again. */
    void (*look_again)(zkl_watcher *watcher);
    /* The same, but not at once: no watch tells when. */
    void (*look_later)(zkl_watcher *watcher);
    /* The watch could not be sent, or there was no memory for it. */
    void (*failed)(zkl_watcher *watcher);
    /* The watch was armed, or its node is not there. */
    void (*answered)(zkl_watcher *watcher, bool there);
    /* The list that armed the watch on a directory. */
    void (*listed)(zkl_watcher *watcher, int rc, const zkl_reply *reply);
    /* The watch on a directory stays armed although its removal was requested: no list comes. */
    void (*kept)(zkl_watcher *watcher);
    /* Returns whether the data of an owner's node ask it for something. */
    bool (*asks)(const char *data, int length);
    /* They do. */
    void (*revoked)(zkl_watcher *owner);
    /* The node of this owner was deleted, and not by itself. */
    void (*deleted)(zkl_watcher *owner);
    /* Returns the owner of a node; NULL: it has none, or the owner has requested the deletion. */
    zkl_watcher *(*owner_of)(zkl_directory *directory, const char *node);
    /* Returns the directory of the first `length` characters of `path`; NULL if there is none. */
    zkl_directory *(*find)(const zkl_engine *engine, const char *path, size_t length);
    /* A watch points to the directory, or does not any more. */
    void (*keep)(zkl_directory *directory);
    void (*drop)(zkl_directory *directory);
} zkl_watch_ops;

/* Other watches of this session on the same nodes: the server removes all at once. */
typedef struct {
    bool (*wanted)(const zkl_engine *engine, const char *path, bool children);
    void (*removed)(zkl_engine *engine, const char *path, bool children);
} zkl_other_watches;

extern const zkl_watch_ops zkl_entry_watches;
extern const zkl_other_watches zkl_program_watches;

/* What an item is to the lease. */
typedef enum {
    ZKL_ITEM_NONE,    /* it has no node, or its node does not matter any more */
    ZKL_ITEM_PENDING, /* its node may be being created */
    ZKL_ITEM_PRESENT, /* it has a node, which heartbeats check */
    ZKL_ITEM_HELD /* the same; a grant depends on the node, or will: each heartbeat verifies that it is still ours */
} zkl_item_state;

/* What heartbeats need to know of an item. Valid until the item changes. */
typedef struct {
    zkl_item_state state;
    uint32_t generation; /* grows when replies to earlier requests must not count any more */
    bool needs_lease;    /* it waits for a lease */
    bool any_czxid;      /* its own node is known by the session alone: no other client has it */
    const char *path;    /* NULL: it has no node */
    int64_t czxid;       /* its node's */
} zkl_item;

/* The items that heartbeats check, and what is done with them. */
typedef struct {
    /* Returns the item behind `item`, the first one if that is NULL; NULL: there is none. */
    void *(*next)(const zkl_engine *engine, void *item);
    zkl_item (*describe)(const void *item);
    /* A heartbeat points to the item, or does not any more: until then its memory stays. */
    void (*keep)(void *item);
    void (*release)(void *item);
    /* Its node was deleted externally. */
    void (*deleted)(void *item);
    /* Another node has the name of its own, which must therefore be gone. */
    void (*replaced)(void *item);
} zkl_lease_items;

extern const zkl_lease_items zkl_entry_items;

extern const zkl_session_listener zkl_locks_listener, zkl_operations_listener, zkl_queries_listener;

struct zkl_engine {
    zkl_host host;
    const zkl_session_listener *const *listeners; /* the last one is NULL */
    const zkl_lease_items *items;
    const zkl_watch_ops *watch_ops;
    const zkl_other_watches *other_watches;
    char *servers;
    char *hosts; /* `servers` without the chroot, for messages */
    zkl_auth *auths;
    int32_t auth_count;
    int32_t chroot_length; /* in bytes; the C client puts the chroot before each path that it sends */
    int32_t asked_timeout_ms;
    bool lease;
    bool leftovers; /* the handle has kept requests of a connection that was lost silently */
    bool unwatched; /* the server has forgotten watches that the handle still relies on */
    log_callback_fn zookeeper_log;

    int64_t now; /* as of the driver's latest call */

    /* session.c */
    zhandle_t *handle;
    int64_t session_id;  /* 0: none */
    int32_t timeout_ms;  /* negotiated; 0 before there was one */
    uint32_t connection; /* number of connections so far; a tag for data that must not outlive one */
    bool connected;      /* the handle reports a connection */
    bool ready;          /* connected, and the server has answered: requests may go out */
    bool probed;         /* probed: this session's first request was answered */
    bool chroot_missing; /* the probe found that the chroot does not exist */
    bool over;           /* the session has ended: close the handle, open another */
    bool closing;        /* zkl_engine_close was called: nothing new goes out */
    bool shut;           /* zkl_engine_shut_down was called: no session will be opened */
    bool no_containers;  /* the server has no container nodes */
    zkl_state state;
    zkl_code problem_code;
    char problem[256];
    int64_t retry_at;        /* no session is opened before this instant */
    int64_t lost_at;         /* the connection was lost at this instant */
    int64_t renewed_at;      /* a living session was ended at this instant, for a new one that is awaited; 0: none is */
    int64_t handshake_at;    /* the handshake of the present connection was sent at this instant or later */
    int64_t connect_at;      /* no connection is opened before this instant */
    int8_t misses;           /* failed connections in a row, since the C client was moved one address further */
    int8_t miss_limit_index; /* index of the element of misses_allowed that applies */

    /* lease.c */
    int64_t lease_until;
    int64_t check_at;              /* next round of heartbeats */
    struct zkl_checks_list checks; /* heartbeats that wait for an answer or for verifications */
    int32_t checks_flying;         /* number of these heartbeats, and of a round's other requests in flight */
    /* Since then an entry at the head of its queue needs a lease for its grant; valid if `confirming` is set. */
    int64_t confirming_since;
    bool confirming; /* an entry waits for a lease */
    /* The session existed at this instant or later: its latest acknowledged quorum write was sent then. */
    int64_t alive_at;
    int64_t restarted_at; /* proven: the leader restarted the session's timer at this instant or later */
    zkl_chain chain;      /* the same, as far as this connection alone proves it */
    zoo_op_t witness;     /* the operation of the WITNESS request in flight */
    zoo_op_result_t witness_result;
    int32_t verifications_flying; /* verifications of held nodes in flight, which follow heartbeats */
    int32_t program_watches;      /* watches of the program, which are lost with the session */
    int32_t least_ms;             /* the shortest timeout that this session has negotiated */

    /* request.c */
    struct zkl_request_list flying;
    /* Refused by the C client, which may still complete them; kept until the handle is closed. */
    struct zkl_request_list orphans;
    struct zkl_request_list spare; /* for reuse */
    int32_t in_flight;
    /* operation.c: the server refused an operation for now, and none goes out before backing_off_until. */
    bool operations_paused;
    bool no_witness;     /* "/" may not be read, or does not exist */
    bool own_ephemerals; /* the program may have ephemeral nodes of its own in this session */

    /* queue.c */
    struct zkl_queue_list *queues; /* hash table by path */
    uint32_t queue_slots;          /* a power of two */
    uint32_t queue_count;
    struct zkl_kept_queues kept; /* unused queues that stay in memory, the oldest at the head */
    int32_t kept_count;
    struct zkl_entry_list entries; /* all entries */
    /* Runnable: they have something to send that may not go out yet; first in, first out. */
    struct zkl_entry_list runnable;
    /* Over the watch budget: they may not join before ZKL_MAX_WATCHED_BYTES has room; likewise. */
    struct zkl_entry_list over_watch_budget;
    struct zkl_entry_list backing_off; /* backing off: they try again at backing_off_until */
    int64_t backing_off_until;
    int64_t writes;        /* acknowledged creates and deletes of entries' nodes */
    int32_t nodes;         /* entries that have a node on the server, as far as known */
    int32_t cleaning;      /* entries and watches whose removal is not confirmed yet */
    int64_t watched_bytes; /* reserved by entries that may have to watch, and by the program's watches */
    int64_t own_bytes;     /* bytes of paths that are watched by their own entries */
    uint64_t serial;       /* the latest uuid's */
    char uuid_stem[ZKL_UUID_STEM_LENGTH + 1];

    /* operation.c, user_watch.c */
    struct zkl_operation_list operations_waiting; /* to be sent when requests may go out, in this order */
    struct zkl_operation_list operations;         /* in flight, or answered and not forgotten */
    struct zkl_user_watch_list user_watches;
    uint64_t operation_serial; /* the latest operation's */
    size_t sent_bytes;         /* bytes of operations sent since zkl_engine_prepare */

    /* engine.c */
    struct zkl_acquisition_list acquisitions;
    struct zkl_entry_list lingering;   /* granted entries that serve no acquisition, the first to leave at the head */
    struct zkl_acquisition_list holds; /* granted acquisitions with a max_hold, the first to end at the head */
    struct zkl_query_list queries;
    zkl_stats stats;
};

/* lock_spec.c ---------------------------------------------------------------------------------------------------------- */

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

/* engine.c: acquisitions ------------------------------------------------------------------------------------------- */

struct zkl_acquisition {
    TAILQ_ENTRY(zkl_acquisition) all;
    TAILQ_ENTRY(zkl_acquisition) in_holds;
    TAILQ_ENTRY(zkl_acquisition) in_entry; /* in entry->sharers, if it shares the entry */
    zkl_engine *engine;
    zkl_queue *queue; /* where it waits */
    /* Its entry in the queue, its own or a shared one; NULL when it has none (any more). */
    zkl_entry *entry;
    struct zkl_acquisition_entries entries; /* its own entries; empty when the server has none of its nodes any more */
    zkl_permits *permits;                   /* MODE_PERMITS; else NULL */
    zkl_lock_spec *spec;
    char *message;
    void *user;
    int64_t asked_at;
    int64_t hold_until; /* in engine->holds if not ZKL_NEVER */
    zkl_token token;
    zkl_acquisition_phase phase;
    zkl_code code;
    int32_t revocations;
    bool try_only;
    bool optimistic;
    bool forgotten;
    bool sharing; /* shares an entry, and is not the acquisition that the entry serves first */
};

static inline zkl_mode zkl_acquisition_mode(const zkl_acquisition *acquisition)
{
    return acquisition->spec->lock.mode;
}

/* Ends a waiting or granted acquisition for good, with a code and a message made like printf. Does not change its entry. */
void zkl_acquisition_finish(zkl_acquisition *acquisition, zkl_acquisition_phase phase, zkl_code code,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Grants the acquisition by `entry`. The token is made of that entry's node. */
void zkl_acquisition_grant(zkl_acquisition *acquisition, const zkl_entry *entry);
/* Ends a granted acquisition as lost, and gives up its entries. Does nothing if it is not granted. */
void zkl_acquisition_lose(zkl_acquisition *acquisition, zkl_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Gives up the acquisition's entries: they pass to other acquisitions, or their nodes are deleted in the background. */
void zkl_acquisition_leave(zkl_acquisition *acquisition);
/* Refuses a waiting try: it cannot be answered without a connection. */
void zkl_acquisition_connection_lost(zkl_acquisition *acquisition);
/* Notes that the release of a granted acquisition has been requested. */
void zkl_acquisition_revoked(zkl_acquisition *acquisition);
/* Frees the acquisition at once. */
void zkl_acquisition_free(zkl_acquisition *acquisition);
/* Returns when the next grant ends by its max_hold; ZKL_NEVER: none does. */
int64_t zkl_acquisitions_expire_at(const zkl_engine *engine);
/* Ends the grants whose max_hold has passed. */
void zkl_acquisitions_expire(zkl_engine *engine);
/* Tells the host that the acquisition has a node and waits behind another one; zkl_acquisition_blocker may have changed. */
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

/* session.c -------------------------------------------------------------------------------------------------------- */

void zkl_log(zkl_engine *engine, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Returns whether requests may go out now. */
bool zkl_session_usable(const zkl_engine *engine);
/*
 * Returns the session timeout in nanoseconds, 0 before there was one: the least that was negotiated in this session. A
 * server may grant more on a later connection, but a new leader begins with the timeout of the first one.
 */
static inline int64_t zkl_session_timeout(const zkl_engine *engine)
{
    return (int64_t)(ZKL_BROKEN(ZKL_BREAK_LEAST) ? engine->timeout_ms : engine->least_ms) * (ZKL_SECOND / 1000);
}
/*
 * The server says that it has no watch where one was armed on this very connection: its data were replaced meanwhile.
 * The C client keeps such a watch, and arms it again on the next connection only. So the engine connects anew.
 */
void zkl_session_unwatched(zkl_engine *engine);
/* Sends the probe, a read. Any answer shows that a ZooKeeper server answers, and whether the chroot exists. */
void zkl_session_probe(zkl_engine *engine);
/* Schedules another try in a while, for requests that the server refused or that could not be sent for want of memory. */
void zkl_try_later(zkl_engine *engine);
/*
 * What is due: the instant, ZKL_NEVER if there is none, and what is then done. The functions that end in _at return the
 * instant.
 */
/* A connection that the ZooKeeper handle lost without reporting it is noticed. */
void zkl_session_notice_loss(zkl_engine *engine);
/* A session that no server takes back is given up. */
int64_t zkl_session_given_up_at(const zkl_engine *engine);
void zkl_session_give_up(zkl_engine *engine);
/* Tries that wait for a new session are answered. */
int64_t zkl_session_tries_end_at(const zkl_engine *engine);
void zkl_session_end_tries(zkl_engine *engine);
/* The probe is sent again. */
int64_t zkl_session_probe_at(const zkl_engine *engine);
void zkl_session_probe_again(zkl_engine *engine);
/* What was put off by zkl_try_later is tried again. */
int64_t zkl_session_retry_at(const zkl_engine *engine);
void zkl_session_retry(zkl_engine *engine);
/* Replaces the session by a new one where the lease requires that. */
void zkl_session_renew(zkl_engine *engine);
/* Opens or closes the ZooKeeper handle, as needed, and sets what to poll. */
void zkl_session_prepare(zkl_engine *engine, zkl_poll *poll);
/* Lets the C client read and write: `revents` as of zkl_engine_process. */
void zkl_session_process(zkl_engine *engine, short revents);
/* Closes the session for good. */
void zkl_session_shut_down(zkl_engine *engine);
/* Returns whether requests may go out, and the C client has not lost the connection. */
bool zkl_session_in_order(const zkl_engine *engine);
/* Returns whether the C client has lost a connection without reporting it. */
bool zkl_session_silently_lost(const zkl_engine *engine);

/* lease.c ---------------------------------------------------------------------------------------------------------- */

/* A quorum write has been acknowledged: the session existed when the write was sent. */
void zkl_lease_prove(zkl_engine *engine, int64_t sent_at);
bool zkl_lease_valid(const zkl_engine *engine);
/* Returns whether another acquisition may be granted by an existing node without a request. */
bool zkl_lease_covers_more(const zkl_engine *engine);
/* An item needs a lease for its grant: `leased` tells when there is one. The next heartbeat is due at once. */
void zkl_lease_want(zkl_engine *engine);
/* Makes the next heartbeat due at once. */
void zkl_lease_want_now(zkl_engine *engine);
/* Makes the next heartbeat due after the usual time. */
void zkl_lease_rest(zkl_engine *engine);
/* Begins a round of heartbeats. */
void zkl_lease_beat(zkl_engine *engine);
/* Sends the verifications of nodes that are due, and evaluates the heartbeats whose answers are complete. */
void zkl_lease_verify_next(zkl_engine *engine);
/* Returns what the answer to a request that is about to be sent will prove. */
zkl_evidence zkl_lease_evidence(const zkl_engine *engine, zkl_proof proof);
/* Notes that the request was answered with ZOK. */
void zkl_lease_answered(const zkl_request *request);
/* Dates the answers since the last turn. To be called early in each turn. */
void zkl_lease_date_answers(zkl_engine *engine);
/* A connection is established, and its session timeout may be another one. `fresh`: with a new session. */
void zkl_lease_connected(zkl_engine *engine, bool fresh);
/* Returns whether a new session should be opened before an entry joins a queue: the present one may be about to end. */
bool zkl_lease_wants_session(const zkl_engine *engine);
/*
 * Returns whether an entry has been at the head of its queue for so long without a lease that a new session should
 * replace this one, so that other clients do not wait for the entry.
 */
bool zkl_lease_waits_in_vain(zkl_engine *engine);
/* Returns when the next heartbeat is due; ZKL_NEVER: none is, or one is in flight. */
int64_t zkl_lease_beat_at(const zkl_engine *engine);
/* Returns when the lease ends and something is lost with it. */
int64_t zkl_lease_lapses_at(const zkl_engine *engine);
/* Returns when answers must be dated, or the session may have to be replaced. */
int64_t zkl_lease_decides_at(const zkl_engine *engine);
/* Returns the instant from which on that is possible; ZKL_NEVER: no entry needs a lease. */
int64_t zkl_lease_waits_until(const zkl_engine *engine);
/* Returns whether no entry should join a queue now, since the session may be about to end. */
bool zkl_lease_holds_back(const zkl_engine *engine);
/* Ends grants that outlived their lease: they are lost for good. */
void zkl_lease_lapse(zkl_engine *engine);

/* request.c -------------------------------------------------------------------------------------------------------- */

struct zkl_request {
    TAILQ_ENTRY(zkl_request) all;
    zkl_engine *engine; /* NULL: an orphan */
    zkl_on_reply on_reply;
    void *owner;
    void *memory;
    int64_t sent_at;
    zkl_evidence evidence;
    uint32_t connection;
    uint32_t generation;
    int32_t tag;
    zkl_proof proof;
};

/*
 * Returns false for a list with names that no node can have. Only a malicious or defective server answers with such a
 * list. The C client passes a name of negative length on as NULL.
 */
bool zkl_list_is_sound(const struct String_vector *names);
/* Returns `rc`, or ZMARSHALLINGERROR if it is ZOK and the list has such names. */
int zkl_names_rc(int rc, const struct String_vector *names);

/*
 * Functions that send. Each returns the result of the C client's function; a reply comes only after ZOK. ZMARSHALLINGERROR,
 * too, when memory is short. What was not sent is handled like a lost connection: nothing is known to be executed.
 * `watcher` is NULL for no watch.
 */
int zkl_send_create(zkl_engine *engine, const zkl_ask *ask, const char *path, const char *data, int32_t length,
                    const struct ACL_vector *acl, int32_t flags);
/* The same, but the reply has no stat: servers before 3.5 know no other. */
int zkl_send_make(zkl_engine *engine, const zkl_ask *ask, const char *path, const char *data,
                  const struct ACL_vector *acl, int32_t flags);
int zkl_send_delete(zkl_engine *engine, const zkl_ask *ask, const char *path, int32_t version);
int zkl_send_exists(zkl_engine *engine, const zkl_ask *ask, const char *path, watcher_fn watcher, void *context);
int zkl_send_get(zkl_engine *engine, const zkl_ask *ask, const char *path, watcher_fn watcher, void *context);
int zkl_send_set(zkl_engine *engine, const zkl_ask *ask, const char *path, const char *data, int32_t length,
                 int32_t version);
/* Lists the children. zkl_send_names: without the node's stat. */
int zkl_send_names(zkl_engine *engine, const zkl_ask *ask, const char *path);
int zkl_send_list(zkl_engine *engine, const zkl_ask *ask, const char *path, watcher_fn watcher, void *context);
int zkl_send_sync(zkl_engine *engine, const zkl_ask *ask, const char *path);
/* `ops` and `results` must stay until the reply, or until the handle is closed. */
int zkl_send_multi(zkl_engine *engine, const zkl_ask *ask, int32_t count, const zoo_op_t *ops,
                   zoo_op_result_t *results);
/* Removes all watches of this session on a node, or on its children. */
int zkl_send_unwatch(zkl_engine *engine, const zkl_ask *ask, const char *path, bool children);
/* Frees the contexts that the C client can no longer complete. To be called after zookeeper_close. */
void zkl_requests_closed(zkl_engine *engine);
void zkl_requests_free(zkl_engine *engine);

/* One heartbeat: the items that it checks, and memory for the answers. */
struct zkl_checks {
    TAILQ_ENTRY(zkl_checks) all;
    zkl_engine *engine;
    int64_t sent_at;
    uint32_t connection;        /* the connection it was sent on; its verifications use the same one */
    int32_t flying;             /* answers that are still to come, to itself and to verifications */
    int32_t verifications_sent; /* so many of the items have had their verification sent, or need none */
    bool failed;                /* a request was not answered, or with an error: the heartbeat proves nothing */
    int32_t count;
    int64_t bytes; /* their size in the request */
    struct zkl_check {
        void *item;
        uint32_t generation;
    } * items;
    zoo_op_t *ops;
    zoo_op_result_t *results;
};

/* queue.c ----------------------------------------------------------------------------------------------------------- */

/* predict.c: the mutex's node that was the predecessor of our latest node. */
typedef struct {
    char stem[ZKL_UUID_STEM_LENGTH]; /* the beginning of its uuid; no NUL */
    uint64_t serial;                 /* the serial number at the end of its uuid */
    uint64_t stride;                 /* how much that had grown since the predecessor before */
    /* It grew by the same amount the time before, and both nodes were the same client's. */
    bool steady;
} zkl_predecessor;

struct zkl_queue {
    LIST_ENTRY(zkl_queue) hash;
    zkl_engine *engine;
    zkl_directory directory;
    uint32_t uses; /* references from acquisitions, entries, watches and requests, and from engine->kept */
    struct zkl_entry_list entries;
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
    int64_t creates; /* how many writes of engine->writes were creates in this directory */

    zkl_predecessor predecessor;
    int64_t cleaned_at; /* a list showed all nodes of ours at this instant */

    TAILQ_ENTRY(zkl_queue) in_kept;

    /* permits.c, for the directory of a semaphore's leases */
    /* The directory's mzxid, that is, of the write that set the known limit; 0: no limit is known. */
    int64_t limit_mzxid;
    int32_t limit;         /* for how many permits it was made; 0: it has no limit written in it */
    int32_t limit_wanted;  /* the limit of the acquisition that asked first */
    bool limit_flying;     /* the request that reads or writes the limit is in flight */
    bool limit_unwritable; /* no limit is written there, and we may not write one */
    bool busy;             /* the latest acquisition of permits had to wait */
    bool kept;             /* in engine->kept */
};

/* Returns the queue of the first `length` characters of `path`; NULL if there is none. */
zkl_queue *zkl_queue_find(const zkl_engine *engine, const char *path, size_t length);
/* Returns the queue of `path`, with one more reference; NULL when memory is short. */
zkl_queue *zkl_queue_take(zkl_engine *engine, const char *path);
void zkl_queue_drop(zkl_queue *queue);
bool zkl_queues_init(zkl_engine *engine);
/*
 * Creates the directory, with `data`, and those above it. When the replies are in, the entries parked here are stepped
 * or refused.
 */
void zkl_queue_make_parents(zkl_queue *queue, const char *data, const struct ACL_vector *acl);
/* Keeps an unused queue in memory, until newer ones have taken its place. */
void zkl_queue_keep(zkl_queue *queue);
/*
 * Deletes the strays in a list of the queue, that is, nodes of this client that belong to none of its entries: now, or
 * as soon as possible. Returns false if there was no memory for that; only the next list will find them then.
 */
bool zkl_queue_remove_strays(zkl_queue *queue, const struct String_vector *names);
/* Deletes a node if it is a stray. An entry is about to wait for it. */
void zkl_queue_remove_if_stray(zkl_queue *queue, const char *name);
/* Returns whether a create in this directory was lost in this session: it may still be executed. */
bool zkl_queue_may_have_strays(const zkl_queue *queue);
/* The session is over: no conclusion about any directory counts any more. docs/design.md has the list. */
void zkl_queues_forget(zkl_engine *engine);
void zkl_queues_free(zkl_engine *engine);

/* entry.c ----------------------------------------------------------------------------------------------------------- */

/* The states of an entry. docs/design.md has the table of transitions. */
typedef enum {
    ZKL_ENTRY_PARKED,     /* wants a node, has sent nothing */
    ZKL_ENTRY_LOOKING,    /* a try: the list before any write is in flight */
    ZKL_ENTRY_JOINING,    /* create and list are in flight */
    ZKL_ENTRY_RECOVERING, /* the create's outcome is unknown: sync, list, look for the uuid */
    ZKL_ENTRY_QUEUED,     /* has a node; another contender is ahead, or may be */
    ZKL_ENTRY_CONFIRMING, /* no contender is ahead; waits for a lease to be granted under, or for permits */
    ZKL_ENTRY_GRANTED,
    ZKL_ENTRY_LEAVING, /* its node must be deleted */
    ZKL_ENTRY_GONE     /* nothing of it is left; freed with its last request */
} zkl_entry_state;

/*
 * The role of an entry's znode. The kinds of locks differ here: in the node's name, in the other nodes that conflict
 * with it (zkl_kind_conflicts), and in what happens when no such node is ahead any more.
 */
typedef enum {
    ZKL_ROLE_MUTEX,
    ZKL_ROLE_READER,
    ZKL_ROLE_WRITER,
    ZKL_ROLE_QUEUE_ENTRY, /* a semaphore's queue entry: at the head of the queue, permits may be taken */
    ZKL_ROLE_LEASE_ENTRY  /* a lease entry: one permit of a semaphore */
} zkl_role;

struct zkl_entry {
    TAILQ_ENTRY(zkl_entry) all;
    TAILQ_ENTRY(zkl_entry) in_queue;
    TAILQ_ENTRY(zkl_entry) in_wait_list;
    LIST_ENTRY(zkl_entry) in_acquisition;
    TAILQ_ENTRY(zkl_entry) in_lingering;
    zkl_engine *engine;
    zkl_queue *queue;
    /* The acquisition that it serves first, or, while leaving, served last; NULL: it lingers, or is adopted. */
    zkl_acquisition *acquisition;
    struct zkl_acquisition_list sharers; /* the other acquisitions that share it or wait for it, in their order */
    zkl_lock_spec *spec;                 /* the spec of its node, once it has lingered */
    int64_t linger_until;                /* in engine->lingering if not ZKL_NEVER */
    int32_t turns;       /* how often it was promised under this node; readers that wait together count once */
    zkl_watcher watcher; /* of its predecessor or of a directory; of its own node, for requests to release the lock */
    /* A reader takes the place of this granted writer; NULL once that is not needed any more. */
    zkl_entry *writer;
    char *node;     /* full path, NULL while unknown */
    int64_t czxid;  /* its node's; for a downgraded reader that of its writer's node */
    int64_t writes; /* engine->writes less queue->creates when its create was acknowledged */
    /* How many grants there were under that czxid before its own: the second half of the token. */
    int32_t grants;
    zkl_role role;
    uint64_t serial;     /* the serial number of its uuid */
    uint32_t generation; /* grows when replies to earlier requests must not count any more */
    uint32_t connection; /* the connection on which its create, or its sync, was answered */
    int32_t sequence;
    int32_t ahead;  /* at most so many conflicting nodes are ahead, as far as known */
    int32_t flying; /* requests in flight that point here */
    zkl_entry_state state;
    bool granted;        /* an acquisition has held by its node */
    bool predicting;     /* the request that looks for the predicted predecessor is in flight */
    bool none_ahead;     /* at the head of the queue: no node is ahead, conflicting or not */
    bool unlisted;       /* no list has shown its node yet: if it is at the head, numbers alone say so */
    bool create_retries; /* create retries: the reply to its latest create was lost, and the node was not there */
    bool revoked;        /* its release was requested: it is not handed over */
    bool grant_lost;     /* a grant under its node ended other than by a release: it is not handed over */
    bool contested;      /* another contender has come since it watches its directory */
    /* No other contender has come, and none was there: its acquisitions keep no other client waiting. */
    bool alone;
    bool handoff_used_up; /* handoff used up: it was alone, and has had more acquisitions than others should wait for */
    bool downgraded;      /* downgraded: its node was made, or is being made, with its writer's number */
    bool wanted;          /* an acquisition waits for it or holds by it, or it lingers */
    bool runnable;        /* in engine->runnable */
    bool over_watch_budget;      /* in engine->over_watch_budget */
    bool backing_off;            /* in engine->backing_off */
    bool listing;                /* a list of its directory is in flight */
    bool deleting;               /* the delete is in flight */
    bool delete_outcome_unknown; /* outcome unknown: a delete of its node may have been executed or not */
    bool held;                   /* it was granted until it left */
    bool reserved;               /* its share of ZKL_MAX_WATCHED_BYTES is reserved */
    bool cleaning;               /* counted in engine->cleaning */
};

/* Reserves the entry's share of ZKL_MAX_WATCHED_BYTES, or gives it back. */
void zkl_entry_reserve(zkl_entry *entry, bool reserved);
/*
 * Detaches the readers that were to take the place of this writer: they cannot do so any more. `unsent_only`: only
 * readers whose create was not sent.
 */
void zkl_entry_detach_readers(const zkl_entry *writer, bool unsent_only);
/* Returns a new entry for the acquisition in `queue`; NULL when memory is short. */
zkl_entry *zkl_entry_new(zkl_acquisition *acquisition, zkl_queue *queue, zkl_role role);
/* Makes an entry for a stray. The entry deletes the stray. Returns false when memory is short. */
bool zkl_entry_adopt(zkl_queue *queue, const char *name, uint64_t serial);
zkl_node_kind zkl_entry_kind(const zkl_entry *entry);
/* Returns the node's name, without the directory. The entry must have a node. */
const char *zkl_entry_name(const zkl_entry *entry);
/* Makes the entry runnable: it cannot go on now, and is stepped when requests may go out again. */
void zkl_entry_make_runnable(zkl_entry *entry);
/* Lets the entry back off: the same, but the server gets time first. */
void zkl_entry_back_off(zkl_entry *entry);
/* Moves a lease entry together with the others of its acquisition: to CONFIRMING, to GRANTED, or back to QUEUED. */
void zkl_entry_move_permit(zkl_entry *entry, zkl_entry_state state);
/* Steps the entries that may send now, in order. */
void zkl_entries_run(zkl_engine *engine);
/* Returns when runnable entries are to be stepped, if nothing else happens before; ZKL_NEVER: no entry is runnable. */
int64_t zkl_entries_run_at(const zkl_engine *engine);
/* Makes the entries that back off runnable: their time has come. */
void zkl_entries_end_backoff(zkl_engine *engine);
/* Returns whether the entry's watched path still fits under ZKL_MAX_WATCHED_BYTES. */
bool zkl_entry_fits(const zkl_entry *entry);
/* Does what the entry's state asks for, now or as soon as requests may go out. Idempotent. */
void zkl_entry_step(zkl_entry *entry);
/* The entry is not wanted any more: its node is deleted in the background, as long as the session exists. */
void zkl_entry_leave(zkl_entry *entry);
/* Lets go of the watch on a node or a directory, and of that on its own node. */
void zkl_entry_leave_watch(zkl_entry *entry);
void zkl_entry_leave_own_watch(zkl_entry *entry);
/* Watches its own node for requests to release the lock. */
void zkl_entry_watch_own(zkl_entry *entry);
/* Watches the children of the queue's directory: see zkl_watch_children. */
bool zkl_entry_watch_children(zkl_entry *entry, zkl_queue *queue);
/* The watched node is gone for good, or the watched directory has changed. */
void zkl_entry_blocker_gone(zkl_entry *entry);
/* The watch could not be armed, or must be armed again: the entry looks again. */
void zkl_entry_look_again(zkl_entry *entry);
/* The same, but not at once: no watch tells the entry when. */
void zkl_entry_look_later(zkl_entry *entry);
/* The release of the lock that is held by this node has been requested. */
void zkl_entry_revoked(zkl_entry *entry);
/* The entry's own node was deleted externally. */
void zkl_entry_deleted_externally(zkl_entry *entry);
/* Another node has the name of the entry's own node, which must therefore be gone. */
void zkl_entry_replaced(zkl_entry *entry);
/* The session is over, and the node with it. */
void zkl_entry_session_over(zkl_entry *entry, const char *why);
/* Grants the entry if it waits for a lease and there is one. A semaphore's queue entry goes on to its permits. */
void zkl_entry_confirm(zkl_entry *entry);
/* The list of a try shows no contender ahead: the entry joins. */
void zkl_entry_join(zkl_entry *entry);
/* The server had no time for the list of a try: the entry looks again in a while. */
void zkl_entry_try_again(zkl_entry *entry);
/* Refuses the entry's acquisitions with ZooKeeper's answer `rc` to `what`. */
void zkl_entry_refuse(zkl_entry *entry, int rc, const char *what);
/* One request less points here. Frees the entry if it is gone and this was the last request. */
void zkl_entry_request_completed(zkl_entry *entry);
/* Frees the entry at once, in any state. To be called when the engine is freed. */
void zkl_entry_destroy(zkl_entry *entry);

/* Why an entry listed its directory, or the leases. This decides what the reply is used for: it is the request's tag. */
typedef enum {
    ZKL_LIST_TRY,
    ZKL_LIST_JOIN,
    ZKL_LIST_LOOK,
    ZKL_LIST_PLACE,
    ZKL_LIST_RECOVER
} zkl_list_purpose;

/* Lists the entry's directory. Returns false if that could not be sent. */
bool zkl_entry_list(zkl_entry *entry, zkl_list_purpose purpose);
/* Returns the parameters of a request about the entry, for a reply that ends with zkl_entry_request_completed. */
zkl_ask zkl_entry_ask(zkl_entry *entry, zkl_on_reply on_reply);
/* Counts the request as one that points to the entry, if it was sent (`rc` is ZOK). Returns whether it was. */
bool zkl_entry_sent(zkl_entry *entry, int rc);

/* Writes the text of the entry's uuid. `uuid` has room for ZKL_UUID_LENGTH + 1. */
void zkl_entry_uuid(const zkl_entry *entry, char *uuid);

/* adjacent.c --------------------------------------------------------------------------------------------------------- */

/* The entry's node was deleted by a request with this reply. If no node was ahead of it, no node is ahead of the next number. */
void zkl_entry_note_cleared(const zkl_entry *entry, const zkl_reply *reply);
/* Forgets that conclusion. */
void zkl_queue_forget_cleared(zkl_queue *queue);
/*
 * Returns how many nodes can be ahead of the entry's at most. 0: its number is adjacent to one by which we held.
 * INT32_MAX: unknown. `created` is its czxid. Our own writes elsewhere took `elsewhere` of the zxids between the two
 * nodes.
 */
int32_t zkl_entry_most_ahead(const zkl_entry *entry, int64_t created, int64_t elsewhere);
/*
 * Returns whether a node created now is likely to get an adjacent number. Then the list that comes with the create can
 * be left out.
 */
bool zkl_entry_is_likely_adjacent(const zkl_entry *entry);

/* predict.c -------------------------------------------------------------------------------------------------------- */

/* A list shows `name` as the predecessor of the entry's node. */
void zkl_entry_note_predecessor(const zkl_entry *entry, const char *name);
/* Forgets the predecessors of this client's nodes. */
void zkl_queue_forget_predecessor(zkl_queue *queue);
/*
 * Returns whether the predecessor of a node created now can be predicted. Then the list that comes with the create is
 * left out.
 */
bool zkl_entry_can_predict(const zkl_entry *entry);
/* Watches a node of the queue, ahead of the entry. Deletes it if it is a stray. */
void zkl_entry_watch_node(zkl_entry *entry, const char *name);
/* Watches the predicted predecessor; its end reaches the entry as after a list. Returns false if the queue must be listed. */
bool zkl_entry_watch_predicted(zkl_entry *entry);
/* The watch that the entry waits for was armed, or its node is not there. */
void zkl_entry_prediction_answered(zkl_entry *entry, bool there);

/* watch.c ---------------------------------------------------------------------------------------------------------- */

typedef enum {
    ZKL_WATCH_IDLE,    /* nothing is armed or asked for */
    ZKL_WATCH_ARMING,  /* the request that arms it is in flight */
    ZKL_WATCH_ARMED,   /* the C client holds its address until the event, the removal or the close */
    ZKL_WATCH_REMOVING /* the removal is in flight */
} zkl_watch_state;

LIST_HEAD(zkl_watcher_list, zkl_watcher);

struct zkl_watch {
    LIST_ENTRY(zkl_watch) in_directory;
    zkl_engine *engine;
    zkl_directory *directory;
    char *node; /* full path */
    struct zkl_watcher_list watchers;
    zkl_watch_state state;
    int32_t flying;     /* requests in flight that point here */
    bool pinned;        /* its watchers are being told something: it must not be freed meanwhile */
    zkl_watcher *owner; /* whose own node this is, if it listens for changes of the data */
    bool children;      /* on the children of the directory */
    bool unwanted;      /* armed, not needed any more, removal not confirmed: counted in engine->cleaning */
    bool asked;         /* the node's data asked the owner for something, as read when the watch was armed */
};

/* Watches the node `name` in the directory. `gone`, `look_again` and the like tell the watcher of events. */
void zkl_watch_node(zkl_engine *engine, zkl_watcher *watcher, zkl_directory *directory, const char *name);
/*
 * Watches the children of the directory. Returns true if the list that arms the watch is in flight: `listed` will get it.
 * False: the watch is armed already, or cannot be armed now.
 */
bool zkl_watch_children(zkl_engine *engine, zkl_watcher *watcher, zkl_directory *directory);
/* Watches the own node of `owner`, with this full path. `revoked` tells of requests in its data. */
void zkl_watch_own(zkl_engine *engine, zkl_watcher *owner, zkl_directory *directory, const char *node);
/* The watcher does not need its watch on a node or a directory any more. */
void zkl_watch_leave(zkl_watcher *watcher);
/* The same for its own node, and for its directory, when its node is about to be deleted. */
void zkl_watch_leave_own(zkl_watcher *owner);
void zkl_watch_leave_directory(zkl_watcher *watcher);
/* Returns whether the watcher has an armed watch. */
bool zkl_watch_is_armed(const zkl_watcher *watcher);
/* Returns the full path of the node that the watcher watches; NULL for a directory, or no watch. */
const char *zkl_watch_node_of(const zkl_watcher *watcher);
/*
 * Requests may go out again: removes watches of the directory that could not be removed, and arms those of owners on their
 * own nodes.
 */
void zkl_watches_resume(const zkl_directory *directory);
/* The handle is closed: no watcher is called any more. The caller keeps the directory meanwhile. */
void zkl_watches_closed(const zkl_directory *directory);
/* Returns whether a watcher waits for a watch on the node with this full path, or on its children. */
bool zkl_watch_wanted(const zkl_engine *engine, const char *path, bool children);
/* All watches of that kind on a node were removed, and with them one that no watcher needs any more. */
void zkl_watch_forgotten(const zkl_engine *engine, const char *path, bool children);

/* share.c ---------------------------------------------------------------------------------------------------------- */

/* Returns the entry of this client that a new acquisition may share; NULL: it needs an entry of its own. */
zkl_entry *zkl_share_find(const zkl_acquisition *acquisition);
void zkl_share_join(zkl_entry *entry, zkl_acquisition *acquisition);
/* Grants those acquisitions of a granted entry that may hold now. */
void zkl_share_advance(zkl_entry *entry);
/* Tells the acquisitions that wait in the entry that they wait for another node than before. */
void zkl_share_blocker_changed(zkl_entry *entry);
/* Takes an acquisition that shares an entry out of it. */
void zkl_share_part(zkl_acquisition *acquisition);
/* The acquisition that the entry serves first gives it up. Returns true if the entry goes on without it. */
bool zkl_share_pass(zkl_acquisition *acquisition);
/* Gives other entries to the acquisitions that wait for this one. */
void zkl_share_move_on(zkl_entry *entry);
/* The directory of an entry that lingers, or that watches it, has changed: another contender has come, or may have. */
void zkl_share_contested(zkl_entry *entry);
/* Handles the list that armed that watch. */
void zkl_share_listed(zkl_entry *entry, int rc, const struct String_vector *names);
/* Ends the entry's lingering, if it lingers. */
void zkl_share_stop_lingering(zkl_entry *entry);
/* Returns when the next entry has lingered long enough; ZKL_NEVER: none lingers. */
int64_t zkl_share_expires_at(const zkl_engine *engine);
/* Entries that have lingered long enough leave. `all`: every entry that lingers. */
void zkl_share_expire(zkl_engine *engine, bool all);
/* Entries that linger on the acquisition's path leave, since the acquisition cannot use them. */
void zkl_share_make_way(const zkl_acquisition *acquisition);
/* Frees the data of an entry that is being unlinked. */
void zkl_share_forget(zkl_entry *entry);

/* permits.c -------------------------------------------------------------------------------------------------------- */

/* The part of a semaphore's acquisition beside its queue entry. docs/design.md has the table of its states. */
struct zkl_permits {
    zkl_queue *leases;   /* the directory of the leases; acquisition->queue is the semaphore's "locks" */
    int32_t limit;       /* how many permits the semaphore has */
    int32_t count;       /* how many are wanted */
    int32_t excess;      /* how many other permits have to go, by the latest list, before there is room */
    int32_t handed_over; /* how often in a row its permits have passed from one acquisition to another */
    uint32_t generation; /* grows when an earlier list must not count any more */
    bool listing;        /* a list of the leases is in flight */
    bool took;           /* has entries for its permits */
    bool full;           /* took them, but there were too many: keeps its nodes, and waits for others to go */
    bool waited;         /* had to wait, in the queue or for room */
    bool undecided;      /* the watch may be armed, but no list since then has been evaluated */
    bool search;         /* waits in the queue, and there may be permits of this client that no acquisition knows */
};

/* Adds the permits to a new acquisition. Returns false when memory is short; zkl_permits_free is needed even then. */
bool zkl_permits_init(zkl_acquisition *acquisition, int32_t count);
void zkl_permits_free(zkl_acquisition *acquisition);
/* Does what the acquisition's state asks for, once it is at the head of its queue. Idempotent. */
void zkl_permits_step(zkl_acquisition *acquisition);
/* Sends a try's list of the leases, which comes before any write. Returns false if that could not be sent. */
bool zkl_permits_look(zkl_acquisition *acquisition);
/* The create and the list of the queue entry are in flight: takes permits along if some are likely to be free. */
void zkl_permits_joined(zkl_acquisition *acquisition);
/* The queue entry waits: looks for permits of this client that no acquisition knows, if there may be some. */
void zkl_permits_search(zkl_acquisition *acquisition);
/* Goes on with that search, if it has not come to its end. */
void zkl_permits_search_on(zkl_acquisition *acquisition);
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
void zkl_permits_look_again(zkl_acquisition *acquisition);
/* The same, but not at once: the reason takes a while to pass. */
void zkl_permits_look_later(zkl_acquisition *acquisition);
/* At the head of the queue: a permit was taken or given back. */
void zkl_permits_event(zkl_acquisition *acquisition);
/* Grants the acquisition: the entries of all its permits are in CONFIRMING, and there is a lease. */
void zkl_permits_confirm(zkl_acquisition *acquisition);
/*
 * Passes the permits of a released acquisition to another one of this client that waits for as many or fewer, if
 * allowed. Returns true if the released acquisition has nothing left.
 */
bool zkl_permits_pass(zkl_acquisition *acquisition);
/* Forgets for how many permits the directory was made. */
void zkl_queue_forget_limit(zkl_queue *leases);
/* Returns the data with which the directory of the leases is made. `data` has room for 12 characters. */
const char *zkl_permits_data(const zkl_acquisition *acquisition, char *data);
/* Handles the list of the leases that has armed the watch. */
void zkl_permits_listed(zkl_acquisition *acquisition, int rc, const zkl_reply *reply);

/* contenders.c ----------------------------------------------------------------------------------------------------- */

/* One query for the holders and waiters of a path. */
struct zkl_query {
    LIST_ENTRY(zkl_query) all;
    zkl_engine *engine;
    char *path;
    zkl_contenders_fn done;
    void *user;
    bool identities;
    bool sent;
    bool lost; /* its connection was lost */
    bool answered;
    int32_t count;
    int32_t next;   /* index of the contender whose identity is read next, once the list is in */
    int32_t flying; /* such reads in flight */
    zkl_contender *contenders;
};

/* Handles the identity of the contender whose index is the request's tag. */
void zkl_query_got(void *owner, int rc, const zkl_reply *reply);
/* Answers all pending queries with `code`. */
void zkl_queries_fail(zkl_engine *engine, zkl_code code, const char *message);
/* Sends the queries that were made while requests could not go out. */
void zkl_queries_resume(zkl_engine *engine);

/* operation.c ------------------------------------------------------------------------------------------------------ */

/* Sends the operations that wait, as far as they may go out. */
void zkl_operations_send(zkl_engine *engine);
/* Returns the present instant if zkl_operations_send has something to do, else ZKL_NEVER. */
int64_t zkl_operations_send_at(const zkl_engine *engine);
/* Sends no operation until zkl_try_later's time has come. */
void zkl_operations_pause(zkl_engine *engine);
/* Answers all pending operations with `code`. */
void zkl_operations_fail(zkl_engine *engine, zkl_code code, const char *message);
void zkl_operations_free(zkl_engine *engine);

/* user_watch.c ----------------------------------------------------------------------------------------------------- */

/* Returns whether another watched path still fits under ZKL_MAX_WATCHED_BYTES. */
bool zkl_user_watch_fits(const zkl_engine *engine, const char *path);
/* Returns a new watch, which belongs to the caller until zkl_user_watch_leave; NULL when memory is short. */
zkl_user_watch *zkl_user_watch_new(zkl_engine *engine, const char *path, bool children,
                                   void (*fired)(void *user, zkl_node_event event, zkl_code code), void *user);
/* The read that arms the watch goes out. */
void zkl_user_watch_arming(zkl_user_watch *watch);
/* The read was answered. `armed`: the C client holds the watch now. */
void zkl_user_watch_armed(zkl_user_watch *watch, bool armed);
/* The operation does not need the watch any more. Not to be called while the read that arms it is in flight. */
void zkl_user_watch_leave(zkl_user_watch *watch);
/* The C client's watcher function, for the read that arms the watch. */
void zkl_user_watch_event(zhandle_t *handle, int type, int state, const char *path, void *context);
/* All watches of one kind on a node were removed, including those that the program does not need any more. */
void zkl_user_watches_forgotten(zkl_engine *engine, const char *path, bool children);
/* Requests may go out again: removes watches that could not be removed. */
void zkl_user_watches_resume(zkl_engine *engine);
/* Tells the owners of all armed watches that these will not fire any more, and why (`code`). */
void zkl_user_watches_end(zkl_engine *engine, zkl_code code);
/* The handle is closed: no watcher is called any more. */
void zkl_user_watches_closed(zkl_engine *engine);

#endif
