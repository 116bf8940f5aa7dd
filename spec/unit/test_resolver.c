/*
 * Names that are resolved in threads of their own (csrc/net/resolver.h), and the connector that waits for none of them. The answers
 * of getaddrinfo, and the system's refusal of a thread, are simulated here.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "net/connector.h"
#include "net/resolver.h"
#include "net/server_list.h"

#define PATIENCE_MS 90000

/* "here.test" and "there.test" are this machine, and are answered once they are open. */
static atomic_bool here_open, there_open;

__attribute__((visibility("default"))) int getaddrinfo(const char *restrict node, const char *restrict service,
                                                       const struct addrinfo *restrict hints,
                                                       struct addrinfo **restrict result)
{
    atomic_bool *open = *node == 'h' ? &here_open : &there_open;
    bool numeric = (hints->ai_flags & AI_NUMERICHOST) != 0;
    while (!numeric && !atomic_load(open)) {
        poll(NULL, 0, 1);
    }
    struct {
        struct addrinfo info;
        struct sockaddr_in address;
    } *one = calloc(1, sizeof *one);
    if (one == NULL) {
        return EAI_MEMORY;
    }
    one->address = (struct sockaddr_in){.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)strtol(service, NULL, 10)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    one->info = (struct addrinfo){
        .ai_family = AF_INET, .ai_addrlen = sizeof one->address, .ai_addr = (struct sockaddr *)&one->address};
    *result = &one->info;
    return 0;
}

__attribute__((visibility("default"))) void freeaddrinfo(struct addrinfo *result)
{
    free(result);
}

static bool threads_refused;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    return threads_refused ? EAGAIN : __real_pthread_create(thread, attributes, start, argument);
}

static int close_names(void **state)
{
    (void)state;
    atomic_store(&here_open, false);
    atomic_store(&there_open, false);
    return 0;
}

/* Threads give their memory back when they end. */
static int await_threads(void **state)
{
    (void)state;
    atomic_store(&here_open, true);
    atomic_store(&there_open, true);
    for (int ms = 0; zkl_memory_in_use() > 0; ms++) {
        if (ms == PATIENCE_MS) {
            return -1;
        }
        poll(NULL, 0, 1);
    }
    return 0;
}

static bool is_readable(int fd, int timeout)
{
    return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, timeout) == 1;
}

/* ---- the resolver ---- */

static void answers_for_an_address_at_once(void **state)
{
    (void)state;
    zkl_resolution *resolution = zkl_resolution_begin("127.0.0.1", "2181", true);
    const zkl_answer *answer = zkl_resolution_answer(resolution);
    assert_non_null(answer);
    assert_int_equal(0, answer->error);
    assert_int_equal(-1, zkl_resolution_fd(resolution));
    zkl_resolution_end(resolution);
}

static void tells_when_the_answer_is_there(void **state)
{
    (void)state;
    zkl_resolution *resolution = zkl_resolution_begin("here.test", "2181", false);
    assert_null(zkl_resolution_answer(resolution));
    assert_false(is_readable(zkl_resolution_fd(resolution), 0));
    atomic_store(&here_open, true);
    assert_true(is_readable(zkl_resolution_fd(resolution), PATIENCE_MS));
    const zkl_answer *answer = zkl_resolution_answer(resolution);
    assert_non_null(answer);
    assert_int_equal(0, answer->error);
    assert_non_null(answer->found);
    zkl_resolution_end(resolution);
}

/* await_threads sees that the thread frees the rest. */
static void may_be_left_before_the_answer(void **state)
{
    (void)state;
    zkl_resolution_end(zkl_resolution_begin("here.test", "2181", false));
    assert_true(zkl_memory_in_use() > 0);
}

static void says_why_there_is_no_thread(void **state)
{
    (void)state;
    threads_refused = true;
    zkl_resolution *resolution = zkl_resolution_begin("here.test", "2181", false);
    threads_refused = false;
    const zkl_answer *answer = zkl_resolution_answer(resolution);
    assert_non_null(answer);
    assert_int_equal(EAI_SYSTEM, answer->error);
    assert_int_equal(EAGAIN, answer->system);
    zkl_resolution_end(resolution);
}

/* ---- the connector ---- */

static char logged[ZKL_MESSAGE_SIZE];

static void note_line(void *context, int level, const char *message)
{
    (void)context;
    (void)level;
    snprintf(logged, sizeof logged, "%s", message);
}

static zkl_connector *connector_to(const char *servers)
{
    char message[ZKL_MESSAGE_SIZE];
    zkl_connector *connector = zkl_connector_new(servers, 10000, 1, note_line, NULL, message);
    assert_non_null(connector);
    return connector;
}

/* A port of this machine at which connections are accepted. */
static int listen_somewhere(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(0, bind(fd, (struct sockaddr *)&address, size));
    assert_int_equal(0, listen(fd, 8));
    assert_int_equal(0, getsockname(fd, (struct sockaddr *)&address, &size));
    *port = ntohs(address.sin_port);
    return fd;
}

/* Its turn is over with the question, and what is polled becomes readable with the answer. */
static void joins_the_race_when_the_answer_is_there(void **state)
{
    (void)state;
    int port, listener = listen_somewhere(&port);
    char servers[64];
    snprintf(servers, sizeof servers, "here.test:%d", port);
    zkl_connector *connector = connector_to(servers);
    int64_t wake_at = ZKL_NEVER;
    assert_false(zkl_connector_reach(connector, &wake_at));
    assert_false(is_readable(zkl_connector_poll(connector).fd, 0));
    atomic_store(&here_open, true);
    do {
        assert_true(is_readable(zkl_connector_poll(connector).fd, PATIENCE_MS));
    } while (!zkl_connector_reach(connector, &wake_at));
    zkl_server *server;
    close(zkl_connector_take(connector, &server));
    zkl_connector_free(connector);
    close(listener);
}

/* A child that the program forks has a copy of the descriptor, which nobody closes. The parent must not spin for it. */
static void hears_of_an_answer_once_beside_a_child(void **state)
{
    (void)state;
    int port, listener = listen_somewhere(&port);
    close(listener); /* refuses */
    char servers[64];
    snprintf(servers, sizeof servers, "here.test:%d,there.test:1", port);
    zkl_connector *connector = connector_to(servers);
    int64_t wake_at = ZKL_NEVER;
    zkl_connector_reach(connector, &wake_at);
    pid_t child = fork();
    if (child == 0) {
        for (;;) {
            pause();
        }
    }
    atomic_store(&here_open, true);
    logged[0] = '\0';
    while (strstr(logged, "refused") == NULL) {
        assert_true(is_readable(zkl_connector_poll(connector).fd, PATIENCE_MS));
        zkl_connector_reach(connector, &wake_at);
    }
    assert_false(is_readable(zkl_connector_poll(connector).fd, 0));
    zkl_connector_free(connector);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, close_names, await_threads)
    const struct CMUnitTest tests[] = {
        TEST(answers_for_an_address_at_once),          TEST(tells_when_the_answer_is_there),
        TEST(may_be_left_before_the_answer),           TEST(says_why_there_is_no_thread),
        TEST(joins_the_race_when_the_answer_is_there), TEST(hears_of_an_answer_once_beside_a_child),
    };
    return cmocka_run_group_tests_name("resolver", tests, NULL, NULL);
}
