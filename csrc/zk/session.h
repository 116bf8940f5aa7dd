/*
 * session: the ZooKeeper handle, its session events, and what a session has.
 */
#ifndef ZKLOCK_SESSION_H
#define ZKLOCK_SESSION_H

#include "base/base.h"
#include "lease.h"
#include "request.h"
#include "watch.h"

/* The state of the client as a whole. */
typedef enum {
    ZKL_STATE_CONNECTING = 0, /* no session yet, or the next one after the end of a session */
    ZKL_STATE_CONNECTED,
    ZKL_STATE_SUSPENDED, /* the connection is lost; the session may still exist */
    ZKL_STATE_CLOSED,
    ZKL_STATE_AUTH_FAILED /* final: ZooKeeper refused the credentials */
} zkl_state;

/*
 * How far the ZooKeeper handle has come with a session. docs/design.md has the table of the transitions; `enter` in session.c makes
 * each of them.
 */
typedef enum {
    ZKL_SESSION_NONE,       /* At first, and after close_handle: there is no handle. */
    ZKL_SESSION_CONNECTING, /* Set by open_handle, or when a connection is lost on which no server has answered the probe. */
    ZKL_SESSION_PROBING, /* Set by on_connected: there is a connection. The answer to the probe is awaited. */
    ZKL_SESSION_READY,   /* Set by now_ready: the server has answered. Requests may go out. */
    ZKL_SESSION_LOST,    /* Set by on_disconnected: the connection of a session that was READY is lost. */
    ZKL_SESSION_OVER     /* Set by session_over and close_handle: the handle will be closed, or is being closed. */
} zkl_session_life;

/* How far the end that the program wants has come. In this order; a state may be skipped. */
typedef enum {
    ZKL_SHUTDOWN_RUNNING = 0, /* at first */
    ZKL_SHUTDOWN_CLOSING,     /* set by zkl_session_close: nothing new goes out */
    ZKL_SHUTDOWN_SHUT         /* set by zkl_session_shut_down: no session will be opened any more */
} zkl_shutdown;

/* Whether the connection must be given up before it is used. */
typedef enum {
    ZKL_DISCONNECT_NONE,      /* At first, and when ask_interest has told the driver. */
    ZKL_DISCONNECT_UNWATCHED, /* Set by zkl_session_unwatched: the server has forgotten watches that the handle relies on. */
    ZKL_DISCONNECT_LEFTOVERS /* Set by zkl_session_notice_loss: the handle keeps requests of a lost connection for the next. */
} zkl_disconnect;

/* Returns the name that Lua sees. Any thread. */
const char *zkl_state_name(zkl_state state);

#define ZKL_WAIT_BUCKETS 16

/* Tries that wait for a new session are answered after so long without a connection. */
#define ZKL_TRIES_WAIT ZKL_SECOND

/*
 * Counters of a client since it was made, except the numbers of entries and of watches, which are present values. The
 * layers above count what they do here too, so that there is one struct to copy.
 */
typedef struct {
    int64_t requests; /* requests of any kind that were sent to ZooKeeper */
    /* Requests that only keep lease and session: quorum writes, syncs, probes, verifications of nodes. */
    int64_t heartbeats;
    int64_t notifications; /* watch events received */
    int64_t acquisitions;  /* acquisitions requested */
    int64_t grants;
    int64_t refusals;         /* Acquisitions that ended without a grant. */
    int64_t hand_overs;       /* Grants that needed no request. */
    int64_t losses;           /* Grants that ended without a release, or whose node was already gone at the release. */
    int64_t unknown_outcomes; /* Writes whose outcome is unknown: creates, deletes, and the program's own. */
    int64_t connections;      /* Connections established. */
    int64_t sessions;         /* Sessions established. */
    int64_t entries;          /* Entries now: znodes that are wanted, exist, or may exist. */
    int64_t watches;          /* Watches that are armed or being armed now. */
    int64_t waited;           /* Nanoseconds from request to grant, summed over all grants. */
    /* waits[i] counts the grants whose wait was at most zkl_wait_bounds[i], and above zkl_wait_bounds[i - 1]. */
    int64_t waits[ZKL_WAIT_BUCKETS];
} zkl_stats;

/* One credential for zoo_add_auth. */
typedef struct {
    const char *scheme;
    const char *credential;
    int32_t credential_length;
} zkl_auth;

/* The settings of a session. */
typedef struct {
    const char *servers;   /* "h1:2181,h2:2181/chroot" */
    const char *addresses; /* what the C client connects to in place of them, with the same chroot; NULL: `servers` */
    bool tls;              /* the driver speaks TLS with the servers */
    int32_t session_timeout_ms; /* requested; the server decides */
    bool lease;                 /* false: a grant needs no lease, and lasts until the end of the session is known */
    const zkl_auth *auths;
    int32_t auth_count;
    log_callback_fn zookeeper_log; /* receives the C client's own log lines */
} zkl_session_config;

