/*
 * engine: the lock protocol as an event-driven machine.
 *
 * Knows no Lua, no threads and no clock: whoever drives it calls it from one thread at a time and tells it what time it is.
 * csrc/client.c drives it from an I/O thread with real sockets; spec/simulation/ drives the same objects against a simulated
 * ZooKeeper and a simulated clock.
 *
 * Two things are kept apart. A *claim* is one acquisition that somebody asked for. A *seat* is one znode. The engine decides
 * which seat serves which claim. What it promises is written in docs/design.md, and so is the table of a seat's states.
 *
 * All times are nanoseconds of one clock that never goes back and counts suspended time (CLOCK_BOOTTIME).
 * All functions: the driver's thread only. All strings given in are copied.
 */
#ifndef ZKLOCK_ENGINE_H
#define ZKLOCK_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zookeeper/zookeeper.h>

#include "queue.h"

#define ZKL_SECOND INT64_C(1000000000)
#define ZKL_NEVER INT64_MAX

typedef struct zkl_engine zkl_engine;
typedef struct zkl_claim zkl_claim;

/* Why something did not work out. The names that Lua sees are in zkl_code_name. */
typedef enum {
    ZKL_OK = 0,
    ZKL_TIMEOUT,
    ZKL_DISCONNECTED,
    ZKL_LOST,
    ZKL_NOT_HELD,
    ZKL_DEADLOCK,
    ZKL_CANCELLED,
    ZKL_CLOSED,
    ZKL_NO_AUTH,
    ZKL_AUTH_FAILED,
    ZKL_EXHAUSTED,
    ZKL_FORKED,
    ZKL_PHASE,
    ZKL_UNSUPPORTED,
    ZKL_NO_NODE,  /* the chroot of the connection string does not exist, or what an operation is about */
    ZKL_FAILED,   /* anything else that ZooKeeper or the system said */
    ZKL_MISMATCH, /* the semaphore was made for another number of permits */
    ZKL_MAX_HOLD, /* held for as long as its owner wanted it at most */
    ZKL_NODE_EXISTS,
    ZKL_BAD_VERSION,
    ZKL_NOT_EMPTY
} zkl_code;

const char *zkl_code_name(zkl_code code);

/* In place of a message for which there was no memory. */
#define ZKL_UNSAID "there was no memory to say why"

/* What the client as a whole is doing. */
typedef enum {
    ZKL_STATE_CONNECTING = 0, /* no session yet, or a new one after an expiry */
    ZKL_STATE_CONNECTED,
    ZKL_STATE_SUSPENDED, /* the session may live, the connection does not */
    ZKL_STATE_CLOSED,
    ZKL_STATE_AUTH_FAILED /* final: ZooKeeper refused the credentials */
} zkl_state;

const char *zkl_state_name(zkl_state state);

typedef enum {
    ZKL_CLAIM_WAITING = 0,
    ZKL_CLAIM_GRANTED,
    ZKL_CLAIM_LOST,    /* was granted, is not any more, for good; the code says why */
    ZKL_CLAIM_REFUSED, /* never granted and never will be; the code says why */
    ZKL_CLAIM_RELEASED /* given back by its owner; the code says so if that could not be done, or came too late (ZKL_LOST) */
} zkl_claim_phase;

const char *zkl_claim_phase_name(zkl_claim_phase phase);

/* A fencing token. Grants of conflicting locks on one path are ordered by `number`, then by `grants`. */
typedef struct {
    int64_t number; /* the node's czxid, or 0 where there is no token */
    int32_t grants; /* how many grants that node has served before */
} zkl_token;

/* The digits of each part in a token's text: those of INT64_MAX, and those of INT32_MAX. */
#define ZKL_TOKEN_NUMBER_DIGITS 19
#define ZKL_TOKEN_GRANTS_DIGITS 10

/* Room for a token's text: both parts, a hyphen between them, and a NUL. */
#define ZKL_TOKEN_SIZE (ZKL_TOKEN_NUMBER_DIGITS + 1 + ZKL_TOKEN_GRANTS_DIGITS + 1)

#define ZKL_WAIT_BUCKETS 16

