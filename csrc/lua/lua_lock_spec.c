/* The part of zklock.core for lock specs, the immutable settings of a lock; for access control lists; and for meters. */
#include "binding.h"

/* --- access control lists ------------------------------------------------------------------------------------------ */

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
        const int entry = lua_gettop(L);
        push_field(L, entry, "perms");
        push_field(L, entry, "scheme");
        push_field(L, entry, "id");
        luaL_argcheck(L, lua_isnumber(L, -3) && lua_type(L, -2) == LUA_TSTRING && lua_type(L, -1) == LUA_TSTRING, index,
                      "an entry of an acl has scheme (string), id (string) and perms (number)");
        entries[i].perms = (int32_t)lua_tointeger(L, -3);
        entries[i].id.scheme = (char *)(uintptr_t)lua_tostring(L, -2);
        entries[i].id.id = (char *)(uintptr_t)lua_tostring(L, -1);
        lua_pop(L, 4); /* the caller's table keeps the strings alive */
    }
    return (struct ACL_vector){.count = count, .data = entries};
}

/* --- lock specs ---------------------------------------------------------------------------------------------------- */

zkl_lock_spec *check_lock_spec(lua_State *L, int index)
{
    zkl_lock_spec *spec = *(zkl_lock_spec **)check_box(L, index, LOCK_SPEC_TYPE);
    luaL_argcheck(L, spec != NULL, index, "this lock spec has been collected");
    return spec;
}

/* Raises, for the argument at `index`, if a path is wrong. */
static void check_path(lua_State *L, int index, const char *path, size_t length)
{
    const char *problem = zkl_path_problem(path, length);
    luaL_argcheck(L, problem == NULL, index, problem);
}

/* Returns the path in the table that is the first argument. Raises if there is none, or a wrong one. */
static const char *path_field(lua_State *L)
{
    size_t length;
    const char *path = field_text(L, 1, "path", &length);
    luaL_argcheck(L, path != NULL, 1, "a lock spec needs a path");
    check_path(L, 1, path, length);
    return path;
}

static zkl_mode check_mode(lua_State *L)
{
    static const char *const names[] = {
        [ZKL_MODE_MUTEX] = "mutex",     [ZKL_MODE_READ] = "read",   [ZKL_MODE_WRITE] = "write",
        [ZKL_MODE_PERMITS] = "permits", [ZKL_MODE_LATCH] = "latch", [ZKL_MODE_COUNT] = "count",
        [ZKL_MODE_COUNT + 1] = NULL,
    };
    return (zkl_mode)field_choice(L, 1, "mode", names);
}

static int push_lock_spec(lua_State *L, const zkl_lock *lock)
{
    zkl_lock_spec **box = push_box(L, LOCK_SPEC_TYPE);
    *box = zkl_lock_spec_new(lock);
    return *box != NULL ? 1 : push_failure(L, ZKL_FAILED, "not enough memory");
}

/*
 * core.lock_spec{path =, mode =, identity =, acl =, max_hold =, revocable =, permits =, handoff =, linger =, meter =}
 *   -> lock spec | nil, message, code
 *
 * Makes a lock spec. `mode` is "mutex", "read", "write", "permits", "latch" or "count". `acl` is as in check_acl. `max_hold`
 * and `linger` are in seconds, 0 if missing. `permits` is the number of a semaphore's permits, or a latch's count, 1 if
 * missing. `handoff` is 0 if missing. `meter` measures the acquisitions. All lock specs of one meter must be for the same client.
 */
