/*
 * The client against a real server: many threads at one client, many clients at one path, closing in the middle of other work.
 *
 * Mainly for the sanitizers, which see every access here except those of the C client (its Debian library is not instrumented). Run
 * from the project's root. Starts a server with tools/zookeeper, unless ZOOKEEPER names one.
 */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../csrc/base/base.h"
#include "../../csrc/client/client.h"
#include "../../csrc/os/os.h"
#include "real_server.h"

#define PATIENCE (90 * ZKL_SECOND)

static zkl_client *open_client_for(int32_t session_timeout_ms)
{
    char message[ZKL_MESSAGE_SIZE];
    const zkl_client_options options = {
        .servers = servers, .session_timeout_ms = session_timeout_ms, .lease = true, .log = true};
    zkl_client *client = zkl_client_open(&options, message, NULL);
    assert_non_null(client);
    return client;
}

static zkl_client *open_client(void)
{
    return open_client_for(60000); /* a machine that is busy for seconds must not end leases */
}

/*
 * Waits for a notification: in turn by the descriptor, and by doing the client's own work meanwhile. Takes all notifications, so
 * that the descriptor becomes unreadable again.
 */
static void wait_for_notification_of(zkl_client *client, int ms)
{
    static _Atomic unsigned waits;
    if (atomic_fetch_add(&waits, 1) % 2 == 0) {
        struct pollfd fd = {.fd = zkl_client_fd(client), .events = POLLIN};
        poll(&fd, 1, ms);
    } else {
        zkl_client_wait(client, ms * (ZKL_SECOND / 1000));
    }
    bool changed;
    while (zkl_client_next(client, &changed) != 0) {
    }
}

static void wait_for_notification(zkl_client *client)
{
    wait_for_notification_of(client, 100);
}

#include "real_client.h" /* uses the functions above */

static zkl_lock_spec *spec_for(const char *path, int64_t linger)
{
    const zkl_lock lock = {.path = path,
                           .mode = ZKL_MODE_MUTEX,
                           .permits = 1,
                           .identity = "test",
                           .acl = &ZOO_OPEN_ACL_UNSAFE,
                           .linger = linger};
    zkl_lock_spec *spec = zkl_lock_spec_new(&lock);
    assert_non_null(spec);
    return spec;
}

static zkl_handle *acquisition_on(zkl_client *client, zkl_lock_spec *spec, bool try_only, int64_t patience)
{
    const zkl_acquisition_request request = {.spec = spec, .count = 1, .try_only = try_only};
    zkl_handle *handle = zkl_client_acquire(client, &request, NULL, patience);
    assert_non_null(handle);
    return handle;
}

static zkl_handle *acquire_blocking(zkl_client *client, const char *path, bool try_only, int64_t patience)
{
    zkl_lock_spec *spec = spec_for(path, 0);
    zkl_handle *handle = acquisition_on(client, spec, try_only, patience);
    zkl_lock_spec_drop(spec);
    return handle;
}

static zkl_handle *acquisition(zkl_client *client, const char *path, bool try_only)
{
    return acquire_blocking(client, path, try_only, 0);
}

/* `shared`: other threads wait at the same client and may take this handle's notification, so this thread does not sleep long. */
static zkl_handle_view wait_for_phase(zkl_handle *handle, bool shared)
{
    zkl_handle_view view;
    int64_t until = zkl_clock() + PATIENCE;
    for (zkl_handle_look(handle, &view); view.phase == ZKL_ACQUISITION_WAITING; zkl_handle_look(handle, &view)) {
        assert_true(zkl_clock() < until);
        wait_for_notification_of(zkl_handle_client(handle), shared ? 1 : 100);
    }
    return view;
}

static void wait_for_settled(zkl_handle *handle)
{
    zkl_handle_view view;
    int64_t until = zkl_clock() + PATIENCE;
    for (zkl_handle_look(handle, &view); !view.settled; zkl_handle_look(handle, &view)) {
        assert_true(zkl_clock() < until);
        wait_for_notification_of(zkl_handle_client(handle), 10);
    }
}

