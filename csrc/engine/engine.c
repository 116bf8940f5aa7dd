/*
 * engine: the object that the driver has. It puts the layers together, and does what is due when its driver gives it time.
 */
#include "engine_private.h"

zkl_engine *zkl_engine_new(const zkl_engine_config *config, const zkl_host *host)
{
    zkl_engine *engine = zkl_alloc(sizeof *engine);
    if (engine == NULL) {
        return NULL;
    }
    if (!zkl_operations_init(&engine->operations, &engine->session) ||
        !zkl_session_init(&engine->session, &config->session, &host->session) ||
        !zkl_locks_init(&engine->locks, &engine->session, config->random, host->acquisition_changed, host->hold_over,
                        host->session.context)) {
        zkl_engine_free(engine);
        return NULL;
    }
    /* In this order they are told of events. */
    zkl_session_listen(&engine->session, &zkl_locks_listener, &engine->locks);
    zkl_session_listen(&engine->session, &zkl_operations_listener, &engine->operations);
    engine->configuration.wire = &engine->session.wire;
    if (host->session.configured != NULL) {
        zkl_session_listen(&engine->session, &zkl_configuration_listener, &engine->configuration);
    }
    zkl_session_use_items(&engine->session, &zkl_entry_items, &engine->locks);
    zkl_watches_use_others(&engine->session.watches, &zkl_program_watches, &engine->operations);
    return engine;
}

void zkl_engine_free(zkl_engine *engine)
{
    if (engine->session.wire.handle != NULL) {
        zkl_engine_shut_down(engine, engine->session.wire.now);
    }
    zkl_operations_free(&engine->operations);
    zkl_locks_free(&engine->locks);
    zkl_session_free(&engine->session);
    zkl_free(engine);
}

zkl_acquisition *zkl_engine_acquire(zkl_engine *engine, const zkl_acquisition_request *request,
                                    const zkl_acquisition *writer, void *user, int64_t now)
{
    return zkl_locks_acquire(&engine->locks, request, writer, user, now);
}

void zkl_engine_operate(zkl_engine *engine, zkl_operation *operation, const zkl_operation_host *host, void *user,
                        int64_t now)
{
    zkl_operations_submit(&engine->operations, operation, host, user, now);
}

void zkl_engine_close(zkl_engine *engine, int64_t now)
{
    engine->session.wire.now = now;
    zkl_session_close(&engine->session);
    zkl_locks_close(&engine->locks, now);
    zkl_operations_close(&engine->operations);
}

bool zkl_engine_drained(const zkl_engine *engine)
{
    const zkl_session *session = &engine->session;
    return zkl_session_closing(session) ? session->wire.in_flight == 0 : session->wire.cleaning == 0;
}

const zkl_stats *zkl_engine_stats(const zkl_engine *engine)
{
    return &engine->session.wire.stats;
}

/* --- turns --------------------------------------------------------------------------------------------------------- */

/*
 * Everything that is due at an instant is one row of a table. A turn goes through the rows, and the driver sleeps until the earliest
 * of their instants.
 */
static int64_t never(const zkl_session *session)
{
    (void)session;
    return ZKL_NEVER;
}

static void end_lingering(zkl_locks *locks)
{
    zkl_share_expire(locks, false);
}

/* What the last row stands for is done before these rows (zkl_session_date_answers) or after them (zkl_session_renew). */
static void done_elsewhere(zkl_heartbeat *heartbeat)
{
    (void)heartbeat;
}

/*
 * ROW(OWNER, AT, RUN, EACH_TURN). OWNER is the part of the engine that both functions are called with. AT returns the
 * instant at which there is something to do, ZKL_NEVER if there is nothing, and RUN does it. EACH_TURN: it is tried in each
 * turn, since a turn may find something to do earlier.
 */
#define EACH_ROW(ROW)                                                                                                  \
    ROW(session, never, zkl_session_notice_loss, true)                                                                 \
    ROW(session, zkl_session_lapses_at, zkl_session_lapse, true)                                                       \
    ROW(session, zkl_session_given_up_at, zkl_session_give_up, false)                                                  \
    ROW(session, zkl_session_tries_end_at, zkl_session_end_tries, false)                                               \
    ROW(locks, zkl_acquisitions_expire_at, zkl_acquisitions_expire, false)                                             \
    ROW(locks, zkl_share_expires_at, end_lingering, false)                                                             \
    ROW(session, zkl_session_probe_at, zkl_session_probe, false)                                                       \
    ROW(session, zkl_session_retry_at, zkl_session_retry, false)                                                       \
    ROW(locks, zkl_entries_run_at, zkl_entries_run, true)                                                              \
    ROW(operations, zkl_operations_send_at, zkl_operations_send, true)                                                 \
    ROW(session.heartbeat, zkl_heartbeat_at, zkl_heartbeat_begin, false)                                               \
    ROW(session.heartbeat, zkl_heartbeat_decides_at, done_elsewhere, true)

static void run_due(zkl_engine *engine)
{
#define RUN_IF_DUE(owner, at, run, each_turn)                                                                          \
    if ((each_turn) || engine->session.wire.now >= at(&engine->owner)) {                                               \
        run(&engine->owner);                                                                                           \
    }
    EACH_ROW(RUN_IF_DUE)
#undef RUN_IF_DUE
}

static int64_t next_due(const zkl_engine *engine)
{
    int64_t next = ZKL_NEVER;
#define TAKE_EARLIER(owner, at, run, each_turn) next = zkl_earlier(next, at(&engine->owner));
    EACH_ROW(TAKE_EARLIER)
#undef TAKE_EARLIER
    return next;
}

bool zkl_engine_may_call(const zkl_engine *engine)
{
    return zkl_session_in_order(&engine->session);
}

bool zkl_engine_wants_turn(const zkl_engine *engine, int64_t sleeping_until)
{
    return zkl_session_silently_lost(&engine->session) || next_due(engine) < sleeping_until;
}

void zkl_engine_prepare(zkl_engine *engine, int64_t now, zkl_poll *poll)
{
    engine->session.wire.now = now;
    zkl_operations_begin_turn(&engine->operations);
    zkl_session_date_answers(&engine->session);
    *poll = (zkl_poll){.fd = -1, .events = 0, .wake_at = ZKL_NEVER};
    run_due(engine);
    zkl_session_prepare(&engine->session, poll);
    poll->wake_at = zkl_earlier(poll->wake_at, next_due(engine));
}

bool zkl_engine_process(zkl_engine *engine, int64_t now, short revents)
{
    engine->session.wire.now = now;
    zkl_session_lapse(&engine->session);
    zkl_session_process(&engine->session, revents);
    run_due(engine);
    /* Not in zkl_engine_prepare: that opens handles, and a caller's thread that runs it must not wait for name resolution. */
    zkl_session_renew(&engine->session);
    return engine->session.has_read;
}

bool zkl_engine_may_read_on(const zkl_engine *engine)
{
    const zkl_session *session = &engine->session;
    return session->has_read && session->wire.in_flight > 0 && zkl_session_in_order(session);
}

void zkl_engine_shut_down(zkl_engine *engine, int64_t now)
{
    engine->session.wire.now = now;
    zkl_session_shut_down(&engine->session);
    zkl_operations_fail(&engine->operations, ZKL_CLOSED, "the client is closed");
}

#ifdef ZKL_BREAKABLE
int64_t zkl_engine_restarted_at(const zkl_engine *engine, int64_t *timeout)
{
    *timeout = engine->session.wire.lease.timeout;
    return engine->session.wire.lease.restarted_at;
}
#endif
