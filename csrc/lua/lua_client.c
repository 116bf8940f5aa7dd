/* The part of zklock.core for clients. */
#include "binding.h"

#include <string.h>

#include "os/os.h"

static int client_pollfd(lua_State *L, zkl_client *client)
{
    lua_pushinteger(L, zkl_client_fd(client));
    return 1;
}

/* client:listen() -> path of a unix socket to connect to, "" for an abstract name | nil, message, code; see zkl_client_listen */
static int client_listen(lua_State *L, zkl_client *client)
{
    char path[ZKL_MESSAGE_SIZE];
    if (!zkl_client_listen(client, path, sizeof path)) {
        return push_failure(L, ZKL_FAILED, path);
    }
    lua_pushstring(L, path);
    return 1;
}

/* client:accept() -> bool */
static int client_accept(lua_State *L, zkl_client *client)
{
    lua_pushboolean(L, zkl_client_accept(client));
    return 1;
}

/* client:ring() -> bool */
static int client_ring(lua_State *L, zkl_client *client)
{
    lua_pushboolean(L, zkl_client_ring(client));
    return 1;
}

/* client:set_servers(connection string) -> bool; see zkl_client_set_servers */
static int client_set_servers(lua_State *L, zkl_client *client)
{
    lua_pushboolean(L, zkl_client_set_servers(client, luaL_checkstring(L, 2)));
    return 1;
}

/*
 * client:next() -> id of a handle with notifications | nil, whether there are log lines or the state may have changed
 */
