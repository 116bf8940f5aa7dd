/*
 * What the files of zklock.core share. All functions are for the thread that runs the Lua state.
 *
 *   lua_core.c       the module, and its functions that belong to no type of userdata
 *   lua_client.c     clients; acquiring
 *   lua_handle.c     what all types of handles have in common; acquisitions, flushes, timers; releasing
 *   lua_operation.c  reads and writes of the program
 *   lua_lock_spec.c  lock specs, access control lists, meters
 *   lua_scope.c      the acquisitions of one nginx request
 *   lua_coroutine.c  which coroutine calls, and whether it may yield
 *   lua_box.c        userdata, failures, fields of tables of arguments
 */
#ifndef ZKLOCK_LUA_BINDING_H
#define ZKLOCK_LUA_BINDING_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include <lauxlib.h>
#include <lua.h>

#include "client/client.h"

/* --- versions of Lua, from 5.1 to 5.5, and LuaJIT 2.1 --------------------------------------------------------------- */

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

/* Pushes nil, message, code. Returns 3. */
int push_failure(lua_State *L, zkl_code code, const char *message);
/* The same for a call in a child of the process that opened the client. */
int push_forked(lua_State *L);

/* --- methods ------------------------------------------------------------------------------------------------------- */

/*
 * A method of a type of userdata: one of the four functions. Lists of them end with an entry without a name.
 *
 * A box may be empty: Lua code can reach a userdata after its finalizer has run, because in that cycle weak tables keep their keys
 * (Lua 5.4 Reference Manual, 2.5.4). A handle of which that is true has ended, like one that was released.
 */
typedef struct {
    const char *name;
    lua_CFunction function;
    /* Its first argument is a client, which was not collected; after a fork, push_forked answers in its place. */
    int (*with_client)(lua_State *L, zkl_client *client);
    /* Its first argument is a handle of its type; NULL if it was collected. */
    int (*with_handle)(lua_State *L, zkl_handle *handle);
    /* The same, and the handle is in this state. After a fork, push_forked answers in its place. */
    int (*with_view)(lua_State *L, zkl_handle *handle, const zkl_handle_view *view);
} method;

extern const method client_methods[];
extern const method handle_methods[]; /* of handles of every type */
extern const method acquisition_methods[];
extern const method question_methods[];
extern const method operation_methods[];
extern const method lock_spec_methods[];
extern const method meter_methods[];
extern const method scope_methods[];

int client_operate(lua_State *L, zkl_client *client);

/* Functions of the module. */
int core_open(lua_State *L);
int core_acquire(lua_State *L);
int core_release(lua_State *L);
int core_lock_spec(lua_State *L);
int core_meter(lua_State *L);
int core_scope(lua_State *L);
int core_caller(lua_State *L);
int core_yieldable(lua_State *L);
int core_stands_in(lua_State *L);

/* --- what several files use ------------------------------------------------------------------------------------------ */

/*
 * Puts the handle into the box, which is at the top, and was made before the handle: so a handle is not lost if Lua runs out of memory.
 * Returns 1, the box. If the handle is NULL, pushes a failure instead and returns 3.
 */
int fill_handle_box(lua_State *L, zkl_handle **box, zkl_handle *handle);

/* Returns the lock spec in the box at `index`; raises if there is none. */
zkl_lock_spec *check_lock_spec(lua_State *L, int index);
/*
 * Reads the acl at `index`: "open", "creator", "read", or an array of {scheme=, id=, perms=}. Raises if it is none of
 * these. The strings belong to Lua, and the array is a userdata left on the stack: all are valid while the arguments
 * are.
 */
struct ACL_vector check_acl(lua_State *L, int index);

/* Sets field `name` of the table at the top to an integer. */
void set_integer(lua_State *L, const char *name, int64_t value);
/*
 * Sets field `name` of the table at the top to { count =, sum = seconds, { le = seconds, count = values that are no larger },
 * … }. `counts` are those of the `size` buckets with these upper bounds; `sum` and the bounds are in nanoseconds.
 */
void set_histogram(lua_State *L, const char *name, const int64_t *counts, const int64_t *bounds, int32_t size,
                   int64_t sum);

/* --- fields of tables of arguments --------------------------------------------------------------------------------- */

/*
 * `table` is the absolute index of the table. Metamethods are not used. All but push_field leave the stack as it was. A string is valid as
 * long as the table has it. Errors name the field.
 */

/* Pushes the value in a field. It stays reachable through the table. */
void push_field(lua_State *L, int table, const char *name);
/* Returns the string in a field, NULL if there is none. Sets `length`, which may be NULL, if there is one. */
const char *field_text(lua_State *L, int table, const char *name, size_t *length);
/* Returns whether the value in a field is neither nil nor false; `otherwise` if it is nil. */
bool field_flag(lua_State *L, int table, const char *name, bool otherwise);
/* Returns the number in a field, `otherwise` if it is nil. Raises if it is something else. */
lua_Number field_number(lua_State *L, int table, const char *name, lua_Number otherwise);
/* Returns the integer in a field, `otherwise` if it is nil. Raises if it is something else, or not from `least` to INT32_MAX. */
int32_t field_integer(lua_State *L, int table, const char *name, int32_t least, int32_t otherwise);
/* Returns the index in `names`, which ends with NULL, of the string in a field. Raises if it is none of these. */
int field_choice(lua_State *L, int table, const char *name, const char *const names[]);

#endif
