/*
 * sim_client: the functions of zookeeper.h. They behave towards their caller as libzookeeper_st 3.8.0 does: handles, their turns,
 * and the calls of completions and watchers. sim_requests.c and sim_multi.c make the requests.
 *
 * The surprising behaviour of the real client is kept on purpose (C: is its file zookeeper.c):
 * - When a connection is lost, every watcher is called first; the state still reads CONNECTED inside. Then the outstanding
 *   requests fail in order. Requests that are submitted inside those completions wait for the next connection (C:1979-2020).
 * - A send that fails inside zoo_a* returns ZOK and closes the socket, without any callback. The state reads NOTCONNECTED.
 *   Completions stay. Requests that were not sent go out on the next connection, whose first reply may then match no completion
 *   (C:3971, C:3480). Before 3.8.0 the state stays CONNECTED, until the next turn fails to send the rest.
 * - Watchers are called once, and are deduplicated by (function, context) on a path. They are called for all session events
 *   without being used up.
 * - last_zxid advances with replies, not with events (C:3493).
 * - EXPIRED and AUTH_FAILED make the handle useless for ever.
 * - zookeeper_interest may fail before it has set any result (C:2536).
 * - A request for which there is no memory is refused: zoo_a* returns ZMARSHALLINGERROR.
 * - For its first connection a handle tries the servers in the list's order. Later it skips a server after each failure (C:2029,
 *   C:2569). So with two servers it tries the same one again and again.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "sim_client.h"

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

static zhandle_t *handles;
static bool in_order; /* zoo_deterministic_conn_order; has no effect on lists in which names do not matter */

