/* The part of zklock.core for handles: what all types of handles have in common, acquisitions, and questions. */
#include <string.h>

#include "lua_core.h"

/* Returns the box that is the first argument. It holds a handle of any type; most are acquisitions. */
static zkl_ticket **box_of_ticket(lua_State *L)
{
    zkl_ticket **box = look_for_box(L, 1, CLAIM_TYPE);
    box = box != NULL ? box : look_for_box(L, 1, OPERATION_TYPE);
    return box != NULL ? box : check_box(L, 1, QUESTION_TYPE);
}

/* Returns the handle in `box`, which is the first argument. Raises if the box is empty. */
static zkl_ticket *ticket_in(lua_State *L, zkl_ticket **box)
{
    zkl_ticket *ticket = *box;
    if (ticket == NULL) {
        luaL_error(L, "this %s is over",
                   look_for_box(L, 1, CLAIM_TYPE) != NULL       ? "claim"
                   : look_for_box(L, 1, OPERATION_TYPE) != NULL ? "operation"
                                                                : "question");
    }
    return ticket;
}

/* Returns the first argument, a handle of any type. */
static zkl_ticket *check_ticket(lua_State *L)
{
    return ticket_in(L, box_of_ticket(L));
}

static zkl_ticket *check_claim(lua_State *L)
{
    return ticket_in(L, check_box(L, 1, CLAIM_TYPE));
}

zkl_ticket **push_ticket_box(lua_State *L, box_type type)
{
    return push_box(L, type);
}

int fill_ticket_box(lua_State *L, zkl_ticket **box, zkl_ticket *ticket)
{
    *box = ticket;
    return ticket != NULL ? 1 : push_failure(L, ZKL_FAILED, "not enough memory");
}

zkl_ticket *look_at_ticket(lua_State *L, box_type type, zkl_ticket_view *view)
{
    zkl_ticket *ticket = ticket_in(L, check_box(L, 1, type));
    if (zkl_client_forked(zkl_ticket_client(ticket))) {
        push_forked(L);
        return NULL;
    }
    zkl_ticket_look(ticket, view);
    return ticket;
}

/* --- all types of handles ------------------------------------------------------------------------------------------ */

int ticket_gc(lua_State *L)
{
    zkl_ticket **box = box_of_ticket(L);
    zkl_ticket *ticket = *box;
    *box = NULL;
    if (ticket != NULL) {
        zkl_ticket_release(ticket);
    }
    return 0;
}

int ticket_id(lua_State *L)
{
    zkl_push_integer(L, zkl_ticket_id(check_ticket(L)));
    return 1;
}

/* acquisition:done(), question:done(), operation:done() -> whether it is settled */
int ticket_done(lua_State *L)
{
    zkl_ticket *ticket = check_ticket(L);
    if (zkl_client_forked(zkl_ticket_client(ticket))) {
        push_forked(L);
        return FORKED;
    }
    lua_pushboolean(L, zkl_ticket_settled(ticket));
    return 1;
}

/* acquisition:cancel(), question:cancel(), operation:cancel() */
int ticket_cancel(lua_State *L)
{
    zkl_ticket *ticket = check_ticket(L);
    if (zkl_client_forked(zkl_ticket_client(ticket))) {
        push_forked(L);
        return FORKED;
    }
    zkl_ticket_end(ticket, 0);
    return 0;
}

/* --- acquisitions -------------------------------------------------------------------------------------------------- */

/* acquisition:phase() -> phase, code or nil, message */
static int claim_phase(lua_State *L)
{
    zkl_ticket_view view;
    zkl_ticket *ticket = look_at_ticket(L, CLAIM_TYPE, &view);
    if (ticket == NULL) {
        return FORKED;
    }
    lua_pushstring(L, zkl_claim_phase_name(view.phase));
    if (view.code == ZKL_OK) {
        lua_pushnil(L);
    } else {
        lua_pushstring(L, zkl_code_name(view.code));
    }
    lua_pushstring(L, view.message);
    return 3;
}

/* acquisition:waits() -> bool, false after a fork */
static int claim_waits(lua_State *L)
{
    const zkl_ticket *ticket = check_claim(L);
    lua_pushboolean(L, !zkl_client_forked(zkl_ticket_client(ticket)) && zkl_ticket_waits(ticket));
    return 1;
}

