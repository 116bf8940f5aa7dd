/*
 * request: requests in flight.
 *
 * Every asynchronous call of the C client carries one context of ours as its `data`. The context is made before the
 * call, and is in flight from then on. That ends exactly once: by its completion, or when the C client refused the
 * call. A refused call is normally never completed. It may be completed if memory ran out in the middle of the call.
 * So such contexts are kept, as orphans, until the handle is closed and no callback can come any more.
 *
 * The completions here do that bookkeeping, and pass the reply to the function that was given with the request.
 */
#include <assert.h>
#include <string.h>

#include "request.h"

#ifdef ZKL_BREAKABLE
int32_t zkl_most_in_flight = 1000;
#endif

/* Returns a context for a request that is about to be sent, or NULL when memory is short: then the memory of
 * the ask is freed. Counts it as in flight. */
static zkl_request *begin_request(zkl_wire *wire, const zkl_ask *ask)
{
    zkl_request *request = SLIST_FIRST(&wire->spare);
    if (request != NULL) {
        SLIST_REMOVE_HEAD(&wire->spare, next);
    } else {
        request = zkl_alloc(sizeof *request);
        if (request == NULL) {
            zkl_free(ask->memory);
            return NULL;
        }
    }
    request->state = ZKL_REQUEST_FLYING;
    request->wire = wire;
    request->ask = *ask;
    request->connection = wire->connection;
    request->sent_at = wire->now;
    request->evidence = zkl_lease_evidence(&wire->lease, ask->proof, wire->now);
    if (wire->in_flight++ == 0) {
        wire->stats.in_flight_since = wire->now;
    }
    wire->stats.requests++;
    if (wire->host.sending != NULL) {
        wire->host.sending(wire->host.context);
    }
    return request;
}

static void end_flight(zkl_wire *wire)
{
    if (--wire->in_flight == 0) {
        wire->stats.in_flight_since = 0;
    }
}

/* The C client refused the request: its completion will not or should not come. Puts the context away. */
static void request_refused(zkl_request *request, int rc)
{
    zkl_wire *wire = request->wire;
    end_flight(wire);
    zkl_wire_log(wire, ZOO_LOG_LEVEL_WARN, "the ZooKeeper client refused a request: %s", zerror(rc));
    request->state = ZKL_REQUEST_ORPHAN;
    SLIST_INSERT_HEAD(&wire->orphans, request, next);
}

/* The C client's function has returned `rc`. Tells the host, and returns `rc`. */
static int end_request(zkl_request *request, int rc)
{
    const zkl_wire *wire = request->wire;
    if (wire->host.sent != NULL) {
        wire->host.sent(wire->host.context);
    }
    if (rc != ZOK) {
        request_refused(request, rc);
    }
    return rc;
}

/* Takes a context out of flight, with the answer of the server or of the C client. Returns NULL for an orphan. */
static zkl_request *begin_completion(const void *data, int rc)
{
    zkl_request *request = (zkl_request *)(uintptr_t)data;
    zkl_wire *wire = request->wire;
    if (request->state == ZKL_REQUEST_ORPHAN) {
        return NULL; /* it is completed after all */
    }
    assert(request->state == ZKL_REQUEST_FLYING);
    end_flight(wire);
    bool heartbeat = request->ask.proof == ZKL_PROOF_HEARTBEAT;
    bool proof = rc == ZOK || (rc == ZNONODE && heartbeat && ZKL_BROKEN(ZKL_BREAK_EVICTED)) ||
                 (rc == ZTHROTTLEDOP && ZKL_BROKEN(ZKL_BREAK_THROTTLED));
    if (proof && request->connection == wire->connection) {
        zkl_lease_answered(&wire->lease, request->ask.proof, request->sent_at, &request->evidence);
    }
    return request;
}

/* --- completions, by the type of their answer ---------------------------------------------------------------------- */

