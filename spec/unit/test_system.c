/*
 * The client on a system with problems: names that do not resolve any more, or are not answered, and a clock that went on while the
 * machine was suspended. On a real server; the answers of the C library are simulated here.
 *
 * Run from the project's root. Starts a server with tools/zookeeper, unless ZOOKEEPER names one.
 */
#include <dirent.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include <cmocka.h>

#include "../../csrc/base/base.h"
#include "../../csrc/client/client.h"
#include "../../csrc/os/os.h"
#include "real_server.h"

#define PATIENCE (90 * ZKL_SECOND)
#define SESSION_MS 20000
#define LONGEST_SESSION_MS 60000 /* that tools/zookeeper allows */

/* ---- the C library, as this program and the ZooKeeper client see it ---- */

/* Otherwise the C client would not find these functions, but the real ones. */
#pragma GCC visibility push(default)

/* The server's only name here. */
#define NAME "server.test"

static atomic_int lookups;
static atomic_bool names_fail;

/* Names with this end are not answered as long as `silent`; so many are being asked for. */
#define SILENT_END ".silent.test"
static atomic_bool silent = true;
static atomic_int unanswered;

static int wait_for_answer(void)
{
    atomic_fetch_add(&unanswered, 1);
    while (atomic_load(&silent)) {
        poll(NULL, 0, 1);
    }
    atomic_fetch_sub(&unanswered, 1);
    return EAI_AGAIN;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
    if (node != NULL && strstr(node, SILENT_END) != NULL) {
        return wait_for_answer();
    }
    struct addrinfo numeric = hints != NULL ? *hints : (struct addrinfo){0};
    bool loopback = node != NULL && strcmp(node, "127.0.0.1") == 0; /* the connector's listener */
    if (node == NULL || (strcmp(node, NAME) != 0 && !loopback)) {
        return EAI_NONAME;
    }
    atomic_fetch_add(&lookups, loopback ? 0 : 1);
    if (!loopback && atomic_load(&names_fail)) {
        return EAI_AGAIN;
    }
    /* One address, as the real function returns it; freeaddrinfo is the real one. */
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
    one->info = (struct addrinfo){.ai_family = AF_INET,
                                  .ai_socktype = numeric.ai_socktype,
                                  .ai_protocol = numeric.ai_protocol,
                                  .ai_addrlen = sizeof one->address,
                                  .ai_addr = (struct sockaddr *)&one->address};
    *result = &one->info;
    return 0;
}

void freeaddrinfo(struct addrinfo *result)
{
    free(result);
}

/* How long the machine was suspended. Only the clock CLOCK_BOOTTIME goes on meanwhile. */
static _Atomic int64_t slept;

/* By how much the wall clock will have been set back for a thread that waits until a time of it. */
static _Atomic int64_t set_back_seconds;

int clock_gettime(clockid_t clock, struct timespec *at)
{
    int result = (int)syscall(SYS_clock_gettime, clock, at);
    if (clock == CLOCK_BOOTTIME) {
        at->tv_sec += (time_t)(atomic_load(&slept) / ZKL_SECOND);
    } else if (clock == CLOCK_REALTIME) {
        at->tv_sec += (time_t)atomic_load(&set_back_seconds);
    }
    return result;
}

/* While `sends_block`, send does not return, and `sending` says that a thread is in it. */
static atomic_bool sends_block, sending;

ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
    while (atomic_load(&sends_block)) {
        atomic_store(&sending, true);
        poll(NULL, 0, 1);
    }
    atomic_store(&sending, false);
    return sendto(fd, bytes, size, flags, NULL, 0);
}

/* The generators of random numbers belong to the program. */
static atomic_int seeded;

void srandom(unsigned seed)
{
    (void)seed;
    atomic_fetch_add(&seeded, 1);
}

void srand48(long seed)
{
    (void)seed;
    atomic_fetch_add(&seeded, 1);
}

#pragma GCC visibility pop

/* ---- clients ---- */

/* `others`: names before the server's own, each with a comma behind. */
static zkl_client *open_client_with(const char *others, int32_t session_timeout_ms)
{
    char address[300], message[ZKL_MESSAGE_SIZE];
    snprintf(address, sizeof address, "%s" NAME "%s", others, strchr(servers, ':'));
    const zkl_client_options options = {.servers = address, .session_timeout_ms = session_timeout_ms, .lease = true};
    zkl_client *client = zkl_client_open(&options, message, NULL);
    assert_non_null(client);
    return client;
}

static zkl_client *open_client(void)
{
    return open_client_with("", SESSION_MS);
}

