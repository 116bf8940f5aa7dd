/* The part of zklock.core for handles: what all types of handles have in common, acquisitions, and questions. */
#include "binding.h"

#include <string.h>

int fill_handle_box(lua_State *L, zkl_handle **box, zkl_handle *handle)
{
    *box = handle;
    return handle != NULL ? 1 : push_failure(L, ZKL_FAILED, "not enough memory");
}

/* Whether the process has forked since the client of a handle, or of none, was opened. */
static bool is_forked(const zkl_handle *handle)
{
    return handle != NULL && zkl_client_forked(zkl_handle_client(handle));
}

/* --- all types of handles ------------------------------------------------------------------------------------------ */

static int handle_id(lua_State *L, zkl_handle *handle)
{
    zkl_push_integer(L, handle != NULL ? zkl_handle_id(handle) : 0);
    return 1;
}

/* acquisition:done(), question:done(), operation:done() -> whether it is settled */
static int handle_done(lua_State *L, zkl_handle *handle)
{
    if (is_forked(handle)) {
        return push_forked(L);
    }
    lua_pushboolean(L, handle == NULL || zkl_handle_settled(handle));
    return 1;
}

/* acquisition:cancel(), question:cancel(), operation:cancel() */
static int handle_cancel(lua_State *L, zkl_handle *handle)
{
    if (is_forked(handle)) {
        return push_forked(L);
    }
    if (handle != NULL) {
        zkl_handle_end(handle, 0);
    }
    return 0;
}

/* acquisition:limit(seconds), operation:limit(seconds): see zkl_handle_limit */
static int handle_limit(lua_State *L, zkl_handle *handle)
{
    int64_t nanoseconds = nanoseconds_of(luaL_checknumber(L, 2));
    if (handle != NULL) {
        zkl_handle_limit(handle, nanoseconds);
    }
    return 0;
}

/* acquisition:call_owner(), operation:call_owner(): see zkl_handle_call_owner */
static int handle_call_owner(lua_State *L, zkl_handle *handle)
{
    (void)L;
    if (handle != NULL) {
        zkl_handle_call_owner(handle);
    }
    return 0;
}

/* --- acquisitions -------------------------------------------------------------------------------------------------- */

/* acquisition:phase() -> phase, code or nil, message */
static int acquisition_phase(lua_State *L, zkl_handle *handle, const zkl_handle_view *view)
{
    (void)handle;
    lua_pushstring(L, zkl_acquisition_phase_name(view->phase));
    if (view->code == ZKL_OK) {
        lua_pushnil(L);
    } else {
        lua_pushstring(L, zkl_code_name(view->code));
    }
    lua_pushstring(L, view->message);
    return 3;
}

/* acquisition:waits() -> bool, false after a fork */
static int acquisition_waits(lua_State *L, zkl_handle *handle)
{
    lua_pushboolean(L, handle != NULL && !is_forked(handle) && zkl_handle_waits(handle));
    return 1;
}

/* acquisition:released() -> bool; see zkl_handle_released */
static int acquisition_released(lua_State *L, zkl_handle *handle)
{
    if (is_forked(handle)) {
        return push_forked(L);
    }
    lua_pushboolean(L, handle == NULL || zkl_handle_released(handle));
    return 1;
}

/* acquisition:finished() -> bool, true after a fork; see zkl_handle_finished */
static int acquisition_finished(lua_State *L, zkl_handle *handle)
{
    lua_pushboolean(L, handle == NULL || is_forked(handle) || zkl_handle_finished(handle));
    return 1;
}

static int acquisition_held(lua_State *L, zkl_handle *handle)
{
    lua_pushboolean(L, handle != NULL && zkl_handle_held(handle));
    return 1;
}

static int acquisition_remaining(lua_State *L, zkl_handle *handle)
{
    lua_pushnumber(L, handle != NULL ? seconds_of(zkl_handle_remaining(handle)) : 0);
    return 1;
}

/* acquisition:extend(seconds) -> bool; see zkl_handle_extend. math.huge: without limit */
static int acquisition_extend(lua_State *L, zkl_handle *handle)
{
    int64_t nanoseconds = nanoseconds_of(luaL_checknumber(L, 2));
    lua_pushboolean(L, handle != NULL && zkl_handle_extend(handle, nanoseconds));
    return 1;
}

/* acquisition:waited() -> seconds, an integer if they are 0; see zkl_handle_waited */
static int acquisition_waited(lua_State *L, zkl_handle *handle)
{
    int64_t waited = handle != NULL ? zkl_handle_waited(handle) : 0;
    if (waited == 0) {
        lua_pushinteger(L, 0);
    } else {
        lua_pushnumber(L, seconds_of(waited));
    }
    return 1;
}

static int acquisition_token(lua_State *L, zkl_handle *handle, const zkl_handle_view *view)
{
    (void)handle;
    char token[ZKL_TOKEN_SIZE];
    zkl_token_format(view->token, token);
    if (token[0] == '\0') {
        lua_pushnil(L);
    } else {
        lua_pushstring(L, token);
    }
    return 1;
}

/* acquisition:token_numbers() -> upper and lower 32 bits of the czxid, number of grants before | nil */
static int acquisition_token_numbers(lua_State *L, zkl_handle *handle, const zkl_handle_view *view)
{
    (void)handle;
    if (view->token.number == 0) {
        lua_pushnil(L);
        return 1;
    }
    zkl_push_integer(L, view->token.number >> 32);
    zkl_push_integer(L, view->token.number & UINT32_MAX);
    zkl_push_integer(L, view->token.grants);
    return 3;
}

