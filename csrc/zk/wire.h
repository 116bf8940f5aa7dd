/*
 * wire: what requests, watches and heartbeats share of a session: the C client's handle, the connection, the clock, the lease.
 *
 * session.c opens and ends what is here. Each request belongs to the connection on which it was sent.
 */
#ifndef ZKLOCK_WIRE_H
#define ZKLOCK_WIRE_H

#include <sys/queue.h>

#include "base/base.h"
#include "item.h"
#include "lease.h"

/* The most requests in flight at once, so that one client cannot flood a server (docs/interoperability.md). */
#ifdef ZKL_BREAKABLE
#define ZKL_MAX_IN_FLIGHT zkl_most_in_flight
/* The value of ZKL_MAX_IN_FLIGHT, so that the simulation can reach it. */
extern int32_t zkl_most_in_flight;
#else
#define ZKL_MAX_IN_FLIGHT 1000
#endif

#define ZKL_WAIT_BUCKETS 16

/*
 * Counters of a client since it was made, and some present values. The layers above count what they do here too, so that there is one
 * struct to copy.
 */
typedef struct {
    int64_t requests; /* requests of any kind that were sent to ZooKeeper */
    /* Requests that only keep lease and session: quorum writes, syncs, probes, verifications of nodes. */
    int64_t heartbeats;
    int64_t notifications; /* watch events received */
    int64_t acquisitions;  /* acquisitions requested */
    int64_t grants;
    int64_t refusals;   /* Acquisitions that ended without a grant. */
    int64_t hand_overs; /* Grants that needed no request. */
    int64_t passes;     /* Grants that another client has passed on: no request came between notification and grant. */
    int64_t losses;     /* Grants that ended without a release, or whose node was already gone at the release. */
    int64_t unknown_outcomes; /* Writes whose outcome is unknown: creates, deletes, and the program's own. */
    int64_t connections;      /* Connections established. */
    int64_t sessions;         /* Sessions established. */
    int64_t entries;          /* Entries now: znodes that are wanted, exist, or may exist. */
    int64_t watches;          /* Watches that are armed or being armed now. */
    int64_t waited;           /* Nanoseconds from request to grant, summed over all grants. */
    /* waits[i] counts the grants whose wait was at most zkl_wait_bounds[i], and above zkl_wait_bounds[i - 1]. */
    int64_t waits[ZKL_WAIT_BUCKETS];
    int64_t in_flight_since; /* Since then requests have been in flight all the time. 0: none is in flight. */
    int64_t read_at;         /* The latest packet was read at this instant. */
    int32_t timeout_ms;      /* The negotiated session timeout. 0: no session yet. */
} zkl_stats;

/* The state of the client as a whole. */
typedef enum {
    ZKL_STATE_CONNECTING = 0, /* no session yet, or the next one after the end of a session */
    ZKL_STATE_CONNECTED,
    ZKL_STATE_SUSPENDED, /* the connection is lost; the session may still exist */
    ZKL_STATE_CLOSED,
    ZKL_STATE_AUTH_FAILED /* final: ZooKeeper refused the credentials */
} zkl_state;

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
    /* A server has answered the handshake, and granted this session timeout. */
    void (*answered)(void *context, int32_t timeout_ms);
    /* Returns why no server is reached, or why the driver has ended the connection, and the code for it; NULL: not known. */
    const char *(*problem)(void *context, zkl_code *code);
    /*
     * The ensemble's configuration was read: `data` has `length` bytes if `rc`, the C client's result, is ZOK. Returns false if it is
     * to be read again, since there is no memory. NULL: it is not wanted, and never read.
     */
    bool (*configured)(void *context, int rc, const char *data, int32_t length);
} zkl_session_host;

/* Whether the connection must be given up before it is used: only a new one arms forgotten watches again, and drops old requests. */
typedef enum {
    ZKL_DISCONNECT_NONE,      /* At first, and when ask_interest has told the driver. */
    ZKL_DISCONNECT_UNWATCHED, /* Set by zkl_wire_unwatched: the server has forgotten watches that the handle relies on. */
    ZKL_DISCONNECT_LEFTOVERS /* Set by zkl_session_notice_loss: the handle keeps requests of a lost connection for the next. */
} zkl_disconnect;

typedef struct zkl_request zkl_request;
SLIST_HEAD(zkl_request_list, zkl_request);

typedef struct {
    zkl_session_host host;
    char *hosts;           /* the servers, for messages */
    int32_t chroot_length; /* in bytes; the C client puts the chroot before each path that it sends */
    int64_t now;           /* as of the driver's latest call */
    zhandle_t *handle;
    int64_t session_id;  /* 0: none */
    uint32_t connection; /* Number of connections so far. It marks data that must not outlive a connection. */
    bool usable;         /* requests may go out */
    zkl_disconnect disconnect;
    zkl_lease lease;
    const zkl_item_ops *items; /* the functions of all items */
    const void *items_owner;

    /* request.c */
    /* Refused by the C client, which may still complete them; kept until the handle is closed. */
    struct zkl_request_list orphans;
    struct zkl_request_list spare; /* for reuse */
    int32_t in_flight;

    /* The requests of zkl_try_later are tried again at this instant. ZKL_NEVER: there are none. */
    int64_t backing_off_until;
    int32_t cleaning; /* nodes and watches whose removal is not confirmed yet */
    zkl_stats stats;
} zkl_wire;

/* Logs a line, made like printf. `level` is one of the C client's ZOO_LOG_LEVEL_*. */
void zkl_wire_log(const zkl_wire *wire, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Schedules another try in a while, for requests that the server refused or that could not be sent for want of memory. */
void zkl_try_later(zkl_wire *wire);
/* The server has no watch where one was armed on this connection: its data were replaced. Only a new connection arms it again. */
void zkl_wire_unwatched(zkl_wire *wire);

/* Returns whether a request may go out now, and not too many are in flight. */
static inline bool zkl_wire_has_room(const zkl_wire *wire)
{
    return wire->usable && wire->in_flight < ZKL_MAX_IN_FLIGHT;
}

/* Returns whether grants are valid now: there is a lease, or none is required. */
static inline bool zkl_wire_leased(const zkl_wire *wire)
{
    return zkl_lease_valid(&wire->lease, wire->now);
}

/*
 * Returns whether something more may be granted by an existing node without a request. If leases are turned off, only the
 * connection shows that the session exists. Grants are kept without a connection, but a new grant needs it.
 */
static inline bool zkl_wire_covers_more(const zkl_wire *wire)
{
    return zkl_wire_leased(wire) && (wire->lease.required || wire->usable);
}

#endif
