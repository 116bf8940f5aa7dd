/*
 * operation: single requests of the program, which reads and writes nodes with them, or implements its own recipe.
 *
 * docs/design.md, "Operations of the program", has their order.
 * The numbers of sequential nodes are passed on as ZooKeeper assigns them, also at their end, where a lock would be refused.
 *
 * The answer is given once, from inside any function of this layer or of the session. An operation that was forgotten while its
 * request was in flight is freed when the reply is in.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ops.h"
#include "user_watch.h"

/*
 * The most bytes of a request. A server closes the connection at a packet above jute.maxbuffer, 1 MB by default, and
 * all requests in flight are lost with it. Besides data, path (behind the chroot) and acl, a packet has less than
 * REQUEST_OVERHEAD bytes per operation.
 */
#define LARGEST_REQUEST 1000000
#define REQUEST_OVERHEAD 64

/*
 * The most bytes that callers' threads send by themselves since the driver's last turn. Bytes that do not fit into the
 * socket's buffer wait until the driver polls for writing, which it does not do before its next turn.
 */
#define SEND_BETWEEN_TURNS 32768

/* ZooKeeper appends ten digits, or eleven characters when its counter has overflowed. */
#define SEQUENCE_ROOM 12

struct zkl_part {
    zkl_operation_kind kind;
    char *path;
    char *data;
    int32_t data_length;
    int32_t version;
    int32_t flags;
    struct ACL_vector acl;
};

/* The state of an operation. `enter_operation` makes each transition. */
typedef enum {
    ZKL_OPERATION_STATE_NEW,      /* set by zkl_operation_new: not submitted */
    ZKL_OPERATION_STATE_WAITING,  /* set by zkl_operations_submit and wait_again: in operations->waiting, to be sent */
    ZKL_OPERATION_STATE_DECIDING, /* set by send_operation and on_replied: being sent, or its reply is being evaluated */
    ZKL_OPERATION_STATE_FLYING,   /* set by send_operation: its request is in flight */
    ZKL_OPERATION_STATE_ABANDONED, /* set by finish_operation: the same, but its answer is not reported any more */
    ZKL_OPERATION_STATE_ANSWERED /* set by finish_operation and on_replied: answered or cancelled, and no request is in flight */
} zkl_operation_state;

struct zkl_operation {
    TAILQ_ENTRY(zkl_operation) all;
    zkl_operations *operations; /* NULL until zkl_operations_submit */
    const zkl_operation_host *host;
    void *user;
    struct zkl_part *parts; /* one, or those of a multi */
    int32_t part_count;
    zkl_operation_kind kind;
    uint64_t serial; /* the order in which operations were requested */
    size_t size;
    zkl_operation_state state;
    bool watch_wanted; /* as requested */
    bool forgotten;    /* by its owner: freed as soon as no request is in flight */
    zkl_user_watch *watch;
    zoo_op_t *ops; /* of a multi in flight: the C client writes into the results, and into the memory they point to */
    zoo_op_result_t *results;
    struct Stat *stats;
};

/* --- making and freeing -------------------------------------------------------------------------------------------- */

static bool copy_part(struct zkl_part *part, const zkl_operation_request *request)
{
    part->kind = request->kind;
    part->version = request->version;
    part->flags = request->flags;
    part->data_length = request->data != NULL ? request->data_length : -1;
    part->path = zkl_copy(request->path, strlen(request->path));
    if (request->data != NULL) {
        part->data = zkl_copy(request->data, (size_t)request->data_length);
    }
    return part->path != NULL && (request->data == NULL || part->data != NULL) &&
           (request->acl == NULL || zkl_acl_copy(&part->acl, request->acl));
}

static size_t size_of_part(const struct zkl_part *part)
{
    size_t size = REQUEST_OVERHEAD + strlen(part->path) + (part->data != NULL ? (size_t)part->data_length : 0);
    for (int32_t i = 0; i < part->acl.count; i++) {
        size += strlen(part->acl.data[i].id.scheme) + strlen(part->acl.data[i].id.id) + 12;
    }
    return size;
}

static void free_multi(zkl_operation *operation)
{
    for (int32_t i = 0; operation->ops != NULL && i < operation->part_count; i++) {
        if (operation->parts[i].kind == ZKL_OPERATION_CREATE) {
            zkl_free(operation->ops[i].create_op.buf);
        }
    }
    zkl_free(operation->ops);
    zkl_free(operation->results);
    zkl_free(operation->stats);
    operation->ops = NULL;
    operation->results = NULL;
    operation->stats = NULL;
}

