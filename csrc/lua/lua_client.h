/* The part of zklock.core for clients. */
#ifndef ZKLOCK_LUA_CLIENT_H
#define ZKLOCK_LUA_CLIENT_H

#include <lauxlib.h>
#include <lua.h>

extern const luaL_Reg client_methods[];
int client_gc(lua_State *L);
int core_open(lua_State *L);
int core_acquire(lua_State *L);

#endif
