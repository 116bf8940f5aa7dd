/*
 * session: the ZooKeeper handle, its session events, and what a session has.
 */
#ifndef ZKLOCK_SESSION_H
#define ZKLOCK_SESSION_H

#include "heartbeat.h"
#include "watch.h"
#include "wire.h"

/* How far the ZooKeeper handle has come with a session. `enter_life` in session.c makes each transition. */
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

/* Returns the name that Lua sees. Any thread. */
const char *zkl_state_name(zkl_state state);

/* Tries that wait for a new session are answered after so long without a connection. */
#define ZKL_TRIES_WAIT ZKL_SECOND

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

/*
 * The session calls these functions of the modules above it, in the order of its list of listeners. NULL: not wanted. Nobody else calls
 * them.
 */
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
 * One ZooKeeper session after another, by one handle at a time. The layers above set wire.now when the driver calls them, and read
 * the state.
 */
typedef struct {
    zkl_wire wire;
    zkl_heartbeat heartbeat;
    zkl_watches watches;

    zkl_listening listeners[ZKL_MOST_LISTENERS + 1];
    char *servers;
    char *addresses; /* what the C client connects to */
    zkl_auth *auths;
    int32_t auth_count;
    int32_t asked_timeout_ms;
    bool tls;
    log_callback_fn zookeeper_log;

    int32_t least_ms; /* the shortest timeout that this session has negotiated */
    zkl_session_life life;
    zkl_shutdown shutdown;
    bool has_read;       /* The latest zkl_session_process has read a packet. */
    bool lapse_told;     /* The listeners were told that this lease has lapsed. */
    bool chroot_missing; /* By the answer to the latest probe the chroot does not exist. */
    zkl_state state;     /* The state that the program sees. */
    zkl_code problem_code;
    char problem[256];
    int64_t retry_at;     /* No session is opened before this instant. */
    int64_t lost_at;      /* The connection was lost at this instant. */
    int64_t renewed_at;   /* A living session was ended at this instant for a new one, which is awaited. 0: none is. */
    int64_t handshake_at; /* The handshake of the present connection was sent at this instant or later. */
    bool reached;         /* The C client's socket is connected to a server. Only with host.reach. */
} zkl_session;

/* Makes a session object in zeroed memory, from copies. Returns false when memory is short; zkl_session_free is needed even then. */
bool zkl_session_init(zkl_session *session, const zkl_session_config *config, const zkl_session_host *host);
/* Frees everything that the session has allocated. The handle must be closed. */
void zkl_session_free(zkl_session *session);
/*
 * Adds a listener, behind the others. `owner` is passed to its functions. To be called before the first turn, at most
 * ZKL_MOST_LISTENERS times.
 */
void zkl_session_listen(zkl_session *session, const zkl_session_listener *calls, void *owner);

/* Names the items that heartbeats check, and that watch. `owner` is passed to `of_node`. To be called once, before the first turn. */
void zkl_session_use_items(zkl_session *session, const zkl_item_ops *items, const void *owner);

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

/* A quorum write has been acknowledged: the session existed when it was sent. `owner`: the session, as heartbeats know it. */
void zkl_session_prove(void *owner, int64_t sent_at);
/* Dates the answers since the last turn. To be called early in each turn. */
void zkl_session_date_answers(zkl_session *session);
/* Functions that end in _at return the instant at which work is due, or ZKL_NEVER. Those beside them do the work. */
/* Grants that outlived their lease end: they are lost for good. */
int64_t zkl_session_lapses_at(const zkl_session *session);
void zkl_session_lapse(zkl_session *session);
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
void zkl_session_probe(zkl_session *session);
/* The requests of zkl_try_later are tried again. */
static inline int64_t zkl_session_retry_at(const zkl_session *session)
{
    return session->wire.backing_off_until;
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
