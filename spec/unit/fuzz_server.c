/*
 * fuzz_server: the engine and the real C client against a server that sends wrong answers (fake_server.h), under libFuzzer.
 *
 * The input is a program: each byte requests something (a lock of some kind, a release, a read, a transaction, time to pass).
 * Between them the server takes the bytes that it needs to choose its wrong answers. Engine, C client and server run on one thread,
 * under one clock that this program advances, also for the C client. When the input is used up, the server answers correctly.
 *
 * Checks: nothing crashes; nothing is left (memory, acquisitions and operations without an end); nothing spins; and no lock is
 * granted by a wrong answer that zklock could have recognized: a node that was not requested, a list without the own node or with a
 * conflicting node ahead of it, permits beyond the limit.
 */
#include "base/base.h"
#include "engine/engine.h"
#include "fake_server.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST_ACQUISITIONS 12
#define MOST_OPERATIONS 8
#define MOST_ACTIONS 120
#define MOST_FOLLOWING 32 /* how many nodes in a row are checked backwards */

#define MILLISECOND (ZKL_SECOND / 1000)

/* Turns of the correct end: many session timeouts. */
#define LAST_TURNS 600

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* These replace the C library's functions, for the C client too. */
#define EXPORTED __attribute__((visibility("default")))
EXPORTED int clock_gettime(clockid_t clock, struct timespec *at);
EXPORTED int poll(struct pollfd *fds, nfds_t count, int timeout);
EXPORTED const char *__asan_default_options(void);

/* The C client accepts any length of a packet, and leaks what remains of a broken answer to a multi. */
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:detect_leaks=0";
}

typedef struct {
    zkl_acquisition *acquisition;
    zkl_mode mode;
    int32_t permits;
    zkl_acquisition_phase phase;
    bool settled;
} holder;

typedef struct {
    zkl_operation *operation;
    int answers, firings;
    bool cancelled;
} job;

static int64_t now;
static zkl_engine *engine;
static holder holders[MOST_ACQUISITIONS];
static job jobs[MOST_OPERATIONS];
static char granted[64][256];
static int granted_count;

/* The C client's timeouts follow the same clock; libFuzzer's do not. */
int clock_gettime(clockid_t clock, struct timespec *at)
{
    if (clock != CLOCK_MONOTONIC_RAW) {
        return (int)syscall(SYS_clock_gettime, clock, at);
    }
    at->tv_sec = now / ZKL_SECOND;
    at->tv_nsec = now % ZKL_SECOND;
    return 0;
}

/*
 * The C client waits for the server in some places, for example in zookeeper_close. Here that takes only time of the clock above.
 */
int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    server_turn();
    int ready = (int)syscall(SYS_poll, fds, count, 0);
    now += ready == 0 && timeout > 0 ? timeout * MILLISECOND : 0;
    return ready;
}

static void fail(const char *property, const char *what)
{
    fprintf(stderr, "violated: %s, with \"%s\"\n", property, what);
    abort();
}

static void hold(bool condition, const char *property, const char *what)
{
    if (!condition) {
        fail(property, what);
    }
}

/* --- callbacks of the engine ---------------------------------------------------------------------------------------- */

static bool stands_before(const char *own, const char *other)
{
    zkl_node mine = zkl_node_parse(own);
    zkl_node node = zkl_node_parse(other);
    return strcmp(own, other) != 0 && zkl_kind_conflicts(mine.kind, node.kind) && node.sequence <= mine.sequence;
}

static bool is_before(const char *own, const char *other)
{
    zkl_node node = zkl_node_parse(other);
    return strcmp(own, other) != 0 && zkl_kind_conflicts(ZKL_NODE_EXCLUSIVE, node.kind) &&
           node.sequence <= zkl_node_parse(own).sequence;
}

static const char *name_of(const char *path)
{
    return strrchr(path, '/') + 1;
}

static bool same_directory(const char *a, const char *b)
{
    size_t length = (size_t)(name_of(a) - a);
    return strncmp(a, b, length) == 0 && (size_t)(name_of(b) - b) == length;
}

static bool may_follow(const told_node *before, const told_node *after)
{
    int64_t number = zkl_node_parse(name_of(after->path)).sequence;
    return before->deleted && zkl_node_parse(name_of(before->path)).sequence == number - 1 &&
           after->czxid >> 32 == before->czxid >> 32 && after->czxid > before->czxid &&
           after->czxid - before->czxid - server_writes() <= number; /* the engine does not count its own writes */
}

