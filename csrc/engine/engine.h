/*
 * engine: the lock protocol as an event-driven machine.
 *
 * The engine uses no Lua, no threads and no clock. Its driver calls it from one thread at a time and passes the current
 * time. csrc/client/client.c drives it from an I/O thread with real sockets. spec/simulation/ drives the same objects against
 * a simulated ZooKeeper and a simulated clock.
 *
 * An *acquisition* is one request for a lock. An *entry* is one znode. The engine decides which entry serves which
 * acquisition. docs/design.md says what the engine promises, and has the table of an entry's states.
 *
 * All times are nanoseconds of one clock that never goes back and that counts suspended time (CLOCK_BOOTTIME). All
 * functions are for the driver's thread only, unless their comment says otherwise. All strings passed in are copied.
 */
#ifndef ZKLOCK_ENGINE_H
#define ZKLOCK_ENGINE_H

#include "base/base.h"
#include "lock/names.h"

typedef struct zkl_engine zkl_engine;
typedef struct zkl_acquisition zkl_acquisition;

/* The state of the client as a whole. */
typedef enum {
    ZKL_STATE_CONNECTING = 0, /* no session yet, or the next one after the end of a session */
    ZKL_STATE_CONNECTED,
    ZKL_STATE_SUSPENDED, /* the connection is lost; the session may still exist */
    ZKL_STATE_CLOSED,
    ZKL_STATE_AUTH_FAILED /* final: ZooKeeper refused the credentials */
} zkl_state;

const char *zkl_state_name(zkl_state state);

typedef enum {
    ZKL_ACQUISITION_WAITING = 0,
    ZKL_ACQUISITION_GRANTED,
    ZKL_ACQUISITION_LOST,    /* the grant has ended for good without a release; the code says why */
    ZKL_ACQUISITION_REFUSED, /* never granted, and never will be; the code says why */
    /* Released by its owner; the code says so if the delete was refused, or if the node was already gone (ZKL_LOST). */
    ZKL_ACQUISITION_RELEASED
} zkl_acquisition_phase;

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

#define ZKL_WAIT_BUCKETS 16

/* Counters since the engine was made, except the numbers of entries and of watches, which are present values. */
typedef struct {
    int64_t requests; /* requests of any kind that were sent to ZooKeeper */
    /* Requests that only keep lease and session: quorum writes, syncs, probes, verifications of nodes. */
    int64_t heartbeats;
    int64_t notifications; /* watch events received */
    int64_t claims;        /* acquisitions requested */
    int64_t grants;
    int64_t refusals;         /* acquisitions that ended without a grant */
    int64_t hand_overs;       /* grants that needed no request */
    int64_t losses;           /* grants that ended without a release, or whose node was already gone at the release */
    int64_t unknown_outcomes; /* writes whose outcome is unknown: creates, deletes, and the program's own */
    int64_t connections;      /* connections established */
    int64_t sessions;         /* sessions established */
    int64_t seats;            /* entries now: znodes that are wanted, exist, or may exist */
    int64_t watches;          /* watches that are armed or being armed now */
    int64_t waited;           /* nanoseconds from request to grant, summed over all grants */
    /* waits[i] counts the grants whose wait was at most zkl_wait_bounds[i], and above zkl_wait_bounds[i - 1]. */
    int64_t waits[ZKL_WAIT_BUCKETS];
} zkl_stats;

/* The upper bounds of the buckets in nanoseconds, ascending. The last one is ZKL_NEVER. */
extern const int64_t zkl_wait_bounds[ZKL_WAIT_BUCKETS];

/* One credential for zoo_add_auth. */
typedef struct {
    const char *scheme;
    const char *credential;
    int32_t credential_length;
} zkl_auth;

/*
 * The engine's calls to its driver, always made from inside the engine's own functions. A callback must not call the
 * engine, except for the accessors of the acquisition it is given.
 */
typedef struct {
    void *context;
    /* The acquisition changed: its phase, code, revocations, or the node it waits for; or zkl_acquisition_settled became true. */
    void (*acquisition_changed)(void *context, zkl_acquisition *acquisition);
    /*
     * Grants are valid while the clock is below `valid_until`: ZKL_NEVER if leases are turned off, 0 while there is no
     * lease. Before a lapsed lease begins anew, the acquisitions that lapsed with it have been reported lost.
     */
    void (*lease_changed)(void *context, int64_t valid_until);
    /* The client's state or its problem changed. `problem` says what is wrong, "" if nothing is. */
    void (*state_changed)(void *context, zkl_state state, zkl_code code, const char *problem);
    /* A line for the log. `level` is one of the C client's ZOO_LOG_LEVEL_*. */
    void (*log)(void *context, int level, const char *message);
    /* A request is about to be passed to the C client, which sends it at once if it can. NULL: not wanted. */
    void (*sending)(void *context);
    /* The C client has accepted or refused the request. Called once after each `sending`. NULL: not wanted. */
    void (*sent)(void *context);
} zkl_host;

