/* links: the functions that world.c exports to Lua as world.links. */
#ifndef ZKLOCK_VIRTUAL_LINKS_H
#define ZKLOCK_VIRTUAL_LINKS_H

#include <lua.h>

/* Pushes a table of functions. */
void push_links(lua_State *L);

#endif
