/*
 * handle: what a caller holds of an acquisition, an operation, a flush or a timer.
 *
 *   handle.c        references, results, what a handle's owner reads; the engine's side: all handles of a client
 *   handle_kinds.c  the owner's requests to the engine's side; acquisitions, operations, flushes and timers
 *
 * The owner's side creates a handle and puts it on the client's list. The engine's side takes it from the list, passes the request to
 * the engine, and publishes the result. A handle is referenced by its owner, and by the engine's side until its result is final. It
 * references its client.
 */
#ifndef ZKLOCK_CLIENT_HANDLE_H
#define ZKLOCK_CLIENT_HANDLE_H

#include "desk.h"

/* Requests to the engine's side of a handle: a set. The engine's side carries them out in this order. */
enum {
    TODO_START = 1 << 0,
    TODO_HOLD = 1 << 1,
    TODO_LAPSED = 1 << 2,
    TODO_END = 1 << 3,
    TODO_FORGET = 1 << 4,
    TODO_LIMIT = 1 << 5
};

/* The differences between the kinds of handles. Each kind has one constant of this type. */
typedef struct {
    /* engine_mutex held. Carries out requests, a set of TODO_*. With TODO_START the handle was just added to the list `all`. */
    void (*run)(zkl_handle *handle, unsigned todo, int64_t now);
    /* engine_mutex held. The handle's deadline has passed. NULL: the owner gets a notification, and decides. */
    void (*expire)(zkl_handle *handle, int64_t now);
    /* Any thread, no mutex; the last reference is gone. Frees what only this kind has. NULL: nothing. */
    void (*free)(zkl_handle *handle);
    /* The code of a handle that has no result when the client is closed. */
    zkl_code closed_code;
    /* TODO_FORGET is sent when the owner drops the handle: the engine's side keeps something until then. */
    bool kept;
} zkl_handle_kind;

/* The engine's side of a handle, in the order of its states. */
typedef enum {
    ZKL_HANDLE_NEW,   /* the engine's side has not begun it; for good if the client was closed before */
    ZKL_HANDLE_BEGUN, /* the engine knows it */
    ZKL_HANDLE_ENDED, /* an acquisition that its owner has ended; something of it may be left on the server */
    ZKL_HANDLE_DYING, /* the same, and nothing is left on the server: it is in the list `dying` */
    ZKL_HANDLE_GONE   /* the engine's side has dropped its reference */
} zkl_handle_life;

/* Fields that acquisitions do not have; of operations. */
typedef struct {
    zkl_operation *request;       /* engine_mutex: an operation that was not passed to the engine yet */
    zkl_operation *operation;     /* engine_mutex */
    zkl_operation_result *result; /* constant once settled, until its owner drops it */
    int32_t failed_part;
    zkl_node_event event; /* desk.mutex: the event that its watch has seen */
    zkl_code watch_code;  /* desk.mutex: why its watch will see no event any more */
} zkl_question;

struct zkl_handle {
    /* Constant */
    zkl_desk *desk;
    uint64_t id; /* set when it is submitted */
    const zkl_handle_kind *kind;
    zkl_question *question; /* NULL: an acquisition */

    /* Constant: of an acquisition, with a reference to the spec */
    zkl_acquisition_request request;

    /* Any thread */
    _Atomic int32_t references;
    _Atomic int32_t phase; /* a zkl_acquisition_phase; written under desk.mutex */
    /* Both are written before the phase becomes GRANTED. Then the owner may change hold_until, under desk.mutex. */
    _Atomic int64_t hold_until;
    int64_t waited; /* see zkl_acquisition_view */

    /* engine_mutex. `life` is read without it. */
    TAILQ_ENTRY(zkl_handle) all;
    TAILQ_ENTRY(zkl_handle) ending;  /* in the list `dying`, or in `flushes` */
    TAILQ_ENTRY(zkl_handle) limited; /* in the list `limited` if `deadline` is not 0 */
    int64_t deadline;                /* when it expires; 0: it does not */
    zkl_handle *writer;              /* writer to downgrade, with a reference; NULL once it has begun */
    zkl_acquisition *acquisition;    /* NULL before it has begun; not to be used from GONE on */
    _Atomic zkl_handle_life life;

