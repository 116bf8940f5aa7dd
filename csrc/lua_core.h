/*
 * What the binding's files share with each other and with nobody else.
 *
 *   lua_core.c       the module and its functions
 *   lua_client.c     clients, and what is asked of them
 *   lua_terms.c      what a lock is, for all of its acquisitions
 *   lua_ticket.c     tickets: claims and questions, and what all kinds of tickets have in common
 *   lua_operation.c  tickets for reads and writes of the program's own
 *   lua_alarm.c      a descriptor that becomes readable at a given time
 *   lua_scope.c      the claims of one nginx request
 *   lua_stack.c      what the stack of a coroutine shows
 */
#ifndef ZKLOCK_LUA_CORE_H
#define ZKLOCK_LUA_CORE_H

#include <math.h>

#include "client.h"
#include "lua_compat.h"

/* --- types --------------------------------------------------------------------------------------------------------- */

/*
 * The types of userdata, each of which is a box for one pointer. Every function of the module has their metatables as its first
 * upvalues, in this order: to look one up in the registry by its name, as luaL_checkudata does, took a tenth of all instructions of acquiring and
 * releasing.
 */
typedef enum {
    CLIENT_TYPE = 1,
    TERMS_TYPE,
    /* Three types of tickets. A function for one type reads parts of a ticket that the others have not. */
    CLAIM_TYPE,
    QUESTION_TYPE, /* for contenders, and of a flush */
    OPERATION_TYPE,
    LAST_TYPE = OPERATION_TYPE
} box_type;

extern const char *const box_type_names[];

/* The box at `index` if it is of that type, else NULL. */
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

/* The box at `index`, which must be of that type. */
static inline void *check_box(lua_State *L, int index, box_type expected)
{
    void *box = look_for_box(L, index, expected);
    return box != NULL ? box : luaL_checkudata(L, index, box_type_names[expected]); /* raises */
}

/* A new, empty box of that type, on the stack. */
static inline void *push_box(lua_State *L, box_type type)
{
    void **box = lua_newuserdata(L, sizeof *box);
    *box = NULL;
    lua_pushvalue(L, lua_upvalueindex((int)type));
    lua_setmetatable(L, -2);
    return box;
}

/* --- times --------------------------------------------------------------------------------------------------------- */

/* 0 for what is not positive; ZKL_NEVER for what is beyond 64 bits. */
static inline int64_t nanoseconds_of(lua_Number seconds)
{
    return !(seconds > 0) ? 0 : seconds >= 9e9 ? ZKL_NEVER / 2 : (int64_t)(seconds * 1e9);
}

static inline lua_Number seconds_of(int64_t nanoseconds)
{
    return nanoseconds == ZKL_NEVER ? (lua_Number)HUGE_VAL : (lua_Number)nanoseconds / 1e9;
}

/* --- results ------------------------------------------------------------------------------------------------------- */

/* How many results those are that push_forked leaves. */
#define FORKED 3

/* nil, message, code; returns their number */
int push_failure(lua_State *L, zkl_code code, const char *message);
void push_forked(lua_State *L);

/* lua_client.c ----------------------------------------------------------------------------------------------------- */

extern const luaL_Reg client_methods[];
int client_gc(lua_State *L);
int core_open(lua_State *L);

/* The client that is the first argument; NULL, with the FORKED results pushed, in a child of the process that opened it. */
zkl_client *live_client(lua_State *L);

/* lua_terms.c ------------------------------------------------------------------------------------------------------ */

int terms_gc(lua_State *L);
int core_terms(lua_State *L);

/* The terms in the box at `index`. */
zkl_terms *check_terms(lua_State *L, int index);

/* An optional count at `index`. */
int32_t check_count(lua_State *L, int index);

/*
 * Reads the value at `index`: "open", "creator", "read", or an array of {scheme=, id=, perms=}. The strings stay Lua's, the
 * array is a userdata left on the stack: all valid while the arguments are.
 */
struct ACL_vector check_acl(lua_State *L, int index);

/* lua_ticket.c ----------------------------------------------------------------------------------------------------- */

extern const luaL_Reg claim_methods[];
extern const luaL_Reg question_methods[];

/* A new, empty box for a ticket of `type`. It is made before the ticket, so that a failure of Lua's memory loses no ticket. */
zkl_ticket **push_ticket_box(lua_State *L, box_type type);
/* How many results: the box, or those of a failure when there is no ticket. */
int fill_ticket_box(lua_State *L, zkl_ticket **box, zkl_ticket *ticket);

/* The ticket that is the first argument and its news; NULL, with the FORKED results pushed, in a child of the process that
 * opened its client. Raises unless the ticket is of `type`. */
zkl_ticket *look_at_ticket(lua_State *L, box_type type, zkl_ticket_view *view);

/* Methods of tickets of any type. */
int ticket_gc(lua_State *L);
int ticket_id(lua_State *L);
int ticket_done(lua_State *L);
int ticket_cancel(lua_State *L);

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
