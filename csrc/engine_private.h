/*
 * What the engine's files share with each other and with nobody else.
 *
 *   engine.c      the engine object, the public functions, claims
 *   session.c     the ZooKeeper handle, session events, the driver's calls
 *   lease.c       how long the session certainly lives, and its heartbeats
 *   request.c     requests in flight: one context each, completed exactly once
 *   line.c        the lock's directory: its parents, the seats that stand in it, nodes of ours that belong to none
 *   seat.c        one znode: join, recover, queue, hold, leave
 *   follow.c      a node whose number is proof enough that nobody is before it
 *   foresee.c     a node whose neighbour is known before it is looked for
 *   watch.c       one watcher object per watched node
 *   terms.c       what a lock is, for all of its claims
 *   share.c       several claims that use one seat; seats that linger
 *   permits.c     a semaphore's claims: a turn in its line, then permits
 *   contenders.c  who holds and waits for a path
 *   operation.c   reads and writes of the program's own
 *   user_watch.c  the watches that come with them
 *
 * Everything here runs on the driver's thread.
 */
#ifndef ZKLOCK_ENGINE_PRIVATE_H
#define ZKLOCK_ENGINE_PRIVATE_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "engine.h"
#include "memory.h"

/* Requests under way at once, so that one client cannot flood a server (DESIGN: good neighbour). */
#ifdef ZKL_BREAKABLE
#define ZKL_MAX_IN_FLIGHT zkl_most_in_flight
#else
#define ZKL_MAX_IN_FLIGHT 1000
#endif

/*
 * After so many grants a node serves no more: the second half of its tokens must not overflow, or later tokens would be smaller. A
 * client that is alone for a month, and takes its lock a thousand times a second, gets there.
 */
#ifdef ZKL_BREAKABLE
#define ZKL_MAX_GRANTS zkl_most_grants
#else
#define ZKL_MAX_GRANTS (INT32_C(1) << 30)
#endif

/*
 * Bytes of watched paths per handle, chroots included. After a reconnect the C client sends them all in one SetWatches packet,
 * which the server drops when it is larger than jute.maxbuffer (1 MB by default), connection after connection.
 */
#ifdef ZKL_BREAKABLE
#define ZKL_MAX_WATCHED_BYTES zkl_most_watched_bytes
#else
#define ZKL_MAX_WATCHED_BYTES ZKL_USUAL_WATCHED_BYTES
#endif
/* The same of watches of holders on their own nodes, beside all those: whoever waits must not wait for holders. */
#define ZKL_MAX_OWN_BYTES (INT64_C(200) * 1024)
/* What a path takes there besides its own bytes. */
#define ZKL_WATCH_OVERHEAD 4

/* All of a uuid but the serial number at its end: one engine's. */
#define ZKL_UUID_STEM_LENGTH (ZKL_UUID_LENGTH - 12)

typedef struct zkl_line zkl_line;
typedef struct zkl_seat zkl_seat;
typedef struct zkl_watch zkl_watch;
typedef struct zkl_request zkl_request;
typedef struct zkl_query zkl_query;
typedef struct zkl_permits zkl_permits;
typedef struct zkl_user_watch zkl_user_watch;

TAILQ_HEAD(zkl_seat_list, zkl_seat);
LIST_HEAD(zkl_claim_seats, zkl_seat);
TAILQ_HEAD(zkl_claim_list, zkl_claim);
TAILQ_HEAD(zkl_kept_lines, zkl_line);
TAILQ_HEAD(zkl_request_list, zkl_request);
LIST_HEAD(zkl_line_list, zkl_line);
LIST_HEAD(zkl_watch_list, zkl_watch);
LIST_HEAD(zkl_query_list, zkl_query);
TAILQ_HEAD(zkl_checks_list, zkl_checks);
LIST_HEAD(zkl_user_watch_list, zkl_user_watch);
TAILQ_HEAD(zkl_operation_list, zkl_operation);

/* request.c: what is asked for. */
typedef enum {
    ZKL_REQUEST_GREET,     /* exists "/": the first of a session */
    ZKL_REQUEST_CREATE,    /* a seat's node */
    ZKL_REQUEST_DOWNGRADE, /* a reader's node beside its writer's */
    ZKL_REQUEST_LIST,      /* a seat's directory */
    ZKL_REQUEST_SYNC,      /* before the list that looks for a lost node */
    ZKL_REQUEST_STAT,      /* of the node that was found again */
    ZKL_REQUEST_WRITER,    /* stat of the writer's node, behind the create of a reader beside it */
    ZKL_REQUEST_DELETE,    /* a seat's node */
    ZKL_REQUEST_PARENT,    /* one directory on the way to a line */
    ZKL_REQUEST_WATCH,     /* get, exists or list with a watch */
    ZKL_REQUEST_UNWATCH,
    ZKL_REQUEST_PULSE,      /* sync "/": a round trip through the leader */
    ZKL_REQUEST_WITNESS,    /* a version check of "/": a quorum write of a client that has no node to check */
    ZKL_REQUEST_CHECK,      /* heartbeat */
    ZKL_REQUEST_LOOK,       /* at one of its nodes: is it still the same? */
    ZKL_REQUEST_LEASES,     /* list of a semaphore's permits */
    ZKL_REQUEST_LIMIT,      /* for how many permits a semaphore was made: get or set */
    ZKL_REQUEST_QUERY_LIST, /* contenders */
    ZKL_REQUEST_QUERY_GET,
    ZKL_REQUEST_OPERATION,
    ZKL_REQUEST_USER_UNWATCH
} zkl_request_kind;

/* No instant at all: earlier than every one. */
#define ZKL_LONG_AGO (INT64_MIN / 2)

/* lease.c: what a request's answer will prove, as known when it was sent. */
typedef struct {
    int64_t first;    /* a request sent at this instant had been answered */
    int64_t reported; /* if a leader answers: its follower has reported us, heard of at this instant or later */
    int64_t arrived;  /* if a leader answers: such a report has arrived there */
} zkl_evidence;

/*
 * lease.c: when the leader restarted the session's timer, as far as the present connection tells. ZKL_LONG_AGO where there is none.
 */