/*
 * Whether the server has sent enough to prove that no node is ahead of this one: a list says so; or the node's number directly
 * follows the number of a node for which the same was known, and which was deleted.
 */
static bool told_none_ahead(const char *path, int depth)
{
    int count;
    const told_node *told = server_told_nodes(&count);
    if (told == NULL || server_told_first(path, is_before)) {
        return true;
    }
    for (int i = 0; i < count; i++) {
        for (int j = 0; strcmp(told[i].path, path) == 0 && j < count; j++) {
            if (told[j].path[0] != '\0' && same_directory(path, told[j].path) && may_follow(&told[j], &told[i]) &&
                depth > 0 && told_none_ahead(told[j].path, depth - 1)) {
                return true;
            }
        }
    }
    return false;
}

static bool is_lease(const char *name)
{
    return zkl_node_parse(name).kind == ZKL_NODE_LEASE;
}

static bool was_granted_before(const char *node)
{
    for (int i = 0; i < granted_count && i < 64; i++) {
        if (strcmp(granted[i], node) == 0) {
            return true;
        }
    }
    snprintf(granted[granted_count++ % 64], sizeof granted[0], "%s", node);
    return granted_count > 64;
}

/* An acquisition that is granted by an existing node inherits what was known about the node. */
static void check_grant(const holder *who, zkl_acquisition *acquisition)
{
    const zkl_acquisition_view view = zkl_acquisition_look(acquisition);
    const char *node = view.node;
    hold(node != NULL && strrchr(node, '/') != NULL, "a grant has a node", zkl_acquisition_path(acquisition));
    char token[ZKL_TOKEN_SIZE];
    zkl_token_format(view.token, token);
    hold(strlen(token) == ZKL_TOKEN_SIZE - 1, "a grant has a token", node);
    hold(strspn(token, "0123456789") == ZKL_TOKEN_NUMBER_DIGITS, "a token begins with a number", token);
    hold(view.token.grants >= 0, "a node has not served fewer grants than none", token);
    hold(server_was_asked_for(node), "the node of a grant is one that was asked for", node);
    if (was_granted_before(node)) {
        return;
    }
    if (who->mode == ZKL_MODE_PERMITS) {
        hold(server_told_room(node, who->permits, is_lease), "permits are granted within their limit", node);
    } else if (view.token.grants == 0) { /* no list is needed for a downgrade */
        hold(server_told_first(node, stands_before) || told_none_ahead(node, MOST_FOLLOWING),
             "whoever is granted was told that nobody stands before it", node);
    }
}

static void acquisition_changed(void *context, zkl_acquisition *acquisition)
{
    (void)context;
    holder *who = zkl_acquisition_user(acquisition);
    const zkl_acquisition_view view = zkl_acquisition_look(acquisition);
    zkl_acquisition_phase phase = view.phase;
    bool settled = view.settled;
    bool final = who->phase != ZKL_ACQUISITION_WAITING && who->phase != ZKL_ACQUISITION_GRANTED;
    hold(!final || phase == who->phase, "the end of an acquisition is its end", zkl_acquisition_path(acquisition));
    hold(!who->settled || settled, "settled is settled", zkl_acquisition_path(acquisition));
    if (phase == ZKL_ACQUISITION_GRANTED && who->phase == ZKL_ACQUISITION_WAITING) {
        check_grant(who, acquisition);
    }
    who->phase = phase;
    who->settled = settled;
}

static void lease_changed(void *context, int64_t valid_until)
{
    (void)context;
    hold(valid_until == ZKL_NEVER || valid_until <= now + 24 * 3600 * ZKL_SECOND, "a lease ends within a day", "");
}

static void state_changed(void *context, zkl_state state, zkl_code code, const char *problem)
{
    (void)context;
    (void)zkl_state_name(state);
    (void)zkl_code_name(code);
    (void)strlen(problem);
}

static void log_line(void *context, int level, const char *message)
{
    (void)context;
    (void)level;
    (void)strlen(message);
}

static void library_line(const char *message)
{
    (void)message;
}

static void operation_done(void *user, zkl_code code, const char *message, zkl_operation_result *result,
                           int32_t failed_part)
{
    job *of = user;
    hold(++of->answers == 1 && !of->cancelled, "an operation is answered once", message);
    hold((code == ZKL_OK) == (result != NULL), "a good answer has a result", message);
    hold(failed_part == -1 || code != ZKL_OK, "a good answer has no part that failed", message);
    for (int32_t i = 0; result != NULL && i < result->name_count; i++) {
        hold(strlen(result->names[i]) > 0, "names are names", message);
    }
    hold(result == NULL || result->data_length >= 0, "data have a length", message);
    zkl_operation_result_free(result);
}

