/*
 * engine: the object that the driver has. It puts the layers together.
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
    zkl_heartbeat_use_items(&engine->session.heartbeat, &zkl_entry_items, &engine->locks);
    zkl_watches_use_ops(&engine->session.watches, &zkl_entry_watches, &engine->locks);
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

zkl_acquisition *zkl_engine_acquire(zkl_engine *engine, const zkl_acquisition_request *request, void *user, int64_t now)
{
    return zkl_locks_acquire(&engine->locks, request, user, now);
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

int32_t zkl_engine_in_flight(const zkl_engine *engine)
{
    return engine->session.wire.in_flight;
}

int64_t zkl_engine_read_at(const zkl_engine *engine)
{
    return engine->session.read_at;
}

int32_t zkl_engine_session_timeout(const zkl_engine *engine)
{
    return engine->session.timeout_ms;
}

#ifdef ZKL_BREAKABLE
int64_t zkl_engine_restarted_at(const zkl_engine *engine, int64_t *timeout)
{
    *timeout = engine->session.wire.lease.timeout;
    return engine->session.wire.lease.restarted_at;
}
#endif
