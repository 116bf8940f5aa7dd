/*
 * world: a simulated ZooKeeper for ordinary specs. It is linked into one module with all of zklock below Lua. So a spec
 * file runs in virtual time: the servers, the network, the clock and the clients' threads are simulated
 * (../simulation). Lua and the test framework are the real ones.
 *
 * There is one world at a time. Time moves only while the program waits or reads the clock: in world.poll, in functions
 * below Lua that wait, and in the calls of an observer, which is a client of the simulated servers without zklock. All
 * of these run on the program's own thread.
 *
 * The Lua side is helper.lua and the twins beside it. Functions raise an error if a spec is wrong.
 */
#include <inttypes.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zookeeper/zookeeper.h>

#include "links.h"
#include "lua/binding.h"
#include "machine.h"
#include "sim_zookeeper.h"

/* The most simulated time for one operation of an observer. */
#define PATIENCE (10 * SIM_SECOND)
/* The longest single sleep of the program, in seconds. */
#define LONGEST_SLEEP 3600.0
#define MOST_DESCRIPTORS 256
/* Visible to dlsym. */
#define LUA_PUBLIC __attribute__((visibility("default")))
#define OBSERVER "zklock.world.observer"

static struct {
    bool open;
    int64_t generation; /* number of worlds so far */
    sim_options options;
} world;

/* The callers that are observers. */
static bool is_taken[SIM_MAX_CALLERS];

static void require_world(lua_State *L)
{
    if (!world.open) {
        luaL_error(L, "there is no world yet");
    }
}

static int server_argument(lua_State *L, int index)
{
    require_world(L);
    lua_Integer server = luaL_checkinteger(L, index);
    luaL_argcheck(L, server >= 1 && server <= world.options.servers, index, "there is no such server");
    return (int)server - 1;
}

/* Lets the world and the clients' threads run until that instant. */
static void sleep_until(int64_t at)
{
    while (sim_now() < at) {
        int64_t left = (at - sim_now()) / SIM_MILLISECOND;
        machine_poll(NULL, 0, left > 1000000 ? 1000000 : (int)left);
    }
}

/* --- the world ----------------------------------------------------------------------------------------------------- */

static int32_t integer_field(lua_State *L, const char *name, int32_t usual)
{
    lua_getfield(L, 1, name);
    int32_t value = (int32_t)luaL_optinteger(L, -1, usual);
    lua_pop(L, 1);
    return value;
}

/* The servers look for empty containers again and again. */
static void look_for_containers(void *context, int64_t interval)
{
    sim_reap_containers();
    sim_schedule(sim_now() + interval, look_for_containers, context, interval);
}

/*
 * world.begin { seed =, servers =, tick =, reap =, zxid = } begins a world with 1 or 3 servers that serve, and returns their version.
 * `tick` and `reap` are in milliseconds; `reap` is the interval at which servers look for empty containers. `zxid` is the last
 * transaction that a single server has executed at the beginning, in hexadecimal digits.
 *
 * All messages take the same time, so messages on two connections arrive in the order in which they were sent. For a
 * program this looks like one machine. When a client has closed, its server knows it before another client's next
 * request.
 */
