/*
 * scope: the acquisitions of one nginx request, or one session of the stream module, which end with the request.
 *
 * A scope registers a cleanup handler with the request's memory pool, which nginx frees after the log phase, however the request
 * ended. A timer of nginx's Lua module has a pool, too. The handler ends the acquisitions in C: no Lua runs.
 *
 * Ownership and lifetime:
 *   - A scope has two references: that of the caller of zkl_scope_open, and nginx's until nginx has called the handler.
 *     The last reference frees the scope. nginx calls each handler exactly once, so nothing is left of a request that
 *     has ended.
 *   - A scope does not own its handles. A handle is in at most one scope, from zkl_scope_add until it leaves: when its
 *     owner ends it, when its owner drops its reference, or when the scope ends. So no handle in a scope has been
 *     freed.
 *   - `request` belongs to nginx. It is valid until the handler is called, and NULL afterwards.
 *
 * Thread: all functions here, and the handler, run on the thread of the nginx worker, as Lua does. A scope has no lock.
 * nginx calls the handler from its own code, never from within a function of this module. In the child of a fork
 * zkl_group_end sends nothing.
 *
 * nginx's headers are not needed, because its functions are looked up at run time. If they are missing, as in any other
 * program, zkl_scope_open returns NULL. This file relies on the layouts of the cleanup entries of requests and pools,
 * and of the first three fields of a pool. They have not changed since nginx 0.7. The place of the pool in a request
 * depends on how nginx was configured: find_place finds it, or finds nothing, but never a wrong place.
 *
 * In the stream module a request is what its Lua module keeps of a session: the connection and the session come first.
 * Its handlers are called when the session's pool is freed, so the pool need not be found.
 */
#include "nginx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/base.h"

struct zkl_scope {
    int32_t references;
    bool in_stream;
    void *request;
    struct zkl_handle_group handles;
};

/* --- nginx --------------------------------------------------------------------------------------------------------- */

/* The first fields of ngx_http_cleanup_t, ngx_pool_cleanup_t and ngx_stream_lua_cleanup_t. */
typedef struct {
    void (*handler)(void *data);
    void *data;
    void *next;
} nginx_cleanup;

/* The first fields of ngx_pool_data_t, with which ngx_pool_t and each further block of a pool begin. */
typedef struct nginx_block nginx_block;
struct nginx_block {
    char *last; /* the end of the allocated part */
    char *end;
    nginx_block *next;
};

/* The first fields of ngx_http_request_t and of ngx_stream_session_t. */
#define HTTP_SIGNATURE 0x50545448u
#define STREAM_SIGNATURE 0x4d525453u

/*
 * The place of the pool in a request, in pointers from its beginning: in an nginx with the HTTP cache, and without it.
 */
static const size_t pool_places[] = {11, 10};

static struct {
    pthread_once_t once;
    nginx_cleanup *(*add_to_request)(void *request, size_t size);
    nginx_cleanup *(*add_to_pool)(void *pool, size_t size);
    nginx_cleanup *(*add_to_session)(void *request, size_t size);
    int (*get_context)(void *request, int *in_ssl_phase, int *ssl_context);
    _Atomic size_t place; /* one of pool_places, 0 until it is known */
} nginx = {.once = PTHREAD_ONCE_INIT};

static void look_up_nginx(void)
{
    *(void **)&nginx.add_to_request = dlsym(RTLD_DEFAULT, "ngx_http_cleanup_add");
    *(void **)&nginx.add_to_pool = dlsym(RTLD_DEFAULT, "ngx_pool_cleanup_add");
    *(void **)&nginx.add_to_session = dlsym(RTLD_DEFAULT, "ngx_stream_lua_cleanup_add");
    *(void **)&nginx.get_context = dlsym(RTLD_DEFAULT, "ngx_http_lua_ffi_get_ctx_ref");
}

static void *pool_at(void *request, size_t place)
{
    return ((void **)request)[place];
}

/* Whether the latest allocation in one of the blocks of a pool ends at `end`. */
static bool ends_at(const nginx_block *block, const char *end)
{
    /* The word may not be a pointer at all. A block is aligned and is not in the first pages. */
    while ((uintptr_t)block > UINT16_MAX && (uintptr_t)block % sizeof(void *) == 0) {
        if (block->last == end) {
            return true;
        }
        block = block->next;
    }
    return false;
}

/*
 * Finds the place of the pool in a request. A request's cleanup entry is allocated from its pool, so one of the pool's
 * blocks must end where the entry ends. The entry stays without a handler, which nginx allows. Returns 0 if the place
 * is not found.
 */
static size_t find_place(void *request)
{
    const nginx_cleanup *entry = nginx.add_to_request(request, 0);
    for (size_t i = 0; entry != NULL && i < sizeof pool_places / sizeof pool_places[0]; i++) {
        if (ends_at(pool_at(request, pool_places[i]), (const char *)(entry + 1))) {
            return pool_places[i];
        }
    }
    return 0;
}

/* Returns the pool of a request, or NULL if it cannot be found. */
static void *find_pool(void *request)
{
    bool found = nginx.add_to_request != NULL && nginx.add_to_pool != NULL && nginx.get_context != NULL;
    if (!found || *(uint32_t *)request != HTTP_SIGNATURE) {
        return NULL;
    }
    size_t place = atomic_load(&nginx.place);
    if (place == 0) {
        place = find_place(request);
        atomic_store(&nginx.place, place);
    }
    return place != 0 ? pool_at(request, place) : NULL;
}

/* Returns a new cleanup entry of a request, or NULL. */
static nginx_cleanup *add_cleanup(void *request, bool in_stream)
{
    pthread_once(&nginx.once, look_up_nginx);
    if (in_stream) {
        const uint32_t *session = ((void **)request)[1];
        return nginx.add_to_session != NULL && *session == STREAM_SIGNATURE ? nginx.add_to_session(request, 0) : NULL;
    }
    void *pool = find_pool(request);
    return pool != NULL ? nginx.add_to_pool(pool, 0) : NULL;
}

/* --- scopes -------------------------------------------------------------------------------------------------------- */

void zkl_scope_release(zkl_scope *scope)
{
    if (--scope->references == 0) {
        zkl_free(scope);
    }
}

/* nginx's cleanup handler. */
static void end_scope(void *data)
{
    zkl_scope *scope = data;
    scope->request = NULL;
    zkl_group_end(&scope->handles);
    zkl_scope_release(scope);
}

zkl_scope *zkl_scope_open(void *request, bool in_stream)
{
    zkl_scope *scope = zkl_alloc(sizeof *scope);
    nginx_cleanup *cleanup = scope != NULL ? add_cleanup(request, in_stream) : NULL;
    if (cleanup == NULL) {
        zkl_free(scope);
        return NULL;
    }
    scope->references = 2;
    scope->in_stream = in_stream;
    scope->request = request;
    cleanup->data = scope;
    cleanup->handler = end_scope;
    return scope;
}

void *zkl_scope_request(const zkl_scope *scope)
{
    return scope->request;
}

bool zkl_scope_context(const zkl_scope *scope, int32_t *context)
{
    if (scope->request == NULL) {
        return false;
    }
    *context = scope->in_stream ? 0 : nginx.get_context(scope->request, NULL, NULL);
    return true;
}

void zkl_scope_add(zkl_scope *scope, zkl_handle *handle)
{
    zkl_group_add(&scope->handles, handle);
    if (scope->request == NULL) {
        zkl_group_end(&scope->handles); /* the request is over */
    }
}
