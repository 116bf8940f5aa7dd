/*
 * zklock.core: the thin binding under lua/zklock/.
 *
 * Userdata are pointers to refcounted C objects; __gc drops the reference and nulls it. Every function returns at once but, for
 * adapters that may block, core.poll and client:wait, and client:claim and claim:release if they are told how long they may.
 * Arguments are checked here for type only: what a user may pass is checked, and worded, in lua/zklock/options.lua.
 *
 * In the child of a fork every method answers nil, message, "forked" and touches nothing.
 */
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "lua_compat.h"
#include "lua_core.h"
#include "memory.h"

#define LUA_PUBLIC __attribute__((visibility("default")))

/* --- types --------------------------------------------------------------------------------------------------------- */

/*
 * The types of userdata. Every function of the module has their metatables as upvalues 1, 2 and 3: to look one up in the
 * registry by its name, as luaL_checkudata does, took a tenth of all instructions of acquiring and releasing.
 */
typedef enum {
    CLIENT_TYPE = 1,
    TICKET_TYPE,
    TERMS_TYPE,
    LAST_TYPE = TERMS_TYPE
} type;

static const char *const type_names[] = {
    [CLIENT_TYPE] = "zklock.client", [TICKET_TYPE] = "zklock.ticket", [TERMS_TYPE] = "zklock.terms"};

/* The userdata at `index`, which must be of that type. */
static void *check_box(lua_State *L, int index, type expected)
{
    void *box = lua_touserdata(L, index);
    if (box != NULL && lua_getmetatable(L, index)) {
        bool same = lua_rawequal(L, -1, lua_upvalueindex((int)expected));
        lua_pop(L, 1);
        if (same) {
            return box;
        }
    }
    return luaL_checkudata(L, index, type_names[expected]); /* raises */
}

/* A new userdata of that type, for one pointer, on the stack. */
static void *push_box(lua_State *L, type its)
{
    void **box = lua_newuserdata(L, sizeof *box);
    *box = NULL;
    lua_pushvalue(L, lua_upvalueindex((int)its));
    lua_setmetatable(L, -2);
    return box;
}

/* --- results ------------------------------------------------------------------------------------------------------- */

int push_failure(lua_State *L, zkl_code code, const char *message)
{
    lua_pushnil(L);
    lua_pushstring(L, message);
    lua_pushstring(L, zkl_code_name(code));
    return 3;
}

void push_forked(lua_State *L)
{
    push_failure(L, ZKL_FORKED, "this client belongs to the parent process: connect anew after a fork");
}

/* 0 for what is not positive; ZKL_NEVER for what is beyond 64 bits. */
static int64_t nanoseconds_of(lua_Number seconds)
{
    return !(seconds > 0) ? 0 : seconds >= 9e9 ? ZKL_NEVER / 2 : (int64_t)(seconds * 1e9);
}

static lua_Number seconds_of(int64_t nanoseconds)
{
    return nanoseconds == ZKL_NEVER ? (lua_Number)HUGE_VAL : (lua_Number)nanoseconds / 1e9;
}

/* --- tickets ------------------------------------------------------------------------------------------------------- */

static zkl_ticket **box_of_ticket(lua_State *L)
{
    return check_box(L, 1, TICKET_TYPE);
}

static zkl_ticket *check_ticket(lua_State *L)
{
    zkl_ticket *ticket = *box_of_ticket(L);
    if (ticket == NULL) {
        luaL_error(L, "this claim has been collected");
    }
    return ticket;
}

zkl_ticket **push_ticket_box(lua_State *L)
{
    return push_box(L, TICKET_TYPE);
}

int fill_ticket_box(lua_State *L, zkl_ticket **box, zkl_ticket *ticket)
{
    *box = ticket;
    return ticket != NULL ? 1 : push_failure(L, ZKL_FAILED, "not enough memory");
}

static int ticket_gc(lua_State *L)
{
    zkl_ticket **box = box_of_ticket(L);
    zkl_ticket *ticket = *box;
    *box = NULL;
    if (ticket != NULL) {
        zkl_ticket_release(ticket);
    }
    return 0;
}

