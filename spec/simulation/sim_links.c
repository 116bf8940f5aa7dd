/*
 * sim_links: links, which are proxies between clients and servers. They break connections at chosen moments, as
 * tools/faultproxy.lua does on real connections. That program defines the commands and their error messages.
 *
 * Requests and replies reach the link after their delay. A request that the link passes on is at the server at once. A
 * reply that the link passes on is at the client at once. If the link cuts a connection, everything that it has not
 * passed on is lost, and nothing else. A link draws no random numbers.
 *
 * Frames have no bytes here: bytes_up and bytes_down are always 0.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_internal.h"

/* The counts of a link. A trap can wait for requests by their kind. */
typedef enum {
    CREATE = 0,
    CREATE2,
    CREATE_CONTAINER,
    CREATE_TTL,
    DELETE,
    DELETE_CONTAINER,
    EXISTS,
    GET_DATA,
    SET_DATA,
    GET_ACL,
    SET_ACL,
    GET_CHILDREN,
    GET_CHILDREN2,
    SYNC,
    PING,
    CHECK_VERSION,
    MULTI,
    MULTI_READ,
    CHECK_WATCHES,
    REMOVE_WATCHES,
    AUTH,
    SET_WATCHES,
    SET_WATCHES2,
    CLOSE_SESSION,
    OTHER,
    CONNECT,
    REPLIES,
    NOTIFICATIONS,
    CONNECTIONS,
    BYTES_UP,
    BYTES_DOWN,
    COUNTED
} counted;

static const struct {
    const char *name, *kind;
} names[COUNTED] = {
    [CREATE] = {"create", "create"},
    [CREATE2] = {"create2", "create"},
    [CREATE_CONTAINER] = {"createContainer", "create"},
    [CREATE_TTL] = {"createTTL", "create"},
    [DELETE] = {"delete", "delete"},
    [DELETE_CONTAINER] = {"deleteContainer", "delete"},
    [EXISTS] = {"exists", "exists"},
    [GET_DATA] = {"getData", "get"},
    [SET_DATA] = {"setData", "set"},
    [GET_ACL] = {"getACL", "acl"},
    [SET_ACL] = {"setACL", "acl"},
    [GET_CHILDREN] = {"getChildren", "children"},
    [GET_CHILDREN2] = {"getChildren2", "children"},
    [SYNC] = {"sync", "sync"},
    [PING] = {"ping", "ping"},
    [CHECK_VERSION] = {"check", "check"},
    [MULTI] = {"multi", "multi"},
    [MULTI_READ] = {"multiRead", "multi"},
    [CHECK_WATCHES] = {"checkWatches", "remove-watches"},
    [REMOVE_WATCHES] = {"removeWatches", "remove-watches"},
    [AUTH] = {"auth", "auth"},
    [SET_WATCHES] = {"setWatches", "set-watches"},
    [SET_WATCHES2] = {"setWatches2", "set-watches"},
    [CLOSE_SESSION] = {"closeSession", "close"},
    [OTHER] = {"other", NULL},
    [CONNECT] = {"connect", NULL},
    [REPLIES] = {"replies", NULL},
    [NOTIFICATIONS] = {"notifications", NULL},
    [CONNECTIONS] = {"connections", NULL},
    [BYTES_UP] = {"bytes_up", NULL},
    [BYTES_DOWN] = {"bytes_down", NULL},
};

/* A kind of request is represented by the first operation of that kind. */
#define ANY_KIND COUNTED

typedef enum {
    GOES_ON = 0,
    ENDS_FIN,
    ENDS_RST
} ending;

/* An item in a link: a request, a reply or the end of the connection. */
typedef struct item {
    struct item *next;
    int64_t due;
    ending end;
    const void *body;
} item;

/* One direction of a connection through a link. */
typedef struct {
    sim_passage *passage;
    bool up;
    bool held; /* a trap holds it until resume */
    item *head, *tail;
} way;

