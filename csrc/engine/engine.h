/*
 * engine: the lock protocol as an event-driven machine.
 *
 * The engine uses no Lua, no threads and no clock. Its driver calls it from one thread at a time and passes the current
 * time. csrc/client/client.c drives it from an I/O thread with real sockets. spec/simulation/ drives the same objects against
 * a simulated ZooKeeper and a simulated clock.
 *
 * The engine is a session (csrc/zk) with locks (csrc/lock) and operations (csrc/ops) on it. Their headers are part of this
 * one: acquisitions, lock specs, contenders and operations are declared there. docs/design.md says what the engine promises.
 *
 * All times are nanoseconds of one clock that never goes back and that counts suspended time (CLOCK_BOOTTIME). All
 * functions are for the driver's thread only, unless their comment says otherwise. All strings passed in are copied.
 */
#ifndef ZKLOCK_ENGINE_H
#define ZKLOCK_ENGINE_H

#include "base/base.h"
#include "lock/lock.h"
#include "ops/ops.h"
#include "zk/zk.h"

typedef struct zkl_engine zkl_engine;

/*
 * The engine's calls to its driver, always made from inside the engine's own functions. A callback must not call the
 * engine, except for the accessors of the acquisition it is given. All get session.context.
 */
typedef struct {
    zkl_session_host session;
    /* The acquisition changed: its phase, code, revocations, or the node it waits for; or zkl_acquisition_settled became true. */
    void (*acquisition_changed)(void *context, zkl_acquisition *acquisition);
    zkl_hold_over_fn hold_over; /* NULL: the driver does not change the end of a grant */
} zkl_host;

/* The settings of an engine. */
typedef struct {
    zkl_session_config session;
    uint64_t random[2]; /* makes the uuids of this engine unique; from getrandom, or from the simulation's seed */
} zkl_engine_config;

/*
 * Returns a new engine, or NULL when memory is short. Copies `config` and `host`. Sends nothing before the first
 * zkl_engine_prepare.
 */
zkl_engine *zkl_engine_new(const zkl_engine_config *config, const zkl_host *host);

/* Closes the session if it is still open (zkl_engine_shut_down), and frees everything, acquisitions included. */
void zkl_engine_free(zkl_engine *engine);

/*
 * Opens or reopens the session where one is wanted, runs due work, and sets `poll`. Call it before every poll. May block as
 * zkl_engine_shut_down does, if the session is replaced.
 */
void zkl_engine_prepare(zkl_engine *engine, int64_t now, zkl_poll *poll);

/*
 * Between two turns of its own the driver may let another thread call zkl_engine_acquire, zkl_acquisition_end and the like, one
 * thread at a time, if zkl_engine_may_call returns true. None of these calls blocks then. Afterwards
 * zkl_engine_wants_turn returns whether they need the driver before `sleeping_until`.
 */
bool zkl_engine_may_call(const zkl_engine *engine);
bool zkl_engine_wants_turn(const zkl_engine *engine, int64_t sleeping_until);

/*
 * Handles the result of the poll: `revents` of the fd that zkl_engine_prepare returned, 0 after a timeout. Returns whether a packet was
 * read.
 */
bool zkl_engine_process(zkl_engine *engine, int64_t now, short revents);
/*
 * Returns whether the latest zkl_engine_process has read a packet and replies are still due on the same connection. Then the driver may
 * call zkl_engine_prepare and zkl_engine_process with POLLIN without polling in between. Nothing happens if nothing has arrived.
 */
bool zkl_engine_may_read_on(const zkl_engine *engine);

/*
 * Starts an acquisition. Returns an object that stays valid until zkl_acquisition_forget, or NULL when memory is short.
 * `writer`, for MODE_READ: a MODE_WRITE acquisition of the same client and path, or NULL. If it is granted, the reader's entry takes
 * the writer's place in the queue, so that no other writer comes between the two (a downgrade). `user` is for the driver:
 * zkl_acquisition_user returns it.
 */
zkl_acquisition *zkl_engine_acquire(zkl_engine *engine, const zkl_acquisition_request *request,
                                    const zkl_acquisition *writer, void *user, int64_t now);

/* Sends the operation, now or when requests may go out. `host` is not copied. */
void zkl_engine_operate(zkl_engine *engine, zkl_operation *operation, const zkl_operation_host *host, void *user,
                        int64_t now);

/*
 * Begins the end: every acquisition ends with ZKL_CLOSED, and nothing new is accepted. The driver goes on with prepare
 * and process until zkl_engine_drained, or until it will wait no longer, and then calls zkl_engine_shut_down.
 */
void zkl_engine_close(zkl_engine *engine, int64_t now);
/*
 * Returns, after zkl_engine_close, whether nothing is in flight any more. Before that: whether no clean-up is in flight
 * (client:flush waits for this).
 */
bool zkl_engine_drained(const zkl_engine *engine);
/*
 * Closes the session at the server if connected, which frees everything that the session holds. May block as long as
 * zookeeper_close does.
 */
void zkl_engine_shut_down(zkl_engine *engine, int64_t now);

/* Returns the counters, which change with the next call. */
const zkl_stats *zkl_engine_stats(const zkl_engine *engine);

#ifdef ZKL_BREAKABLE
/*
 * Returns the instant at which, or after which, the leader restarted the session's timer, as the engine has concluded.
 * Stores in `timeout` for how long the timer was started.
 */
int64_t zkl_engine_restarted_at(const zkl_engine *engine, int64_t *timeout);
#endif

#endif
