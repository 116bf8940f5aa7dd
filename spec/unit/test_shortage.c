/*
 * The client when the system refuses something: each allocation from open to close, threads, pipes, sockets, descriptors. An error
 * is reported or the work continues, and nothing is left: no memory, no descriptor, no node.
 *
 * ZKLOCK_POINTS=all tries each allocation; otherwise some of them, and other ones whenever the number of points changes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "../../csrc/base/base.h"
#include "../../csrc/client/client.h"
#include "../../csrc/os/os.h"
#include "real_server.h"

#define PATIENCE (30 * ZKL_SECOND)
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* --- refusals, by the linker's --wrap ------------------------------------------------------------------------------------- */

static int pipes_left = -1, threads_left = -1;

int __real_pipe2(int ends[2], int flags);
int __wrap_pipe2(int ends[2], int flags);

int __wrap_pipe2(int ends[2], int flags)
{
    if (pipes_left == 0) {
        errno = EMFILE;
        return -1;
    }
    pipes_left -= pipes_left > 0;
    return __real_pipe2(ends, flags);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    return threads_left == 0 ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}

/* --- helpers --------------------------------------------------------------------------------------------------------- */

static int open_descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    assert_non_null(directory);
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count;
}

static zkl_client *open_client(char *message)
{
    const zkl_auth auth = {"digest", "user:password", 13};
    const zkl_client_options options = {
        .servers = servers, .session_timeout_ms = 30000, .lease = true, .log = true, .auths = &auth, .auth_count = 1};
    return zkl_client_open(&options, message, NULL);
}

static void wait_for_notification(zkl_client *client)
{
    struct pollfd fd = {.fd = zkl_client_fd(client), .events = POLLIN};
    poll(&fd, 1, 50);
    bool changed;
    while (zkl_client_next(client, &changed) != 0) {
    }
    char line[ZKL_MESSAGE_SIZE];
    while (zkl_client_next_log(client, line, sizeof line) != 0) {
    }
}

#include "real_client.h" /* uses the functions above */

/* Nothing is left of closed clients; their threads may still be about to end. */
static void assert_nothing_left(int64_t memory, int descriptors)
{
    for (int64_t until = zkl_clock() + PATIENCE; zkl_memory_in_use() != memory || open_descriptors() != descriptors;) {
        assert_true(zkl_clock() < until);
        poll(NULL, 0, 1);
    }
}

/* Returns `granted` or `refused`; no acquisition waits for ever. NULL: the acquisition could not be made. */
static zkl_acquisition_phase decided(zkl_handle *handle)
{
    zkl_handle_view view = {.phase = ZKL_ACQUISITION_REFUSED};
    if (handle == NULL) {
        return view.phase;
    }
    int64_t until = zkl_clock() + PATIENCE;
    for (zkl_handle_look(handle, &view); view.phase == ZKL_ACQUISITION_WAITING; zkl_handle_look(handle, &view)) {
        assert_true(zkl_clock() < until);
        wait_for_notification(zkl_handle_client(handle));
    }
    assert_true(view.phase == ZKL_ACQUISITION_GRANTED || (view.code != ZKL_OK && view.message[0] != '\0'));
    return view.phase;
}

static void settled(zkl_handle *handle)
{
    zkl_handle_view view = {.settled = true};
    int64_t until = zkl_clock() + PATIENCE;
    while (handle != NULL && (zkl_handle_look(handle, &view), !view.settled)) {
        assert_true(zkl_clock() < until);
        wait_for_notification(zkl_handle_client(handle));
    }
    if (handle != NULL) {
        zkl_handle_release(handle);
    }
}

static zkl_handle *acquisition(zkl_client *client, zkl_mode mode, zkl_handle *writer)
{
    static const char *const paths[] = {"/shortage/mutex",     "/shortage/rw",    "/shortage/rw",
                                        "/shortage/semaphore", "/shortage/latch", "/shortage/latch"};
    const zkl_lock lock = {.path = paths[mode],
                           .mode = mode,
                           .identity = "test",
                           .acl = &ZOO_OPEN_ACL_UNSAFE,
                           .permits = 3,
                           .handoff = 2,
                           .revocable = mode == ZKL_MODE_MUTEX,
                           .linger = mode == ZKL_MODE_MUTEX ? ZKL_SECOND / 100 : 0,
                           .max_hold = mode == ZKL_MODE_PERMITS ? 10 * ZKL_SECOND : 0};
    const zkl_acquisition_request request = {.spec = zkl_lock_spec_new(&lock), .count = 2};
    zkl_handle *handle = request.spec != NULL ? zkl_client_acquire(client, &request, writer, 0) : NULL;
    zkl_lock_spec_drop(request.spec);
    return handle;
}