/* Frees the parameters of the request. */
static void free_parts(zkl_operation *operation)
{
    free_multi(operation);
    for (int32_t i = 0; i < operation->part_count; i++) {
        struct zkl_part *part = &operation->parts[i];
        zkl_free(part->path);
        zkl_free(part->data);
        zkl_acl_free(&part->acl);
    }
    zkl_free(operation->parts);
    operation->parts = NULL;
    operation->part_count = 0;
}

static void free_parts_of(zkl_operation *operation)
{
    free_parts(operation);
    zkl_free(operation);
}

zkl_operation *zkl_operation_new(const zkl_operation_request *request)
{
    zkl_operation *operation = zkl_alloc(sizeof *operation);
    if (operation == NULL) {
        return NULL;
    }
    bool multi = request->kind == ZKL_OPERATION_MULTI;
    int32_t count = multi ? request->part_count : 1;
    operation->kind = request->kind;
    operation->watch_wanted = request->watch;
    operation->parts = zkl_alloc((size_t)count * sizeof *operation->parts);
    bool whole = operation->parts != NULL;
    for (int32_t i = 0; whole && i < count; i++) {
        struct zkl_part *part = &operation->parts[operation->part_count++];
        whole = copy_part(part, multi ? &request->parts[i] : request);
        operation->size += whole ? size_of_part(part) : 0;
    }
    if (!whole) {
        free_parts_of(operation);
        return NULL;
    }
    return operation;
}

void zkl_operation_result_free(zkl_operation_result *result)
{
    if (result == NULL) {
        return;
    }
    for (int32_t i = 0; i < result->name_count; i++) {
        zkl_free(result->names[i]);
    }
    for (int32_t i = 0; i < result->part_count; i++) {
        zkl_free(result->parts[i].path);
    }
    zkl_free(result->names);
    zkl_free(result->parts);
    zkl_free(result->path);
    zkl_free(result->data);
    zkl_free(result);
}

/* --- answering ----------------------------------------------------------------------------------------------------- */

static const char *verb(zkl_operation_kind kind)
{
    static const char *const verbs[] = {
        [ZKL_OPERATION_GET] = "reading",         [ZKL_OPERATION_SET] = "writing",
        [ZKL_OPERATION_CREATE] = "creating",     [ZKL_OPERATION_DELETE] = "deleting",
        [ZKL_OPERATION_EXISTS] = "looking at",   [ZKL_OPERATION_CHILDREN] = "listing the children of",
        [ZKL_OPERATION_SYNC] = "synchronizing",  [ZKL_OPERATION_CHECK] = "checking",
        [ZKL_OPERATION_MULTI] = "a transaction", [ZKL_OPERATION_ACL] = "reading the acl of",
    };
    return verbs[kind];
}

static bool is_read(zkl_operation_kind kind)
{
    return kind == ZKL_OPERATION_GET || kind == ZKL_OPERATION_EXISTS || kind == ZKL_OPERATION_CHILDREN ||
           kind == ZKL_OPERATION_ACL || kind == ZKL_OPERATION_SYNC;
}

/* Writes the beginning of every message: "reading '/a'", "a transaction of 3 operations". */
static void describe(const zkl_operation *operation, char *text, size_t size)
{
    if (operation->kind == ZKL_OPERATION_MULTI) {
        snprintf(text, size, "%s of %d operations", verb(operation->kind), operation->part_count);
    } else {
        snprintf(text, size, "%s '%.160s'", verb(operation->kind), operation->parts->path);
    }
}

/* Removes the operation from the list that contains it. */
static void take_off(zkl_operation *operation)
{
    zkl_operations *operations = operation->operations;
    if (operation->state == ZKL_OPERATION_STATE_WAITING) {
        TAILQ_REMOVE(&operations->waiting, operation, all);
    } else {
        TAILQ_REMOVE(&operations->begun, operation, all);
    }
}