/* The reply to this request is replaced by an error. */
typedef struct denial {
    struct denial *next;
    int32_t xid;
    int code;
} denial;

struct fault_link;

struct sim_passage {
    int number; /* number of the link */
    sim_connection *connection;
    struct fault_link *link; /* NULL until the link has accepted the connection */
    bool open;
    bool probed, welcomed; /* the connect request, and its reply, have passed */
    way up, down;
    denial *denials;
};

typedef enum {
    BEFORE = 0,
    AFTER,
    STALL_REPLY,
    STALL_REQUEST
} moment;

static const char *const moments[] = {"before", "after", "stall-reply", "stall-request"};

typedef enum {
    NONE = 0,
    ARMED,
    PENDING, /* the request has passed; the trap waits for the reply */
    SPRUNG
} trap_state;

static const char *const trap_states[] = {"none", "armed", "pending", "sprung"};

typedef struct {
    trap_state state;
    int kind;
    moment when;
    int skip;
    ending how;
    const sim_passage *passage; /* the request's */
    int32_t xid;
    int path;
    const char *caught;
} fault_trap;

typedef struct fault_link {
    struct fault_link *next;
    int number;
    bool refuses;
    int *targets;
    int target_count;
    unsigned next_target;
    bool stalled_up, stalled_down, stalled_ends;
    int64_t delay_up, delay_down;
    fault_trap trap;
    struct {
        int code; /* 0: none */
        int times;
    } denied[COUNTED];
    int lacks; /* containers: sim_options.no_containers */
    bool stamps;
    int64_t stamp;
    bool has_session;
    sim_link_session session;
    int64_t counts[COUNTED];
} fault_link;

static fault_link *fault_links; /* links that have not ended */
static int last_link;

static void pump(way *over);

/* ---- hosts ---- */

/* Returns the number behind `prefix` in "prefix<number>:port", 0 if the host has no such name. */
static int number_in(const char *host, size_t length, const char *prefix)
{
    size_t skip = strlen(prefix);
    if (length <= skip || strncmp(host, prefix, skip) != 0 || host[skip] < '1' || host[skip] > '9')
        return 0;
    char *end = NULL;
    long number = strtol(host + skip, &end, 10);
    return end < host + length && *end == ':' && number <= INT32_MAX ? (int)number : 0;
}

static size_t hosts_length(const char *list)
{
    return strcspn(list, "/");
}

bool sim_hosts_matter(const char *list)
{
    const char *end = list + hosts_length(list);
    bool found = sim.options.named;
    for (const char *host = list; host < end && !found; host += strcspn(host, ",/") + 1)
        found = number_in(host, strcspn(host, ",/"), "link") > 0;
    return found;
}

static bool is_address(const char *host, size_t length)
{
    return strspn(host, "0123456789.") == length || (length == 9 && strncmp(host, "localhost", 9) == 0);
}

/* Returns false if the name cannot be resolved. */
static bool find_host(const char *text, size_t length, size_t name_length, sim_host *out)
{
    int server = number_in(text, length, "h"), number = number_in(text, length, "link");
    bool usual = length - name_length == strlen(":2181") && strncmp(text + name_length, ":2181", 5) == 0;
    bool known = number > 0 || (server > 0 && server <= sim.options.servers);
    if (!known && !is_address(text, name_length))
        return false;
    *out = (sim_host){.name = sim_copy(text, length), .link = SIM_NOBODY};
    if (known && usual) {
        out->link = number;
        out->server = server > 0 ? server - 1 : 0;
    }
    return true;
}

int sim_find_hosts(const char *list, sim_host **out)
{
    const char *end = list + hosts_length(list);
    sim_host *hosts = *out = sim_alloc(((size_t)(end - list) + 1) * sizeof(*hosts));
    int count = 0;
    for (const char *host = list; host < end;) {
        size_t length = strcspn(host, ",/"), name_length = length;
        while (name_length > 0 && host[name_length - 1] != ':')
            name_length--;
        char *port_end = NULL;
        if (length > 0 && (name_length == 0 || name_length == length || strtol(host + name_length, &port_end, 0) == 0 ||
                           port_end != host + length))
            return -1;
        if (length > 0 && find_host(host, length, name_length - 1, &hosts[count]))
            count++;
        host += length + 1;
    }
    return count;
}

