/* The part of zklock.core for meters, which measure the acquisitions of a group of locks. */
#ifndef ZKLOCK_LUA_METER_H
#define ZKLOCK_LUA_METER_H

#include "lua_box.h"

extern const luaL_Reg meter_methods[];

int meter_gc(lua_State *L);
int core_meter(lua_State *L);

/* Sets field `name` of the table at the top. */
void set_count(lua_State *L, const char *name, int64_t value);

/*
 * Sets field `name` of the table at the top to { count =, sum = seconds, { le = seconds, count = values that are no larger },
 * … }. `counts` are those of the `size` buckets with these upper bounds; `sum` and the bounds are in nanoseconds.
 */
void set_histogram(lua_State *L, const char *name, const int64_t *counts, const int64_t *bounds, int32_t size,
                   int64_t sum);

#endif