/* The session's calls to its driver, always made from inside its own functions. They must not call the session. */
typedef struct {
    void *context;
    /*
     * Grants are valid while the clock is below `valid_until`: ZKL_NEVER if leases are turned off, 0 while there is no
     * lease. Before a lapsed lease begins anew, the listeners have been told that it lapsed.
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
    /* Before and after zookeeper_close. NULL: not wanted. */
    void (*closing)(void *context);
    void (*closed)(void *context);
    /*
     * The C client wants a connection. Returns whether it may begin one now, to config.addresses, where only the driver is; otherwise
     * lowers *wake_at to the instant to ask again. NULL: it connects to the servers by itself; the next three are NULL then, too.
     */
    bool (*reach)(void *context, int64_t *wake_at);
    /* It has begun: the driver puts a socket that is connected to a server in the place of `fd`. */
    void (*reached)(void *context, int fd);
    /* A server has answered the handshake. */
    void (*answered)(void *context);
    /* Returns why no server is reached, or why the driver has ended the connection, and the code for it; NULL: not known. */
    const char *(*problem)(void *context, zkl_code *code);
} zkl_session_host;

/* The session calls these functions of the modules above it, in the order of its list of listeners. NULL: not wanted. */
typedef struct {
    /* Requests may go out again: there is a connection, and the server answers. */
    void (*ready)(void *owner);
    /* The connection is lost, or is not there for so long that tries must be answered. */
    void (*lost)(void *owner);
    /* The session is over, and with it all that it had. */
    void (*over)(void *owner, const char *why);
    /* The ZooKeeper handle is closed: no watcher is called any more. */
    void (*closed)(void *owner);
    /* No session will be opened any more. */
    void (*refused)(void *owner, zkl_code code, const char *message);
    /* Requests that could not be sent, or were refused for now, may be tried again (zkl_try_later). */
    void (*retry)(void *owner);
    /* The lease has ended before it was extended: what depends on it is lost. */
    void (*lapsed)(void *owner);
    /* There is a lease, for which an item has waited. */
    void (*leased)(void *owner);
} zkl_session_listener;

/* A listener, and what its functions are called with. */
typedef struct {
    const zkl_session_listener *calls; /* NULL: behind the last one */
    void *owner;
} zkl_listening;

#define ZKL_MOST_LISTENERS 3

/* Calls one function of each listener that has it, in their order. In the arguments each->owner is the listener's owner. */
#define ZKL_TELL(session, what, ...)                                                                                   \
    for (const zkl_listening *each = (session)->listeners; each->calls != NULL; each++) {                              \
        if (each->calls->what != NULL) {                                                                               \
            each->calls->what(__VA_ARGS__);                                                                            \
        }                                                                                                              \
    }

/* The events that the driver should wait for before it calls zkl_session_process. */
typedef struct {
    int fd;               /* -1: nothing to poll */
    short events;         /* POLLIN | POLLOUT */
    int64_t wake_at;      /* call again at this instant at the latest */
    bool must_disconnect; /* this connection must not be used: shut its socket down first; true once per connection */
} zkl_poll;

/*
 * One ZooKeeper session after another, by one handle at a time. The layers above set `now` when the driver calls them, read the
 * state, and count in `cleaning`, `stats` and watches.watched_bytes. lease.h says which fields of the lease they write.
 */
struct zkl_session {
    zkl_session_host host;
    zkl_listening listeners[ZKL_MOST_LISTENERS + 1];
    char *servers;
    char *addresses; /* what the C client connects to */
    char *hosts;     /* `servers` without the chroot, for messages */
    zkl_auth *auths;
    int32_t auth_count;
    int32_t chroot_length; /* in bytes; the C client puts the chroot before each path that it sends */
    int32_t asked_timeout_ms;
    bool tls;
    log_callback_fn zookeeper_log;

    int64_t now; /* as of the driver's latest call */

    zhandle_t *handle;
    int64_t session_id;  /* 0: none */
    int32_t timeout_ms;  /* negotiated. 0: no session yet. */
    uint32_t connection; /* Number of connections so far. It marks data that must not outlive a connection. */
    zkl_session_life life;
    zkl_shutdown shutdown;
    zkl_disconnect disconnect;
    int64_t read_at;     /* The latest packet was read at this instant. */
    bool has_read;       /* The latest zkl_session_process has read a packet. */
    bool chroot_missing; /* By the answer to the latest probe the chroot does not exist. */
    zkl_state state;     /* The state that the program sees. */
    zkl_code problem_code;
    char problem[256];
    int64_t retry_at;     /* No session is opened before this instant. */
    int64_t lost_at;      /* The connection was lost at this instant. */
    int64_t renewed_at;   /* A living session was ended at this instant for a new one, which is awaited. 0: none is. */
    int64_t handshake_at; /* The handshake of the present connection was sent at this instant or later. */
    int32_t least_ms;     /* the shortest timeout that this session has negotiated */
    bool reached;         /* The C client's socket is connected to a server. Only with host.reach. */

