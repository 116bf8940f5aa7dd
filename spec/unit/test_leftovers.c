/*
 * The rest of a request that a lost connection leaves for the next connection. If a send fails, the C client keeps a request that
 * was sent in part. Its rest was sent first on the next connection, and the server took the middle of a program's data for
 * requests. With certain data at a certain place it deleted a node.
 *
 * The engine and the real C client run in this thread, with a server that only counts lengths. It completes the handshake and
 * answers the first request. Then it reads no more, so that large requests are sent in part, and resets the connection while the
 * client is not polling.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../../csrc/engine/engine.h"

#define REQUESTS 12
#define SIZE 990000 /* of each request: all of them are more than the sockets' buffers take */

/* The state of the server's present connection. */
static struct {
    int listener, socket;
    unsigned char bytes[4096];
    size_t have;
    bool deaf;       /* it reads nothing */
    bool let_in;     /* the handshake is answered */
    int connections; /* so far */
    int strange;     /* packets that no client sends */
    size_t to_skip;  /* of a large request */
    uint32_t large;  /* its number */
} server;

/* The protocol's number for a request that writes data. */
#define SET 5

static int answered;

/* --- the server ----------------------------------------------------------------------------------------------------- */

static uint32_t number_at(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static unsigned char *put(unsigned char *at, uint32_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8) {
        *at++ = (unsigned char)(number >> shift);
    }
    return at;
}

static void say(const unsigned char *packet, const unsigned char *end)
{
    ssize_t size = end - packet;
    ssize_t sent = send(server.socket, packet, (size_t)size, MSG_NOSIGNAL);
    assert_true(sent == size || (sent < 0 && (errno == EPIPE || errno == ECONNRESET)));
}

/* Protocol, timeout, session and password. */
static void let_in(void)
{
    unsigned char packet[4 + 4 + 4 + 8 + 4 + 16] = {0};
    unsigned char *at = put(put(put(packet, sizeof packet - 4), 0), 10000);
    put(put(put(at, 0), 77), 16);
    say(packet, packet + sizeof packet);
    server.let_in = true;
}

/* "No such node", which is an answer to any request. */
static void answer(uint32_t xid)
{
    unsigned char packet[4 + 4 + 8 + 4];
    say(packet, put(put(put(put(put(packet, 16), xid), 0), 1), (uint32_t)ZNONODE));
}

/* Takes a whole packet of the client's. */
static void take(const unsigned char *packet, uint32_t length)
{
    if (!server.let_in) {
        if (length != 44 && length != 45) {
            print_error("connection %d: begins with %u bytes\n", server.connections, length);
            server.strange++;
        }
        let_in();
    } else {
        answer(number_at(packet));
    }
}

static void hang_up(void)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    setsockopt(server.socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(server.socket);
    server.socket = -1;
}

static void accept_next(void)
{
    server.socket = accept4(server.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (server.socket >= 0) {
        server.connections++;
        server.have = 0;
        server.let_in = false;
        server.to_skip = 0;
    }
}

/* Skips the rest of a large request, and answers it at its end. */
static void pass_by(void)
{
    size_t gone = server.to_skip < server.have ? server.to_skip : server.have;
    server.have -= gone;
    memmove(server.bytes, server.bytes + gone, server.have);
    server.to_skip -= gone;
    if (server.to_skip == 0) {
        answer(server.large);
    }
}

/*
 * If the server did not read for so long that the client had lost the connection before the reset, the client sends its requests to
 * the next server, each from its beginning.
 */
static bool is_set(uint32_t length)
{
    return server.let_in && length > SIZE && length < SIZE + 64 && number_at(server.bytes + 8) == SET;
}

/* Takes what has arrived. Like a real server it hangs up on a length that no packet has. */
static void serve(void)
{
    if (server.socket < 0) {
        accept_next();
    }
    while (server.socket >= 0 && !server.deaf) {
        ssize_t got = recv(server.socket, server.bytes + server.have, sizeof server.bytes - server.have, 0);
        if (got < 0 && errno == EAGAIN) {
            return;
        }
        if (got <= 0) {
            hang_up();
            return;
        }
        server.have += (size_t)got;
        if (server.to_skip > 0) {
            pass_by();
        }
        while (server.socket >= 0 && server.to_skip == 0 && server.have >= 12) {
            uint32_t length = number_at(server.bytes);
            if (is_set(length)) {
                server.large = number_at(server.bytes + 4);
                server.to_skip = length + 4;
                pass_by();
            } else if (length < 8 || length > sizeof server.bytes - 4) {
                print_error("connection %d: a packet of %u bytes\n", server.connections, length);
                server.strange++;
                hang_up();
            } else if (server.have < length + 4) {
                break;
            } else {
                take(server.bytes + 4, length);
                server.have -= length + 4;
                memmove(server.bytes, server.bytes + length + 4, server.have);
            }
        }
    }
}

/*
 * No other process uses this address. (At 127.0.0.1 another server may have had the port a moment ago, and its clients still try to
 * connect to it: they, too, send strange packets.)
 */
#define ADDRESS "127.0.7.7"

static int listen_anywhere(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(ADDRESS)};
    socklen_t size = sizeof address;
    server.socket = -1;
    server.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server.listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(server.listener, 4), 0);
    assert_int_equal(getsockname(server.listener, (struct sockaddr *)&address, &size), 0);
    return ntohs(address.sin_port);
}