/* acquisition:released() -> bool; see zkl_ticket_released */
static int claim_released(lua_State *L)
{
    zkl_ticket *ticket = check_claim(L);
    if (zkl_client_forked(zkl_ticket_client(ticket))) {
        push_forked(L);
        return FORKED;
    }
    lua_pushboolean(L, zkl_ticket_released(ticket));
    return 1;
}

/* acquisition:finished() -> bool, true after a fork; see zkl_ticket_finished */
static int claim_finished(lua_State *L)
{
    zkl_ticket *ticket = check_claim(L);
    lua_pushboolean(L, zkl_client_forked(zkl_ticket_client(ticket)) || zkl_ticket_finished(ticket));
    return 1;
}

static int claim_held(lua_State *L)
{
    lua_pushboolean(L, zkl_ticket_held(check_claim(L)));
    return 1;
}

static int claim_remaining(lua_State *L)
{
    lua_pushnumber(L, seconds_of(zkl_ticket_remaining(check_claim(L))));
    return 1;
}

static int claim_token(lua_State *L)
{
    zkl_ticket_view view;
    zkl_ticket *ticket = look_at_ticket(L, CLAIM_TYPE, &view);
    if (ticket == NULL) {
        return FORKED;
    }
    char token[ZKL_TOKEN_SIZE];
    zkl_token_format(view.token, token);
    if (token[0] == '\0') {
        lua_pushnil(L);
    } else {
        lua_pushstring(L, token);
    }
    return 1;
}

/* acquisition:token_numbers() -> upper and lower 32 bits of the czxid, number of grants before | nil */
static int claim_token_numbers(lua_State *L)
{
    zkl_ticket_view view;
    zkl_ticket *ticket = look_at_ticket(L, CLAIM_TYPE, &view);
    if (ticket == NULL) {
        return FORKED;
    }
    if (view.token.number == 0) {
        lua_pushnil(L);
        return 1;
    }
    zkl_push_integer(L, view.token.number >> 32);
    zkl_push_integer(L, view.token.number & UINT32_MAX);
    zkl_push_integer(L, view.token.grants);
    return 3;
}

static int claim_node(lua_State *L)
{
    zkl_ticket_view view;
    zkl_ticket *ticket = look_at_ticket(L, CLAIM_TYPE, &view);
    if (ticket == NULL) {
        return FORKED;
    }
    if (view.node[0] == '\0') {
        lua_pushnil(L);
    } else {
        lua_pushfstring(L, "%s/%s", zkl_ticket_path(ticket), view.node);
    }
    return 1;
}

/* acquisition:nodes() -> array of the paths of all nodes by which it holds | nil, message, code */
static int claim_nodes(lua_State *L)
{
    zkl_ticket_view view;
    zkl_ticket *ticket = look_at_ticket(L, CLAIM_TYPE, &view);
    if (ticket == NULL) {
        return FORKED;
    }
    const char *names;
    if (!zkl_ticket_nodes(ticket, &names) || view.node[0] == '\0') {
        return push_failure(L, ZKL_FAILED, "there was no memory for the names of the nodes");
    }
    lua_createtable(L, 1, 0);
    if (names == NULL) {
        lua_pushfstring(L, "%s/%s", zkl_ticket_path(ticket), view.node);
        lua_rawseti(L, -2, 1);
        return 1;
    }
    for (int index = 1; *names != '\0'; index++) {
        lua_pushfstring(L, "%s/%s", zkl_ticket_path(ticket), names);
        lua_rawseti(L, -2, index);
        names += strlen(names) + 1;
    }
    return 1;
}

/* acquisition:revocations() -> how often other clients have asked for the lock to be released */
static int claim_revocations(lua_State *L)
{
    zkl_ticket_view view;
    zkl_ticket *ticket = look_at_ticket(L, CLAIM_TYPE, &view);
    if (ticket == NULL) {
        return FORKED;
    }
    lua_pushinteger(L, view.revocations);
    return 1;
}