/* ---- traps ---- */

static counted create_of(counted usual, int mode)
{
    if (mode == ZOO_CONTAINER)
        return CREATE_CONTAINER;
    return mode == ZOO_PERSISTENT_WITH_TTL || mode == ZOO_PERSISTENT_SEQUENTIAL_WITH_TTL ? CREATE_TTL : usual;
}

static counted operation_of(const sim_request *request)
{
    switch (request->type) {
    case SIM_PING:
        return PING;
    case SIM_AUTH:
        return AUTH;
    case SIM_SET_WATCHES:
        return SET_WATCHES;
    case SIM_CREATE:
        return create_of(CREATE, request->operation.mode);
    case SIM_CREATE2:
        return create_of(CREATE2, request->operation.mode);
    case SIM_DELETE:
        return DELETE;
    case SIM_SET:
        return SET_DATA;
    case SIM_MULTI:
        return MULTI;
    case SIM_GET:
        return GET_DATA;
    case SIM_EXISTS:
        return EXISTS;
    case SIM_CHILDREN:
        return GET_CHILDREN;
    case SIM_CHILDREN2:
        return GET_CHILDREN2;
    case SIM_REMOVE_WATCHES:
        return REMOVE_WATCHES;
    case SIM_SYNC:
        return SYNC;
    case SIM_CLOSE:
        return CLOSE_SESSION;
    default:
        return OTHER;
    }
}

/*
 * Returns the operation that represents the kind. `kind` may be NULL, which is no kind. COUNTED: there is no such kind.
 */
static int kind_of(const char *kind)
{
    int found = 0;
    while (found < COUNTED && (kind == NULL || names[found].kind == NULL || strcmp(names[found].kind, kind) != 0))
        found++;
    return found;
}

/* Returns the path of a request, of a multi the first one, -1 if it has none. */
static int path_of(const sim_request *request)
{
    switch (request->type) {
    case SIM_CLOSE:
    case SIM_PING:
    case SIM_SET_WATCHES:
    case SIM_AUTH:
        return -1;
    case SIM_MULTI:
        return request->operation_count > 0 ? request->operations[0].path : -1;
    default:
        return request->operation.path;
    }
}

static void spring(fault_link *link, int path)
{
    fault_trap *trap = &link->trap;
    const char *kind = trap->kind == ANY_KIND ? "any" : names[trap->kind].kind;
    const char *text = path >= 0 ? sim_path_text(path) : "";
    size_t size = strlen(kind) + strlen(" path=") + strlen(text) + 1;
    char *caught = sim_alloc(size);
    snprintf(caught, size, "%s%s%s", kind, path >= 0 ? " path=" : "", text);
    trap->caught = caught;
    trap->state = SPRUNG;
    sim_trace("link %d: its trap springs at %s", link->number, caught);
}

static bool trap_matches(fault_trap *trap, int kind)
{
    if (trap->state != ARMED || (trap->kind != kind && (trap->kind != ANY_KIND || kind == PING)))
        return false;
    if (trap->skip > 0) {
        trap->skip--;
        return false;
    }
    return true;
}

/* ---- connections ---- */

static void forget(sim_passage *passage)
{
    fault_trap *trap = &passage->link->trap;
    passage->open = false;
    passage->up.head = passage->up.tail = passage->down.head = passage->down.tail = NULL;
    if (trap->state == PENDING && trap->passage == passage)
        trap->state = ARMED;
}

/* The client reads the end of the connection. */
static void end_client(sim_connection *connection, ending how)
{
    static const sim_reply eof = {.path = -1, .eof = true};
    if (how == ENDS_FIN) {
        sim_connection_pass_down(connection, &eof);
    } else {
        connection->reset = true;
        sim_connection_tell(connection);
    }
}