static zkl_handle *operate(zkl_client *client, const zkl_operation_request *request)
{
    zkl_handle *handle = zkl_client_operate(client, request);
    assert_non_null(handle);
    return handle;
}

static zkl_handle *list(zkl_client *client, const char *path)
{
    const zkl_operation_request request = {.kind = ZKL_OPERATION_CHILDREN, .path = path};
    return operate(client, &request);
}

static void grants_and_releases(void **state)
{
    (void)state;
    zkl_client *client = open_client();
    wait_for_state(client, ZKL_STATE_CONNECTED);
    char before[ZKL_TOKEN_SIZE] = "";
    for (int i = 0; i < 50; i++) {
        zkl_handle *handle = acquisition(client, "/unit/one", false);
        zkl_handle_view view = wait_for_phase(handle, false);
        assert_int_equal(view.phase, ZKL_ACQUISITION_GRANTED);
        assert_true(zkl_handle_held(handle));
        char token[ZKL_TOKEN_SIZE];
        zkl_token_format(view.token, token);
        assert_true(strcmp(token, before) > 0);
        memcpy(before, token, sizeof before);
        zkl_handle_end(handle, 0);
        wait_for_settled(handle);
        assert_false(zkl_handle_held(handle));
        zkl_handle_release(handle);
    }
    close_client(client);
}

static void blocks_until_it_is_decided(void **state)
{
    (void)state;
    zkl_client *client = open_client();
    wait_for_state(client, ZKL_STATE_CONNECTED);
    int blocked = 0, quiet = 0; /* how often each happened: the I/O thread may be using the engine, or be done sooner */
    for (int i = 0; i < 50; i++) {
        wait_for_notification_of(client, 0);
        zkl_handle *handle = acquire_blocking(client, "/unit/patient", false, PATIENCE);
        blocked += zkl_handle_held(handle);
        assert_int_equal(wait_for_phase(handle, false).phase, ZKL_ACQUISITION_GRANTED);
        zkl_handle *refused = acquire_blocking(client, "/unit/patient", true, PATIENCE);
        assert_int_equal(wait_for_phase(refused, false).phase, ZKL_ACQUISITION_REFUSED);
        zkl_handle *waiting = acquire_blocking(client, "/unit/patient", false, 1);
        assert_true(zkl_handle_waits(waiting));
        zkl_handle_end(waiting, 0);
        wait_for_settled(waiting);
        wait_for_notification_of(client, 0);
        zkl_handle_end(handle, PATIENCE);
        quiet += zkl_handle_settled(handle) && !zkl_client_has_notifications(client);
        wait_for_settled(handle);
        zkl_handle_release(waiting);
        zkl_handle_release(refused);
        zkl_handle_release(handle);
    }
    assert_true(blocked > 0);
    assert_true(quiet > 0);
    close_client(client);
}

typedef struct {
    zkl_client *client;
    _Atomic bool over;
} busybody;

/* Keeps the I/O thread at work: about half of the time it is using the engine. */
static void *keep_asking(void *argument)
{
    busybody *self = argument;
    while (!atomic_load(&self->over)) {
        zkl_handle *lists[8];
        for (int i = 0; i < 8; i++) {
            lists[i] = list(self->client, "/unit/lingering");
        }
        for (int i = 0; i < 8; i++) {
            wait_for_settled(lists[i]);
            zkl_handle_release(lists[i]);
        }
    }
    return NULL;
}

/*
 * A program that cannot wait, for example in nginx's log phase, tries for a lock that its client has. If the I/O thread was using
 * the engine at that moment, the try was left to that thread, and the program got the answer that it had to wait. The program
 * gives up after a tenth of a second, which counts only if the thread that has the engine was given a processor.
 */
