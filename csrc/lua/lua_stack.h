/* The part of zklock.core that reads the stacks of coroutines. */
#ifndef ZKLOCK_LUA_STACK_H
#define ZKLOCK_LUA_STACK_H

#include <lua.h>

int core_yieldable(lua_State *L);
int core_stands_in(lua_State *L);

#endif