typedef struct {
    int64_t first; /* the latest request that was answered was sent then */
    struct zkl_heard {
        int64_t
            first; /* two requests, the second of which was sent when the first, of this instant, had been answered */
        int64_t since; /* were both answered by this instant; ZKL_NEVER until that is known */
    } heard[32];       /* ring, some of those */
    int64_t reported;  /* the follower has reported a request of this instant, or a later one */
    int64_t arrived;   /* such a report has arrived at the leader */
    int64_t proven;    /* the same, and a quorum write was acknowledged afterwards: not dated yet */
    int64_t
        restarted_at; /* the leader restarted the timer at this instant or later, if the follower's leader is the leader */
    int64_t round_began;    /* the latest round of requests */
    int64_t unbroken_since; /* at each instant since then the one before was less than 9T/10 old */
    bool sound;             /* so it has been since the session began, or for so long that this is as good */
    bool begins;            /* the connection itself is not dated yet */
    int32_t heard_count;    /* entries of `heard` that were ever written */
    bool round_over;        /* nor is the end of the latest round of requests */
} zkl_chain;

struct zkl_engine {
    zkl_host host;
    char *servers;
    char *hosts; /* `servers` without the chroot, for messages */
    zkl_auth *auths;
    int32_t auth_count;
    int32_t chroot_length; /* in bytes: the C client puts it before each path that it sends */
    int32_t asked_timeout_ms;
    bool lease;
    bool leftovers; /* the handle has kept requests of a connection that it lost in silence */
    bool unwatched; /* the server has forgotten watches that the handle still counts on */
    log_callback_fn zookeeper_log;

    int64_t now; /* as of the driver's latest call */

    /* session.c */
    zhandle_t *handle;
    int64_t session_id;  /* 0: none */
    int32_t timeout_ms;  /* negotiated; 0 before there was one */
    uint32_t connection; /* counts the connections; a tag for what must not outlive one */
    bool connected;      /* the handle said so */
    bool ready;          /* connected, and the server has answered: requests may go out */
    bool greeted;        /* this session's first request was answered */
    bool chroot_missing; /* the first request found that the chroot does not exist */
    bool over;           /* the session has ended: close the handle, open another */
    bool closing;        /* zkl_engine_close was called: nothing new goes out */
    bool shut;           /* zkl_engine_shut_down was called: no session will be opened */
    bool no_containers;  /* the server does not know container nodes */
    zkl_state state;
    zkl_code problem_code;
    char problem[256];
    int64_t retry_at;     /* not before this instant is a session opened again */
    int64_t lost_at;      /* the connection was lost at this instant */
    int64_t renewed_at;   /* a new session was to replace a living one at this instant; 0: none is awaited */
    int64_t handshake_at; /* the present connection's handshake was sent at this instant or later */
    int64_t connect_at;   /* not before this instant is a connection opened */
    int8_t misses;   /* so many connections in a row have failed, since the C client was taken an address further */
    int8_t patience; /* which of misses_allowed applies */

    /* lease.c */
    int64_t lease_until;
    int64_t check_at;              /* next round of heartbeats */
    struct zkl_checks_list checks; /* heartbeats of which an answer, or a look at a node, is still to come */
    int32_t checks_flying;         /* of these in flight; or of a round's other requests */
    int64_t confirming_since;      /* a seat is first in line since then and needs a lease to be granted, if */
    bool confirming;               /* this is set */
    int64_t alive_at;     /* the session lived at this instant or later: its latest quorum write was sent then */
    int64_t restarted_at; /* the leader restarted the session's timer at this instant or later: proven */
    zkl_chain chain;      /* the same as far as this connection alone tells */
    zoo_op_t witness;     /* of the request of that name, while it is in flight */
    zoo_op_result_t witness_result;
    int32_t looks_flying; /* at nodes that are held, behind heartbeats */
    int32_t least_ms;     /* the shortest timeout that the session has negotiated */

    /* request.c */
    struct zkl_request_list flying;
    struct zkl_request_list orphans; /* refused by the C client, which may still complete them: kept till the close */
    struct zkl_request_list spare;   /* for reuse */
    int32_t in_flight;
    /* operation.c: the server refused one for now, and none goes out before delayed_until. */
    bool operations_paused;
    bool no_witness;     /* "/" may not be read, or is not there */
    bool own_ephemerals; /* the program may have ephemeral nodes in this session */

    /* line.c */
    struct zkl_line_list *lines; /* hash table by path */
    uint32_t line_slots;         /* a power of two */
    uint32_t line_count;
    struct zkl_kept_lines kept; /* lines that stay though nobody uses them, the one that was kept first at the head */
    int32_t kept_count;
    struct zkl_seat_list seats;   /* all of them */
    struct zkl_seat_list hungry;  /* those with something to send that may not go out yet, first come first served */
    struct zkl_seat_list starved; /* those that may not join before ZKL_MAX_WATCHED_BYTES has room, likewise */
    struct zkl_seat_list delayed; /* those that the server refused and that try again later */
    int64_t delayed_until;
    int64_t writes;        /* creates and deletes that the servers have acknowledged */
    int32_t nodes;         /* seats that have a node on the server, as far as known */
    int32_t cleaning;      /* seats and watches whose removal is not confirmed yet */
    int64_t watched_bytes; /* reserved by seats that may have to watch, and by the program's watches */
    int64_t own_bytes;     /* of the nodes that their owners watch */
    uint64_t serial;       /* of the latest uuid */
    char uuid_stem[ZKL_UUID_STEM_LENGTH + 1];

    /* operation.c, user_watch.c */
    struct zkl_operation_list operations_waiting; /* to be sent when requests may go out, in this order */
    struct zkl_operation_list operations;         /* under way, or answered and not forgotten */
    struct zkl_user_watch_list user_watches;
    uint64_t operation_serial; /* of the latest */
    size_t sent_bytes;         /* of operations, since zkl_engine_prepare */

    /* engine.c */
    struct zkl_claim_list claims;
    struct zkl_seat_list lingering; /* granted seats that serve nobody, the one that leaves first at the head */
    struct zkl_claim_list holds;    /* granted claims with a max_hold, the one that ends first at the head */
    struct zkl_query_list queries;
    zkl_stats stats;
};

/* terms.c ---------------------------------------------------------------------------------------------------------- */

struct zkl_terms {
    zkl_lock lock; /* its pointers are to what belongs to the terms */
    struct ACL_vector acl;
    char *locks; /* MODE_PERMITS: "<path>/locks", and "<path>/leases" in the same memory; else NULL */
    _Atomic int32_t uses;
};