typedef struct {
    const char *servers;        /* "h1:2181,h2:2181/chroot" */
    int32_t session_timeout_ms; /* requested; the server decides */
    bool lease;                 /* false: a grant needs no lease, and lasts until the end of the session is known */
    const zkl_auth *auths;
    int32_t auth_count;
    log_callback_fn zookeeper_log; /* receives the C client's own log lines */
    uint64_t random[2]; /* makes the uuids of this engine unique; from getrandom, or from the simulation's seed */
} zkl_engine_config;

/* The kind of lock that is acquired. */
typedef enum {
    ZKL_MODE_MUTEX = 0,
    ZKL_MODE_READ, /* of a read/write lock */
    ZKL_MODE_WRITE,
    ZKL_MODE_PERMITS /* permits of a semaphore */
} zkl_mode;

/* The most permits that one acquisition can request: each of them is a node. */
#define ZKL_MAX_COUNT 1000

/* The settings of a lock, the same for all of its acquisitions. */
typedef struct {
    const char *path;     /* the lock's directory: absolute, valid (zkl_path_problem) */
    const char *identity; /* data of the lock's nodes */
    const struct ACL_vector *acl;
    int64_t max_hold; /* a grant ends by itself after so many nanoseconds; 0: it does not */
    /* A released node stays for so many nanoseconds, for later acquisitions of this client; 0: it does not. */
    int64_t linger;
    /* How many turns in a row a node may serve after its first one, before others get theirs; 0: none. */
    int32_t handoff;
    int32_t permits; /* MODE_PERMITS: how many the semaphore has, 1 or more */
    zkl_mode mode;
    bool revocable; /* watch for requests to release the lock: zkl_acquisition_revocations */
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
    /*
     * MODE_READ: a MODE_WRITE acquisition of the same engine and path, or NULL. If it is granted, the reader's entry
     * takes the writer's place in the queue, so that no other writer comes between the two (a downgrade).
     */
    zkl_acquisition *writer;
    int32_t count;   /* MODE_PERMITS: how many are wanted, 1 to `permits`, ZKL_MAX_COUNT at most */
    bool try_only;   /* refuse with ZKL_TIMEOUT instead of waiting; nothing is written if another contender is ahead */
    bool optimistic; /* with try_only: join first and look afterwards (optimistic); a refused try deletes its node */
} zkl_acquisition_request;

/*
 * Returns a new engine, or NULL when memory is short. Copies `config` and `host`. Sends nothing before the first
 * zkl_engine_prepare.
 */
zkl_engine *zkl_engine_new(const zkl_engine_config *config, const zkl_host *host);

/* Closes the session if it is still open (zkl_engine_shut_down), and frees everything, acquisitions included. */
void zkl_engine_free(zkl_engine *engine);

/* The events that the driver should wait for before it calls zkl_engine_process. */
typedef struct {
    int fd;               /* -1: nothing to poll */
    short events;         /* POLLIN | POLLOUT */
    int64_t wake_at;      /* call again at this instant at the latest */
    bool must_disconnect; /* this connection must not be used: shut its socket down first; true once per connection */
} zkl_poll;

/*
 * Opens or reopens the session where one is wanted, runs due work, and sets `poll`. Call it before every poll. Resolves
 * host names, and may therefore block.
 */
void zkl_engine_prepare(zkl_engine *engine, int64_t now, zkl_poll *poll);

/*
 * Between two turns of its own the driver may let another thread call zkl_engine_acquire, zkl_acquisition_end and the like, one
 * thread at a time, if zkl_engine_may_call returns true. None of these calls blocks then. Afterwards
 * zkl_engine_wants_turn returns whether they need the driver before `sleeping_until`.
 */
bool zkl_engine_may_call(const zkl_engine *engine);
bool zkl_engine_wants_turn(const zkl_engine *engine, int64_t sleeping_until);

/* Handles the result of the poll: `revents` of the fd that zkl_engine_prepare returned, 0 after a timeout. */
void zkl_engine_process(zkl_engine *engine, int64_t now, short revents);

/*
 * Starts an acquisition. Returns an object that stays valid until zkl_acquisition_forget, or NULL when memory is short.
 * `user` is for the driver: zkl_acquisition_user returns it.
 */
zkl_acquisition *zkl_engine_acquire(zkl_engine *engine, const zkl_acquisition_request *request, void *user,
                                    int64_t now);

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

/* Ends the acquisition if need be, and frees it when nothing of it is left on the server. The driver must not use it again. */
void zkl_acquisition_forget(zkl_acquisition *acquisition, int64_t now);

