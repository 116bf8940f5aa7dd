/* The part of zklock.core for meters, which measure the acquisitions of a group of locks. */
#include "lua_meter.h"

void set_count(lua_State *L, const char *name, int64_t value)
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
        set_count(L, "count", count);
        lua_rawseti(L, -2, i + 1);
    }
    set_count(L, "count", count);
    lua_pushnumber(L, seconds_of(sum));
    lua_setfield(L, -2, "sum");
    lua_setfield(L, -2, name);
}

int meter_gc(lua_State *L)
{
    zkl_meter **box = check_box(L, 1, METER_TYPE);
    zkl_meter_drop(*box);
    *box = NULL;
    return 0;
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
    set_count(L, "waiting", reading.waiting);
    set_count(L, "held", reading.held);
    set_histogram(L, "wait_time", reading.waits, zkl_wait_bounds, ZKL_WAIT_BUCKETS, reading.waited);
    set_histogram(L, "hold_time", reading.holds, zkl_hold_bounds, ZKL_HOLD_BUCKETS, reading.held_for);
    lua_createtable(L, 0, 3);
    set_count(L, "lost", reading.lost);
    set_count(L, "max_hold", reading.reached_max_hold);
    set_count(L, "closed", reading.closed);
    lua_setfield(L, -2, "losses");
    return 1;
}

const luaL_Reg meter_methods[] = {
    {"read", meter_read},
    {NULL, NULL},
};
