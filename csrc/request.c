/*
 * request: requests in flight.
 *
 * Every asynchronous call of the C client carries one context of ours as its `data`. The context is made before the
 * call and put into the engine's list of requests in flight. It is taken out exactly once: by its completion, or when
 * the C client refused the call. A refused call is normally never completed. It may be completed if memory ran out in
 * the middle of the call. So such contexts are kept, as orphans, until the handle is closed and no callback can come
 * any more.
 *
 * The completions here do that bookkeeping, and call the function for the kind of request.
 */
#include <stdio.h>
#include <string.h>

#include "engine_private.h"

zkl_request *zkl_request_new(zkl_engine *engine, zkl_request_kind kind)
{
    zkl_request *request = TAILQ_FIRST(&engine->spare);
    if (request != NULL) {
        TAILQ_REMOVE(&engine->spare, request, all);
        memset(request, 0, sizeof *request);
    } else {
        request = zkl_alloc(sizeof *request);
        if (request == NULL) {
            return NULL;
        }
    }
    request->engine = engine;
    request->kind = kind;
    request->connection = engine->connection;
    request->sent_at = engine->now;
    request->evidence = zkl_lease_evidence(engine, kind);
    TAILQ_INSERT_TAIL(&engine->flying, request, all);
    engine->in_flight++;
    engine->stats.requests++;
    if (engine->host.sending != NULL) {
        engine->host.sending(engine->host.context);
    }
    return request;
}

/* Takes a context out of flight, with the answer of the server or of the C client. Returns NULL for an orphan. */
static zkl_request *begin_completion(const void *data, int rc)
{
    zkl_request *request = (zkl_request *)(uintptr_t)data;
    zkl_engine *engine = request->engine;
    if (engine == NULL) {
        return NULL; /* an orphan that is completed after all */
    }
    TAILQ_REMOVE(&engine->flying, request, all);
    engine->in_flight--;
    bool proof = rc == ZOK || (rc == ZNONODE && request->kind == ZKL_REQUEST_CHECK && ZKL_BROKEN(ZKL_BREAK_EVICTED)) ||
                 (rc == ZTHROTTLEDOP && ZKL_BROKEN(ZKL_BREAK_THROTTLED));
    if (proof && request->connection == engine->connection) {
        zkl_lease_answered(request);
    }
    return request;
}

static void put_away(zkl_engine *engine, zkl_request *request)
{
    TAILQ_INSERT_HEAD(&engine->spare, request, all);
}

/* Releases the entry or the queue of a request, after its reply has been handled. */
static void release_about(zkl_request *request)
{
    switch (request->kind) {
    case ZKL_REQUEST_DOWNGRADE:
        zkl_free(request->downgrade);
        request->downgrade = NULL;
        zkl_entry_request_completed(request->about.entry);
        break;
    case ZKL_REQUEST_CREATE:
    case ZKL_REQUEST_LIST:
    case ZKL_REQUEST_LEASES:
    case ZKL_REQUEST_SYNC:
    case ZKL_REQUEST_STAT:
    case ZKL_REQUEST_WRITER:
    case ZKL_REQUEST_DELETE:
        zkl_entry_request_completed(request->about.entry);
        break;
    case ZKL_REQUEST_PARENT:
    case ZKL_REQUEST_LIMIT:
        zkl_queue_drop(request->about.queue);
        break;
    case ZKL_REQUEST_PROBE:
    case ZKL_REQUEST_WATCH:
    case ZKL_REQUEST_UNWATCH:
    case ZKL_REQUEST_PULSE:
    case ZKL_REQUEST_WITNESS:
    case ZKL_REQUEST_CHECK:
    case ZKL_REQUEST_VERIFY:
    case ZKL_REQUEST_QUERY_LIST:
    case ZKL_REQUEST_QUERY_GET:
    case ZKL_REQUEST_OPERATION:
    case ZKL_REQUEST_USER_UNWATCH:
        break;
    }
}

