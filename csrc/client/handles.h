/* handles: the engine's side of a client's handles. */
#ifndef ZKLOCK_CLIENT_HANDLES_H
#define ZKLOCK_CLIENT_HANDLES_H

#include "handle.h"

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
/* The same for all of them. */
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

#endif
