/*
 * What the engine's files share with each other and with nobody else.
 *
 *   engine.c      the engine object, the public functions, claims
 *   session.c     the ZooKeeper handle, session events, the lease
 *   request.c     requests in flight: one context each, completed exactly once
 *   line.c        the lock's directory: its parents, the seats that stand in it
 *   seat.c        one znode: join, recover, queue, hold, leave
 *   watch.c       one watcher object per watched node
 *   contenders.c  who holds and waits for a path
 *   operation.c   reads and writes of the program's own
 *   user_watch.c  the watches that come with them
 *
 * Everything here runs on the driver's thread.
 */
#ifndef ZKLOCK_ENGINE_PRIVATE_H
#define ZKLOCK_ENGINE_PRIVATE_H

#include <sys/queue.h>

#include "engine.h"
#include "memory.h"

/* Requests under way at once, so that one client cannot flood a server (DESIGN: good neighbour). */
#define ZKL_MAX_IN_FLIGHT 1000

/*
 * Bytes of watched paths per handle. After a reconnect the C client sends them all in one SetWatches packet, which the
 * server drops when it is larger than jute.maxbuffer (1 MB by default), connection after connection.
 */
#define ZKL_MAX_WATCHED_BYTES (INT64_C(700) * 1024)

typedef struct zkl_line zkl_line;
typedef struct zkl_seat zkl_seat;
typedef struct zkl_watch zkl_watch;
typedef struct zkl_request zkl_request;
typedef struct zkl_query zkl_query;
typedef struct zkl_shared_acl zkl_shared_acl;
typedef struct zkl_user_watch zkl_user_watch;

TAILQ_HEAD(zkl_seat_list, zkl_seat);
TAILQ_HEAD(zkl_claim_list, zkl_claim);
TAILQ_HEAD(zkl_request_list, zkl_request);
LIST_HEAD(zkl_line_list, zkl_line);
LIST_HEAD(zkl_watch_list, zkl_watch);
LIST_HEAD(zkl_query_list, zkl_query);
LIST_HEAD(zkl_acl_list, zkl_shared_acl);
LIST_HEAD(zkl_user_watch_list, zkl_user_watch);
TAILQ_HEAD(zkl_operation_list, zkl_operation);

struct zkl_engine {
    zkl_host host;
    char *servers;
    char *hosts; /* `servers` without the chroot, for messages */
    int32_t asked_timeout_ms;
    bool lease;
    zkl_auth *auths;
    int32_t auth_count;
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
    int64_t retry_at; /* not before this instant is a session opened again */
    int64_t lease_until;
    int64_t check_at;      /* next heartbeat, or read where there is no node to check */
    int32_t checks_flying; /* of these in flight */
    bool confirming;       /* somebody is first in line and needs a lease to be granted */
    int64_t handshake_at;  /* the present connection's handshake was sent at this instant or later */
    int64_t restarted_at;  /* the leader restarted the session's timer at this instant or later */
    struct zkl_heard {     /* ring: some of the requests that were answered on this connection */
        int64_t sent_at;
        int64_t answered_at; /* its answer was here at this instant or earlier; ZKL_NEVER until that is known */
    } heard[16];
    int32_t heard_count; /* ever written */

    /* request.c */
    struct zkl_request_list flying;
    struct zkl_request_list orphans; /* refused by the C client, which may still complete them: kept till the close */
    struct zkl_request_list spare;   /* for reuse */
    int32_t in_flight;
    /* operation.c: the server refused one for now, and none goes out before delayed_until. */
    bool operations_paused;