/* Enters the next state. An operation that stops waiting moves to operations->begun. wait_again does the opposite. */
static void enter_operation(zkl_operation *operation, zkl_operation_state next)
{
#define TO(state) (1U << ZKL_OPERATION_STATE_##state)
    static const uint32_t legal[] = {
        [ZKL_OPERATION_STATE_NEW] = TO(WAITING),
        [ZKL_OPERATION_STATE_WAITING] = TO(DECIDING) | TO(ANSWERED),
        [ZKL_OPERATION_STATE_DECIDING] = TO(WAITING) | TO(FLYING) | TO(ANSWERED),
        [ZKL_OPERATION_STATE_FLYING] = TO(DECIDING) | TO(ABANDONED),
        [ZKL_OPERATION_STATE_ABANDONED] = TO(ANSWERED),
        [ZKL_OPERATION_STATE_ANSWERED] = 0,
    };
#undef TO
    assert((legal[operation->state] & 1U << next) != 0);
    if (operation->state == ZKL_OPERATION_STATE_WAITING) {
        take_off(operation);
        TAILQ_INSERT_TAIL(&operation->operations->begun, operation, all);
    }
    operation->state = next;
}

/* Returns whether a request is in flight. */
static bool is_flying(const zkl_operation *operation)
{
    return operation->state == ZKL_OPERATION_STATE_FLYING || operation->state == ZKL_OPERATION_STATE_ABANDONED;
}

/* Returns whether the operation has its answer, or is cancelled: no other answer is reported. */
static bool is_finished(const zkl_operation *operation)
{
    return operation->state == ZKL_OPERATION_STATE_ABANDONED || operation->state == ZKL_OPERATION_STATE_ANSWERED;
}

/* No answer is reported any more, after the one that is about to be given. */
static void finish_operation(zkl_operation *operation)
{
    bool flying = operation->state == ZKL_OPERATION_STATE_FLYING;
    enter_operation(operation, flying ? ZKL_OPERATION_STATE_ABANDONED : ZKL_OPERATION_STATE_ANSWERED);
}

/* Gives up the watch. While the read that arms it is in flight, its reply has to come first. */
static void leave_watch(zkl_operation *operation)
{
    if (operation->watch != NULL && !is_flying(operation)) {
        zkl_user_watch_leave(operation->watch);
        operation->watch = NULL;
    }
}

/*
 * Answers an operation that has no answer yet. `result` becomes the host's. `failed_part` is -1 unless one part of a
 * multi is to blame.
 */
static void answer_operation(zkl_operation *operation, zkl_code code, const char *message, zkl_operation_result *result,
                             int32_t failed_part)
{
    finish_operation(operation);
    if (code != ZKL_OK) {
        leave_watch(operation);
    }
    operation->host->done(operation->user, code, message, result, failed_part);
}

