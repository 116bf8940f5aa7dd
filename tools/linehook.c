/*
 * linehook: records which lines of lua/zklock/ run, for tools/coverage.sh. A Lua module for any Lua. From the time at which it is
 * loaded it counts in all coroutines that are created, also in those that C creates. When the process ends it writes the result
 * into a new file in the directory $ZKLOCK_COVERAGE, a line like "zklock/lock.lua 17" each. A process that is killed writes
 * nothing. Also linked into simulate_lua, whose programs end without exit().
 *
 * In C, because a hook in Lua costs more than the lines that it counts: specs whose servers have timeouts failed under it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lua.h>

#define FILES 512
#define LINES 4096

/* The part of a chunk's name before this is the project's directory. */
static const char ROOT[] = "lua/zklock/";

static struct {
    char name[64];
    unsigned char ran[LINES];
} files[FILES];

static char directory[4096];

int luaopen_linehook(lua_State *lua);
void linehook_write(void);

static void count(lua_State *lua, lua_Debug *at)
{
    lua_getinfo(lua, "S", at);
    const char *name = at->source[0] == '@' ? strstr(at->source, ROOT) : NULL;
    if (name == NULL || at->currentline < 0) {
        return;
    }
    name += strlen("lua/");
    int i = 0;
    while (i < FILES && files[i].name[0] != '\0' && strcmp(files[i].name, name) != 0) {
        i++;
    }
    if (i == FILES || at->currentline >= LINES) {
        fprintf(stderr, "linehook: too many files, or lines in %s\n", name);
        abort();
    }
    if (files[i].name[0] == '\0') {
        snprintf(files[i].name, sizeof files[i].name, "%s", name);
    }
    files[i].ran[at->currentline] = 1;
}

/* The name differs from other processes' names, and from that of an earlier process with the same number. */
static FILE *open_report(void)
{
    char path[sizeof directory + 32];
    snprintf(path, sizeof path, "%s/%ld-XXXXXX", directory, (long)getpid());
    int fd = mkstemp(path);
    return fd >= 0 ? fdopen(fd, "w") : NULL;
}

void linehook_write(void)
{
    FILE *report = files[0].name[0] != '\0' ? open_report() : NULL;
    if (report == NULL) {
        return;
    }
    for (int i = 0; i < FILES && files[i].name[0] != '\0'; i++) {
        for (int line = 0; line < LINES; line++) {
            if (files[i].ran[line]) {
                fprintf(report, "%s %d\n", files[i].name, line);
            }
        }
    }
    fclose(report);
}

static int count_on(lua_State *lua)
{
    lua_sethook(lua, count, LUA_MASKLINE, 0);
    return 0;
}

/* Code that LuaJIT has compiled calls no hooks, so the compiler is off. A program that removes its own hook gets this one back. */
static const char SET_UP[] = "local count_on, set = ..., debug.sethook\n"
                             "if jit then jit.off() jit.flush() end\n"
                             "debug.sethook = function(...)\n"
                             "    set(...)\n"
                             "    if select('#', ...) == 0 then count_on() end\n"
                             "end\n"
                             "count_on()\n";

int luaopen_linehook(lua_State *lua)
{
    const char *wanted = getenv("ZKLOCK_COVERAGE");
    if (wanted != NULL && directory[0] == '\0') {
        snprintf(directory, sizeof directory, "%s", wanted);
        atexit(linehook_write);
    }
    if (directory[0] == '\0') {
        return 0;
    }
    if (luaL_loadstring(lua, SET_UP) != 0) {
        return lua_error(lua);
    }
    lua_pushcfunction(lua, count_on);
    lua_call(lua, 1, 0);
    return 0;
}