static void has_at_once_what_it_has_already(void **state)
{
    (void)state;
    zkl_client *client = open_client_for(60000);
    wait_for_state(client, ZKL_STATE_CONNECTED);
    zkl_lock_spec *spec = spec_for("/unit/lingering", 600 * ZKL_SECOND);
    zkl_handle *first = acquisition_on(client, spec, false, 0);
    assert_int_equal(wait_for_phase(first, false).phase, ZKL_ACQUISITION_GRANTED);
    zkl_handle_end(first, 0);
    zkl_handle_release(first);
    busybody other = {.client = client};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, keep_asking, &other), 0);
    int held = 0, late = 0;
    for (int i = 0; i < 500; i++) {
        zkl_handle *handle = acquisition_on(client, spec, true, 0);
        int64_t began = zkl_clock();
        zkl_client_catch_up(client);
        bool has_it = zkl_handle_held(handle);
        held += has_it;
        late += !has_it && zkl_clock() - began >= ZKL_SECOND / 10;
        zkl_handle_end(handle, 0);
        zkl_handle_release(handle);
    }
    atomic_store(&other.over, true);
    pthread_join(thread, NULL);
    zkl_lock_spec_drop(spec);
    close_client(client);
    assert_int_equal(held + late, 500);
    assert_true(late < 100);
}

typedef struct {
    zkl_client *client;
    zkl_handle *held;
    const char *path;
} giver;

/* Releases a lock once a second contender has queued at `path`. */
static void *give_back(void *argument)
{
    giver *self = argument;
    int32_t count = 0;
    for (int64_t until = zkl_clock() + PATIENCE; count < 2 && zkl_clock() < until;) {
        zkl_handle *names = list(self->client, self->path);
        wait_for_settled(names);
        const zkl_operation_result *result = zkl_handle_operation_result(names);
        count = result != NULL ? result->name_count : 0;
        zkl_handle_release(names);
    }
    zkl_handle_release(self->held);
    return NULL;
}

static void is_not_blocked_when_there_are_other_notifications(void **state)
{
    (void)state;
    zkl_client *holder = open_client();
    zkl_client *client = open_client();
    zkl_handle *held = acquisition(holder, "/unit/other", false);
    zkl_handle *kept = acquisition(holder, "/unit/kept", false);
    assert_int_equal(wait_for_phase(held, false).phase, ZKL_ACQUISITION_GRANTED);
    assert_int_equal(wait_for_phase(kept, false).phase, ZKL_ACQUISITION_GRANTED);
    wait_for_state(client, ZKL_STATE_CONNECTED);
    zkl_handle *other = acquisition(client, "/unit/other", false);
    giver giving = {holder, held, "/unit/kept"};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, give_back, &giving), 0);
    zkl_handle *waiting = NULL;
    bool heard = false;
    for (int64_t until = zkl_clock() + PATIENCE; !heard;) { /* the notification may be of the state as well */
        assert_true(zkl_clock() < until);
        if (waiting != NULL) {
            zkl_handle_release(waiting);
        }
        waiting = acquire_blocking(client, "/unit/kept", false, PATIENCE);
        assert_true(zkl_handle_waits(waiting));
        bool changed;
        for (uint64_t id; (id = zkl_client_next(client, &changed)) != 0;) {
            heard = heard || id == zkl_handle_id(other);
        }
    }
    assert_true(zkl_handle_held(other));
    pthread_join(thread, NULL);
    zkl_handle_release(waiting);
    zkl_handle_release(other);
    zkl_handle_release(kept);
    close_client(client);
    close_client(holder);
}

typedef struct {
    zkl_client *client;
    _Atomic int *inside;
    int turns;
} worker;

/*
 * Cycles of acquire, hold, release. Every third is a try, every fifth is abandoned at once. Asserts nothing.
 */
