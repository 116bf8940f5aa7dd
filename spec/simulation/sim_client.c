/*
 * sim_client: the functions of zookeeper.h, behaving towards their caller as libzookeeper_st 3.8.0 does.
 *
 * The behaviour that lock engines trip over, each kept here on purpose (C: is zookeeper.c of the real client):
 * - a lost connection first tells every watcher (state still reads CONNECTED inside), then fails what was outstanding, in
 *   order; what is submitted from inside those completions waits for the next connection (C:1979-2020);
 * - a send that fails inside zoo_a* says ZOK, closes the socket and tells nobody: the state reads NOTCONNECTED, completions
 *   stay, what was not sent goes out on the next connection, whose first reply may then match none (C:3971, C:3480);
 * - watchers are one-shot, deduplicated by (function, context) on a path, and hear all session events without being used up;
 * - last_zxid advances with replies, not with events (C:3493);
 * - EXPIRED and AUTH_FAILED make the handle useless for ever;
 * - zookeeper_interest may fail before it has set anything (C:2536).
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_internal.h"

/* The constants of zookeeper.h, with the real library's values. */
const int ZOOKEEPER_WRITE = 1 << 0;
const int ZOOKEEPER_READ = 1 << 1;
const int ZOO_PERSISTENT = 0;
const int ZOO_EPHEMERAL = 1;
const int ZOO_PERSISTENT_SEQUENTIAL = 2;
const int ZOO_EPHEMERAL_SEQUENTIAL = 3;
const int ZOO_CONTAINER = 4;
const int ZOO_PERSISTENT_WITH_TTL = 5;
const int ZOO_PERSISTENT_SEQUENTIAL_WITH_TTL = 6;
const int ZOO_SEQUENCE = 1 << 1;
const int ZOO_EXPIRED_SESSION_STATE = -112;
const int ZOO_AUTH_FAILED_STATE = -113;
const int ZOO_CONNECTING_STATE = 1;
const int ZOO_ASSOCIATING_STATE = 2;
const int ZOO_CONNECTED_STATE = 3;
const int ZOO_READONLY_STATE = 5;
const int ZOO_NOTCONNECTED_STATE = 999;
const int ZOO_CREATED_EVENT = 1;
const int ZOO_DELETED_EVENT = 2;
const int ZOO_CHANGED_EVENT = 3;
const int ZOO_CHILD_EVENT = 4;
const int ZOO_SESSION_EVENT = -1;
const int ZOO_NOTWATCHING_EVENT = -2;
const int ZOO_PERM_READ = 1 << 0;
const int ZOO_PERM_WRITE = 1 << 1;
const int ZOO_PERM_CREATE = 1 << 2;
const int ZOO_PERM_DELETE = 1 << 3;
const int ZOO_PERM_ADMIN = 1 << 4;
const int ZOO_PERM_ALL = 0x1f;
struct Id ZOO_ANYONE_ID_UNSAFE = {"world", "anyone"};
struct Id ZOO_AUTH_IDS = {"auth", ""};
static struct ACL open_acl[] = {{0x1f, {"world", "anyone"}}};
static struct ACL read_acl[] = {{0x01, {"world", "anyone"}}};
static struct ACL creator_acl[] = {{0x1f, {"auth", ""}}};
struct ACL_vector ZOO_OPEN_ACL_UNSAFE = {1, open_acl};
struct ACL_vector ZOO_READ_ACL_UNSAFE = {1, read_acl};
struct ACL_vector ZOO_CREATOR_ALL_ACL = {1, creator_acl};

enum {
    WATCH_DATA = 0,
    WATCH_EXISTS,
    WATCH_CHILDREN
};

typedef struct watcher {
    struct watcher *next;
    int kind;
    int path;
    watcher_fn call;
    void *context;
} watcher;

typedef enum {
    ANSWER_VOID,
    ANSWER_STAT,
    ANSWER_DATA,
    ANSWER_STRINGS,
    ANSWER_STRING,
    ANSWER_STRING_STAT,
    ANSWER_MULTI
} answer_kind;

/* A request that waits for its reply, or a reply or event that waits for its delivery. */
typedef struct completion {
    struct completion *next;
    int32_t xid;
    answer_kind kind;
    union {
        void_completion_t with_void;
        stat_completion_t with_stat;
        data_completion_t with_data;
        strings_completion_t with_strings;
        string_completion_t with_string;
        string_stat_completion_t with_string_stat;
    } call;
    const void *data;
    zoo_op_result_t *results;
    int result_count;
    sim_type request;
    int path;
    watcher_fn watcher; /* to be armed by the reply */
    void *watcher_context;
    bool disarms;
    int err;
    const sim_reply *reply; /* NULL: failed by the client itself */
    /* an event */
    bool event;
    int event_type, event_state;
    watcher *watchers;
} completion;

typedef struct {
    completion *head, *tail;
} completion_queue;

typedef struct outgoing {
    struct outgoing *next;
    sim_request *request;
} outgoing;

typedef struct credential {
    struct credential *next;
    void_completion_t call; /* until called */
    const void *data;
} credential;

struct _zhandle {
    struct _zhandle *next_open;
    int caller;
    watcher_fn watcher;
    void *context;
    log_callback_fn log;
    char *chroot; /* "" or "/a/b" */
    int state;
    int32_t recv_timeout;
    int32_t xid;
    clientid_t client_id;
    int64_t password;
    bool had_session;
    int64_t last_zxid;
    int servers[SIM_MAX_SERVERS];
    int server_count, next_server, current_server;
    int resolution_delay;
    bool delay;
    sim_connection *connection;
    bool priming;
    int64_t last_recv, last_send;
    outgoing *to_send, *to_send_last;
    completion_queue sent, ready;
    watcher *watchers; /* newest first */
    credential *credentials;
    int depth; /* inside how many of our functions */
    bool close_requested;
    char endpoint[32];
};

