/*
 * client object: a client, made of these parts:
 *
 *   desk.h           what the handles share with it: results, notifications, the wake of the I/O thread. life.c: the states from opening
 *                    to the end; notifications.c: the byte for the owner's event loop; notify_socket.c: a socket for it, for nginx
 *   handle.c         what a caller holds; handles.c: the engine's side
 *   log.c            log lines, of the engine and of the C client
 *   registry.c       all open clients of the process: for exit() and fork(); xid.c: the numbers that the C client gives to requests
 *
 * Above it, each with the whole client:
 *
 *   published.c      what callers may read without the engine: state, figures
 *   io_turn.c        one run of the engine between two polls
 *   poll_owner.c     which thread polls the C client's socket, and when callers run the engine themselves
 *   handle_request.c the owner's side of handles; handle_acquisition.c, handle_operation.c: their kinds
 *   client.c         opening and closing; the I/O thread; exit()
 *
 * Locks. Each struct says by which of these its fields are protected:
 *   - engine_mutex also protects the engine itself and its acquisitions. The I/O thread holds it except while it sleeps in poll. A
 *     caller that finds it free passes its request to the engine itself; the engine sends at once and cannot block. This saves waking
 *     the I/O thread only to send (it already polls the socket for the reply). A caller that finds it taken leaves its request on the
 *     list and writes a byte. A caller that blocks may do the I/O thread's work while it waits (poll_owner.c);
 *   - desk.mutex is held for moments only. Under it no function of the engine is called that can call back;
 *   - atomics may be used by any thread, if the field says no more;
 *   - "the I/O thread" and "the owner's thread": only that thread uses the field.
 * engine_mutex is taken first, then the registry's mutex, then desk.mutex, never in another order.
 */
#ifndef ZKLOCK_CLIENT_OBJECT_H
#define ZKLOCK_CLIENT_OBJECT_H

#include <pthread.h>
#include <stdatomic.h>

#include "desk.h"
#include "log.h"
#include "net/net.h"
#include "os/os.h"
#include "registry.h"

/* The thread that polls the C client's socket. poll_owner.c has the transitions. */
typedef enum {
    ZKL_POLLED_BY_THREAD, /* the I/O thread */
    ZKL_POLLED_BY_CALLER, /* a caller that blocks */
    ZKL_POLLED_BY_NOBODY  /* a caller did a moment ago, and probably will again soon; if not, the I/O thread */
} zkl_polled_by;

/* All fields: engine_mutex. At first the I/O thread owns the socket. */
typedef struct {
    zkl_polled_by polled_by;
    int64_t left_at;        /* when a caller left the socket without a poll owner */
    int64_t sleeping_until; /* wake-up time of the I/O thread's poll */
    zkl_alarm alarm;        /* wakes the I/O thread if a caller left poll ownership and did not return */
} zkl_poll_owner;

/* The C client's socket. Protected by engine_mutex, but for the atomics, which any thread may use. */
typedef struct {
    int fd;            /* The latest zkl_engine_prepare has returned it. Otherwise -1. */
    bool connecting;   /* The latest turn has asked the connector for a server. */
    bool may_block;    /* This is the I/O thread's turn. Connections are begun only then: with TLS, files are read. */
    bool corked;       /* Bytes for it may be held back until the turn is over. */
    int32_t singles;   /* So many reads do not look for further packets. */
    int32_t held_back; /* So many requests were made since the latest zkl_client_push while `held`. */
    _Atomic int32_t unheld; /* So many calls of zkl_client_hold hold nothing back. */
    _Atomic bool held;      /* Requests of callers that do not block are held back until zkl_client_push. */
} zkl_server_socket;

/*
 * All fields are written under engine_mutex and desk.mutex, and read under either; atomics are written under engine_mutex and read
 * by any thread.
 */
typedef struct {
    _Atomic int32_t in_flight;   /* requests in flight, at the end of the latest turn */
    int64_t waiting_since;       /* since then there were always requests in flight; ZKL_NEVER: there are none */
    int64_t read_at;             /* the latest packet was read at this instant */
    _Atomic int64_t lease_until; /* grants are valid until then, see zkl_host */
    zkl_state state;
    zkl_code problem_code;
    char problem[256]; /* the reason why the state is not better; "" if there is none */
    zkl_stats stats;
    int32_t timeout_ms; /* the negotiated session timeout; 0 before the first session */
} zkl_published;

struct zkl_client {
    zkl_desk desk; /* first: see zkl_desk_of */
    pthread_mutex_t engine_mutex;
    zkl_engine *engine; /* engine_mutex; NULL once the I/O thread has ended */
    zkl_registration registration;
    zkl_poll_owner poll_owner;
    zkl_server_socket socket;
    zkl_connector *connector; /* engine_mutex; NULL once the I/O thread has ended */
    zkl_tls_link *tls_link;   /* engine_mutex; NULL without TLS, and once the I/O thread has ended */
    zkl_published published;
    zkl_log log;
};

/* The client of a handle. */
static inline zkl_client *zkl_client_of(const zkl_desk *desk)
{
    return (zkl_client *)(uintptr_t)desk;
}

/*
 * Returns a new client without an engine and without a thread, with one reference. Returns NULL if the system refuses memory or a
 * pipe; `message` (ZKL_MESSAGE_SIZE bytes) then says which.
 */
zkl_client *zkl_client_new(const zkl_client_options *options, char *message);
#endif
