/* The part of zklock.core for scopes: the acquisitions of one nginx request, which end with the request. */
#ifndef ZKLOCK_LUA_SCOPE_H
#define ZKLOCK_LUA_SCOPE_H

#include <lua.h>

int core_scope(lua_State *L);

#endif
