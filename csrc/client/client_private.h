/*
 * Declarations that the client's files share.
 *
 *   client.c    the I/O thread; opening, closing and reading the state of a client
 *   handle.c    handles: requests of callers and their results
 *   handle_operation.c  handles of the program's own reads and writes, and their watches
 *   registry.c  all open clients of the process: for exit() and fork()
 *   notify_socket.c  the socket that nginx gets in place of the notify pipe
 *   scope.c     the acquisitions of one nginx request, which end with it
 *   poll_owner.c      poll ownership: which thread polls the C client's socket
 *   xid.c       the numbers that the C client gives to requests, of all clients of the process
 *
 * Locks:
 *   - engine_mutex protects the fields under "engine" in the two structs, the engine's acquisitions, and the engine itself. The I/O
 *     thread holds it except while it sleeps in poll. A caller that finds it free passes its request to the engine
 *     itself; the engine sends at once and cannot block. This saves waking the I/O thread only to send (it already
 *     polls the socket for the reply). A caller that finds it taken leaves its request on the list and writes a byte. A
 *     caller that blocks may do the I/O thread's work while it waits (poll_owner.c);
 *   - client->mutex protects the fields under "shared";
 *   - a handle's place in a scope belongs to the thread that its owner runs on;
 *   - atomics may be used by any thread.
 * engine_mutex is taken before mutex, never after. A handle is referenced by its caller, and by the engine's side until its result
 * is final. It references its client.
 */
#ifndef ZKLOCK_CLIENT_PRIVATE_H
#define ZKLOCK_CLIENT_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "base/base.h"
#include "client.h"

/* Recent lines of the C client's log; they are not logged again soon. */
#define RECENT_LINES 4

/* What the I/O thread has to do with a handle; done in this order. */
enum {
    TODO_START = 1 << 0,
    TODO_LAPSED = 1 << 1,
    TODO_END = 1 << 2,
    TODO_FORGET = 1 << 3
};

typedef enum {
    HANDLE_ACQUISITION,
    HANDLE_CONTENDERS,
    HANDLE_FLUSH,
    HANDLE_OPERATION
} handle_kind;

/* Which thread polls the C client's socket. */
typedef enum {
    POLLED_BY_THREAD, /* the I/O thread */
    POLLED_BY_CALLER, /* a caller in zkl_client_wait */
    POLLED_BY_NOBODY  /* a caller did a moment ago, and probably will again soon; if not, the I/O thread */
} zkl_poll_owner;

TAILQ_HEAD(handle_list, zkl_handle);

/* Fields that only questions, operations and flushes have. */
typedef struct {
    char *path;
    zkl_operation *request;    /* an operation that was not passed to the engine yet */
    zkl_operation *operation;  /* engine */
    zkl_contender *contenders; /* constant once settled */
    int32_t contender_count;
    bool identities;              /* contenders: read their identities */
    zkl_operation_result *result; /* constant once settled */
    int32_t failed_part;
    zkl_node_event event; /* the event that its watch has seen */
    zkl_code watch_code;  /* why its watch will see no event any more */
} zkl_question;

struct zkl_handle {
    zkl_client *client;
    uint64_t id;
    handle_kind kind;
    _Atomic int32_t references;

    /* acquisitions: arguments of zkl_engine_acquire, except the lock spec */
    zkl_lock_spec *spec;
    zkl_handle *writer; /* writer to downgrade; we hold a reference */
    int32_t count;
    bool try_only;
    bool optimistic;

    /* read by zkl_handle_held without the mutex */
    _Atomic bool lapsed;
    _Atomic bool over; /* the engine's side has dropped it */
    _Atomic int32_t phase;

    int32_t revocations; /* shared */
    _Atomic int64_t hold_until;

    /* engine */
    TAILQ_ENTRY(zkl_handle) all;
    TAILQ_ENTRY(zkl_handle) dying; /* in client->dying or client->flushes */
    zkl_acquisition *acquisition;
    bool ended; /* by its owner */
    bool dead;  /* in client->dying, now or earlier */

    /* shared */
    bool has_notification;
    bool sharing; /* it waits for another acquisition of this client, and will share its node */
    _Atomic bool settled;
    uint8_t todo;
    int16_t code; /* a zkl_code */
    TAILQ_ENTRY(zkl_handle) in_todo;
    TAILQ_ENTRY(zkl_handle) in_notifications;
    char *message;
    zkl_token token;
    char *node;  /* name of this handle's node; NULL: none yet */
    char *ahead; /* name of the node that it waits for; NULL: none */
    char *nodes; /* names of all nodes of a grant of several permits (zkl_acquisition_nodes); constant once set */