/* Passes the answer to the function that waits for it. Frees the context, or keeps it for reuse. */
static void pass_answer(const void *data, int rc, zkl_reply reply)
{
    zkl_request *request = begin_completion(data, rc);
    if (request == NULL) {
        return;
    }
    zkl_wire *wire = request->wire;
    reply.connection = request->connection;
    reply.generation = request->ask.generation;
    reply.sent_at = request->sent_at;
    reply.tag = request->ask.tag;
    request->ask.on_reply(request->ask.owner, rc, &reply);
    if (request->ask.release != NULL) {
        request->ask.release(request->ask.kept);
    }
    zkl_free(request->ask.memory);
    request->ask.memory = NULL;
    request->state = ZKL_REQUEST_SPARE;
    SLIST_INSERT_HEAD(&wire->spare, request, next);
}

static void on_path_and_stat(int rc, const char *path, const struct Stat *stat, const void *data)
{
    pass_answer(data, rc, (zkl_reply){.path = path, .stat = stat});
}

static void on_names(int rc, const struct String_vector *names, const void *data)
{
    pass_answer(data, rc, (zkl_reply){.names = names});
}

static void on_listing(int rc, const struct String_vector *names, const struct Stat *stat, const void *data)
{
    pass_answer(data, rc, (zkl_reply){.names = names, .stat = stat});
}

static void on_text(int rc, const char *text, const void *data)
{
    pass_answer(data, rc, (zkl_reply){.path = text});
}

static void on_data(int rc, const char *value, int length, const struct Stat *stat, const void *data)
{
    pass_answer(data, rc, (zkl_reply){.data = value, .length = length, .stat = stat});
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    pass_answer(data, rc, (zkl_reply){.stat = stat});
}

/* The C client's type for this callback has no const. */
static void on_acl(int rc, struct ACL_vector *acl, struct Stat *stat, const void *data)
{
    pass_answer(data, rc, (zkl_reply){.acl = acl, .stat = stat});
}

static void on_code(int rc, const void *data)
{
    pass_answer(data, rc, (zkl_reply){0});
}

bool zkl_list_is_sound(const struct String_vector *names)
{
    bool sound = names->count >= 0 && (names->count == 0 || names->data != NULL);
    for (int32_t i = 0; sound && i < names->count; i++) {
        const char *name = names->data[i];
        sound = name != NULL && name[0] != '\0' && strchr(name, '/') == NULL;
    }
    return sound;
}

int zkl_names_rc(int rc, const struct String_vector *names)
{
    return rc == ZOK && !zkl_list_is_sound(names) ? ZMARSHALLINGERROR : rc;
}

/* --- sending ------------------------------------------------------------------------------------------------------- */

/* What the functions return if there is no memory for a context. */
#define NO_CONTEXT ZMARSHALLINGERROR

int zkl_send_create(zkl_wire *wire, const zkl_ask *ask, const char *path, const char *data, int32_t length,
                    const struct ACL_vector *acl, int32_t flags)
{
    zkl_request *request = begin_request(wire, ask);
    return request == NULL ? NO_CONTEXT
                           : end_request(request, zoo_acreate2(wire->handle, path, data, length, acl, flags,
                                                               on_path_and_stat, request));
}

int zkl_send_make(zkl_wire *wire, const zkl_ask *ask, const char *path, const char *data, const struct ACL_vector *acl,
                  int32_t flags)
{
    zkl_request *request = begin_request(wire, ask);
    return request == NULL ? NO_CONTEXT
                           : end_request(request, zoo_acreate(wire->handle, path, data, (int)strlen(data), acl, flags,
                                                              on_text, request));
}

int zkl_send_delete(zkl_wire *wire, const zkl_ask *ask, const char *path, int32_t version)
{
    zkl_request *request = begin_request(wire, ask);
    return request == NULL ? NO_CONTEXT
                           : end_request(request, zoo_adelete(wire->handle, path, version, on_code, request));
}

int zkl_send_exists(zkl_wire *wire, const zkl_ask *ask, const char *path, watcher_fn watcher, void *context)
{
    zkl_request *request = begin_request(wire, ask);
    return request == NULL ? NO_CONTEXT
                           : end_request(request, zoo_awexists(wire->handle, path, watcher, context, on_stat, request));
}

int zkl_send_get(zkl_wire *wire, const zkl_ask *ask, const char *path, watcher_fn watcher, void *context)
{
    zkl_request *request = begin_request(wire, ask);
    return request == NULL ? NO_CONTEXT
                           : end_request(request, zoo_awget(wire->handle, path, watcher, context, on_data, request));
}

