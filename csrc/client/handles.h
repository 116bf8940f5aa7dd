/* handles: the engine's side of a client's handles. */
#ifndef ZKLOCK_CLIENT_HANDLES_H
#define ZKLOCK_CLIENT_HANDLES_H

#include "handle.h"

typedef struct {
    struct zkl_handle_list all;     /* engine_mutex: BEGUN to DYING; each has a reference */
    struct zkl_handle_list flushes; /* engine_mutex: those of them that wait until no clean-up is in flight */
    struct zkl_handle_list dying;   /* engine_mutex: those of them that are DYING */
    struct zkl_handle_list limited; /* engine_mutex: those of them that have a deadline, the earliest first */
    struct zkl_handle_list todo;    /* client->mutex: requests of callers; each has a reference */
    uint64_t last_id;               /* client->mutex */
    _Atomic int32_t open; /* any thread: acquisitions that the engine has and that their owners have not ended */
} zkl_handles;

static inline void zkl_handles_init(zkl_handles *handles)
{
    TAILQ_INIT(&handles->all);
    TAILQ_INIT(&handles->flushes);
    TAILQ_INIT(&handles->dying);
    TAILQ_INIT(&handles->limited);
    TAILQ_INIT(&handles->todo);
}

/* client->mutex held, the client has not ENDED. Asks the engine's side to do this for the handle, a set of TODO_*. Any thread. */
void zkl_handles_ask(zkl_handle *handle, unsigned todo);

/* In all functions below, engine_mutex is held and client->mutex is not. */

/* Passes all requests of callers to the engine. */
void zkl_handles_run(zkl_client *client);
/* Returns the earliest deadline; ZKL_NEVER: there is none. */
int64_t zkl_handles_expire_at(const zkl_handles *handles);
/* Ends, or reports, the handles whose deadline has passed. */
void zkl_handles_expire(zkl_client *client);
/* Drops the engine side's reference to a handle. */
void zkl_handles_let_go(zkl_handle *handle);
/* Marks an acquisition for reaping: it has ENDED and is settled. Also from within the engine's callbacks. */
void zkl_handles_die(zkl_handle *handle);
/* Not from within the engine. Reaps an acquisition that is DYING. */
void zkl_handle_reap(zkl_handle *handle);
/* The same for all of them. */
static inline void zkl_handles_reap(zkl_handles *handles)
{
    while (!TAILQ_EMPTY(&handles->dying)) {
        zkl_handle_reap(TAILQ_FIRST(&handles->dying));
    }
}
/* Whether a flush waits. */
static inline bool zkl_handles_flushing(const zkl_handles *handles)
{
    return !TAILQ_EMPTY(&handles->flushes);
}
/* Answers the flushes if no clean-up is in flight any more. */
void zkl_handles_finish_flushes(zkl_client *client);
/* The engine is gone: the client becomes ENDED. Answers all open requests. */
void zkl_handles_abandon(zkl_client *client);

#endif
