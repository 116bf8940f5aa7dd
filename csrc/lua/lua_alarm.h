/* A file descriptor that becomes readable at a given time. */
#ifndef ZKLOCK_LUA_ALARM_H
#define ZKLOCK_LUA_ALARM_H

#include <lua.h>

int core_alarm(lua_State *L);

#endif