static void wait_for_notification(zkl_client *client)
{
    struct pollfd fd = {.fd = zkl_client_fd(client), .events = POLLIN};
    poll(&fd, 1, 20);
    bool changed;
    while (zkl_client_next(client, &changed) != 0) {
    }
}

#include "real_client.h" /* uses the functions above */

/* Returns a granted lock. */
static zkl_handle *acquire(zkl_client *client)
{
    const zkl_lock lock = {
        .path = "/system", .mode = ZKL_MODE_MUTEX, .permits = 1, .identity = "test", .acl = &ZOO_OPEN_ACL_UNSAFE};
    zkl_lock_spec *spec = zkl_lock_spec_new(&lock);
    assert_non_null(spec);
    const zkl_acquisition_request request = {.spec = spec, .count = 1};
    zkl_handle *handle = zkl_client_acquire(client, &request, NULL, 0);
    zkl_lock_spec_drop(spec);
    assert_non_null(handle);
    zkl_handle_view view;
    int64_t until = zkl_clock() + PATIENCE;
    for (zkl_handle_look(handle, &view); view.phase == ZKL_ACQUISITION_WAITING; zkl_handle_look(handle, &view)) {
        assert_true(zkl_clock() < until);
        wait_for_notification(client);
    }
    assert_int_equal(view.phase, ZKL_ACQUISITION_GRANTED);
    return handle;
}

static void wait_for_lookups(zkl_client *client, int more)
{
    int before = atomic_load(&lookups);
    for (int64_t until = zkl_clock() + PATIENCE; atomic_load(&lookups) < before + more;) {
        assert_true(zkl_clock() < until);
        wait_for_notification(client);
    }
}

/* Ends this process's connections to the server, as if a cable were pulled out and put in again. */
static void cut_connections(void)
{
    uint16_t port = (uint16_t)strtol(strchr(servers, ':') + 1, NULL, 10);
    DIR *directory = opendir("/proc/self/fd");
    assert_non_null(directory);
    for (const struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        int fd = (int)strtol(entry->d_name, NULL, 10);
        struct sockaddr_in peer = {0};
        socklen_t size = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.sin_family == AF_INET &&
            peer.sin_port == htons(port)) {
            shutdown(fd, SHUT_RDWR);
        }
    }
    closedir(directory);
}

/* ---- tests ---- */

/* By default the C client does so in every turn, and hangs, CONNECTED, as soon as one lookup fails. */
static void looks_no_name_up_while_connected(void **state)
{
    (void)state;
    zkl_client *client = open_client();
    wait_for_state(client, ZKL_STATE_CONNECTED);
    int before = atomic_load(&lookups);
    atomic_store(&names_fail, true);
    zkl_handle *held = acquire(client);
    int64_t heartbeats = zkl_client_stats(client, NULL).heartbeats;
    for (int64_t until = zkl_clock() + PATIENCE; zkl_client_stats(client, NULL).heartbeats < heartbeats + 4;) {
        assert_true(zkl_clock() < until);
        wait_for_notification(client);
    }
    assert_true(zkl_handle_held(held));
    zkl_handle_end(held, 0);
    zkl_handle_release(held);
    zkl_handle_release(acquire(client));
    assert_int_equal(atomic_load(&lookups), before);
    atomic_store(&names_fail, false);
    close_client(client);
}

/* zookeeper_interest then returns an error, and sets no descriptor, interest or time to wait. */
static void outlives_names_that_do_not_resolve(void **state)
{
    (void)state;
    zkl_client *client = open_client();
    zkl_handle *held = acquire(client);
    atomic_store(&names_fail, true);
    cut_connections();
    wait_for_state(client, ZKL_STATE_SUSPENDED);
    wait_for_lookups(client, 3);
    for (int64_t until = zkl_clock() + PATIENCE; zkl_handle_held(held);) {
        assert_true(zkl_clock() < until);
        wait_for_notification(client);
    }
    zkl_handle_release(held);
    atomic_store(&names_fail, false);
    zkl_handle_release(acquire(client));
    close_client(client);
}

/*
 * Their name servers are switched off. The list is shuffled, so that a client probably begins with one of them. Each cut has a hold of
 * its own: the next one comes before a lease is renewed, and a busy machine needs seconds for a connection.
 */