int core_lock_spec(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    const char *identity = field_text(L, 1, "identity", NULL);
    luaL_argcheck(L, identity != NULL, 1, "a lock spec needs an identity");
    zkl_mode mode = check_mode(L);
    bool is_latch = mode == ZKL_MODE_LATCH || mode == ZKL_MODE_COUNT;
    zkl_lock lock = {
        .path = path_field(L),
        .mode = mode,
        .identity = identity,
        .max_hold = nanoseconds_of(field_number(L, 1, "max_hold", 0)),
        .revocable = field_flag(L, 1, "revocable", false),
        .permits = field_integer(L, 1, "permits", is_latch ? 0 : 1, 1),
        .handoff = field_integer(L, 1, "handoff", 0, 0),
        .linger = nanoseconds_of(field_number(L, 1, "linger", 0)),
    };
    push_field(L, 1, "meter");
    lock.meter = lua_isnil(L, 2) ? NULL : *(zkl_meter **)check_box(L, 2, METER_TYPE);
    push_field(L, 1, "acl");
    struct ACL_vector acl = check_acl(L, 3);
    lock.acl = &acl;
    return push_lock_spec(L, &lock);
}

/*
 * spec:with_path(path) -> lock spec | nil, message, code
 *
 * Makes a lock spec that differs only in its path. Reading all settings again takes five times as long.
 */
static int lock_spec_with_path(lua_State *L)
{
    zkl_lock lock = *zkl_lock_spec_settings(check_lock_spec(L, 1));
    size_t length;
    lock.path = luaL_checklstring(L, 2, &length);
    check_path(L, 2, lock.path, length);
    return push_lock_spec(L, &lock);
}

const method lock_spec_methods[] = {{"with_path", .function = lock_spec_with_path}, {.name = NULL}};

/* --- meters: they measure the acquisitions of a group of locks ------------------------------------------------------- */

void set_integer(lua_State *L, const char *name, int64_t value)
{
    zkl_push_integer(L, value);
    lua_setfield(L, -2, name);
}

void set_histogram(lua_State *L, const char *name, const int64_t *counts, const int64_t *bounds, int32_t size,
                   int64_t sum)
{
    lua_createtable(L, size, 2);
    int64_t count = 0;
    for (int32_t i = 0; i < size; i++) {
        count += counts[i];
        lua_createtable(L, 0, 2);
        lua_pushnumber(L, seconds_of(bounds[i]));
        lua_setfield(L, -2, "le");
        set_integer(L, "count", count);
        lua_rawseti(L, -2, i + 1);
    }
    set_integer(L, "count", count);
    lua_pushnumber(L, seconds_of(sum));
    lua_setfield(L, -2, "sum");
    lua_setfield(L, -2, name);
}

/* core.meter() -> meter | nil, message, code */
int core_meter(lua_State *L)
{
    zkl_meter **box = push_box(L, METER_TYPE);
    *box = zkl_meter_new();
    return *box != NULL ? 1 : push_failure(L, ZKL_FAILED, "not enough memory");
}

/*
 * meter:read() -> { waiting =, held =, losses = { lost =, max_hold =, closed = }, wait_time =, hold_time = }, both times as in
 *   set_histogram
 */
static int meter_read(lua_State *L)
{
    const zkl_meter *meter = *(zkl_meter **)check_box(L, 1, METER_TYPE);
    luaL_argcheck(L, meter != NULL, 1, "this meter has been collected");
    zkl_meter_reading reading;
    zkl_meter_read(meter, &reading);
    lua_createtable(L, 0, 6);
    set_integer(L, "waiting", reading.waiting);
    set_integer(L, "held", reading.held);
    set_histogram(L, "wait_time", reading.waits, zkl_wait_bounds, ZKL_WAIT_BUCKETS, reading.waited);
    set_histogram(L, "hold_time", reading.holds, zkl_hold_bounds, ZKL_HOLD_BUCKETS, reading.held_for);
    lua_createtable(L, 0, 3);
    set_integer(L, "lost", reading.lost);
    set_integer(L, "max_hold", reading.reached_max_hold);
    set_integer(L, "closed", reading.closed);
    lua_setfield(L, -2, "losses");
    return 1;
}

const method meter_methods[] = {
    {"read", .function = meter_read},
    {.name = NULL},
};
