/*
 * Scopes: the acquisitions of an nginx request end with it. nginx is simulated here: its functions, and the layout of a request
 * with the HTTP cache, without it, and an unknown layout. The tests need no server: the acquisitions wait for a connection.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../csrc/base/base.h"
#include "../../csrc/nginx/nginx.h"

#define PATIENCE_MS 30000

/* --- nginx --------------------------------------------------------------------------------------------------------- */

typedef struct cleanup cleanup;
struct cleanup {
    void (*handler)(void *data);
    void *data;
    cleanup *next;
};

/* A pool: its head, and then its only block, full. */
typedef struct pool pool;
struct pool {
    char *last, *end;
    pool *next;
    cleanup *cleanups;
    char memory[1024];
};

enum {
    SIGNATURE = 0x50545448,
    STREAM_SIGNATURE = 0x4d525453,
    PLACE_WITH_CACHE = 11,
    PLACE_WITHOUT_CACHE = 10,
    UNKNOWN_PLACE = 12,
    WORDS = 20
};

/* The only request: its first words, and its pool. */
static struct {
    void *words[WORDS];
    pool *first, *second;
} request;

static int context;

static void *allocate(pool *from, size_t size)
{
    void *memory = from->last;
    from->last += size;
    assert_true(from->last <= from->end);
    return memory;
}

static pool *new_pool(void)
{
    pool *made = calloc(1, sizeof *made);
    assert_non_null(made);
    made->last = made->memory;
    made->end = made->memory + sizeof made->memory;
    return made;
}

/* The first block of its pool is full: clean-up entries are allocated from the second. */
static void begin_request(int place)
{
    memset(&request, 0, sizeof request);
    request.first = new_pool();
    request.second = new_pool();
    request.first->next = request.second;
    const uint32_t signature = SIGNATURE;
    memcpy(request.words, &signature, sizeof signature);
    request.words[place] = request.first;
    request.words[place + 1] = &request; /* not a pool */
}

static void end_request(void)
{
    for (cleanup *entry = request.first->cleanups; entry != NULL; entry = entry->next) {
        if (entry->handler != NULL) {
            entry->handler(entry->data);
        }
    }
    free(request.first);
    free(request.second);
}

/* The only request of the stream module: its connection, its session, and its cleanup entries. */
static struct {
    void *connection;
    uint32_t *session;
    cleanup *cleanups;
} stream_request;

/* Scopes look up these functions at run time. */
#pragma GCC visibility push(default)

cleanup *ngx_http_cleanup_add(void *of, size_t size);
cleanup *ngx_pool_cleanup_add(pool *of, size_t size);
int ngx_http_lua_ffi_get_ctx_ref(void *of, int *in_ssl_phase, int *ssl_context);
cleanup *ngx_stream_lua_cleanup_add(void *of, size_t size);

cleanup *ngx_http_cleanup_add(void *of, size_t size)
{
    assert_ptr_equal(&request, of);
    assert_int_equal(0, size);
    cleanup *entry = allocate(request.second, sizeof *entry);
    *entry = (cleanup){0};
    return entry;
}

cleanup *ngx_pool_cleanup_add(pool *of, size_t size)
{
    assert_ptr_equal(request.first, of);
    assert_int_equal(0, size);
    cleanup *entry = allocate(request.second, sizeof *entry);
    *entry = (cleanup){.next = of->cleanups};
    of->cleanups = entry;
    return entry;
}

int ngx_http_lua_ffi_get_ctx_ref(void *of, int *in_ssl_phase, int *ssl_context)
{
    assert_ptr_equal(&request, of);
    assert_null(in_ssl_phase);
    assert_null(ssl_context);
    return context;
}

cleanup *ngx_stream_lua_cleanup_add(void *of, size_t size)
{
    assert_ptr_equal(&stream_request, of);
    assert_int_equal(0, size);
    cleanup *entry = calloc(1, sizeof *entry);
    assert_non_null(entry);
    entry->next = stream_request.cleanups;
    stream_request.cleanups = entry;
    return entry;
}

#pragma GCC visibility pop

/* --- acquisitions -------------------------------------------------------------------------------------------------- */

static zkl_client *new_client(void)
{
    char message[ZKL_MESSAGE_SIZE];
    const zkl_client_options options = {.servers = "127.0.0.1:1", .session_timeout_ms = 4000, .lease = true};
    zkl_client *client = zkl_client_open(&options, message, NULL);
    assert_non_null(client);
    return client;
}

static zkl_handle *new_acquisition(zkl_client *client)
{
    const zkl_lock lock = {
        .path = "/lock", .mode = ZKL_MODE_MUTEX, .permits = 1, .identity = "test", .acl = &ZOO_OPEN_ACL_UNSAFE};
    zkl_lock_spec *spec = zkl_lock_spec_new(&lock);
    assert_non_null(spec);
    const zkl_acquisition_request wanted = {.spec = spec, .count = 1};
    zkl_handle *acquisition = zkl_client_acquire(client, &wanted, NULL, 0);
    assert_non_null(acquisition);
    zkl_lock_spec_drop(spec);
    return acquisition;
}

/* Waits until an acquisition waits no more, and until its owner is notified. */
static void await_end(zkl_client *client, const zkl_handle *acquisition)
{
    uint64_t told = 0;
    while (zkl_handle_waits(acquisition) || told != zkl_handle_id(acquisition)) {
        struct pollfd notify_fd = {.fd = zkl_client_fd(client), .events = POLLIN};
        assert_int_equal(1, poll(&notify_fd, 1, PATIENCE_MS));
        bool changed;
        uint64_t next;
        while ((next = zkl_client_next(client, &changed)) != 0) {
            told = next == zkl_handle_id(acquisition) ? next : told;
        }
    }
}