/* What zkl_stats counts, since the engine was made. */
typedef struct {
    int64_t requests;      /* sent to ZooKeeper, of any kind */
    int64_t heartbeats;    /* of those, what only keeps lease and session: quorum writes, looks at nodes, idle reads */
    int64_t notifications; /* watch events received */
    int64_t claims;        /* acquisitions asked for */
    int64_t grants;
    int64_t refusals;         /* claims that ended without a grant */
    int64_t hand_overs;       /* of the grants, those that needed no request */
    int64_t losses;           /* grants that ended without a release, or before it: their node was gone */
    int64_t unknown_outcomes; /* creates and deletes whose reply was lost */
    int64_t connections;      /* times that a connection was established */
    int64_t sessions;         /* times that a new session was established */
    int64_t seats;            /* znodes that exist or may exist now */
    int64_t watches;          /* watches armed or being armed now */
    int64_t waited;           /* nanoseconds from claim to grant, of all grants */
    int64_t waits
        [ZKL_WAIT_BUCKETS]; /* grants that took no longer than zkl_wait_bounds says, and longer than the one before */
} zkl_stats;

/* Nanoseconds; the last is ZKL_NEVER. */
extern const int64_t zkl_wait_bounds[ZKL_WAIT_BUCKETS];

/* One credential for zoo_add_auth. */
typedef struct {
    const char *scheme;
    const char *credential;
    int32_t credential_length;
} zkl_auth;

/*
 * What the engine tells its driver, always from inside one of the engine's own functions; the callee must not call the
 * engine back, except for the accessors of the claim at hand.
 */
typedef struct {
    void *context;
    /* The claim's phase changed, zkl_claim_settled became true, or it waits for another node than before. */
    void (*claim_changed)(void *context, zkl_claim *claim);
    /*
     * Grants are valid while the clock is below `valid_until` (ZKL_NEVER without a lease, 0 while there is none). When a
     * lapsed lease begins anew, the claims that lapsed with it have been reported lost before.
     */
    void (*lease_changed)(void *context, int64_t valid_until);
    /* The client's state, or its problem, changed. `problem` says what stands in the way ("" if nothing). */
    void (*state_changed)(void *context, zkl_state state, zkl_code code, const char *problem);
    /* A line for the log; level is one of the C client's ZOO_LOG_LEVEL_*. */
    void (*log)(void *context, int level, const char *message);
    /* A request is about to be handed to the C client, which sends it at once if it can. NULL: nobody wants to know. */
    void (*sending)(void *context);
    /* The C client has taken the request, or has refused it. Comes once after each `sending`. NULL: nobody wants to know. */
    void (*sent)(void *context);
} zkl_host;

typedef struct {
    const char *servers;        /* "h1:2181,h2:2181/chroot" */
    int32_t session_timeout_ms; /* asked for; the server decides */
    bool lease;                 /* false: trust the server's word alone */
    const zkl_auth *auths;
    int32_t auth_count;
    log_callback_fn zookeeper_log; /* where the C client's own lines go */
    uint64_t random[2]; /* makes this engine's uuids its own; from getrandom, or from the simulation's seed */
} zkl_engine_config;

/* What an acquisition is of. */
typedef enum {
    ZKL_MODE_MUTEX = 0,
    ZKL_MODE_READ, /* of a read/write lock */
    ZKL_MODE_WRITE,
    ZKL_MODE_PERMITS /* some permits of a semaphore */
} zkl_mode;

/* Permits that one acquisition can ask for: each is a node. */
#define ZKL_MAX_COUNT 1000

/* What a lock is, for all of its acquisitions. */
typedef struct {
    const char *path;     /* the lock's directory: absolute, valid (zkl_path_problem) */
    const char *identity; /* data of the node */
    const struct ACL_vector *acl;
    int64_t max_hold; /* a grant ends by itself after so many nanoseconds; 0: it does not */
    int64_t linger;  /* a released node stays for so many nanoseconds, for other claims of the client; 0: it does not */
    int32_t handoff; /* how many claims may be served in a row by one node before others get their turn; 0: one */
    int32_t permits; /* MODE_PERMITS: what the semaphore has, 1 or more */
    zkl_mode mode;
    bool revocable; /* listen to others who ask for the lock: zkl_claim_revocations */
} zkl_lock;

/*
 * A lock's terms: a copy of all that, shared by those who need it, and constant. Any thread. NULL when memory is short; one
 * reference is the caller's.
 */
typedef struct zkl_terms zkl_terms;
zkl_terms *zkl_terms_new(const zkl_lock *lock);
zkl_terms *zkl_terms_take(zkl_terms *terms);
void zkl_terms_drop(zkl_terms *terms); /* NULL is fine */
const zkl_lock *zkl_terms_lock(const zkl_terms *terms);

