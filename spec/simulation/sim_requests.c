/* sim_requests: the functions of zookeeper.h that send a request, except zoo_amulti. */
#include <assert.h>
#include <string.h>

#include "sim_client.h"

const char *sim_keep(const char *value, int length)
{
    assert((value != NULL || length <= 0) && "the real client would read at address 0");
    return length > 0 ? sim_copy(value, (size_t)length) : "";
}

static int create(zhandle_t *zh, sim_type type, const char *path, const char *value, int length,
                  const struct ACL_vector *acl, int mode, const sim_completion *model)
{
    int number = sim_server_path(zh, path, mode);
    int rc = sim_check_request(zh, number);
    if (rc != ZOK)
        return rc;
    sim_request *request = sim_new_request(type, zh->xid++, number);
    request->operation.type = ZOO_CREATE_OP;
    request->operation.mode = mode;
    request->operation.data = sim_keep(value, length);
    request->operation.length = length;
    request->operation.no_acl = acl == NULL || acl->count == 0;
    request->operation.acl = sim_keep_acl(acl);
    if (sim.hooks.create_requested != NULL)
        sim.hooks.create_requested(sim.hooks.context, zh->caller, sim_path_text(number));
    return sim_submit(zh, request, model);
}

int zoo_acreate(zhandle_t *zh, const char *path, const char *value, int valuelen, const struct ACL_vector *acl,
                int mode, string_completion_t done, const void *data)
{
    sim_completion model = {.kind = SIM_ANSWER_STRING, .call.with_string = done, .data = data};
    return create(zh, SIM_CREATE, path, value, valuelen, acl, mode, &model);
}

int zoo_acreate2(zhandle_t *zh, const char *path, const char *value, int valuelen, const struct ACL_vector *acl,
                 int mode, string_stat_completion_t done, const void *data)
{
    sim_completion model = {.kind = SIM_ANSWER_STRING_STAT, .call.with_string_stat = done, .data = data};
    return create(zh, SIM_CREATE2, path, value, valuelen, acl, mode, &model);
}

/* Sends a request for one path of the servers. */
static int ask(zhandle_t *zh, sim_type type, int number, const sim_operation *operation, const sim_completion *model)
{
    int rc = sim_check_request(zh, number);
    if (rc != ZOK)
        return rc;
    sim_request *request = sim_new_request(type, zh->xid++, number);
    if (operation != NULL)
        request->operation = *operation;
    request->operation.path = number;
    request->watch = model->watcher != NULL;
    return sim_submit(zh, request, model);
}

/* The same for a path of the client. */
static int simple(zhandle_t *zh, sim_type type, const char *path, const sim_operation *operation,
                  const sim_completion *model)
{
    return ask(zh, type, sim_server_path(zh, path, 0), operation, model);
}

int zoo_adelete(zhandle_t *zh, const char *path, int version, void_completion_t done, const void *data)
{
    sim_completion model = {.kind = SIM_ANSWER_VOID, .call.with_void = done, .data = data};
    sim_operation operation = {.type = ZOO_DELETE_OP, .version = version};
    return simple(zh, SIM_DELETE, path, &operation, &model);
}

int zoo_aset(zhandle_t *zh, const char *path, const char *buffer, int buflen, int version, stat_completion_t done,
             const void *data)
{
    sim_completion model = {.kind = SIM_ANSWER_STAT, .call.with_stat = done, .data = data};
    sim_operation operation = {
        .type = ZOO_SETDATA_OP, .version = version, .data = sim_keep(buffer, buflen), .length = buflen};
    return simple(zh, SIM_SET, path, &operation, &model);
}

int zoo_awget(zhandle_t *zh, const char *path, watcher_fn call, void *context, data_completion_t done, const void *data)
{
    sim_completion model = {
        .kind = SIM_ANSWER_DATA, .call.with_data = done, .data = data, .watcher = call, .watcher_context = context};
    return simple(zh, SIM_GET, path, NULL, &model);
}

/* It is below no chroot (C:4046). */
int zoo_awgetconfig(zhandle_t *zh, watcher_fn call, void *context, data_completion_t done, const void *data)
{
    sim_completion model = {
        .kind = SIM_ANSWER_DATA, .call.with_data = done, .data = data, .watcher = call, .watcher_context = context};
    return ask(zh, SIM_GET, sim_path(ZOO_CONFIG_NODE), NULL, &model);
}