static void end_completion(zkl_request *request)
{
    zkl_engine *engine = request->engine;
    release_about(request);
    put_away(engine, request);
}

void zkl_request_refused(zkl_request *request, int rc)
{
    zkl_engine *engine = request->engine;
    TAILQ_REMOVE(&engine->flying, request, all);
    engine->in_flight--;
    zkl_log(engine, ZOO_LOG_LEVEL_WARN, "the ZooKeeper client refused a request: %s", zerror(rc));
    request->engine = NULL;
    TAILQ_INSERT_TAIL(&engine->orphans, request, all);
}

/* --- completions, by the type of their answer ---------------------------------------------------------------------- */

static void on_created(int rc, const char *path, const struct Stat *stat, const void *data)
{
    zkl_request *request = begin_completion(data, rc);
    if (request == NULL) {
        return;
    }
    if (request->kind == ZKL_REQUEST_OPERATION) {
        zkl_operation_completed(request, rc, &(zkl_reply){.path = path, .stat = stat});
    } else {
        zkl_entry_created(request, rc, path, stat);
    }
    end_completion(request);
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

static void on_names(int rc, const struct String_vector *names, const void *data)
{
    zkl_request *request = begin_completion(data, rc);
    if (request == NULL) {
        return;
    }
    if (rc == ZOK && !zkl_list_is_sound(names)) {
        rc = ZMARSHALLINGERROR;
    }
    if (request->kind == ZKL_REQUEST_QUERY_LIST) {
        zkl_query_listed(request, rc, names);
    } else {
        zkl_entry_listed(request, rc, names);
    }
    end_completion(request);
}

static void on_listing(int rc, const struct String_vector *names, const struct Stat *stat, const void *data)
{
    zkl_request *request = begin_completion(data, rc);
    if (request == NULL) {
        return;
    }
    if (request->kind == ZKL_REQUEST_WATCH) {
        zkl_watch_listed(request, rc, names, stat);
    } else if (request->kind == ZKL_REQUEST_OPERATION) {
        zkl_operation_completed(request, rc, &(zkl_reply){.names = names, .stat = stat});
    } else {
        rc = rc == ZOK && !zkl_list_is_sound(names) ? ZMARSHALLINGERROR : rc;
        zkl_acquisition *acquisition = request->about.entry->acquisition;
        if (acquisition != NULL && request->generation == acquisition->permits->generation) {
            acquisition->permits->listing = false;
            zkl_permits_listed(acquisition, request, rc, names, stat);
        }
    }
    end_completion(request);
}

static void on_text(int rc, const char *text, const void *data)
{
    zkl_request *request = begin_completion(data, rc);
    if (request == NULL) {
        return;
    }
    if (request->kind == ZKL_REQUEST_SYNC) {
        zkl_entry_synced(request, rc);
    } else if (request->kind == ZKL_REQUEST_PULSE) {
        zkl_lease_pulsed(request, rc);
    } else if (request->kind == ZKL_REQUEST_OPERATION) {
        zkl_operation_completed(request, rc, &(zkl_reply){.path = text});
    } else {
        zkl_queue_parent_made(request, rc);
    }
    end_completion(request);
}

static void on_data(int rc, const char *value, int length, const struct Stat *stat, const void *data)
{
    zkl_request *request = begin_completion(data, rc);
    if (request == NULL) {
        return;
    }
    if (request->kind == ZKL_REQUEST_WATCH) {
        zkl_watch_armed(request, rc, value, length);
    } else if (request->kind == ZKL_REQUEST_LIMIT) {
        zkl_permits_limit_got(request, rc, value, length, stat);
    } else if (request->kind == ZKL_REQUEST_OPERATION) {
        zkl_operation_completed(request, rc, &(zkl_reply){.data = value, .length = length, .stat = stat});
    } else {
        zkl_query_got(request, rc, value, length);
    }
    end_completion(request);
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    zkl_request *request = begin_completion(data, rc);
    if (request == NULL) {
        return;
    }
    if (request->kind == ZKL_REQUEST_LIMIT) {
        zkl_permits_limit_set(request, rc, stat);
    } else if (request->kind == ZKL_REQUEST_STAT) {
        zkl_entry_stat(request, rc, stat);
    } else if (request->kind == ZKL_REQUEST_WRITER) {
        zkl_entry_writer_stat(request, rc, stat);
    } else if (request->kind == ZKL_REQUEST_VERIFY) {
        zkl_lease_verified(request, rc, stat);
    } else if (request->kind == ZKL_REQUEST_OPERATION) {
        zkl_operation_completed(request, rc, &(zkl_reply){.stat = stat});
    } else {
        zkl_session_probed(request, rc);
    }
    end_completion(request);
}

/*
 * Returns the outcome of a DOWNGRADE. The C client reports success even if parts of the answer say otherwise, or are
 * missing.
 */
static int downgrade_outcome(const struct zkl_downgrade *downgrade, int rc)
{
    bool passed = downgrade->results[0].err == ZOK && downgrade->results[1].err == ZOK;
    return rc == ZOK && !passed ? ZRUNTIMEINCONSISTENCY : rc;
}

static void on_done(int rc, const void *data)
{
    zkl_request *request = begin_completion(data, rc);
    if (request == NULL) {
        return;
    }
    switch (request->kind) {
    case ZKL_REQUEST_DELETE:
        zkl_entry_deleted(request, rc);
        break;
    case ZKL_REQUEST_DOWNGRADE:
        zkl_entry_created(request, downgrade_outcome(request->downgrade, rc), request->downgrade->path, NULL);
        break;
    case ZKL_REQUEST_UNWATCH:
        zkl_watch_removed(request, rc);
        break;
    case ZKL_REQUEST_CHECK:
        zkl_lease_checked(request, rc);
        break;
    case ZKL_REQUEST_WITNESS:
        zkl_lease_pulsed(request, rc);
        break;
    case ZKL_REQUEST_OPERATION:
        zkl_operation_completed(request, rc, &(zkl_reply){0});
        break;
    case ZKL_REQUEST_USER_UNWATCH:
        zkl_user_watch_removed(request, rc);
        break;
    default: /* the other kinds have other completions */
        break;
    }
    end_completion(request);
}

/* --- sending ------------------------------------------------------------------------------------------------------- */

/* Returns whether the C client has accepted the request; `rc` is the result of its function. Tells the host. */
static bool taken(const zkl_request *request, int rc)
{
    const zkl_engine *engine = request->engine;
    if (engine->host.sent != NULL) {
        engine->host.sent(engine->host.context);
    }
    return rc == ZOK;
}

static zkl_request *about_entry(zkl_entry *entry, zkl_request_kind kind)
{
    zkl_request *request = zkl_request_new(entry->engine, kind);
    if (request != NULL) {
        request->about.entry = entry;
        request->generation = entry->generation;
        entry->flying++;
    }
    return request;
}

static bool sent_for_entry(zkl_request *request, int rc)
{
    if (taken(request, rc)) {
        return true;
    }
    zkl_entry *entry = request->about.entry;
    zkl_request_refused(request, rc);
    zkl_entry_request_completed(entry);
    return false;
}

bool zkl_send_create(zkl_entry *entry, const char *path, const char *data, const struct ACL_vector *acl)
{
    zkl_request *request = about_entry(entry, ZKL_REQUEST_CREATE);
    return request != NULL && sent_for_entry(request, zoo_acreate2(entry->engine->handle, path, data, (int)strlen(data),
                                                                   acl, ZOO_EPHEMERAL_SEQUENTIAL, on_created, request));
}

bool zkl_send_downgrade(zkl_entry *entry, const char *writer, const char *path, const char *data,
                        const struct ACL_vector *acl)
{
    size_t size = strlen(path) + 1;
    struct zkl_downgrade *downgrade = zkl_alloc(sizeof *downgrade + size);
    zkl_request *request = downgrade != NULL ? about_entry(entry, ZKL_REQUEST_DOWNGRADE) : NULL;
    if (request == NULL) {
        zkl_free(downgrade);
        return false;
    }
    request->downgrade = downgrade;
    memcpy(downgrade->path, path, size);
    zoo_op_t ops[2];
    zoo_check_op_init(&ops[0], writer, -1);
    zoo_create_op_init(&ops[1], path, data, (int)strlen(data), acl, ZOO_EPHEMERAL, downgrade->path, (int)size);
    int first = ZKL_BROKEN(ZKL_BREAK_WRITER) ? 1 : 0;
    downgrade->results[1].err = ZRUNTIMEINCONSISTENCY; /* stays if the answer says nothing about this part */
    downgrade->results[0].err = first == 0 ? ZRUNTIMEINCONSISTENCY : ZOK;
    return sent_for_entry(request, zoo_amulti(entry->engine->handle, 2 - first, ops + first, downgrade->results + first,
                                              on_done, request));
}

bool zkl_send_list(zkl_entry *entry, zkl_list_purpose purpose)
{
    zkl_request *request = about_entry(entry, ZKL_REQUEST_LIST);
    if (request == NULL) {
        return false;
    }
    request->purpose = purpose;
    return sent_for_entry(request, zoo_aget_children(entry->engine->handle, entry->queue->path, 0, on_names, request));
}

bool zkl_send_leases(zkl_entry *queue_entry, zkl_list_purpose purpose, uint32_t generation)
{
    zkl_request *request = about_entry(queue_entry, ZKL_REQUEST_LEASES);
    if (request == NULL) {
        return false;
    }
    request->purpose = purpose;
    request->generation = generation;
    const char *path = queue_entry->acquisition->permits->leases->path;
    return sent_for_entry(request, zoo_aget_children2(queue_entry->engine->handle, path, 0, on_listing, request));
}

bool zkl_send_sync(zkl_entry *entry)
{
    zkl_request *request = about_entry(entry, ZKL_REQUEST_SYNC);
    return request != NULL &&
           sent_for_entry(request, zoo_async(entry->engine->handle, entry->queue->path, on_text, request));
}

bool zkl_send_stat(zkl_entry *entry)
{
    zkl_request *request = about_entry(entry, ZKL_REQUEST_STAT);
    return request != NULL &&
           sent_for_entry(request, zoo_aexists(entry->engine->handle, entry->node, 0, on_stat, request));
}

bool zkl_send_writer_stat(zkl_entry *reader)
{
    zkl_request *request = about_entry(reader, ZKL_REQUEST_WRITER);
    return request != NULL &&
           sent_for_entry(request, zoo_aexists(reader->engine->handle, reader->writer->node, 0, on_stat, request));
}

bool zkl_send_delete(zkl_entry *entry)
{
    zkl_request *request = about_entry(entry, ZKL_REQUEST_DELETE);
    return request != NULL &&
           sent_for_entry(request, zoo_adelete(entry->engine->handle, entry->node, -1, on_done, request));
}

/* Ends the sending of a request that holds nothing. If it was refused, puts the context away and returns false. */
static bool sent(zkl_request *request, int rc)
{
    if (taken(request, rc)) {
        return true;
    }
    zkl_request_refused(request, rc);
    return false;
}

/* Returns a context for a request about a queue, with a reference to the queue; NULL when memory is short. */
static zkl_request *about_queue(zkl_queue *queue, zkl_request_kind kind)
{
    zkl_request *request = zkl_request_new(queue->engine, kind);
    if (request != NULL) {
        request->about.queue = queue;
        queue->uses++;
    }
    return request;
}

static bool sent_for_queue(zkl_request *request, int rc)
{
    if (taken(request, rc)) {
        return true;
    }
    zkl_queue *queue = request->about.queue;
    zkl_request_refused(request, rc);
    zkl_queue_drop(queue);
    return false;
}

bool zkl_send_get_limit(zkl_queue *leases)
{
    zkl_request *request = about_queue(leases, ZKL_REQUEST_LIMIT);
    return request != NULL &&
           sent_for_queue(request, zoo_aget(leases->engine->handle, leases->path, 0, on_data, request));
}

bool zkl_send_set_limit(zkl_queue *leases, int32_t limit, int32_t version)
{
    char data[12];
    int length = snprintf(data, sizeof data, "%d", (int)limit);
    zkl_request *request = about_queue(leases, ZKL_REQUEST_LIMIT);
    return request != NULL && sent_for_queue(request, zoo_aset(leases->engine->handle, leases->path, data, length,
                                                               version, on_stat, request));
}

bool zkl_send_parent(zkl_queue *queue, int32_t index, const char *path, const char *data, const struct ACL_vector *acl)
{
    zkl_engine *engine = queue->engine;
    zkl_request *request = about_queue(queue, ZKL_REQUEST_PARENT);
    if (request == NULL) {
        return false;
    }
    request->index = index;
    int mode = engine->no_containers ? ZOO_PERSISTENT : ZOO_CONTAINER;
    return sent_for_queue(request,
                          zoo_acreate(engine->handle, path, data, (int)strlen(data), acl, mode, on_text, request));
}

bool zkl_send_watch(zkl_watch *watch)
{
    zkl_request *request = zkl_request_new(watch->engine, ZKL_REQUEST_WATCH);
    if (request == NULL) {
        return false;
    }
    request->about.watch = watch;
    zhandle_t *handle = watch->engine->handle;
    int rc = watch->children ? zoo_awget_children2(handle, watch->node, zkl_watch_event, watch, on_listing, request)
                             : zoo_awget(handle, watch->node, zkl_watch_event, watch, on_data, request);
    return sent(request, rc);
}

bool zkl_send_unwatch(zkl_watch *watch)
{
    zkl_request *request = zkl_request_new(watch->engine, ZKL_REQUEST_UNWATCH);
    if (request == NULL) {
        return false;
    }
    request->about.watch = watch;
    /* The parameter's type is a pointer to a function pointer, but the C client stores and calls the value itself. */
    void_completion_t *completion = (void_completion_t *)(uintptr_t)on_done;
    return sent(request,
                zoo_aremove_all_watches(watch->engine->handle, watch->node,
                                        watch->children ? ZWATCHTYPE_CHILD : ZWATCHTYPE_DATA, 0, completion, request));
}

bool zkl_send_probe(zkl_engine *engine)
{
    zkl_request *request = zkl_request_new(engine, ZKL_REQUEST_PROBE);
    return request != NULL && sent(request, zoo_aexists(engine->handle, "/", 0, on_stat, request));
}

bool zkl_send_pulse(zkl_engine *engine, bool last)
{
    zkl_request *request = zkl_request_new(engine, ZKL_REQUEST_PULSE);
    if (request == NULL) {
        return false;
    }
    request->index = last;
    return sent(request, zoo_async(engine->handle, "/", on_text, request));
}

bool zkl_send_witness(zkl_engine *engine)
{
    zkl_request *request = zkl_request_new(engine, ZKL_REQUEST_WITNESS);
    if (request == NULL) {
        return false;
    }
    request->index = 1;
    zoo_check_op_init(&engine->witness, "/", -1);
    return sent(request, zoo_amulti(engine->handle, 1, &engine->witness, &engine->witness_result, on_done, request));
}

bool zkl_send_query_list(zkl_query *query)
{
    zkl_engine *engine = query->engine;
    zkl_request *request = zkl_request_new(engine, ZKL_REQUEST_QUERY_LIST);
    if (request == NULL) {
        return false;
    }
    request->about.query = query;
    return sent(request, zoo_aget_children(engine->handle, query->path, 0, on_names, request));
}

bool zkl_send_query_get(zkl_query *query, int32_t index, const char *path)
{
    zkl_engine *engine = query->engine;
    zkl_request *request = zkl_request_new(engine, ZKL_REQUEST_QUERY_GET);
    if (request == NULL) {
        return false;
    }
    request->index = index;
    request->about.query = query;
    return sent(request, zoo_aget(engine->handle, path, 0, on_data, request));
}

bool zkl_send_checks(zkl_engine *engine, struct zkl_checks *checks)
{
    zkl_request *request = zkl_request_new(engine, ZKL_REQUEST_CHECK);
    if (request == NULL) {
        return false;
    }
    request->about.checks = checks;
    return sent(request, zoo_amulti(engine->handle, checks->count, checks->ops, checks->results, on_done, request));
}

bool zkl_send_verification(zkl_engine *engine, struct zkl_checks *checks, int32_t index)
{
    zkl_request *request = zkl_request_new(engine, ZKL_REQUEST_VERIFY);
    if (request == NULL) {
        return false;
    }
    request->about.checks = checks;
    request->index = index;
    return sent(request, zoo_aexists(engine->handle, checks->items[index].entry->node, 0, on_stat, request));
}

static int call_client(zhandle_t *handle, const zkl_sending *what, zkl_request *request)
{
    watcher_fn watcher = what->watch != NULL ? zkl_user_watch_event : NULL;
    switch (what->kind) {
    case ZKL_OPERATION_GET:
        return zoo_awget(handle, what->path, watcher, what->watch, on_data, request);
    case ZKL_OPERATION_SET:
        return zoo_aset(handle, what->path, what->data, what->data_length, what->version, on_stat, request);
    case ZKL_OPERATION_CREATE:
        return zoo_acreate2(handle, what->path, what->data, what->data_length, what->acl, what->flags, on_created,
                            request);
    case ZKL_OPERATION_DELETE:
        return zoo_adelete(handle, what->path, what->version, on_done, request);
    case ZKL_OPERATION_EXISTS:
        return zoo_awexists(handle, what->path, watcher, what->watch, on_stat, request);
    case ZKL_OPERATION_CHILDREN:
        return zoo_awget_children2(handle, what->path, watcher, what->watch, on_listing, request);
    case ZKL_OPERATION_SYNC:
        return zoo_async(handle, what->path, on_text, request);
    case ZKL_OPERATION_MULTI:
        return zoo_amulti(handle, what->count, what->ops, what->results, on_done, request);
    case ZKL_OPERATION_CHECK:
        break;
    }
    return ZBADARGUMENTS;
}

int zkl_send_operation(zkl_operation *operation, zkl_engine *engine, const zkl_sending *sending)
{
    zkl_request *request = zkl_request_new(engine, ZKL_REQUEST_OPERATION);
    if (request == NULL) {
        return ZMARSHALLINGERROR;
    }
    request->about.operation = operation;
    int rc = call_client(engine->handle, sending, request);
    (void)sent(request, rc);
    return rc;
}

int zkl_send_user_unwatch(zkl_user_watch *watch, zkl_engine *engine, const char *path, bool children)
{
    zkl_request *request = zkl_request_new(engine, ZKL_REQUEST_USER_UNWATCH);
    if (request == NULL) {
        return ZMARSHALLINGERROR;
    }
    request->about.user_watch = watch;
    /* See zkl_send_unwatch. */
    void_completion_t *completion = (void_completion_t *)(uintptr_t)on_done;
    int rc = zoo_aremove_all_watches(engine->handle, path, children ? ZWATCHTYPE_CHILD : ZWATCHTYPE_DATA, 0, completion,
                                     request);
    (void)sent(request, rc);
    return rc;
}

/* --- the end of a handle ------------------------------------------------------------------------------------------- */

static void free_list(struct zkl_request_list *list)
{
    zkl_request *request;
    while ((request = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, request, all);
        zkl_free(request->downgrade);
        zkl_free(request);
    }
}

void zkl_requests_closed(zkl_engine *engine)
{
    free_list(&engine->orphans);
}

void zkl_requests_free(zkl_engine *engine)
{
    free_list(&engine->orphans);
    free_list(&engine->spare);
}