static void connects_past_names_that_are_not_answered(void **state)
{
    (void)state;
    zkl_client *client = open_client_with("a" SILENT_END ":1,b" SILENT_END ":1,c" SILENT_END ":1,d" SILENT_END ":1,",
                                          LONGEST_SESSION_MS);
    for (int cuts = 0; cuts < 10; cuts++) {
        zkl_handle *held = acquire(client);
        int64_t connections = zkl_client_stats(client, NULL).connections;
        cut_connections();
        for (int64_t until = zkl_clock() + PATIENCE; zkl_client_stats(client, NULL).connections == connections;) {
            assert_true(zkl_clock() < until);
            wait_for_notification(client);
        }
        wait_for_state(client, ZKL_STATE_CONNECTED);
        assert_true(zkl_handle_held(held));
        zkl_handle_release(held);
    }
    assert_int_in_range(atomic_load(&unanswered), 0, 4); /* each is asked for once at a time */
    close_client(client);
}

/* A thread that waits for a name cannot be ended. */
static void closes_while_a_name_is_not_answered(void **state)
{
    (void)state;
    for (int before = atomic_load(&unanswered); atomic_load(&unanswered) == before;) {
        zkl_client *client = open_client_with("a" SILENT_END ":1,b" SILENT_END ":1,c" SILENT_END ":1,", SESSION_MS);
        wait_for_state(client, ZKL_STATE_CONNECTED);
        close_client(client);
    }
}

/* The C client's own clock stands still meanwhile, so it takes the connection for good. */
static void loses_what_it_held_before_the_machine_slept(void **state)
{
    (void)state;
    zkl_client *client = open_client();
    zkl_handle *held = acquire(client);
    assert_true(zkl_handle_held(held));
    atomic_store(&slept, INT64_C(2) * SESSION_MS * (ZKL_SECOND / 1000));
    assert_false(zkl_handle_held(held));
    zkl_handle_view view; /* the view agrees, even if the I/O thread is still sleeping */
    zkl_handle_look(held, &view);
    assert_int_equal(view.phase, ZKL_ACQUISITION_LOST);
    assert_int_equal(view.code, ZKL_LOST);
    zkl_handle_release(held);
    zkl_handle_release(acquire(client));
    close_client(client);
}

typedef struct {
    zkl_client *client;
    atomic_bool over;
} latecomer;

static void *catch_up(void *argument)
{
    latecomer *self = argument;
    zkl_client_catch_up(self->client);
    atomic_store(&self->over, true);
    return NULL;
}

/*
 * A caller that wants the engine waits for the I/O thread for at most a tenth of a second. It waited by the wall clock: if that was
 * set back meanwhile, it waited that much longer.
 */
static void waits_no_longer_when_the_wall_clock_is_set_back(void **state)
{
    (void)state;
    zkl_client *client = open_client();
    zkl_handle *held = acquire(client);
    atomic_store(&sends_block, true);
    for (int64_t until = zkl_clock() + PATIENCE; !atomic_load(&sending);) { /* the heartbeat, by the I/O thread */
        assert_true(zkl_clock() < until);
        poll(NULL, 0, 1);
    }
    atomic_store(&set_back_seconds, 3600);
    latecomer self = {.client = client};
    pthread_t caller;
    assert_int_equal(pthread_create(&caller, NULL, catch_up, &self), 0);
    for (int64_t until = zkl_clock() + PATIENCE; !atomic_load(&self.over) && zkl_clock() < until;) {
        poll(NULL, 0, 1);
    }
    bool over_in_time = atomic_load(&self.over);
    atomic_store(&set_back_seconds, 0);
    atomic_store(&sends_block, false);
    pthread_join(caller, NULL);
    assert_true(over_in_time);
    zkl_handle_release(held);
    close_client(client);
}

static void leaves_random_numbers_alone(void **state)
{
    (void)state;
    assert_int_equal(atomic_load(&seeded), 0);
}

static void gives_all_memory_back(void **state)
{
    (void)state;
    atomic_store(&silent, false);
    for (int64_t until = zkl_clock() + PATIENCE; zkl_memory_in_use() > 0;) { /* threads return meanwhile */
        assert_true(zkl_clock() < until);
        poll(NULL, 0, 1);
    }
}

/* No sanitizer may complain. */
static void exits_while_a_name_is_not_answered(void **state)
{
    atomic_store(&silent, true);
    closes_while_a_name_is_not_answered(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_no_name_up_while_connected),
        cmocka_unit_test(outlives_names_that_do_not_resolve),
        cmocka_unit_test(connects_past_names_that_are_not_answered),
        cmocka_unit_test(closes_while_a_name_is_not_answered),
        cmocka_unit_test(loses_what_it_held_before_the_machine_slept),
        cmocka_unit_test(waits_no_longer_when_the_wall_clock_is_set_back),
        cmocka_unit_test(leaves_random_numbers_alone),
        cmocka_unit_test(gives_all_memory_back),
        cmocka_unit_test(exits_while_a_name_is_not_answered),
    };
    return cmocka_run_group_tests_name("system", tests, start_server, stop_server);
}
