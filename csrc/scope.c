/*
 * scope: the claims of one nginx request, which end with it.
 *
 * nginx keeps a list of cleanup handlers with each memory pool and calls them before it frees the pool. Each request, and each timer of
 * nginx's Lua module, has a pool, which nginx frees after the log phase, however the request ended. A scope registers such a
 * handler. The handler ends the claims in C: no Lua runs, and the Lua state need not exist any more.
 *
 * Ownership and lifetime:
 *   - A scope has two references: the caller's of zkl_scope_open, and nginx's until it has called the handler. The last one frees
 *     the scope. nginx calls each handler exactly once, so nothing is left of a request that has ended.
 *   - A scope does not own its tickets. A ticket is in one scope at most, from zkl_scope_add until it leaves: when its owner ends it,
 *     when its owner drops its reference, or when the scope ends. So no ticket in a scope has been freed.
 *   - `request` is nginx's. It is valid until the handler is called, and NULL afterwards.
 * Thread: all functions here, and the handler, run on the thread of the nginx worker, as Lua does. None of them takes a lock.
 * nginx calls the handler from its own code, never from within a function of this module.
 * In the child of a fork nothing is sent: zkl_ticket_cut sees to it.
 *
 * nginx's headers are not needed. Its functions are looked up at run time. Without them zkl_scope_open returns NULL, as it does in
 * any other program. The layouts that this file relies on are those of the cleanup entries of requests and pools, and of a
 * pool's first three fields; they have not changed since nginx 0.7. Where a request has its pool depends on how nginx was
 * configured: find_place finds it out, and finds nothing rather than a wrong place.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

#include "client_private.h"

struct zkl_scope {
    int32_t references;
    void *request;
    LIST_HEAD(, zkl_ticket) tickets;
};

/* --- nginx --------------------------------------------------------------------------------------------------------- */

/* ngx_http_cleanup_t and ngx_pool_cleanup_t begin so. */
typedef struct {
    void (*handler)(void *data);
    void *data;
    void *next;
} nginx_cleanup;

/* ngx_pool_data_t, which ngx_pool_t and each further block of a pool begin with. */
typedef struct nginx_block nginx_block;
struct nginx_block {
    char *last; /* the end of what is allocated */
    char *end;
    nginx_block *next;
};

/* ngx_http_request_t begins with it. */
#define NGINX_SIGNATURE 0x50545448u

/* Where a request has its pool, in pointers from its beginning: in an nginx with the HTTP cache, and in one without. */
static const size_t pool_places[] = {11, 10};

static struct {
    pthread_once_t once;
    nginx_cleanup *(*add_to_request)(void *request, size_t size);
    nginx_cleanup *(*add_to_pool)(void *pool, size_t size);
    int (*get_context)(void *request, int *in_ssl_phase, int *ssl_context);
    _Atomic size_t place; /* of pool_places, once it is known */
} nginx = {.once = PTHREAD_ONCE_INIT};

static void look_up(void)
{
    *(void **)&nginx.add_to_request = dlsym(RTLD_DEFAULT, "ngx_http_cleanup_add");
    *(void **)&nginx.add_to_pool = dlsym(RTLD_DEFAULT, "ngx_pool_cleanup_add");
    *(void **)&nginx.get_context = dlsym(RTLD_DEFAULT, "ngx_http_lua_ffi_get_ctx_ref");
}

static void *pool_at(void *request, size_t place)
{
    return ((void **)request)[place];
}

/* Whether the latest allocation of a pool, in one of its blocks, ends at `end`. */
static bool ends_at(const nginx_block *block, const char *end)
{
    /* The word may be no pointer at all. A block is aligned, and does not lie in the first pages. */
    while ((uintptr_t)block > UINT16_MAX && (uintptr_t)block % sizeof(void *) == 0) {
        if (block->last == end) {
            return true;
        }
        block = block->next;
    }
    return false;
}

/*
 * Finds out where requests have their pools: a request's cleanup entry is allocated from its pool, and so one of the pool's blocks
 * must end where the entry does. The entry stays without a handler, which nginx allows. 0: it cannot be found out.
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

/* The pool of a request; NULL: it cannot be found. */
static void *find_pool(void *request)
{
    pthread_once(&nginx.once, look_up);
    bool found = nginx.add_to_request != NULL && nginx.add_to_pool != NULL && nginx.get_context != NULL;
    if (!found || *(uint32_t *)request != NGINX_SIGNATURE) {
        return NULL;
    }
    size_t place = atomic_load(&nginx.place);
    if (place == 0) {
        place = find_place(request);
        atomic_store(&nginx.place, place);
    }
    return place != 0 ? pool_at(request, place) : NULL;
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
    zkl_ticket *ticket;
    scope->request = NULL;
    while ((ticket = LIST_FIRST(&scope->tickets)) != NULL) {
        zkl_scope_remove(ticket);
        zkl_ticket_cut(ticket);
    }
    zkl_scope_release(scope);
}

zkl_scope *zkl_scope_open(void *request)
{
    void *pool = find_pool(request);
    zkl_scope *scope = pool != NULL ? zkl_alloc(sizeof *scope) : NULL;
    nginx_cleanup *cleanup = scope != NULL ? nginx.add_to_pool(pool, 0) : NULL;
    if (cleanup == NULL) {
        zkl_free(scope);
        return NULL;
    }
    scope->references = 2;
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
    *context = nginx.get_context(scope->request, NULL, NULL);
    return true;
}

void zkl_scope_add(zkl_scope *scope, zkl_ticket *ticket)
{
    zkl_scope_remove(ticket);
    if (scope->request == NULL) {
        zkl_ticket_cut(ticket); /* the request is over */
        return;
    }
    ticket->scope = scope;
    LIST_INSERT_HEAD(&scope->tickets, ticket, in_scope);
}

void zkl_scope_remove(zkl_ticket *ticket)
{
    if (ticket->scope != NULL) {
        LIST_REMOVE(ticket, in_scope);
        ticket->scope = NULL;
    }
}
