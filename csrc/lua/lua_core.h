/*
 * Declarations that the binding's files share. No other file includes this header.
 *
 *   lua_core.c       the module and its functions
 *   lua_client.c     clients and their methods
 *   lua_lock_spec.c      lock specs: the immutable settings of a lock
 *   lua_handle.c     handles: acquisitions, questions, and what all types of handles have in common
 *   lua_operation.c  handles for reads and writes of the program
 *   lua_alarm.c      a descriptor that becomes readable at a given time
 *   lua_scope.c      the acquisitions of one nginx request
 *   lua_stack.c      what the stack of a coroutine shows
 */
#ifndef ZKLOCK_LUA_CORE_H
#define ZKLOCK_LUA_CORE_H

#include <math.h>

#include "client/client.h"
#include "lua_compat.h"

/* --- types --------------------------------------------------------------------------------------------------------- */

/*
 * The types of userdata. Each userdata is a box for one pointer. Every function of the module has the types' metatables
 * as its first upvalues, in this order. Looking up a metatable in the registry by its name, as luaL_checkudata does,
 * took a tenth of all instructions of acquiring and releasing.
 */
typedef enum {
    CLIENT_TYPE = 1,
    LOCK_SPEC_TYPE,
    /* Three types of handles. A function for one type reads parts of a handle that the other types do not have. */
    ACQUISITION_TYPE,
    QUESTION_TYPE, /* for contenders, or for a flush */
    OPERATION_TYPE,
    LAST_TYPE = OPERATION_TYPE
} box_type;

extern const char *const box_type_names[];

/* Returns the box at `index` if it is of that type, else NULL. Leaves the stack as it was. */
static inline void *look_for_box(lua_State *L, int index, box_type type)
{
    void *box = lua_touserdata(L, index);
    if (box == NULL || !lua_getmetatable(L, index)) {
        return NULL;
    }
    bool same = lua_rawequal(L, -1, lua_upvalueindex((int)type));
    lua_pop(L, 1);
    return same ? box : NULL;
}

/* Returns the box at `index`. Raises if it is not of that type. */
static inline void *check_box(lua_State *L, int index, box_type expected)
{
    void *box = look_for_box(L, index, expected);
    return box != NULL ? box : luaL_checkudata(L, index, box_type_names[expected]); /* raises */
}

/* Pushes a new, empty box of that type and returns it. Raises when memory is short. */
static inline void *push_box(lua_State *L, box_type type)
{
    void **box = lua_newuserdata(L, sizeof *box);
    *box = NULL;
    lua_pushvalue(L, lua_upvalueindex((int)type));
    lua_setmetatable(L, -2);
    return box;
}

/* --- times --------------------------------------------------------------------------------------------------------- */

/*
 * Converts seconds to nanoseconds. Returns 0 for values that are not positive, and ZKL_NEVER / 2 from 9e9 seconds on,
 * which do not fit into 64 bits.
 */
static inline int64_t nanoseconds_of(lua_Number seconds)
{
    return !(seconds > 0) ? 0 : seconds >= 9e9 ? ZKL_NEVER / 2 : (int64_t)(seconds * 1e9);
}

static inline lua_Number seconds_of(int64_t nanoseconds)
{
    return nanoseconds == ZKL_NEVER ? (lua_Number)HUGE_VAL : (lua_Number)nanoseconds / 1e9;
}

/* --- results ------------------------------------------------------------------------------------------------------- */

/* The number of results that push_forked pushes. */
#define FORKED 3

/* Pushes nil, message, code. Returns 3. */
int push_failure(lua_State *L, zkl_code code, const char *message);
void push_forked(lua_State *L);

/* lua_client.c ----------------------------------------------------------------------------------------------------- */

extern const luaL_Reg client_methods[];
int client_gc(lua_State *L);
int core_open(lua_State *L);

/*
 * Returns the client that is the first argument. In a child of the process that opened the client, returns NULL and
 * pushes the FORKED results.
 */
zkl_client *live_client(lua_State *L);

/* lua_lock_spec.c ------------------------------------------------------------------------------------------------------ */

int lock_spec_gc(lua_State *L);
int core_lock_spec(lua_State *L);

/* Returns the lock spec in the box at `index`; raises if there is none. */
zkl_lock_spec *check_lock_spec(lua_State *L, int index);

/* Returns the count at `index`, or 1 if there is none. Raises unless it is from 1 to 2147483647. */
int32_t check_count(lua_State *L, int index);

/*
 * Reads the acl at `index`: "open", "creator", "read", or an array of {scheme=, id=, perms=}. Raises if it is none of
 * these. The strings belong to Lua, and the array is a userdata left on the stack: all are valid while the arguments
 * are.
 */
struct ACL_vector check_acl(lua_State *L, int index);

/* lua_handle.c ----------------------------------------------------------------------------------------------------- */

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
 * Returns the handle that is the first argument, and its present state in `view`. In a child of the process that opened
 * the client, returns NULL and pushes the FORKED results. Raises unless the handle is of `type`.
 */
zkl_handle *look_at_handle(lua_State *L, box_type type, zkl_handle_view *view);

/* Methods of handles of any type. */
int handle_gc(lua_State *L);
int handle_id(lua_State *L);
int handle_done(lua_State *L);
int handle_cancel(lua_State *L);

/* lua_operation.c -------------------------------------------------------------------------------------------------- */

extern const luaL_Reg operation_methods[];
int client_operate(lua_State *L);
int core_node_path_problem(lua_State *L);

/* lua_alarm.c ------------------------------------------------------------------------------------------------------ */

int core_alarm(lua_State *L);

/* lua_scope.c ------------------------------------------------------------------------------------------------------ */

int core_scope(lua_State *L);

/* lua_stack.c ------------------------------------------------------------------------------------------------------ */

int core_yieldable(lua_State *L);
int core_stands_in(lua_State *L);

#endif