static void *work(void *argument)
{
    worker *self = argument;
    for (int i = 0; i < 60; i++) {
        zkl_handle *handle = acquisition(self->client, "/unit/many", i % 3 == 2);
        if (i % 5 == 4) {
            zkl_handle_release(handle);
            continue;
        }
        if (wait_for_phase(handle, true).phase == ZKL_ACQUISITION_GRANTED && zkl_handle_held(handle)) {
            self->turns += atomic_fetch_add(self->inside, 1) == 0 ? 1 : -100000;
            atomic_fetch_sub(self->inside, 1);
        }
        zkl_handle_end(handle, 0);
        zkl_handle_release(handle);
    }
    return NULL;
}

static void threads_share_clients(void **state)
{
    (void)state;
    enum {
        CLIENTS = 3,
        THREADS = 9
    };
    _Atomic int inside = 0;
    zkl_client *clients[CLIENTS];
    pthread_t threads[THREADS];
    worker workers[THREADS];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = open_client();
    }
    for (int i = 0; i < CLIENTS; i++) {
        wait_for_state(clients[i], ZKL_STATE_CONNECTED);
    }
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){clients[i % CLIENTS], &inside, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(workers[i].turns > 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        zkl_handle *flush = zkl_client_flush(clients[i]);
        wait_for_settled(flush);
        zkl_handle_release(flush);
        assert_int_equal(zkl_client_stats(clients[i], NULL).entries, 0);
        close_client(clients[i]);
    }
}

static void closes_in_the_middle(void **state)
{
    (void)state;
    zkl_client *holder = open_client();
    zkl_client *waiter = open_client();
    zkl_handle *held = acquisition(holder, "/unit/middle", false);
    assert_int_equal(wait_for_phase(held, false).phase, ZKL_ACQUISITION_GRANTED);
    zkl_handle *waiting[20];
    for (int i = 0; i < 20; i++) {
        waiting[i] = acquisition(waiter, "/unit/middle", false);
    }
    zkl_handle *names = list(waiter, "/unit/middle");
    zkl_handle *timer = zkl_client_timer(waiter);
    zkl_handle *flush = zkl_client_flush(waiter);
    zkl_client_close(waiter);
    for (int i = 0; i < 20; i++) {
        zkl_handle_view view = wait_for_phase(waiting[i], false);
        assert_int_equal(view.phase, ZKL_ACQUISITION_REFUSED);
        assert_int_equal(view.code, ZKL_CLOSED);
    }
    wait_for_settled(names);
    wait_for_settled(timer);
    wait_for_settled(flush);
    close_client(waiter);
    for (int i = 0; i < 20; i++) {
        zkl_handle_release(waiting[i]); /* outlives its client's reference */
    }
    zkl_handle_release(names);
    zkl_handle_release(timer);
    zkl_handle_release(flush);
    assert_true(zkl_handle_held(held));
    close_client(holder);
    assert_false(zkl_handle_held(held));
    zkl_handle_release(held);
}

static void answers_after_the_close(void **state)
{
    (void)state;
    zkl_client *client = open_client();
    zkl_client_close(client);
    wait_for_state(client, ZKL_STATE_CLOSED);
    zkl_handle *handle = acquisition(client, "/unit/late", false);
    zkl_handle_view view = wait_for_phase(handle, false);
    assert_int_equal(view.code, ZKL_CLOSED);
    zkl_handle_release(handle);
    zkl_client_join(client);
    zkl_client_release(client);
}

/* A timer that was dropped before its end has no notification, and leaves nothing. */
static void wakes_by_a_timer(void **state)
{
    (void)state;
    zkl_client *client = open_client();
    zkl_handle *timer = zkl_client_timer(client);
    assert_non_null(timer);
    zkl_handle *dropped = zkl_client_timer(client);
    zkl_handle_limit(dropped, ZKL_SECOND / 100);
    zkl_handle_release(dropped);
    zkl_handle_limit(timer, ZKL_SECOND / 50);
    bool changed;
    uint64_t id = 0;
    for (int64_t until = zkl_clock() + PATIENCE; id == 0 && zkl_clock() < until;) {
        struct pollfd fd = {.fd = zkl_client_fd(client), .events = POLLIN};
        poll(&fd, 1, 100);
        id = zkl_client_next(client, &changed);
    }
    assert_true(id == zkl_handle_id(timer));
    assert_false(zkl_handle_settled(timer));
    zkl_handle_release(timer);
    close_client(client);
}