    /* The requests of zkl_try_later are tried again at this instant. ZKL_NEVER: there are none. */
    int64_t backing_off_until;
    int32_t cleaning; /* nodes and watches whose removal is not confirmed yet */

    zkl_lease lease;
    zkl_requests requests;
    zkl_watches watches;
    zkl_stats stats;
};

/* Makes a session object in zeroed memory, from copies. Returns false when memory is short; zkl_session_free is needed even then. */
bool zkl_session_init(zkl_session *session, const zkl_session_config *config, const zkl_session_host *host);
/* Frees everything that the session has allocated. The handle must be closed. */
void zkl_session_free(zkl_session *session);
/*
 * Adds a listener, behind the others. `owner` is passed to its functions. To be called before the first turn, at most
 * ZKL_MOST_LISTENERS times.
 */
void zkl_session_listen(zkl_session *session, const zkl_session_listener *calls, void *owner);

/* Logs a line, made like printf. `level` is one of the C client's ZOO_LOG_LEVEL_*. */
void zkl_session_log(zkl_session *session, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Returns whether requests may go out now. */
static inline bool zkl_session_usable(const zkl_session *session)
{
    return session->life == ZKL_SESSION_READY && session->shutdown == ZKL_SHUTDOWN_RUNNING;
}

/* Returns whether the handle has reported a connection, and neither its loss nor the end of the session. */
static inline bool zkl_session_connected(const zkl_session *session)
{
    return session->life == ZKL_SESSION_PROBING || session->life == ZKL_SESSION_READY;
}

/* Returns whether the program has asked for the end: nothing new is accepted. */
static inline bool zkl_session_closing(const zkl_session *session)
{
    return session->shutdown != ZKL_SHUTDOWN_RUNNING;
}

/*
 * Returns the session timeout in nanoseconds, 0 before there was one: the least that was negotiated in this session. A
 * server may grant more on a later connection, but a new leader begins with the timeout of the first one.
 */
static inline int64_t zkl_session_timeout(const zkl_session *session)
{
    return (int64_t)(ZKL_BROKEN(ZKL_BREAK_LEAST) ? session->timeout_ms : session->least_ms) * (ZKL_SECOND / 1000);
}
/* The server has no watch where one was armed on this connection: its data were replaced. Only a new connection arms it again. */
void zkl_session_unwatched(zkl_session *session);
/* Schedules another try in a while, for requests that the server refused or that could not be sent for want of memory. */
void zkl_try_later(zkl_session *session);
/* Functions that end in _at return the instant at which work is due, or ZKL_NEVER. Those beside them do the work. */
/* A connection that the ZooKeeper handle lost without reporting it is noticed. */
void zkl_session_notice_loss(zkl_session *session);
/* A session that no server takes back is given up. */
int64_t zkl_session_given_up_at(const zkl_session *session);
void zkl_session_give_up(zkl_session *session);
/* Tries that wait for a new session are answered. */
int64_t zkl_session_tries_end_at(const zkl_session *session);
void zkl_session_end_tries(zkl_session *session);
/* The probe is sent again: it could not be sent, or its answer decided nothing (throttled, say). */
int64_t zkl_session_probe_at(const zkl_session *session);
void zkl_session_probe_again(zkl_session *session);
/* The requests of zkl_try_later are tried again. */
static inline int64_t zkl_session_retry_at(const zkl_session *session)
{
    return session->backing_off_until;
}
void zkl_session_retry(zkl_session *session);
/* Replaces the session by a new one where the lease requires that. */
void zkl_session_renew(zkl_session *session);
/* Opens or closes the ZooKeeper handle, as needed, and sets what to poll. */
void zkl_session_prepare(zkl_session *session, zkl_poll *poll);
/* Lets the C client read and write. `revents` is the result of the poll, 0 after a timeout. */
void zkl_session_process(zkl_session *session, short revents);
/* Nothing new goes out any more. The session stays until zkl_session_shut_down. */
void zkl_session_close(zkl_session *session);
/* Closes the session for good. */
void zkl_session_shut_down(zkl_session *session);
/* Returns whether requests may go out, and the C client has not lost the connection. */
bool zkl_session_in_order(const zkl_session *session);
/* Returns whether the C client has lost a connection without reporting it. */
bool zkl_session_silently_lost(const zkl_session *session);

#endif
