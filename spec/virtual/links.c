/*
 * links: the commands of links (sim_zookeeper.h, "Links") for Lua. The twin of the fault proxy calls them. The first
 * argument of each function is the link's number.
 */
#include <inttypes.h>
#include <stdio.h>

#include "links.h"
#include "lua/binding.h"
#include "sim_zookeeper.h"

static int link_argument(lua_State *L)
{
    return (int)luaL_checkinteger(L, 1);
}

/* An error of a command is a mistake in the spec, and is raised. */
static int done(lua_State *L, const char *problem)
{
    return problem == NULL ? 0 : luaL_error(L, "%s", problem);
}

/* Reads the servers' numbers, from 1, in the table at `index`. */
static int servers_argument(lua_State *L, int index, int *servers)
{
    luaL_checktype(L, index, LUA_TTABLE);
    int count = (int)lua_rawlen(L, index);
    luaL_argcheck(L, count >= 1 && count <= SIM_MAX_SERVERS, index, "one to three servers");
    for (int i = 0; i < count; i++) {
        lua_rawgeti(L, index, i + 1);
        servers[i] = (int)lua_tointeger(L, -1) - 1;
        lua_pop(L, 1);
    }
    return count;
}

/* begin({server, …}) -> the link's number */
static int link_begin(lua_State *L)
{
    int servers[SIM_MAX_SERVERS];
    int count = servers_argument(L, 1, servers);
    lua_pushinteger(L, sim_link_begin(servers, count));
    return 1;
}

static int link_end(lua_State *L)
{
    sim_link_end(link_argument(L));
    return 0;
}

static int link_cut(lua_State *L)
{
    return done(L, sim_link_cut(link_argument(L), luaL_optstring(L, 2, NULL)));
}

/* refuse(link, whether) */
static int link_refuse(lua_State *L)
{
    sim_link_refuse(link_argument(L), lua_toboolean(L, 2));
    return 0;
}

static int link_stall(lua_State *L)
{
    return done(L, sim_link_stall(link_argument(L), luaL_checkstring(L, 2)));
}

static int link_resume(lua_State *L)
{
    sim_link_resume(link_argument(L));
    return 0;
}

/* delay(link, milliseconds, which) */
static int link_delay(lua_State *L)
{
    return done(L, sim_link_delay(link_argument(L), (int64_t)luaL_checknumber(L, 2), luaL_optstring(L, 3, NULL)));
}

static int link_half_close(lua_State *L)
{
    return done(L, sim_link_half_close(link_argument(L), luaL_checkstring(L, 2)));
}

/* target(link, {server, …}) */
static int link_target(lua_State *L)
{
    int servers[SIM_MAX_SERVERS];
    int count = servers_argument(L, 2, servers);
    sim_link_target(link_argument(L), servers, count);
    return 0;
}

/* arm(link, kind, when, skip, how) */
static int link_arm(lua_State *L)
{
    return done(L, sim_link_arm(link_argument(L), luaL_checkstring(L, 2), luaL_checkstring(L, 3),
                                (int)luaL_optinteger(L, 4, 0), luaL_optstring(L, 5, NULL)));
}

static int link_disarm(lua_State *L)
{
    sim_link_disarm(link_argument(L));
    return 0;
}

/* caught(link) -> for example "create path=/a", nil if the trap has caught nothing yet */
static int link_caught(lua_State *L)
{
    lua_pushstring(L, sim_link_caught(link_argument(L)));
    return 1;
}

/* deny(link, kind, code, times) */
static int link_deny(lua_State *L)
{
    return done(L, sim_link_deny(link_argument(L), luaL_checkstring(L, 2), (int)luaL_checkinteger(L, 3),
                                 (int)luaL_optinteger(L, 4, -1)));
}

static int link_lack_containers(lua_State *L)
{
    sim_link_lack_containers(link_argument(L), (int)luaL_checkinteger(L, 2));
    return 0;
}

static int link_stamp(lua_State *L)
{
    sim_link_stamp(link_argument(L), (int64_t)luaL_checknumber(L, 2));
    return 0;
}

/* counts(link) -> a table of all counters, by name */
static int link_counts(lua_State *L)
{
    int number = link_argument(L);
    const char *name;
    lua_newtable(L);
    for (int i = 0; (name = sim_link_counted(i)) != NULL; i++) {
        zkl_push_integer(L, sim_link_count(number, name));
        lua_setfield(L, -2, name);
    }
    return 1;
}

static int link_reset_counts(lua_State *L)
{
    sim_link_reset_counts(link_argument(L));
    return 0;
}

/* session(link) -> id and password in hexadecimal digits, timeout in milliseconds; nil if there was no session */
static int link_session(lua_State *L)
{
    sim_link_session session;
    if (!sim_link_last_session(link_argument(L), &session)) {
        return 0;
    }
    char id[17], password[2 * sizeof session.password + 1];
    snprintf(id, sizeof id, "%016" PRIx64, (uint64_t)session.id);
    for (size_t i = 0; i < sizeof session.password; i++) {
        snprintf(password + 2 * i, 3, "%02x", (unsigned char)session.password[i]);
    }
    lua_pushstring(L, id);
    lua_pushstring(L, password);
    lua_pushinteger(L, session.timeout_ms);
    return 3;
}

/* status(link) -> connections, listening, stalled, trap */
static int link_status(lua_State *L)
{
    sim_link_status status = sim_link_state(link_argument(L));
    lua_pushinteger(L, status.connections);
    lua_pushboolean(L, status.listening);
    lua_pushstring(L, status.stalled);
    lua_pushstring(L, status.trap);
    return 4;
}

static const luaL_Reg functions[] = {
    {"begin", link_begin},
    {"end_link", link_end},
    {"cut", link_cut},
    {"refuse", link_refuse},
    {"stall", link_stall},
    {"resume", link_resume},
    {"delay", link_delay},
    {"half_close", link_half_close},
    {"target", link_target},
    {"arm", link_arm},
    {"disarm", link_disarm},
    {"caught", link_caught},
    {"deny", link_deny},
    {"lack_containers", link_lack_containers},
    {"stamp", link_stamp},
    {"counts", link_counts},
    {"reset_counts", link_reset_counts},
    {"session", link_session},
    {"status", link_status},
    {NULL, NULL},
};

void push_links(lua_State *L)
{
    lua_newtable(L);
    zkl_setfuncs(L, functions);
}