static int world_begin(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    if (world.open) {
        return luaL_error(L, "there is a world already");
    }
    int32_t tick = integer_field(L, "tick", 500);
    lua_getfield(L, 1, "zxid");
    int64_t zxid = (int64_t)strtoull(luaL_optstring(L, -1, "0"), NULL, 16);
    lua_pop(L, 1);
    world.options = (sim_options){.seed = (uint64_t)integer_field(L, "seed", 1),
                                  .servers = integer_field(L, "servers", 1),
                                  .tick_ms = tick,
                                  .min_session_timeout_ms = 2 * tick,
                                  .max_session_timeout_ms = 60000,
                                  .delay = 100 * SIM_MICROSECOND,
                                  .named = true,
                                  .auth_lasts = true,
                                  .own_nodes = true,
                                  .last_zxid = zxid,
                                  .even = true,
                                  .in_order = true,
                                  .untraced = getenv("ZKLOCK_TRACE") == NULL,
                                  .trace = getenv("ZKLOCK_TRACE") != NULL};
    luaL_argcheck(L, world.options.servers == 1 || world.options.servers == 3, 1, "1 or 3 servers");
    sim_hooks hooks = {.context = NULL};
    sim_begin(&world.options, &hooks);
    while (sim_leader() < 0) {
        sim_step();
    }
    int64_t reap = integer_field(L, "reap", 3600000) * SIM_MILLISECOND;
    sim_schedule(sim_now() + reap, look_for_containers, NULL, reap);
    machine_begin();
    world.open = true;
    world.generation++;
    lua_pushstring(L, sim_server_version());
    return 1;
}

/* world.finish(): ends the world after the threads of all clients have ended, which takes up to a simulated minute */
static int world_finish(lua_State *L)
{
    require_world(L);
    sim_heal();
    for (int64_t until = sim_now() + 60 * SIM_SECOND; !machine_is_idle() && sim_now() < until;) {
        machine_poll(NULL, 0, 100);
    }
    if (!machine_is_idle()) {
        return luaL_error(L, "a client's thread does not end: was the client closed?");
    }
    sim_end();
    world.open = false;
    memset(is_taken, 0, sizeof is_taken);
    return 0;
}

/* world.is_open() */
static int world_is_open(lua_State *L)
{
    lua_pushboolean(L, world.open);
    return 1;
}

/*
 * world.now() -> seconds, which begin anew with each world. If a program reads the clock for so long that another
 * thread would have run, that thread runs.
 */
static int world_now(lua_State *L)
{
    int64_t now = world.open ? machine_now() : 0;
    if (world.open && now - sim_now() > SIM_MILLISECOND) {
        machine_poll(NULL, 0, 0);
        now = machine_now();
    }
    lua_pushnumber(L, (lua_Number)now / 1e9);
    return 1;
}

/*
 * world.poll({fd, …}, seconds) -> the readable fds, in their order. Sleeps until an fd is readable or the time is over.
 */
static int world_poll(lua_State *L)
{
    require_world(L);
    luaL_checktype(L, 1, LUA_TTABLE);
    struct pollfd fds[MOST_DESCRIPTORS];
    size_t count = lua_rawlen(L, 1);
    luaL_argcheck(L, count <= MOST_DESCRIPTORS, 1, "too many descriptors");
    for (size_t i = 0; i < count; i++) {
        lua_rawgeti(L, 1, (int)i + 1);
        fds[i] = (struct pollfd){.fd = (int)lua_tointeger(L, -1), .events = POLLIN};
        lua_pop(L, 1);
    }
    lua_Number seconds = luaL_checknumber(L, 2);
    machine_poll(fds, (nfds_t)count, (int)((seconds < LONGEST_SLEEP ? seconds : LONGEST_SLEEP) * 1000));
    lua_newtable(L);
    int readable = 0;
    for (size_t i = 0; i < count; i++) {
        if (fds[i].revents != 0) {
            lua_pushinteger(L, fds[i].fd);
            lua_rawseti(L, -2, ++readable);
        }
    }
    return 1;
}

/* world.preset(path, number): sets the number of the first sequential child of a node that is not created yet */
static int world_preset(lua_State *L)
{
    require_world(L);
    sim_preset_counter(luaL_checkstring(L, 1), (int32_t)luaL_checkinteger(L, 2));
    return 0;
}

/* world.reap(): deletes empty containers that have had children */
static int world_reap(lua_State *L)
{
    require_world(L);
    sim_reap_containers();
    sleep_until(sim_now() + 100 * SIM_MILLISECOND);
    return 0;
}

/* world.configure(text): sets what the servers say of their own configuration */
static int world_configure(lua_State *L)
{
    require_world(L);
    if (!sim_foreign_set(0, ZOO_CONFIG_NODE, luaL_checkstring(L, 1))) {
        return luaL_error(L, "the servers have no leader");
    }
    return 0;
}

