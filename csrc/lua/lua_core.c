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
#include "binding.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "lock/lock.h"
#include "nginx/nginx.h"

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

/* Pushes what is wrong with the path that is the argument. Returns 0 if nothing is. */
static int push_problem(lua_State *L, const char *(*find)(const char *path, size_t length))
{
    size_t length;
    const char *path = luaL_checklstring(L, 1, &length);
    const char *problem = find(path, length);
    if (problem == NULL) {
        return 0;
    }
    lua_pushstring(L, problem);
    return 1;
}

static int core_path_problem(lua_State *L)
{
    return push_problem(L, zkl_path_problem);
}

static int core_node_path_problem(lua_State *L)
{
    return push_problem(L, zkl_node_path_problem);
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
 * exist only if it was built with them. `zookeeper`: the version of the C client's headers that this module was built with.
 */
static int core_features(lua_State *L)
{
    lua_createtable(L, 0, 3);
    lua_pushliteral(L, ZOO_VERSION);
    lua_setfield(L, -2, "zookeeper");
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

/* --- alarms -------------------------------------------------------------------------------------------------------- */

/*
 * A file descriptor that becomes readable at a given time, for event loops that can wait for nothing but descriptors.
 *
 * The child of a fork gets another descriptor, which is made when it is first used. Otherwise parent and child would
 * share the kernel's timer.
 */
typedef struct alarm_clock {
    int fd;
    pid_t pid;
} alarm_clock;

static const char ALARM_TYPE[] = "zklock.alarm";

/* Forty years, in seconds. A later time is never. */
static const lua_Number LATEST = 1.25e9;

static void open_alarm(lua_State *L, alarm_clock *alarm)
{
    alarm->pid = getpid();
    alarm->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (alarm->fd < 0) {
        luaL_error(L, "no timer descriptor: %s", strerror(errno));
    }
}

static alarm_clock *check_alarm(lua_State *L)
{
    alarm_clock *alarm = luaL_checkudata(L, 1, ALARM_TYPE);
    if (alarm->pid != getpid()) {
        close(alarm->fd);
        alarm->fd = -1;
        open_alarm(L, alarm);
    }
    return alarm;
}

static int alarm_fd(lua_State *L)
{
    lua_pushinteger(L, check_alarm(L)->fd);
    return 1;
}

/* alarm:set(seconds): makes the descriptor readable after that time, until set is called again. math.huge: never. */
static int alarm_set(lua_State *L)
{
    const alarm_clock *alarm = check_alarm(L);
    lua_Number seconds = luaL_checknumber(L, 2);
    struct itimerspec spec = {0};
    if (seconds <= 0) {
        spec.it_value.tv_nsec = 1; /* all zeros would mean "never" */
    } else if (seconds < LATEST) {
        spec.it_value.tv_sec = (time_t)floor(seconds);
        spec.it_value.tv_nsec = (long)((seconds - floor(seconds)) * 1e9) + 1;
        if (spec.it_value.tv_nsec > 999999999) {
            spec.it_value.tv_nsec = 999999999;
        }
    }
    timerfd_settime(alarm->fd, 0, &spec, NULL);
    return 0;
}

static int alarm_gc(lua_State *L)
{
    alarm_clock *alarm = luaL_checkudata(L, 1, ALARM_TYPE);
    if (alarm->fd >= 0) {
        close(alarm->fd);
        alarm->fd = -1;
    }
    return 0;
}

static int core_alarm(lua_State *L)
{
    static const luaL_Reg methods[] = {{"fd", alarm_fd}, {"set", alarm_set}, {NULL, NULL}};
    alarm_clock *alarm = lua_newuserdata(L, sizeof *alarm);
    *alarm = (alarm_clock){.fd = -1};
    if (luaL_newmetatable(L, ALARM_TYPE)) {
        lua_pushcfunction(L, alarm_gc);
        lua_setfield(L, -2, "__gc");
        lua_newtable(L);
        zkl_setfuncs(L, methods);
        lua_setfield(L, -2, "__index");
    }
    lua_setmetatable(L, -2);
    open_alarm(L, alarm);
    return 1;
}

/* --- the module ---------------------------------------------------------------------------------------------------- */

static const method functions[] = {
    {"open", .function = core_open},
    {"acquire", .function = core_acquire},
    {"release", .function = core_release},
    {"lock_spec", .function = core_lock_spec},
    {"meter", .function = core_meter},
    {"now", .function = core_now},
    {"poll", .function = core_poll},
    {"path_problem", .function = core_path_problem},
    {"node_path_problem", .function = core_node_path_problem},
    {"node_name", .function = core_node_name},
    {"default_identity", .function = core_default_identity},
    {"others_may_read", .function = core_others_may_read},
    {"memory", .function = core_memory},
    {"alarm", .function = core_alarm},
    {"scope", .function = core_scope},
    {"yieldable", .function = core_yieldable},
    {"stands_in", .function = core_stands_in},
    {"caller", .function = core_caller},
    {"states", .function = core_states},
    {"features", .function = core_features},
    {.name = NULL},
};

/* The last upvalue of each function. */
typedef struct {
    const method *method;
    box_type type; /* of what has the method; for functions of the module it means nothing */
} bound_method;

static const bound_method *this_method(lua_State *L)
{
    return lua_touserdata(L, lua_upvalueindex(LAST_TYPE + 1));
}

static int call_with_client(lua_State *L)
{
    zkl_client *client = *(zkl_client **)check_box(L, 1, CLIENT_TYPE);
    if (client == NULL) {
        return luaL_error(L, "this client has been collected");
    }
    return zkl_client_forked(client) ? push_forked(L) : this_method(L)->method->with_client(L, client);
}

static int call_with_handle(lua_State *L)
{
    const bound_method *bound = this_method(L);
    return bound->method->with_handle(L, *(zkl_handle **)check_box(L, 1, bound->type));
}

static int call_with_view(lua_State *L)
{
    const bound_method *bound = this_method(L);
    zkl_handle *handle = *(zkl_handle **)check_box(L, 1, bound->type);
    if (handle != NULL && zkl_client_forked(zkl_handle_client(handle))) {
        return push_forked(L);
    }
    zkl_handle_view view = {.phase = ZKL_ACQUISITION_RELEASED, .settled = true, .code = ZKL_CANCELLED};
    if (handle != NULL) {
        zkl_handle_look(handle, &view);
    } else {
        snprintf(view.message, sizeof view.message, "it was collected");
    }
    return bound->method->with_view(L, handle, &view);
}

/* The finalizer of all types: drops the reference in the box. */
static int empty_box(lua_State *L)
{
    box_type type = this_method(L)->type;
    void **box = check_box(L, 1, type);
    void *object = *box;
    *box = NULL;
    if (object == NULL) {
        return 0;
    }
    switch (type) {
    case CLIENT_TYPE:
        zkl_client_release(object);
        break;
    case LOCK_SPEC_TYPE:
        zkl_lock_spec_drop(object);
        break;
    case ACQUISITION_TYPE:
    case QUESTION_TYPE:
    case OPERATION_TYPE:
        zkl_handle_release(object);
        break;
    case METER_TYPE:
        zkl_meter_drop(object);
        break;
    case SCOPE_TYPE:
        zkl_scope_release(object);
        break;
    }
    return 0;
}

/*
 * Sets fields of the table at the top to these functions. The types' metatables are on the stack from `types` on; they become
 * upvalues of the functions.
 */
static void set_functions(lua_State *L, int types, box_type type, const method *list)
{
    for (; list->name != NULL; list++) {
        for (int i = 0; i < LAST_TYPE; i++) {
            lua_pushvalue(L, types + i);
        }
        bound_method *bound = lua_newuserdata(L, sizeof *bound);
        *bound = (bound_method){.method = list, .type = type};
        lua_CFunction function = list->function != NULL      ? list->function
                                 : list->with_client != NULL ? call_with_client
                                 : list->with_handle != NULL ? call_with_handle
                                                             : call_with_view;
        lua_pushcclosure(L, function, LAST_TYPE + 1);
        lua_setfield(L, -2, list->name);
    }
}

/* `more`: further methods; NULL: none. */
static void fill_type(lua_State *L, int types, box_type type, const method *methods, const method *more)
{
    static const method finalizer[] = {{"__gc", .function = empty_box}, {.name = NULL}};
    lua_pushvalue(L, types + (int)type - 1);
    set_functions(L, types, type, finalizer);
    lua_newtable(L);
    set_functions(L, types, type, methods);
    if (more != NULL) {
        set_functions(L, types, type, more);
    }
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
    fill_type(L, types, CLIENT_TYPE, client_methods, NULL);
    fill_type(L, types, LOCK_SPEC_TYPE, lock_spec_methods, NULL);
    fill_type(L, types, ACQUISITION_TYPE, acquisition_methods, handle_methods);
    fill_type(L, types, QUESTION_TYPE, question_methods, handle_methods);
    fill_type(L, types, OPERATION_TYPE, operation_methods, handle_methods);
    fill_type(L, types, METER_TYPE, meter_methods, NULL);
    fill_type(L, types, SCOPE_TYPE, scope_methods, NULL);
    lua_newtable(L);
    set_functions(L, types, LAST_TYPE, functions);
    lua_pushliteral(L, ZKL_REVOKE);
    lua_setfield(L, -2, "REVOKE");
    lua_pushliteral(L, ZKL_FLAGS);
    lua_setfield(L, -2, "FLAGS");
    lua_pushliteral(L, ZKL_RESIZED);
    lua_setfield(L, -2, "RESIZED");
    zkl_push_integer(L, ZKL_SEQUENCE_WARN);
    lua_setfield(L, -2, "SEQUENCE_WARN");
    zkl_push_integer(L, ZKL_SEQUENCE_LIMIT);
    lua_setfield(L, -2, "SEQUENCE_LIMIT");
    return 1;
}
