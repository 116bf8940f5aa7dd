/*
 * desk: where a client's handles leave their requests and get their results; what their owners' side and the engine's side share.
 *
 * The client begins with its desk (client_object.h). Two mutexes protect the fields, as each says: `mutex`, which is held for moments
 * only and under which no function of the engine is called that can call back; and the client's engine_mutex.
 */
#ifndef ZKLOCK_CLIENT_DESK_H
#define ZKLOCK_CLIENT_DESK_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "client.h"
#include "notify_socket.h"
#include "os/os.h"

/* --- the life of a client, from its opening to the end of its I/O thread ----------------------------------------------- */

/* The states, in their order. A client skips none. One that is not joined ends its life in ENDED. */
typedef enum {
    ZKL_LIFE_OPEN,         /* set by zkl_client_open */
    ZKL_LIFE_CLOSE_WANTED, /* set by zkl_client_close, any thread: the I/O thread has not begun to close the session */
    ZKL_LIFE_CLOSING,      /* set by the I/O thread: the engine is closing the session; nothing new is accepted */
    ZKL_LIFE_ENDED,        /* set by the I/O thread: the engine is gone, and the I/O thread is about to return */
    ZKL_LIFE_JOINED        /* set by zkl_client_join, which then waits until the I/O thread has returned */
} zkl_client_life;

typedef struct {
    _Atomic int32_t references; /* any thread: the owner's, the I/O thread's, and one of each handle */
    uint32_t forks;             /* constant: zkl_registry_forks at the time of opening */
    /*
     * Written under desk.mutex. CLOSING and ENDED are entered under engine_mutex too: a thread that holds only engine_mutex
     * knows whether the client has reached CLOSING or ENDED, but not whether its closing was asked for.
     */
    _Atomic zkl_client_life state;
    bool released;    /* desk.mutex: the owner has dropped its reference. No caller asks for notifications any more. */
    int64_t close_by; /* I/O thread: when it ends even if the session is not closed yet; set when it enters CLOSING */
    pthread_t thread; /* constant once the client is open: the I/O thread */
    pthread_cond_t gone; /* with desk.mutex: signalled when the client enters ENDED, or shortly after that */
} zkl_life;

/* desk.mutex held. Enters the state that follows the present one. */
void zkl_life_enter(zkl_life *life, zkl_client_life next);

/* Any thread. Without the mutexes that the field `state` names, the state may have been reached meanwhile. */
static inline bool zkl_life_has_reached(const zkl_life *life, zkl_client_life state)
{
    return atomic_load_explicit(&life->state, memory_order_relaxed) >= state;
}

/* Whether the client has ENDED: no result can come any more. As zkl_life_has_reached. */
static inline bool zkl_life_ended(const zkl_life *life)
{
    return zkl_life_has_reached(life, ZKL_LIFE_ENDED);
}

/* --- the byte that makes the owner's event loop ask what is new ---------------------------------------------------------- */

/* The byte for the owner. */
typedef enum {
    ZKL_SIGNAL_NONE, /* there is nothing that the owner has not asked for */
    ZKL_SIGNAL_DUE,  /* there is something, and no byte for it was written yet */
    ZKL_SIGNAL_GIVEN /* a byte is in the pipe or was sent by the socket, or will be at once */
} zkl_signal;

typedef struct {
    zkl_pipe
        pipe; /* constant until the client is freed: the I/O thread writes, callers read. zkl_client_fd is its end. */
    zkl_notify_socket socket;
    _Atomic zkl_signal signal; /* written under desk.mutex, read by any thread */
    bool changed;              /* desk.mutex: new state or log lines that zkl_client_next has not reported */
} zkl_notifications;

/* In the functions below, desk.mutex is held. */

/* There is something that the owner should ask for. */
void zkl_notifications_due(zkl_notifications *notifications);
/* The same, for a new state or a new log line. */
void zkl_notifications_changed(zkl_notifications *notifications);
/*
 * No handle is on the list. Empties the pipe, and returns whether the state or the log may have changed since the last time that it was
 * called.
 */