static zhandle_t *handles;

static void *must(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

static int64_t library_now(const zhandle_t *zh)
{
    return sim.now - sim.library_skip[zh->caller];
}

static bool connected(const zhandle_t *zh)
{
    return zh->state == ZOO_CONNECTED_STATE;
}

static void push(completion_queue *queue, completion *entry)
{
    entry->next = NULL;
    if (queue->tail != NULL)
        queue->tail->next = entry;
    else
        queue->head = entry;
    queue->tail = entry;
}

static completion *pop(completion_queue *queue)
{
    completion *entry = queue->head;
    if (entry != NULL) {
        queue->head = entry->next;
        if (queue->head == NULL)
            queue->tail = NULL;
    }
    return entry;
}

static void free_watchers(watcher *list)
{
    while (list != NULL) {
        watcher *next = list->next;
        free(list);
        list = next;
    }
}

static void free_completion(completion *entry)
{
    free_watchers(entry->watchers);
    free(entry);
}

static void say(const zhandle_t *zh, const char *message)
{
    if (zh->log != NULL) {
        char line[160];
        snprintf(line, sizeof(line), "2000-01-01 00:00:00,000:1(0x1):ZOO_WARN@sim@1: %s", message);
        zh->log(line);
    }
}

/* ---- paths and the chroot ---- */

static bool valid_path(const char *path, bool sequential)
{
    if (path == NULL || path[0] != '/')
        return false;
    size_t length = strlen(path);
    if (length > 1 && path[length - 1] == '/' && !sequential)
        return false;
    return strstr(path, "//") == NULL;
}

/* The number of a path as the server sees it, -1 if it is no path. */
static int server_path(const zhandle_t *zh, const char *path, int mode)
{
    bool sequential = mode == ZOO_EPHEMERAL_SEQUENTIAL || mode == ZOO_PERSISTENT_SEQUENTIAL;
    if (!valid_path(path, sequential))
        return -1;
    if (zh->chroot[0] == '\0')
        return sim_path(path);
    char whole[512];
    snprintf(whole, sizeof(whole), "%s%s", zh->chroot, strcmp(path, "/") == 0 ? "" : path);
    return sim_path(whole);
}

/* What the client is told; freed by the caller, so that whoever keeps it is found out. */
static char *client_path(const zhandle_t *zh, int path)
{
    const char *text = sim_path_text(path);
    size_t skip = strlen(zh->chroot);
    if (skip > 0 && strncmp(text, zh->chroot, skip) == 0)
        text = text[skip] == '\0' ? "/" : text + skip;
    return must(strdup(text));
}

/* ---- watchers ---- */

static void arm(zhandle_t *zh, int kind, int path, watcher_fn call, void *context)
{
    for (const watcher *each = zh->watchers; each != NULL; each = each->next) {
        if (each->kind == kind && each->path == path && each->call == call && each->context == context)
            return;
    }
    watcher *fresh = must(malloc(sizeof(*fresh)));
    *fresh = (watcher){zh->watchers, kind, path, call, context};
    zh->watchers = fresh;
}

static bool in_list(const watcher *list, watcher_fn call, const void *context)
{
    for (; list != NULL; list = list->next) {
        if (list->call == call && list->context == context)
            return true;
    }
    return false;
}

static void copy_to(watcher **list, const watcher *from)
{
    if (in_list(*list, from->call, from->context))
        return;
    watcher *copy = must(malloc(sizeof(*copy)));
    *copy = *from;
    copy->next = *list;
    *list = copy;
}

/* Everybody who hears of a session event: the default watcher, and all armed ones, which stay armed. */
static watcher *session_watchers(const zhandle_t *zh)
{
    watcher *list = NULL;
    watcher own = {NULL, 0, 0, zh->watcher, zh->context};
    copy_to(&list, &own);
    for (const watcher *each = zh->watchers; each != NULL; each = each->next)
        copy_to(&list, each);
    return list;
}

static bool event_reaches(int type, int kind)
{
    if (type == ZOO_DELETED_EVENT)
        return true;
    if (type == ZOO_CHILD_EVENT)
        return kind == WATCH_CHILDREN;
    return kind != WATCH_CHILDREN;
}

/* Takes the watchers that an event uses up; `type` 0: all of the path. */
static watcher *take_watchers(zhandle_t *zh, int type, int path)
{
    watcher *taken = NULL;
    watcher **place = &zh->watchers;
    while (*place != NULL) {
        watcher *each = *place;
        if (each->path != path || (type != 0 && !event_reaches(type, each->kind))) {
            place = &each->next;
            continue;
        }
        *place = each->next;
        copy_to(&taken, each);
        free(each);
    }
    return taken;
}

/* ---- delivery ---- */

static void deliver_event(zhandle_t *zh, const completion *entry)
{
    char *path = entry->event_type == ZOO_SESSION_EVENT ? must(strdup("")) : client_path(zh, entry->path);
    for (const watcher *each = entry->watchers; each != NULL; each = each->next)
        each->call(zh, entry->event_type, entry->event_state, path, each->context);
    free(path);
}

static void deliver_strings(const completion *entry)
{
    const sim_reply *reply = entry->reply;
    struct String_vector names = {reply->child_count, NULL};
    names.data = must(calloc((size_t)reply->child_count + 1, sizeof(char *)));
    for (int i = 0; i < reply->child_count; i++)
        names.data[i] = must(strdup(strrchr(sim_path_text(reply->children[i]), '/') + 1));
    sim.delivering = reply;
    sim.delivering_path = entry->path;
    entry->call.with_strings(ZOK, &names, entry->data);
    sim.delivering = NULL;
    for (int i = 0; i < reply->child_count; i++)
        free(names.data[i]);
    free(names.data);
}

static void deliver_data(const completion *entry)
{
    const sim_reply *reply = entry->reply;
    struct Stat stat = reply->stat;
    size_t length = reply->length > 0 ? (size_t)reply->length : 0;
    char *value = must(malloc(length > 0 ? length : 1));
    if (length > 0)
        memcpy(value, reply->data, length);
    entry->call.with_data(ZOK, value, reply->length, &stat, entry->data);
    free(value);
}

static void deliver_multi(const zhandle_t *zh, const completion *entry)
{
    int rc = entry->err;
    for (int i = 0; i < entry->result_count; i++) {
        zoo_op_result_t *result = &entry->results[i];
        if (entry->reply == NULL || entry->err != ZOK) {
            result->err = entry->err;
            continue;
        }
        const sim_change *change = &entry->reply->changes[i];
        result->err = change->err;
        if (rc == ZOK && change->err != ZRUNTIMEINCONSISTENCY)
            rc = change->err;
        if (sim.hooks.multi_answered != NULL)
            sim.hooks.multi_answered(sim.hooks.context, zh->caller, sim_path_text(change->path), change->err);
    }
    entry->call.with_void(rc, entry->data);
}

static void deliver_completion(zhandle_t *zh, const completion *entry)
{
    bool failed = entry->reply == NULL || entry->err != ZOK;
    struct Stat stat;
    char *path;
    switch (entry->kind) {
    case ANSWER_VOID:
        entry->call.with_void(entry->err, entry->data);
        break;
    case ANSWER_STAT:
        if (!failed)
            stat = entry->reply->stat;
        entry->call.with_stat(entry->err, failed ? NULL : &stat, entry->data);
        break;
    case ANSWER_DATA:
        if (failed)
            entry->call.with_data(entry->err, NULL, 0, NULL, entry->data);
        else
            deliver_data(entry);
        break;
    case ANSWER_STRINGS:
        if (failed)
            entry->call.with_strings(entry->err, NULL, entry->data);
        else
            deliver_strings(entry);
        break;
    case ANSWER_STRING:
        path = failed ? NULL : client_path(zh, entry->reply->path);
        entry->call.with_string(entry->err, path, entry->data);
        free(path);
        break;
    case ANSWER_STRING_STAT:
        path = failed ? NULL : client_path(zh, entry->reply->path);
        if (!failed)
            stat = entry->reply->stat;
        entry->call.with_string_stat(entry->err, path, failed ? NULL : &stat, entry->data);
        free(path);
        break;
    case ANSWER_MULTI:
        deliver_multi(zh, entry);
        break;
    }
}

static void process_completions(zhandle_t *zh)
{
    completion *entry;
    while ((entry = pop(&zh->ready)) != NULL) {
        if (entry->event) {
            deliver_event(zh, entry);
        } else {
            sim_trace("client %d: xid %d answered %d", zh->caller, entry->xid, entry->err);
            deliver_completion(zh, entry);
        }
        free_completion(entry);
    }
}

static void session_event(zhandle_t *zh, int state)
{
    sim_trace("client %d: session event %d", zh->caller, state);
    completion *entry = must(calloc(1, sizeof(*entry)));
    entry->event = true;
    entry->event_type = ZOO_SESSION_EVENT;
    entry->event_state = state;
    entry->watchers = session_watchers(zh);
    push(&zh->ready, entry);
    process_completions(zh);
}

static void call_credentials(zhandle_t *zh, int rc)
{
    for (credential *each = zh->credentials; each != NULL; each = each->next) {
        void_completion_t call = each->call;
        each->call = NULL;
        if (call != NULL)
            call(rc, each->data);
    }
}

/* ---- the end of a connection ---- */

static void close_socket(zhandle_t *zh)
{
    if (zh->connection != NULL)
        sim_connection_close(zh->connection);
    zh->connection = NULL;
}

static void fail_everything(zhandle_t *zh, int rc)
{
    zh->to_send = zh->to_send_last = NULL;
    zh->priming = false;
    completion *entry;
    while ((entry = pop(&zh->sent)) != NULL) {
        entry->err = rc;
        entry->reply = NULL;
        push(&zh->ready, entry);
    }
    call_credentials(zh, rc);
}

static void next_server(zhandle_t *zh)
{
    if (zh->next_server == zh->server_count)
        zh->next_server = 0;
    zh->current_server = zh->servers[zh->next_server++];
}

/* In the real client's order: C:1999, C:2022. */
static int handle_error(zhandle_t *zh, int rc)
{
    sim_trace("client %d: connection ends with %d", zh->caller, rc);
    say(zh, "connection lost");
    close_socket(zh);
    if (zh->state < 0)
        session_event(zh, zh->state);
    else if (connected(zh))
        session_event(zh, ZOO_CONNECTING_STATE);
    fail_everything(zh, rc);
    if (zh->state >= 0)
        zh->state = 0;
    process_completions(zh);
    zh->delay = zh->next_server == zh->server_count;
    next_server(zh);
    return rc;
}

/* ---- sending ---- */

static void enqueue(zhandle_t *zh, sim_request *request, bool front)
{
    outgoing *fresh = sim_alloc(sizeof(*fresh));
    fresh->request = request;
    if (zh->to_send == NULL) {
        zh->to_send = zh->to_send_last = fresh;
    } else if (front) {
        fresh->next = zh->to_send;
        zh->to_send = fresh;
    } else {
        zh->to_send_last->next = fresh;
        zh->to_send_last = fresh;
    }
}

static int flush(zhandle_t *zh)
{
    while (zh->to_send != NULL && connected(zh)) {
        if (zh->connection == NULL || !sim_connection_send(zh->connection, zh->to_send->request))
            return ZCONNECTIONLOSS;
        zh->to_send = zh->to_send->next;
        if (zh->to_send == NULL)
            zh->to_send_last = NULL;
        zh->last_send = library_now(zh);
    }
    return ZOK;
}

/* A failure here is silent (C:3971). */
static void send_now(zhandle_t *zh)
{
    if (flush(zh) != ZOK && zh->connection != NULL) {
        sim_trace("client %d: a send failed, silently", zh->caller);
        close_socket(zh);
        zh->state = ZOO_NOTCONNECTED_STATE;
    }
}

static sim_request *new_request(sim_type type, int32_t xid, int path)
{
    sim_request *request = sim_alloc(sizeof(*request));
    request->type = type;
    request->xid = xid;
    request->operation.path = path;
    request->operation.version = -1;
    return request;
}

static const char *type_name(sim_type type)
{
    static const char *const names[] = {"connect", "ping", "auth",  "set watches", "create", "create2",
                                        "delete",  "set",  "multi", "get",         "exists", "children",
                                        "remove",  "sync", "close", "session",     "fin"};
    return names[type];
}

/* The common end of all zoo_a* functions. `entry` is a model that is copied. */
static int submit(zhandle_t *zh, sim_request *request, const completion *model)
{
    if (zh->close_requested)
        return ZMARSHALLINGERROR;
    completion *entry = must(malloc(sizeof(*entry)));
    *entry = *model;
    entry->xid = request->xid;
    entry->request = request->type;
    entry->path = request->operation.path;
    push(&zh->sent, entry);
    enqueue(zh, request, false);
    sim_trace("client %d: xid %d %s %s%s", zh->caller, request->xid, type_name(request->type),
              sim_path_text(request->operation.path), request->watch ? " with watch" : "");
    send_now(zh);
    return ZOK;
}

static int check_request(const zhandle_t *zh, int path)
{
    if (path < 0)
        return ZBADARGUMENTS;
    return zh->state < 0 ? ZINVALIDSTATE : ZOK;
}

/* ---- the life of a handle ---- */

static bool resolve(const zhandle_t *zh)
{
    if (!sim.names_fail[zh->caller])
        return true;
    sim.statistics.name_failures++;
    errno = ENOENT;
    return false;
}

zhandle_t *zookeeper_init2(const char *host, watcher_fn fn, int recv_timeout, const clientid_t *clientid, void *context,
                           int flags, log_callback_fn log_callback)
{
    (void)flags;
    if (host == NULL || *host == '\0') {
        errno = EINVAL;
        return NULL;
    }
    zhandle_t *zh = must(calloc(1, sizeof(*zh)));
    zh->caller = sim.caller;
    if (!resolve(zh)) {
        free(zh);
        errno = ENOENT;
        return NULL;
    }
    const char *chroot = strchr(host, '/');
    zh->chroot = must(strdup(chroot != NULL && chroot[1] != '\0' ? chroot : ""));
    zh->watcher = fn;
    zh->context = context;
    zh->log = log_callback;
    zh->state = ZOO_NOTCONNECTED_STATE;
    zh->recv_timeout = recv_timeout;
    zh->xid = 1;
    if (clientid != NULL && clientid->client_id != 0) {
        zh->client_id = *clientid;
        memcpy(&zh->password, clientid->passwd, sizeof(zh->password));
        zh->had_session = true;
    }
    zh->server_count = sim.options.servers;
    for (int i = 0; i < zh->server_count; i++) {
        int place = (int)sim_below(i + 1);
        zh->servers[i] = zh->servers[place];
        zh->servers[place] = i;
    }
    next_server(zh);
    zh->next_open = handles;
    handles = zh;
    sim_trace("client %d: opens a handle", zh->caller);
    return zh;
}

static void finish_close(zhandle_t *zh)
{
    zh->depth++;
    if (connected(zh)) {
        enqueue(zh, new_request(SIM_CLOSE, zh->xid++, 0), false);
        flush(zh);
    }
    sim_trace("client %d: closes its handle, %s", zh->caller, connected(zh) ? "saying goodbye" : "silently");
    fail_everything(zh, ZCLOSING);
    process_completions(zh);
    close_socket(zh);
    zhandle_t **place = &handles;
    while (*place != zh)
        place = &(*place)->next_open;
    *place = zh->next_open;
    free_watchers(zh->watchers);
    while (zh->credentials != NULL) {
        credential *next = zh->credentials->next;
        free(zh->credentials);
        zh->credentials = next;
    }
    free(zh->chroot);
    free(zh);
}

int zookeeper_close(zhandle_t *zh)
{
    if (zh == NULL)
        return ZBADARGUMENTS;
    zh->close_requested = true;
    if (zh->depth > 0)
        fail_everything(zh, ZCLOSING);
    else
        finish_close(zh);
    return ZOK;
}

/* Leaves one of our functions; a close asked for from inside happens now. */
static int leave(zhandle_t *zh, int rc)
{
    if (--zh->depth == 0 && zh->close_requested)
        finish_close(zh);
    return rc;
}

static struct timeval milliseconds(int64_t count)
{
    if (count < 0)
        count = 0;
    return (struct timeval){.tv_sec = (time_t)(count / 1000), .tv_usec = (suseconds_t)(count % 1000 * 1000)};
}

int zookeeper_interest(zhandle_t *zh, int *fd, int *interest, struct timeval *tv)
{
    if (zh == NULL || fd == NULL || interest == NULL || tv == NULL)
        return ZBADARGUMENTS;
    if (zh->state < 0)
        return ZINVALIDSTATE;
    zh->depth++;
    int64_t now = library_now(zh);
    if ((zh->connection == NULL || zh->resolution_delay != -1) && !resolve(zh))
        return leave(zh, ZSYSTEMERROR);
    *fd = zh->connection != NULL ? zh->connection->descriptor : -1;
    *interest = 0;
    *tv = milliseconds(0);
    if (zh->connection == NULL) {
        if (zh->delay) {
            *tv = milliseconds(zh->recv_timeout / 60);
            zh->delay = false;
        } else {
            next_server(zh);
            zh->connection = sim_connect(zh, zh->caller, zh->current_server);
            zh->state = ZOO_CONNECTING_STATE;
            *tv = milliseconds(zh->recv_timeout / 3);
            sim_trace("client %d: connects to server %d", zh->caller, zh->current_server);
        }
        *fd = zh->connection != NULL ? zh->connection->descriptor : -1;
        zh->last_recv = zh->last_send = now;
    }
    if (zh->connection != NULL) {
        int64_t recv_to = zh->recv_timeout * 2 / 3 - (now - zh->last_recv) / SIM_MILLISECOND;
        int64_t send_to = zh->recv_timeout / 3;
        if (recv_to <= 0)
            return leave(zh, handle_error(zh, ZOPERATIONTIMEOUT));
        if (connected(zh)) {
            send_to -= (now - zh->last_send) / SIM_MILLISECOND;
            if (send_to <= 0) {
                if (zh->sent.head == NULL) {
                    enqueue(zh, new_request(SIM_PING, SIM_XID_PING, 0), false);
                    int rc = flush(zh);
                    if (rc != ZOK)
                        return leave(zh, rc);
                }
                send_to = zh->recv_timeout / 3;
            }
        }
        *tv = milliseconds(recv_to < send_to ? recv_to : send_to);
        *interest = ZOOKEEPER_READ;
        if ((zh->to_send != NULL && connected(zh)) || zh->state == ZOO_CONNECTING_STATE)
            *interest |= ZOOKEEPER_WRITE;
    }
    return leave(zh, ZOK);
}

static int prime(zhandle_t *zh)
{
    sim_request *request = new_request(SIM_CONNECT, 0, 0);
    request->session_id = zh->had_session ? zh->client_id.client_id : 0;
    request->password = zh->password;
    request->timeout_ms = zh->recv_timeout;
    request->last_zxid = zh->last_zxid;
    if (!sim_connection_send(zh->connection, request))
        return handle_error(zh, ZCONNECTIONLOSS);
    zh->state = ZOO_ASSOCIATING_STATE;
    zh->priming = true;
    return ZOK;
}

/* All watches go to the new server in one packet (C:2156). */
static void send_set_watches(zhandle_t *zh)
{
    if (zh->watchers == NULL)
        return;
    sim_request *request = new_request(SIM_SET_WATCHES, SIM_XID_SET_WATCHES, 0);
    request->last_zxid = zh->last_zxid;
    for (int kind = 0; kind < 3; kind++) {
        int count = 0;
        for (const watcher *each = zh->watchers; each != NULL; each = each->next)
            count += each->kind == kind;
        request->paths[kind] = sim_alloc((size_t)(count + 1) * sizeof(int));
        for (const watcher *each = zh->watchers; each != NULL; each = each->next) {
            if (each->kind == kind)
                request->paths[kind][request->path_count[kind]++] = each->path;
        }
    }
    enqueue(zh, request, true);
}

static int establish_session(zhandle_t *zh, const sim_reply *reply)
{
    zh->priming = false;
    if (zh->had_session && zh->client_id.client_id != reply->session_id) {
        zh->state = ZOO_EXPIRED_SESSION_STATE;
        return handle_error(zh, ZSESSIONEXPIRED);
    }
    zh->had_session = true;
    zh->recv_timeout = reply->timeout_ms;
    zh->client_id.client_id = reply->session_id;
    zh->password = reply->password;
    memcpy(zh->client_id.passwd, &zh->password, sizeof(zh->password));
    zh->state = ZOO_CONNECTED_STATE;
    sim_trace("client %d: connected to server %d, session %lld", zh->caller, zh->current_server,
              (long long)reply->session_id);
    send_set_watches(zh);
    for (const credential *each = zh->credentials; each != NULL; each = each->next)
        enqueue(zh, new_request(SIM_AUTH, SIM_XID_AUTH, 0), true);
    session_event(zh, zh->state);
    return ZOK;
}

/* Reads one packet: 1 and the packet, 0 if there is none, -1 if the connection is gone. */
static int receive(const zhandle_t *zh, const sim_reply **reply)
{
    sim_connection *connection = zh->connection;
    if (connection->refused || (connection->inbox == NULL && connection->reset))
        return -1;
    if (connection->inbox == NULL)
        return 0;
    const sim_reply *first = connection->inbox->body;
    if (first->eof)
        return -1;
    connection->inbox = connection->inbox->next;
    if (connection->inbox == NULL)
        connection->inbox_last = NULL;
    *reply = first;
    return 1;
}

static int process_reply(zhandle_t *zh, const sim_reply *reply)
{
    if (reply->xid == SIM_XID_PING || reply->xid == SIM_XID_SET_WATCHES)
        return ZOK;
    if (reply->xid == SIM_XID_EVENT) {
        completion *entry = must(calloc(1, sizeof(*entry)));
        entry->event = true;
        entry->event_type = reply->event_type;
        entry->event_state = ZOO_CONNECTED_STATE;
        entry->path = reply->path;
        entry->watchers = take_watchers(zh, reply->event_type, reply->path);
        sim_trace("client %d: event %d on %s", zh->caller, reply->event_type, sim_path_text(reply->path));
        push(&zh->ready, entry);
        return ZOK;
    }
    if (reply->xid == SIM_XID_AUTH) {
        if (reply->err != ZOK)
            zh->state = ZOO_AUTH_FAILED_STATE;
        call_credentials(zh, reply->err);
        return zh->state < 0 ? handle_error(zh, ZAUTHFAILED) : ZOK;
    }
    completion *entry = zh->sent.head;
    assert(entry != NULL && "a reply to no request");
    if (entry->xid != reply->xid) {
        sim.statistics.inconsistencies++;
        return handle_error(zh, ZRUNTIMEINCONSISTENCY);
    }
    pop(&zh->sent);
    if (reply->zxid > 0)
        zh->last_zxid = reply->zxid;
    entry->reply = reply;
    entry->err = reply->err;
    if (entry->watcher != NULL) {
        if (entry->request == SIM_EXISTS && reply->err == ZNONODE)
            arm(zh, WATCH_EXISTS, entry->path, entry->watcher, entry->watcher_context);
        else if (reply->err == ZOK)
            arm(zh, entry->request == SIM_CHILDREN ? WATCH_CHILDREN : WATCH_DATA, entry->path, entry->watcher,
                entry->watcher_context);
    }
    if (entry->disarms && reply->err == ZOK)
        free_watchers(take_watchers(zh, 0, entry->path));
    push(&zh->ready, entry);
    return ZOK;
}

static int process_events(zhandle_t *zh, int events, const sim_reply **reply)
{
    if (zh->connection == NULL)
        return ZINVALIDSTATE;
    if ((events & ZOOKEEPER_WRITE) != 0 && zh->state == ZOO_CONNECTING_STATE) {
        if (zh->connection->refused || zh->connection->reset)
            return handle_error(zh, ZCONNECTIONLOSS);
        return prime(zh);
    }
    if (zh->to_send != NULL && (events & ZOOKEEPER_WRITE) != 0 && flush(zh) != ZOK)
        return handle_error(zh, ZCONNECTIONLOSS);
    if ((events & ZOOKEEPER_READ) != 0) {
        int got = receive(zh, reply);
        if (got < 0)
            return handle_error(zh, ZCONNECTIONLOSS);
        if (got == 0)
            return ZNOTHING;
        zh->last_recv = library_now(zh);
        if (zh->priming) {
            const sim_reply *first = *reply;
            *reply = NULL;
            return establish_session(zh, first);
        }
    }
    return ZOK;
}

int zookeeper_process(zhandle_t *zh, int events)
{
    if (zh == NULL)
        return ZBADARGUMENTS;
    if (zh->state < 0)
        return ZINVALIDSTATE;
    zh->depth++;
    const sim_reply *reply = NULL;
    int rc = process_events(zh, events, &reply);
    if (rc == ZOK && reply != NULL)
        rc = process_reply(zh, reply);
    if (rc == ZOK)
        process_completions(zh);
    return leave(zh, rc);
}

/* ---- what a handle can say about itself ---- */

int zoo_state(zhandle_t *zh)
{
    return zh != NULL ? zh->state : 0;
}

int is_unrecoverable(zhandle_t *zh)
{
    return zh->state < 0 ? ZINVALIDSTATE : ZOK;
}

const clientid_t *zoo_client_id(zhandle_t *zh)
{
    return &zh->client_id;
}

int zoo_recv_timeout(zhandle_t *zh)
{
    return zh->recv_timeout;
}

int zoo_set_servers_resolution_delay(zhandle_t *zh, int delay_ms)
{
    if (delay_ms < -1)
        return ZBADARGUMENTS;
    zh->resolution_delay = delay_ms;
    return ZOK;
}

const char *zoo_get_current_server(zhandle_t *zh)
{
    snprintf(zh->endpoint, sizeof(zh->endpoint), "10.0.0.%d:2181", zh->current_server + 1);
    return zh->endpoint;
}

void zoo_deterministic_conn_order(int yes)
{
    (void)yes;
}

void zoo_set_debug_level(ZooLogLevel level)
{
    (void)level;
}

const void *zoo_get_context(zhandle_t *zh)
{
    return zh->context;
}

const char *zerror(int code)
{
    switch (code) {
    case ZOK:
        return "ok";
    case ZSYSTEMERROR:
        return "system error";
    case ZRUNTIMEINCONSISTENCY:
        return "run time inconsistency";
    case ZDATAINCONSISTENCY:
        return "data inconsistency";
    case ZCONNECTIONLOSS:
        return "connection loss";
    case ZMARSHALLINGERROR:
        return "marshalling error";
    case ZUNIMPLEMENTED:
        return "unimplemented";
    case ZOPERATIONTIMEOUT:
        return "operation timeout";
    case ZBADARGUMENTS:
        return "bad arguments";
    case ZINVALIDSTATE:
        return "invalid zhandle state";
    case ZAPIERROR:
        return "api error";
    case ZNONODE:
        return "no node";
    case ZNOAUTH:
        return "not authenticated";
    case ZBADVERSION:
        return "bad version";
    case ZNOCHILDRENFOREPHEMERALS:
        return "no children for ephemerals";
    case ZNODEEXISTS:
        return "node exists";
    case ZNOTEMPTY:
        return "not empty";
    case ZSESSIONEXPIRED:
        return "session expired";
    case ZINVALIDCALLBACK:
        return "invalid callback";
    case ZINVALIDACL:
        return "invalid acl";
    case ZAUTHFAILED:
        return "authentication failed";
    case ZCLOSING:
        return "zookeeper is closing";
    case ZNOTHING:
        return "(not error) no server responses to process";
    case ZSESSIONMOVED:
        return "session moved to another server, so operation is ignored";
    case ZNOWATCHER:
        return "the watcher couldn't be found";
    case ZTHROTTLEDOP:
        return "Operation was throttled due to high load";
    default:
        return "unknown error";
    }
}

/* ---- requests ---- */

static const char *keep(const char *value, int length)
{
    return value != NULL && length > 0 ? sim_copy(value, (size_t)length) : "";
}

static int create(zhandle_t *zh, sim_type type, const char *path, const char *value, int length,
                  const struct ACL_vector *acl, int mode, const completion *model)
{
    int number = server_path(zh, path, mode);
    int rc = check_request(zh, number);
    if (rc == ZOK && (acl == NULL || acl->count == 0))
        rc = ZINVALIDACL;
    if (rc != ZOK)
        return rc;
    sim_request *request = new_request(type, zh->xid++, number);
    request->operation.type = ZOO_CREATE_OP;
    request->operation.mode = mode;
    request->operation.data = keep(value, length);
    request->operation.length = length;
    if (sim.hooks.create_requested != NULL)
        sim.hooks.create_requested(sim.hooks.context, zh->caller, sim_path_text(number));
    return submit(zh, request, model);
}

int zoo_acreate(zhandle_t *zh, const char *path, const char *value, int valuelen, const struct ACL_vector *acl,
                int mode, string_completion_t done, const void *data)
{
    completion model = {.kind = ANSWER_STRING, .call.with_string = done, .data = data};
    return create(zh, SIM_CREATE, path, value, valuelen, acl, mode, &model);
}

int zoo_acreate2(zhandle_t *zh, const char *path, const char *value, int valuelen, const struct ACL_vector *acl,
                 int mode, string_stat_completion_t done, const void *data)
{
    completion model = {.kind = ANSWER_STRING_STAT, .call.with_string_stat = done, .data = data};
    return create(zh, SIM_CREATE2, path, value, valuelen, acl, mode, &model);
}

/* A request about one path. */
static int simple(zhandle_t *zh, sim_type type, const char *path, const sim_operation *operation,
                  const completion *model)
{
    int number = server_path(zh, path, 0);
    int rc = check_request(zh, number);
    if (rc != ZOK)
        return rc;
    sim_request *request = new_request(type, zh->xid++, number);
    if (operation != NULL)
        request->operation = *operation;
    request->operation.path = number;
    request->watch = model->watcher != NULL;
    return submit(zh, request, model);
}

int zoo_adelete(zhandle_t *zh, const char *path, int version, void_completion_t done, const void *data)
{
    completion model = {.kind = ANSWER_VOID, .call.with_void = done, .data = data};
    sim_operation operation = {.type = ZOO_DELETE_OP, .version = version};
    return simple(zh, SIM_DELETE, path, &operation, &model);
}

int zoo_aset(zhandle_t *zh, const char *path, const char *buffer, int buflen, int version, stat_completion_t done,
             const void *data)
{
    completion model = {.kind = ANSWER_STAT, .call.with_stat = done, .data = data};
    sim_operation operation = {
        .type = ZOO_SETDATA_OP, .version = version, .data = keep(buffer, buflen), .length = buflen};
    return simple(zh, SIM_SET, path, &operation, &model);
}

int zoo_awget(zhandle_t *zh, const char *path, watcher_fn call, void *context, data_completion_t done, const void *data)
{
    completion model = {
        .kind = ANSWER_DATA, .call.with_data = done, .data = data, .watcher = call, .watcher_context = context};
    return simple(zh, SIM_GET, path, NULL, &model);
}

int zoo_aget(zhandle_t *zh, const char *path, int watch, data_completion_t done, const void *data)
{
    return zoo_awget(zh, path, watch ? zh->watcher : NULL, zh->context, done, data);
}

int zoo_awexists(zhandle_t *zh, const char *path, watcher_fn call, void *context, stat_completion_t done,
                 const void *data)
{
    completion model = {
        .kind = ANSWER_STAT, .call.with_stat = done, .data = data, .watcher = call, .watcher_context = context};
    return simple(zh, SIM_EXISTS, path, NULL, &model);
}

int zoo_aexists(zhandle_t *zh, const char *path, int watch, stat_completion_t done, const void *data)
{
    return zoo_awexists(zh, path, watch ? zh->watcher : NULL, zh->context, done, data);
}

int zoo_awget_children(zhandle_t *zh, const char *path, watcher_fn call, void *context, strings_completion_t done,
                       const void *data)
{
    completion model = {
        .kind = ANSWER_STRINGS, .call.with_strings = done, .data = data, .watcher = call, .watcher_context = context};
    return simple(zh, SIM_CHILDREN, path, NULL, &model);
}

int zoo_aget_children(zhandle_t *zh, const char *path, int watch, strings_completion_t done, const void *data)
{
    return zoo_awget_children(zh, path, watch ? zh->watcher : NULL, zh->context, done, data);
}

int zoo_async(zhandle_t *zh, const char *path, string_completion_t done, const void *data)
{
    completion model = {.kind = ANSWER_STRING, .call.with_string = done, .data = data};
    return simple(zh, SIM_SYNC, path, NULL, &model);
}

/* `completion` is the function itself, cast: that is how the real library uses it (C:4838). */
int zoo_aremove_all_watches(zhandle_t *zh, const char *path, ZooWatcherType type, int local, void_completion_t *done,
                            const void *data)
{
    (void)type;
    int number = server_path(zh, path, 0);
    if (number < 0)
        return ZBADARGUMENTS;
    if (local) {
        free_watchers(take_watchers(zh, 0, number));
        return ZOK;
    }
    completion model = {.kind = ANSWER_VOID, .data = data, .disarms = true};
    memcpy(&model.call.with_void, &done, sizeof(done));
    return simple(zh, SIM_REMOVE_WATCHES, path, NULL, &model);
}

void zoo_create_op_init(zoo_op_t *op, const char *path, const char *value, int valuelen, const struct ACL_vector *acl,
                        int mode, char *path_buffer, int path_buffer_len)
{
    memset(op, 0, sizeof(*op));
    op->type = mode == ZOO_CONTAINER ? ZOO_CREATE_CONTAINER_OP : ZOO_CREATE_OP;
    op->create_op.path = path;
    op->create_op.data = value;
    op->create_op.datalen = valuelen;
    op->create_op.acl = acl;
    op->create_op.flags = mode;
    op->create_op.buf = path_buffer;
    op->create_op.buflen = path_buffer_len;
}

void zoo_delete_op_init(zoo_op_t *op, const char *path, int version)
{
    memset(op, 0, sizeof(*op));
    op->type = ZOO_DELETE_OP;
    op->delete_op.path = path;
    op->delete_op.version = version;
}

void zoo_set_op_init(zoo_op_t *op, const char *path, const char *buffer, int buflen, int version, struct Stat *stat)
{
    memset(op, 0, sizeof(*op));
    op->type = ZOO_SETDATA_OP;
    op->set_op.path = path;
    op->set_op.data = buffer;
    op->set_op.datalen = buflen;
    op->set_op.version = version;
    op->set_op.stat = stat;
}

void zoo_check_op_init(zoo_op_t *op, const char *path, int version)
{
    memset(op, 0, sizeof(*op));
    op->type = ZOO_CHECK_OP;
    op->check_op.path = path;
    op->check_op.version = version;
}

int zoo_amulti(zhandle_t *zh, int count, const zoo_op_t *ops, zoo_op_result_t *results, void_completion_t done,
               const void *data)
{
    sim_request *request = new_request(SIM_MULTI, 0, 0);
    request->operations = sim_alloc((size_t)(count + 1) * sizeof(*request->operations));
    request->operation_count = count;
    for (int i = 0; i < count; i++) {
        sim_operation *operation = &request->operations[i];
        const char *path = NULL;
        operation->version = -1;
        switch (ops[i].type) {
        case ZOO_CREATE_CONTAINER_OP:
        case ZOO_CREATE_OP:
            path = ops[i].create_op.path;
            operation->mode = ops[i].create_op.flags;
            operation->data = keep(ops[i].create_op.data, ops[i].create_op.datalen);
            operation->length = ops[i].create_op.datalen;
            break;
        case ZOO_DELETE_OP:
            path = ops[i].delete_op.path;
            operation->version = ops[i].delete_op.version;
            break;
        case ZOO_SETDATA_OP:
            path = ops[i].set_op.path;
            operation->data = keep(ops[i].set_op.data, ops[i].set_op.datalen);
            operation->length = ops[i].set_op.datalen;
            operation->version = ops[i].set_op.version;
            break;
        case ZOO_CHECK_OP:
            path = ops[i].check_op.path;
            operation->version = ops[i].check_op.version;
            break;
        default:
            return ZUNIMPLEMENTED;
        }
        operation->type = ops[i].type == ZOO_CREATE_CONTAINER_OP ? ZOO_CREATE_OP : ops[i].type;
        operation->path = server_path(zh, path, operation->mode);
        int rc = check_request(zh, operation->path);
        if (rc != ZOK)
            return rc == ZINVALIDSTATE ? rc : ZMARSHALLINGERROR;
    }
    if (zh->state < 0)
        return ZINVALIDSTATE;
    request->xid = zh->xid++;
    completion model = {
        .kind = ANSWER_MULTI, .call.with_void = done, .data = data, .results = results, .result_count = count};
    return submit(zh, request, &model);
}

int zoo_add_auth(zhandle_t *zh, const char *scheme, const char *cert, int certLen, void_completion_t done,
                 const void *data)
{
    (void)cert;
    (void)certLen;
    if (zh == NULL || scheme == NULL)
        return ZBADARGUMENTS;
    if (zh->state <= 0)
        return ZINVALIDSTATE;
    credential *fresh = must(malloc(sizeof(*fresh)));
    *fresh = (credential){zh->credentials, done, data};
    zh->credentials = fresh;
    if (connected(zh) || zh->state == ZOO_ASSOCIATING_STATE)
        enqueue(zh, new_request(SIM_AUTH, SIM_XID_AUTH, 0), true);
    return ZOK;
}

/* ---- for the driver ---- */

void sim_set_caller(int caller)
{
    assert(caller >= 0 && caller < SIM_MAX_CALLERS);
    sim.caller = caller;
}

void sim_set_names(int caller, bool resolvable)
{
    sim.names_fail[caller] = !resolvable;
}

void sim_skip_library_clock(int caller, int64_t nanoseconds)
{
    sim.library_skip[caller] += nanoseconds;
}

int sim_client_watches(int caller)
{
    int count = 0;
    for (const zhandle_t *zh = handles; zh != NULL; zh = zh->next_open) {
        for (const watcher *each = zh->watchers; each != NULL && zh->caller == caller; each = each->next)
            count++;
    }
    return count;
}

int sim_client_pending(int caller)
{
    int count = 0;
    for (const zhandle_t *zh = handles; zh != NULL; zh = zh->next_open) {
        for (const completion *each = zh->sent.head; each != NULL && zh->caller == caller; each = each->next)
            count++;
    }
    return count;
}

static const zhandle_t *handle_of(int caller)
{
    const zhandle_t *zh = handles;
    while (zh != NULL && zh->caller != caller)
        zh = zh->next_open;
    return zh;
}

int64_t sim_client_session(int caller)
{
    const zhandle_t *zh = handle_of(caller);
    return zh != NULL ? zh->client_id.client_id : 0;
}

int sim_client_server(int caller)
{
    const zhandle_t *zh = handle_of(caller);
    return zh != NULL && connected(zh) ? zh->current_server : -1;
}

int32_t sim_session_timeout(int caller)
{
    const zhandle_t *zh = handle_of(caller);
    return zh != NULL && zh->had_session ? zh->recv_timeout : 0;
}

bool sim_list_lacks(const char *node)
{
    int path = sim_path(node);
    if (sim.delivering == NULL || sim.delivering_path != sim_path_parent(path))
        return false;
    for (int i = 0; i < sim.delivering->child_count; i++) {
        if (sim.delivering->children[i] == path)
            return false;
    }
    return true;
}

void sim_clients_begin(void)
{
    handles = NULL;
}

void sim_clients_end(void)
{
    assert(handles == NULL && "a handle was not closed");
}