/* The directory of a semaphore's permits. */
const char *zkl_terms_leases(const zkl_terms *terms);
/* Whether the nodes of both say the same. */
bool zkl_terms_alike(const zkl_terms *a, const zkl_terms *b);

/* engine.c: claims ------------------------------------------------------------------------------------------------- */

struct zkl_claim {
    TAILQ_ENTRY(zkl_claim) all;
    TAILQ_ENTRY(zkl_claim) in_holds;
    TAILQ_ENTRY(zkl_claim) in_seat; /* `behind` others in its seat */
    zkl_engine *engine;
    zkl_line *line;               /* where it queues */
    zkl_seat *seat;               /* its place in the queue; NULL when it has none (any more) */
    struct zkl_claim_seats seats; /* all of its znodes; none when nothing of it is left on the server */
    zkl_permits *permits;         /* MODE_PERMITS; else NULL */
    zkl_terms *terms;
    char *message;
    void *user;
    int64_t asked_at;
    int64_t hold_until; /* in engine->holds if not ZKL_NEVER */
    zkl_token token;
    zkl_claim_phase phase;
    zkl_code code;
    int32_t revocations;
    bool try_only;
    bool hasty;
    bool forgotten;
    bool behind; /* shares its seat with others, and is not the one that the seat serves first of all */
};

static inline zkl_mode zkl_claim_mode(const zkl_claim *claim)
{
    return claim->terms->lock.mode;
}

