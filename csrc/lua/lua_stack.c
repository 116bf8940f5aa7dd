/*
 * The part of zklock.core that reads the stacks of coroutines, for Lua 5.1. There a coroutine cannot yield across
 * pcall, so waits run unprotected. After an error, other means must find what such a wait has left behind.
 */
#include "lua_stack.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

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