int zoo_aget(zhandle_t *zh, const char *path, int watch, data_completion_t done, const void *data)
{
    return zoo_awget(zh, path, watch ? zh->watcher : NULL, zh->context, done, data);
}

int zoo_awexists(zhandle_t *zh, const char *path, watcher_fn call, void *context, stat_completion_t done,
                 const void *data)
{
    sim_completion model = {
        .kind = SIM_ANSWER_STAT, .call.with_stat = done, .data = data, .watcher = call, .watcher_context = context};
    return simple(zh, SIM_EXISTS, path, NULL, &model);
}

int zoo_aexists(zhandle_t *zh, const char *path, int watch, stat_completion_t done, const void *data)
{
    return zoo_awexists(zh, path, watch ? zh->watcher : NULL, zh->context, done, data);
}

int zoo_awget_children(zhandle_t *zh, const char *path, watcher_fn call, void *context, strings_completion_t done,
                       const void *data)
{
    sim_completion model = {.kind = SIM_ANSWER_STRINGS,
                            .call.with_strings = done,
                            .data = data,
                            .watcher = call,
                            .watcher_context = context};
    return simple(zh, SIM_CHILDREN, path, NULL, &model);
}

int zoo_aget_children(zhandle_t *zh, const char *path, int watch, strings_completion_t done, const void *data)
{
    return zoo_awget_children(zh, path, watch ? zh->watcher : NULL, zh->context, done, data);
}

int zoo_awget_children2(zhandle_t *zh, const char *path, watcher_fn call, void *context, strings_stat_completion_t done,
                        const void *data)
{
    sim_completion model = {.kind = SIM_ANSWER_STRINGS_STAT,
                            .call.with_strings_stat = done,
                            .data = data,
                            .watcher = call,
                            .watcher_context = context};
    return simple(zh, SIM_CHILDREN2, path, NULL, &model);
}

int zoo_aget_children2(zhandle_t *zh, const char *path, int watch, strings_stat_completion_t done, const void *data)
{
    return zoo_awget_children2(zh, path, watch ? zh->watcher : NULL, zh->context, done, data);
}

/* Not simulated: zklock reads lists for `zklock doctor` only, whose specs have real servers. */
int zoo_aget_acl(zhandle_t *zh, const char *path, acl_completion_t done, const void *data)
{
    (void)zh, (void)path, (void)done, (void)data;
    return ZUNIMPLEMENTED;
}

int zoo_async(zhandle_t *zh, const char *path, string_completion_t done, const void *data)
{
    sim_completion model = {.kind = SIM_ANSWER_STRING, .call.with_string = done, .data = data};
    return simple(zh, SIM_SYNC, path, NULL, &model);
}

/* At the client only: the request that the real library would send otherwise is not simulated. */
int zoo_aremove_watches(zhandle_t *zh, const char *path, ZooWatcherType type, watcher_fn watcher, void *context,
                        int local, void_completion_t *done, const void *data)
{
    (void)done, (void)data;
    int number = sim_server_path(zh, path, 0);
    if (number < 0 || !local)
        return ZBADARGUMENTS;
    sim_disarm(zh, number, type, watcher, context);
    return ZOK;
}

/*
 * `done` is the function itself, cast to a pointer: the real library uses it so (C:4838). Without a watcher function
 * the real library does not check its own tables for anything to remove (HT:364): the server answers ZNOWATCHER.
 */
int zoo_aremove_all_watches(zhandle_t *zh, const char *path, ZooWatcherType type, int local, void_completion_t *done,
                            const void *data)
{
    int number = sim_server_path(zh, path, 0);
    if (number < 0)
        return ZBADARGUMENTS;
    if (local) {
        sim_disarm(zh, number, type, NULL, NULL);
        return ZOK;
    }
    int rc = sim_check_request(zh, number);
    if (rc != ZOK)
        return rc;
    sim_completion model = {.kind = SIM_ANSWER_VOID, .data = data, .disarms = type};
    memcpy(&model.call.with_void, &done, sizeof(done));
    sim_request *request = sim_new_request(SIM_REMOVE_WATCHES, zh->xid++, number);
    request->watch_type = type;
    return sim_submit(zh, request, &model);
}