    /* desk.mutex */
    int32_t revocations;
    TAILQ_ENTRY(zkl_handle) in_todo;
    int64_t wanted_deadline; /* of TODO_LIMIT */
    TAILQ_ENTRY(zkl_handle) in_notifications;
    char *message;
    zkl_token token;
    char *node;   /* name of this handle's node; NULL: none yet */
    char *ahead;  /* name of the node that it waits for; NULL: none */
    char *nodes;  /* names of all nodes of a grant of several permits (zkl_acquisition_nodes); constant once set */
    int16_t code; /* a zkl_code. Written under engine_mutex too, unless the engine is gone; constant once settled */
    uint8_t todo; /* a set of TODO_*; 0: it is not in the list */
    bool has_notification; /* it is in the list of notifications */
    bool sharing;          /* it waits for another acquisition of this client, and will share its node */

    /* Any thread */
    _Atomic bool lapsed;  /* its grant has been found over; the owner cannot extend it */
    _Atomic bool settled; /* written under desk.mutex */

    /* The owner's thread */
    bool grouped; /* it is in a group */
    LIST_ENTRY(zkl_handle) in_group;
};

/* Returns a new handle with one reference, NULL if there is no memory. `is_question`: of anything but an acquisition. */
zkl_handle *zkl_handle_new(zkl_desk *desk, const zkl_handle_kind *kind, bool is_question);
/* Drops one reference. Frees the handle with the last one. Any thread, desk.mutex not held. */
void zkl_handle_drop(zkl_handle *handle);

/* desk.mutex held. Puts the handle on the list of notifications, once. */
void zkl_handle_notify(zkl_handle *handle);
/* desk.mutex held. Settles anything but a granted acquisition. `message` may be "". */
void zkl_handle_answer(zkl_handle *handle, zkl_code code, const char *message);
/* desk.mutex held. The same for a request that was never passed to the engine. */
void zkl_handle_refuse(zkl_handle *handle, zkl_code code, const char *message);
/* engine_mutex held, the engine knows all requests of the handle's owner. Whether the latest request has its result. */
bool zkl_handle_decided(const zkl_handle *handle);

/* Any thread. With engine_mutex the result is exact; without it, the state may have been reached meanwhile. */
static inline bool zkl_handle_has_reached(const zkl_handle *handle, zkl_handle_life life)
{
    return atomic_load(&handle->life) >= life;
}

/* --- the engine's side of a client's handles ----------------------------------------------------------------------------- */

/* desk.mutex held, the client has not ENDED. Asks the engine's side to do this for the handle, a set of TODO_*. Any thread. */
void zkl_handles_ask(zkl_handle *handle, unsigned todo);

/* In all functions below, engine_mutex is held and desk.mutex is not. */

/* Passes all requests of callers to the engine. */
void zkl_handles_run(zkl_desk *desk);
/* Returns the earliest deadline; ZKL_NEVER: there is none. */
int64_t zkl_handles_expire_at(const zkl_desk *desk);
/* Ends, or reports, the handles whose deadline has passed. */
void zkl_handles_expire(zkl_desk *desk);
/* Drops the engine side's reference to a handle. */
void zkl_handles_let_go(zkl_handle *handle);
/* Marks an acquisition for reaping: it has ENDED and is settled. Also from within the engine's callbacks. */
void zkl_handles_die(zkl_handle *handle);
/* Not from within the engine. Reaps an acquisition that is DYING. */
void zkl_handle_reap(zkl_handle *handle);
/* The same for all of them. Usually there is none. */
static inline void zkl_handles_reap(zkl_desk *desk)
{
    while (!TAILQ_EMPTY(&desk->dying)) {
        zkl_handle_reap(TAILQ_FIRST(&desk->dying));
    }
}
/* Whether a flush waits. */
static inline bool zkl_handles_flushing(const zkl_desk *desk)
{
    return !TAILQ_EMPTY(&desk->flushes);
}
/* No clean-up is in flight any more: answers the flushes. */
void zkl_handles_finish_flushes(zkl_desk *desk);
/* The engine is gone: the client becomes ENDED. Answers all open requests. */
void zkl_handles_abandon(zkl_desk *desk);

/* --- callbacks of the engine (zkl_host); `context` is the client ----------------------------------------------------------- */

/* `acquisition_changed`: publishes the acquisition's state. */
void zkl_handle_acquisition_changed(void *context, zkl_acquisition *acquisition);
/* `hold_over`: tells until when the owner has extended the hold. */
int64_t zkl_handle_hold_over(void *context, const zkl_acquisition *acquisition, int64_t now);

#endif
