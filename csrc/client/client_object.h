/*
 * client object: a client, made of these parts:
 *
 *   desk.h           what the handles share with it: its states from opening to the end, results, the byte for the owner's event loop,
 *                    the wake of the I/O thread; notify_socket.c: a socket for the byte, for nginx
 *   handle.c         what a caller holds, and the engine's side of it
 *   log.c            log lines, of the engine and of the C client
 *   registry.c       what the clients of the process share: the list of open ones, for exit() and fork(); request numbers
 *
 * Above it, each with the whole client:
 *
 *   servers.c        which servers to connect to
 *   io_turn.c        one run of the engine between two polls; what callers may read without the engine: state, figures
 *   poll_owner.c     which thread polls the C client's socket, and when callers run the engine themselves
 *   handle_kinds.c   the owner's side of handles, and their kinds
 *   client.c         opening and closing; the I/O thread; exit()
 *
 * Locks. Each struct says by which of these its fields are protected:
 *   - engine_mutex also protects the engine itself and its acquisitions. The I/O thread holds it except while it sleeps in poll;
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

/* The C client's socket. Protected by engine_mutex. */
typedef struct {
    int fd;          /* The latest zkl_engine_prepare has returned it. Otherwise -1. */
    bool connecting; /* The latest turn has asked the connector for a server. */
    bool may_block;  /* This is the I/O thread's turn. Connections are begun only then: with TLS, files are read. */
    bool corked;     /* Bytes for it may be held back until the turn is over. */
    int32_t singles; /* So many reads do not look for further packets. */
} zkl_server_socket;

/*
 * All fields are written under engine_mutex and desk.mutex, and read under either; atomics are written under engine_mutex and read
 * by any thread.
 */
typedef struct {
    _Atomic int64_t lease_until; /* grants are valid until then, see zkl_host */
    zkl_state state;
    zkl_code problem_code;
    char problem[256]; /* the reason why the state is not better; "" if there is none */
    zkl_stats stats;
    zkl_tls_expiry expiry;
} zkl_published;

/* The connection strings of the servers that the connector is to use. desk.mutex guards all but `told`. */
typedef struct {
    char *given;    /* The program has named these. */
    char *followed; /* The ensemble's configuration, read since then, names these. NULL: it was not read. */
    bool changed;   /* The I/O thread has not taken the latest ones. */
    bool told;      /* The log says why the configuration cannot be followed. Guarded by engine_mutex. */
} zkl_servers;

struct zkl_client {
    zkl_desk desk; /* first: see zkl_desk_of */
    pthread_mutex_t engine_mutex;
    zkl_engine *engine; /* engine_mutex; NULL once the I/O thread has ended */
    zkl_registration registration;
    zkl_poll_owner poll_owner;
    zkl_server_socket socket;
    zkl_servers servers;
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

/* --- servers.c ----------------------------------------------------------------------------------------------------- */

/*
 * Any thread. Returns the servers of `followed`, and behind them those of `given` that are not among them, with the chroot of `given`. Both
 * parts are in random order, so that clients spread over the servers. NULL: there is no memory.
 */
char *zkl_servers_text(const char *followed, const char *given);
/* The engine's callback `configured` (zkl_session_host), of a client that follows the configuration; `context` is the client. */
bool zkl_client_configured(void *context, int rc, const char *configuration, int32_t length);
/* I/O thread, engine_mutex. Gives the connector the servers if they have changed. Returns whether the connection must be ended now. */
bool zkl_servers_take(zkl_client *client);
void zkl_servers_free(zkl_servers *servers);

/* --- io_turn.c ----------------------------------------------------------------------------------------------------- */

/*
 * engine_mutex held. Does everything that is due, and returns in `wanted` what to wait for next. `by_caller`: called by another
 * thread than the I/O thread. Then no byte is written for notifications, and if there is no connection, the rest is left to the I/O
 * thread because it may block; the function then returns false.
 */
bool zkl_client_turn(zkl_client *client, zkl_poll *wanted, bool by_caller);
/* engine_mutex held. What to poll for the TLS link, beside the C client's socket; its fd is -1 if there is no such link. */
struct pollfd zkl_client_link_poll(const zkl_client *client);
/*
 * engine_mutex held. Handles the results of poll: of the C client's socket, as wanted by the latest turn, and of zkl_client_link_poll.
 * Returns the events of the C client's socket, for the engine.
 */
short zkl_client_arrived(zkl_client *client, const struct pollfd *polled, const struct pollfd *link);
/*
 * engine_mutex held. I/O thread. Passes the result of a poll to the engine: `revents` of the C client's socket. Reads on as long as
 * replies have arrived, up to a bound. The turn that follows tells the owner of all of them together.
 */
void zkl_client_read(zkl_client *client, short revents);
/*
 * engine_mutex held. Ends a turn, or a call that may have sent something: sends what is corked, and publishes what changed.
 * `silently`: no byte is written for notifications.
 */
void zkl_client_end_turn(zkl_client *client, bool silently);
/* The engine's callbacks `sending` and `sent` (zkl_host); `context` is the client. */
void zkl_turn_sending(void *context);
void zkl_turn_sent(void *context);

/* The engine's callbacks `lease_changed` and `state_changed` (zkl_host); `context` is the client. */
void zkl_publish_lease(void *context, int64_t valid_until);
void zkl_publish_state(void *context, zkl_state state, zkl_code code, const char *problem);
/*
 * engine_mutex held, desk.mutex not. Publishes the figures, and writes the byte for notifications if one is due. `silently`: no
 * byte is written.
 */
void zkl_client_publish(zkl_client *client, bool silently);

/* --- poll_owner.c -------------------------------------------------------------------------------------------------- */

/* I/O thread, engine_mutex held. Sleeps without the mutex until there is something to do, and does it. */
void zkl_io_thread_sleep(zkl_client *client, const zkl_poll *wanted);
/*
 * Any thread, no mutex held. Makes the engine take the requests on the list: in this call if the I/O thread sleeps and nothing can
 * block, otherwise by waking the I/O thread. The caller looks at the handle `subject` afterwards anyway, so a result that is there at
 * once makes no notification. NULL: no handle. The call may block for `block_for` nanoseconds until the result is there; it then works
 * like zkl_client_wait.
 */
void zkl_client_serve(zkl_client *client, const zkl_handle *subject, int64_t block_for);

#endif