zkl_acquisition_phase zkl_acquisition_get_phase(const zkl_acquisition *acquisition);
/* Returns whether nothing of an ended acquisition is left on the server, or its session is over. */
bool zkl_acquisition_settled(const zkl_acquisition *acquisition);
zkl_code zkl_acquisition_code(const zkl_acquisition *acquisition);
/* Returns a message that says what was tried, on which path, and what ZooKeeper answered; "" while all is well. */
const char *zkl_acquisition_message(const zkl_acquisition *acquisition);
/* Returns the fencing token: the node's czxid, and how many grants the node served before. Both are 0 before the grant. */
zkl_token zkl_acquisition_token(const zkl_acquisition *acquisition);
/*
 * Writes a token as text: both parts in decimal, with leading zeros, and a hyphen between them; "" for no token. The
 * texts sort like the tokens, by bytes and by strcoll in every locale. Letters could not be used: "aa" comes after "z"
 * in Danish. The hyphen always stands at the same place, so it decides nothing, even in a locale that ignores
 * punctuation.
 */
void zkl_token_format(zkl_token token, char text[ZKL_TOKEN_SIZE]);
/* Returns the full path of the acquisition's znode, NULL while it has none. */
const char *zkl_acquisition_node(const zkl_acquisition *acquisition);
/*
 * Returns all znodes by which a granted acquisition of several permits holds. Each is the part behind the acquisition's
 * path and '/', ended by a NUL; the last one is ended by another NUL. They stay the same as long as it holds. The
 * caller gives the result to zkl_free. NULL when memory is short, and for any other acquisition, which holds by
 * zkl_acquisition_node alone.
 */
char *zkl_acquisition_nodes(const zkl_acquisition *acquisition);
const char *zkl_acquisition_path(const zkl_acquisition *acquisition);
/* Returns the full path of the node that the acquisition waits for, NULL if it waits for none now. */
const char *zkl_acquisition_blocker(const zkl_acquisition *acquisition);
/*
 * Returns true if the acquisition shares the entry of another acquisition of this engine, and waits for that one or
 * holds together with it.
 */
bool zkl_acquisition_is_sharing(const zkl_acquisition *acquisition);
void *zkl_acquisition_user(const zkl_acquisition *acquisition);
/* Returns the instant at which the grant ends by itself, ZKL_NEVER if it does not. */
int64_t zkl_acquisition_hold_until(const zkl_acquisition *acquisition);
/* The data that a contender writes into the holder's node to ask for the lock. Curator's Revoker writes the same. */
#define ZKL_REVOKE "__REVOKE__"

/* Returns how often the release has been requested while the acquisition was granted (Curator's revocation). */
int32_t zkl_acquisition_revocations(const zkl_acquisition *acquisition);

/* One contender of a path, as zkl_engine_contenders reports it. Valid during the callback only. */
typedef struct {
    const char *node; /* full path */
    const char *identity;
    int32_t identity_length;
    zkl_node_kind kind;
    int32_t sequence;
    bool holder; /* no earlier node conflicts with it */
} zkl_contender;

/*
 * Receives the result of zkl_engine_contenders, exactly once per call. `code` is ZKL_OK, or says why there is no list.
 * `contenders` are in queue order.
 */
typedef void (*zkl_contenders_fn)(void *user, zkl_code code, const char *message, const zkl_contender *contenders,
                                  int32_t count);

/*
 * Lists the holders and waiters in the directory `path`. With `identities` it also reads the identity of each, which
 * costs a request per node. Returns false when memory is short; `done` is not called then.
 */
bool zkl_engine_contenders(zkl_engine *engine, const char *path, bool identities, zkl_contenders_fn done, void *user,
                           int64_t now);

/* --- operations: the program's own requests ------------------------------------------------------------------------ */

typedef struct zkl_operation zkl_operation;

typedef enum {
    ZKL_OPERATION_GET,
    ZKL_OPERATION_SET,
    ZKL_OPERATION_CREATE,
    ZKL_OPERATION_DELETE,
    ZKL_OPERATION_EXISTS,
    ZKL_OPERATION_CHILDREN,
    ZKL_OPERATION_SYNC,
    ZKL_OPERATION_CHECK, /* compares the version; only as a part of a multi */
    ZKL_OPERATION_MULTI  /* executes all parts or none: CREATE, SET, DELETE, CHECK */
} zkl_operation_kind;

/* The event that fired a watch. */
typedef enum {
    ZKL_EVENT_NONE,
    ZKL_EVENT_CREATED,
    ZKL_EVENT_DELETED,
    ZKL_EVENT_CHANGED,
    ZKL_EVENT_CHILD /* its children changed */
} zkl_node_event;

/* The size of an answer's message, with its NUL. */
#define ZKL_OPERATION_MESSAGE_SIZE 512