/* --- every allocation ------------------------------------------------------------------------------------------------ */

static const zkl_operation_request read_node = {.kind = ZKL_OPERATION_GET, .path = "/shortage", .watch = true};
static const zkl_operation_request list_node = {.kind = ZKL_OPERATION_CHILDREN, .path = "/shortage", .watch = true};

/* One whole run: a client connects, acquires locks of every kind, one after another's and one downgraded, reads, writes, closes. */
static void live(void)
{
    char message[ZKL_MESSAGE_SIZE] = "";
    zkl_client *client = open_client(message);
    if (client == NULL) {
        assert_true(message[0] != '\0');
        return;
    }
    wait_for_state(client, ZKL_STATE_CONNECTED);
    zkl_handle *first = acquisition(client, ZKL_MODE_MUTEX, NULL);
    zkl_handle *second = acquisition(client, ZKL_MODE_MUTEX, NULL);
    decided(first);
    zkl_handle *timer = zkl_client_timer(client);
    if (first != NULL) {
        zkl_handle_end(first, 0);
    }
    decided(second);
    zkl_handle *writer = acquisition(client, ZKL_MODE_WRITE, NULL);
    zkl_handle *reader = decided(writer) == ZKL_ACQUISITION_GRANTED ? acquisition(client, ZKL_MODE_READ, writer) : NULL;
    decided(reader);
    zkl_handle *permits = acquisition(client, ZKL_MODE_PERMITS, NULL);
    decided(permits);
    zkl_handle *counted = acquisition(client, ZKL_MODE_COUNT, NULL);
    decided(counted);
    zkl_handle *waits = acquisition(client, ZKL_MODE_LATCH, NULL); /* ends with the client */
    const zkl_operation_request create_node = {.kind = ZKL_OPERATION_CREATE,
                                               .path = "/shortage/n-",
                                               .data = "some data",
                                               .data_length = 9,
                                               .flags = ZOO_EPHEMERAL_SEQUENTIAL,
                                               .acl = &ZOO_OPEN_ACL_UNSAFE};
    const zkl_operation_request parts[] = {create_node, create_node};
    const zkl_operation_request multi = {.kind = ZKL_OPERATION_MULTI, .parts = parts, .part_count = 2};
    const zkl_operation_request *requests[] = {&read_node, &list_node, &create_node, &multi};
    for (size_t i = 0; i < COUNT(requests); i++) {
        settled(zkl_client_operate(client, requests[i]));
    }
    zkl_handle *handles[] = {first, second, reader, writer, permits, counted, waits, timer};
    for (size_t i = 0; i < COUNT(handles); i++) {
        if (handles[i] != NULL) {
            zkl_handle_release(handles[i]);
        }
    }
    settled(zkl_client_flush(client));
    close_client(client);
}

static void lives_without_any_one_allocation(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 3, 20};
    live();
    int64_t memory = zkl_memory_in_use();
    int descriptors = open_descriptors();
    zkl_memory_fail_after(INT64_MAX);
    live();
    int64_t all = zkl_memory_attempts();
    int64_t points = points_to_try(60) < all ? points_to_try(60) : all;
    for (int64_t i = 0; i < points; i++) {
        int64_t length = lengths[(size_t)i % COUNT(lengths)];
        zkl_memory_fail_some(i * all / points, length);
        live();
        zkl_memory_fail_after(-1);
        assert_nothing_left(memory, descriptors);
    }
    print_message("%d of %d allocations of a life have failed\n", (int)points, (int)all);
}

/* A client that is told to use another name of its server does so in the end, whichever allocation fails. */
static void changes_servers_without_any_one_allocation(void **state)
{
    (void)state;
    int64_t memory = zkl_memory_in_use();
    int descriptors = open_descriptors();
    char named[sizeof servers + sizeof "localhost"];
    snprintf(named, sizeof named, "localhost%s", strrchr(servers, ':'));
    const char *const lists[] = {servers, named};
    const zkl_client_options options = {.servers = servers, .session_timeout_ms = 1000, .lease = true};
    char message[ZKL_MESSAGE_SIZE];
    zkl_client *client = zkl_client_open(&options, message, NULL);
    assert_non_null(client);
    wait_for_state(client, ZKL_STATE_CONNECTED);
    int64_t changes = 0;
    for (int64_t point = 0; point < 30; point++) {
        zkl_memory_fail_some(point, 1);
        bool set = zkl_client_set_servers(client, lists[(changes + 1) % 2]);
        changes += set;
        for (int64_t until = zkl_clock() + PATIENCE; zkl_client_stats(client, NULL).connections != 1 + changes;) {
            assert_true(zkl_clock() < until);
            wait_for_notification(client);
        }
        zkl_memory_fail_after(-1);
    }
    close_client(client);
    assert_nothing_left(memory, descriptors);
}