static void fail_operation(zkl_operation *operation, zkl_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void fail_operation(zkl_operation *operation, zkl_code code, const char *format, ...)
{
    char reason[288];
    char what[208];
    char message[ZKL_OPERATION_MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    describe(operation, what, sizeof what);
    snprintf(message, sizeof message, "%s: %s", what, reason);
    answer_operation(operation, code, message, NULL, -1);
}

/* --- what the server answered -------------------------------------------------------------------------------------- */

static bool copy_names(zkl_operation_result *result, const struct String_vector *names)
{
    if (names->count == 0) {
        return true;
    }
    result->names = zkl_alloc((size_t)names->count * sizeof *result->names);
    bool whole = result->names != NULL;
    for (int32_t i = 0; whole && i < names->count; i++) {
        char *name = zkl_copy(names->data[i], strlen(names->data[i]));
        result->names[i] = name;
        result->name_count += name != NULL;
        whole = name != NULL;
    }
    return whole;
}

static bool copy_parts(zkl_operation_result *result, const zkl_operation *operation)
{
    result->parts = zkl_alloc((size_t)operation->part_count * sizeof *result->parts);
    bool whole = result->parts != NULL;
    for (int32_t i = 0; whole && i < operation->part_count; i++) {
        zkl_operation_result *part = &result->parts[result->part_count++];
        part->kind = operation->parts[i].kind;
        if (part->kind == ZKL_OPERATION_CREATE) {
            const char *created = operation->results[i].value;
            part->path = created != NULL ? zkl_copy(created, strlen(created)) : NULL;
            whole = part->path != NULL;
        } else if (part->kind == ZKL_OPERATION_SET) {
            part->stat = operation->stats[i];
        }
    }
    return whole;
}

/* Returns a deep copy of the reply; NULL when memory is short. */
static zkl_operation_result *copy_reply(const zkl_operation *operation, const zkl_reply *reply)
{
    zkl_operation_result *result = zkl_alloc(sizeof *result);
    if (result == NULL) {
        return NULL;
    }
    bool whole = true;
    result->kind = operation->kind;
    result->watching = operation->watch != NULL;
    if (reply->stat != NULL) {
        result->has_stat = true;
        result->stat = *reply->stat;
    }
    if (operation->kind == ZKL_OPERATION_GET) {
        result->data_length = reply->data != NULL && reply->length > 0 ? reply->length : 0;
        result->data = zkl_copy(reply->data, (size_t)result->data_length);
        whole = result->data != NULL;
    } else if (operation->kind == ZKL_OPERATION_ACL) {
        result->data = zkl_acl_text(reply->acl, &result->data_length);
        whole = result->data != NULL;
    } else if (operation->kind == ZKL_OPERATION_CREATE && reply->path != NULL) {
        result->path = zkl_copy(reply->path, strlen(reply->path));
        whole = result->path != NULL;
    } else if (operation->kind == ZKL_OPERATION_CHILDREN && reply->names != NULL) {
        whole = copy_names(result, reply->names);
    } else if (operation->kind == ZKL_OPERATION_MULTI) {
        whole = copy_parts(result, operation);
    }
    if (!whole) {
        zkl_operation_result_free(result);
        return NULL;
    }
    return result;
}

static void succeed(zkl_operation *operation, const zkl_reply *reply)
{
    zkl_operation_result *result = copy_reply(operation, reply);
    if (result != NULL) {
        answer_operation(operation, ZKL_OK, "", result, -1);
    } else {
        fail_operation(operation, ZKL_FAILED, "not enough memory for the answer%s",
                       is_read(operation->kind) ? "" : ": it was executed");
    }
}

/* Returns the part for which a multi failed; -1 when no part is to blame. */
static int32_t find_failed_part(const zkl_operation *operation)
{
    for (int32_t i = 0; operation->results != NULL && i < operation->part_count; i++) {
        int error = operation->results[i].err;
        if (error != ZOK && error != ZRUNTIMEINCONSISTENCY) {
            return i;
        }
    }
    return -1;
}

static void fail_multi(zkl_operation *operation, int rc)
{
    int32_t index = find_failed_part(operation);
    if (index < 0) {
        fail_operation(operation, zkl_code_of(rc), "%s; nothing was written", zkl_words_of(rc));
        return;
    }
    const struct zkl_part *part = &operation->parts[index];
    int error = operation->results[index].err;
    char message[ZKL_OPERATION_MESSAGE_SIZE];
    snprintf(message, sizeof message, "a transaction of %d operations: %s '%.160s' gives '%.80s'; nothing was written",
             operation->part_count, verb(part->kind), part->path, zkl_words_of(error));
    answer_operation(operation, zkl_code_of(error), message, NULL, index);
}

/* Lets the operation wait until requests may go out, ahead of operations that were requested later. */
static void wait_again(zkl_operation *operation)
{
    struct zkl_operation_list *list = &operation->operations->waiting;
    take_off(operation);
    enter_operation(operation, ZKL_OPERATION_STATE_WAITING);
    zkl_operation *later = TAILQ_FIRST(list);
    while (later != NULL && later->serial < operation->serial) {
        later = TAILQ_NEXT(later, all);
    }
    if (later != NULL) {
        TAILQ_INSERT_BEFORE(later, operation, all);
    } else {
        TAILQ_INSERT_TAIL(list, operation, all);
    }
}

static void free_if_done(zkl_operation *operation)
{
    if (operation->forgotten && !is_flying(operation)) {
        take_off(operation);
        free_parts_of(operation);
    }
}

/* Returns whether the operation succeeded. For exists, ZNONODE is an answer too, and leaves a watch for the creation. */
static bool is_success(const zkl_operation *operation, int rc)
{
    return rc == ZOK || (rc == ZNONODE && operation->kind == ZKL_OPERATION_EXISTS);
}

/* Sends no operation until zkl_try_later's time has come. */
static void pause_sending(zkl_operations *operations)
{
    operations->paused = true;
    zkl_try_later(operations->wire);
}

/* Handles the reply to an operation whose answer is still awaited. */
static void take_reply(zkl_operation *operation, int rc, const zkl_reply *reply)
{
    zkl_operations *operations = operation->operations;
    if (is_success(operation, rc)) {
        succeed(operation, reply);
    } else if (rc == ZTHROTTLEDOP) {
        wait_again(operation); /* the server has too much to do, and has not executed it */
        pause_sending(operations);
    } else if (zkl_not_answered(rc) && is_read(operation->kind)) {
        wait_again(operation);
    } else if (zkl_not_answered(rc)) {
        operations->wire->stats.unknown_outcomes++;
        fail_operation(operation, ZKL_DISCONNECTED,
                       "the connection was lost (%s): whether it was executed is not known", zerror(rc));
    } else if (operation->kind == ZKL_OPERATION_MULTI && rc != ZMARSHALLINGERROR) {
        fail_multi(operation, rc);
    } else {
        fail_operation(operation, zkl_code_of(rc), "%s", zkl_words_of(rc));
    }
}

static void on_replied(void *owner, int rc, const zkl_reply *reply)
{
    zkl_operation *operation = owner;
    bool abandoned = operation->state == ZKL_OPERATION_STATE_ABANDONED;
    enter_operation(operation, abandoned ? ZKL_OPERATION_STATE_ANSWERED : ZKL_OPERATION_STATE_DECIDING);
    if (operation->watch != NULL) {
        zkl_user_watch_armed(operation->watch, is_success(operation, rc));
    }
    if (abandoned) {
        leave_watch(operation);
    } else {
        bool sound =
            rc != ZOK ||
            ((reply->names == NULL || zkl_list_is_sound(reply->names)) &&
             (operation->kind != ZKL_OPERATION_MULTI || zkl_all_succeeded(operation->results, operation->part_count)));
        take_reply(operation, sound ? rc : ZMARSHALLINGERROR, reply);
    }
    if (is_finished(operation)) {
        free_parts(operation); /* only its watch may be left */
    } else {
        free_multi(operation);
    }
    free_if_done(operation);
}

/* --- sending ------------------------------------------------------------------------------------------------------- */

static bool init_op(zkl_operation *operation, int32_t index)
{
    const struct zkl_part *part = &operation->parts[index];
    zoo_op_t *op = &operation->ops[index];
    switch (part->kind) {
    case ZKL_OPERATION_CREATE: {
        size_t room = strlen(part->path) + SEQUENCE_ROOM;
        char *created = zkl_alloc(room);
        zoo_create_op_init(op, part->path, part->data, part->data_length, &part->acl, part->flags, created, (int)room);
        return created != NULL;
    }
    case ZKL_OPERATION_SET:
        zoo_set_op_init(op, part->path, part->data, part->data_length, part->version, &operation->stats[index]);
        return true;
    case ZKL_OPERATION_DELETE:
        zoo_delete_op_init(op, part->path, part->version);
        return true;
    default:
        zoo_check_op_init(op, part->path, part->version);
        return true;
    }
}

/* Makes the data that the C client needs until the multi is answered. Returns false when memory is short. */
static bool init_multi(zkl_operation *operation)
{
    size_t count = (size_t)operation->part_count;
    operation->ops = zkl_alloc(count * sizeof *operation->ops);
    operation->results = zkl_alloc(count * sizeof *operation->results);
    operation->stats = zkl_alloc(count * sizeof *operation->stats);
    bool whole = operation->ops != NULL && operation->results != NULL && operation->stats != NULL;
    for (int32_t i = 0; whole && i < operation->part_count; i++) {
        whole = init_op(operation, i);
    }
    if (!whole) {
        free_multi(operation);
    }
    return whole;
}

static bool has_watch(zkl_operation *operation)
{
    if (operation->watch_wanted && operation->watch == NULL) {
        const struct zkl_part *part = operation->parts;
        operation->watch = zkl_user_watch_new(operation->operations, part->path, part->kind == ZKL_OPERATION_CHILDREN,
                                              operation->host->fired, operation->user);
    }
    return !operation->watch_wanted || operation->watch != NULL;
}

static bool makes_ephemeral(const zkl_operation *operation)
{
    for (int32_t i = 0; i < operation->part_count; i++) {
        const struct zkl_part *part = &operation->parts[i];
        if (part->kind == ZKL_OPERATION_CREATE &&
            (part->flags == ZOO_EPHEMERAL || part->flags == ZOO_EPHEMERAL_SEQUENTIAL)) {
            return true;
        }
    }
    return false;
}

static int call_client(zkl_operation *operation)
{
    zkl_operations *operations = operation->operations;
    const struct zkl_part *part = operation->parts;
    const zkl_ask ask = {.on_reply = on_replied, .owner = operation};
    watcher_fn watcher = operation->watch != NULL ? zkl_user_watch_event : NULL;
    switch (operation->kind) {
    case ZKL_OPERATION_GET:
        return zkl_send_get(operations->wire, &ask, part->path, watcher, operations);
    case ZKL_OPERATION_SET:
        return zkl_send_set(operations->wire, &ask, part->path, part->data, part->data_length, part->version);
    case ZKL_OPERATION_CREATE:
        return zkl_send_create(operations->wire, &ask, part->path, part->data, part->data_length, &part->acl,
                               part->flags);
    case ZKL_OPERATION_DELETE:
        return zkl_send_delete(operations->wire, &ask, part->path, part->version);
    case ZKL_OPERATION_EXISTS:
        return zkl_send_exists(operations->wire, &ask, part->path, watcher, operations);
    case ZKL_OPERATION_CHILDREN:
        return zkl_send_list(operations->wire, &ask, part->path, watcher, operations);
    case ZKL_OPERATION_ACL:
        return zkl_send_acl(operations->wire, &ask, part->path);
    case ZKL_OPERATION_SYNC:
        return zkl_send_sync(operations->wire, &ask, part->path);
    case ZKL_OPERATION_MULTI:
        return zkl_send_multi(operations->wire, &ask, operation->part_count, operation->ops, operation->results);
    case ZKL_OPERATION_CHECK:
        break;
    }
    return ZBADARGUMENTS;
}

static void send_operation(zkl_operation *operation)
{
    zkl_operations *operations = operation->operations;
    if ((operation->kind == ZKL_OPERATION_MULTI && !init_multi(operation)) || !has_watch(operation)) {
        fail_operation(operation, ZKL_FAILED, "not enough memory");
        return;
    }
    enter_operation(operation, ZKL_OPERATION_STATE_DECIDING);
    if (makes_ephemeral(operation)) {
        operations->session->heartbeat.own_ephemerals = true;
    }
    if (operation->watch != NULL) {
        zkl_user_watch_arming(operation->watch);
    }
    int rc = call_client(operation);
    if (rc == ZOK) {
        enter_operation(operation, ZKL_OPERATION_STATE_FLYING);
        operations->sent_bytes += operation->size;
        return;
    }
    if (operation->watch != NULL) {
        zkl_user_watch_armed(operation->watch, false);
    }
    free_multi(operation);
    if (rc == ZINVALIDSTATE) {
        wait_again(operation); /* the session is over, as a session event is about to tell */
        pause_sending(operations);
    } else {
        fail_operation(operation, ZKL_FAILED, "the ZooKeeper client refused it: %s", zerror(rc));
    }
}

static bool may_send(const zkl_operations *operations)
{
    return operations->wire->usable && !operations->paused && operations->wire->in_flight < ZKL_MAX_IN_FLIGHT;
}

void zkl_operations_send(zkl_operations *operations)
{
    zkl_operation *operation;
    while ((operation = TAILQ_FIRST(&operations->waiting)) != NULL && may_send(operations)) {
        send_operation(operation);
    }
}

int64_t zkl_operations_send_at(const zkl_operations *operations)
{
    return !TAILQ_EMPTY(&operations->waiting) && may_send(operations) ? operations->wire->now : ZKL_NEVER;
}

/* --- the object ----------------------------------------------------------------------------------------------------- */

bool zkl_operations_init(zkl_operations *operations, zkl_session *session)
{
    operations->session = session;
    operations->wire = &session->wire;
    TAILQ_INIT(&operations->waiting);
    TAILQ_INIT(&operations->begun);
    return zkl_user_watches_init(operations);
}

void zkl_operations_begin_turn(zkl_operations *operations)
{
    operations->sent_bytes = 0;
}

/* --- the driver's calls -------------------------------------------------------------------------------------------- */

/* Refuses the operation if no answer of the server is needed for that; else returns false. */
static bool refuse_operation(zkl_operation *operation)
{
    zkl_operations *operations = operation->operations;
    if (zkl_session_closing(operations->session)) {
        fail_operation(operation, ZKL_CLOSED, "the client is closed");
    } else if (operations->session->state == ZKL_STATE_AUTH_FAILED) {
        fail_operation(operation, ZKL_AUTH_FAILED, "%s", operations->session->problem);
    } else if (operation->size > LARGEST_REQUEST) {
        fail_operation(operation, ZKL_FAILED, "it has %zu bytes, and a ZooKeeper server takes no more than %d at once",
                       operation->size, LARGEST_REQUEST);
    } else if (operation->watch_wanted && !zkl_user_watch_fits(operations, operation->parts->path)) {
        fail_operation(operation, ZKL_FAILED, "this client watches too many paths to watch another");
    } else {
        return false;
    }
    return true;
}

void zkl_operations_submit(zkl_operations *operations, zkl_operation *operation, const zkl_operation_host *host,
                           void *user, int64_t now)
{
    operations->wire->now = now;
    operation->operations = operations;
    operation->host = host;
    operation->user = user;
    operation->serial = ++operations->serial;
    operation->size += (size_t)operation->part_count * (size_t)operations->wire->chroot_length;
    enter_operation(operation, ZKL_OPERATION_STATE_WAITING);
    TAILQ_INSERT_TAIL(&operations->waiting, operation, all);
    if (!refuse_operation(operation) && operations->sent_bytes + operation->size <= SEND_BETWEEN_TURNS) {
        zkl_operations_send(operations);
    }
}

void zkl_operation_cancel(zkl_operation *operation, int64_t now)
{
    operation->operations->wire->now = now;
    if (!is_finished(operation)) {
        finish_operation(operation);
    }
    leave_watch(operation);
}

void zkl_operation_forget(zkl_operation *operation, int64_t now)
{
    if (operation->operations == NULL) {
        free_parts_of(operation);
        return;
    }
    zkl_operation_cancel(operation, now);
    operation->forgotten = true;
    free_if_done(operation);
}

/* Answers the operations of a list that have no answer yet. In operations->begun the answers do not change the list. */
static void fail_all(struct zkl_operation_list *list, zkl_code code, const char *message)
{
    zkl_operation *operation, *next;
    for (operation = TAILQ_FIRST(list); operation != NULL; operation = next) {
        next = TAILQ_NEXT(operation, all);
        if (operation->state == ZKL_OPERATION_STATE_FLYING && !is_read(operation->kind)) {
            fail_operation(operation, code, "%s: whether it was executed is not known", message);
        } else if (!is_finished(operation)) {
            fail_operation(operation, code, "%s", message);
        }
    }
}

void zkl_operations_fail(zkl_operations *operations, zkl_code code, const char *message)
{
    fail_all(&operations->waiting, code, message);
    fail_all(&operations->begun, code, message);
}

void zkl_operations_close(zkl_operations *operations)
{
    zkl_operations_fail(operations, ZKL_CLOSED, "the client is closed");
    zkl_user_watches_end(operations, ZKL_CLOSED);
}

void zkl_operations_free(zkl_operations *operations)
{
    zkl_operation *operation;
    while ((operation = TAILQ_FIRST(&operations->waiting)) != NULL ||
           (operation = TAILQ_FIRST(&operations->begun)) != NULL) {
        take_off(operation);
        if (operation->watch != NULL) {
            zkl_user_watch_leave(operation->watch); /* the handle is closed: no reply comes any more */
        }
        free_parts_of(operation);
    }
    zkl_table_free(&operations->watches);
}

/* --- what the session reports -------------------------------------------------------------------------------------- */

static void operations_over(void *owner, const char *why)
{
    zkl_operations *operations = owner;
    (void)why;
    zkl_user_watches_end(operations, zkl_session_closing(operations->session) ? ZKL_CLOSED : ZKL_LOST);
}

static void operations_refused(void *owner, zkl_code code, const char *message)
{
    zkl_operations_fail(owner, code, message);
}

static void operations_retry(void *owner)
{
    zkl_operations *operations = owner;
    zkl_user_watches_resume(operations);
    operations->paused = false;
}

const zkl_session_listener zkl_operations_listener = {
    .ready = zkl_user_watches_resume,
    .over = operations_over,
    .closed = zkl_user_watches_closed,
    .refused = operations_refused,
    .retry = operations_retry,
};