/* --- servers ------------------------------------------------------------------------------------------------------- */

/* world.crash(server): stops a server abruptly */
static int world_crash(lua_State *L)
{
    sim_crash_server(server_argument(L, 1));
    return 0;
}

/* world.restart(server): starts a server again, with its data on disk */
static int world_restart(lua_State *L)
{
    sim_restart_server(server_argument(L, 1));
    return 0;
}

/* world.is_up(server) */
static int world_is_up(lua_State *L)
{
    lua_pushboolean(L, sim_server_up(server_argument(L, 1)));
    return 1;
}

/* world.leader() -> the number of the leader that serves, nil if there is none */
static int world_leader(lua_State *L)
{
    require_world(L);
    if (sim_leader() < 0) {
        return 0;
    }
    lua_pushinteger(L, sim_leader() + 1);
    return 1;
}

/*
 * world.reach(server, clients, servers): sets whether clients, and other servers, can reach the server. If not,
 * messages wait.
 */
static int world_reach(lua_State *L)
{
    int server = server_argument(L, 1);
    sim_set_network(-1, server, lua_toboolean(L, 2));
    for (int other = 0; other < world.options.servers; other++) {
        if (other != server) {
            sim_set_link(server, other, lua_toboolean(L, 3));
        }
    }
    return 0;
}

static void set_hex(lua_State *L, const char *name, int64_t value)
{
    char digits[17];
    snprintf(digits, sizeof digits, "%016" PRIx64, (uint64_t)value);
    lua_pushstring(L, digits);
    lua_setfield(L, -2, name);
}

/*
 * world.watches(server) -> a list of { path =, children = whether it is a watch on the children, session = }, one for
 * each watch
 */