/* Ends a waiting or granted claim for good with a code and a message made like printf. Does not touch its seat. */
void zkl_claim_finish(zkl_claim *claim, zkl_claim_phase phase, zkl_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Grants it by way of `seat`, whose node the token is made of. */
void zkl_claim_grant(zkl_claim *claim, const zkl_seat *seat);
/* A granted claim is lost; whatever it has on the server goes. Nothing happens to one that is not granted. */
void zkl_claim_lose(zkl_claim *claim, zkl_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Its seats are needed no more: their nodes go, in the background. */
void zkl_claim_leave(zkl_claim *claim);
/* A try cannot be answered without a connection. */
void zkl_claim_connection_lost(zkl_claim *claim);
/* Somebody asks for it. */
void zkl_claim_revoked(zkl_claim *claim);
/* Ends the grants whose max_hold has passed. */
void zkl_claims_expire(zkl_engine *engine);
/* The claim has a node and waits behind another: whoever asks may see both. */
void zkl_claim_waits(zkl_claim *claim);
/*
 * The release of a claim has found that a node by which it held until then was gone already, by somebody else's doing. The host
 * hears of it when the claim is settled.
 */
void zkl_claim_robbed(zkl_claim *claim, const char *node);
/* The server refuses to delete the node of a claim that has been released. */
void zkl_claim_stuck(zkl_claim *claim, int rc, const char *node);
/* If nothing of the claim is left on the server: tells the host, frees the claim if its owner has forgotten it. */
void zkl_claim_settle(zkl_claim *claim);
/* A seat of the claim is gone. With the last one: tells the host, frees the claim if its owner has forgotten it. */
void zkl_claim_unseated(zkl_claim *claim, zkl_seat *seat);

/* session.c -------------------------------------------------------------------------------------------------------- */

void zkl_log(zkl_engine *engine, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Requests may go out now. */
bool zkl_session_usable(const zkl_engine *engine);
/*
 * The session timeout in nanoseconds, 0 before there was one: the least that was negotiated in this session. A server may grant
 * more at a later connection, but a new leader begins with the timeout of the first one.
 */
static inline int64_t zkl_session_timeout(const zkl_engine *engine)
{
    return (int64_t)(ZKL_BROKEN(ZKL_BREAK_LEAST) ? engine->timeout_ms : engine->least_ms) * (ZKL_SECOND / 1000);
}
/*
 * The server says that it has no watch where one was armed on this very connection: its data were replaced meanwhile. The C client
 * keeps the watch, and arms it anew on the next connection only.
 */
void zkl_session_unwatched(zkl_engine *engine);
/* Sends a read: any shows that a ZooKeeper answers, and whether the chroot exists. */
void zkl_session_greet(zkl_engine *engine);
/* Its reply. */
void zkl_session_greeted(zkl_request *request, int rc);
/* Whether the outcome of a request that ended with `rc` is unknown: it may have been executed or not. */
bool zkl_outcome_unknown(int rc);
zkl_code zkl_code_of(int rc);
/* Returns what `rc` means, in words: zerror, and for a code that the C client does not know, words of our own. */
const char *zkl_words_of(int rc);

/* lease.c ---------------------------------------------------------------------------------------------------------- */

/* A quorum write has been acknowledged: the session lived when it was sent. */
void zkl_lease_prove(zkl_engine *engine, int64_t sent_at);
bool zkl_lease_valid(const zkl_engine *engine);
/* Another claim may be granted by a node that is there already, without a word from the server. */
bool zkl_lease_covers_more(const zkl_engine *engine);
/* Somebody needs a lease to be granted under: the next heartbeat goes out at once. */
void zkl_lease_want_now(zkl_engine *engine);
/* The next heartbeat is due when one is as a rule. */
void zkl_lease_rest(zkl_engine *engine);
/* Begins a round of heartbeats. */
void zkl_lease_beat(zkl_engine *engine);
/* A round's request that is no heartbeat was answered. */
void zkl_lease_pulsed(zkl_request *request, int rc);
/* Goes on with the looks at nodes that are due, and judges the heartbeats of which all is in. */
void zkl_lease_look_on(zkl_engine *engine);
/* Their replies. */
void zkl_lease_checked(zkl_request *request, int rc);
void zkl_lease_looked(zkl_request *request, int rc, const struct Stat *stat);
/* Returns the facts that the answer to a request that is about to be sent will prove. */
zkl_evidence zkl_lease_evidence(const zkl_engine *engine, zkl_request_kind kind);
/* The request has been answered with ZOK. */
void zkl_lease_answered(const zkl_request *request);
/* To be called early in each turn. */
void zkl_lease_date_answers(zkl_engine *engine);
/* A connection is established, whose session timeout may be another one; `fresh`: with a new session. */
void zkl_lease_connected(zkl_engine *engine, bool fresh);
/* Whether a new session should be opened before anything joins a queue by this one, which may be about to end. */
bool zkl_lease_wants_session(const zkl_engine *engine);
/* Whether a seat has been first in line for so long without a lease that it should make way, by a new session. */
bool zkl_lease_waits_in_vain(zkl_engine *engine);
/* The instant at which that may be so; ZKL_NEVER: no seat needs a lease. */
int64_t zkl_lease_waits_until(const zkl_engine *engine);
/* Whether nothing should join a queue now, since that may be so. */
bool zkl_lease_holds_back(const zkl_engine *engine);
/* Grants that outlived their lease are lost for good. */
void zkl_lease_lapse(zkl_engine *engine);

/* request.c -------------------------------------------------------------------------------------------------------- */

/* Why a seat listed its directory; decides what its reply may be used for. */
typedef enum {
    ZKL_LIST_TRY,
    ZKL_LIST_JOIN,
    ZKL_LIST_LOOK,
    ZKL_LIST_PLACE,
    ZKL_LIST_RECOVER
} zkl_list_purpose;

/* Room for what the C client writes while the create beside a writer is in flight. */
struct zkl_downgrade {
    zoo_op_result_t results[2];
    char path[];
};

struct zkl_request {
    TAILQ_ENTRY(zkl_request) all;
    zkl_engine *engine;
    zkl_request_kind kind;
    zkl_list_purpose purpose;
    uint32_t connection; /* the one it was sent on */
    uint32_t generation; /* the seat's, when it was sent */
    int64_t sent_at;
    zkl_evidence evidence;
    int32_t index; /* PARENT: which directory; QUERY_GET: which contender; LOOK: which node; PULSE: 1 for the last */
    struct zkl_downgrade *downgrade; /* DOWNGRADE: room for its answer, freed with the request */
    union {
        zkl_seat *seat;
        zkl_line *line;
        zkl_watch *watch;
        zkl_query *query;
        struct zkl_checks *checks;
        zkl_operation *operation;
        zkl_user_watch *user_watch;
    } about;
};

/* A context for a request that is about to be sent, or NULL when memory is short. Counted as in flight. */
zkl_request *zkl_request_new(zkl_engine *engine, zkl_request_kind kind);
/*
 * What only a server that lies, or has gone mad, answers: a list with names that no node can have. The C client passes a name of
 * negative length on as NULL.
 */
bool zkl_names_sound(const struct String_vector *names);
/* The C client refused the request (`rc`), and its completion will not or should not come. Puts the context away. */
void zkl_request_refused(zkl_request *request, int rc);
/* Sends; each false when it could not, which is handled like a lost connection: nothing is known to be executed. */
bool zkl_send_create(zkl_seat *seat, const char *path, const char *data, const struct ACL_vector *acl);
/* Creates `path` if `writer` exists. */
bool zkl_send_downgrade(zkl_seat *seat, const char *writer, const char *path, const char *data,
                        const struct ACL_vector *acl);
bool zkl_send_list(zkl_seat *seat, zkl_list_purpose purpose);
/* Lists the permits for the semaphore's claim that has `turn` for its place in the line. */
bool zkl_send_leases(zkl_seat *turn, zkl_list_purpose purpose, uint32_t generation);
bool zkl_send_get_limit(zkl_line *leases);
bool zkl_send_set_limit(zkl_line *leases, int32_t limit, int32_t version);
bool zkl_send_sync(zkl_seat *seat);
bool zkl_send_stat(zkl_seat *seat);
bool zkl_send_writer_stat(zkl_seat *reader);
bool zkl_send_delete(zkl_seat *seat);
bool zkl_send_parent(zkl_line *line, int32_t index, const char *path, const char *data, const struct ACL_vector *acl);
bool zkl_send_watch(zkl_watch *watch);
bool zkl_send_unwatch(zkl_watch *watch);
bool zkl_send_greeting(zkl_engine *engine);
bool zkl_send_query_list(zkl_query *query);
bool zkl_send_query_get(zkl_query *query, int32_t index, const char *path);
/* A sync, which goes through the leader and asks no quorum. `last`: of its round. */
bool zkl_send_pulse(zkl_engine *engine, bool last);
/* A multi with one version check, of "/". The last request of its round. */
bool zkl_send_witness(zkl_engine *engine);
/* Heartbeat over `count` operations; `checks` is given back with the reply. */
bool zkl_send_checks(zkl_engine *engine, struct zkl_checks *checks);
/* Looks at the heartbeat's `index`-th node. */
bool zkl_send_look(zkl_engine *engine, struct zkl_checks *checks, int32_t index);

/* What an operation hands to the C client. */
typedef struct {
    zkl_operation_kind kind;
    const char *path;
    const char *data;
    int32_t data_length; /* -1: none */
    int32_t version;
    int32_t flags;
    const struct ACL_vector *acl;
    zkl_user_watch *watch; /* NULL: none */
    int32_t count;         /* of a multi */
    zoo_op_t *ops;
    zoo_op_result_t *results;
} zkl_sending;

/* These two answer what the C client did; a reply comes only after ZOK. */
int zkl_send_operation(zkl_operation *operation, zkl_engine *engine, const zkl_sending *sending);
int zkl_send_user_unwatch(zkl_user_watch *watch, zkl_engine *engine, const char *path, bool children);
/* Frees what the C client can no longer complete: after zookeeper_close. */
void zkl_requests_closed(zkl_engine *engine);
void zkl_requests_free(zkl_engine *engine);

/* One heartbeat: which seats it checks, and room for the answers. */
struct zkl_checks {
    TAILQ_ENTRY(zkl_checks) all;
    int64_t sent_at;
    uint32_t connection; /* the one it was sent on: so are the looks */
    int32_t flying;      /* answers that are still to come, to itself and to looks */
    int32_t looked;      /* so many of the seats have been looked at, or need not be */
    bool failed;         /* something was not answered, or not well: it proves nothing */
    int32_t count;
    int64_t bytes; /* what they take in the request */
    struct zkl_check {
        zkl_seat *seat;
        uint32_t generation;
    } * items;
    zoo_op_t *ops;
    zoo_op_result_t *results;
};

/* line.c ----------------------------------------------------------------------------------------------------------- */

/* foresee.c: the mutex's node that one of ours stood right behind last. */
typedef struct {
    char stem[ZKL_UUID_STEM_LENGTH]; /* of its uuid; no NUL */
    uint64_t serial;                 /* the rest of it */
    uint64_t stride;                 /* by how much that had grown since the time before */
    bool steady;                     /* and since the time before that, to the same client's */
} zkl_neighbour;

struct zkl_line {
    LIST_ENTRY(zkl_line) hash;
    zkl_engine *engine;
    char *path;
    uint32_t uses; /* claims, seats and requests that point here */
    struct zkl_seat_list seats;
    struct zkl_watch_list watches;
    int32_t parents_flying; /* creates of directories in flight */
    int parents_error;      /* the first that says why they cannot be made */
    int parents_last;       /* what the create of the line's own directory answered */
    bool warned;            /* of the sequence numbers */

    /* follow.c: every node up to this one, which was ours, is gone. 0: nothing of the kind is known. */
    int64_t cleared_czxid;
    int64_t cleared_at; /* its deletion was asked for then; or that of the latest before it for which a list was seen */
    int64_t cleared_writes;
    int32_t cleared_sequence;
    uint32_t cleared_on; /* on this connection it was acknowledged */
    bool follows;        /* the latest number that we got came right after it */
    int64_t lost_in;     /* the session in which a create here was lost, and its node was not there; 0: none was */
    int64_t creates;     /* of those that engine->writes counts, the creates of nodes in this directory */

    zkl_neighbour neighbour;
    int64_t cleaned_at; /* a list showed all nodes of ours */

    TAILQ_ENTRY(zkl_line) in_kept;

    /* permits.c, of a semaphore's leases */
    int64_t limit_mzxid;   /* of the directory whose limit is known: of the write that set it; 0: none is known */
    int32_t limit;         /* how many permits it was made for; 0: nobody has said */
    int32_t limit_wanted;  /* by whoever asked first */
    bool limit_flying;     /* the question, or our own word, is in flight */
    bool limit_unwritable; /* nobody has said, and we may not */
    bool busy;             /* who took permits last had to wait */
    bool kept;             /* in engine->kept */
};

/* The line of the first `length` characters of `path`; NULL if there is none. */
zkl_line *zkl_line_find(const zkl_engine *engine, const char *path, size_t length);
/* The line of `path`, with one more use; NULL when memory is short. */
zkl_line *zkl_line_take(zkl_engine *engine, const char *path);
void zkl_line_drop(zkl_line *line);
/* "<directory>/<name>", to be given to zkl_free; NULL when memory is short. */
char *zkl_child_path(const char *directory, const char *name);
bool zkl_lines_init(zkl_engine *engine);
/*
 * Creates the directory, with `data`, and those above it; the seats parked here are stepped, or refused, when the replies are
 * in.
 */
void zkl_line_make_parents(zkl_line *line, const char *data, const struct ACL_vector *acl);
/* The line stays though nobody uses it, until others have taken its place. */
void zkl_line_keep(zkl_line *line);
/*
 * Deletes what stands in a list of the line, is this client's, and belongs to none of its seats: now, or as soon as it can be done.
 * False: there was no memory for that; nobody but the next list will find it.
 */
bool zkl_line_remove_strays(zkl_line *line, const struct String_vector *names);
/* Deletes a node of this client that no seat knows, if this is one: a seat is about to wait for it. */
void zkl_line_remove_if_stray(zkl_line *line, const char *name);
/* Whether a create in this directory has been lost in this session: it may be carried out yet. */
bool zkl_line_may_have_strays(const zkl_line *line);
/* The session is over: nothing that was concluded about any directory counts any more. docs/design.md has the list. */
void zkl_lines_forget(zkl_engine *engine);
void zkl_lines_free(zkl_engine *engine);
void zkl_line_parent_made(zkl_request *request, int rc);

/* seat.c ----------------------------------------------------------------------------------------------------------- */

/*
 * A seat's states. docs/design.md has the table of transitions.
 */
typedef enum {
    ZKL_SEAT_PARKED,     /* wants a node, has sent nothing */
    ZKL_SEAT_LOOKING,    /* a try: the list that comes before any write is in flight */
    ZKL_SEAT_JOINING,    /* create and list are in flight */
    ZKL_SEAT_RECOVERING, /* the create's outcome is unknown: sync, list, look for the uuid */
    ZKL_SEAT_QUEUED,     /* has a node; somebody is ahead, or may be */
    ZKL_SEAT_CONFIRMING, /* nobody is ahead; waits for a lease to be granted under */
    ZKL_SEAT_GRANTED,
    ZKL_SEAT_LEAVING, /* its node must go */
    ZKL_SEAT_GONE     /* nothing of it is left; freed with its last request */
} zkl_seat_state;

/*
 * What a seat's znode is. This is where the kinds of locks differ: in the name of the node, in which other nodes stand in its
 * way (zkl_kind_conflicts), and in what happens when nothing does any more.
 */
typedef enum {
    ZKL_ROLE_MUTEX,
    ZKL_ROLE_READER,
    ZKL_ROLE_WRITER,
    ZKL_ROLE_TURN,  /* a place in a semaphore's line: at its head, permits may be taken */
    ZKL_ROLE_PERMIT /* one permit of a semaphore */
} zkl_role;

struct zkl_seat {
    TAILQ_ENTRY(zkl_seat) all;
    TAILQ_ENTRY(zkl_seat) in_line;
    TAILQ_ENTRY(zkl_seat) in_hungry;
    LIST_ENTRY(zkl_seat) in_watch;
    LIST_ENTRY(zkl_seat) in_claim;
    TAILQ_ENTRY(zkl_seat) in_lingering;
    zkl_engine *engine;
    zkl_line *line;
    zkl_claim *claim; /* whom it serves first of all, or, while leaving, served last; NULL: it lingers, or is adopted */
    struct zkl_claim_list behind; /* others that share it, or wait for it, in their order */
    zkl_terms *terms;             /* of its node, once it has lingered */
    int64_t linger_until;         /* in engine->lingering if not ZKL_NEVER */
    int32_t turns;                /* so often it was promised under this node; readers that wait together count once */
    zkl_watch *watch;             /* on what stands in its way */
    zkl_watch *own;               /* on its own node, for those who ask for the lock */
    zkl_seat *writer;             /* a reader that joins beside this granted writer; NULL once it need not any more */
    char *node;                   /* full path, NULL while unknown */
    int64_t czxid;                /* of its node; of its writer's for a reader that joined beside one */
    int64_t writes;               /* engine->writes less line->creates when its create was acknowledged */
    int32_t grants;               /* under that czxid, before its own: the second half of the token */
    zkl_role role;
    uint64_t serial;     /* its uuid's number */
    uint32_t generation; /* grows when replies to earlier requests must not count any more */
    uint32_t connection; /* the one its create was answered on, or its sync */
    int32_t sequence;
    int32_t ahead;  /* at most so many conflicting nodes stand before it, as far as known */
    int32_t flying; /* requests in flight that point here */
    zkl_seat_state state;
    bool granted;    /* somebody has held by its node */
    bool foreseeing; /* the request that looks for the node before its own, by a name foretold, is under way */
    bool foremost;   /* no node stands before its own, in its way or not */
    bool unlisted;   /* that is concluded from numbers alone: no list has shown its node */
    bool unlucky;    /* the reply to its latest create was lost, and the node was not there */
    bool revoked;    /* others have asked for it: it is not handed over */
    bool spoilt;     /* a grant under its node ended other than by a release: it is not handed over */
    bool contested;  /* others have come since it watches who comes */
    bool alone;      /* none have, and none were there: its claims keep nobody waiting */
    bool spent;      /* it was alone, and has had more claims than others should wait for */
    bool beside;     /* its node was made, or is being made, beside its writer's */
    bool wanted;     /* its claim still waits or holds */
    bool hungry;     /* stands in engine->hungry */
    bool starved;    /* stands in engine->starved */
    bool delayed;    /* stands in engine->delayed */
    bool listing;    /* a list of its directory is in flight */
    bool deleting;   /* the delete is in flight */
    bool doubted;    /* a delete of its node may have been executed or not */
    bool held;       /* it was granted until it was left */
    bool reserved;   /* its share of ZKL_MAX_WATCHED_BYTES is taken */
    bool cleaning;   /* counted in engine->cleaning */
};

/* Takes its share of ZKL_MAX_WATCHED_BYTES, or gives it back. */
void zkl_seat_reserve(zkl_seat *seat, bool reserved);
/* Readers that have not joined beside this writer yet cannot do so any more; or only those that have not been sent. */
void zkl_seat_part_from_readers(const zkl_seat *writer, bool unsent_only);
/* A seat for the claim in `line`; NULL when memory is short. */
zkl_seat *zkl_seat_new(zkl_claim *claim, zkl_line *line, zkl_role role);
/* A seat for a node of this client's that no seat knows, which it deletes. False when memory is short. */
bool zkl_seat_adopt(zkl_line *line, const char *name, uint64_t serial);
zkl_node_kind zkl_seat_kind(const zkl_seat *seat);
/* Its name, without the directory; it must have a node. */
const char *zkl_seat_name(const zkl_seat *seat);
/* It cannot go on now: it is stepped when requests may go out again. */
void zkl_seat_wait(zkl_seat *seat);
/* The same, but not before the server has had time. */
void zkl_seat_wait_long(zkl_seat *seat);
/* A permit goes on together with the others of its claim: to CONFIRMING, to GRANTED, or back to QUEUED. */
void zkl_seat_permit(zkl_seat *seat, zkl_seat_state state);
/* Something that the server refused, or that could not be sent for want of memory, is to be tried again in a while. */
void zkl_try_later(zkl_engine *engine);
/* The time of those that were to try again later has come. */
void zkl_seats_undelay(zkl_engine *engine);
/* Whether its watched path would still fit under ZKL_MAX_WATCHED_BYTES. */
bool zkl_seat_fits(const zkl_seat *seat);
/* Does whatever the seat's state asks for, now or, when requests may not go out, as soon as they may. Idempotent. */
void zkl_seat_step(zkl_seat *seat);
/* Its claim needs it no more: the node goes, in the background, as long as the session lives. */
void zkl_seat_leave(zkl_seat *seat);
/* The watched node is gone for good. */
void zkl_seat_blocker_gone(zkl_seat *seat);
/* The watch could not be armed, or must be armed anew: look again. */
void zkl_seat_look_again(zkl_seat *seat);
/* The same, but not at once: there is no watch that would tell it. */
void zkl_seat_look_later(zkl_seat *seat);
/* Others have asked for what is held by its node. */
void zkl_seat_revoked(zkl_seat *seat);
/* Its own node is gone though nobody asked for it. */
void zkl_seat_evicted(zkl_seat *seat);
/* Another node has the name of its own, which must therefore be gone. */
void zkl_seat_replaced(zkl_seat *seat);
/* The session is over, and with it the node. */
void zkl_seat_session_over(zkl_seat *seat, const char *why);
/* A lease has begun: grant if this seat waits for it. */
void zkl_seat_confirm(zkl_seat *seat);
/* A try's directory shows nobody ahead: it joins. */
void zkl_seat_join(zkl_seat *seat);
/* The server had no time for a try's list: it looks again in a while. */
void zkl_seat_try_again(zkl_seat *seat);
/* Refuses the claim with what ZooKeeper answered to `what`. */
void zkl_seat_refuse(zkl_seat *seat, int rc, const char *what);
/* One request less points here; frees the seat when it is gone and this was the last. */
void zkl_seat_landed(zkl_seat *seat);
/* Free at once, whatever its state: the engine goes away. */
void zkl_seat_destroy(zkl_seat *seat);

void zkl_seat_created(zkl_request *request, int rc, const char *path, const struct Stat *stat);
void zkl_seat_listed(zkl_request *request, int rc, const struct String_vector *names);
void zkl_seat_synced(zkl_request *request, int rc);
void zkl_seat_stat(zkl_request *request, int rc, const struct Stat *stat);
void zkl_seat_writer_stat(zkl_request *request, int rc, const struct Stat *stat);
void zkl_seat_deleted(zkl_request *request, int rc);

/* The text of a seat's uuid; `uuid` has room for ZKL_UUID_LENGTH + 1. */
void zkl_seat_uuid(const zkl_seat *seat, char *uuid);

/* follow.c --------------------------------------------------------------------------------------------------------- */

/* The seat's node is deleted, as `request` wanted: if nobody stood before it, nobody stands before the next number. */
void zkl_seat_clears(const zkl_seat *seat, const zkl_request *request);
/* Forgets that. */
void zkl_line_unclear(zkl_line *line);
/*
 * How many nodes can stand before the seat's, whose czxid is `created`, at most: 0 if it comes right after one by which we held;
 * INT32_MAX: that cannot be told. Our own writes elsewhere took `elsewhere` of the zxids between the two.
 */
int32_t zkl_seat_most_ahead(const zkl_seat *seat, int64_t created, int64_t elsewhere);
/* Whether a node that is created now is likely to follow: then the list that comes with the create can be left out. */
bool zkl_seat_likely_follows(const zkl_seat *seat);

/* foresee.c -------------------------------------------------------------------------------------------------------- */

/* A list shows the seat's node right behind `name`. */
void zkl_seat_stands_behind(const zkl_seat *seat, const char *name);
/* Forgets behind whom this client's nodes stood. */
void zkl_line_lose_neighbour(zkl_line *line);
/* Whether it is foreseen behind whom a node that is created now will stand: then the list that comes with it is left out. */
bool zkl_seat_may_foresee(const zkl_seat *seat);
/* Watches the node foreseen; the seat hears of it as by a list. False: the line is to be listed. */
bool zkl_seat_foresee(zkl_seat *seat);
/* The watch that the seat waits for was armed, or the node is not there. */
void zkl_seat_foreseen(zkl_seat *seat, bool there);

/* watch.c ---------------------------------------------------------------------------------------------------------- */

typedef enum {
    ZKL_WATCH_IDLE,    /* nothing is armed or asked for */
    ZKL_WATCH_ARMING,  /* the request that arms it is in flight */
    ZKL_WATCH_ARMED,   /* the C client holds its address until the event, the removal or the close */
    ZKL_WATCH_REMOVING /* the removal is in flight */
} zkl_watch_state;

LIST_HEAD(zkl_watcher_list, zkl_seat);

struct zkl_watch {
    LIST_ENTRY(zkl_watch) in_line;
    zkl_engine *engine;
    zkl_line *line;
    char *node; /* full path */
    struct zkl_watcher_list seats;
    zkl_watch_state state;
    int32_t flying;  /* requests in flight that point here */
    bool pinned;     /* its seats are being told something: nobody frees it meanwhile */
    zkl_seat *owner; /* the seat whose own node this is, if it listens to those who ask for the lock */
    bool children;   /* on who comes and goes in the line's own directory */
    bool unwanted;   /* armed, nobody interested, removal not confirmed: counted in engine->cleaning */
    bool asked;      /* the node's data ask its owner to let go, as read when it was armed */
};

/* Watches `name` in the seat's directory for it; the seat hears of it by blocker_gone or look_again. */
void zkl_watch_node(zkl_seat *seat, const char *name);
/*
 * Watches who comes and goes in `line`, for a semaphore's turn; it hears of it by look_again. True if the list that arms the
 * watch is on its way: zkl_permits_listed will be told. False: it is armed already, or cannot be now.
 */
bool zkl_watch_children(zkl_seat *turn, zkl_line *line);
/* Watches the seat's own node for others who ask for the lock; its claim hears of it by zkl_claim_revoked. */
void zkl_watch_own(zkl_seat *seat);
/* The seat is not interested any more, in others' nodes and in its own. */
void zkl_watch_leave(zkl_seat *seat);
/* The same, for its own node and for its directory, when the seat's node is about to be deleted. */
void zkl_watch_leave_own(zkl_seat *seat);
void zkl_watch_leave_directory(zkl_seat *seat);
/* `data` is of the node, if it was read. */
void zkl_watch_armed(zkl_request *request, int rc, const char *data, int length);
void zkl_watch_listed(zkl_request *request, int rc, const struct String_vector *names, const struct Stat *stat);
void zkl_watch_removed(zkl_request *request, int rc);
/* The C client's watcher function, for zkl_send_watch. */
void zkl_watch_event(zhandle_t *handle, int type, int state, const char *path, void *context);
/* Requests may go out again: remove what could not be removed. */
void zkl_watches_resume(zkl_engine *engine);
/*
 * On a new connection: heads of semaphores' queues look again. Their watches are armed anew, but tell only of changes whose zxids are
 * higher than those that the client has seen, which a restored server may not give yet.
 */
void zkl_watches_look_again(zkl_engine *engine);
/* The handle is closed: nobody will call back. */
void zkl_watches_closed(zkl_engine *engine);
/* Whether a seat waits for a watch on a node, whose full path this is, or on its children. */
bool zkl_watch_wanted(const zkl_engine *engine, const char *path, bool children);
/* All watches of that kind on a node were removed; so was one that no seat wants any more. */
void zkl_watch_forgotten(const zkl_engine *engine, const char *path, bool children);

/* share.c ---------------------------------------------------------------------------------------------------------- */

/* The seat of this client that a new claim may share; NULL: it needs one of its own. */
zkl_seat *zkl_share_find(const zkl_claim *claim);
void zkl_share_join(zkl_seat *seat, zkl_claim *claim);
/* Grants whoever may hold now, of those who share a granted seat. */
void zkl_share_advance(zkl_seat *seat);
/* Whoever waits in the seat waits for another node than before. */
void zkl_share_waits(zkl_seat *seat);
/* A claim that stands behind others in its seat does not want it any more. */
void zkl_share_part(zkl_claim *claim);
/* The claim that a seat serves first does not want it any more: true if the seat goes on without it. */
bool zkl_share_pass(zkl_claim *claim);
/* Those who wait for the seat get another one. */
void zkl_share_move_on(zkl_seat *seat);
/* A seat that lingers, or that watches who comes: somebody came. */
void zkl_share_contested(zkl_seat *seat);
/* The list that armed that watch. */
void zkl_share_listed(zkl_seat *seat, int rc, const struct String_vector *names);
/* It does not linger (any more). */
void zkl_share_stop_lingering(zkl_seat *seat);
/* Seats that have lingered long enough leave; or all. */
void zkl_share_expire(zkl_engine *engine, bool all);
/* Seats that linger on the claim's path leave: it cannot use them. */
void zkl_share_make_way(const zkl_claim *claim);
/* The seat is unlinked: frees what it has of its own. */
void zkl_share_forget(zkl_seat *seat);

/* permits.c -------------------------------------------------------------------------------------------------------- */

/*
 * What a semaphore's claim has beside a place in the line. docs/design.md has the table of its states.
 */
struct zkl_permits {
    zkl_line *leases;    /* the claim's own line is the semaphore's "locks" */
    int32_t limit;       /* how many permits there are */
    int32_t count;       /* how many are wanted */
    int32_t excess;      /* how many others have to go, by the latest list, before there is room */
    int32_t handed_over; /* how often in a row its permits have passed from one claim to another */
    uint32_t generation; /* grows when an earlier list must not count any more */
    bool listing;        /* a list of the permits is in flight */
    bool took;           /* has seats for its permits */
    bool full;           /* took them, but there were too many: keeps its nodes, and waits for others to go */
    bool waited;         /* had to wait, for its turn or for room */
    bool undecided;      /* the watch may be armed, and yet no list since then has been judged */
    bool search;         /* it stands in the line, and there may be permits of this client's that no claim knows */
};

/* For a new claim. False when memory is short; zkl_permits_free is due all the same. */
bool zkl_permits_init(zkl_claim *claim, int32_t count);
void zkl_permits_free(zkl_claim *claim);
/* Does what the claim's state asks for, once it is at the head of its line. Idempotent. */
void zkl_permits_step(zkl_claim *claim);
/* A try: the list of the permits that comes before any write. */
bool zkl_permits_look(zkl_claim *claim);
/* Its turn's create and list are on their way: takes permits along if it is likely that there are some. */
void zkl_permits_joined(zkl_claim *claim);
/* Its turn waits in the line: looks for permits that no claim of this client knows, if there may be some. */
void zkl_permits_search(zkl_claim *claim);
/* The same, if that has not come to its end. */
void zkl_permits_search_on(zkl_claim *claim);
/* It is not at the head of the line (any more): gives back what it took. `behind`: because somebody else is. */
void zkl_permits_retreat(zkl_claim *claim, bool behind);
/* The same when its nodes are gone with their session. */
void zkl_permits_restart(zkl_claim *claim);
/* One of its permits is being made anew: earlier lists do not count, nor the room that they showed. */
void zkl_permits_changed(zkl_claim *claim);
/* At the head of the line, under a watch that came with no list: it is asked for. */
void zkl_permits_look_again(zkl_claim *claim);
/* The same, but not at once: what has to pass first takes a while. */
void zkl_permits_look_later(zkl_claim *claim);
/* At the head of the line: somebody came or went. */
void zkl_permits_event(zkl_claim *claim);
/* All of its permits' seats are in CONFIRMING, and there is a lease. */
void zkl_permits_confirm(zkl_claim *claim);
/*
 * A released claim: what it was granted goes to another of this client that waits for as much, or less, if that may be. True if
 * nothing is left to the claim.
 */
bool zkl_permits_pass(zkl_claim *claim);
/* Forgets for how many permits the directory was made. */
void zkl_line_unlimit(zkl_line *leases);
/* The data that the directory of the permits is made with; `data` has room for 12 characters. */
const char *zkl_permits_data(const zkl_claim *claim, char *data);
/* The list of the permits, asked for by zkl_send_leases or by the watch. */
void zkl_permits_listed(zkl_claim *claim, const zkl_request *request, int rc, const struct String_vector *names,
                        const struct Stat *stat);
void zkl_permits_limit_got(zkl_request *request, int rc, const char *data, int length, const struct Stat *stat);
void zkl_permits_limit_set(zkl_request *request, int rc, const struct Stat *stat);

/* contenders.c ----------------------------------------------------------------------------------------------------- */

/* One question who holds and waits for a path. */
struct zkl_query {
    LIST_ENTRY(zkl_query) all;
    zkl_engine *engine;
    char *path;
    zkl_contenders_fn done;
    void *user;
    bool identities;
    bool sent;
    bool lost; /* with its connection */
    bool answered;
    int32_t count;
    int32_t next;   /* who is asked next, once the list is in */
    int32_t flying; /* of these questions */
    zkl_contender *contenders;
};

void zkl_query_listed(zkl_request *request, int rc, const struct String_vector *names);
void zkl_query_got(zkl_request *request, int rc, const char *data, int length);
/* Answers all that are pending with `code`. */
void zkl_queries_fail(zkl_engine *engine, zkl_code code, const char *message);
/* Sends what was asked for while requests could not go out. */
void zkl_queries_resume(zkl_engine *engine);

/* operation.c ------------------------------------------------------------------------------------------------------ */

/* What a reply brings; what does not belong to its kind is empty. */
typedef struct {
    const char *data;
    int32_t length;
    const char *path;
    const struct String_vector *names;
    const struct Stat *stat;
} zkl_reply;

void zkl_operation_landed(zkl_request *request, int rc, const zkl_reply *reply);
/* Sends those that wait, as far as they may go out. */
void zkl_operations_feed(zkl_engine *engine);
/* Whether zkl_operations_feed has something to do. */
bool zkl_operations_due(const zkl_engine *engine);
/* None goes out until zkl_try_later's time has come. */
void zkl_operations_pause(zkl_engine *engine);
/* Answers all that are pending with `code`. */
void zkl_operations_fail(zkl_engine *engine, zkl_code code, const char *message);
void zkl_operations_free(zkl_engine *engine);

/* user_watch.c ----------------------------------------------------------------------------------------------------- */

/* Whether another watched path still fits under ZKL_MAX_WATCHED_BYTES. */
bool zkl_user_watch_fits(const zkl_engine *engine, const char *path);
/* NULL when memory is short. Belongs to the caller until zkl_user_watch_leave. */
zkl_user_watch *zkl_user_watch_new(zkl_engine *engine, const char *path, bool children,
                                   void (*fired)(void *user, zkl_node_event event, zkl_code code), void *user);
/* The read that arms it goes out. */
void zkl_user_watch_arming(zkl_user_watch *watch);
/* That read was answered: whether the C client holds the watch now. */
void zkl_user_watch_armed(zkl_user_watch *watch, bool armed);
/* Nobody is interested any more. Not while the read that arms it is in flight. */
void zkl_user_watch_leave(zkl_user_watch *watch);
/* The C client's watcher function. */
void zkl_user_watch_event(zhandle_t *handle, int type, int state, const char *path, void *context);
void zkl_user_watch_removed(zkl_request *request, int rc);
/* Whether the program waits for such a watch on a node itself: then watch.c must not remove its own there. */
bool zkl_user_watch_wanted(const zkl_engine *engine, const char *path, bool children);
/* All watches of one kind on a node were removed, those included that the program does not want any more. */
void zkl_user_watches_forgotten(zkl_engine *engine, const char *path, bool children);
/* Requests may go out again: remove what could not be removed. */
void zkl_user_watches_resume(zkl_engine *engine);
/* None of those that are armed will fire any more; their owners are told why. */
void zkl_user_watches_end(zkl_engine *engine, zkl_code code);
/* The handle is closed: nobody will call back. */
void zkl_user_watches_closed(zkl_engine *engine);

#endif