static void operation_fired(void *user, zkl_node_event event, zkl_code code)
{
    (void)event;
    (void)code;
    job *of = user;
    hold(++of->firings == 1 && of->answers == 1 && !of->cancelled, "a watch fires once, after its answer", "");
}

static const zkl_operation_host operation_host = {operation_done, operation_fired};

/* --- the program ---------------------------------------------------------------------------------------------------- */

static void turn(int64_t passes)
{
    zkl_poll wanted;
    server_turn();
    now += passes;
    zkl_engine_prepare(engine, now, &wanted);
    if (wanted.must_disconnect) {
        shutdown(wanted.fd, SHUT_RDWR);
    }
    struct pollfd fd = {.fd = wanted.fd, .events = wanted.events};
    short revents = wanted.fd >= 0 && poll(&fd, 1, 0) > 0 ? fd.revents : 0;
    zkl_engine_process(engine, now, revents);
}

static holder *a_holder(input *in, bool free_one)
{
    int first = take(in) % MOST_ACQUISITIONS;
    for (int i = 0; i < MOST_ACQUISITIONS; i++) {
        holder *one = &holders[(first + i) % MOST_ACQUISITIONS];
        if ((one->acquisition == NULL) == free_one) {
            return one;
        }
    }
    return NULL;
}

static void want_lock(input *in)
{
    static const char *const paths[] = {"/locks/one", "/two", "/sem"};
    holder *who = a_holder(in, true);
    if (who == NULL) {
        return;
    }
    uint8_t kind = take(in);
    uint8_t flags = take(in);
    zkl_mode mode = kind % 8 < 3 ? ZKL_MODE_MUTEX : kind % 8 == 7 ? ZKL_MODE_READ : (zkl_mode)(kind % 8 - 3);
    holder *writer = (flags & 64) != 0 ? &holders[flags % MOST_ACQUISITIONS] : NULL;
    int32_t permits = 1 + kind / 8 % 3;
    const zkl_lock lock = {.path = mode == ZKL_MODE_PERMITS ? paths[2] : paths[flags % 2],
                           .mode = mode,
                           .identity = "fuzz",
                           .acl = &ZOO_OPEN_ACL_UNSAFE,
                           .permits = permits,
                           .handoff = flags % 3,
                           .linger = (flags & 128) != 0 ? ZKL_SECOND : 0,
                           .revocable = (flags & 16) != 0,
                           .max_hold = (flags & 32) != 0 ? ZKL_SECOND : 0};
    zkl_acquisition_request request = {.spec = zkl_lock_spec_new(&lock),
                                       .count = 1 + flags % permits,
                                       .try_only = (flags & 4) != 0,
                                       .optimistic = (flags & 8) != 0};
    hold(request.spec != NULL, "there is memory", lock.path);
    *who = (holder){.mode = mode, .permits = permits};
    zkl_acquisition *acquisition =
        zkl_engine_acquire(engine, &request, writer != NULL ? writer->acquisition : NULL, who, now);
    hold(acquisition != NULL, "there is memory", lock.path);
    zkl_lock_spec_drop(request.spec);
    who->acquisition = acquisition;
}

static void give_up(input *in)
{
    holder *who = a_holder(in, false);
    uint8_t how = take(in);
    if (who == NULL) {
        return;
    }
    if (how % 3 == 0) {
        zkl_acquisition_end(who->acquisition, ZKL_CANCELLED, now);
    } else if (how % 3 == 1) {
        zkl_acquisition *acquisition = who->acquisition;
        who->acquisition = NULL;
        zkl_acquisition_forget(acquisition, now);
    } else if (who->phase == ZKL_ACQUISITION_GRANTED) {
        zkl_acquisition_lapsed(who->acquisition, now);
    }
}

