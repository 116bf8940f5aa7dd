/* Fields of a table of arguments. */
#ifndef ZKLOCK_LUA_FIELD_H
#define ZKLOCK_LUA_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lua.h>

/*
 * `table` is the absolute index of the table. Metamethods are not used. All but push_field leave the stack as it was. A string is valid as
 * long as the table has it. Errors name the field.
 */

/* Pushes the value in a field. It stays reachable through the table. */
void push_field(lua_State *L, int table, const char *name);
/* Returns the string in a field, NULL if there is none. Sets `length` if there is one. */
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