static int world_watches(lua_State *L)
{
    int server = server_argument(L, 1);
    sim_watch_entry watch;
    lua_newtable(L);
    for (int i = 0; sim_watch_at(server, i, &watch); i++) {
        lua_createtable(L, 0, 3);
        lua_pushstring(L, watch.path);
        lua_setfield(L, -2, "path");
        lua_pushboolean(L, watch.children);
        lua_setfield(L, -2, "children");
        set_hex(L, "session", watch.session);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* world.last_zxid() -> the zxid of the last committed transaction, 16 hexadecimal digits */
static int world_last_zxid(lua_State *L)
{
    require_world(L);
    char digits[17];
    snprintf(digits, sizeof digits, "%016" PRIx64, (uint64_t)sim_last_zxid());
    lua_pushstring(L, digits);
    return 1;
}

/* world.end_session(id) -> true, or false if there was no such session. The id is 16 hexadecimal digits. */
static int world_end_session(lua_State *L)
{
    require_world(L);
    int64_t id = (int64_t)strtoull(luaL_checkstring(L, 1), NULL, 16);
    bool lived = sim_session_lives(id);
    int64_t until = sim_now() + PATIENCE;
    while (sim_session_lives(id) && sim_now() < until) {
        sim_foreign_expire(id);
        sleep_until(sim_now() + SIM_MILLISECOND);
    }
    lua_pushboolean(L, lived && !sim_session_lives(id));
    return 1;
}

/* --- observers ----------------------------------------------------------------------------------------------------- */

typedef enum {
    CREATE,
    DELETE,
    EXISTS,
    GET,
    SET,
    CHILDREN,
    SYNC
} operation;

/* An observer's request, and its result. */
typedef struct {
    operation kind;
    const char *path, *data;
    int length, mode;
    bool done;
    int rc;
    struct Stat stat;
} request;

typedef struct {
    zhandle_t *zh; /* NULL: closed */
    int caller;
    int64_t generation;
    lua_State *L; /* the state on which an answer is pushed */
    request asked;
} observer;

static void nobody_watches(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh, (void)type, (void)state, (void)path, (void)context;
}

/* One turn of the C client and of the world. */
static void take_turn(zhandle_t *zh)
{
    struct pollfd fd = {.fd = -1};
    int interest = 0;
    struct timeval most = {0, 0};
    if (zookeeper_interest(zh, &fd.fd, &interest, &most) != ZOK || fd.fd < 0) {
        sleep_until(sim_now() + SIM_MILLISECOND);
        return;
    }
    fd.events = (short)((interest & ZOOKEEPER_READ ? POLLIN : 0) | (interest & ZOOKEEPER_WRITE ? POLLOUT : 0));
    int64_t ms = (int64_t)most.tv_sec * 1000 + most.tv_usec / 1000;
    machine_poll(&fd, 1, ms < 1000 ? (int)ms + 1 : 1000);
    int events =
        (fd.revents & (POLLIN | POLLERR | POLLHUP) ? ZOOKEEPER_READ : 0) | (fd.revents & POLLOUT ? ZOOKEEPER_WRITE : 0);
    zookeeper_process(zh, events);
}

/* Waits until the observer has a session. Returns ZOK, ZSESSIONEXPIRED, or ZCONNECTIONLOSS if that takes too long. */
static int ensure_connected(zhandle_t *zh)
{
    int64_t until = sim_now() + PATIENCE;
    while (zoo_state(zh) != ZOO_CONNECTED_STATE) {
        if (zoo_state(zh) == ZOO_EXPIRED_SESSION_STATE) {
            return ZSESSIONEXPIRED;
        }
        if (sim_now() >= until) {
            return ZCONNECTIONLOSS;
        }
        take_turn(zh);
    }
    return ZOK;
}

/* Processes the events of the observer's connection since its last call. It takes no turns between its calls. */
static void catch_up(zhandle_t *zh)
{
    struct pollfd fd = {.fd = -1};
    int interest = 0;
    struct timeval most = {0, 0};
    while (zookeeper_interest(zh, &fd.fd, &interest, &most) == ZOK && (sim_poll(fd.fd, POLLIN) & POLLIN) != 0) {
        zookeeper_process(zh, ZOOKEEPER_READ);
    }
}

static request *answered(const void *data, int rc)
{
    observer *self = (observer *)(intptr_t)data;
    self->asked.done = true;
    self->asked.rc = rc;
    return &self->asked;
}

static void got_nothing(int rc, const void *data)
{
    answered(data, rc);
}

static void got_stat(int rc, const struct Stat *stat, const void *data)
{
    request *self = answered(data, rc);
    if (rc == ZOK) {
        self->stat = *stat;
    }
}

static void got_name(int rc, const char *path, const void *data)
{
    (void)path;
    answered(data, rc);
}

static void got_path(int rc, const char *path, const struct Stat *stat, const void *data)
{
    got_stat(rc, stat, data);
    if (rc == ZOK) {
        lua_pushstring(((const observer *)data)->L, path);
    }
}

static void got_data(int rc, const char *value, int length, const struct Stat *stat, const void *data)
{
    got_stat(rc, stat, data);
    if (rc == ZOK) {
        lua_pushlstring(((const observer *)data)->L, length > 0 ? value : "", length > 0 ? (size_t)length : 0);
    }
}

static void got_names(int rc, const struct String_vector *names, const void *data)
{
    lua_State *L = ((const observer *)data)->L;
    answered(data, rc);
    if (rc != ZOK) {
        return;
    }
    lua_createtable(L, names->count, 0);
    for (int i = 0; i < names->count; i++) {
        lua_pushstring(L, names->data[i]);
        lua_rawseti(L, -2, i + 1);
    }
}

static int send_request(observer *self)
{
    const request *asked = &self->asked;
    zhandle_t *zh = self->zh;
    switch (asked->kind) {
    case CREATE:
        return zoo_acreate2(zh, asked->path, asked->data, asked->length, &ZOO_OPEN_ACL_UNSAFE, asked->mode, got_path,
                            self);
    case DELETE:
        return zoo_adelete(zh, asked->path, -1, got_nothing, self);
    case EXISTS:
        return zoo_aexists(zh, asked->path, 0, got_stat, self);
    case GET:
        return zoo_aget(zh, asked->path, 0, got_data, self);
    case SET:
        return zoo_aset(zh, asked->path, asked->data, asked->length, -1, got_stat, self);
    case CHILDREN:
        return zoo_aget_children(zh, asked->path, 0, got_names, self);
    default:
        return zoo_async(zh, asked->path, got_name, self);
    }
}

/* Sends a request and waits for the answer. After ZOK the answer is on the stack and in self->asked.stat. */
static int ask(observer *self)
{
    catch_up(self->zh);
    int rc = ensure_connected(self->zh);
    if (rc == ZOK) {
        rc = send_request(self);
    }
    if (rc != ZOK) {
        return rc;
    }
    int64_t until = sim_now() + PATIENCE;
    while (!self->asked.done) {
        if (sim_now() >= until) { /* at the latest the loss of the connection answers the request */
            sim_reset_connections(self->caller);
            until += PATIENCE;
        }
        take_turn(self->zh);
    }
    return self->asked.rc;
}

static void set_number(lua_State *L, const char *name, int64_t value)
{
    zkl_push_integer(L, value);
    lua_setfield(L, -2, name);
}

static void push_stat(lua_State *L, const struct Stat *stat)
{
    lua_newtable(L);
    set_hex(L, "czxid", stat->czxid);
    set_hex(L, "mzxid", stat->mzxid);
    set_hex(L, "pzxid", stat->pzxid);
    set_hex(L, "ephemeralOwner", stat->ephemeralOwner);
    set_number(L, "ctime", stat->ctime);
    set_number(L, "mtime", stat->mtime);
    set_number(L, "version", stat->version);
    set_number(L, "cversion", stat->cversion);
    set_number(L, "aversion", stat->aversion);
    set_number(L, "dataLength", stat->dataLength);
    set_number(L, "numChildren", stat->numChildren);
}

static bool is_open(const observer *self)
{
    return self->zh != NULL && world.open && self->generation == world.generation;
}

static observer *check_observer(lua_State *L)
{
    observer *self = luaL_checkudata(L, 1, OBSERVER);
    if (!is_open(self)) {
        luaL_error(L, "this observer's world has ended, or it is closed");
    }
    return self;
}

/* observer:call(operation, path, data, mode) -> the result, and a stat | nil, the code of the error */
static int observer_call(lua_State *L)
{
    static const char *const names[] = {"create", "delete", "exists", "get", "set", "children", "sync", NULL};
    observer *self = check_observer(L);
    self->asked = (request){.kind = (operation)luaL_checkoption(L, 2, NULL, names), .path = luaL_checkstring(L, 3)};
    size_t length;
    self->asked.data = luaL_optlstring(L, 4, "", &length);
    self->asked.length = (int)length;
    self->asked.mode = (int)luaL_optinteger(L, 5, 0);
    self->L = L;
    lua_settop(L, 5);
    int rc = ask(self);
    if (rc != ZOK) {
        lua_pushnil(L);
        lua_pushinteger(L, rc == ZINVALIDSTATE ? ZSESSIONEXPIRED : rc);
        return 2;
    }
    if (lua_gettop(L) == 5) {
        lua_pushboolean(L, true);
    }
    push_stat(L, &self->asked.stat);
    return 2;
}

static void close_observer(observer *self)
{
    if (is_open(self)) {
        zookeeper_close(self->zh);
        is_taken[self->caller] = false;
    }
    self->zh = NULL;
}

/* observer:is_open() -> whether the observer is not closed, and its world has not ended */
static int observer_is_open(lua_State *L)
{
    lua_pushboolean(L, is_open(luaL_checkudata(L, 1, OBSERVER)));
    return 1;
}

/* observer:close() -> whether the session has ended */
static int observer_close(lua_State *L)
{
    observer *self = luaL_checkudata(L, 1, OBSERVER);
    if (!is_open(self)) {
        lua_pushboolean(L, true);
        return 1;
    }
    int64_t id = zoo_client_id(self->zh)->client_id;
    close_observer(self);
    int64_t until = sim_now() + PATIENCE;
    while (sim_session_lives(id) && sim_now() < until) {
        sleep_until(sim_now() + SIM_MILLISECOND);
    }
    lua_pushboolean(L, !sim_session_lives(id));
    return 1;
}

/* observer:disconnect(): breaks its connection */
static int observer_disconnect(lua_State *L)
{
    sim_reset_connections(check_observer(L)->caller);
    return 0;
}

/* observer:session() -> its id, 16 hexadecimal digits, and the session timeout in milliseconds */
static int observer_session(lua_State *L)
{
    observer *self = check_observer(L);
    char digits[17];
    snprintf(digits, sizeof digits, "%016" PRIx64, (uint64_t)zoo_client_id(self->zh)->client_id);
    lua_pushstring(L, digits);
    lua_pushinteger(L, zoo_recv_timeout(self->zh));
    return 2;
}

static int observer_collect(lua_State *L)
{
    close_observer(luaL_checkudata(L, 1, OBSERVER));
    return 0;
}

static const luaL_Reg observer_methods[] = {
    {"call", observer_call},
    {"close", observer_close},
    {"disconnect", observer_disconnect},
    {"is_open", observer_is_open},
    {"session", observer_session},
    {"__gc", observer_collect},
    {NULL, NULL},
};

/* world.observe(servers, timeout_ms) -> observer | nil, the code of the error */
static int world_observe(lua_State *L)
{
    require_world(L);
    const char *servers = luaL_checkstring(L, 1);
    int timeout = (int)luaL_checkinteger(L, 2);
    int caller = SIM_MAX_CALLERS - 1;
    while (caller >= MOST_FIBERS && is_taken[caller]) {
        caller--;
    }
    if (caller < MOST_FIBERS) {
        return luaL_error(L, "too many observers");
    }
    observer *self = lua_newuserdata(L, sizeof *self);
    *self = (observer){.caller = caller, .generation = world.generation};
    luaL_getmetatable(L, OBSERVER);
    lua_setmetatable(L, -2);
    sim_set_caller(caller);
    self->zh = zookeeper_init2(servers, nobody_watches, timeout, NULL, NULL, 0, NULL);
    if (self->zh == NULL) {
        return luaL_error(L, "no such servers: %s", servers);
    }
    is_taken[caller] = true;
    int rc = ensure_connected(self->zh);
    if (rc != ZOK) {
        close_observer(self);
        lua_pushnil(L);
        lua_pushinteger(L, rc);
        return 2;
    }
    return 1;
}

static const luaL_Reg functions[] = {
    {"begin", world_begin},     {"configure", world_configure},
    {"crash", world_crash},     {"end_session", world_end_session},
    {"finish", world_finish},   {"is_open", world_is_open},
    {"is_up", world_is_up},     {"leader", world_leader},
    {"now", world_now},         {"last_zxid", world_last_zxid},
    {"observe", world_observe}, {"poll", world_poll},
    {"preset", world_preset},   {"reach", world_reach},
    {"reap", world_reap},       {"restart", world_restart},
    {"watches", world_watches}, {NULL, NULL},
};

LUA_PUBLIC int luaopen_zklock_world(lua_State *L);

LUA_PUBLIC int luaopen_zklock_world(lua_State *L)
{
    if (luaL_newmetatable(L, OBSERVER)) {
        zkl_setfuncs(L, observer_methods);
        lua_pushvalue(L, -1);
        lua_setfield(L, -2, "__index");
    }
    lua_pop(L, 1);
    lua_newtable(L);
    zkl_setfuncs(L, functions);
    push_links(L);
    lua_setfield(L, -2, "links");
    return 1;
}
