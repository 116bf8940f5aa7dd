/*
 * The C client's request numbers: several clients of one process, each in several threads, pass the numbers that mean something
 * else to the C client (-8, -4, -2), and the overflow of the counter. They send requests of many kinds, some of which the server
 * refuses.
 *
 * The C client takes its first number from time(), and begins with time() again at -1. This program defines time() as the test
 * needs it.
 */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../csrc/client/client.h"
#include "../../csrc/client/registry.h"
#include "../../csrc/os/os.h"
#include "real_server.h"

#define PATIENCE (120 * ZKL_SECOND)

enum {
    FIRST_NUMBER = -85000, /* So far from the special numbers that the first look at the counter finds no danger yet. */
    BEFORE_OVERFLOW = INT32_MAX - 5000,
    CLIENTS = 4,
    REQUESTS = 24000, /* of each client: together they go beyond -1 */
    AT_ONCE = 200
};

static _Atomic int times_asked; /* since the first client was opened */
static _Atomic bool opened;

__attribute__((visibility("default"))) time_t time(time_t *result)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int before = opened ? atomic_fetch_add(&times_asked, 1) : -1;
    time_t seconds = before == 0 ? FIRST_NUMBER : before == 1 ? BEFORE_OVERFLOW : now.tv_sec;
    if (result != NULL) {
        *result = seconds;
    }
    return seconds;
}

static void wait_for_notification(zkl_client *client)
{
    struct pollfd fd = {.fd = zkl_client_fd(client), .events = POLLIN};
    poll(&fd, 1, 100);
    bool changed;
    while (zkl_client_next(client, &changed) != 0) {
    }
}

#include "real_client.h"

static zkl_client *open_client(void)
{
    char message[ZKL_MESSAGE_SIZE];
    const zkl_client_options options = {.servers = servers, .session_timeout_ms = 40000, .lease = true, .log = true};
    zkl_client *client = zkl_client_open(&options, message, NULL);
    assert_non_null(client);
    return client;
}

static zkl_handle_view settled(zkl_handle *handle)
{
    zkl_handle_view view;
    int64_t until = zkl_clock() + PATIENCE;
    for (zkl_handle_look(handle, &view); !view.settled && zkl_clock() < until; zkl_handle_look(handle, &view)) {
        wait_for_notification(zkl_handle_client(handle));
    }
    return view;
}

typedef struct {
    zkl_client *client;
    char path[32];
    int wrong; /* answers */
} contender;

/* Sends one of several requests in turn. Returns the only right answer. */
static zkl_code ask(const contender *self, int turn, zkl_handle **handle)
{
    static const zkl_code right[] = {ZKL_OK, ZKL_NO_NODE, ZKL_OK, ZKL_BAD_VERSION, ZKL_OK};
    const zkl_operation_request requests[] = {
        {.kind = ZKL_OPERATION_GET, .path = self->path},
        {.kind = ZKL_OPERATION_GET, .path = "/numbers-nowhere"},
        {.kind = ZKL_OPERATION_CHILDREN, .path = "/"},
        {.kind = ZKL_OPERATION_SET, .path = self->path, .data = "else", .data_length = 4, .version = 77},
        {.kind = ZKL_OPERATION_EXISTS, .path = self->path},
    };
    int kind = turn % (int)(sizeof requests / sizeof *requests);
    *handle = zkl_client_operate(self->client, &requests[kind]);
    return right[kind];
}

static bool is_right(const contender *self, int turn, zkl_handle *handle, zkl_code expected)
{
    zkl_handle_view view = settled(handle);
    if (!view.settled || view.code != expected) {
        return false;
    }
    if (turn % 5 != 0) {
        return true;
    }
    const zkl_operation_result *result = zkl_handle_operation_result(handle);
    size_t length = strlen(self->path);
    return result != NULL && result->data_length == (int32_t)length && memcmp(result->data, self->path, length) == 0;
}

/* Asserts nothing: it does not run on the test's own thread. */
static void *ask_much(void *argument)
{
    contender *self = argument;
    zkl_handle *handles[AT_ONCE];
    zkl_code expected[AT_ONCE];
    for (int asked = 0; asked < REQUESTS && self->wrong == 0; asked += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++) {
            expected[i] = ask(self, i, &handles[i]);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            self->wrong += handles[i] == NULL || !is_right(self, i, handles[i], expected[i]);
            if (handles[i] != NULL) {
                zkl_handle_end(handles[i], 0);
                zkl_handle_release(handles[i]);
            }
        }
    }
    return NULL;
}

static void goes_beyond_the_special_numbers(void **state)
{
    (void)state;
    contender contenders[CLIENTS];
    pthread_t threads[CLIENTS];
    opened = true;
    for (int i = 0; i < CLIENTS; i++) {
        contender *self = &contenders[i];
        *self = (contender){.client = open_client()};
        snprintf(self->path, sizeof self->path, "/numbers-%d", i);
        wait_for_state(self->client, ZKL_STATE_CONNECTED);
        const zkl_operation_request create = {.kind = ZKL_OPERATION_CREATE,
                                              .path = self->path,
                                              .data = self->path,
                                              .data_length = (int32_t)strlen(self->path),
                                              .flags = ZOO_EPHEMERAL,
                                              .acl = &ZOO_OPEN_ACL_UNSAFE};
        zkl_handle *created = zkl_client_operate(self->client, &create);
        assert_int_equal(settled(created).code, ZKL_OK);
        zkl_handle_release(created);
    }
    assert_true(times_asked > 0);
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask_much, &contenders[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
    }
    int64_t requests = 0;
    for (int i = 0; i < CLIENTS; i++) {
        zkl_stats stats = zkl_client_stats(contenders[i].client, NULL);
        assert_int_equal(contenders[i].wrong, 0);
        assert_int_equal(stats.connections, 1);
        requests += stats.requests;
        close_client(contenders[i].client);
    }
    assert_true(requests > -FIRST_NUMBER); /* without a step they would have had the special numbers */
    /* The counter has begun anew, within 65536 requests. The last 30000 requests have taken it through its overflow. */
    assert_int_equal(times_asked, 2);
}

typedef struct {
    _Atomic bool inside, over;
} sender;

/* Acts as a thread in the middle of a request. */
static void *send_long(void *argument)
{
    sender *self = argument;
    zkl_xid_begin();
    atomic_store(&self->inside, true);
    while (!atomic_load(&self->over)) {
        poll(NULL, 0, 1);
    }
    zkl_xid_end();
    return NULL;
}

static void a_child_does_not_wait_for_the_threads_of_its_parent(void **state)
{
    (void)state;
    sender self = {0};
    pthread_t thread;
    close_client(open_client()); /* from the first client on, forks are noticed */
    assert_int_equal(pthread_create(&thread, NULL, send_long, &self), 0);
    while (!atomic_load(&self.inside)) {
        poll(NULL, 0, 1);
    }
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        for (int i = 0; i < 100000; i++) { /* some of these calls read the counter */
            zkl_xid_begin();
            zkl_xid_end();
        }
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    atomic_store(&self.over, true);
    pthread_join(thread, NULL);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_beyond_the_special_numbers), /* the first test: it sets where the counter begins */
        cmocka_unit_test(a_child_does_not_wait_for_the_threads_of_its_parent),
    };
    return cmocka_run_group_tests_name("numbers", tests, start_server, stop_server);
}