/* --- the client ------------------------------------------------------------------------------------------------------ */

static int64_t clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * ZKL_SECOND + now.tv_nsec;
}

static void acquisition_changed(void *context, zkl_acquisition *acquisition)
{
    (void)context;
    (void)acquisition;
}

static void lease_changed(void *context, int64_t until)
{
    (void)context;
    (void)until;
}

static void state_changed(void *context, zkl_state state, zkl_code code, const char *problem)
{
    (void)context;
    (void)state;
    (void)code;
    (void)problem;
}

static void logged(void *context, int level, const char *message)
{
    (void)context;
    (void)level;
    (void)message;
}

static void said(const char *message)
{
    (void)message;
}

static void done(void *user, zkl_code code, const char *message, zkl_operation_result *result, int32_t failed)
{
    (void)user;
    (void)code;
    (void)message;
    (void)failed;
    answered++;
    zkl_operation_result_free(result);
}

static void fired(void *user, zkl_node_event event, zkl_code code)
{
    (void)user;
    (void)event;
    (void)code;
}

static const zkl_operation_host operation_host = {done, fired};

static void ask(zkl_engine *engine, zkl_operation_kind kind, const char *data, int32_t length)
{
    const zkl_operation_request request = {
        .kind = kind, .path = "/x", .data = data, .data_length = length, .version = -1, .acl = &ZOO_OPEN_ACL_UNSAFE};
    zkl_operation *operation = zkl_operation_new(&request);
    assert_non_null(operation);
    zkl_engine_operate(engine, operation, &operation_host, NULL, clock_now());
}

/* A driver's turn, as in client.c. */
static void turn(zkl_engine *engine)
{
    zkl_poll wanted;
    zkl_engine_prepare(engine, clock_now(), &wanted);
    if (wanted.must_disconnect) {
        shutdown(wanted.fd, SHUT_RDWR);
    }
    serve();
    struct pollfd fd = {.fd = wanted.fd, .events = wanted.events};
    int ready = poll(&fd, 1, 1);
    zkl_engine_process(engine, clock_now(), wanted.fd >= 0 && ready > 0 ? fd.revents : 0);
}

static void sends_nothing_on_a_connection_that_belongs_to_the_one_before(void **state)
{
    (void)state;
    static char data[SIZE];
    char servers[32];
    snprintf(servers, sizeof servers, ADDRESS ":%d", listen_anywhere());
    const zkl_host host = {.acquisition_changed = acquisition_changed,
                           .session.lease_changed = lease_changed,
                           .session.state_changed = state_changed,
                           .session.log = logged};
    const zkl_engine_config config = {.session.servers = servers,
                                      .session.session_timeout_ms = 10000,
                                      .session.lease = false,
                                      .session.zookeeper_log = said,
                                      .random = {1, 7}};
    zkl_engine *engine = zkl_engine_new(&config, &host);
    assert_non_null(engine);
    while (!zkl_engine_may_call(engine)) {
        turn(engine);
    }

    server.deaf = true;
    memset(data, 1, sizeof data); /* as a length: 16 MB */
    for (int i = 0; i < REQUESTS; i++) {
        ask(engine, ZKL_OPERATION_SET, data, sizeof data);
        turn(engine);
    }
    hang_up();
    ask(engine, ZKL_OPERATION_EXISTS, NULL, 0); /* its send finds the connection lost */

    server.deaf = false;
    while (answered < REQUESTS + 1 || !zkl_engine_may_call(engine)) {
        turn(engine);
    }
    assert_true(server.connections > 1);
    assert_int_equal(server.strange, 0);
    zkl_engine_shut_down(engine, clock_now());
    zkl_engine_free(engine);
    close(server.listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sends_nothing_on_a_connection_that_belongs_to_the_one_before),
    };
    return cmocka_run_group_tests_name("leftovers", tests, NULL, NULL);
}
