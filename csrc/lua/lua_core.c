/*
 * zklock.core: the thin binding under lua/zklock/.
 *
 * Each userdata is a pointer to a refcounted C object. __gc drops the reference and sets the pointer to NULL. All
 * functions return at once, except core.poll and client:wait, which only adapters that may block call, and core.acquire
 * and core.release if the caller says for how long they may block. Arguments are checked here for type only. Values
 * that a user may pass are checked in lua/zklock/options.lua, which also words the messages.
 *
 * In the child of a fork every method returns nil, message, "forked" and touches nothing.
 */
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "lock/lock.h"
#include "lua_alarm.h"
#include "lua_box.h"
#include "lua_caller.h"
#include "lua_client.h"
#include "lua_handle.h"
#include "lua_lock_spec.h"
#include "lua_meter.h"
#include "lua_operation.h"
#include "lua_scope.h"
#include "lua_stack.h"

#define LUA_PUBLIC __attribute__((visibility("default")))

/* --- functions ----------------------------------------------------------------------------------------------------- */

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

/*
 * core.node_name(name of a child) -> "exclusive" | "shared" | "lease", sequence number, what the names of an acquisition's nodes have in
 * common or nil (zkl_node_acquisition) | nil: not a name of a lock recipe
 */
static int core_node_name(lua_State *L)
{
    static const char *const modes[] = {
        [ZKL_NODE_EXCLUSIVE] = "exclusive", [ZKL_NODE_SHARED] = "shared", [ZKL_NODE_LEASE] = "lease"};
    const char *name = luaL_checkstring(L, 1);
    zkl_node node = zkl_node_parse(name);
    if (node.kind == ZKL_NODE_STRANGER) {
        return 0;
    }
    lua_pushstring(L, modes[node.kind]);
    zkl_push_integer(L, node.sequence);
    size_t length;
    const char *acquisition = zkl_node_acquisition(name, &length);
    if (acquisition == NULL) {
        return 2;
    }
    lua_pushlstring(L, acquisition, length);
    return 3;
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

static _Atomic int64_t states;
static _Atomic pid_t counted_by;

/*
 * core.states(more) -> number: how many Lua states of this process have been counted, after `more` have been added.
 * Those that were counted before a fork are not among them.
 */
static int core_states(lua_State *L)
{
    int64_t more = (int64_t)luaL_checkinteger(L, 1);
    if (atomic_exchange(&counted_by, getpid()) != getpid()) {
        atomic_store(&states, 0);
    }
    zkl_push_integer(L, atomic_fetch_add(&states, more) + more);
    return 1;
}

/*
 * core.features() -> table {tls =, sasl =} of booleans: what the linked C client supports. Its TLS and SASL functions
 * exist only if it was built with them.
 */
static int core_features(lua_State *L)
{
    lua_createtable(L, 0, 2);
    lua_pushboolean(L, dlsym(RTLD_DEFAULT, "zookeeper_init_ssl") != NULL);
    lua_setfield(L, -2, "tls");
    lua_pushboolean(L, dlsym(RTLD_DEFAULT, "zookeeper_init_sasl") != NULL);
    lua_setfield(L, -2, "sasl");
    return 1;
}

/* core.others_may_read(path) -> whether users other than its owner may read the file; false if there is none */
static int core_others_may_read(lua_State *L)
{
    struct stat file;
    lua_pushboolean(L, stat(luaL_checkstring(L, 1), &file) == 0 && (file.st_mode & (S_IRGRP | S_IROTH)) != 0);
    return 1;
}

/* --- the module ---------------------------------------------------------------------------------------------------- */

static const luaL_Reg functions[] = {
    {"open", core_open},
    {"acquire", core_acquire},
    {"release", core_release},
    {"lock_spec", core_lock_spec},
    {"meter", core_meter},
    {"now", core_now},
    {"poll", core_poll},
    {"path_problem", core_path_problem},
    {"node_path_problem", core_node_path_problem},
    {"node_name", core_node_name},
    {"default_identity", core_default_identity},
    {"others_may_read", core_others_may_read},
    {"memory", core_memory},
    {"alarm", core_alarm},
    {"scope", core_scope},
    {"yieldable", core_yieldable},
    {"stands_in", core_stands_in},
    {"caller", core_caller},
    {"states", core_states},
    {"features", core_features},
    {NULL, NULL},
};

/*
 * Sets field `name` of the table at the top to the function. The types' metatables are on the stack from `types` on;
 * they become the function's upvalues.
 */
static void set_function(lua_State *L, int types, const char *name, lua_CFunction function)
{
    for (int i = 0; i < LAST_TYPE; i++) {
        lua_pushvalue(L, types + i);
    }
    lua_pushcclosure(L, function, LAST_TYPE);
    lua_setfield(L, -2, name);
}

/* Pushes a table of these functions. */
static void push_functions(lua_State *L, int types, const luaL_Reg *list)
{
    lua_newtable(L);
    for (; list->name != NULL; list++) {
        set_function(L, types, list->name, list->func);
    }
}

static void fill_type(lua_State *L, int types, box_type type, const luaL_Reg *methods, lua_CFunction gc)
{
    lua_pushvalue(L, types + (int)type - 1);
    set_function(L, types, "__gc", gc);
    push_functions(L, types, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}

/*
 * Keeps this module mapped until the process ends. lua_close unmaps C modules, but our threads may still be closing
 * sessions.
 */
static void pin(void)
{
    Dl_info info;
    if (dladdr((void *)(uintptr_t)pin, &info) != 0 && info.dli_fname != NULL) {
        dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    }
}

/* Raises an error if the C client that was found at run time is too old. */
static void check_client_library(lua_State *L)
{
    if (zoo_set_servers_resolution_delay == NULL) {
        Dl_info info = {0};
        dladdr((void *)(uintptr_t)zookeeper_init2, &info);
        luaL_error(L, "zklock needs the ZooKeeper C client 3.7 or later; %s is older",
                   info.dli_fname != NULL ? info.dli_fname : "libzookeeper_st");
    }
}

LUA_PUBLIC int luaopen_zklock_core(lua_State *L);

LUA_PUBLIC int luaopen_zklock_core(lua_State *L)
{
    check_client_library(L);
    pin();
    int types = lua_gettop(L) + 1;
    for (int type = CLIENT_TYPE; type <= LAST_TYPE; type++) {
        luaL_newmetatable(L, box_type_names[type]);
    }
    fill_type(L, types, CLIENT_TYPE, client_methods, client_gc);
    fill_type(L, types, LOCK_SPEC_TYPE, lock_spec_methods, lock_spec_gc);
    fill_type(L, types, ACQUISITION_TYPE, acquisition_methods, handle_gc);
    fill_type(L, types, QUESTION_TYPE, question_methods, handle_gc);
    fill_type(L, types, OPERATION_TYPE, operation_methods, handle_gc);
    fill_type(L, types, METER_TYPE, meter_methods, meter_gc);
    fill_type(L, types, SCOPE_TYPE, scope_methods, scope_gc);
    push_functions(L, types, functions);
    lua_pushliteral(L, ZKL_REVOKE);
    lua_setfield(L, -2, "REVOKE");
    zkl_push_integer(L, ZKL_SEQUENCE_WARN);
    lua_setfield(L, -2, "SEQUENCE_WARN");
    zkl_push_integer(L, ZKL_SEQUENCE_LIMIT);
    lua_setfield(L, -2, "SEQUENCE_LIMIT");
    return 1;
}