/* The child may use nothing and must damage nothing. */
/* Acquires and releases locks on `count` paths, some at a time, whose names begin with a letter. */
static void visit_paths(zkl_client *client, char letter, int count)
{
    enum {
        AT_ONCE = 50
    };
    zkl_handle *handles[AT_ONCE];
    for (int visited = 0; visited < count; visited += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++) {
            char path[32];
            snprintf(path, sizeof path, "/unit/%c%05d", letter, visited + i);
            handles[i] = acquisition(client, path, false);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            assert_int_equal(wait_for_phase(handles[i], false).phase, ZKL_ACQUISITION_GRANTED);
            zkl_handle_end(handles[i], 0);
            wait_for_settled(handles[i]);
            zkl_handle_release(handles[i]);
        }
    }
}

/* Knowledge of a path is kept after its use, for the next use; but only of a thousand paths, not of all that were ever used. */
static void forgets_paths_of_long_ago(void **state)
{
    (void)state;
    zkl_client *client = open_client();
    wait_for_state(client, ZKL_STATE_CONNECTED);
    visit_paths(client, 'a', 1100);
    int64_t before = zkl_memory_in_use();
    visit_paths(client, 'b', 1100);
    assert_true(zkl_memory_in_use() < before + INT64_C(1100) * 32); /* less than their names alone would take */
    close_client(client);
}

static void leaves_the_parent_alone_after_fork(void **state)
{
    (void)state;
    zkl_client *client = open_client();
    zkl_handle *handle = acquisition(client, "/unit/fork", false);
    assert_int_equal(wait_for_phase(handle, false).phase, ZKL_ACQUISITION_GRANTED);
    pid_t child = fork();
    if (child == 0) {
        bool right = zkl_client_forked(client) && !zkl_handle_held(handle);
        zkl_handle_end(handle, 0);
        zkl_handle_release(handle);
        zkl_client_release(client);
        _exit(right ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(zkl_handle_held(handle));
    zkl_handle_release(handle);
    close_client(client);
}

/* The handle's code, once it is answered. */
static zkl_code outcome(zkl_handle *handle)
{
    zkl_handle_view view;
    int64_t until = zkl_clock() + PATIENCE;
    for (zkl_handle_look(handle, &view); !view.settled; zkl_handle_look(handle, &view)) {
        if (zkl_clock() >= until) {
            return ZKL_TIMEOUT;
        }
        wait_for_notification_of(zkl_handle_client(handle), 1);
    }
    return view.code;
}

static zkl_code perform(zkl_client *client, const zkl_operation_request *request)
{
    zkl_handle *handle = operate(client, request);
    zkl_code code = outcome(handle);
    zkl_handle_release(handle);
    return code;
}

static const zkl_operation_request create_node = {
    .kind = ZKL_OPERATION_CREATE, .path = "/unit-operation", .data_length = -1, .acl = &ZOO_OPEN_ACL_UNSAFE};
static const zkl_operation_request write_node = {
    .kind = ZKL_OPERATION_SET, .path = "/unit-operation", .data = "some data", .data_length = 9, .version = -1};
static const zkl_operation_request watch_node = {.kind = ZKL_OPERATION_GET, .path = "/unit-operation", .watch = true};
static const zkl_operation_request list_node = {
    .kind = ZKL_OPERATION_CHILDREN, .path = "/unit-operation", .watch = true};

/* Reads with watches, writes, transactions. Some handles are dropped at once, some watches before they fire. Asserts nothing. */
static void *read_and_write(void *argument)
{
    worker *self = argument;
    const zkl_operation_request parts[] = {write_node, write_node};
    const zkl_operation_request multi = {.kind = ZKL_OPERATION_MULTI, .parts = parts, .part_count = 2};
    for (int i = 0; i < 60; i++) {
        zkl_handle *watched = operate(self->client, i % 2 == 0 ? &watch_node : &list_node);
        zkl_handle *written = operate(self->client, i % 3 == 0 ? &multi : &write_node);
        if (i % 5 != 4) {
            self->turns += outcome(watched) == ZKL_OK && outcome(written) == ZKL_OK;
            zkl_code code;
            (void)zkl_handle_event(watched, &code);
        }
        zkl_handle_end(watched, 0);
        zkl_handle_release(watched);
        zkl_handle_release(written);
    }
    return NULL;
}

static void threads_read_and_write(void **state)
{
    (void)state;
    enum {
        THREADS = 6
    };
    zkl_client *clients[2] = {open_client(), open_client()};
    wait_for_state(clients[0], ZKL_STATE_CONNECTED);
    wait_for_state(clients[1], ZKL_STATE_CONNECTED);
    assert_int_equal(perform(clients[0], &create_node), ZKL_OK);
    pthread_t threads[THREADS];
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){clients[i % 2], NULL, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, read_and_write, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].turns, 48);
    }
    close_client(clients[0]);
    close_client(clients[1]);
}