/* One acquisition to be. */
typedef struct {
    zkl_terms *terms;
    /*
     * MODE_READ: a MODE_WRITE claim of the same engine and path. If that is granted, the reader takes its place in the queue
     * beside it, so that no writer comes between the two (a downgrade). NULL: none.
     */
    zkl_claim *writer;
    int32_t count; /* MODE_PERMITS: what is wanted of them, 1 to `permits`, ZKL_MAX_COUNT at most */
    bool try_only; /* refuse with ZKL_TIMEOUT instead of waiting, having written nothing if somebody is ahead */
    bool hasty;    /* with try_only: join first and look afterwards; refused, it gives back what it wrote */
} zkl_claim_request;

/* NULL when memory is short. Nothing is sent before the first zkl_engine_prepare. */
zkl_engine *zkl_engine_new(const zkl_engine_config *config, const zkl_host *host);

/* Closes the session if it is still open (zkl_engine_shut_down) and frees everything, claims included. */
void zkl_engine_free(zkl_engine *engine);

/* What the driver should wait for before it calls zkl_engine_process. */
typedef struct {
    int fd;          /* -1: nothing to poll */
    short events;    /* POLLIN | POLLOUT */
    int64_t wake_at; /* call again at this instant at the latest */
    bool spoilt;     /* this connection must not be used: shut its socket down first; true once a connection */
} zkl_poll;

/*
 * Opens or reopens the session where one is wanted, runs what is due, and says what to wait for. Name resolution happens in
 * here and may block. Call before every poll.
 */
void zkl_engine_prepare(zkl_engine *engine, int64_t now, zkl_poll *poll);

/*
 * Between two turns of its own the driver may let another thread call zkl_engine_claim, zkl_claim_end and their like, one
 * thread at a time, if this says so: nothing that they do will block then. Afterwards zkl_engine_wants_turn says whether what
 * they did needs the driver before `sleeping_until`.
 */
bool zkl_engine_may_call(const zkl_engine *engine);
bool zkl_engine_wants_turn(const zkl_engine *engine, int64_t sleeping_until);

/* Takes what the poll found: `revents` of the fd that zkl_engine_prepare gave (0 on a timeout). */
void zkl_engine_process(zkl_engine *engine, int64_t now, short revents);

/*
 * Queues a claim. The returned object stays valid until zkl_claim_forget. NULL when memory is short.
 * `user` is for the driver: zkl_claim_user gives it back.
 */
zkl_claim *zkl_engine_claim(zkl_engine *engine, const zkl_claim_request *request, void *user, int64_t now);

/* Gives up a claim in any phase: a granted one is released, a waiting one is refused with `code`. Twice is harmless. */
void zkl_claim_end(zkl_claim *claim, zkl_code code, int64_t now);

/*
 * A granted claim whose lease, or max_hold, another thread has seen to be over: it is lost from now on. `now` is a reading of the clock
 * from after that, so that the reason is known.
 */
void zkl_claim_lapsed(zkl_claim *claim, int64_t now);

/* The driver will never use the claim again; ends it if need be, and frees it when nothing of it is left on the server. */
void zkl_claim_forget(zkl_claim *claim, int64_t now);

zkl_claim_phase zkl_claim_get_phase(const zkl_claim *claim);
/* Nothing of a claim that has ended is left on the server, or its session is over. */
bool zkl_claim_settled(const zkl_claim *claim);
zkl_code zkl_claim_code(const zkl_claim *claim);
/* What was tried, where, and what ZooKeeper said; "" while all is well. */
const char *zkl_claim_message(const zkl_claim *claim);
/* The fencing token as a number and how often its node was handed over before; both 0 before the grant. */
zkl_token zkl_claim_token(const zkl_claim *claim);
/*
 * Writes a token as text: both parts in decimal, with leading zeros, and a hyphen between them; "" for no token. The order of
 * the texts is that of the tokens, by bytes and by strcoll in every locale. Letters could not be used: "aa" comes after "z" in
 * Danish. The hyphen always stands at the same place, so it decides nothing, also where a locale ignores punctuation.
 */
void zkl_token_format(zkl_token token, char text[ZKL_TOKEN_SIZE]);
/* Full path of the claim's znode, NULL while it has none. */
const char *zkl_claim_node(const zkl_claim *claim);
/*
 * All znodes by which a granted claim of several permits holds: of each what stands behind the claim's path and its '/', ended by
 * a NUL, the last one by another NUL; to be given to zkl_free. NULL when memory is short, and for any other claim, which holds by
 * zkl_claim_node alone. They stay the same for as long as it holds.
 */
