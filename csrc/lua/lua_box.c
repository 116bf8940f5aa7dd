/* Userdata of zklock.core, and what functions return that fail. */
#include "lua_box.h"

const char *const box_type_names[] = {
    [CLIENT_TYPE] = "zklock.client",
    [LOCK_SPEC_TYPE] = "zklock.lock_spec",
    [ACQUISITION_TYPE] = "zklock.acquisition",
    [QUESTION_TYPE] = "zklock.question",
    [OPERATION_TYPE] = "zklock.operation",
    [METER_TYPE] = "zklock.meter",
    [SCOPE_TYPE] = "zklock.scope",
};

int push_failure(lua_State *L, zkl_code code, const char *message)
{
    lua_pushnil(L);
    lua_pushstring(L, message);
    lua_pushstring(L, zkl_code_name(code));
    return 3;
}

void push_forked(lua_State *L)
{
    push_failure(L, ZKL_FORKED, "this client belongs to the parent process: connect anew after a fork");
}

zkl_client *live_client(lua_State *L)
{
    zkl_client *client = *(zkl_client **)check_box(L, 1, CLIENT_TYPE);
    if (client == NULL) {
        luaL_error(L, "this client has been collected");
        return NULL; /* not reached */
    }
    if (zkl_client_forked(client)) {
        push_forked(L);
        return NULL;
    }
    return client;
}