static int ticket_id(lua_State *L)
{
    zkl_push_integer(L, zkl_ticket_id(check_ticket(L)));
    return 1;
}

zkl_ticket *look_at_ticket(lua_State *L, zkl_ticket_view *view)
{
    zkl_ticket *ticket = check_ticket(L);
    if (zkl_client_forked(zkl_ticket_client(ticket))) {
        push_forked(L);
        return NULL;
    }
    zkl_ticket_look(ticket, view);
    return ticket;
}

/* claim:phase() -> phase, code or nil, message */
static int ticket_phase(lua_State *L)
{
    zkl_ticket_view view;
    zkl_ticket *ticket = look_at_ticket(L, &view);
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

/* claim:waits() -> bool */
static int ticket_waits(lua_State *L)
{
    const zkl_ticket *ticket = check_ticket(L);
    lua_pushboolean(L, !zkl_client_forked(zkl_ticket_client(ticket)) && zkl_ticket_waits(ticket));
    return 1;
}

/* claim:settled(), query:done() -> bool */
static int ticket_settled(lua_State *L)
{
    zkl_ticket *ticket = check_ticket(L);
    if (zkl_client_forked(zkl_ticket_client(ticket))) {
        push_forked(L);
        return FORKED;
    }
    lua_pushboolean(L, zkl_ticket_settled(ticket));
    return 1;
}

/* claim:released() -> bool, see zkl_ticket_released */
static int ticket_released(lua_State *L)
{
    zkl_ticket *ticket = check_ticket(L);
    if (zkl_client_forked(zkl_ticket_client(ticket))) {
        push_forked(L);
        return FORKED;
    }
    lua_pushboolean(L, zkl_ticket_released(ticket));
    return 1;
}

/* claim:finished() -> bool, see zkl_ticket_finished; true after a fork */
static int ticket_finished(lua_State *L)
{
    zkl_ticket *ticket = check_ticket(L);
    lua_pushboolean(L, zkl_client_forked(zkl_ticket_client(ticket)) || zkl_ticket_finished(ticket));
    return 1;
}

static int ticket_held(lua_State *L)
{
    lua_pushboolean(L, zkl_ticket_held(check_ticket(L)));
    return 1;
}

static int ticket_remaining(lua_State *L)
{
    lua_pushnumber(L, seconds_of(zkl_ticket_remaining(check_ticket(L))));
    return 1;
}

static int ticket_token(lua_State *L)
{
    zkl_ticket_view view;
    zkl_ticket *ticket = look_at_ticket(L, &view);
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

static int ticket_node(lua_State *L)
{
    zkl_ticket_view view;
    zkl_ticket *ticket = look_at_ticket(L, &view);
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

/* claim:nodes() -> array of the paths of all nodes by which it holds | nil, message, code */
static int ticket_nodes(lua_State *L)
{
    zkl_ticket_view view;
    zkl_ticket *ticket = look_at_ticket(L, &view);
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

/* claim:revocations() -> how often others have asked for it */
static int ticket_revocations(lua_State *L)
{
    zkl_ticket_view view;
    zkl_ticket *ticket = look_at_ticket(L, &view);
    if (ticket == NULL) {
        return FORKED;
    }
    lua_pushinteger(L, view.revocations);
    return 1;
}

/*
 * claim:release(seconds, if_held), claim:cancel() -> whether it is settled, and there is nothing to tell (zkl_ticket_released),
 *   whether there is news for client:next
 *
 * The engine knows from the claim's phase which of the two it is. For so many seconds, none by default, the call may block until it
 * is finished; see zkl_client_wait. With if_held nothing happens, and the answer is nil, unless it is held at this instant.
 */
static int ticket_end(lua_State *L)
{
    zkl_ticket *ticket = check_ticket(L);
    if (zkl_client_forked(zkl_ticket_client(ticket))) {
        push_forked(L);
        return FORKED;
    }
    int64_t patience = nanoseconds_of(luaL_optnumber(L, 2, 0));
    if (lua_toboolean(L, 3) && !zkl_ticket_held(ticket)) {
        lua_pushnil(L);
        return 1;
    }
    zkl_ticket_end(ticket, patience);
    lua_pushboolean(L, zkl_ticket_released(ticket));
    lua_pushboolean(L, patience > 0 && zkl_client_has_news(zkl_ticket_client(ticket)));
    return 2;
}

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

/* query:result() -> array of contenders (empty for a flush) | nil, message, code */
static int ticket_result(lua_State *L)
{
    zkl_ticket_view view;
    zkl_ticket *ticket = look_at_ticket(L, &view);
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

/* --- access control lists ------------------------------------------------------------------------------------------ */

/* A field without metamethods: what is found stays reachable through the table. `index` is relative to the top. */
static void push_raw_field(lua_State *L, int index, const char *name)
{
    lua_pushstring(L, name);
    lua_rawget(L, index - 1);
}

struct ACL_vector check_acl(lua_State *L, int index)
{
    if (lua_type(L, index) == LUA_TSTRING) {
        static const char *const names[] = {"open", "creator", "read", NULL};
        const struct ACL_vector *const vectors[] = {&ZOO_OPEN_ACL_UNSAFE, &ZOO_CREATOR_ALL_ACL, &ZOO_READ_ACL_UNSAFE};
        return *vectors[luaL_checkoption(L, index, NULL, names)];
    }
    luaL_checktype(L, index, LUA_TTABLE);
    int32_t count = (int32_t)lua_rawlen(L, index);
    luaL_argcheck(L, count > 0, index, "an acl needs at least one entry");
    struct ACL *entries = lua_newuserdata(L, (size_t)count * sizeof *entries);
    for (int32_t i = 0; i < count; i++) {
        lua_rawgeti(L, index, i + 1);
        luaL_argcheck(L, lua_istable(L, -1), index, "each entry of an acl is a table");
        push_raw_field(L, -1, "perms");
        push_raw_field(L, -2, "scheme");
        push_raw_field(L, -3, "id");
        luaL_argcheck(L, lua_isnumber(L, -3) && lua_type(L, -2) == LUA_TSTRING && lua_type(L, -1) == LUA_TSTRING, index,
                      "an entry of an acl has scheme (string), id (string) and perms (number)");
        entries[i].perms = (int32_t)lua_tointeger(L, -3);
        entries[i].id.scheme = (char *)(uintptr_t)lua_tostring(L, -2);
        entries[i].id.id = (char *)(uintptr_t)lua_tostring(L, -1);
        lua_pop(L, 4); /* the strings live on in the caller's table */
    }
    return (struct ACL_vector){.count = count, .data = entries};
}

/* --- clients ------------------------------------------------------------------------------------------------------- */

static zkl_client **box_of_client(lua_State *L)
{
    return check_box(L, 1, CLIENT_TYPE);
}

static zkl_client *check_client(lua_State *L)
{
    zkl_client *client = *box_of_client(L);
    if (client == NULL) {
        luaL_error(L, "this client has been collected");
    }
    return client;
}

zkl_client *live_client(lua_State *L)
{
    zkl_client *client = check_client(L);
    if (zkl_client_forked(client)) {
        push_forked(L);
        return NULL;
    }
    return client;
}

static int client_gc(lua_State *L)
{
    zkl_client **box = box_of_client(L);
    zkl_client *client = *box;
    *box = NULL;
    if (client != NULL) {
        zkl_client_release(client);
    }
    return 0;
}

static int client_pollfd(lua_State *L)
{
    zkl_client *client = live_client(L);
    if (client == NULL) {
        return FORKED;
    }
    lua_pushinteger(L, zkl_client_fd(client));
    return 1;
}

/* client:listen() -> path of a unix socket to connect to | nil, message, code; see zkl_client_listen */
static int client_listen(lua_State *L)
{
    zkl_client *client = live_client(L);
    if (client == NULL) {
        return FORKED;
    }
    char path[ZKL_MESSAGE_SIZE];
    if (!zkl_client_listen(client, path, sizeof path)) {
        return push_failure(L, ZKL_FAILED, path);
    }
    lua_pushstring(L, path);
    return 1;
}

/* client:accept() -> bool */
static int client_accept(lua_State *L)
{
    zkl_client *client = live_client(L);
    if (client == NULL) {
        return FORKED;
    }
    lua_pushboolean(L, zkl_client_accept(client));
    return 1;
}

/* client:ring() -> bool */
static int client_ring(lua_State *L)
{
    zkl_client *client = live_client(L);
    if (client == NULL) {
        return FORKED;
    }
    lua_pushboolean(L, zkl_client_ring(client));
    return 1;
}

/* client:next() -> id of a ticket with news | nil, whether the state or the log has news */
static int client_next(lua_State *L)
{
    zkl_client *client = live_client(L);
    if (client == NULL) {
        return FORKED;
    }
    bool changed;
    uint64_t id = zkl_client_next(client, &changed);
    if (id == 0) {
        lua_pushnil(L);
        lua_pushboolean(L, changed);
        return 2;
    }
    zkl_push_integer(L, id);
    return 1;
}

/* client:wait(seconds): see zkl_client_wait */
static int client_wait(lua_State *L)
{
    zkl_client *client = live_client(L);
    if (client == NULL) {
        return FORKED;
    }
    zkl_client_wait(client, nanoseconds_of(luaL_checknumber(L, 2)));
    lua_pushboolean(L, 1);
    return 1;
}

static int client_next_log(lua_State *L)
{
    zkl_client *client = live_client(L);
    if (client == NULL) {
        return FORKED;
    }
    char text[ZKL_MESSAGE_SIZE];
    int level = zkl_client_next_log(client, text, sizeof text);
    if (level == 0) {
        return 0;
    }
    lua_pushinteger(L, level);
    lua_pushstring(L, text);
    return 2;
}

/* client:state() -> state, problem, code or nil */
static int client_state(lua_State *L)
{
    zkl_client *client = live_client(L);
    if (client == NULL) {
        return FORKED;
    }
    char problem[ZKL_MESSAGE_SIZE];
    zkl_code code;
    zkl_state state = zkl_client_state(client, problem, &code);
    lua_pushstring(L, zkl_state_name(state));
    lua_pushstring(L, problem);
    if (code == ZKL_OK) {
        lua_pushnil(L);
    } else {
        lua_pushstring(L, zkl_code_name(code));
    }
    return 3;
}

static const char *check_path(lua_State *L, int index)
{
    size_t length;
    const char *path = luaL_checklstring(L, index, &length);
    const char *problem = zkl_path_problem(path, length);
    luaL_argcheck(L, problem == NULL, index, problem);
    return path;
}

/* An optional count at `index`. */
static int32_t check_count(lua_State *L, int index)
{
    lua_Number count = luaL_optnumber(L, index, 1);
    luaL_argcheck(L, count >= 1 && count <= INT32_MAX, index, "a count is from 1 to 2147483647");
    return (int32_t)count;
}

static zkl_mode check_mode(lua_State *L, int index)
{
    static const char *const names[] = {"mutex", "read", "write", "permits", NULL};
    static const zkl_mode modes[] = {ZKL_MODE_MUTEX, ZKL_MODE_READ, ZKL_MODE_WRITE, ZKL_MODE_PERMITS};
    return modes[luaL_checkoption(L, index, NULL, names)];
}

/* The ticket in the box at `index`, which may be nil; NULL then, or once it has been collected. */
static zkl_ticket *opt_ticket(lua_State *L, int index)
{
    return lua_isnoneornil(L, index) ? NULL : *(zkl_ticket **)check_box(L, index, TICKET_TYPE);
}

/* The terms in the box at `index`. */
static zkl_terms *check_terms(lua_State *L, int index)
{
    zkl_terms *terms = *(zkl_terms **)check_box(L, index, TERMS_TYPE);
    luaL_argcheck(L, terms != NULL, index, "these terms have been collected");
    return terms;
}

static int terms_gc(lua_State *L)
{
    zkl_terms **box = check_box(L, 1, TERMS_TYPE);
    zkl_terms_drop(*box);
    *box = NULL;
    return 0;
}

/*
 * core.terms(path, mode, identity, acl, max_hold, revocable, permits, handoff, linger) -> terms | nil, message, code
 *
 * What a lock is, for all of its acquisitions. max_hold and linger are in seconds, or nil; permits is a semaphore's, or nil.
 */
static int core_terms(lua_State *L)
{
    lua_settop(L, 9);
    zkl_lock lock = {
        .path = check_path(L, 1),
        .mode = check_mode(L, 2),
        .identity = luaL_checkstring(L, 3),
        .max_hold = nanoseconds_of(luaL_optnumber(L, 5, 0)),
        .revocable = lua_toboolean(L, 6),
        .permits = check_count(L, 7),
        .handoff = (int32_t)luaL_optinteger(L, 8, 0),
        .linger = nanoseconds_of(luaL_optnumber(L, 9, 0)),
    };
    struct ACL_vector acl = check_acl(L, 4);
    lock.acl = &acl;
    zkl_terms **box = push_box(L, TERMS_TYPE);
    *box = zkl_terms_new(&lock);
    return *box != NULL ? 1 : push_failure(L, ZKL_FAILED, "not enough memory");
}

/*
 * client:claim(terms, hold, try, hasty, count, writer, seconds) -> claim, whether it is granted already, whether there is news for
 *   client:next | nil, message, code
 *
 * count is of a semaphore's permits, or nil; writer is the claim beside which a reader may join, or nil. The claim is put into
 * hold.claim before anything is sent, so that a Lua error that a signal raises in between (Ctrl-C) finds it there to be given up. For
 * so many seconds, none by default, the call may block until the claim is decided; see zkl_client_wait.
 */
static int client_claim(lua_State *L)
{
    zkl_client *client = live_client(L);
    if (client == NULL) {
        return FORKED;
    }
    lua_settop(L, 8);
    int64_t patience = nanoseconds_of(luaL_optnumber(L, 8, 0));
    const zkl_claim_request request = {
        .terms = check_terms(L, 2),
        .try_only = lua_toboolean(L, 4),
        .hasty = lua_toboolean(L, 5),
        .count = check_count(L, 6),
    };
    luaL_checktype(L, 3, LUA_TTABLE);
    luaL_argcheck(L, request.count <= zkl_terms_lock(request.terms)->permits && request.count <= ZKL_MAX_COUNT, 6,
                  "more than there are");
    zkl_ticket *writer = opt_ticket(L, 7);
    zkl_ticket **box = push_ticket_box(L);
    lua_pushvalue(L, -1);
    lua_setfield(L, 3, "claim");
    int results = fill_ticket_box(L, box, zkl_client_claim(client, &request, writer, patience));
    if (*box == NULL) {
        lua_pushnil(L);
        lua_setfield(L, 3, "claim");
        return results;
    }
    lua_pushboolean(L, zkl_ticket_held(*box));
    lua_pushboolean(L, patience > 0 && zkl_client_has_news(client));
    return 3;
}

/* client:contenders(path, identities) -> query */
static int client_contenders(lua_State *L)
{
    zkl_client *client = live_client(L);
    if (client == NULL) {
        return FORKED;
    }
    size_t length;
    const char *path = luaL_checklstring(L, 2, &length); /* of a lock, or one of a semaphore's two below it */
    const char *problem = zkl_node_path_problem(path, length);
    luaL_argcheck(L, problem == NULL, 2, problem);
    bool identities = lua_toboolean(L, 3);
    zkl_ticket **box = push_ticket_box(L);
    return fill_ticket_box(L, box, zkl_client_contenders(client, path, identities));
}

static int client_flush(lua_State *L)
{
    zkl_client *client = live_client(L);
    if (client == NULL) {
        return FORKED;
    }
    zkl_ticket **box = push_ticket_box(L);
    return fill_ticket_box(L, box, zkl_client_flush(client));
}

static void set_count(lua_State *L, const char *name, int64_t value)
{
    zkl_push_integer(L, value);
    lua_setfield(L, -2, name);
}

/* { count =, sum = seconds, { le = seconds, count = of all that took no longer }, … } */
static void push_waits(lua_State *L, const zkl_stats *stats)
{
    lua_createtable(L, ZKL_WAIT_BUCKETS, 2);
    int64_t count = 0;
    for (int32_t i = 0; i < ZKL_WAIT_BUCKETS; i++) {
        count += stats->waits[i];
        lua_createtable(L, 0, 2);
        lua_pushnumber(L, seconds_of(zkl_wait_bounds[i]));
        lua_setfield(L, -2, "le");
        set_count(L, "count", count);
        lua_rawseti(L, -2, i + 1);
    }
    set_count(L, "count", count);
    lua_pushnumber(L, seconds_of(stats->waited));
    lua_setfield(L, -2, "sum");
}

static int client_stats(lua_State *L)
{
    zkl_client *client = live_client(L);
    if (client == NULL) {
        return FORKED;
    }
    zkl_stats stats = zkl_client_stats(client);
    lua_createtable(L, 0, 12);
    set_count(L, "requests", stats.requests);
    set_count(L, "heartbeats", stats.heartbeats);
    set_count(L, "notifications", stats.notifications);
    set_count(L, "claims", stats.claims);
    set_count(L, "grants", stats.grants);
    set_count(L, "refusals", stats.refusals);
    set_count(L, "hand_overs", stats.hand_overs);
    set_count(L, "losses", stats.losses);
    set_count(L, "unknown_outcomes", stats.unknown_outcomes);
    set_count(L, "connections", stats.connections);
    set_count(L, "sessions", stats.sessions);
    set_count(L, "seats", stats.seats);
    set_count(L, "watches", stats.watches);
    push_waits(L, &stats);
    lua_setfield(L, -2, "wait_time");
    return 1;
}

/* client:busy() -> bool, see zkl_client_busy */
static int client_busy(lua_State *L)
{
    zkl_client *client = live_client(L);
    if (client == NULL) {
        return FORKED;
    }
    lua_pushboolean(L, zkl_client_busy(client));
    return 1;
}

static int client_session_timeout(lua_State *L)
{
    zkl_client *client = live_client(L);
    if (client == NULL) {
        return FORKED;
    }
    lua_pushnumber(L, zkl_client_session_timeout(client) / 1000.0);
    return 1;
}

static int client_close(lua_State *L)
{
    zkl_client *client = live_client(L);
    if (client == NULL) {
        return FORKED;
    }
    zkl_client_close(client);
    lua_pushboolean(L, 1);
    return 1;
}

static int client_join(lua_State *L)
{
    zkl_client *client = live_client(L);
    if (client == NULL) {
        return FORKED;
    }
    zkl_client_join(client);
    lua_pushboolean(L, 1);
    return 1;
}

/* --- the module ---------------------------------------------------------------------------------------------------- */

/*
 * Reads options.auth, an array of {scheme, credential}; the result is a userdata left on the stack, or NULL when there is
 * none. The strings stay Lua's.
 */
static zkl_auth *check_auths(lua_State *L, int options, int32_t *count)
{
    lua_getfield(L, options, "auth");
    if (lua_isnil(L, -1)) {
        *count = 0;
        return NULL;
    }
    luaL_checktype(L, -1, LUA_TTABLE);
    int list = lua_gettop(L);
    *count = (int32_t)lua_rawlen(L, list);
    zkl_auth *auths = lua_newuserdata(L, ((size_t)*count + 1) * sizeof *auths);
    for (int32_t i = 0; i < *count; i++) {
        lua_rawgeti(L, list, i + 1);
        luaL_checktype(L, -1, LUA_TTABLE);
        lua_rawgeti(L, -1, 1);
        lua_rawgeti(L, -2, 2);
        size_t length;
        luaL_checktype(L, -2, LUA_TSTRING);
        luaL_checktype(L, -1, LUA_TSTRING);
        auths[i].scheme = lua_tostring(L, -2);
        auths[i].credential = lua_tolstring(L, -1, &length);
        auths[i].credential_length = (int32_t)length;
        lua_pop(L, 3); /* the strings live on in the caller's table */
    }
    return auths;
}

static bool option_flag(lua_State *L, int options, const char *name, bool otherwise)
{
    lua_getfield(L, options, name);
    bool flag = lua_isnil(L, -1) ? otherwise : (bool)lua_toboolean(L, -1);
    lua_pop(L, 1);
    return flag;
}

/* core.open(servers, {session_timeout = ms, lease = bool, auth = {{scheme, credential}, …}, log = bool}) */
static int core_open(lua_State *L)
{
    const char *servers = luaL_checkstring(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    lua_getfield(L, 2, "session_timeout");
    zkl_client_options options = {
        .servers = servers,
        .session_timeout_ms = lua_isnil(L, -1) ? 10000 : (int32_t)luaL_checkinteger(L, -1),
        .lease = option_flag(L, 2, "lease", true),
        .log = option_flag(L, 2, "log", false),
    };
    options.auths = check_auths(L, 2, &options.auth_count);
    char message[ZKL_MESSAGE_SIZE] = "";
    zkl_client **box = push_box(L, CLIENT_TYPE);
    *box = zkl_client_open(&options, message);
    return *box != NULL ? 1 : push_failure(L, ZKL_FAILED, message);
}

static int core_now(lua_State *L)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    lua_pushnumber(L, (lua_Number)now.tv_sec + (lua_Number)now.tv_nsec / 1e9);
    return 1;
}

/* core.poll(fd, seconds) -> true readable | false timed out | nil interrupted by a signal */
static int core_poll(lua_State *L)
{
    struct pollfd fd = {.fd = (int)luaL_checkinteger(L, 1), .events = POLLIN};
    lua_Number seconds = luaL_checknumber(L, 2);
    int ms = !(seconds > 0) ? 0 : seconds > 3600 ? 3600000 : (int)ceil(seconds * 1000);
    int n = poll(&fd, 1, ms);
    if (n < 0 && errno == EINTR) {
        lua_pushnil(L);
    } else {
        lua_pushboolean(L, n != 0);
    }
    return 1;
}

static int core_path_problem(lua_State *L)
{
    size_t length;
    const char *path = luaL_checklstring(L, 1, &length);
    const char *problem = zkl_path_problem(path, length);
    if (problem == NULL) {
        return 0;
    }
    lua_pushstring(L, problem);
    return 1;
}

static int core_default_identity(lua_State *L)
{
    char host[256];
    if (gethostname(host, sizeof host) != 0) {
        snprintf(host, sizeof host, "localhost");
    }
    host[sizeof host - 1] = '\0';
    lua_pushfstring(L, "%s:%d", host, (int)getpid());
    return 1;
}

static int core_memory(lua_State *L)
{
    zkl_push_integer(L, zkl_memory_in_use());
    return 1;
}

/* How many Lua states of this very process have opened the module; a program may open it on several threads at once. */
static _Atomic int64_t openings;
static _Atomic pid_t opened_by;

static void count_opening(void)
{
    if (atomic_exchange(&opened_by, getpid()) != getpid()) {
        atomic_store(&openings, 0);
    }
    atomic_fetch_add(&openings, 1);
}

/* core.openings() -> number; those before a fork do not count */
static int core_openings(lua_State *L)
{
    zkl_push_integer(L, atomic_load(&opened_by) == getpid() ? atomic_load(&openings) : 0);
    return 1;
}

/* What the C client that is linked in can do; its TLS and SASL entry points exist only where it was built with them. */
static int core_features(lua_State *L)
{
    lua_createtable(L, 0, 2);
    lua_pushboolean(L, dlsym(RTLD_DEFAULT, "zookeeper_init_ssl") != NULL);
    lua_setfield(L, -2, "tls");
    lua_pushboolean(L, dlsym(RTLD_DEFAULT, "zookeeper_init_sasl") != NULL);
    lua_setfield(L, -2, "sasl");
    return 1;
}

static const luaL_Reg ticket_methods[] = {
    {"id", ticket_id},
    {"phase", ticket_phase},
    {"settled", ticket_settled},
    {"done", ticket_settled},
    {"held", ticket_held},
    {"remaining", ticket_remaining},
    {"token", ticket_token},
    {"node", ticket_node},
    {"nodes", ticket_nodes},
    {"release", ticket_end},
    {"cancel", ticket_end},
    {"result", ticket_result},
    {"revocations", ticket_revocations},
    {"waits", ticket_waits},
    {"take", operation_take},
    {"event", operation_event},
    {"finished", ticket_finished},
    {"released", ticket_released},
    {NULL, NULL},
};

static const luaL_Reg client_methods[] = {
    {"pollfd", client_pollfd},
    {"listen", client_listen},
    {"accept", client_accept},
    {"ring", client_ring},
    {"wait", client_wait},
    {"next", client_next},
    {"next_log", client_next_log},
    {"state", client_state},
    {"busy", client_busy},
    {"claim", client_claim},
    {"contenders", client_contenders},
    {"flush", client_flush},
    {"stats", client_stats},
    {"session_timeout", client_session_timeout},
    {"close", client_close},
    {"join", client_join},
    {"operate", client_operate},
    {NULL, NULL},
};

static const luaL_Reg no_methods[] = {{NULL, NULL}};

static const luaL_Reg functions[] = {
    {"open", core_open},
    {"terms", core_terms},
    {"now", core_now},
    {"poll", core_poll},
    {"path_problem", core_path_problem},
    {"node_path_problem", core_node_path_problem},
    {"default_identity", core_default_identity},
    {"memory", core_memory},
    {"alarm", core_alarm},
    {"openings", core_openings},
    {"features", core_features},
    {NULL, NULL},
};

/* The types' metatables are at `types` and behind it on the stack. The function becomes a field of the table at the top. */
static void set_function(lua_State *L, int types, const char *name, lua_CFunction function)
{
    for (int i = 0; i < LAST_TYPE; i++) {
        lua_pushvalue(L, types + i);
    }
    lua_pushcclosure(L, function, LAST_TYPE);
    lua_setfield(L, -2, name);
}

/* A table of these functions, on the stack. */
static void push_functions(lua_State *L, int types, const luaL_Reg *list)
{
    lua_newtable(L);
    for (; list->name != NULL; list++) {
        set_function(L, types, list->name, list->func);
    }
}

static void fill_type(lua_State *L, int types, type its, const luaL_Reg *methods, lua_CFunction gc)
{
    lua_pushvalue(L, types + (int)its - 1);
    set_function(L, types, "__gc", gc);
    push_functions(L, types, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}

/* lua_close unmaps C modules, but our threads may still be saying goodbye: this one stays until the process ends. */
static void pin(void)
{
    Dl_info info;
    if (dladdr((void *)(uintptr_t)pin, &info) != 0 && info.dli_fname != NULL) {
        dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    }
}

LUA_PUBLIC int luaopen_zklock_core(lua_State *L);

LUA_PUBLIC int luaopen_zklock_core(lua_State *L)
{
    pin();
    count_opening();
    int types = lua_gettop(L) + 1;
    for (int its = CLIENT_TYPE; its <= LAST_TYPE; its++) {
        luaL_newmetatable(L, type_names[its]);
    }
    fill_type(L, types, CLIENT_TYPE, client_methods, client_gc);
    fill_type(L, types, TICKET_TYPE, ticket_methods, ticket_gc);
    fill_type(L, types, TERMS_TYPE, no_methods, terms_gc);
    push_functions(L, types, functions);
    lua_pushliteral(L, ZKL_REVOKE);
    lua_setfield(L, -2, "REVOKE");
    return 1;
}
