/*
 * The part of zklock.core for reads and writes of the program.
 *
 * Arguments are checked here for type only. Values that a user may pass are checked in lua/zklock/node.lua, which also
 * words the messages.
 */
#include "binding.h"

#include <stdio.h>
#include <string.h>

/* --- the request --------------------------------------------------------------------------------------------------- */

static zkl_operation_kind check_kind(lua_State *L, int table)
{
    static const char *const names[] = {
        [ZKL_OPERATION_GET] = "get",       [ZKL_OPERATION_SET] = "set",       [ZKL_OPERATION_CREATE] = "create",
        [ZKL_OPERATION_DELETE] = "delete", [ZKL_OPERATION_EXISTS] = "exists", [ZKL_OPERATION_CHILDREN] = "children",
        [ZKL_OPERATION_SYNC] = "sync",     [ZKL_OPERATION_ACL] = "acl",       [ZKL_OPERATION_CHECK] = "check",
        [ZKL_OPERATION_MULTI] = "multi",   [ZKL_OPERATION_MULTI + 1] = NULL,
    };
    return (zkl_operation_kind)field_choice(L, table, "kind", names);
}

static int32_t create_flags(lua_State *L, int table)
{
    if (field_flag(L, table, "container", false)) {
        return ZOO_CONTAINER;
    }
    bool ephemeral = field_flag(L, table, "ephemeral", false);
    if (field_flag(L, table, "sequential", false)) {
        return ephemeral ? ZOO_EPHEMERAL_SEQUENTIAL : ZOO_PERSISTENT_SEQUENTIAL;
    }
    return ephemeral ? ZOO_EPHEMERAL : ZOO_PERSISTENT;
}

/*
 * Fills `request` from the table at `table`. The strings belong to that table. `acl` is room for the request's acl. May
 * leave values on the stack.
 */
static void read_request(lua_State *L, int table, zkl_operation_request *request, struct ACL_vector *acl)
{
    luaL_checktype(L, table, LUA_TTABLE);
    *request = (zkl_operation_request){.kind = check_kind(L, table)};
    if (request->kind == ZKL_OPERATION_MULTI) {
        return;
    }
    size_t length = 0;
    request->path = field_text(L, table, "path", &length);
    luaL_argcheck(L, request->path != NULL && strlen(request->path) == length, 2, "an operation needs a path");
    request->data = field_text(L, table, "data", &length);
    luaL_argcheck(L, length <= INT32_MAX, 2, "too much data");
    request->data_length = request->data != NULL ? (int32_t)length : -1;
    request->version = field_integer(L, table, "version", INT32_MIN, -1);
    request->watch = field_flag(L, table, "watch", false);
    if (request->kind == ZKL_OPERATION_CREATE) {
        request->flags = create_flags(L, table);
        push_field(L, table, "acl");
        *acl = check_acl(L, lua_gettop(L));
        request->acl = acl;
    }
}

/* Reads the parts of a multi into userdata that is left on the stack. */
static void read_parts(lua_State *L, int table, zkl_operation_request *request)
{
    int32_t count = (int32_t)lua_rawlen(L, table);
    zkl_operation_request *parts = lua_newuserdata(L, ((size_t)count + 1) * sizeof *parts);
    struct ACL_vector *acls = lua_newuserdata(L, ((size_t)count + 1) * sizeof *acls);
    for (int32_t i = 0; i < count; i++) {
        luaL_checkstack(L, 12, "too many operations");
        lua_rawgeti(L, table, i + 1);
        read_request(L, lua_gettop(L), &parts[i], &acls[i]);
        luaL_argcheck(L, parts[i].kind != ZKL_OPERATION_MULTI, 2, "a transaction has no transactions in it");
    }
    request->parts = parts;
    request->part_count = count;
}

/* client:operate{kind =, path =, …} -> operation | nil, message, code */
int client_operate(lua_State *L, zkl_client *client)
{
    zkl_operation_request request;
    struct ACL_vector acl;
    read_request(L, 2, &request, &acl);
    if (request.kind == ZKL_OPERATION_MULTI) {
        read_parts(L, 2, &request);
    }
    zkl_handle **box = push_box(L, OPERATION_TYPE);
    return fill_handle_box(L, box, zkl_client_operate(client, &request));
}

/* --- the result ---------------------------------------------------------------------------------------------------- */

static void set_number(lua_State *L, const char *name, lua_Number value)
{
    lua_pushnumber(L, value);
    lua_setfield(L, -2, name);
}

/*
 * Sets a field to 64 bits as 16 hexadecimal digits, because numbers before Lua 5.3 cannot hold them. The digits are
 * ordered by bytes, but not by strcoll.
 */
static void set_hex(lua_State *L, const char *name, int64_t value)
{
    char digits[17];
    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)value);
    lua_pushstring(L, digits);
    lua_setfield(L, -2, name);
}