typedef struct zkl_operation_request {
    zkl_operation_kind kind;
    int32_t version;  /* SET, DELETE, CHECK: -1 for any */
    const char *path; /* valid (zkl_node_path_problem) */
    const char *data; /* SET, CREATE: NULL for none */
    int32_t data_length;
    int32_t flags;                             /* CREATE: ZOO_PERSISTENT or another create mode */
    const struct ACL_vector *acl;              /* CREATE */
    const struct zkl_operation_request *parts; /* MULTI */
    int32_t part_count;
    bool watch; /* GET, EXISTS, CHILDREN */
} zkl_operation_request;

/* The result of one part of an executed multi. */
typedef struct {
    zkl_operation_kind kind;
    char *path;       /* CREATE: path of the new node */
    struct Stat stat; /* SET */
} zkl_part_result;

typedef struct {
    zkl_operation_kind kind;
    bool has_stat; /* GET, SET, CREATE, CHILDREN; EXISTS: whether the node exists */
    bool watching; /* the requested watch is armed */
    struct Stat stat;
    char *data; /* GET; "" for a node without data */
    int32_t data_length;
    char *path;   /* CREATE: path of the new node */
    char **names; /* CHILDREN */
    int32_t name_count;
    zkl_part_result *parts; /* MULTI */
    int32_t part_count;
} zkl_operation_result;

/* The callbacks of an operation, made from inside any of the engine's functions. They must not call the engine. */
typedef struct {
    /*
     * Delivers the answer: at most once per operation, and not after zkl_operation_cancel. The callee owns `result`
     * (zkl_operation_result_free), which is NULL unless `code` is ZKL_OK. `failed_part` is the index of the part for
     * which a multi failed, or -1.
     */
    void (*done)(void *user, zkl_code code, const char *message, zkl_operation_result *result, int32_t failed_part);
    /*
     * Reports the end of the watch: at most once, after `done`, and not after zkl_operation_cancel. `event` says what
     * happened to the node. ZKL_EVENT_NONE: the watch will never fire, since the session is over (`code` is ZKL_LOST)
     * or the client is closed (ZKL_CLOSED).
     */
    void (*fired)(void *user, zkl_node_event event, zkl_code code);
} zkl_operation_host;

/* Returns a deep copy of the request, for zkl_engine_operate or zkl_operation_forget. NULL when memory is short. Any thread. */
zkl_operation *zkl_operation_new(const zkl_operation_request *request);
/* Sends the operation, now or when requests may go out. `host` is not copied. */
void zkl_engine_operate(zkl_engine *engine, zkl_operation *operation, const zkl_operation_host *host, void *user,
                        int64_t now);
/*
 * Ends the operation: neither its answer nor its watch is reported any more. A request that was not sent yet is never
 * sent. A second call is harmless.
 */
void zkl_operation_cancel(zkl_operation *operation, int64_t now);
/* Cancels the operation if need be, and frees it as soon as possible. The driver must not use it again. */
void zkl_operation_forget(zkl_operation *operation, int64_t now);
/* Frees a result. NULL is allowed. Any thread. */
void zkl_operation_result_free(zkl_operation_result *result);

/*
 * Begins the end: every acquisition ends with ZKL_CLOSED, and nothing new is accepted. The driver goes on with prepare
 * and process until zkl_engine_drained, or until it will wait no longer, and then calls zkl_engine_shut_down.
 */
void zkl_engine_close(zkl_engine *engine, int64_t now);
/*
 * Returns, after zkl_engine_close, whether nothing is in flight any more. Before that: whether no clean-up is in flight
 * (client:flush waits for this).
 */
bool zkl_engine_drained(const zkl_engine *engine);
/*
 * Closes the session at the server if connected, which frees everything that the session holds. May block as long as
 * zookeeper_close does.
 */
void zkl_engine_shut_down(zkl_engine *engine, int64_t now);

const zkl_stats *zkl_engine_stats(const zkl_engine *engine);
/* Returns the negotiated session timeout in milliseconds, 0 before there was one. */
int32_t zkl_engine_session_timeout(const zkl_engine *engine);

/* See ZKL_MAX_WATCHED_BYTES. */
#define ZKL_USUAL_WATCHED_BYTES (INT64_C(700) * 1024)

#ifdef ZKL_BREAKABLE
/* The value of ZKL_MAX_IN_FLIGHT, so that the simulation can reach it. */
extern int32_t zkl_most_in_flight;
/*
 * Returns the instant at which, or after which, the leader restarted the session's timer, as the engine has concluded.
 * Stores in `timeout` for how long the timer was started.
 */
int64_t zkl_engine_restarted_at(const zkl_engine *engine, int64_t *timeout);
/* The value of ZKL_MAX_GRANTS, so that the simulation can reach it. */
extern int32_t zkl_most_grants;
/* The value of ZKL_MAX_WATCHED_BYTES, likewise. */
extern int64_t zkl_most_watched_bytes;
#endif

#endif