/* Ends a connection at once. Everything that is queued is lost. */
static void cut(sim_passage *passage, ending how)
{
    sim_trace("link %d: connection %d of client %d ends", passage->number, passage->connection->ordinal,
              passage->connection->caller);
    for (const item *each = passage->up.head; each != NULL; each = each->next)
        sim.statistics.lost_requests += each->end == GOES_ON;
    for (const item *each = passage->down.head; each != NULL; each = each->next)
        sim.statistics.lost_replies += each->end == GOES_ON;
    forget(passage);
    sim_server_forget(passage->connection);
    end_client(passage->connection, how);
}

/* Checks a request that is about to be passed on. Returns true if it must not be passed on, now or ever. */
static bool check_request(sim_passage *passage, sim_request *request)
{
    fault_link *link = passage->link;
    fault_trap *trap = &link->trap;
    if (!passage->probed) {
        passage->probed = true;
        link->counts[CONNECT]++;
        return false;
    }
    counted operation = operation_of(request);
    int kind = kind_of(names[operation].kind);
    if (trap_matches(trap, kind)) {
        int path = path_of(request);
        if (trap->when == BEFORE) {
            spring(link, path);
            cut(passage, trap->how);
            return true;
        }
        if (trap->when == STALL_REQUEST) {
            spring(link, path);
            passage->up.held = true;
            return true;
        }
        trap->state = PENDING;
        trap->passage = passage;
        trap->xid = request->xid;
        trap->path = path;
    }
    if (kind < COUNTED && link->denied[kind].code != 0 && link->denied[kind].times != 0) {
        link->denied[kind].times -= link->denied[kind].times > 0;
        denial *fresh = sim_alloc(sizeof(*fresh));
        *fresh = (denial){passage->denials, request->xid, link->denied[kind].code};
        passage->denials = fresh;
    }
    if (operation == CREATE_CONTAINER)
        request->lacks = link->lacks;
    link->counts[operation]++;
    return false;
}

/* Takes the error that replaces the reply to this request; 0: none. A second call returns 0. */
static int take_denial(sim_passage *passage, int32_t xid)
{
    int code = 0;
    denial **place = &passage->denials;
    while (*place != NULL) {
        if ((*place)->xid != xid) {
            place = &(*place)->next;
            continue;
        }
        if (code == 0)
            code = (*place)->code;
        *place = (*place)->next;
    }
    return code;
}

static void note_session(fault_link *link, const sim_reply *reply)
{
    link->has_session = true;
    link->session = (sim_link_session){.id = reply->session_id, .timeout_ms = reply->timeout_ms};
    memcpy(link->session.password, &reply->password, sizeof(reply->password));
}

/* Checks a reply or an event that is about to be passed on. Returns what to pass on; NULL: nothing, now or ever. */
static const sim_reply *check_reply(sim_passage *passage, const sim_reply *reply)
{
    fault_link *link = passage->link;
    fault_trap *trap = &link->trap;
    if (!passage->welcomed) {
        passage->welcomed = true;
        note_session(link, reply);
        return reply;
    }
    if (trap->state == PENDING && trap->passage == passage && trap->xid == reply->xid) {
        spring(link, trap->path);
        if (trap->when == AFTER)
            cut(passage, trap->how);
        else
            passage->down.held = true;
        return NULL;
    }
    bool event = reply->xid == SIM_XID_EVENT;
    link->counts[event ? NOTIFICATIONS : REPLIES]++;
    int code = event ? 0 : take_denial(passage, reply->xid);
    bool denies = code != 0 && reply->err == ZOK;
    if (!denies && !(event && link->stamps))
        return reply;
    sim_reply *fresh = sim_alloc(sizeof(*fresh));
    if (denies) {
        *fresh = (sim_reply){.xid = reply->xid, .zxid = reply->zxid, .err = code, .path = -1};
    } else {
        *fresh = *reply;
        fresh->zxid = link->stamp;
    }
    return fresh;
}