static int client_next(lua_State *L, zkl_client *client)
{
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

/* client:wait(seconds) -> true; see zkl_client_wait */
static int client_wait(lua_State *L, zkl_client *client)
{
    zkl_client_wait(client, nanoseconds_of(luaL_checknumber(L, 2)));
    lua_pushboolean(L, 1);
    return 1;
}

/* client:catch_up(): see zkl_client_catch_up */
static int client_catch_up(lua_State *L, zkl_client *client)
{
    (void)L;
    zkl_client_catch_up(client);
    return 0;
}

static int client_next_log(lua_State *L, zkl_client *client)
{
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
static int client_state(lua_State *L, zkl_client *client)
{
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

/* --- acquisitions and questions ------------------------------------------------------------------------------------ */

/* Returns the count at `index`, or 1 if there is none. Raises unless it is from 1 to 2147483647. */
static int32_t check_count(lua_State *L, int index)
{
    lua_Number count = luaL_optnumber(L, index, 1);
    luaL_argcheck(L, count >= 1 && count <= INT32_MAX, index, "a count is from 1 to 2147483647");
    return (int32_t)count;
}

/*
 * core.acquire(client, spec, hold, try, count, writer, seconds) -> true: it is granted | false, whether there are
 *   notifications for client:next | nil, message, code
 *
 * `try` is false, true, or "optimistic". `count` is the number of a semaphore's permits, or nil. `writer` is the write acquisition whose place in the queue a
 * reader may take (a downgrade), or nil. The acquisition is put into hold._acquisition before anything is sent. So if a signal
 * (Ctrl-C) raises a Lua error in between, the caller finds the acquisition there and can give it up. The call may block
 * for up to `seconds` (default 0) until the acquisition is decided; see zkl_client_wait.
 */
int core_acquire(lua_State *L)
{
    zkl_client *client = *(zkl_client **)check_box(L, 1, CLIENT_TYPE);
    luaL_argcheck(L, client != NULL, 1, "this client has been collected");
    if (zkl_client_forked(client)) {
        return push_forked(L);
    }
    int64_t block_for = nanoseconds_of(luaL_optnumber(L, 7, 0));
    const zkl_acquisition_request request = {
        .spec = check_lock_spec(L, 2),
        .try_only = lua_toboolean(L, 4),
        .optimistic = lua_type(L, 4) == LUA_TSTRING,
        .count = check_count(L, 5),
    };
    luaL_checktype(L, 3, LUA_TTABLE);
    int32_t permits = zkl_lock_spec_settings(request.spec)->permits; /* 0 of a latch that is open from the beginning */
    luaL_argcheck(L, (request.count <= permits || permits == 0) && request.count <= ZKL_MAX_COUNT, 5,
                  "more than there are");
    zkl_handle *writer = lua_isnoneornil(L, 6) ? NULL : *(zkl_handle **)check_box(L, 6, ACQUISITION_TYPE);
    luaL_argcheck(L, writer == NULL || zkl_handle_client(writer) == client, 6, "an acquisition of another client");
    zkl_handle **box = push_box(L, ACQUISITION_TYPE);
    lua_pushvalue(L, -1);
    lua_setfield(L, 3, "_acquisition");
    int results = fill_handle_box(L, box, zkl_client_acquire(client, &request, writer, block_for));
    if (*box == NULL) {
        lua_pushnil(L);
        lua_setfield(L, 3, "_acquisition");
        return results;
    }
    bool news = block_for > 0 && zkl_client_has_notifications(client);
    lua_pushboolean(L, !news && zkl_handle_held(*box));
    lua_pushboolean(L, news);
    return 2;
}

/* Returns a question for `begin`: the function that makes its handle. */
static int push_question(lua_State *L, zkl_client *client, zkl_handle *(*begin)(zkl_client *client))
{
    zkl_handle **box = push_box(L, QUESTION_TYPE);
    return fill_handle_box(L, box, begin(client));
}

/* client:flush() -> question | nil, message, code */
static int client_flush(lua_State *L, zkl_client *client)
{
    return push_question(L, client, zkl_client_flush);
}

/* client:timer() -> question | nil, message, code */
static int client_timer(lua_State *L, zkl_client *client)
{
    return push_question(L, client, zkl_client_timer);
}

/* Sets a field of the table on the top to the seconds until an instant on zkl_clock, unless it is 0. */
static void set_seconds_left(lua_State *L, const char *name, int64_t instant)
{
    if (instant != 0) {
        lua_pushnumber(L, (lua_Number)(instant - zkl_clock()) / ZKL_SECOND);
        lua_setfield(L, -2, name);
    }
}

static int client_stats(lua_State *L, zkl_client *client)
{
    zkl_tls_expiry expiry;
    zkl_stats stats = zkl_client_stats(client, &expiry);
    lua_createtable(L, 0, 12);
    set_integer(L, "requests", stats.requests);
    set_integer(L, "heartbeats", stats.heartbeats);
    set_integer(L, "notifications", stats.notifications);
    set_integer(L, "acquisitions", stats.acquisitions);
    set_integer(L, "grants", stats.grants);
    set_integer(L, "refusals", stats.refusals);
    set_integer(L, "hand_overs", stats.hand_overs);
    set_integer(L, "passes", stats.passes);
    set_integer(L, "losses", stats.losses);
    set_integer(L, "unknown_outcomes", stats.unknown_outcomes);
    set_integer(L, "connections", stats.connections);
    set_integer(L, "sessions", stats.sessions);
    set_integer(L, "entries", stats.entries);
    set_integer(L, "watches", stats.watches);
    set_seconds_left(L, "server_certificate_left", expiry.server);
    set_seconds_left(L, "own_certificate_left", expiry.own);
    set_histogram(L, "wait_time", stats.waits, zkl_wait_bounds, ZKL_WAIT_BUCKETS, stats.waited);
    return 1;
}

/* client:busy() -> bool; see zkl_client_busy */
static int client_busy(lua_State *L, zkl_client *client)
{
    lua_pushboolean(L, zkl_client_busy(client));
    return 1;
}

static int client_session_timeout(lua_State *L, zkl_client *client)
{
    lua_pushnumber(L, zkl_client_session_timeout(client) / 1000.0);
    return 1;
}

/* client:unanswered() -> for how many seconds requests have been in flight without a packet from the server; 0: none is in flight */
static int client_unanswered(lua_State *L, zkl_client *client)
{
    zkl_stats stats = zkl_client_stats(client, NULL);
    int64_t since = stats.read_at > stats.in_flight_since ? stats.read_at : stats.in_flight_since;
    int64_t passed = stats.in_flight_since != 0 ? zkl_clock() - since : 0;
    lua_pushnumber(L, passed > 0 ? (lua_Number)passed / 1e9 : 0);
    return 1;
}

static int client_close(lua_State *L, zkl_client *client)
{
    zkl_client_close(client);
    lua_pushboolean(L, 1);
    return 1;
}

static int client_join(lua_State *L, zkl_client *client)
{
    zkl_client_join(client);
    lua_pushboolean(L, 1);
    return 1;
}

/* --- opening ------------------------------------------------------------------------------------------------------- */

/*
 * Reads options.auth, an array of {scheme, credential}. Returns a userdata that is left on the stack, or NULL if there
 * is no such option. The strings belong to Lua.
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
        lua_pop(L, 3); /* the caller's table keeps the strings alive */
    }
    return auths;
}

/* Reads options.tls into `tls`. Returns whether there is such a table. */
static bool check_tls(lua_State *L, int options, zkl_tls_options *tls)
{
    lua_getfield(L, options, "tls");
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        return false;
    }
    luaL_checktype(L, -1, LUA_TTABLE);
    int table = lua_gettop(L);
    const char *min_version = field_text(L, table, "min_version", NULL);
    *tls = (zkl_tls_options){
        .ca_file = field_text(L, table, "ca_file", NULL),
        .ca_path = field_text(L, table, "ca_path", NULL),
        .cert_file = field_text(L, table, "cert_file", NULL),
        .key_file = field_text(L, table, "key_file", NULL),
        .key_password = field_text(L, table, "key_password", NULL),
        .server_name = field_text(L, table, "server_name", NULL),
        .ciphers = field_text(L, table, "ciphers", NULL),
        .verify = field_flag(L, table, "verify", true),
        .only_13 = min_version != NULL && strcmp(min_version, "1.3") == 0,
    };
    return true;
}