char *zkl_claim_nodes(const zkl_claim *claim);
const char *zkl_claim_path(const zkl_claim *claim);
/* Full path of the node that it waits for, NULL if it waits for none now. */
const char *zkl_claim_blocker(const zkl_claim *claim);
/* It waits for another claim of this engine, or holds beside one, whose node serves it too. */
bool zkl_claim_behind(const zkl_claim *claim);
void *zkl_claim_user(const zkl_claim *claim);
/* The instant at which its grant ends by itself; ZKL_NEVER if it does not. */
int64_t zkl_claim_hold_until(const zkl_claim *claim);
/* What whoever wants the lock writes into its holder's node; Curator's Revoker writes the same. */
#define ZKL_REVOKE "__REVOKE__"

/* How often others have asked for it to be released, while it was granted; Curator's revocation. */
int32_t zkl_claim_revocations(const zkl_claim *claim);

/* One contender of a path, as zkl_engine_contenders reports it. Valid during the callback only. */
typedef struct {
    const char *node; /* full path */
    const char *identity;
    int32_t identity_length;
    zkl_node_kind kind;
    int32_t sequence;
    bool holder; /* nobody before it stands in its way */
} zkl_contender;

/* `code` is ZKL_OK, or says why there is no list. `contenders` are in queue order. Called exactly once a request. */
typedef void (*zkl_contenders_fn)(void *user, zkl_code code, const char *message, const zkl_contender *contenders,
                                  int32_t count);

/*
 * Lists who holds and waits in the directory `path`; `identities`: and who that is, which costs a request for each. False when
 * memory is short (then `done` is not called).
 */
bool zkl_engine_contenders(zkl_engine *engine, const char *path, bool identities, zkl_contenders_fn done, void *user,
                           int64_t now);

/* --- operations: single requests of the program's own -------------------------------------------------------------- */

typedef struct zkl_operation zkl_operation;

typedef enum {
    ZKL_OPERATION_GET,
    ZKL_OPERATION_SET,
    ZKL_OPERATION_CREATE,
    ZKL_OPERATION_DELETE,
    ZKL_OPERATION_EXISTS,
    ZKL_OPERATION_CHILDREN,
    ZKL_OPERATION_SYNC,
    ZKL_OPERATION_CHECK, /* of the version; only as a part of a multi */
    ZKL_OPERATION_MULTI  /* all parts or none: CREATE, SET, DELETE, CHECK */
} zkl_operation_kind;

/* What happened to the node that a watch stands on. */
typedef enum {
    ZKL_EVENT_NONE,
    ZKL_EVENT_CREATED,
    ZKL_EVENT_DELETED,
    ZKL_EVENT_CHANGED,
    ZKL_EVENT_CHILD /* its children changed */
} zkl_node_event;

/* Room for the message of any answer. */
#define ZKL_OPERATION_MESSAGE_SIZE 512

typedef struct zkl_operation_request {
    zkl_operation_kind kind;
    int32_t version;  /* SET, DELETE, CHECK: -1 for any */
    const char *path; /* valid (zkl_node_path_problem) */
    const char *data; /* SET, CREATE: NULL for none */
    int32_t data_length;
    int32_t flags;                             /* CREATE: ZOO_PERSISTENT and its kin */
    const struct ACL_vector *acl;              /* CREATE */
    const struct zkl_operation_request *parts; /* MULTI */
    int32_t part_count;
    bool watch; /* GET, EXISTS, CHILDREN */
} zkl_operation_request;

/* What came of one part of a multi that was executed. */
typedef struct {
    zkl_operation_kind kind;
    char *path;       /* CREATE: of the new node */
    struct Stat stat; /* SET */
} zkl_part_result;

typedef struct {
    zkl_operation_kind kind;
    bool has_stat; /* GET, SET, CREATE, CHILDREN; EXISTS: whether there is such a node */
    bool watching; /* the watch that was asked for is armed */
    struct Stat stat;
    char *data; /* GET; "" for a node without any */
    int32_t data_length;
    char *path;   /* CREATE: of the new node */
    char **names; /* CHILDREN */
    int32_t name_count;
    zkl_part_result *parts; /* MULTI */
    int32_t part_count;
} zkl_operation_result;