/*
 * Removes the acquisition from the tables of the Lua side: see claim_release. May run out of memory before it has
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
        lua_getfield(L, 4, "_hold");
        if (lua_toboolean(L, 3) && lua_istable(L, -1)) {
            lua_pushboolean(L, 1);
            lua_setfield(L, -2, "released");
        }
        lua_pushboolean(L, 0);
        lua_setfield(L, 4, "_hold");
    }
}

/*
 * acquisition:release(seconds, if_held, lock, observers) -> whether it is settled and there is nothing to report
 *   (zkl_ticket_released), whether there are notifications for client:next
 *
 * Ends an acquisition in any phase. The call may block for up to `seconds` (default 0) until the acquisition is
 * finished; see zkl_client_wait. If `if_held` is true and the acquisition is not held at this instant, nothing happens,
 * and the result is nil.
 *
 * `lock` is the object that holds by the acquisition. Its field `_hold` becomes false; if `if_held` is true, that
 * hold's field `released` becomes true. `observers` is a table with the acquisition's id as a key, which is removed; it
 * may be nil. All of that is one step: a debug hook, which may raise an error at any instruction of the VM, finds the
 * lock either held and noted, or neither.
 */
static int claim_release(lua_State *L)
{
    zkl_ticket *ticket = check_claim(L);
    if (zkl_client_forked(zkl_ticket_client(ticket))) {
        push_forked(L);
        return FORKED;
    }
    int64_t patience = nanoseconds_of(luaL_optnumber(L, 2, 0));
    if (lua_toboolean(L, 3) && !zkl_ticket_held(ticket)) {
        lua_pushnil(L);
        return 1;
    }
    unregister(L, zkl_ticket_id(ticket));
    zkl_ticket_end(ticket, patience);
    lua_pushboolean(L, zkl_ticket_released(ticket));
    lua_pushboolean(L, patience > 0 && zkl_client_has_news(zkl_ticket_client(ticket)));
    return 2;
}

/* --- questions ----------------------------------------------------------------------------------------------------- */

static const char *mode_name(zkl_node_kind kind)
{
    return kind == ZKL_NODE_SHARED ? "shared" : kind == ZKL_NODE_LEASE ? "lease" : "exclusive";
}

static void push_contender(lua_State *L, const zkl_contender *contender)
{
    lua_createtable(L, 0, 5);
    lua_pushstring(L, contender->node);
    lua_setfield(L, -2, "node");
    lua_pushlstring(L, contender->identity, (size_t)contender->identity_length);
    lua_setfield(L, -2, "identity");
    lua_pushstring(L, mode_name(contender->kind));
    lua_setfield(L, -2, "mode");
    lua_pushinteger(L, contender->sequence);
    lua_setfield(L, -2, "sequence");
    lua_pushboolean(L, contender->holder);
    lua_setfield(L, -2, "holder");
}

/* question:result() -> array of contenders (empty for a flush) | nil, message, code */
static int question_result(lua_State *L)
{
    zkl_ticket_view view;
    zkl_ticket *ticket = look_at_ticket(L, QUESTION_TYPE, &view);
    if (ticket == NULL) {
        return FORKED;
    }
    if (!view.settled) {
        return push_failure(L, ZKL_FAILED, "not answered yet");
    }
    if (view.code != ZKL_OK) {
        return push_failure(L, view.code, view.message);
    }
    int32_t count;
    const zkl_contender *contenders = zkl_ticket_contenders(ticket, &count);
    lua_createtable(L, count, 0);
    for (int32_t i = 0; i < count; i++) {
        push_contender(L, &contenders[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* --- methods ------------------------------------------------------------------------------------------------------- */

const luaL_Reg claim_methods[] = {
    {"id", ticket_id},
    {"phase", claim_phase},
    {"done", ticket_done},
    {"held", claim_held},
    {"remaining", claim_remaining},
    {"token", claim_token},
    {"token_numbers", claim_token_numbers},
    {"node", claim_node},
    {"nodes", claim_nodes},
    {"release", claim_release},
    {"cancel", ticket_cancel},
    {"revocations", claim_revocations},
    {"waits", claim_waits},
    {"finished", claim_finished},
    {"released", claim_released},
    {NULL, NULL},
};

const luaL_Reg question_methods[] = {
    {"id", ticket_id}, {"done", ticket_done}, {"cancel", ticket_cancel}, {"result", question_result}, {NULL, NULL},
};