static bool stops(const way *over, const item *first)
{
    const fault_link *link = over->passage->link;
    return over->held || (over->up ? link->stalled_up : link->stalled_down) ||
           (first->end != GOES_ON && link->stalled_ends);
}

static void pump_later(void *context, int64_t argument)
{
    (void)argument;
    pump(context);
}

/* Returns true if the item is passed on, false if it stays or the connection has been cut. */
static bool pass_on(way *over, const item *first)
{
    sim_passage *passage = over->passage;
    if (over->up) {
        sim_request *request;
        memcpy(&request, &first->body, sizeof(request));
        if (check_request(passage, request))
            return false;
        over->head = first->next;
        sim_connection_pass_up(passage->connection, request);
    } else {
        const sim_reply *reply = check_reply(passage, first->body);
        if (reply == NULL)
            return false;
        over->head = first->next;
        sim_connection_pass_down(passage->connection, reply);
    }
    if (over->head == NULL)
        over->tail = NULL;
    return true;
}

/* Passes on all items of a direction that may be passed on now. */
static void pump(way *over)
{
    sim_passage *passage = over->passage;
    while (passage->open && over->head != NULL) {
        const item *first = over->head;
        if (stops(over, first))
            return;
        if (first->due > sim.now) {
            sim_schedule(first->due, pump_later, over, 0);
            return;
        }
        if (first->end != GOES_ON) {
            cut(passage, first->end);
            return;
        }
        if (!pass_on(over, first))
            return;
    }
}

static void enqueue(way *over, ending end, const void *body)
{
    const fault_link *link = over->passage->link;
    item *fresh = sim_alloc(sizeof(*fresh));
    *fresh = (item){.due = sim.now + (over->up ? link->delay_up : link->delay_down), .end = end, .body = body};
    if (over->tail != NULL)
        over->tail->next = fresh;
    else
        over->head = fresh;
    over->tail = fresh;
    pump(over);
}

static void arrive_up(void *owner, sim_message *message)
{
    sim_passage *passage = ((const sim_connection *)owner)->passage;
    const sim_request *request = message->body;
    if (passage->open)
        enqueue(&passage->up, request->type == SIM_FIN ? ENDS_FIN : GOES_ON, request);
    else
        sim.statistics.lost_requests += request->type != SIM_FIN;
}

/* A message without a reply is a reset by the server. */
static void arrive_down(void *owner, sim_message *message)
{
    sim_passage *passage = ((const sim_connection *)owner)->passage;
    const sim_reply *reply = message->body;
    if (passage->open)
        enqueue(&passage->down, reply == NULL ? ENDS_RST : reply->eof ? ENDS_FIN : GOES_ON, reply);
}

static fault_link *find_link(int number)
{
    fault_link *link = fault_links;
    while (link != NULL && link->number != number)
        link = link->next;
    return link;
}

void sim_link_attach(sim_connection *connection, int number)
{
    const fault_link *link = find_link(number);
    sim_passage *passage = sim_alloc(sizeof(*passage));
    passage->number = number;
    passage->connection = connection;
    passage->up.passage = passage->down.passage = passage;
    passage->up.up = true;
    connection->passage = passage;
    connection->up.deliver = arrive_up;
    connection->down.deliver = arrive_down;
    if (link != NULL) /* the target that the link tries first */
        connection->server = link->targets[link->next_target % (unsigned)link->target_count];
}

bool sim_link_accept(sim_connection *connection)
{
    sim_passage *passage = connection->passage;
    fault_link *link = find_link(passage->number);
    if (link == NULL || link->refuses)
        return false;
    passage->link = link;
    passage->open = true;
    link->counts[CONNECTIONS]++;
    for (int left = link->target_count; left > 0 && !connection->accepted; left--) {
        connection->server = link->targets[link->next_target++ % (unsigned)link->target_count];
        connection->accepted = sim_server_accepts(connection->server);
    }
    bool silent = sim.network_down[connection->caller][connection->server];
    sim_channel_set_cut(&connection->up, silent);
    sim_channel_set_cut(&connection->down, silent);
    if (!connection->accepted)
        cut(passage, ENDS_RST);
    return true;
}

