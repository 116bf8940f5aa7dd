/*
 * Userdata of zklock.core, times, and what functions return that fail. All functions are for the thread that runs the Lua state, as
 * everywhere in csrc/lua.
 */
#ifndef ZKLOCK_LUA_BOX_H
#define ZKLOCK_LUA_BOX_H

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
    QUESTION_TYPE, /* for a flush, or a timer */
    OPERATION_TYPE,
    METER_TYPE,
    SCOPE_TYPE,
    LAST_TYPE = SCOPE_TYPE
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

/*
 * Returns the client that is the first argument. In a child of the process that opened the client, returns NULL and
 * pushes the FORKED results. Raises if the first argument is no client.
 */
zkl_client *live_client(lua_State *L);

#endif
