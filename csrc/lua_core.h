/*
 * What the binding's files share with each other and with nobody else.
 *
 *   lua_core.c       the module, clients, claims and questions
 *   lua_operation.c  reads and writes of the program's own
 *   lua_alarm.c      a descriptor that becomes readable at a given time
 */
#ifndef ZKLOCK_LUA_CORE_H
#define ZKLOCK_LUA_CORE_H

#include "client.h"
#include "lua_compat.h"

/* How many results those are that push_forked leaves. */
#define FORKED 3

/* nil, message, code; returns their number */
int push_failure(lua_State *L, zkl_code code, const char *message);
void push_forked(lua_State *L);

/* The client that is the first argument; NULL, with the FORKED results pushed, in a child of the process that opened it. */
zkl_client *live_client(lua_State *L);

/* Makes the box first, so that a failure of Lua's memory loses no ticket. */
zkl_ticket **push_ticket_box(lua_State *L);
/* How many results: the box, or those of a failure when there is no ticket. */
int fill_ticket_box(lua_State *L, zkl_ticket **box, zkl_ticket *ticket);
/* The ticket that is the first argument and its news; NULL, with the FORKED results pushed, in a child of the process that
 * opened its client. */
zkl_ticket *look_at_ticket(lua_State *L, zkl_ticket_view *view);

/*
 * Reads the value at `index`: "open", "creator", "read", or an array of {scheme=, id=, perms=}. The strings stay Lua's, the
 * array is a userdata left on the stack: all valid while the arguments are.
 */
struct ACL_vector check_acl(lua_State *L, int index);

/* lua_operation.c -------------------------------------------------------------------------------------------------- */

int client_operate(lua_State *L);
int operation_take(lua_State *L);
int operation_event(lua_State *L);
int core_node_path_problem(lua_State *L);

/* lua_alarm.c ------------------------------------------------------------------------------------------------------ */

int core_alarm(lua_State *L);

#endif