bool sim_link_has(const sim_connection *connection)
{
    return connection->passage != NULL && connection->passage->open;
}

void sim_links_begin(void)
{
    fault_links = NULL;
    last_link = 0;
}

/* ---- commands ---- */

static fault_link *must_find(int number)
{
    fault_link *link = find_link(number);
    assert(link != NULL && "no such link, or it has ended");
    return link;
}

/* Returns the link's next connection after `after` (NULL: the first). */
static sim_passage *next_of(const fault_link *link, const sim_passage *after)
{
    const sim_connection *connection = after != NULL ? after->connection->next : sim.connections;
    while (connection != NULL && !(sim_link_has(connection) && connection->passage->link == link))
        connection = connection->next;
    return connection != NULL ? connection->passage : NULL;
}

/* Stores how to end a connection. NULL is rst. Returns false if `how` is neither "rst" nor "fin". */
static bool parse_how(const char *how, ending *end)
{
    *end = how != NULL && strcmp(how, "fin") == 0 ? ENDS_FIN : ENDS_RST;
    return how == NULL || *end == ENDS_FIN || strcmp(how, "rst") == 0;
}

static void set_targets(fault_link *link, const int *servers, int count)
{
    assert(count > 0 && "a link needs a target");
    link->targets = sim_alloc((size_t)count * sizeof(*link->targets));
    link->target_count = count;
    for (int i = 0; i < count; i++) {
        assert(servers[i] >= 0 && servers[i] < sim.options.servers && "no such server");
        link->targets[i] = servers[i];
    }
}

int sim_link_begin(const int *servers, int count)
{
    assert(!sim.options.by_hand && "what links hold back is not in the hash of a world that is run by hand");
    fault_link *link = sim_alloc(sizeof(*link));
    link->number = ++last_link;
    set_targets(link, servers, count);
    link->next = fault_links;
    fault_links = link;
    return link->number;
}

void sim_link_end(int number)
{
    fault_link *link = must_find(number);
    sim_link_cut(number, "fin");
    fault_link **place = &fault_links;
    while (*place != link)
        place = &(*place)->next;
    *place = link->next;
}

const char *sim_link_cut(int number, const char *how)
{
    const fault_link *link = must_find(number);
    ending end;
    if (!parse_how(how, &end))
        return "expected rst or fin";
    for (sim_passage *each = next_of(link, NULL); each != NULL; each = next_of(link, each))
        cut(each, end);
    return NULL;
}

void sim_link_refuse(int number, bool refuses)
{
    must_find(number)->refuses = refuses;
}

/* Stores the directions that `which` names; NULL is both. Returns false if there is no such direction. */
static bool parse_directions(const char *which, bool *up, bool *down)
{
    bool both = which == NULL || strcmp(which, "both") == 0;
    *up = both || strcmp(which, "up") == 0;
    *down = both || strcmp(which, "down") == 0;
    return *up || *down;
}

const char *sim_link_stall(int number, const char *which)
{
    fault_link *link = must_find(number);
    bool up = false, down = false, ends = which != NULL && strcmp(which, "ends") == 0;
    if (!ends && (which == NULL || !parse_directions(which, &up, &down)))
        return "expected up, down, both or ends";
    link->stalled_up = link->stalled_up || up;
    link->stalled_down = link->stalled_down || down;
    link->stalled_ends = link->stalled_ends || ends;
    return NULL;
}

void sim_link_resume(int number)
{
    fault_link *link = must_find(number);
    link->stalled_up = link->stalled_down = link->stalled_ends = false;
    for (sim_passage *each = next_of(link, NULL); each != NULL; each = next_of(link, each))
        each->up.held = each->down.held = false;
    for (sim_passage *each = next_of(link, NULL); each != NULL; each = next_of(link, each)) {
        pump(&each->up);
        pump(&each->down);
    }
}