static int acquisition_node(lua_State *L, zkl_handle *handle, const zkl_handle_view *view)
{
    if (view->node[0] == '\0') {
        lua_pushnil(L);
    } else {
        lua_pushfstring(L, "%s/%s", zkl_handle_path(handle), view->node);
    }
    return 1;
}

/* acquisition:nodes() -> array of the paths of all nodes by which it holds | nil, message, code */
static int acquisition_nodes(lua_State *L, zkl_handle *handle, const zkl_handle_view *view)
{
    const char *names;
    if (view->node[0] == '\0' || !zkl_handle_nodes(handle, &names)) {
        return push_failure(L, ZKL_FAILED, "there was no memory for the names of the nodes");
    }
    lua_createtable(L, 1, 0);
    if (names == NULL) {
        lua_pushfstring(L, "%s/%s", zkl_handle_path(handle), view->node);
        lua_rawseti(L, -2, 1);
        return 1;
    }
    for (int index = 1; *names != '\0'; index++) {
        lua_pushfstring(L, "%s/%s", zkl_handle_path(handle), names);
        lua_rawseti(L, -2, index);
        names += strlen(names) + 1;
    }
    return 1;
}

/* acquisition:revocations() -> how often other clients have asked for the lock to be released */
static int acquisition_revocations(lua_State *L, zkl_handle *handle, const zkl_handle_view *view)
{
    (void)handle;
    lua_pushinteger(L, view->revocations);
    return 1;
}

/*
 * Removes the acquisition from the tables of the Lua side: see core_release. May run out of memory before it has
 * changed anything.
 */
static void unregister(lua_State *L, uint64_t id)
{
    if (lua_istable(L, 5)) {
        zkl_push_integer(L, id);
        lua_pushnil(L);
        lua_rawset(L, 5);
    }
    if (lua_istable(L, 4)) {
        lua_pushstring(L, lua_toboolean(L, 3) ? "released" : "over");
        lua_setfield(L, 4, "_state");
    }
}

/*
 * core.release(acquisition, seconds, if_held, hold, observers) -> whether it is settled and there is nothing to report
 *   (zkl_handle_released), whether there are notifications for client:next
 *
 * Ends an acquisition in any phase. The call may block for up to `seconds` (default 0) until the acquisition is
 * finished; see zkl_client_wait. If `if_held` is true and the acquisition is not held at this instant, nothing happens,
 * and the result is nil.
 *
 * The field `_state` of `hold` becomes "released" if `if_held` is true, and "over" otherwise. `hold` may be nil, and so may
 * `observers`, a table from which the acquisition's id is removed. All of that is one step: a debug hook, which may raise
 * an error at any instruction of the VM, finds the lock either held and noted, or neither.
 */
int core_release(lua_State *L)
{
    zkl_handle *handle = *(zkl_handle **)check_box(L, 1, ACQUISITION_TYPE);
    int64_t block_for = nanoseconds_of(luaL_optnumber(L, 2, 0));
    if (lua_toboolean(L, 3) && (handle == NULL || !zkl_handle_held(handle))) {
        lua_pushnil(L);
        return 1;
    }
    unregister(L, handle != NULL ? zkl_handle_id(handle) : 0);
    if (is_forked(handle)) {
        return push_forked(L);
    }
    if (handle == NULL) {
        lua_pushboolean(L, 1);
        return 1;
    }
    zkl_handle_end(handle, block_for);
    lua_pushboolean(L, zkl_handle_released(handle));
    lua_pushboolean(L, block_for > 0 && zkl_client_has_notifications(zkl_handle_client(handle)));
    return 2;
}

/* --- questions ----------------------------------------------------------------------------------------------------- */

/* question:result() -> true | nil, message, code */
static int question_result(lua_State *L, zkl_handle *handle, const zkl_handle_view *view)
{
    (void)handle;
    if (!view->settled) {
        return push_failure(L, ZKL_FAILED, "not answered yet");
    }
    if (view->code != ZKL_OK) {
        return push_failure(L, view->code, view->message);
    }
    lua_pushboolean(L, true);
    return 1;
}

/* --- methods ------------------------------------------------------------------------------------------------------- */

const method handle_methods[] = {
    {"id", .with_handle = handle_id},
    {"done", .with_handle = handle_done},
    {"cancel", .with_handle = handle_cancel},
    {"limit", .with_handle = handle_limit},
    {"call_owner", .with_handle = handle_call_owner},
    {.name = NULL},
};

const method acquisition_methods[] = {
    {"phase", .with_view = acquisition_phase},
    {"held", .with_handle = acquisition_held},
    {"remaining", .with_handle = acquisition_remaining},
    {"extend", .with_handle = acquisition_extend},
    {"waited", .with_handle = acquisition_waited},
    {"token", .with_view = acquisition_token},
    {"token_numbers", .with_view = acquisition_token_numbers},
    {"node", .with_view = acquisition_node},
    {"nodes", .with_view = acquisition_nodes},
    {"revocations", .with_view = acquisition_revocations},
    {"waits", .with_handle = acquisition_waits},
    {"finished", .with_handle = acquisition_finished},
    {"released", .with_handle = acquisition_released},
    {.name = NULL},
};

const method question_methods[] = {{"result", .with_view = question_result}, {.name = NULL}};