/*
 * core.open(servers, {session_timeout = ms, lease = bool, follow = bool, auth = {{scheme, credential}, …}, log = bool,
 *   tls = {ca_file =, ca_path =, cert_file =, key_file =, key_password =, server_name =, verify = bool, min_version =, ciphers =}})
 *   -> client | nil, message, code
 */
int core_open(lua_State *L)
{
    const char *servers = luaL_checkstring(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    zkl_client_options options = {
        .servers = servers,
        .session_timeout_ms = field_integer(L, 2, "session_timeout", 1, 10000),
        .lease = field_flag(L, 2, "lease", true),
        .follow = field_flag(L, 2, "follow", false),
        .log = field_flag(L, 2, "log", false),
    };
    options.auths = check_auths(L, 2, &options.auth_count);
    zkl_tls_options tls;
    options.tls = check_tls(L, 2, &tls) ? &tls : NULL;
    char message[ZKL_MESSAGE_SIZE] = "";
    zkl_code code;
    zkl_client **box = push_box(L, CLIENT_TYPE);
    *box = zkl_client_open(&options, message, &code);
    return *box != NULL ? 1 : push_failure(L, code, message);
}

/* --- methods ------------------------------------------------------------------------------------------------------- */

const method client_methods[] = {
    {"pollfd", .with_client = client_pollfd},
    {"listen", .with_client = client_listen},
    {"accept", .with_client = client_accept},
    {"ring", .with_client = client_ring},
    {"set_servers", .with_client = client_set_servers},
    {"wait", .with_client = client_wait},
    {"catch_up", .with_client = client_catch_up},
    {"next", .with_client = client_next},
    {"next_log", .with_client = client_next_log},
    {"state", .with_client = client_state},
    {"busy", .with_client = client_busy},
    {"timer", .with_client = client_timer},
    {"flush", .with_client = client_flush},
    {"stats", .with_client = client_stats},
    {"session_timeout", .with_client = client_session_timeout},
    {"unanswered", .with_client = client_unanswered},
    {"close", .with_client = client_close},
    {"join", .with_client = client_join},
    {"operate", .with_client = client_operate},
    {.name = NULL},
};