/* Called from inside any of the engine's functions; they must not call the engine back. */
typedef struct {
    /*
     * At most once an operation, and not after zkl_operation_cancel. `result` is the callee's from now on
     * (zkl_operation_result_free), NULL unless `code` is ZKL_OK. `failed_part` is the index of the part for which a multi
     * failed, or -1.
     */
    void (*done)(void *user, zkl_code code, const char *message, zkl_operation_result *result, int32_t failed_part);
    /*
     * At most once, after `done`, and not after zkl_operation_cancel: the watch has fired; or, with ZKL_EVENT_NONE, never
     * will, since the session is over (ZKL_LOST) or the client closed (ZKL_CLOSED).
     */
    void (*fired)(void *user, zkl_node_event event, zkl_code code);
} zkl_operation_host;

/* A deep copy of the request, to be given to an engine or forgotten. NULL when memory is short. Any thread. */
zkl_operation *zkl_operation_new(const zkl_operation_request *request);
/* Sends it, now or when requests may go out. `host` is not copied. */
void zkl_engine_operate(zkl_engine *engine, zkl_operation *operation, const zkl_operation_host *host, void *user,
                        int64_t now);
/* Nobody waits for the answer, or for the watch, any more. What was not sent yet never will be. Twice is harmless. */
void zkl_operation_cancel(zkl_operation *operation, int64_t now);
/* The driver will never use it again: cancels it if need be, and frees it as soon as possible. */
void zkl_operation_forget(zkl_operation *operation, int64_t now);
/* NULL is allowed. Any thread. */
void zkl_operation_result_free(zkl_operation_result *result);

/*
 * Begins the end: every claim ends with ZKL_CLOSED, nothing new is accepted. The driver goes on with prepare and process
 * until zkl_engine_drained, or until it loses patience, and then calls zkl_engine_shut_down.
 */
void zkl_engine_close(zkl_engine *engine, int64_t now);
/* After zkl_engine_close: nothing is in flight any more. Before: no clean-up is in flight (what client:flush waits for). */
bool zkl_engine_drained(const zkl_engine *engine);
/* Says goodbye to the server if connected, which frees what the session holds; may take as long as zookeeper_close does. */
void zkl_engine_shut_down(zkl_engine *engine, int64_t now);

const zkl_stats *zkl_engine_stats(const zkl_engine *engine);
/* The negotiated session timeout in milliseconds, 0 before there was one. */
int32_t zkl_engine_session_timeout(const zkl_engine *engine);

/* A deep copy; false when memory is short, and then zkl_acl_free is still due. Any thread. */
bool zkl_acl_copy(struct ACL_vector *copy, const struct ACL_vector *acl);
/* Frees what zkl_acl_copy made, and leaves it empty. Any thread. */
void zkl_acl_free(struct ACL_vector *acl);

/*
 * Bytes of a path, at most. A server hangs up at a packet of more than jute.maxbuffer, 1 MB by default. Of a lock's path, and of a
 * chroot, some go into one packet: both of them twice into the request that makes a reader of a writer, with the nodes' names,
 * identity and acl, and those of all who wait into the one that sets their watches anew after a reconnect. A path that the program
 * itself reads or writes is in its request once, behind the chroot.
 */
#define ZKL_LONGEST_LOCK_PATH 32768
#define ZKL_LONGEST_PATH 900000

/* NULL if `path` (of `length` bytes) can name a lock's directory, or a chroot; else what is wrong with it, for a person. */
const char *zkl_path_problem(const char *path, size_t length);
/* The same for a path that names any node, "/" and those below "/zookeeper" included. */
const char *zkl_node_path_problem(const char *path, size_t length);

/* See ZKL_MAX_WATCHED_BYTES. */
#define ZKL_USUAL_WATCHED_BYTES (INT64_C(700) * 1024)

