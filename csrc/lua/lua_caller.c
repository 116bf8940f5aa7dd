/* The part of zklock.core for callers (lua/zklock/lock/caller.lua): which coroutine calls, and for which owner. */
#include "lua_caller.h"

#include <stdbool.h>

#include "lua_compat.h"

/* The upvalues of core_caller. */
#define CALLERS lua_upvalueindex(1)     /* key -> the caller that was asked for last; the keys are weak */
#define WEAK_VALUES lua_upvalueindex(2) /* a metatable */

static void push_weak_mode(lua_State *L, const char *mode)
{
    lua_createtable(L, 0, 1);
    lua_pushstring(L, mode);
    lua_setfield(L, -2, "__mode");
}

/* Returns the caller in CALLERS whose key is at `key`, if it stands for the thread at index 2; otherwise pops it. */
static bool find_caller(lua_State *L, int key)
{
    lua_pushvalue(L, key);
    lua_rawget(L, CALLERS);
    if (!lua_istable(L, -1)) {
        return false;
    }
    if (key == 2) {
        return true;
    }
    lua_getfield(L, -1, "thread"); /* another thread of the owner may have called last */
    bool same = lua_rawequal(L, -1, 2);
    lua_pop(L, 1);
    return same;
}

/*
 * core.caller(ask) -> the caller that stands for the running coroutine. `ask`: the adapter's function `owner`; false or nil: it has
 * none.
 */
static int core_caller(lua_State *L)
{
    lua_settop(L, 1);
    if (lua_toboolean(L, 1)) {
        lua_call(L, 0, 1);
    }
    bool is_main = lua_pushthread(L) == 1;
    int key = lua_toboolean(L, 1) ? 1 : 2;
    if (find_caller(L, key)) {
        return 1;
    }
    lua_createtable(L, 0, 4);
    lua_pushvalue(L, 2);
    lua_setfield(L, -2, "thread");
    lua_pushvalue(L, key);
    lua_setfield(L, -2, "key");
    lua_pushboolean(L, is_main && key == 2);
    lua_setfield(L, -2, "lasts");
    if (key == 1) {
        lua_pushvalue(L, 1);
    } else {
        lua_pushboolean(L, 0);
    }
    lua_setfield(L, -2, "owner");
    lua_pushvalue(L, WEAK_VALUES);
    lua_setmetatable(L, -2);
    lua_pushvalue(L, key);
    lua_pushvalue(L, -2);
    lua_rawset(L, CALLERS);
    return 1;
}

void push_core_caller(lua_State *L)
{
    lua_newtable(L);
    push_weak_mode(L, "k");
    lua_setmetatable(L, -2);
    push_weak_mode(L, "v");
    lua_pushcclosure(L, core_caller, 2);
}
