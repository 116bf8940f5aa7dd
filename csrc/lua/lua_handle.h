/* The part of zklock.core for handles: what all types of handles have in common, acquisitions, and questions. */
#ifndef ZKLOCK_LUA_HANDLE_H
#define ZKLOCK_LUA_HANDLE_H

#include "lua_box.h"

extern const luaL_Reg acquisition_methods[];
extern const luaL_Reg question_methods[];

/*
 * Pushes a new, empty box for a handle of `type`. It is made before the handle, so that a handle is not lost if Lua
 * runs out of memory.
 */
zkl_handle **push_handle_box(lua_State *L, box_type type);
/*
 * Puts the handle into the box, which is at the top. Returns 1, the box. If the handle is NULL, pushes a failure
 * instead and returns 3.
 */
int fill_handle_box(lua_State *L, zkl_handle **box, zkl_handle *handle);

/*
 * Writes the handle that is the first argument to `handle`, NULL if it was collected, and its present state to `view`.
 * In a child of the process that opened the client, returns false and pushes the FORKED results. Raises unless the
 * handle is of `type`.
 */
bool look_at_handle(lua_State *L, box_type type, zkl_handle **handle, zkl_handle_view *view);

/* Methods of handles of any type. */
int handle_gc(lua_State *L);
int handle_id(lua_State *L);
int handle_done(lua_State *L);
int handle_cancel(lua_State *L);
int handle_limit(lua_State *L);
int core_release(lua_State *L);
int handle_call_owner(lua_State *L);

#endif
