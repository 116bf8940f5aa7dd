/*
 * engine: the object that the driver has. It puts the modules together.
 */
#include <stdio.h>
#include <string.h>

#include "engine_private.h"

#ifdef ZKL_BREAKABLE
int32_t zkl_most_in_flight = 1000;
int32_t zkl_most_grants = INT32_C(1) << 30;
int64_t zkl_most_watched_bytes = ZKL_USUAL_WATCHED_BYTES;
#endif

/* --- the object ---------------------------------------------------------------------------------------------------- */

static bool copy_auths(zkl_engine *engine, const zkl_engine_config *config)
{
    if (config->auth_count == 0) {
        return true;
    }
    engine->auths = zkl_alloc((size_t)config->auth_count * sizeof *engine->auths);
    if (engine->auths == NULL) {
        return false;
    }
    for (int32_t i = 0; i < config->auth_count; i++) {
        const zkl_auth *auth = &config->auths[i];
        engine->auths[i].scheme = zkl_copy(auth->scheme, strlen(auth->scheme));
        engine->auths[i].credential = zkl_copy(auth->credential, (size_t)auth->credential_length);
        engine->auths[i].credential_length = auth->credential_length;
        engine->auth_count++;
        if (engine->auths[i].scheme == NULL || engine->auths[i].credential == NULL) {
            return false;
        }
    }
    return true;
}

/*
 * Makes the first 24 of a uuid's 36 characters from random bits, in the form of a version 4 uuid. The last twelve
 * digits are a counter.
 */
static void make_uuid_stem(zkl_engine *engine, const uint64_t random[2])
{
    snprintf(engine->uuid_stem, sizeof engine->uuid_stem, "%08x-%04x-4%03x-%04x-", (unsigned)(random[0] & 0xffffffff),
             (unsigned)(random[0] >> 32 & 0xffff), (unsigned)(random[0] >> 48 & 0xfff),
             (unsigned)((random[1] & 0x3fff) | 0x8000));
}

zkl_engine *zkl_engine_new(const zkl_engine_config *config, const zkl_host *host)
{
    zkl_engine *engine = zkl_alloc(sizeof *engine);
    if (engine == NULL) {
        return NULL;
    }
    static const zkl_session_listener *const listeners[] = {&zkl_locks_listener, &zkl_operations_listener,
                                                            &zkl_queries_listener, NULL};
    engine->host = *host;
    engine->listeners = listeners;
    engine->items = &zkl_entry_items;
    engine->watch_ops = &zkl_entry_watches;
    engine->other_watches = &zkl_program_watches;
    engine->servers = zkl_copy(config->servers, strlen(config->servers));
    engine->hosts = zkl_copy(config->servers, strcspn(config->servers, "/"));
    engine->chroot_length = (int32_t)(strlen(config->servers) - strcspn(config->servers, "/"));
    engine->asked_timeout_ms = config->session_timeout_ms;
    engine->lease = config->lease;
    engine->zookeeper_log = config->zookeeper_log;
    engine->check_at = engine->backing_off_until = ZKL_NEVER;
    engine->lease_until = config->lease ? 0 : ZKL_NEVER;
    engine->state = ZKL_STATE_CONNECTING;
    TAILQ_INIT(&engine->checks);
    TAILQ_INIT(&engine->flying);
    TAILQ_INIT(&engine->orphans);
    TAILQ_INIT(&engine->spare);
    TAILQ_INIT(&engine->entries);
    TAILQ_INIT(&engine->runnable);
    TAILQ_INIT(&engine->over_watch_budget);
    TAILQ_INIT(&engine->backing_off);
    TAILQ_INIT(&engine->kept);
    TAILQ_INIT(&engine->acquisitions);
    TAILQ_INIT(&engine->holds);
    TAILQ_INIT(&engine->lingering);
    LIST_INIT(&engine->queries);
    TAILQ_INIT(&engine->operations_waiting);
    TAILQ_INIT(&engine->operations);
    LIST_INIT(&engine->user_watches);
    make_uuid_stem(engine, config->random);
    if (engine->servers == NULL || engine->hosts == NULL || !zkl_queues_init(engine) || !copy_auths(engine, config)) {
        zkl_engine_free(engine);
        return NULL;
    }
    return engine;
}

void zkl_engine_free(zkl_engine *engine)
{
    if (engine->handle != NULL) {
        zkl_engine_shut_down(engine, engine->now);
    }
    zkl_entry *entry;
    while ((entry = TAILQ_FIRST(&engine->entries)) != NULL) {
        zkl_entry_destroy(entry);
    }
    zkl_acquisition *acquisition;
    while ((acquisition = TAILQ_FIRST(&engine->acquisitions)) != NULL) {
        zkl_acquisition_free(acquisition);
    }
    zkl_operations_free(engine);
    zkl_requests_free(engine);
    for (int32_t i = 0; i < engine->auth_count; i++) {
        zkl_free((void *)(uintptr_t)engine->auths[i].scheme);
        zkl_free_secret((void *)(uintptr_t)engine->auths[i].credential);
    }
    zkl_free(engine->auths);
    zkl_queues_free(engine);
    zkl_free(engine->hosts);
    zkl_free(engine->servers);
    zkl_free(engine);
}

void zkl_engine_close(zkl_engine *engine, int64_t now)
{
    engine->now = now;
    engine->closing = true;
    zkl_acquisition *acquisition, *next;
    for (acquisition = TAILQ_FIRST(&engine->acquisitions); acquisition != NULL; acquisition = next) {
        next = TAILQ_NEXT(acquisition, all);
        zkl_acquisition_end(acquisition, ZKL_CLOSED, now);
    }
    zkl_share_expire(engine, true);
    zkl_queries_fail(engine, ZKL_CLOSED, "the client is closed");
    zkl_operations_fail(engine, ZKL_CLOSED, "the client is closed");
    zkl_user_watches_end(engine, ZKL_CLOSED);
}

bool zkl_engine_drained(const zkl_engine *engine)
{
    return engine->closing ? engine->in_flight == 0 : engine->cleaning == 0;
}

const zkl_stats *zkl_engine_stats(const zkl_engine *engine)
{
    return &engine->stats;
}

int32_t zkl_engine_session_timeout(const zkl_engine *engine)
{
    return engine->timeout_ms;
}