void *sim_must(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

static int64_t library_now(const zhandle_t *zh)
{
    return sim_clock() - sim.library_skip[zh->caller];
}

bool sim_connected(const zhandle_t *zh)
{
    return zh->state == ZOO_CONNECTED_STATE;
}

static void push(sim_completion_queue *queue, sim_completion *entry)
{
    entry->next = NULL;
    if (queue->tail != NULL)
        queue->tail->next = entry;
    else
        queue->head = entry;
    queue->tail = entry;
}

static sim_completion *pop(sim_completion_queue *queue)
{
    sim_completion *entry = queue->head;
    if (entry != NULL) {
        queue->head = entry->next;
        if (queue->head == NULL)
            queue->tail = NULL;
    }
    return entry;
}

static void free_completion(sim_completion *entry)
{
    sim_free_watchers(entry->watchers);
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

/* Does what isValidPath does (C:3888): checks the whole path, including the chroot. */
static bool valid_path(const char *path, bool sequential)
{
    size_t length = strlen(path);
    if (path[0] != '/' || (length > 1 && path[length - 1] == '/' && !sequential))
        return false;
    for (size_t i = 1; i < length; i++) {
        char each = path[i], last = path[i - 1];
        bool ends = path[i + 1] == '/' || (path[i + 1] == '\0' && !sequential);
        bool single = each == '.' && last == '/';
        bool twice = each == '.' && last == '.' && path[i - 2] == '/';
        if ((each == '/' && last == '/') || ((single || twice) && ends) || (each > 0 && each < 0x1f))
            return false;
    }
    return true;
}

int sim_server_path(const zhandle_t *zh, const char *path, int mode)
{
    bool sequential = mode == ZOO_EPHEMERAL_SEQUENTIAL || mode == ZOO_PERSISTENT_SEQUENTIAL;
    if (path == NULL)
        return -1;
    if (zh->chroot[0] == '\0')
        return valid_path(path, sequential) ? sim_path(path) : -1;
    size_t size = strlen(zh->chroot) + strlen(path) + 1;
    char *whole = sim_alloc(size);
    snprintf(whole, size, "%s%s", zh->chroot, strcmp(path, "/") == 0 ? "" : path);
    return valid_path(whole, sequential) ? sim_path(whole) : -1;
}

char *sim_client_path(const zhandle_t *zh, int path)
{
    const char *text = sim_path_text(path);
    size_t skip = strlen(zh->chroot);
    if (skip > 0 && strncmp(text, zh->chroot, skip) == 0)
        text = text[skip] == '\0' ? "/" : text + skip;
    return sim_must(strdup(text));
}

/* ---- delivery ---- */

static void deliver_event(zhandle_t *zh, const sim_completion *entry)
{
    char *path = entry->event_type == ZOO_SESSION_EVENT ? sim_must(strdup("")) : sim_client_path(zh, entry->path);
    for (const sim_watcher *each = entry->watchers; each != NULL; each = each->next)
        each->call(zh, entry->event_type, entry->event_state, path, each->context);
    free(path);
}

/* Calls a completion with a list of names, with or without a Stat. */
static void deliver_strings(const sim_completion *entry)
{
    const sim_reply *reply = entry->reply;
    struct String_vector names = {reply->child_count, NULL};
    names.data = sim_must(calloc((size_t)reply->child_count + 1, sizeof(char *)));
    for (int i = 0; i < reply->child_count; i++)
        names.data[i] = sim_must(strdup(strrchr(sim_path_text(reply->children[i]), '/') + 1));
    sim.delivering = reply;
    sim.delivering_path = entry->path;
    struct Stat stat = reply->stat;
    if (entry->kind == SIM_ANSWER_STRINGS_STAT)
        entry->call.with_strings_stat(ZOK, &names, &stat, entry->data);
    else
        entry->call.with_strings(ZOK, &names, entry->data);
    sim.delivering = NULL;
    for (int i = 0; i < reply->child_count; i++)
        free(names.data[i]);
    free(names.data);
}

static void deliver_data(const sim_completion *entry)
{
    const sim_reply *reply = entry->reply;
    struct Stat stat = reply->stat;
    size_t length = reply->length > 0 ? (size_t)reply->length : 0;
    char *value = reply->length < 0 ? NULL : sim_must(malloc(length > 0 ? length : 1));
    if (length > 0)
        memcpy(value, reply->data, length);
    entry->call.with_data(ZOK, value, reply->length, &stat, entry->data);
    free(value);
}

static void deliver_completion(zhandle_t *zh, const sim_completion *entry)
{
    bool failed = entry->reply == NULL || entry->err != ZOK;
    struct Stat stat;
    char *path;
    switch (entry->kind) {
    case SIM_ANSWER_VOID:
        entry->call.with_void(entry->err, entry->data);
        break;
    case SIM_ANSWER_STAT:
        if (!failed)
            stat = entry->reply->stat;
        if (entry->request == SIM_EXISTS && sim.hooks.looked != NULL)
            sim.hooks.looked(sim.hooks.context, zh->caller, sim_path_text(entry->path), entry->err,
                             failed ? 0 : stat.czxid);
        entry->call.with_stat(entry->err, failed ? NULL : &stat, entry->data);
        break;
    case SIM_ANSWER_DATA:
        if (failed)
            entry->call.with_data(entry->err, NULL, 0, NULL, entry->data);
        else
            deliver_data(entry);
        break;
    case SIM_ANSWER_STRINGS:
        if (failed)
            entry->call.with_strings(entry->err, NULL, entry->data);
        else
            deliver_strings(entry);
        break;
    case SIM_ANSWER_STRINGS_STAT:
        if (failed)
            entry->call.with_strings_stat(entry->err, NULL, NULL, entry->data);
        else
            deliver_strings(entry);
        break;
    case SIM_ANSWER_STRING:
        path = failed ? NULL : sim_client_path(zh, entry->reply->path);
        entry->call.with_string(entry->err, path, entry->data);
        free(path);
        break;
    case SIM_ANSWER_STRING_STAT:
        path = failed ? NULL : sim_client_path(zh, entry->reply->path);
        if (!failed)
            stat = entry->reply->stat;
        entry->call.with_string_stat(entry->err, path, failed ? NULL : &stat, entry->data);
        free(path);
        break;
    case SIM_ANSWER_MULTI:
        sim_deliver_multi(zh, entry);
        break;
    }
}

static void process_completions(zhandle_t *zh)
{
    sim_completion *entry;
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
    sim_completion *entry = sim_must(calloc(1, sizeof(*entry)));
    entry->event = true;
    entry->event_type = ZOO_SESSION_EVENT;
    entry->event_state = state;
    entry->watchers = sim_session_watchers(zh);
    push(&zh->ready, entry);
    process_completions(zh);
}

static void call_credentials(zhandle_t *zh, int rc)
{
    for (sim_credential *each = zh->credentials; each != NULL; each = each->next) {
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
    sim_completion *entry;
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
    zh->current = zh->next_server++;
}

/*
 * For the first connection the handle goes through the list once in its order, even if connections fail meanwhile
 * (C:1588).
 */
static const sim_host *cycle_server(zhandle_t *zh)
{
    if (zh->first_round >= 0 && zh->first_round < zh->server_count) {
        zh->current = zh->first_round++;
    } else {
        zh->first_round = -1;
        next_server(zh);
    }
    return &zh->servers[zh->current];
}

void zoo_cycle_next_server(zhandle_t *zh)
{
    cycle_server(zh);
}

/* Ends the connection, in the real client's order: C:1999, C:2022. */
static int handle_error(zhandle_t *zh, int rc)
{
    sim_trace("client %d: connection ends with %d", zh->caller, rc);
    say(zh, "connection lost");
    close_socket(zh);
    if (zh->state < 0)
        session_event(zh, zh->state);
    else if (sim_connected(zh))
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

void sim_enqueue(zhandle_t *zh, sim_request *request, bool front)
{
    sim_outgoing *fresh = sim_alloc(sizeof(*fresh));
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
    while (zh->to_send != NULL && sim_connected(zh)) {
        if (zh->connection == NULL || !sim_connection_send(zh->connection, zh->to_send->request))
            return ZCONNECTIONLOSS;
        zh->to_send = zh->to_send->next;
        if (zh->to_send == NULL)
            zh->to_send_last = NULL;
        zh->last_send = library_now(zh);
    }
    return ZOK;
}

void sim_send_now(zhandle_t *zh)
{
    if (flush(zh) != ZOK && zh->connection != NULL && sim.failed_send_closes) {
        sim_trace("client %d: a send failed, silently", zh->caller);
        close_socket(zh);
        zh->state = ZOO_NOTCONNECTED_STATE;
    }
}

sim_request *sim_new_request(sim_type type, int32_t xid, int path)
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
    static const char *const names[] = {"connect",   "ping",   "auth",  "set watches", "create",  "create2",
                                        "delete",    "set",    "multi", "get",         "exists",  "children",
                                        "children2", "remove", "sync",  "close",       "session", "fin"};
    return names[type];
}

/*
 * Stands for the memory that the real client allocates for a request. It fails together with the engine's own
 * allocations.
 */
static bool has_memory(void)
{
    void *memory = zkl_alloc(1);
    zkl_free(memory);
    return memory != NULL;
}

int sim_submit(zhandle_t *zh, sim_request *request, const sim_completion *model)
{
    if (zh->close_requested || !has_memory())
        return ZMARSHALLINGERROR;
    sim_completion *entry = sim_must(malloc(sizeof(*entry)));
    *entry = *model;
    entry->xid = request->xid;
    entry->request = request->type;
    entry->path = request->operation.path;
    push(&zh->sent, entry);
    sim_enqueue(zh, request, false);
    sim_trace("client %d: xid %d %s %s%s", zh->caller, request->xid, type_name(request->type),
              sim_path_text(request->operation.path), request->watch ? " with watch" : "");
    sim_send_now(zh);
    return ZOK;
}

int sim_check_request(const zhandle_t *zh, int path)
{
    if (path < 0)
        return ZBADARGUMENTS;
    return zh->state < 0 ? ZINVALIDSTATE : ZOK;
}

/* ---- opening and closing handles ---- */

static bool resolve(const zhandle_t *zh)
{
    if (!sim.names_fail[zh->caller])
        return true;
    sim.statistics.name_failures++;
    errno = ENOENT;
    return false;
}

/* Uses all servers, in random order. */
static void choose_all_servers(zhandle_t *zh)
{
    zh->server_count = sim.options.servers;
    zh->servers = sim_alloc((size_t)zh->server_count * sizeof(*zh->servers));
    for (int i = 0; i < zh->server_count; i++) {
        int place = (int)sim_below(i + 1);
        zh->servers[i] = zh->servers[place];
        zh->servers[place] = (sim_host){.server = i};
    }
    for (int i = 0; i < zh->server_count && sim.options.by_hand; i++)
        zh->servers[i].server = (zh->caller + i) % zh->server_count;
    zh->first_round = -1;
    next_server(zh);
}

/* Chooses the servers of a client. Returns 0, or the errno with which zookeeper_init fails. */
static int choose_servers(zhandle_t *zh, const char *list)
{
    if (!sim_hosts_matter(list)) {
        choose_all_servers(zh);
        return 0;
    }
    zh->server_count = sim_find_hosts(list, &zh->servers);
    if (zh->server_count <= 0)
        return zh->server_count < 0 ? EINVAL : ENOENT;
    for (int i = zh->server_count - 1; i > 0 && !in_order; i--) {
        int place = (int)sim_below(i + 1);
        sim_host other = zh->servers[i];
        zh->servers[i] = zh->servers[place];
        zh->servers[place] = other;
    }
    return 0;
}

zhandle_t *zookeeper_init2(const char *host, watcher_fn fn, int recv_timeout, const clientid_t *clientid, void *context,
                           int flags, log_callback_fn log_callback)
{
    (void)flags;
    if (host == NULL || *host == '\0') {
        errno = EINVAL;
        return NULL;
    }
    zhandle_t *zh = sim_must(calloc(1, sizeof(*zh)));
    zh->caller = sim.caller;
    int error = resolve(zh) ? choose_servers(zh, host) : ENOENT;
    if (error != 0) {
        free(zh);
        errno = error;
        return NULL;
    }
    const char *chroot = strchr(host, '/');
    zh->chroot = sim_must(strdup(chroot != NULL && chroot[1] != '\0' ? chroot : ""));
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
    zh->next_open = handles;
    handles = zh;
    sim_trace("client %d: opens a handle", zh->caller);
    return zh;
}

static void finish_close(zhandle_t *zh)
{
    zh->depth++;
    if (sim_connected(zh)) {
        sim_enqueue(zh, sim_new_request(SIM_CLOSE, zh->xid++, 0), false);
        flush(zh);
    }
    sim_trace("client %d: closes its handle, %s", zh->caller, sim_connected(zh) ? "saying goodbye" : "silently");
    fail_everything(zh, ZCLOSING);
    process_completions(zh);
    close_socket(zh);
    zhandle_t **place = &handles;
    while (*place != zh)
        place = &(*place)->next_open;
    *place = zh->next_open;
    sim_free_watchers(zh->watchers);
    while (zh->credentials != NULL) {
        sim_credential *next = zh->credentials->next;
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

/* Leaves a function of the library. If a close was requested inside, it happens now. */
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
    sim_connection *handed_over = zh->connection == NULL ? sim_handed_over(zh->caller) : NULL;
    if (handed_over == NULL && (zh->connection == NULL || zh->resolution_delay != -1) && !resolve(zh))
        return leave(zh, ZSYSTEMERROR);
    *fd = zh->connection != NULL ? zh->connection->descriptor : -1;
    *interest = 0;
    *tv = milliseconds(0);
    if (zh->connection == NULL) {
        if (handed_over != NULL) {
            zh->connection = handed_over;
            zh->connection->handle = zh;
            zh->state = ZOO_CONNECTING_STATE;
            zh->delay = false;
            *tv = milliseconds(zh->recv_timeout / 3);
        } else if (zh->delay) {
            *tv = milliseconds(zh->recv_timeout / 60);
            zh->delay = false;
        } else {
            const sim_host *host = cycle_server(zh);
            zh->connection = sim_connect(zh, zh->caller, host->server, host->link);
            zh->state = ZOO_CONNECTING_STATE;
            *tv = milliseconds(zh->recv_timeout / 3);
            if (host->link == 0)
                sim_trace("client %d: connects to server %d", zh->caller, host->server);
            else
                sim_trace("client %d: connects to %s", zh->caller, host->name);
        }
        *fd = zh->connection != NULL ? zh->connection->descriptor : -1;
        zh->last_recv = zh->last_send = now;
    }
    if (zh->connection != NULL) {
        int64_t recv_to = zh->recv_timeout * 2 / 3 - (now - zh->last_recv) / SIM_MILLISECOND;
        int64_t send_to = zh->recv_timeout / 3;
        if (recv_to <= 0)
            return leave(zh, handle_error(zh, ZOPERATIONTIMEOUT));
        if (sim_connected(zh)) {
            send_to -= (now - zh->last_send) / SIM_MILLISECOND;
            if (send_to <= 0) {
                if (zh->sent.head == NULL) {
                    sim_enqueue(zh, sim_new_request(SIM_PING, SIM_XID_PING, 0), false);
                    int rc = flush(zh);
                    if (rc != ZOK)
                        return leave(zh, rc);
                }
                send_to = zh->recv_timeout / 3;
            }
        }
        *tv = milliseconds(recv_to < send_to ? recv_to : send_to);
        *interest = ZOOKEEPER_READ;
        if ((zh->to_send != NULL && sim_connected(zh)) || zh->state == ZOO_CONNECTING_STATE)
            *interest |= ZOOKEEPER_WRITE;
    }
    return leave(zh, ZOK);
}

static int prime(zhandle_t *zh)
{
    sim_request *request = sim_new_request(SIM_CONNECT, 0, 0);
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

static void enqueue_credential(zhandle_t *zh, const sim_credential *credential)
{
    sim_request *request = sim_new_request(SIM_AUTH, SIM_XID_AUTH, 0);
    request->scheme = credential->scheme;
    request->credential = credential->credential;
    request->credential_length = credential->length;
    sim_enqueue(zh, request, true);
}

/* Sends all watches to the new server in one packet (C:2156). */
static void send_set_watches(zhandle_t *zh)
{
    if (zh->watchers == NULL)
        return;
    sim_request *request = sim_new_request(SIM_SET_WATCHES, SIM_XID_SET_WATCHES, 0);
    request->last_zxid = zh->last_zxid;
    for (int kind = 0; kind < 3; kind++)
        request->paths[kind] = sim_watched_paths(zh, kind, &request->path_count[kind]);
    sim_enqueue(zh, request, true);
}

static int establish_session(zhandle_t *zh, const sim_reply *reply)
{
    zh->priming = false;
    zh->first_round = -1;
    if (zh->had_session && zh->client_id.client_id != reply->session_id) {
        zh->state = ZOO_EXPIRED_SESSION_STATE;
        return handle_error(zh, ZSESSIONEXPIRED);
    }
    zh->had_session = true;
    zh->recv_timeout = reply->timeout_ms;
    sim_session_told(reply->session_id, reply->timeout_ms);
    zh->client_id.client_id = reply->session_id;
    zh->password = reply->password;
    memcpy(zh->client_id.passwd, &zh->password, sizeof(zh->password));
    zh->state = ZOO_CONNECTED_STATE;
    sim_trace("client %d: connected to server %d, session %lld", zh->caller, zh->connection->server,
              (long long)reply->session_id);
    send_set_watches(zh);
    for (const sim_credential *each = zh->credentials; each != NULL; each = each->next)
        enqueue_credential(zh, each);
    session_event(zh, zh->state);
    return ZOK;
}

/* Reads one packet. Returns 1 and the packet, 0 if there is none, -1 if the connection is gone. */
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
        sim_completion *entry = sim_must(calloc(1, sizeof(*entry)));
        entry->event = true;
        entry->event_type = reply->event_type;
        entry->event_state = ZOO_CONNECTED_STATE;
        entry->path = reply->path;
        entry->watchers = sim_take_watchers(zh, reply->event_type, reply->path);
        sim_trace("client %d: event %d on %s", zh->caller, reply->event_type, sim_path_text(reply->path));
        push(&zh->ready, entry);
        return ZOK;
    }
    if (reply->xid == SIM_XID_AUTH) {
        int err = reply->err;
        /*
         * Depends on the time and not on a random number, so that schedules in which this does not happen stay as they
         * were.
         */
        if (err == ZOK && zh->accepted && !sim.options.by_hand && !sim.options.auth_lasts &&
            sim.now / SIM_MICROSECOND % 40 == 0) {
            sim_trace("client %d: this server refuses the credentials that another one has accepted", zh->caller);
            sim.statistics.refusals++;
            err = ZAUTHFAILED;
            if (sim.hooks.expired != NULL)
                sim.hooks.expired(sim.hooks.context, zh->caller, zh->client_id.client_id);
        }
        if (err != ZOK)
            zh->state = ZOO_AUTH_FAILED_STATE;
        call_credentials(zh, err);
        return zh->state < 0 ? handle_error(zh, ZAUTHFAILED) : ZOK;
    }
    sim_completion *entry = zh->sent.head;
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
    zh->accepted = zh->accepted || reply->err == ZOK || reply->err == ZNONODE || reply->err == ZNOAUTH;
    bool lists = entry->request == SIM_CHILDREN || entry->request == SIM_CHILDREN2;
    if (entry->watcher != NULL) {
        if (entry->request == SIM_EXISTS && reply->err == ZNONODE)
            sim_arm(zh, SIM_WATCH_EXISTS, entry->path, entry->watcher, entry->watcher_context);
        else if (reply->err == ZOK)
            sim_arm(zh, lists ? SIM_WATCH_CHILDREN : SIM_WATCH_DATA, entry->path, entry->watcher,
                    entry->watcher_context);
    }
    if (entry->disarms != 0 && reply->err == ZOK)
        sim_disarm(zh, entry->path, entry->disarms, NULL, NULL);
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

/* ---- the state of a handle ---- */

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
    const sim_host *host = &zh->servers[zh->current];
    if (host->name != NULL)
        return host->name;
    snprintf(zh->endpoint, sizeof(zh->endpoint), "10.0.0.%d:2181", host->server + 1);
    return zh->endpoint;
}

void zoo_deterministic_conn_order(int yes)
{
    in_order = yes != 0;
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

int zoo_add_auth(zhandle_t *zh, const char *scheme, const char *cert, int certLen, void_completion_t done,
                 const void *data)
{
    if (zh == NULL || scheme == NULL)
        return ZBADARGUMENTS;
    if (zh->state <= 0)
        return ZINVALIDSTATE;
    sim_credential *fresh = sim_must(malloc(sizeof(*fresh)));
    size_t length = cert != NULL && certLen > 0 ? (size_t)certLen : 0;
    *fresh = (sim_credential){.next = zh->credentials,
                              .call = done,
                              .data = data,
                              .scheme = sim_copy(scheme, strlen(scheme)),
                              .credential = sim_copy(cert, length),
                              .length = length};
    zh->credentials = fresh;
    if (sim_connected(zh) || zh->state == ZOO_ASSOCIATING_STATE)
        enqueue_credential(zh, fresh);
    return ZOK;
}

/* ---- for the driver ---- */

void sim_set_caller(int caller)
{
    assert(caller >= 0 && caller < (sim.options.by_hand ? SIM_MAX_CALLERS_BY_HAND : SIM_MAX_CALLERS));
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
        for (const sim_watcher *each = zh->watchers; each != NULL && zh->caller == caller; each = each->next)
            count++;
    }
    return count;
}

int sim_client_pending(int caller)
{
    int count = 0;
    for (const zhandle_t *zh = handles; zh != NULL; zh = zh->next_open) {
        for (const sim_completion *each = zh->sent.head; each != NULL && zh->caller == caller; each = each->next)
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

int64_t sim_client_zxid(int caller)
{
    const zhandle_t *zh = handle_of(caller);
    return zh != NULL ? zh->last_zxid : 0;
}

int sim_client_server(int caller)
{
    const zhandle_t *zh = handle_of(caller);
    if (zh == NULL || !sim_connected(zh))
        return -1;
    /* Its list does not have the server of a connection that was handed over. */
    if (zh->connection != NULL)
        return zh->connection->server;
    return zh->servers[zh->current].link == 0 ? zh->servers[zh->current].server : -1;
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

uint64_t sim_handles_hash(void)
{
    uint64_t sum = 0;
    for (const zhandle_t *zh = handles; zh != NULL; zh = zh->next_open)
        sum += sim_mix((uint64_t)zh->caller, (uint64_t)zh->last_zxid);
    return sum;
}

void sim_clients_begin(void)
{
    handles = NULL;
    in_order = false;
}

void sim_clients_end(void)
{
    assert(handles == NULL && "a handle was not closed");
}
