/*
 * One source for Lua 5.1, 5.2, 5.3, 5.4 and LuaJIT 2.1: what the older ones lack.
 */
#ifndef ZKLOCK_LUA_COMPAT_H
#define ZKLOCK_LUA_COMPAT_H

#include <lauxlib.h>
#include <lua.h>

#if LUA_VERSION_NUM < 502
#define lua_rawlen(L, index) lua_objlen(L, index)
#ifndef luaL_newlib /* LuaJIT has this much of 5.2 */
#define luaL_setfuncs(L, functions, upvalues) luaL_register(L, NULL, functions)
#define luaL_newlib(L, functions) (lua_newtable(L), luaL_setfuncs(L, functions, 0))
#endif
#endif

/* An integer as Lua shows integers best: 5.3 and later have them, before that doubles hold 53 bits. */
#if LUA_VERSION_NUM >= 503
#define zkl_push_integer(L, value) lua_pushinteger(L, (lua_Integer)(value))
#else
#define zkl_push_integer(L, value) lua_pushnumber(L, (lua_Number)(value))
#endif

#endif