    /* line.c */
    struct zkl_line_list *lines; /* hash table by path */
    uint32_t line_slots;         /* a power of two */
    uint32_t line_count;
    struct zkl_seat_list seats;   /* all of them */
    struct zkl_seat_list hungry;  /* those with something to send that may not go out yet, first come first served */
    struct zkl_seat_list starved; /* those that may not join before ZKL_MAX_WATCHED_BYTES has room, likewise */
    struct zkl_seat_list delayed; /* those that the server refused and that try again later */
    int64_t delayed_until;
    int32_t nodes;         /* seats that have a node on the server, as far as known */
    int32_t cleaning;      /* seats and watches whose removal is not confirmed yet */
    int64_t watched_bytes; /* reserved by seats that may have to watch, and by the program's watches */
    uint64_t serial;       /* of the latest uuid */
    char uuid_stem[ZKL_UUID_LENGTH - 12 + 1];

    /* operation.c, user_watch.c */
    struct zkl_operation_list operations_waiting; /* to be sent when requests may go out, in this order */
    struct zkl_operation_list operations;         /* under way, or answered and not forgotten */
    struct zkl_user_watch_list user_watches;
    uint64_t operation_serial; /* of the latest */
    size_t sent_bytes;         /* of operations, since zkl_engine_prepare */

    /* engine.c */
    struct zkl_claim_list claims;
    struct zkl_query_list queries;
    struct zkl_acl_list acls;
    zkl_stats stats;
};

/* engine.c: claims ------------------------------------------------------------------------------------------------- */

struct zkl_claim {
    TAILQ_ENTRY(zkl_claim) all;
    zkl_engine *engine;
    zkl_line *line;
    zkl_seat *seat; /* NULL when nothing of it is left on the server */
    char *identity;
    zkl_shared_acl *acl;
    char *message;
    void *user;
    zkl_node_kind kind;
    zkl_claim_phase phase;
    zkl_code code;
    bool try_only;
    bool forgotten;
    char token[ZKL_TOKEN_SIZE];
};