static void push_stat(lua_State *L, const struct Stat *stat)
{
    lua_createtable(L, 0, 11);
    set_hex(L, "czxid", stat->czxid);
    set_hex(L, "mzxid", stat->mzxid);
    set_hex(L, "pzxid", stat->pzxid);
    set_number(L, "ctime", (lua_Number)stat->ctime / 1000);
    set_number(L, "mtime", (lua_Number)stat->mtime / 1000);
    set_integer(L, "version", stat->version);
    set_integer(L, "cversion", stat->cversion);
    set_integer(L, "aversion", stat->aversion);
    set_hex(L, "ephemeral_owner", stat->ephemeralOwner);
    set_integer(L, "data_length", stat->dataLength);
    set_integer(L, "num_children", stat->numChildren);
}

static void push_stat_or_false(lua_State *L, const zkl_operation_result *result)
{
    if (result->has_stat) {
        push_stat(L, &result->stat);
    } else {
        lua_pushboolean(L, 0);
    }
}

static void push_names(lua_State *L, const zkl_operation_result *result)
{
    lua_createtable(L, result->name_count, 0);
    for (int32_t i = 0; i < result->name_count; i++) {
        lua_pushstring(L, result->names[i]);
        lua_rawseti(L, -2, i + 1);
    }
}

static void push_parts(lua_State *L, const zkl_operation_result *result)
{
    lua_createtable(L, result->part_count, 0);
    for (int32_t i = 0; i < result->part_count; i++) {
        const zkl_operation_result *part = &result->parts[i];
        if (part->kind == ZKL_OPERATION_CREATE) {
            lua_pushstring(L, part->path);
        } else if (part->kind == ZKL_OPERATION_SET) {
            push_stat(L, &part->stat);
        } else {
            lua_pushboolean(L, 1);
        }
        lua_rawseti(L, -2, i + 1);
    }
}

/* Pushes the results of an operation that succeeded. Returns their number. */
static int push_operation_result(lua_State *L, const zkl_operation_result *result)
{
    switch (result->kind) {
    case ZKL_OPERATION_GET:
    case ZKL_OPERATION_ACL:
        lua_pushlstring(L, result->data, (size_t)result->data_length);
        push_stat(L, &result->stat);
        return 2;
    case ZKL_OPERATION_CREATE:
        lua_pushstring(L, result->path);
        push_stat(L, &result->stat);
        return 2;
    case ZKL_OPERATION_CHILDREN:
        push_names(L, result);
        push_stat(L, &result->stat);
        return 2;
    case ZKL_OPERATION_SET:
    case ZKL_OPERATION_EXISTS:
        push_stat_or_false(L, result);
        return 1;
    case ZKL_OPERATION_MULTI:
        push_parts(L, result);
        return 1;
    case ZKL_OPERATION_DELETE:
    case ZKL_OPERATION_SYNC:
    case ZKL_OPERATION_CHECK:
        break;
    }
    lua_pushboolean(L, 1);
    return 1;
}

/* Pushes the results of an operation, or its failure. Returns the number of values. */
static int push_outcome(lua_State *L, const zkl_handle *handle, const zkl_handle_view *view)
{
    const zkl_operation_result *result = zkl_handle_operation_result(handle);
    if (result != NULL) {
        return push_operation_result(L, result);
    }
    push_failure(L, view->code, view->message);
    if (zkl_handle_failed_part(handle) < 0) {
        return 3;
    }
    lua_pushinteger(L, zkl_handle_failed_part(handle) + 1);
    return 4;
}

/*
 * operation:take() -> its results | nil, message, code, index of the part that failed or nil
 *
 * May be called once for each operation. Frees the results and, unless there is a watch to wait for, the operation.
 * Otherwise Lua might not collect the small userdata for a long time: Lua does not see the memory that belongs to it.
 */
static int operation_take(lua_State *L, zkl_handle *handle, const zkl_handle_view *view)
{
    if (handle == NULL) {
        return luaL_error(L, "this operation is over");
    }
    if (!view->settled) {
        return push_failure(L, ZKL_FAILED, "not answered yet");
    }
    const zkl_operation_result *result = zkl_handle_operation_result(handle);
    bool watching = result != NULL && result->watching;
    int count = push_outcome(L, handle, view);
    zkl_handle_drop_result(handle);
    if (!watching) {
        *(zkl_handle **)lua_touserdata(L, 1) = NULL;
        zkl_handle_release(handle);
    }
    return count;
}

/* operation:event() -> the event that its watch has seen | false (nothing yet) | nil, message, code */
static int operation_event(lua_State *L, zkl_handle *handle, const zkl_handle_view *view)
{
    (void)view;
    static const char *const names[] = {
        [ZKL_EVENT_CREATED] = "created",
        [ZKL_EVENT_DELETED] = "deleted",
        [ZKL_EVENT_CHANGED] = "changed",
        [ZKL_EVENT_CHILD] = "child",
    };
    if (handle == NULL) {
        return luaL_error(L, "this operation is over");
    }
    zkl_code code;
    zkl_node_event event = zkl_handle_event(handle, &code);
    if (event != ZKL_EVENT_NONE) {
        lua_pushstring(L, names[event]);
        return 1;
    }
    if (code != ZKL_OK) {
        return push_failure(L, code, code == ZKL_CLOSED ? "the client is closed" : "its session is over");
    }
    lua_pushboolean(L, 0);
    return 1;
}

const method operation_methods[] = {
    {"take", .with_view = operation_take},
    {"event", .with_view = operation_event},
    {.name = NULL},
};