/* When this returns, the client's thread has freed everything. */
static void close_client(zkl_client *client)
{
    char problem[ZKL_MESSAGE_SIZE];
    zkl_code code;
    zkl_client_close(client);
    while (zkl_client_state(client, problem, &code) != ZKL_STATE_CLOSED) {
        struct pollfd notify_fd = {.fd = zkl_client_fd(client), .events = POLLIN};
        poll(&notify_fd, 1, 100);
        bool changed;
        while (zkl_client_next(client, &changed) != 0) {
        }
    }
    zkl_client_join(client);
    zkl_client_release(client);
}

static void is_cancelled(zkl_handle *acquisition)
{
    zkl_handle_view view;
    zkl_handle_look(acquisition, &view);
    assert_int_equal(ZKL_CANCELLED, view.code);
}

/* --- tests --------------------------------------------------------------------------------------------------------- */

static void acquisitions_end_with_their_request(void **state)
{
    (void)state;
    begin_request(PLACE_WITH_CACHE);
    zkl_client *client = new_client();
    zkl_scope *scope = zkl_scope_open(&request, false);
    assert_non_null(scope);
    zkl_handle *acquisition = new_acquisition(client);
    zkl_handle *kept = new_acquisition(client);
    zkl_handle *released = new_acquisition(client);
    zkl_handle *dropped = new_acquisition(client);
    zkl_handle *const all[] = {acquisition, kept, released, dropped};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        zkl_scope_add(scope, all[i]);
        zkl_scope_add(scope, all[i]); /* has no effect the second time */
    }
    zkl_group_remove(kept);
    zkl_group_remove(kept);
    zkl_handle_end(released, 0);
    zkl_handle_release(released);
    zkl_handle_release(dropped);
    end_request();
    await_end(client, acquisition);
    is_cancelled(acquisition);
    assert_true(zkl_handle_waits(kept));
    assert_null(zkl_scope_request(scope));

    zkl_scope_add(scope, kept); /* ends at once */
    await_end(client, kept);
    is_cancelled(kept);
    zkl_handle_release(acquisition);
    zkl_handle_release(kept);
    zkl_scope_release(scope);
    close_client(client);
}

static void a_scope_goes_with_whoever_leaves_it_last(void **state)
{
    (void)state;
    int64_t before = zkl_memory_in_use();
    begin_request(PLACE_WITH_CACHE);
    zkl_scope *first = zkl_scope_open(&request, false);
    zkl_scope *second = zkl_scope_open(&request, false);
    assert_true(first != NULL && second != NULL);
    zkl_scope_release(first);
    end_request();
    zkl_scope_release(second);
    assert_int_equal(before, zkl_memory_in_use());
}

static void the_context_is_the_requests_until_it_ends(void **state)
{
    (void)state;
    begin_request(PLACE_WITH_CACHE);
    zkl_scope *scope = zkl_scope_open(&request, false);
    assert_non_null(scope);
    assert_ptr_equal(&request, zkl_scope_request(scope));
    int32_t seen;
    context = 5;
    assert_true(zkl_scope_context(scope, &seen));
    assert_int_equal(5, seen);
    context = -2;
    assert_true(zkl_scope_context(scope, &seen));
    assert_int_equal(-2, seen);
    end_request();
    assert_false(zkl_scope_context(scope, &seen));
    zkl_scope_release(scope);
}

/* Whether a request whose pool is at `place` has a scope. Tried in a separate process, which has seen no request before. */
static bool finds(int place)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        begin_request(place);
        zkl_scope *scope = zkl_scope_open(&request, false);
        _exit(scope == NULL ? 1 : zkl_scope_request(scope) == &request ? 0 : 2);
    }
    int status;
    assert_int_equal(child, waitpid(child, &status, 0));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
    return WEXITSTATUS(status) == 0;
}

static void a_pool_is_found_where_nginx_has_it_or_not_at_all(void **state)
{
    (void)state;
    assert_true(finds(PLACE_WITH_CACHE));
    assert_true(finds(PLACE_WITHOUT_CACHE));
    assert_false(finds(UNKNOWN_PLACE));
}

static void what_is_no_request_of_the_http_module_has_no_scope(void **state)
{
    (void)state;
    void *words[WORDS] = {0};
    assert_null(zkl_scope_open(words, false));
}

static void acquisitions_end_with_their_session_of_the_stream_module(void **state)
{
    (void)state;
    uint32_t session = STREAM_SIGNATURE;
    stream_request.session = &session;
    zkl_client *client = new_client();
    zkl_scope *scope = zkl_scope_open(&stream_request, true);
    assert_non_null(scope);
    zkl_handle *acquisition = new_acquisition(client);
    zkl_scope_add(scope, acquisition);
    int32_t seen;
    assert_true(zkl_scope_context(scope, &seen));
    cleanup *entry = stream_request.cleanups;
    assert_null(entry->next);
    entry->handler(entry->data);
    free(entry);
    await_end(client, acquisition);
    is_cancelled(acquisition);
    assert_false(zkl_scope_context(scope, &seen));
    zkl_handle_release(acquisition);
    zkl_scope_release(scope);
    close_client(client);

    session = SIGNATURE;
    assert_null(zkl_scope_open(&stream_request, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_is_found_where_nginx_has_it_or_not_at_all), /* before another test has found it */
        cmocka_unit_test(
            a_scope_goes_with_whoever_leaves_it_last), /* before a client's thread frees anything meanwhile */
        cmocka_unit_test(acquisitions_end_with_their_request),
        cmocka_unit_test(the_context_is_the_requests_until_it_ends),
        cmocka_unit_test(what_is_no_request_of_the_http_module_has_no_scope),
        cmocka_unit_test(acquisitions_end_with_their_session_of_the_stream_module),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