/* Ends a waiting or granted claim for good with a code and a message made like printf. Does not touch its seat. */
void zkl_claim_finish(zkl_claim *claim, zkl_claim_phase phase, zkl_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void zkl_claim_grant(zkl_claim *claim, const char *token);
/* The claim has a node and waits behind another: whoever asks may see both. */
void zkl_claim_waits(zkl_claim *claim);
/* The server refuses to delete the node of a claim that has been released. */
void zkl_claim_stuck(zkl_claim *claim, int rc, const char *node);
/* The claim's seat is gone: tells the host, frees the claim if its owner has forgotten it. */
void zkl_claim_unseated(zkl_claim *claim);

/* An access control list, shared by the claims that use the same one. */
struct zkl_shared_acl {
    LIST_ENTRY(zkl_shared_acl) all;
    int32_t uses;
    struct ACL_vector vector;
};

/* session.c -------------------------------------------------------------------------------------------------------- */

void zkl_log(zkl_engine *engine, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Requests may go out now. */
bool zkl_session_usable(const zkl_engine *engine);
/* A quorum write that was sent at `sent_at` has been acknowledged: the session lived then. */
void zkl_lease_prove(zkl_engine *engine, int64_t sent_at);
bool zkl_lease_valid(const zkl_engine *engine);
/* Somebody needs a lease to be granted under: the next heartbeat goes out at once. */
void zkl_lease_want_now(zkl_engine *engine);
/* A request that was sent at `sent_at` has been answered by the server. */
void zkl_session_heard(zkl_engine *engine, int64_t sent_at);
/* The replies of session.c's own requests. */
void zkl_session_greeted(zkl_request *request, int rc);
void zkl_lease_checked(zkl_request *request, int rc);
/* Whether the outcome of a request that ended with `rc` is unknown: it may have been executed or not. */
bool zkl_outcome_unknown(int rc);
zkl_code zkl_code_of(int rc);

/* request.c -------------------------------------------------------------------------------------------------------- */

typedef enum {
    ZKL_REQUEST_GREET,  /* exists "/": the first of a session */
    ZKL_REQUEST_CREATE, /* a seat's node */
    ZKL_REQUEST_LIST,   /* a seat's directory */
    ZKL_REQUEST_SYNC,   /* before the list that looks for a lost node */
    ZKL_REQUEST_STAT,   /* of the node that was found again */
    ZKL_REQUEST_DELETE, /* a seat's node */
    ZKL_REQUEST_STRAY,  /* delete of a node of ours that no seat knows */
    ZKL_REQUEST_PARENT, /* one directory on the way to a line */
    ZKL_REQUEST_WATCH,  /* get or exists with a watch */
    ZKL_REQUEST_UNWATCH,
    ZKL_REQUEST_CHECK,      /* heartbeat */
    ZKL_REQUEST_QUERY_LIST, /* contenders */
    ZKL_REQUEST_QUERY_GET,
    ZKL_REQUEST_OPERATION,
    ZKL_REQUEST_USER_UNWATCH
} zkl_request_kind;

/* Why a seat listed its directory; decides what its reply may be used for. */
typedef enum {
    ZKL_LIST_TRY,
    ZKL_LIST_JOIN,
    ZKL_LIST_LOOK,
    ZKL_LIST_RECOVER
} zkl_list_purpose;

struct zkl_request {
    TAILQ_ENTRY(zkl_request) all;
    zkl_engine *engine;
    zkl_request_kind kind;
    zkl_list_purpose purpose;
    uint32_t connection; /* the one it was sent on */
    uint32_t generation; /* the seat's, when it was sent */
    int64_t sent_at;
    int32_t index; /* PARENT: which directory; QUERY_GET: which contender */
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
/* The C client refused the request (`rc`), and its completion will not or should not come. Puts the context away. */
void zkl_request_refused(zkl_request *request, int rc);
/* Sends; each false when it could not, which is handled like a lost connection: nothing is known to be executed. */
bool zkl_send_create(zkl_seat *seat, const char *path, const char *data, const struct ACL_vector *acl);
bool zkl_send_list(zkl_seat *seat, zkl_list_purpose purpose);
bool zkl_send_sync(zkl_seat *seat);
bool zkl_send_stat(zkl_seat *seat);
bool zkl_send_delete(zkl_seat *seat);
bool zkl_send_stray(zkl_engine *engine, const char *path);
bool zkl_send_parent(zkl_line *line, int32_t index, const char *path, const struct ACL_vector *acl);
bool zkl_send_watch(zkl_watch *watch, bool by_exists);
bool zkl_send_unwatch(zkl_watch *watch);
bool zkl_send_greeting(zkl_engine *engine);
bool zkl_send_query_list(zkl_query *query);
bool zkl_send_query_get(zkl_query *query, int32_t index, const char *path);
/* Heartbeat over `count` operations; `checks` is given back with the reply. */
bool zkl_send_checks(zkl_engine *engine, struct zkl_checks *checks);

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
    int32_t count;
    struct zkl_check {
        zkl_seat *seat;
        uint32_t generation;
    } * items;
    zoo_op_t *ops;
    zoo_op_result_t *results;
};

/* line.c ----------------------------------------------------------------------------------------------------------- */

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
};

/* The line of `path`, with one more use; NULL when memory is short. */
zkl_line *zkl_line_take(zkl_engine *engine, const char *path);
void zkl_line_drop(zkl_line *line);
/* "<directory>/<name>", to be given to zkl_free; NULL when memory is short. */
char *zkl_child_path(const char *directory, const char *name);
bool zkl_lines_init(zkl_engine *engine);
/* Creates the directory and those above it; the seats parked here are stepped, or refused, when the replies are in. */
void zkl_line_make_parents(zkl_line *line, const struct ACL_vector *acl);
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

struct zkl_seat {
    TAILQ_ENTRY(zkl_seat) all;
    TAILQ_ENTRY(zkl_seat) in_line;
    TAILQ_ENTRY(zkl_seat) in_hungry;
    LIST_ENTRY(zkl_seat) in_watch;
    zkl_engine *engine;
    zkl_line *line;
    zkl_claim *claim; /* whom it serves, or, while leaving, served last */
    zkl_watch *watch; /* on what stands in its way */
    char *node;       /* full path, NULL while unknown */
    int64_t czxid;
    uint64_t serial;     /* its uuid's number */
    uint32_t generation; /* grows when replies to earlier requests must not count any more */
    uint32_t connection; /* the one its create was answered on, or its sync */
    int32_t sequence;
    int32_t ahead;  /* how many conflicting nodes stood before it when last looked */
    int32_t flying; /* requests in flight that point here */
    zkl_seat_state state;
    bool wanted;   /* its claim still waits or holds */
    bool hungry;   /* stands in engine->hungry */
    bool starved;  /* stands in engine->starved */
    bool delayed;  /* stands in engine->delayed */
    bool listing;  /* a list of its directory is in flight */
    bool deleting; /* the delete is in flight */
    bool reserved; /* its share of ZKL_MAX_WATCHED_BYTES is taken */
    bool cleaning; /* counted in engine->cleaning */
};

zkl_seat *zkl_seat_new(zkl_claim *claim);
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
/* Its own node is gone though nobody asked for it. */
void zkl_seat_evicted(zkl_seat *seat);
/* The session is over, and with it the node. */
void zkl_seat_session_over(zkl_seat *seat, const char *why);
/* A try cannot be answered without a connection. */
void zkl_seat_connection_lost(zkl_seat *seat);
/* A lease has begun: grant if this seat waits for it. */
void zkl_seat_confirm(zkl_seat *seat);
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
void zkl_seat_deleted(zkl_request *request, int rc);

/* The text of a seat's uuid; `uuid` has room for ZKL_UUID_LENGTH + 1. */
void zkl_seat_uuid(const zkl_seat *seat, char *uuid);

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
    int32_t flying; /* requests in flight that point here */
    bool pinned;    /* its seats are being told something: nobody frees it meanwhile */
    bool by_exists; /* the node may not be read: watched by exists */
    bool unwanted;  /* armed, nobody interested, removal not confirmed: counted in engine->cleaning */
};

