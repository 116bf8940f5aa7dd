/* The part of zklock.core for callers. */
#ifndef ZKLOCK_LUA_CALLER_H
#define ZKLOCK_LUA_CALLER_H

#include <lua.h>

/* Pushes the function core.caller. */
void push_core_caller(lua_State *L);

#endif