/* Whichever allocation fails, of the caller's or the I/O thread's: an answer comes, and no memory is leaked. */
static void answers_when_memory_is_short(void **state)
{
    (void)state;
    const zkl_operation_request parts[] = {
        write_node,
        {.kind = ZKL_OPERATION_CREATE,
         .path = "/unit-operation/n-",
         .data_length = -1,
         .flags = ZOO_EPHEMERAL_SEQUENTIAL,
         .acl = &ZOO_OPEN_ACL_UNSAFE},
    };
    const zkl_operation_request multi = {.kind = ZKL_OPERATION_MULTI, .parts = parts, .part_count = 2};
    const zkl_operation_request *requests[] = {&watch_node, &write_node, &list_node, &multi};
    zkl_client *client = open_client();
    wait_for_state(client, ZKL_STATE_CONNECTED);
    for (int64_t successes = 0; successes < 30; successes++) {
        for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
            zkl_memory_fail_after(successes);
            zkl_handle *handle = zkl_client_operate(client, requests[i]);
            zkl_code code = handle != NULL ? outcome(handle) : ZKL_FAILED;
            zkl_memory_fail_after(-1);
            assert_true(code == ZKL_OK || code == ZKL_FAILED);
            if (handle != NULL) {
                zkl_handle_release(handle);
            }
        }
    }
    assert_int_equal(perform(client, &write_node), ZKL_OK);
    close_client(client);
}

static void gives_all_memory_back(void **state)
{
    (void)state;
    assert_int_equal(zkl_memory_in_use(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grants_and_releases),
        cmocka_unit_test(threads_share_clients),
        cmocka_unit_test(closes_in_the_middle),
        cmocka_unit_test(answers_after_the_close),
        cmocka_unit_test(wakes_by_a_timer),
        cmocka_unit_test(leaves_the_parent_alone_after_fork),
        cmocka_unit_test(threads_read_and_write),
        cmocka_unit_test(answers_when_memory_is_short),
        cmocka_unit_test(blocks_until_it_is_decided),
        cmocka_unit_test(is_not_blocked_when_there_are_other_notifications),
        cmocka_unit_test(forgets_paths_of_long_ago),
        cmocka_unit_test(gives_all_memory_back),
        cmocka_unit_test(has_at_once_what_it_has_already),
    };
    return cmocka_run_group_tests_name("client", tests, start_server, stop_server);
}