    zkl_question *question; /* NULL: an acquisition */

    /* only the owner's thread, see scope.c */
    zkl_scope *scope; /* the scope that ends this acquisition; NULL: none */
    LIST_ENTRY(zkl_handle) in_scope;
};

typedef struct {
    int level;
    char text[256];
} log_line;

struct zkl_client {
    _Atomic int32_t references;
    uint32_t forks; /* zkl_registry_forks at the time of opening */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t gone; /* signalled when `exited` becomes true */
    int wake_pipe[2];    /* callers write, the I/O thread reads */
    int notify_pipe[2];  /* the I/O thread writes, callers read */
    _Atomic int
        notify_socket; /* Notify socket, used in place of notify_pipe; -1 if none. Once set, it stays until the end. */
    _Atomic int32_t open_acquisitions; /* acquisitions that their owners have not ended */
    _Atomic int64_t lease_until;
    TAILQ_ENTRY(zkl_client) open; /* in the registry */

    /* engine */
    pthread_mutex_t engine_mutex;
    zkl_engine *engine;     /* NULL once the thread has ended */
    int64_t sleeping_until; /* wake-up time of the I/O thread's poll */
    struct handle_list handles;
    struct handle_list flushes;
    struct handle_list dying;
    int64_t close_by;
    int64_t polling_left_at;
    zkl_poll_owner poll_owner;
    int alarm;  /* Timer that wakes the I/O thread if a caller left poll ownership and did not return; -1 if none. */
    int socket; /* the C client's, as of the latest zkl_engine_prepare, or -1 */
    struct recent_line {
        int64_t at;
        char text[128];
    } recent[RECENT_LINES];
    uint32_t next_recent;
    bool corked; /* bytes for the socket are held back until the turn is over */
    bool closing;
    bool alarm_set; /* `alarm` will wake the I/O thread, or already has */

    /* shared */
    struct handle_list todo;
    struct handle_list notifications;
    const zkl_handle *quiet; /* no notification for this handle: its owner is the caller and will look at it */
    uint64_t last_id;
    bool close_wanted;
    bool woken;       /* a byte is in wake_pipe */
    bool unsignalled; /* there are notifications for which no byte was written */
    bool signalled;   /* a byte is in notify_pipe */
    bool changed;     /* new state or log lines that zkl_client_next has not reported */
    bool exited;
    bool joined;
    bool unread;               /* no caller will ask for notifications any more */
    int listener;              /* listening socket for the notify socket's connection; -1 if none */
    char notify_directory[96]; /* directory of that socket; "" if none */
    zkl_state state;
    zkl_code problem_code;
    char problem[256];
    zkl_stats stats;
    int32_t timeout_ms;
    log_line *lines;
    int32_t first_line, line_count;
};

/* registry.c ------------------------------------------------------------------------------------------------------- */

/* Once a process: from then on exit() and fork() handle the clients. */
void zkl_registry_start(void);
void zkl_registry_add(zkl_client *client);
/* Harmless if the client is not in the registry any more. */
void zkl_registry_remove(zkl_client *client);
/* The number of forks between this process and the process that loaded the module. */
uint32_t zkl_registry_forks(void);

/* xid.c ------------------------------------------------------------------------------------------------------------ */

/* The level of the C client's log, one for the process. Below this level every connection and every request makes a line. */
#define ZKL_ZOOKEEPER_LOG_LEVEL ZOO_LOG_LEVEL_WARN

/*
 * To be called before and after each call of the C client that makes a request, on one thread. Nothing between the two may wait.
 * Any thread.
 */
void zkl_xid_begin(void);
void zkl_xid_end(void);
/* Reads a line of the C client's log below that level, made on this thread. */
void zkl_xid_read(const char *text);
/* To be called in the child of a fork, on its only thread. */
void zkl_xid_forked(void);

/* handle.c --------------------------------------------------------------------------------------------------------- */

/* "Mutex held" in the comments below means client->mutex. */

