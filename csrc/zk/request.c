/*
 * request: requests in flight.
 *
 * Every asynchronous call of the C client carries one context of ours as its `data`. The context is made before the
 * call and put into the session's list of requests in flight. It is taken out exactly once: by its completion, or when
 * the C client refused the call. A refused call is normally never completed. It may be completed if memory ran out in
 * the middle of the call. So such contexts are kept, as orphans, until the handle is closed and no callback can come
 * any more.
 *
 * The completions here do that bookkeeping, and pass the reply to the function that was given with the request.
 */
#include <assert.h>
#include <string.h>

#include "lease.h"
#include "request.h"
#include "session.h"

#ifdef ZKL_BREAKABLE
int32_t zkl_most_in_flight = 1000;
#endif

/* Returns a context for a request that is about to be sent, or NULL when memory is short: then the memory of
 * the ask is freed. Counts it as in flight. */
static zkl_request *begin(zkl_session *session, const zkl_ask *ask)
{
    zkl_request *request = TAILQ_FIRST(&session->requests.spare);
    if (request != NULL) {
        TAILQ_REMOVE(&session->requests.spare, request, all);
    } else {
        request = zkl_alloc(sizeof *request);
        if (request == NULL) {
            zkl_free(ask->memory);
            return NULL;
        }
    }
    request->state = ZKL_REQUEST_FLYING;
    request->session = session;
    request->on_reply = ask->on_reply;
    request->owner = ask->owner;
    request->memory = ask->memory;
    request->generation = ask->generation;
    request->tag = ask->tag;
    request->proof = ask->proof;
    request->connection = session->connection;
    request->sent_at = session->now;
    request->evidence = zkl_lease_evidence(session, ask->proof);
    TAILQ_INSERT_TAIL(&session->requests.flying, request, all);
    session->requests.in_flight++;
    session->stats.requests++;
    if (session->host.sending != NULL) {
        session->host.sending(session->host.context);
    }
    return request;
}

/* The C client refused the request: its completion will not or should not come. Puts the context away. */
static void refused(zkl_request *request, int rc)
{
    zkl_session *session = request->session;
    TAILQ_REMOVE(&session->requests.flying, request, all);
    session->requests.in_flight--;
    zkl_session_log(session, ZOO_LOG_LEVEL_WARN, "the ZooKeeper client refused a request: %s", zerror(rc));
    request->state = ZKL_REQUEST_ORPHAN;
    TAILQ_INSERT_TAIL(&session->requests.orphans, request, all);
}

/* The C client's function has returned `rc`. Tells the host, and returns `rc`. */
static int end(zkl_request *request, int rc)
{
    const zkl_session *session = request->session;
    if (session->host.sent != NULL) {
        session->host.sent(session->host.context);
    }
    if (rc != ZOK) {
        refused(request, rc);
    }
    return rc;
}

/* Takes a context out of flight, with the answer of the server or of the C client. Returns NULL for an orphan. */
static zkl_request *begin_completion(const void *data, int rc)
{
    zkl_request *request = (zkl_request *)(uintptr_t)data;
    zkl_session *session = request->session;
    if (request->state == ZKL_REQUEST_ORPHAN) {
        return NULL; /* it is completed after all */
    }
    assert(request->state == ZKL_REQUEST_FLYING);
    TAILQ_REMOVE(&session->requests.flying, request, all);
    session->requests.in_flight--;
    bool heartbeat = request->proof == ZKL_PROOF_HEARTBEAT;
    bool proof = rc == ZOK || (rc == ZNONODE && heartbeat && ZKL_BROKEN(ZKL_BREAK_EVICTED)) ||
                 (rc == ZTHROTTLEDOP && ZKL_BROKEN(ZKL_BREAK_THROTTLED));
    if (proof && request->connection == session->connection) {
        zkl_lease_answered(request);
    }
    return request;
}

/* --- completions, by the type of their answer ---------------------------------------------------------------------- */

/* Passes the answer to the function that waits for it. Frees the context, or keeps it for reuse. */
static void answer(const void *data, int rc, zkl_reply reply)
{
    zkl_request *request = begin_completion(data, rc);
    if (request == NULL) {
        return;
    }
    zkl_session *session = request->session;
    reply.connection = request->connection;
    reply.generation = request->generation;
    reply.sent_at = request->sent_at;
    reply.tag = request->tag;
    request->on_reply(request->owner, rc, &reply);
    zkl_free(request->memory);
    request->memory = NULL;
    request->state = ZKL_REQUEST_SPARE;
    TAILQ_INSERT_HEAD(&session->requests.spare, request, all);
}

static void on_created(int rc, const char *path, const struct Stat *stat, const void *data)
{
    answer(data, rc, (zkl_reply){.path = path, .stat = stat});
}

static void on_names(int rc, const struct String_vector *names, const void *data)
{
    answer(data, rc, (zkl_reply){.names = names});
}

static void on_listing(int rc, const struct String_vector *names, const struct Stat *stat, const void *data)
{
    answer(data, rc, (zkl_reply){.names = names, .stat = stat});
}

static void on_text(int rc, const char *text, const void *data)
{
    answer(data, rc, (zkl_reply){.path = text});
}