bool zkl_notifications_read(zkl_notifications *notifications);
/* Whether a byte is due; it then counts as given: the caller must call zkl_notifications_ring after it has unlocked the mutex. */
bool zkl_notifications_claim_byte(zkl_notifications *notifications);
/* The last notification: the I/O thread ends. */
void zkl_notifications_end(zkl_notifications *notifications);

/* Any thread, no mutex is needed. Whether there is something that the owner has not asked for. */
static inline bool zkl_notifications_any(const zkl_notifications *notifications)
{
    return atomic_load(&notifications->signal) != ZKL_SIGNAL_NONE;
}
/* Any thread, no mutex. Writes the byte. */
void zkl_notifications_ring(const zkl_notifications *notifications);

/* --- the desk ------------------------------------------------------------------------------------------------------ */

TAILQ_HEAD(zkl_handle_list, zkl_handle);

typedef struct zkl_desk zkl_desk;
struct zkl_desk {
    pthread_mutex_t mutex;
    zkl_life life;
    zkl_notifications notifications;
    void (*free)(zkl_desk *desk); /* constant: frees the client */

    /* Handles, each with a reference */
    struct zkl_handle_list notified; /* mutex: their owners are to look at them; a notification is due or given */
    struct zkl_handle_list todo;     /* mutex: requests of callers; `asked` */
    struct zkl_handle_list all;      /* engine_mutex: BEGUN to DYING */
    struct zkl_handle_list flushes;  /* engine_mutex: those of `all` that wait until no clean-up is in flight */
    struct zkl_handle_list dying;    /* engine_mutex: those of `all` that are DYING */
    struct zkl_handle_list limited;  /* engine_mutex: those of `all` that have a deadline, the earliest first */
    uint64_t last_id;                /* mutex */
    _Atomic bool asked;              /* whether `todo` has one; written under the mutex, read by any thread */
    _Atomic int32_t open; /* any thread: acquisitions that the engine has and that their owners have not ended */
    /*
     * engine_mutex. The handle that gets no notification, because its owner is the caller that runs the engine and will look at it.
     * NULL: none; always NULL while no thread holds that mutex, and once the client has ENDED.
     */
    const zkl_handle *quiet;

    zkl_pipe wake_pipe; /* callers write, the I/O thread reads; constant from the opening until the client is JOINED */
    bool woken;         /* mutex: a byte is in that pipe, or will be at once */
};

/* The desk of a client. */
static inline zkl_desk *zkl_desk_of(const zkl_client *client)
{
    return (zkl_desk *)(uintptr_t)client;
}

/*
 * One reference, no handles. Returns false if the system refuses a pipe; errno then says why, and zkl_desk_free is needed even then.
 * `free` is called when the last reference is dropped.
 */
bool zkl_desk_init(zkl_desk *desk, void (*free)(zkl_desk *desk));
void zkl_desk_free(zkl_desk *desk);
/*
 * Drops one reference. Frees the client with the last one. Any thread, the mutex not held. Under engine_mutex it is never the last one:
 * the I/O thread has a reference as long as there is an engine.
 */
void zkl_desk_drop(zkl_desk *desk);

/* Wakes the I/O thread out of its sleep. Any thread. */
void zkl_desk_wake(zkl_desk *desk);
/*
 * Mutex held. Unlocks it, and then wakes the I/O thread if necessary: a byte that is written before the unlock would make the thread run
 * into the locked mutex. One byte is enough until it has been read. Any thread.
 */
void zkl_desk_unlock_and_wake(zkl_desk *desk);
/* I/O thread: empties the pipe that woke it. */
void zkl_desk_awake(zkl_desk *desk);
/* The client is JOINED, and its I/O thread has returned. Closes that pipe, as soon as no thread is about to write to it. */
void zkl_desk_end_wakes(zkl_desk *desk);

#endif
