/* The part of zklock.core for scopes: the acquisitions of one nginx request, which end with the request. */
#ifndef ZKLOCK_LUA_SCOPE_H
#define ZKLOCK_LUA_SCOPE_H

#include "lua_compat.h"

extern const luaL_Reg scope_methods[];

int core_scope(lua_State *L);
int scope_gc(lua_State *L);

#endif
