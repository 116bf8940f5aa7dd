/* Fields of a table of arguments. */
#include "lua_field.h"

#include <lauxlib.h>

const char *field_text(lua_State *L, int table, const char *name, size_t *length)
{
    lua_getfield(L, table, name);
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, length) : NULL;
    lua_pop(L, 1);
    return text;
}

bool field_flag(lua_State *L, int table, const char *name, bool otherwise)
{
    lua_getfield(L, table, name);
    bool flag = lua_isnil(L, -1) ? otherwise : (bool)lua_toboolean(L, -1);
    lua_pop(L, 1);
    return flag;
}

lua_Number field_number(lua_State *L, int table, const char *name, lua_Number otherwise)
{
    lua_getfield(L, table, name);
    lua_Number number = lua_isnil(L, -1) ? otherwise : luaL_checknumber(L, -1);
    lua_pop(L, 1);
    return number;
}

int field_choice(lua_State *L, int table, const char *name, const char *const names[])
{
    lua_getfield(L, table, name);
    int index = luaL_checkoption(L, -1, NULL, names);
    lua_pop(L, 1);
    return index;
}