const char *sim_link_delay(int number, int64_t milliseconds, const char *which)
{
    fault_link *link = must_find(number);
    bool up, down;
    if (milliseconds < 0 || !parse_directions(which, &up, &down))
        return "expected milliseconds, then up, down or both";
    if (up)
        link->delay_up = milliseconds * SIM_MILLISECOND;
    if (down)
        link->delay_down = milliseconds * SIM_MILLISECOND;
    return NULL;
}

const char *sim_link_half_close(int number, const char *side)
{
    const fault_link *link = must_find(number);
    bool client = strcmp(side, "client") == 0;
    if (!client && strcmp(side, "server") != 0)
        return "expected client or server";
    for (sim_passage *each = next_of(link, NULL); each != NULL; each = next_of(link, each)) {
        if (client) {
            end_client(each->connection, ENDS_FIN);
            each->connection->fragile = false; /* the link still takes the client's requests */
        } else {
            sim_connection_shut(each->connection);
        }
    }
    return NULL;
}

void sim_link_target(int number, const int *servers, int count)
{
    set_targets(must_find(number), servers, count);
}

const char *sim_link_arm(int number, const char *kind, const char *when, int skip, const char *how)
{
    fault_link *link = must_find(number);
    fault_trap fresh = {.state = ARMED, .kind = kind_of(kind), .skip = skip};
    if (fresh.kind == COUNTED && strcmp(kind, "any") != 0)
        return "no such kind of request";
    int when_number = 0;
    while (when_number <= STALL_REQUEST && strcmp(moments[when_number], when) != 0)
        when_number++;
    if (when_number > STALL_REQUEST)
        return "expected before, after, stall-reply or stall-request";
    fresh.when = (moment)when_number;
    if (skip < 0 || !parse_how(how, &fresh.how))
        return "expected skip N, then rst or fin";
    link->trap = fresh;
    return NULL;
}

void sim_link_disarm(int number)
{
    must_find(number)->trap = (fault_trap){0};
}

const char *sim_link_caught(int number)
{
    const fault_trap *trap = &must_find(number)->trap;
    return trap->state == SPRUNG ? trap->caught : NULL;
}

const char *sim_link_deny(int number, const char *kind, int code, int times)
{
    fault_link *link = must_find(number);
    int index = kind_of(kind);
    if (index == COUNTED)
        return "no such kind of request";
    link->denied[index].code = code;
    link->denied[index].times = times;
    return NULL;
}

void sim_link_lack_containers(int number, int answer)
{
    must_find(number)->lacks = answer;
}

void sim_link_stamp(int number, int64_t zxid)
{
    fault_link *link = must_find(number);
    link->stamps = true;
    link->stamp = zxid;
}

const char *sim_link_counted(int index)
{
    return index >= 0 && index < COUNTED ? names[index].name : NULL;
}

int64_t sim_link_count(int number, const char *name)
{
    const fault_link *link = must_find(number);
    for (int i = 0; i < COUNTED; i++) {
        if (strcmp(names[i].name, name) == 0)
            return link->counts[i];
    }
    return -1;
}

void sim_link_reset_counts(int number)
{
    fault_link *link = must_find(number);
    memset(link->counts, 0, sizeof(link->counts));
}

bool sim_link_last_session(int number, sim_link_session *out)
{
    const fault_link *link = must_find(number);
    *out = link->session;
    return link->has_session;
}

sim_link_status sim_link_state(int number)
{
    const fault_link *link = must_find(number);
    sim_link_status status = {.listening = !link->refuses, .trap = trap_states[link->trap.state]};
    for (sim_passage *each = next_of(link, NULL); each != NULL; each = next_of(link, each))
        status.connections++;
    status.stalled = link->stalled_up && link->stalled_down ? "both"
                     : link->stalled_up                     ? "up"
                     : link->stalled_down                   ? "down"
                     : link->stalled_ends                   ? "ends"
                                                            : "no";
    return status;
}