/* Drops one reference. Frees the handle with the last one. */
void zkl_handle_drop(zkl_handle *handle);
/* Mutex held. Settles a question or a flush; the I/O thread will not use it again. */
void zkl_handle_answer(zkl_handle *handle, zkl_code code, const char *message);
/* engine_mutex held. Drops the engine side's reference to a handle. */
void zkl_handle_let_go(zkl_handle *handle);
/* engine_mutex held. Passes all requests of callers to the engine. */
void zkl_handles_run(zkl_client *client);
/* engine_mutex held, not from within the engine. Reaps acquisitions that are settled and that their owners have ended. */
void zkl_handles_reap(zkl_client *client);
/* engine_mutex held. Answers the flushes if no clean-up is in flight any more. */
void zkl_handles_finish_flushes(zkl_client *client);
/* engine_mutex held, the engine is gone. Answers all open requests: the client is closed. */
void zkl_handles_abandon(zkl_client *client);
/* The engine's callback (zkl_host). */
void zkl_handle_acquisition_changed(void *context, zkl_acquisition *acquisition);

/* Mutex held. Puts the handle on the list of notifications, once. */
void zkl_handle_notify(zkl_handle *handle);
/* A new handle for anything but an acquisition, with one reference; NULL if there is no memory. */
zkl_handle *zkl_handle_ask(zkl_client *client, handle_kind kind, const char *path);
/* Passes a new handle to the engine, or answers it here if the engine is gone. `block_for` as in zkl_client_acquire. */
zkl_handle *zkl_handle_submit(zkl_handle *handle, int64_t block_for);
/* engine_mutex held, the engine knows all requests of the handle's owner. Whether the latest request has its result. */
bool zkl_handle_decided(const zkl_handle *handle);

/* notify_socket.c ------------------------------------------------------------------------------------------------------- */

/* Mutex held, or no other thread knows the client. Removes what zkl_client_listen has made. */
void zkl_notify_socket_forget(zkl_client *client);

/* scope.c ---------------------------------------------------------------------------------------------------------- */

/* Like zkl_handle_end, but not on the owner's request, so the owner gets a notification. In handle.c. */
void zkl_handle_cut(zkl_handle *handle);

/* handle_operation.c ----------------------------------------------------------------------------------------------- */

/* engine_mutex held. Carries out what callers want of an operation's handle. */
void zkl_handle_operate(zkl_handle *handle, unsigned todo, int64_t now);
/* Frees the fields that only an operation's handle has. */
void zkl_handle_drop_operation(zkl_handle *handle);

/* poll_owner.c ----------------------------------------------------------------------------------------------------------- */

/* I/O thread, engine_mutex held. Sleeps without the mutex until there is something to do, and does it. */
void zkl_io_thread_sleep(zkl_client *client, const zkl_poll *wanted);
/*
 * Makes the engine take the requests on the list: in this call if the I/O thread sleeps and nothing can block, otherwise by waking
 * the I/O thread. The caller looks at the handle `subject` afterwards anyway, so a result that is there at once makes no
 * notification. NULL: no handle. The call may block for `block_for` nanoseconds until the result is there; it then works like
 * zkl_client_wait.
 */
void zkl_client_serve(zkl_client *client, const zkl_handle *subject, int64_t block_for);

/* client.c --------------------------------------------------------------------------------------------------------- */

/* Wakes the I/O thread. */
void zkl_client_wake(zkl_client *client);
/* I/O thread: empties the pipe that woke it. */
void zkl_client_awake(zkl_client *client);
/* Timeout for poll, in milliseconds, from now until an instant; -1 for ZKL_NEVER. */
int zkl_poll_timeout(int64_t until);
/*
 * engine_mutex held. Does everything that is due, and returns in `wanted` what to wait for next. `by_caller`: called by another
 * thread than the I/O thread. Then no byte is written for notifications, and if there is no connection, the rest is left to the I/O
 * thread because it may block; the function then returns false.
 */
bool zkl_client_turn(zkl_client *client, zkl_poll *wanted, bool by_caller);
/* engine_mutex held. Ends a turn that has nothing else to do: sends what was held back and publishes what changed. */
void zkl_client_end_turn(zkl_client *client, bool silently);
/* Makes the C client's log lines on this thread belong to `client` from now on. Returns the client that they belonged to. */
zkl_client *zkl_client_speaks(zkl_client *client);
void zkl_client_drop(zkl_client *client);
/*
 * Mutex held. Unlocks it, and then wakes the I/O thread if necessary: a byte that is written before the unlock would make the
 * thread run into the locked mutex. One byte is enough until it has been read.
 */
void zkl_client_unlock_and_wake(zkl_client *client);

#endif
