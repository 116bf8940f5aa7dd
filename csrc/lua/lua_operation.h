/* The part of zklock.core for reads and writes of the program. */
#ifndef ZKLOCK_LUA_OPERATION_H
#define ZKLOCK_LUA_OPERATION_H

#include <lauxlib.h>
#include <lua.h>

extern const luaL_Reg operation_methods[];
int client_operate(lua_State *L);
int core_node_path_problem(lua_State *L);

#endif
