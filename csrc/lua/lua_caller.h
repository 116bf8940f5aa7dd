/* The part of zklock.core for callers. */
#ifndef ZKLOCK_LUA_CALLER_H
#define ZKLOCK_LUA_CALLER_H

#include <lua.h>

/* core.caller(callers, metatable) -> the function that finds the running coroutine's caller in the table, or makes it */
int core_caller(lua_State *L);

#endif