#ifdef ZKL_BREAKABLE
/* The simulation's switches: each breaks one rule of the protocol, to show that the checks notice. */
typedef enum {
    ZKL_BREAK_LEASE = 0,   /* grant and hold without regard to the lease */
    ZKL_BREAK_AHEAD,       /* trust one deletion: grant when the watched node goes */
    ZKL_BREAK_RECOVERY,    /* after a lost reply create again without looking */
    ZKL_BREAK_PAIRING,     /* use a list even if its create failed or ran on another connection */
    ZKL_BREAK_CLEANUP,     /* do not retry a delete whose outcome is unknown */
    ZKL_BREAK_OWNER,       /* keep a grant over the end of its session */
    ZKL_BREAK_WATCH,       /* leave watches behind when a waiter goes */
    ZKL_BREAK_REARM,       /* forget to look again after a reconnect or a changed node */
    ZKL_BREAK_TOKEN,       /* make tokens from the sequence number */
    ZKL_BREAK_LISTED,      /* grant although the own node is not listed */
    ZKL_BREAK_RESTART,     /* take a quorum write for a restart of the session's timer */
    ZKL_BREAK_TRY,         /* try by joining the queue */
    ZKL_BREAK_LAPSE,       /* let a grant live on under a lease that began anew */
    ZKL_BREAK_ARRIVAL,     /* take a request for heard by the follower when it was sent */
    ZKL_BREAK_TWICE,       /* take one request for heard by the follower that may miss it in its report */
    ZKL_BREAK_PINGED,      /* take the follower for pinged by the leader as soon as it has heard of us */
    ZKL_BREAK_REPORTED,    /* take a ping for answered by a report though nothing shows that the follower has it */
    ZKL_BREAK_REACHED,     /* take a report that was sent for one that has arrived */
    ZKL_BREAK_CHAIN,       /* take a report for effective though the session's time may have been over before */
    ZKL_BREAK_ENDED,       /* after a break of the chain believe the next quorum write at once */
    ZKL_BREAK_THROTTLED,   /* take the answer to a throttled request for one of the leader's */
    ZKL_BREAK_LEAST,       /* take the present connection's session timeout for the leader's */
    ZKL_BREAK_READERS,     /* let a writer pass readers */
    ZKL_BREAK_DOWNGRADE,   /* downgrade by a node at the end of the queue */
    ZKL_BREAK_WRITER,      /* downgrade without checking that the writer's node is there */
    ZKL_BREAK_PERMITS,     /* take permits on the list from before they were taken */
    ZKL_BREAK_TURN,        /* keep permits that were taken out of turn */
    ZKL_BREAK_LIMIT,       /* do not look for how many permits the semaphore was made */
    ZKL_BREAK_HOLD,        /* hold beyond max_hold */
    ZKL_BREAK_SHARE,       /* let all claims of a seat hold together */
    ZKL_BREAK_RELEASED,    /* hand over what was not released */
    ZKL_BREAK_LINGER,      /* linger although others have come */
    ZKL_BREAK_HANDOFF,     /* hand over as often as it comes */
    ZKL_BREAK_ALONE,       /* hand over as if alone although others have come */
    ZKL_BREAK_GRANTS,      /* let a node serve more grants than a token can count */
    ZKL_BREAK_FOLLOW,      /* take the number after our own for proof, whatever happened in between */
    ZKL_BREAK_IMPOSTOR,    /* take any node of the name for one's own */
    ZKL_BREAK_STRAYS,      /* leave nodes of one's own alone that no claim knows */
    ZKL_BREAK_SEARCH,      /* look for such permits only where one's own turn has come */
    ZKL_BREAK_ONCE,        /* delete what no claim knows once, and forget it then */
    ZKL_BREAK_LOST_WRITER, /* grant a reader beside another node of its writer's name */
    ZKL_BREAK_LEFTOVERS,   /* go on with what a connection lost in silence has left */
    ZKL_BREAK_FORESEE,     /* take the node that was foreseen for the only one */
    ZKL_BREAK_REPEATED,    /* take the answer to a repeated delete for proof that somebody else has deleted the node */
    ZKL_BREAK_EVICTED,     /* take a heartbeat for proof though somebody has deleted the node, and hold on */
    ZKL_BREAK_TOGETHER,    /* let readers that come later share the turn of those who have waited together */
    ZKL_BREAK_REFUSAL,     /* take the refusal of credentials that were accepted before for final */
    ZKL_BREAK_UNREADABLE,  /* go on looking at a node that may not be read */
    ZKL_BREAK_OUTLIVED, /* keep what was concluded about a directory over the end of the connection and of the session */
    ZKL_BREAK_AGE       /* believe it at any age */
} zkl_broken_rule;
/* The set of those that are broken, 1 << rule. */
extern uint64_t zkl_broken_rules;
/* ZKL_MAX_IN_FLIGHT, for the simulation to reach. */
extern int32_t zkl_most_in_flight;
/* The engine's belief: the leader restarted the session's timer at the returned instant or later, to run for `timeout`. */
int64_t zkl_engine_restarted_at(const zkl_engine *engine, int64_t *timeout);
/* ZKL_MAX_GRANTS, for the simulation to reach. */
extern int32_t zkl_most_grants;
/* ZKL_MAX_WATCHED_BYTES, likewise. */
extern int64_t zkl_most_watched_bytes;
#define ZKL_BROKEN(rule) ((zkl_broken_rules >> (rule)&1) != 0)
#else
#define ZKL_BROKEN(rule) false
#endif

#endif
