/* One source for Lua 5.1 to 5.5 and LuaJIT 2.1: replacements for what the older versions lack. */
#ifndef ZKLOCK_LUA_COMPAT_H
#define ZKLOCK_LUA_COMPAT_H

#include <lauxlib.h>
#include <lua.h>

/* LuaJIT has luaL_setfuncs, but Lua 5.1 has not. A module that is built for one of them works with both. */
#if LUA_VERSION_NUM < 502
#define lua_rawlen(L, index) lua_objlen(L, index)
#define zkl_setfuncs(L, functions) luaL_register(L, NULL, functions)
#else
#define zkl_setfuncs(L, functions) luaL_setfuncs(L, functions, 0)
#endif

/* From Lua 5.4 on, a userdata can have user values. Without them the collector has less to do. */
#if LUA_VERSION_NUM >= 504
#undef lua_newuserdata
#define lua_newuserdata(L, size) lua_newuserdatauv(L, size, 0)
#endif

/*
 * Pushes an integer in the best form that the Lua version has. Lua 5.3 and later have integers; before that, doubles
 * hold 53 bits.
 */
#if LUA_VERSION_NUM >= 503
#define zkl_push_integer(L, value) lua_pushinteger(L, (lua_Integer)(value))
#else
#define zkl_push_integer(L, value) lua_pushnumber(L, (lua_Number)(value))
#endif

#endif