int zkl_send_configuration(zkl_wire *wire, const zkl_ask *ask, watcher_fn watcher, void *context)
{
    zkl_request *request = begin_request(wire, ask);
    return request == NULL ? NO_CONTEXT
                           : end_request(request, zoo_awgetconfig(wire->handle, watcher, context, on_data, request));
}

int zkl_send_set(zkl_wire *wire, const zkl_ask *ask, const char *path, const char *data, int32_t length,
                 int32_t version)
{
    zkl_request *request = begin_request(wire, ask);
    return request == NULL
               ? NO_CONTEXT
               : end_request(request, zoo_aset(wire->handle, path, data, length, version, on_stat, request));
}

int zkl_send_names(zkl_wire *wire, const zkl_ask *ask, const char *path)
{
    zkl_request *request = begin_request(wire, ask);
    return request == NULL ? NO_CONTEXT
                           : end_request(request, zoo_aget_children(wire->handle, path, 0, on_names, request));
}

int zkl_send_list(zkl_wire *wire, const zkl_ask *ask, const char *path, watcher_fn watcher, void *context)
{
    zkl_request *request = begin_request(wire, ask);
    return request == NULL
               ? NO_CONTEXT
               : end_request(request, zoo_awget_children2(wire->handle, path, watcher, context, on_listing, request));
}

int zkl_send_acl(zkl_wire *wire, const zkl_ask *ask, const char *path)
{
    zkl_request *request = begin_request(wire, ask);
    return request == NULL ? NO_CONTEXT : end_request(request, zoo_aget_acl(wire->handle, path, on_acl, request));
}

int zkl_send_sync(zkl_wire *wire, const zkl_ask *ask, const char *path)
{
    zkl_request *request = begin_request(wire, ask);
    return request == NULL ? NO_CONTEXT : end_request(request, zoo_async(wire->handle, path, on_text, request));
}

int zkl_send_multi(zkl_wire *wire, const zkl_ask *ask, int32_t count, const zoo_op_t *ops, zoo_op_result_t *results)
{
    for (int32_t i = 0; i < count; i++) {
        results[i].err = ZRUNTIMEINCONSISTENCY;
    }
    zkl_request *request = begin_request(wire, ask);
    return request == NULL ? NO_CONTEXT
                           : end_request(request, zoo_amulti(wire->handle, count, ops, results, on_code, request));
}

bool zkl_all_succeeded(const zoo_op_result_t *results, int32_t count)
{
    bool succeeded = true;
    for (int32_t i = 0; i < count; i++) {
        succeeded = succeeded && results[i].err == ZOK;
    }
    return succeeded;
}

int zkl_send_unwatch(zkl_wire *wire, const zkl_ask *ask, const char *path, bool children)
{
    zkl_request *request = begin_request(wire, ask);
    if (request == NULL) {
        return NO_CONTEXT;
    }
    /* The parameter's type is a pointer to a function pointer, but the C client stores and calls the value itself. */
    void_completion_t *completion = (void_completion_t *)(uintptr_t)on_code;
    ZooWatcherType type = children ? ZWATCHTYPE_CHILD : ZWATCHTYPE_DATA;
    return end_request(request, zoo_aremove_all_watches(wire->handle, path, type, 0, completion, request));
}

void zkl_forget_watch(const zkl_wire *wire, const char *path, watcher_fn watcher, void *context)
{
    (void)zoo_aremove_watches(wire->handle, path, ZWATCHTYPE_DATA, watcher, context, 1, NULL, NULL);
}

/* --- the end of a handle ------------------------------------------------------------------------------------------- */

static void free_list(struct zkl_request_list *list)
{
    zkl_request *request;
    while ((request = SLIST_FIRST(list)) != NULL) {
        SLIST_REMOVE_HEAD(list, next);
        zkl_free(request->ask.memory);
        zkl_free(request);
    }
}

void zkl_requests_closed(zkl_wire *wire)
{
    free_list(&wire->orphans);
}

void zkl_requests_free(zkl_wire *wire)
{
    free_list(&wire->orphans);
    free_list(&wire->spare);
}
