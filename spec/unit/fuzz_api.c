/*
 * fuzz_api: random programs over the Lua API, under libFuzzer.
 *
 * The binding, the client with its I/O thread, and the real C client run against fake_server. Its answers are correct here, except
 * for what the beginning of the input makes it do without a request: it hangs up, expires the session, deletes nodes, sets data.
 * fuzz_api.lua says what must be true of any program. Memory is checked when the Lua state is closed, once in a number of programs.
 */
#include "base/base.h"
#include "client/client.h"
#include "fake_server.h"
#include "os/os.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#define PROGRAMS_OF_A_STATE 200

#define PATIENCE (20 * ZKL_SECOND)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((visibility("default"))) const char *__asan_default_options(void);
int luaopen_zklock_core(lua_State *L);

/* The C client leaks the head of a packet that it was reading when the connection ended. Our own memory is counted. */
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static pthread_mutex_t server_mutex = PTHREAD_MUTEX_INITIALIZER;
static input nothing, mischief;
static lua_State *L;
static int programs;

static void *serve(void *argument)
{
    (void)argument;
    for (unsigned turn = 0;; turn++) {
        pthread_mutex_lock(&server_mutex);
        server_turn();
        if (turn % 64 == 0 && mischief.left >= 3) {
            server_act();
        }
        pthread_mutex_unlock(&server_mutex);
        server_wait(2);
    }
    return NULL;
}

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

static void start(void)
{
    static bool serving;
    char servers[64];
    snprintf(servers, sizeof servers, "127.0.0.1:%d", server_start());
    if (!serving) {
        pthread_t thread;
        server_begin(&mischief);
        server_reform();
        serving = pthread_create(&thread, NULL, serve, NULL) == 0;
    }
    L = luaL_newstate();
    luaL_openlibs(L);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    lua_pushcfunction(L, luaopen_zklock_core);
    lua_setfield(L, -2, "zklock.core");
    lua_pushstring(L, servers);
    lua_setglobal(L, "servers");
    if (luaL_dostring(L, "package.path = 'lua/?.lua;lua/?/init.lua;' .. package.path") != LUA_OK ||
        luaL_dofile(L, "spec/unit/fuzz_api.lua") != LUA_OK) {
        fail(lua_tostring(L, -1));
    }
    programs = 0;
}

static void call(const char *function, const char *text, size_t length)
{
    lua_settop(L, 0);
    lua_getglobal(L, function);
    lua_pushlstring(L, text, length);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
        fail(lua_tostring(L, -1));
    }
}

static void finish(void)
{
    call("finish", "", 0);
    lua_close(L);
    L = NULL;
    for (int64_t until = zkl_clock() + PATIENCE; zkl_memory_in_use() != 0;) {
        if (zkl_clock() > until) {
            fail("violated: all memory is given back");
        }
        usleep(1000);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (L == NULL) {
        start();
    }
    size_t acts = size > 0 ? data[0] % 16 : 0;
    acts = acts < size ? acts : size;
    pthread_mutex_lock(&server_mutex);
    mischief = (input){data, acts};
    pthread_mutex_unlock(&server_mutex);
    call("run", (const char *)data + acts, size - acts);
    pthread_mutex_lock(&server_mutex);
    mischief = nothing;
    pthread_mutex_unlock(&server_mutex);
    if (++programs == PROGRAMS_OF_A_STATE) {
        finish();
    }
    return 0;
}