static void on_data(int rc, const char *value, int length, const struct Stat *stat, const void *data)
{
    answer(data, rc, (zkl_reply){.data = value, .length = length, .stat = stat});
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    answer(data, rc, (zkl_reply){.stat = stat});
}

/* The C client's type for this callback has no const. */
static void on_acl(int rc, struct ACL_vector *acl, struct Stat *stat, const void *data)
{
    answer(data, rc, (zkl_reply){.acl = acl, .stat = stat});
}

static void on_done(int rc, const void *data)
{
    answer(data, rc, (zkl_reply){0});
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

int zkl_send_create(zkl_session *session, const zkl_ask *ask, const char *path, const char *data, int32_t length,
                    const struct ACL_vector *acl, int32_t flags)
{
    zkl_request *request = begin(session, ask);
    return request == NULL
               ? NO_CONTEXT
               : end(request, zoo_acreate2(session->handle, path, data, length, acl, flags, on_created, request));
}

int zkl_send_make(zkl_session *session, const zkl_ask *ask, const char *path, const char *data,
                  const struct ACL_vector *acl, int32_t flags)
{
    zkl_request *request = begin(session, ask);
    return request == NULL ? NO_CONTEXT
                           : end(request, zoo_acreate(session->handle, path, data, (int)strlen(data), acl, flags,
                                                      on_text, request));
}

int zkl_send_delete(zkl_session *session, const zkl_ask *ask, const char *path, int32_t version)
{
    zkl_request *request = begin(session, ask);
    return request == NULL ? NO_CONTEXT : end(request, zoo_adelete(session->handle, path, version, on_done, request));
}

int zkl_send_exists(zkl_session *session, const zkl_ask *ask, const char *path, watcher_fn watcher, void *context)
{
    zkl_request *request = begin(session, ask);
    return request == NULL ? NO_CONTEXT
                           : end(request, zoo_awexists(session->handle, path, watcher, context, on_stat, request));
}

int zkl_send_get(zkl_session *session, const zkl_ask *ask, const char *path, watcher_fn watcher, void *context)
{
    zkl_request *request = begin(session, ask);
    return request == NULL ? NO_CONTEXT
                           : end(request, zoo_awget(session->handle, path, watcher, context, on_data, request));
}

int zkl_send_set(zkl_session *session, const zkl_ask *ask, const char *path, const char *data, int32_t length,
                 int32_t version)
{
    zkl_request *request = begin(session, ask);
    return request == NULL ? NO_CONTEXT
                           : end(request, zoo_aset(session->handle, path, data, length, version, on_stat, request));
}

int zkl_send_names(zkl_session *session, const zkl_ask *ask, const char *path)
{
    zkl_request *request = begin(session, ask);
    return request == NULL ? NO_CONTEXT : end(request, zoo_aget_children(session->handle, path, 0, on_names, request));
}

int zkl_send_list(zkl_session *session, const zkl_ask *ask, const char *path, watcher_fn watcher, void *context)
{
    zkl_request *request = begin(session, ask);
    return request == NULL
               ? NO_CONTEXT
               : end(request, zoo_awget_children2(session->handle, path, watcher, context, on_listing, request));
}

int zkl_send_acl(zkl_session *session, const zkl_ask *ask, const char *path)
{
    zkl_request *request = begin(session, ask);
    return request == NULL ? NO_CONTEXT : end(request, zoo_aget_acl(session->handle, path, on_acl, request));
}

int zkl_send_sync(zkl_session *session, const zkl_ask *ask, const char *path)
{
    zkl_request *request = begin(session, ask);
    return request == NULL ? NO_CONTEXT : end(request, zoo_async(session->handle, path, on_text, request));
}

int zkl_send_multi(zkl_session *session, const zkl_ask *ask, int32_t count, const zoo_op_t *ops,
                   zoo_op_result_t *results)
{
    zkl_request *request = begin(session, ask);
    return request == NULL ? NO_CONTEXT
                           : end(request, zoo_amulti(session->handle, count, ops, results, on_done, request));
}

int zkl_send_unwatch(zkl_session *session, const zkl_ask *ask, const char *path, bool children)
{
    zkl_request *request = begin(session, ask);
    if (request == NULL) {
        return NO_CONTEXT;
    }
    /* The parameter's type is a pointer to a function pointer, but the C client stores and calls the value itself. */
    void_completion_t *completion = (void_completion_t *)(uintptr_t)on_done;
    ZooWatcherType type = children ? ZWATCHTYPE_CHILD : ZWATCHTYPE_DATA;
    return end(request, zoo_aremove_all_watches(session->handle, path, type, 0, completion, request));
}

/* --- the end of a handle ------------------------------------------------------------------------------------------- */

static void free_list(struct zkl_request_list *list)
{
    zkl_request *request;
    while ((request = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, request, all);
        zkl_free(request->memory);
        zkl_free(request);
    }
}

void zkl_requests_init(zkl_session *session)
{
    TAILQ_INIT(&session->requests.flying);
    TAILQ_INIT(&session->requests.orphans);
    TAILQ_INIT(&session->requests.spare);
}

void zkl_requests_closed(zkl_session *session)
{
    free_list(&session->requests.orphans);
}

void zkl_requests_free(zkl_session *session)
{
    free_list(&session->requests.orphans);
    free_list(&session->requests.spare);
}
