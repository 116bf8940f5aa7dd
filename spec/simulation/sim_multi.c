/*
 * sim_multi: zoo_amulti, with the behaviour of the real 3.8.0 client (C: is its zookeeper.c):
 * - Any error in the path of an operation, and any error of the handle, is reported as ZMARSHALLINGERROR (C:3979).
 * - An operation other than create, delete, set and check, or a create with ZOO_CREATE2_OP, is ZUNIMPLEMENTED (C:4730).
 * - In the results the operation that failed has its code, earlier ones have ZOK, later ones have ZRUNTIMEINCONSISTENCY. The
 *   completion is called with the code of the operation that failed. If there is no answer, or not one that servers would give,
 *   all have the completion's code.
 * - Only `err` of a result is always written, `value` and `valuelen` for creates, `stat` for sets. Both pointers are NULL after
 *   a failure, and the caller's buffers are unchanged. A path that is too long for its buffer is truncated silently.
 * - A multi that created a container ends the process. The server answers with a Stat, which the client takes for the results
 *   of further operations, until its assertion fails (C:3182).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_client.h"

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

static void copy_operation(const zhandle_t *zh, sim_operation *operation, const zoo_op_t *from, zoo_op_result_t *result)
{
    const char *path = NULL;
    *operation = (sim_operation){.type = from->type, .version = -1};
    switch (from->type) {
    case ZOO_CREATE_CONTAINER_OP:
    case ZOO_CREATE_OP:
        path = from->create_op.path;
        operation->type = ZOO_CREATE_OP;
        operation->mode = from->create_op.flags;
        operation->data = sim_keep(from->create_op.data, from->create_op.datalen);
        operation->length = from->create_op.datalen;
        operation->no_acl = from->create_op.acl == NULL || from->create_op.acl->count == 0;
        operation->acl = sim_keep_acl(from->create_op.acl);
        result->value = from->create_op.buf;
        result->valuelen = from->create_op.buflen;
        break;
    case ZOO_DELETE_OP:
        path = from->delete_op.path;
        operation->version = from->delete_op.version;
        break;
    case ZOO_SETDATA_OP:
        path = from->set_op.path;
        operation->data = sim_keep(from->set_op.data, from->set_op.datalen);
        operation->length = from->set_op.datalen;
        operation->version = from->set_op.version;
        result->stat = from->set_op.stat;
        break;
    case ZOO_CHECK_OP:
        path = from->check_op.path;
        operation->version = from->check_op.version;
        break;
    default:
        break;
    }
    operation->path = sim_server_path(zh, path, operation->mode);
}

static bool known(int type)
{
    return type == ZOO_CREATE_OP || type == ZOO_CREATE_CONTAINER_OP || type == ZOO_DELETE_OP ||
           type == ZOO_SETDATA_OP || type == ZOO_CHECK_OP;
}

static void trace_operation(const zhandle_t *zh, int32_t xid, const sim_operation *operation)
{
    const char *name = operation->type == ZOO_CREATE_OP    ? "create"
                       : operation->type == ZOO_DELETE_OP  ? "delete"
                       : operation->type == ZOO_SETDATA_OP ? "set"
                                                           : "check";
    sim_trace("client %d: xid %d of it: %s %s", zh->caller, xid, name, sim_path_text(operation->path));
}

int zoo_amulti(zhandle_t *zh, int count, const zoo_op_t *ops, zoo_op_result_t *results, void_completion_t done,
               const void *data)
{
    sim_request *request = sim_new_request(SIM_MULTI, zh->xid++, 0);
    request->operations = sim_alloc((size_t)(count + 1) * sizeof(*request->operations));
    request->operation_count = count;
    bool good = true;
    for (int i = 0; i < count; i++) {
        if (!known(ops[i].type))
            return ZUNIMPLEMENTED;
        sim_operation *operation = &request->operations[i];
        copy_operation(zh, operation, &ops[i], &results[i]);
        good = good && sim_check_request(zh, operation->path) == ZOK;
    }
    if (!good) {
        sim_send_now(zh);
        return ZMARSHALLINGERROR;
    }
    sim_completion model = {
        .kind = SIM_ANSWER_MULTI, .call.with_void = done, .data = data, .results = results, .multi = request};
    for (int i = 0; i < count; i++) {
        const sim_operation *operation = &request->operations[i];
        trace_operation(zh, request->xid, operation);
        if (operation->type == ZOO_CREATE_OP && sim.hooks.create_requested != NULL)
            sim.hooks.create_requested(sim.hooks.context, zh->caller, sim_path_text(operation->path));
    }
    return sim_submit(zh, request, &model);
}

/* Delivers one result. `change` is NULL if the multi has no answer. */
static void deliver_result(const zhandle_t *zh, const sim_operation *operation, zoo_op_result_t *result, int err,
                           const sim_change *change, const struct Stat *stat)
{
    result->err = err;
    if (operation->type == ZOO_CREATE_OP) {
        if (change == NULL || result->value == NULL) {
            result->value = NULL;
        } else {
            char *path = sim_client_path(zh, change->path);
            size_t length = strlen(path);
            if (result->valuelen > 0 && length >= (size_t)result->valuelen)
                length = (size_t)result->valuelen - 1;
            if (result->valuelen > 0) {
                memcpy(result->value, path, length);
                result->value[length] = '\0';
            }
            free(path);
        }
    } else if (operation->type == ZOO_SETDATA_OP) {
        if (change == NULL || result->stat == NULL)
            result->stat = NULL;
        else
            *result->stat = *stat;
    }
}

void sim_deliver_multi(const zhandle_t *zh, const sim_completion *entry)
{
    int rc = entry->err;
    const sim_reply *reply = rc == ZOK ? entry->reply : NULL;
    for (int i = 0; reply != NULL && i < entry->multi->operation_count && rc == ZOK; i++) {
        if (reply->changes[i].err != ZRUNTIMEINCONSISTENCY)
            rc = reply->changes[i].err;
    }
    for (int i = 0; i < entry->multi->operation_count; i++) {
        const sim_operation *operation = &entry->multi->operations[i];
        if (reply == NULL) {
            deliver_result(zh, operation, &entry->results[i], rc, NULL, NULL);
            continue;
        }
        if (rc == ZOK && operation->type == ZOO_CREATE_OP && operation->mode == ZOO_CONTAINER) {
            fprintf(stderr, "simulation: a multi made the container %s: here the real client ends the process\n",
                    sim_path_text(operation->path));
            abort();
        }
        const sim_change *change = &reply->changes[i];
        deliver_result(zh, operation, &entry->results[i], change->err, rc == ZOK ? change : NULL, &reply->stats[i]);
        if (sim.hooks.multi_answered != NULL)
            sim.hooks.multi_answered(sim.hooks.context, zh->caller, sim_path_text(change->path), change->err);
    }
    entry->call.with_void(rc, entry->data);
}
