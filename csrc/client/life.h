/*
 * life: the life of a client, from its opening to the end of its I/O thread.
 *
 * docs/design.md has the table of the states. zkl_life_enter makes every transition.
 */
#ifndef ZKLOCK_CLIENT_LIFE_H
#define ZKLOCK_CLIENT_LIFE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

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

/* A client that is OPEN and has one reference. */
void zkl_life_begin(zkl_life *life);
/* Frees what the system keeps for it. */
void zkl_life_free(zkl_life *life);
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

#endif