static void operate(input *in)
{
    static const char *const paths[] = {"/locks/one", "/two", "/data", "/data/child", "/"};
    job *free_one = NULL;
    for (int i = 0; i < MOST_OPERATIONS; i++) {
        free_one = jobs[i].operation == NULL ? &jobs[i] : free_one;
    }
    uint8_t choice = take(in);
    if (free_one == NULL || choice >= 200) {
        job *old = &jobs[choice % MOST_OPERATIONS];
        if (old->operation != NULL) {
            zkl_operation *operation = old->operation;
            old->cancelled = true;
            zkl_operation_cancel(operation, now);
            *old = (job){0};
            zkl_operation_forget(operation, now);
        }
        return;
    }
    zkl_operation_request parts[4];
    zkl_operation_request request = {.kind = (zkl_operation_kind)(choice % (ZKL_OPERATION_SYNC + 1)),
                                     .path = paths[take(in) % 5],
                                     .data = "data",
                                     .data_length = 4,
                                     .version = -1,
                                     .acl = &ZOO_OPEN_ACL_UNSAFE,
                                     .watch = choice >= 100};
    if (request.kind == ZKL_OPERATION_CREATE && strcmp(request.path, "/") == 0) {
        request.path = "/data";
    }
    if (choice % 9 == 8) {
        int32_t count = 1 + take(in) % 4;
        static const zkl_operation_kind kinds[] = {ZKL_OPERATION_CREATE, ZKL_OPERATION_SET, ZKL_OPERATION_DELETE,
                                                   ZKL_OPERATION_CHECK};
        for (int32_t i = 0; i < count; i++) {
            parts[i] = request;
            parts[i].kind = kinds[take(in) % 4];
            parts[i].path = "/data/part";
            parts[i].watch = false;
        }
        request = (zkl_operation_request){.kind = ZKL_OPERATION_MULTI, .parts = parts, .part_count = count};
    }
    request.watch = request.watch && (request.kind == ZKL_OPERATION_GET || request.kind == ZKL_OPERATION_EXISTS ||
                                      request.kind == ZKL_OPERATION_CHILDREN);
    zkl_operation *operation = zkl_operation_new(&request);
    hold(operation != NULL, "there is memory", request.path != NULL ? request.path : "");
    *free_one = (job){.operation = operation};
    zkl_engine_operate(engine, operation, &operation_host, free_one, now);
}

static void act(input *in)
{
    uint8_t action = take(in);
    switch (action % 16) {
    case 0:
    case 1:
    case 2:
        want_lock(in);
        break;
    case 3:
    case 4:
        give_up(in);
        break;
    case 5:
    case 6:
    case 7:
        operate(in);
        break;
    case 8:
        server_act();
        break;
    case 9:
        turn((1 + take(in)) * 40 * MILLISECOND);
        break;
    default:
        turn(MILLISECOND);
        break;
    }
}

/* Closes the client as its driver would, and checks that everything has come to an end. */
static void finish(void)
{
    server_reform();
    for (int i = 0; i < 40; i++) {
        turn(100 * MILLISECOND);
    }
    int turns = 0;
    zkl_engine_close(engine, now);
    while (!zkl_engine_drained(engine) && turns++ < LAST_TURNS) {
        turn(10 * MILLISECOND);
    }
    zkl_engine_shut_down(engine, now);
    for (int i = 0; i < MOST_ACQUISITIONS; i++) {
        const holder *who = &holders[i];
        hold(who->acquisition == NULL ||
                 (who->phase != ZKL_ACQUISITION_WAITING && who->phase != ZKL_ACQUISITION_GRANTED),
             "every acquisition ends with its client", "");
    }
    for (int i = 0; i < MOST_OPERATIONS; i++) {
        hold(jobs[i].operation == NULL || jobs[i].answers == 1, "every operation is answered", "");
        if (jobs[i].operation != NULL) {
            jobs[i].cancelled = true;
            zkl_operation_forget(jobs[i].operation, now);
        }
    }
    zkl_engine_free(engine);
    server_end();
    hold(zkl_memory_in_use() == 0, "all memory is given back", "");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    char servers[64];
    uint8_t options = take(&in);
    snprintf(servers, sizeof servers, "127.0.0.1:%d", server_start());
    const zkl_engine_config config = {.session.servers = servers,
                                      .session.session_timeout_ms = 4000,
                                      .session.lease = options % 4 != 0,
                                      .session.zookeeper_log = library_line,
                                      .random = {options, 7}};
    const zkl_host host = {.acquisition_changed = acquisition_changed,
                           .session.lease_changed = lease_changed,
                           .session.state_changed = state_changed,
                           .session.log = log_line};
    now = 1000 * ZKL_SECOND;
    memset(holders, 0, sizeof holders);
    memset(jobs, 0, sizeof jobs);
    granted_count = 0;
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    server_begin(&in);
    engine = zkl_engine_new(&config, &host);
    hold(engine != NULL, "there is memory", "");
    for (int i = 0; i < 6; i++) {
        turn(MILLISECOND);
    }
    for (int actions = 0; in.left > 0 && actions < MOST_ACTIONS; actions++) {
        act(&in);
    }
    finish();
    return 0;
}
