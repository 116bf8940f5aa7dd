/* The part of zklock.core for lock specs, the immutable settings of a lock, and for access control lists. */
#ifndef ZKLOCK_LUA_LOCK_SPEC_H
#define ZKLOCK_LUA_LOCK_SPEC_H

#include "lua_box.h"

extern const luaL_Reg lock_spec_methods[];

int lock_spec_gc(lua_State *L);
int core_lock_spec(lua_State *L);

/* Returns the lock spec in the box at `index`; raises if there is none. */
zkl_lock_spec *check_lock_spec(lua_State *L, int index);

/*
 * Reads the acl at `index`: "open", "creator", "read", or an array of {scheme=, id=, perms=}. Raises if it is none of
 * these. The strings belong to Lua, and the array is a userdata left on the stack: all are valid while the arguments
 * are.
 */
struct ACL_vector check_acl(lua_State *L, int index);

#endif