/* After all that no contender is left at any of the locks' paths. */
static void leaves_no_node(void **state)
{
    (void)state;
    char message[ZKL_MESSAGE_SIZE];
    zkl_client *client = open_client(message);
    assert_non_null(client);
    wait_for_state(client, ZKL_STATE_CONNECTED);
    static const char *const paths[] = {"/shortage/mutex", "/shortage/rw", "/shortage/semaphore/locks",
                                        "/shortage/semaphore/leases"};
    for (size_t i = 0; i < COUNT(paths); i++) {
        const zkl_operation_request list = {.kind = ZKL_OPERATION_CHILDREN, .path = paths[i]};
        zkl_handle *names = zkl_client_operate(client, &list);
        zkl_handle_view view;
        int64_t until = zkl_clock() + PATIENCE;
        while (zkl_handle_look(names, &view), !view.settled) {
            assert_true(zkl_clock() < until);
            wait_for_notification(client);
        }
        /* A directory that is empty may have been reaped. */
        assert_true(view.code == ZKL_OK || view.code == ZKL_NO_NODE);
        const zkl_operation_result *result = zkl_handle_operation_result(names);
        assert_true(result == NULL || result->name_count == 0);
        zkl_handle_release(names);
    }
    close_client(client);
}

/* --- threads, pipes, descriptors -------------------------------------------------------------------------------------- */

static void assert_not_opened(const char *why)
{
    int64_t memory = zkl_memory_in_use();
    int descriptors = open_descriptors();
    char message[ZKL_MESSAGE_SIZE] = "";
    assert_null(open_client(message));
    assert_non_null(strstr(message, why));
    assert_nothing_left(memory, descriptors);
}

static void says_that_there_is_no_thread(void **state)
{
    (void)state;
    threads_left = 0;
    assert_not_opened("cannot start a thread: Resource temporarily unavailable");
    threads_left = -1;
}

static void says_that_there_is_no_pipe(void **state)
{
    (void)state;
    for (int pipes = 0; pipes < 2; pipes++) {
        pipes_left = pipes;
        assert_not_opened("cannot make a pipe: Too many open files");
    }
    pipes_left = -1;
}

/* Limits the process to `more` further descriptors. Returns the earlier limit. */
static struct rlimit limit_descriptors(int more)
{
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = open("/dev/null", O_RDONLY);
    assert_true(next >= 0);
    close(next);
    limit = before;
    limit.rlim_cur = (rlim_t)next + (rlim_t)more;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return before;
}

static void waits_until_there_are_descriptors(void **state)
{
    (void)state;
    int64_t memory = zkl_memory_in_use();
    int descriptors = open_descriptors();
    for (int more = 0; more < 7; more++) {
        struct rlimit before = limit_descriptors(more);
        char message[ZKL_MESSAGE_SIZE] = "";
        zkl_client *client = open_client(message);
        assert_true(client != NULL || strstr(message, "Too many open files") != NULL);
        if (client != NULL) {
            zkl_handle *handle = acquisition(client, ZKL_MODE_MUTEX, NULL);
            assert_non_null(handle);
            for (int i = 0; i < 10; i++) {
                wait_for_notification(client);
            }
            assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
            assert_int_equal(decided(handle), ZKL_ACQUISITION_GRANTED);
            zkl_handle_release(handle);
            close_client(client);
        }
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_nothing_left(memory, descriptors);
    }
}

static void gives_all_memory_back(void **state)
{
    (void)state;
    assert_int_equal(zkl_memory_in_use(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lives_without_any_one_allocation),
        cmocka_unit_test(changes_servers_without_any_one_allocation),
        cmocka_unit_test(leaves_no_node),
        cmocka_unit_test(says_that_there_is_no_thread),
        cmocka_unit_test(says_that_there_is_no_pipe),
        cmocka_unit_test(waits_until_there_are_descriptors),
        cmocka_unit_test(gives_all_memory_back),
    };
    return cmocka_run_group_tests_name("shortage", tests, start_server, stop_server);
}
