/* Fields of a table of arguments. */
#include "lua_field.h"

#include <string.h>

#include <lauxlib.h>

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