/* Watches `name` in the seat's directory for it; the seat hears of it by blocker_gone or look_again. */
void zkl_watch_node(zkl_seat *seat, const char *name);
/* The seat is not interested any more. */
void zkl_watch_leave(zkl_seat *seat);
void zkl_watch_armed(zkl_request *request, int rc);
void zkl_watch_removed(zkl_request *request, int rc);
/* The C client's watcher function, for zkl_send_watch. */
void zkl_watch_event(zhandle_t *handle, int type, int state, const char *path, void *context);
/* Requests may go out again: remove what could not be removed. */
void zkl_watches_resume(zkl_engine *engine);
/* The handle is closed: nobody will call back. */
void zkl_watches_closed(zkl_engine *engine);
/* Whether a seat waits for a watch on a node, whose full path this is. */
bool zkl_watch_wanted(zkl_engine *engine, const char *path);
/* All watches on a node were removed; so was one that no seat wants any more. */
void zkl_watch_forgotten(zkl_engine *engine, const char *path);

/* contenders.c ----------------------------------------------------------------------------------------------------- */

/* One question who holds and waits for a path. */
struct zkl_query {
    LIST_ENTRY(zkl_query) all;
    zkl_engine *engine;
    char *path;
    zkl_contenders_fn done;
    void *user;
    bool sent;
    bool answered;
    int32_t count;
    int32_t left; /* replies still to come, once the list is in */
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
/* Whether the program waits for a watch on a node itself: then watch.c must not remove its own there. */
bool zkl_user_watch_wanted(const zkl_engine *engine, const char *path);
/* All watches of one kind on a node were removed, those included that the program does not want any more. */
void zkl_user_watches_forgotten(zkl_engine *engine, const char *path, bool children);
/* Requests may go out again: remove what could not be removed. */
void zkl_user_watches_resume(zkl_engine *engine);
/* None of those that are armed will fire any more; their owners are told why. */
void zkl_user_watches_end(zkl_engine *engine, zkl_code code);
/* The handle is closed: nobody will call back. */
void zkl_user_watches_closed(zkl_engine *engine);

#endif
