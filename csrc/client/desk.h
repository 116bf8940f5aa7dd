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
#include "life.h"
#include "notifications.h"
#include "os/os.h"

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
