/*
 * The part of zklock.core for coroutines: which of them calls, and for which owner (lua/zklock/lock/caller.lua); and their stacks,
 * for Lua 5.1. There a coroutine cannot yield across pcall, so waits run unprotected. After an error, other means must find what
 * such a wait has left behind.
 */
#include "binding.h"

#include <string.h>

/* --- callers ------------------------------------------------------------------------------------------------------- */

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

/* core.caller(callers, metatable) -> the function that finds the running coroutine's caller in the table, or makes it */
int core_caller(lua_State *L)
{
    lua_settop(L, 2);
    lua_pushcclosure(L, find_caller, 2);
    return 1;
}

/* --- stacks -------------------------------------------------------------------------------------------------------- */

/*
 * core.yieldable() -> whether the caller may yield, as far as its stack shows
 *
 * Returns false on the main thread, and below a C function (pcall, table.sort, …) or an iterator of a for loop. Lua 5.1
 * does not show metamethods on the stack: below one the result is true, but a yield raises. In later versions and
 * LuaJIT pcall can be yielded across, so they need not ask.
 */
int core_yieldable(lua_State *L)
{
    bool main = lua_pushthread(L) == 1;
    lua_Debug frame;
    for (int level = 1; !main && lua_getstack(L, level, &frame); level++) {
        lua_getinfo(L, "Sn", &frame);
        if (strcmp(frame.what, "C") == 0 || (frame.name != NULL && strcmp(frame.name, "(for generator)") == 0)) {
            lua_pushboolean(L, 0);
            return 1;
        }
    }
    lua_pushboolean(L, !main);
    return 1;
}

/* Whether a local variable of that frame of `thread` is the table at index 2 of `L`. */
static bool has_local(lua_State *L, lua_State *thread, const lua_Debug *frame)
{
    const void *wanted = lua_topointer(L, 2);
    for (int index = 1; lua_getlocal(thread, frame, index) != NULL; index++) {
        bool same = lua_topointer(thread, -1) == wanted;
        lua_pop(thread, 1);
        if (same) {
            return true;
        }
    }
    return false;
}

/*
 * core.stands_in(coroutine, table) -> whether a function that is still active in the coroutine has the table in a local
 * variable
 */
int core_stands_in(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTHREAD);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_State *thread = lua_tothread(L, 1);
    lua_Debug frame;
    bool found = false;
    if (thread != L && !lua_checkstack(thread, 1)) {
        found = true; /* memory is short: assume that it has */
    }
    for (int level = thread == L ? 1 : 0; !found && lua_getstack(thread, level, &frame); level++) {
        found = has_local(L, thread, &frame);
    }
    lua_pushboolean(L, found);
    return 1;
}
