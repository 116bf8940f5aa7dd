/* Userdata of zklock.core, what functions return that fail, and fields of tables of arguments. */
#include "binding.h"

#include <string.h>

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

int push_forked(lua_State *L)
{
    return push_failure(L, ZKL_FORKED, "this client belongs to the parent process: connect anew after a fork");
}

/* --- fields -------------------------------------------------------------------------------------------------------- */

void push_field(lua_State *L, int table, const char *name)
{
    lua_pushstring(L, name);
    lua_rawget(L, table);
}

static void refuse_field(lua_State *L, int table, const char *name, const char *expected)
{
    luaL_argerror(L, table, lua_pushfstring(L, "%s: %s expected", name, expected));
}

const char *field_text(lua_State *L, int table, const char *name, size_t *length)
{
    push_field(L, table, name);
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, length) : NULL;
    lua_pop(L, 1);
    return text;
}

bool field_flag(lua_State *L, int table, const char *name, bool otherwise)
{
    push_field(L, table, name);
    bool flag = lua_isnil(L, -1) ? otherwise : (bool)lua_toboolean(L, -1);
    lua_pop(L, 1);
    return flag;
}

lua_Number field_number(lua_State *L, int table, const char *name, lua_Number otherwise)
{
    push_field(L, table, name);
    if (!lua_isnil(L, -1) && lua_type(L, -1) != LUA_TNUMBER) {
        refuse_field(L, table, name, "a number");
    }
    lua_Number number = lua_isnil(L, -1) ? otherwise : lua_tonumber(L, -1);
    lua_pop(L, 1);
    return number;
}

int32_t field_integer(lua_State *L, int table, const char *name, int32_t least, int32_t otherwise)
{
    lua_Number number = field_number(L, table, name, otherwise);
    if (!(number >= least && number <= INT32_MAX) || (lua_Number)(int32_t)number != number) {
        refuse_field(L, table, name, lua_pushfstring(L, "an integer from %d to %d", (int)least, (int)INT32_MAX));
    }
    return (int32_t)number;
}

int field_choice(lua_State *L, int table, const char *name, const char *const names[])
{
    const char *text = field_text(L, table, name, NULL);
    for (int index = 0; text != NULL && names[index] != NULL; index++) {
        if (strcmp(text, names[index]) == 0) {
            return index;
        }
    }
    luaL_Buffer list;
    luaL_buffinit(L, &list);
    for (int index = 0; names[index] != NULL; index++) {
        luaL_addstring(&list, index == 0 ? "one of " : ", ");
        luaL_addstring(&list, names[index]);
    }
    luaL_pushresult(&list);
    refuse_field(L, table, name, lua_tostring(L, -1));
    return -1;
}
