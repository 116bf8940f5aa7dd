/* The part of zklock.core for callers (lua/zklock/lock/caller.lua): which coroutine calls, and for which owner. */
#include "lua_caller.h"

#include <stdbool.h>

#include "lua_compat.h"

/* The upvalues of find_caller, which are the arguments of core.caller. */
#define CALLERS lua_upvalueindex(1)     /* key -> the caller that was asked for last; the keys are weak */
#define WEAK_VALUES lua_upvalueindex(2) /* the metatable of callers */

static void set_value(lua_State *L, const char *name, int index)
{
    lua_pushvalue(L, index);
    lua_setfield(L, -2, name);
}

/* Whether the value at the top is a caller that stands for the thread at index 2. An owner may have several threads. */
static bool stands_for_thread(lua_State *L, bool owned)
{
    if (!owned || !lua_istable(L, -1)) {
        return lua_istable(L, -1);
    }
    lua_getfield(L, -1, "thread");
    bool same = lua_rawequal(L, -1, 2);
    lua_pop(L, 1);
    return same;
}

/* find(ask) -> the caller that stands for the running coroutine. `ask`: the adapter's function `owner`, or false. */
static int find_caller(lua_State *L)
{
    lua_settop(L, 1);
    if (lua_toboolean(L, 1)) {
        lua_call(L, 0, 1);
    }
    bool owned = lua_toboolean(L, 1);
    bool is_main = lua_pushthread(L) == 1;
    int key = owned ? 1 : 2;
    lua_pushvalue(L, key);
    lua_rawget(L, CALLERS);
    if (stands_for_thread(L, owned)) {
        return 1;
    }
    lua_createtable(L, 0, 4);
    set_value(L, "owner", 1);
    set_value(L, "thread", 2);
    set_value(L, "key", key);
    lua_pushboolean(L, is_main && !owned);
    lua_setfield(L, -2, "lasts");
    lua_pushvalue(L, WEAK_VALUES);
    lua_setmetatable(L, -2);
    lua_pushvalue(L, key);
    lua_pushvalue(L, -2);
    lua_rawset(L, CALLERS);
    return 1;
}

int core_caller(lua_State *L)
{
    lua_settop(L, 2);
    lua_pushcclosure(L, find_caller, 2);
    return 1;
}
