/* The part of zklock.core for scopes: the acquisitions of one nginx request, which end with the request. */
#include "binding.h"

#include <dlfcn.h>
#include <pthread.h>

#include "nginx/nginx.h"

static zkl_scope *check_scope(lua_State *L)
{
    zkl_scope *scope = *(zkl_scope **)check_box(L, 1, SCOPE_TYPE);
    if (scope == NULL) {
        luaL_error(L, "this scope has been collected");
    }
    return scope;
}

/* scope:add(acquisition): see zkl_scope_add */
static int scope_add(lua_State *L)
{
    zkl_scope *scope = check_scope(L);
    zkl_handle *handle = *(zkl_handle **)check_box(L, 2, ACQUISITION_TYPE);
    if (handle != NULL) { /* NULL: collected */
        zkl_scope_add(scope, handle);
    }
    return 0;
}

/* scope:remove(acquisition): takes it out of its scope, if it is in one */
static int scope_remove(lua_State *L)
{
    check_scope(L);
    zkl_handle *handle = *(zkl_handle **)check_box(L, 2, ACQUISITION_TYPE);
    if (handle != NULL) {
        zkl_group_remove(handle);
    }
    return 0;
}

/* Pushes the result of scope:context(). Returns 1. */
static int push_context(lua_State *L, const zkl_scope *scope)
{
    int32_t context;
    if (!zkl_scope_context(scope, &context)) {
        lua_pushnil(L);
    } else {
        lua_pushinteger(L, context);
    }
    return 1;
}

/*
 * scope:context() -> number that nginx's Lua module has for the request at present | nil: the request has ended
 *
 * The number changes when nginx redirects the request internally. Code that ran before the redirect does not go on
 * after it. The caller must have read ngx.ctx before the first call, or before core.scope: until then there is no such
 * number.
 */
static int scope_context(lua_State *L)
{
    return push_context(L, check_scope(L));
}

static struct {
    pthread_once_t once;
    void *(*get_exdata)(lua_State *L);
} luajit = {.once = PTHREAD_ONCE_INIT};

static void look_up_lua(void)
{
    *(void **)&luajit.get_exdata = dlsym(RTLD_DEFAULT, "lua_getexdata");
}

/*
 * scope:has(coroutine) -> whether the coroutine has yielded and still belongs to the request
 *
 * nginx's Lua module reuses coroutines for other requests if the LuaJIT is OpenResty's. Such a LuaJIT also knows the
 * request of a coroutine (lua_getexdata).
 */
static int scope_has(lua_State *L)
{
    const zkl_scope *scope = check_scope(L);
    luaL_checktype(L, 2, LUA_TTHREAD);
    lua_State *coroutine = lua_tothread(L, 2);
    pthread_once(&luajit.once, look_up_lua);
    bool has = zkl_scope_request(scope) != NULL && lua_status(coroutine) == LUA_YIELD;
    if (has && luajit.get_exdata != NULL) {
        has = luajit.get_exdata(coroutine) == zkl_scope_request(scope);
    }
    lua_pushboolean(L, has);
    return 1;
}

/*
 * core.scope(address of an nginx request, whether it is the stream module's) -> scope, the result of scope:context() | nil: scopes
 * are not possible here; see zkl_scope_open
 */
int core_scope(lua_State *L)
{
    void *request = (void *)(uintptr_t)luaL_checknumber(L, 1);
    zkl_scope **box = push_box(L, SCOPE_TYPE);
    *box = zkl_scope_open(request, lua_toboolean(L, 2));
    if (*box == NULL) {
        lua_pushnil(L);
        return 1;
    }
    return 1 + push_context(L, *box);
}

const method scope_methods[] = {
    {"add", .function = scope_add},
    {"remove", .function = scope_remove},
    {"context", .function = scope_context},
    {"has", .function = scope_has},
    {.name = NULL},
};
