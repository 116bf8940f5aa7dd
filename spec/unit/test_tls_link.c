/*
 * The TLS link against a server in this thread, whose bytes pass through the test's hands (tls_peer.h): one at a time, cut off,
 * changed, too many, or not at all. Time passes in turns, so that no deadline depends on the machine's load.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/os.h"
#include "tls_peer.h"

#define SECRET "the session's password"
#define SESSION_TIMEOUT_MS 30000
#define IMPATIENT_MS 300 /* of a test that waits for a deadline */
#define GIVE_UP_AFTER (20 * ZKL_SECOND)
#define TURN (ZKL_SECOND / 1000)         /* how long a turn takes */
#define SHORT_TURN (ZKL_SECOND / 100000) /* of a server with a limit: thousands of turns must fit into a deadline */
#define MOST_AT_A_TIME 32768             /* so many bytes of the server, and no more, may keep the thread busy */

static zkl_tls_link *link_under_test;
static char logged[ZKL_MESSAGE_SIZE];
static int lines;

/* The link's clock. It stands still but for turns and waits in zkl_tls_link_closed. */
static int64_t now = ZKL_SECOND;

#define REPLACEMENT __attribute__((visibility("default")))

/* In place of the C library's. The other clocks are real: certificates are valid for days. */
REPLACEMENT int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (clock != CLOCK_BOOTTIME && clock != CLOCK_MONOTONIC) {
        return (int)syscall(SYS_clock_gettime, clock, time);
    }
    *time = (struct timespec){.tv_sec = now / ZKL_SECOND, .tv_nsec = now % ZKL_SECOND};
    return 0;
}

static void *nothing(void *argument)
{
    return argument;
}

/* Names are resolved at once: the link's clock does not wait for a thread. */
int __real_zkl_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);
int __wrap_zkl_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

int __wrap_zkl_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    int error = __real_zkl_thread_start(thread, nothing, NULL);
    if (error == 0) {
        run(argument);
    }
    return error;
}

/* In place of the C library's. It knows zk.example., as if from DNS, and localhost, which a system may have for IPv6 only. */
REPLACEMENT int getaddrinfo(const char *restrict node, const char *restrict service,
                            const struct addrinfo *restrict hints, struct addrinfo **restrict result)
{
    int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    void *address = dlsym(RTLD_NEXT, "getaddrinfo");
    memcpy(&next, &address, sizeof next);
    bool known = strcmp(node, "zk.example.") == 0 || strcmp(node, "localhost") == 0;
    return next(known ? "127.0.0.1" : node, service, hints, result);
}

/* A turn of the server, which has many of them while the link waits in zkl_tls_link_closed; NULL: not there. */
static void (*meanwhile)(void);
#define SERVER_TURNS 10000
static int waited; /* how often the link has waited there */

/* In place of the C library's, by the linker's --wrap. In zkl_tls_link_closed, a wait takes only time of the clock above. */
int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    if (meanwhile == NULL) {
        return __real_poll(fds, count, timeout);
    }
    waited++;
    int ready = 0;
    for (int i = 0; i < SERVER_TURNS && ready == 0; i++) {
        meanwhile();
        ready = __real_poll(fds, count, 0);
    }
    now += ready == 0 ? timeout * TURN : 0;
    return ready;
}

static void log_line(void *context, int level, const char *message)
{
    assert_ptr_equal(&lines, context);
    assert_true(level > 0);
    snprintf(logged, sizeof logged, "%s", message);
    lines++;
}

static int set_up_all(void **state)
{
    (void)state;
    peer_load();
    peer_certify("server", "zk", "IP:127.0.0.1");
    peer_certify("named", "localhost", NULL);
    peer_certify("full", "zk", "DNS:zk.example");
    peer_certify("partial", "zk", "DNS:local*.example");
    return 0;
}

static int tear_down_all(void **state)
{
    (void)state;
    peer_remove_files();
    return 0;
}

/* What is not as usual in a test's link and server. */
typedef struct {
    int32_t session_timeout_ms;
    const char *certificate;
    const char *host;
    const char *server_name;
    const char *ciphers;
    const char *server_ciphers;
} settings;

/* Returns whether there is a link; else `message` says why not. */
static bool try_open_link(settings with, char *message)
{
    const char *certificate = with.certificate != NULL ? with.certificate : "server";
    int port = peer_listen(certificate, with.server_ciphers);
    peer.secret = SECRET;
    const zkl_tls_options options = {
        .ca_file = peer_file(certificate), .verify = true, .server_name = with.server_name, .ciphers = with.ciphers};
    zkl_code code;
    bool first;
    link_under_test = zkl_tls_link_new(&options, log_line, &lines, message, &code, &first);
    int32_t timeout = with.session_timeout_ms != 0 ? with.session_timeout_ms : SESSION_TIMEOUT_MS;
    if (link_under_test != NULL) {
        assert_true(peer_connector(with.host != NULL ? with.host : "127.0.0.1", port, timeout, log_line, &lines));
        peer_connect_client();
    }
    return link_under_test != NULL;
}

static void open_link_with(settings with)
{
    char message[ZKL_MESSAGE_SIZE];
    if (!try_open_link(with, message)) {
        fail_msg("%s", message);
    }
}

static void open_link(int32_t session_timeout_ms)
{
    open_link_with((settings){.session_timeout_ms = session_timeout_ms});
}

/* After each test; one that has failed has left its link. */
static int end_test(void **state)
{
    (void)state;
    if (link_under_test != NULL) {
        zkl_tls_link_free(link_under_test);
        peer_end();
        link_under_test = NULL;
    }
    return 0;
}

static void close_link(void)
{
    end_test(NULL);
    assert_int_equal(0, zkl_memory_in_use());
}

/* One turn of the driver, and of the server. */
static void turn(void)
{
    peer_drive(link_under_test);
    zkl_tls_link_prepare(link_under_test);
    zkl_tls_link_flush_rest(link_under_test);
    struct pollfd polled = zkl_tls_link_poll(link_under_test);
    if (polled.fd >= 0) {
        poll(&polled, 1, peer.limit == PEER_NO_LIMIT ? 1 : 0);
    }
    now += peer.limit == PEER_NO_LIMIT ? TURN : SHORT_TURN;
    zkl_tls_link_process(link_under_test, polled.fd >= 0 ? polled.revents : 0);
    peer_move();
}

static bool is_broken(void)
{
    zkl_code code;
    return zkl_tls_link_problem(link_under_test, &code) != NULL;
}

/* Takes turns until the link is BROKEN, and checks with which code and message. */
static void assert_breaks(zkl_code expected, const char *text)
{
    zkl_code code = ZKL_OK;
    const char *problem = NULL;
    for (int64_t until = zkl_clock() + GIVE_UP_AFTER; problem == NULL && zkl_clock() < until;) {
        turn();
        problem = zkl_tls_link_problem(link_under_test, &code);
    }
    if (problem == NULL || strstr(problem, text) == NULL) {
        fail_msg("%s", problem != NULL ? problem : "the link goes on");
    }
    assert_int_equal(expected, code);
    assert_int_equal(-1, zkl_tls_link_poll(link_under_test).fd);
    assert_false(peer.seen);
}

/* The C client writes SECRET; takes turns until the server has read it. */
static void pass_up(void)
{
    char bytes[64];
    size_t have = 0;
    do {
        turn();
    } while (!peer.replaced);
    assert_int_equal(strlen(SECRET), send(peer.client, SECRET, strlen(SECRET), MSG_NOSIGNAL));
    for (int64_t until = zkl_clock() + GIVE_UP_AFTER; have < strlen(SECRET) && zkl_clock() < until;) {
        turn();
        int count = peer.ssl != NULL ? zkl_openssl.SSL_read(peer.ssl, bytes + have, (int)(sizeof bytes - have)) : 0;
        have += count > 0 ? (size_t)count : 0;
    }
    assert_int_equal(strlen(SECRET), have);
    assert_memory_equal(SECRET, bytes, have);
    assert_false(peer.seen);
}

/* The server writes so many bytes; takes turns until the C client has read them, unless the link breaks. Returns how many it has read. */
static size_t pass_down(size_t size)
{
    char *bytes = calloc(1, size), buffer[512];
    size_t have = 0;
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (char)(i * 31);
    }
    assert_int_equal(size, zkl_openssl.SSL_write(peer.ssl, bytes, (int)size));
    for (int64_t until = zkl_clock() + GIVE_UP_AFTER; have < size && !is_broken() && zkl_clock() < until;) {
        turn();
        ssize_t received;
        while ((received = recv(peer.client, buffer, sizeof buffer, MSG_DONTWAIT)) > 0) {
            assert_memory_equal(bytes + have, buffer, (size_t)received);
            have += (size_t)received;
        }
    }
    free(bytes);
    return have;
}

static void assert_client_sees_the_end(void)
{
    char byte;
    ssize_t received = recv(peer.client, &byte, 1, MSG_DONTWAIT);
    assert_true(received == 0 || (received < 0 && errno == ECONNRESET));
}

/* --- the tests ------------------------------------------------------------------------------------------------------ */

static void passes_bytes_in_both_directions(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    pass_up();
    assert_int_equal(1000000, pass_down(1000000)); /* more than the socket pair takes */
    pass_up();
    close_link();
}

static void passes_one_byte_at_a_time(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    peer.limit = 1;
    pass_up();
    assert_int_equal(3000, pass_down(3000));
    pass_up();
    close_link();
}

static void breaks_at_a_truncated_record(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    pass_up();
    peer.until_cut = 600; /* the tickets, if the server sends any, and a part of the record */
    assert_int_equal(0, pass_down(10000));
    assert_breaks(ZKL_DISCONNECTED, "closed the connection");
    assert_client_sees_the_end();
    close_link();
}

static void breaks_at_a_changed_record(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    pass_up();
    peer.until_change = 5000;
    assert_true(pass_down(10000) < 10000);
    assert_breaks(ZKL_TLS_FAILED, "TLS with '127.0.0.1:");
    assert_client_sees_the_end();
    close_link();
}

static void breaks_where_the_handshake_is_cut(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    for (size_t length = 1; length < 600; length += 149) {
        peer.until_cut = length;
        assert_breaks(ZKL_TLS_FAILED, "closed the connection during the TLS handshake");
        assert_client_sees_the_end();
        peer_close_client();
        peer_connect_client();
        turn();
    }
    peer.until_cut = PEER_NO_LIMIT;
    pass_up();
    close_link();
}

static void breaks_at_anything_else_than_a_handshake(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    peer.stalled = true;
    while (peer.ssl == NULL || !peer.replaced) {
        turn();
    }
    static const char plain[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    assert_int_equal(sizeof plain, send(peer.socket, plain, sizeof plain, 0));
    assert_breaks(ZKL_TLS_FAILED, "secureClientPort");
    close_link();
}

static void breaks_when_the_server_says_nothing(void **state)
{
    (void)state;
    open_link(IMPATIENT_MS);
    peer.stalled = true;
    assert_breaks(ZKL_TLS_FAILED, "did not finish the TLS handshake in time");
    close_link();
}

static void breaks_without_a_signal_when_it_writes_to_a_closed_connection(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    pass_up();
    peer_end_connection(); /* the first bytes are answered by a reset, and the next ones by EPIPE */
    for (int i = 0; i < 3; i++) {
        send(peer.client, SECRET, strlen(SECRET), MSG_NOSIGNAL);
        zkl_tls_link_flush(link_under_test);
    }
    assert_breaks(ZKL_DISCONNECTED, "127.0.0.1:");
    close_link();
}

static void ends_the_connection_with_the_socket_of_the_c_client(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    pass_up();
    peer_close_client();
    for (int64_t until = zkl_clock() + GIVE_UP_AFTER; !peer.ended && zkl_clock() < until;) {
        turn();
    }
    assert_true(peer.ended);
    assert_false(is_broken());
    close_link();
}

/* Else a session would go on with what an authority that is trusted no more has allowed. */
static void verifies_the_server_anew_at_each_connection(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    for (int i = 0; i < 3; i++) {
        pass_up();
        assert_int_equal(0, peer_tls.SSL_session_reused(peer.ssl));
        assert_int_equal(100, pass_down(100)); /* and with it the server's ticket */
        peer_close_client();
        peer_connect_client();
        for (int64_t until = zkl_clock() + GIVE_UP_AFTER; !peer.ended && zkl_clock() < until;) {
            turn();
        }
        peer_end_connection();
        peer.ended = false;
    }
    close_link();
}

static void renegotiates_if_the_server_wants_it(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    zkl_openssl.SSL_CTX_ctrl(peer.context, PEER_CTRL_SET_MAX_PROTO_VERSION, ZKL_TLS_1_2, NULL);
    pass_up();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(1, peer_tls.SSL_renegotiate(peer.ssl));
        pass_up();
        assert_int_equal(50000, pass_down(50000));
    }
    close_link();
}

static void goes_on_with_new_keys_and_tickets(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    pass_up();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(1, peer_tls.SSL_key_update(peer.ssl, PEER_KEY_UPDATE_REQUESTED));
        assert_int_equal(50000, pass_down(50000));
        pass_up();
        if (peer_tls.SSL_new_session_ticket != NULL) {
            assert_int_equal(1, peer_tls.SSL_new_session_ticket(peer.ssl));
        }
        assert_int_equal(50000, pass_down(50000));
        pass_up();
    }
    close_link();
}

/*
 * Fills the wire with records, `size` bytes again and again. *next: where it goes on, since the last ones may not have fitted whole.
 * Returns how many bytes are there for the link.
 */
static int flood(const char *records, size_t size, size_t *next)
{
    ssize_t sent = 0;
    for (int i = 0; i < 1000 && sent >= 0; i++) {
        sent = send(peer.socket, records + *next, size - *next, MSG_NOSIGNAL);
        *next = (*next + (sent > 0 ? (size_t)sent : 0)) % size;
    }
    int there = 0;
    assert_int_equal(0, ioctl(zkl_tls_link_poll(link_under_test).fd, FIONREAD, &there));
    return there;
}

/* OpenSSL skips a request to renegotiate (HelloRequest) where it waits for a handshake, and reads on. */
static void is_not_kept_busy_by_a_server_that_proves_nothing(void **state)
{
    (void)state;
    static char records[1820 * 9];
    for (size_t i = 0; i < sizeof records; i += 9) {
        memcpy(records + i, "\x16\x03\x03\x00\x04\x00\x00\x00\x00", 9);
    }
    open_link(IMPATIENT_MS);
    peer.stalled = true;
    while (peer.ssl == NULL || !peer.replaced) {
        turn();
    }
    size_t next = 0;
    int before = flood(records, sizeof records, &next);
    assert_true(before > MOST_AT_A_TIME);
    zkl_tls_link_process(link_under_test, POLLIN);
    int after = 0;
    assert_int_equal(0, ioctl(zkl_tls_link_poll(link_under_test).fd, FIONREAD, &after));
    assert_int_in_range(before - after, 1, MOST_AT_A_TIME);
    while (!is_broken()) {
        flood(records, sizeof records, &next);
        turn();
    }
    assert_breaks(ZKL_TLS_FAILED, "did not finish the TLS handshake in time");
    close_link();
}

static void accepts_no_common_name_in_place_of_a_name(void **state)
{
    (void)state;
    open_link_with((settings){.certificate = "named", .host = "localhost"});
    assert_breaks(ZKL_TLS_FAILED, "hostname mismatch");
    close_link();
}

static void accepts_no_part_of_a_name(void **state)
{
    (void)state;
    open_link_with((settings){.certificate = "partial", .server_name = "localhost.example"});
    assert_breaks(ZKL_TLS_FAILED, "hostname mismatch");
    close_link();
}

static void verifies_no_pattern(void **state)
{
    (void)state;
    static const char *const names[] = {".example", "*.example"};
    for (int i = 0; i < 2; i++) {
        open_link_with((settings){.certificate = "partial", .server_name = names[i]});
        assert_breaks(ZKL_TLS_FAILED, "is no name that TLS can verify");
        close_link();
    }
}

static void never_goes_without_encryption_or_certificate(void **state)
{
    (void)state;
    static const char *const servers[] = {"eNULL:@SECLEVEL=0", "aNULL:@SECLEVEL=0"};
    for (size_t i = 0; i < sizeof servers / sizeof *servers; i++) {
        open_link_with((settings){.ciphers = "ALL:eNULL:aNULL:@SECLEVEL=0", .server_ciphers = servers[i]});
        zkl_openssl.SSL_CTX_ctrl(peer.context, PEER_CTRL_SET_MAX_PROTO_VERSION, ZKL_TLS_1_2, NULL);
        assert_breaks(ZKL_TLS_FAILED, "does not encrypt, or needs no certificate; see the option tls.ciphers");
        close_link();
    }
}

static void verifies_a_full_name_without_its_last_dot(void **state)
{
    (void)state;
    open_link_with((settings){.certificate = "full", .host = "zk.example."});
    pass_up();
    close_link();
}

/* OpenSSL would wait until somebody writes into it. */
static void refuses_a_file_that_is_none(void **state)
{
    (void)state;
    char message[ZKL_MESSAGE_SIZE];
    assert_int_equal(0, mkfifo(peer_file("pipe"), 0600));
    peer_listen("server", NULL);
    zkl_code code;
    bool first;
    const zkl_tls_options pipe = {.ca_file = peer_file("pipe"), .verify = true};
    assert_null(zkl_tls_link_new(&pipe, log_line, &lines, message, &code, &first));
    assert_non_null(strstr(message, "of the option tls.ca_file is no regular file"));
    const zkl_tls_options no_path = {.ca_path = peer_file("server"), .verify = true};
    assert_null(zkl_tls_link_new(&no_path, log_line, &lines, message, &code, &first));
    assert_non_null(strstr(message, "of the option tls.ca_path is no directory"));
    assert_int_equal(ZKL_TLS_FAILED, code);
    peer_end();
}

static void logs_where_it_is_connected_and_each_new_problem_once(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    lines = 0;
    pass_up();
    assert_non_null(strstr(logged, "connected to '127.0.0.1:"));
    assert_non_null(strstr(logged, "by TLSv1.3"));
    for (int i = 0; i < 3; i++) {
        peer.until_cut = 1;
        peer_close_client();
        peer_connect_client();
        turn();
        peer_end_connection();
        assert_breaks(ZKL_TLS_FAILED, "closed the connection during the TLS handshake");
    }
    assert_int_equal(2, lines);
    assert_non_null(strstr(logged, "closed the connection during the TLS handshake"));
    close_link();
}

/* The last bytes that the server has read. */
static char heard[8];

static void do_nothing(void)
{
}

/* Reads what has come; ends the connection after the last request, as the server does. */
static void listen_and_end(void)
{
    char bytes[16384];
    int count;
    peer_move();
    while (peer.ssl != NULL && (count = zkl_openssl.SSL_read(peer.ssl, bytes, sizeof bytes)) > 0) {
        snprintf(heard, sizeof heard, "%.*s", 7, count >= 7 ? bytes + count - 7 : "");
        if (strcmp(heard, "goodbye") == 0) {
            peer_end_connection();
        }
    }
}

/* Fills what is between the link and the server, so that the link itself has bytes left. */
static void fill_wire(void)
{
    static char bytes[16384];
    for (int left = 0; left == 0;) {
        assert_true(send(peer.client, bytes, sizeof bytes, MSG_NOSIGNAL) > 0);
        zkl_tls_link_flush(link_under_test);
        assert_int_equal(0, ioctl(peer.client, TIOCOUTQ, &left));
    }
}

/* The C client closes its socket, as zookeeper_close does. Returns how many milliseconds the link has waited for the server. */
static int64_t say_goodbye(void (*server)(void))
{
    int64_t begun = now;
    heard[0] = '\0';
    waited = 0;
    meanwhile = server;
    zkl_tls_link_closing(link_under_test);
    struct pollfd client = {.fd = peer.client, .events = POLLIN};
    assert_int_equal(1, __real_poll(&client, 1, 0)); /* zookeeper_close does not wait */
    assert_int_equal(7, send(peer.client, "goodbye", 7, MSG_NOSIGNAL));
    peer_close_client();
    zkl_tls_link_closed(link_under_test);
    meanwhile = NULL;
    return (now - begun) / TURN;
}

/* And then it ends the connection; the server sees no truncated stream. */
static void waits_for_the_end_after_the_last_request(void **state)
{
    (void)state;
    char bytes[16];
    open_link(SESSION_TIMEOUT_MS);
    pass_up();
    assert_int_equal(1500, say_goodbye(do_nothing));
    peer_move();
    assert_int_equal(7, zkl_openssl.SSL_read(peer.ssl, bytes, sizeof bytes));
    assert_memory_equal("goodbye", bytes, 7);
    assert_int_equal(0, zkl_openssl.SSL_read(peer.ssl, bytes, sizeof bytes));
    close_link();
}

static void sends_the_last_request_and_waits_no_longer_than_the_server_needs(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    pass_up();
    lines = 0;
    assert_int_equal(0, say_goodbye(listen_and_end));
    assert_string_equal("goodbye", heard);
    assert_int_equal(0, lines); /* that the server ends the connection is no problem */
    close_link();
}

static void ends_at_once_if_there_is_no_last_request(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    pass_up();
    waited = 0;
    meanwhile = do_nothing;
    zkl_tls_link_closing(link_under_test);
    peer_close_client();
    zkl_tls_link_closed(link_under_test);
    meanwhile = NULL;
    assert_int_equal(0, waited);
    close_link();
}

/* It waits until it can send, and something of the server that nobody reads does not wake it again and again. */
static void waits_without_spinning_for_a_server_that_does_not_read(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    pass_up();
    assert_int_equal(4, zkl_openssl.SSL_write(peer.ssl, "data", 4));
    peer_move();
    fill_wire();
    assert_int_equal(1500, say_goodbye(do_nothing));
    assert_int_in_range(waited, 1, 10);
    close_link();
}

/* A socket that is closed with an older answer unread would drop the request. */
static void sends_the_last_request_when_the_server_reads_again(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    pass_up();
    assert_int_equal(4, zkl_openssl.SSL_write(peer.ssl, "data", 4));
    peer_move();
    fill_wire();
    assert_int_in_range(say_goodbye(listen_and_end), 0, 1499);
    assert_string_equal("goodbye", heard);
    close_link();
}

/* The server's answers to older requests come in the middle of the handshake that it wants; only SSL_read takes them there. */
static void sends_the_last_request_while_the_server_renegotiates(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    zkl_openssl.SSL_CTX_ctrl(peer.context, PEER_CTRL_SET_MAX_PROTO_VERSION, ZKL_TLS_1_2, NULL);
    pass_up();
    assert_int_equal(1, peer_tls.SSL_renegotiate(peer.ssl));
    assert_int_equal(4, zkl_openssl.SSL_write(peer.ssl, "data", 4)); /* after the server's wish for a handshake */
    peer_move();
    turn(); /* the link begins the handshake */
    assert_int_equal(4, zkl_openssl.SSL_write(peer.ssl, "data", 4));
    peer_move();
    assert_int_in_range(say_goodbye(listen_and_end), 0, 1499);
    assert_string_equal("goodbye", heard);
    close_link();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(passes_bytes_in_both_directions, end_test),
        cmocka_unit_test_teardown(passes_one_byte_at_a_time, end_test),
        cmocka_unit_test_teardown(breaks_at_a_truncated_record, end_test),
        cmocka_unit_test_teardown(breaks_at_a_changed_record, end_test),
        cmocka_unit_test_teardown(breaks_where_the_handshake_is_cut, end_test),
        cmocka_unit_test_teardown(breaks_at_anything_else_than_a_handshake, end_test),
        cmocka_unit_test_teardown(breaks_when_the_server_says_nothing, end_test),
        cmocka_unit_test_teardown(breaks_without_a_signal_when_it_writes_to_a_closed_connection, end_test),
        cmocka_unit_test_teardown(ends_the_connection_with_the_socket_of_the_c_client, end_test),
        cmocka_unit_test_teardown(verifies_the_server_anew_at_each_connection, end_test),
        cmocka_unit_test_teardown(renegotiates_if_the_server_wants_it, end_test),
        cmocka_unit_test_teardown(goes_on_with_new_keys_and_tickets, end_test),
        cmocka_unit_test_teardown(is_not_kept_busy_by_a_server_that_proves_nothing, end_test),
        cmocka_unit_test_teardown(accepts_no_common_name_in_place_of_a_name, end_test),
        cmocka_unit_test_teardown(accepts_no_part_of_a_name, end_test),
        cmocka_unit_test_teardown(verifies_no_pattern, end_test),
        cmocka_unit_test_teardown(never_goes_without_encryption_or_certificate, end_test),
        cmocka_unit_test_teardown(verifies_a_full_name_without_its_last_dot, end_test),
        cmocka_unit_test_teardown(refuses_a_file_that_is_none, end_test),
        cmocka_unit_test_teardown(logs_where_it_is_connected_and_each_new_problem_once, end_test),
        cmocka_unit_test_teardown(waits_for_the_end_after_the_last_request, end_test),
        cmocka_unit_test_teardown(sends_the_last_request_and_waits_no_longer_than_the_server_needs, end_test),
        cmocka_unit_test_teardown(ends_at_once_if_there_is_no_last_request, end_test),
        cmocka_unit_test_teardown(waits_without_spinning_for_a_server_that_does_not_read, end_test),
        cmocka_unit_test_teardown(sends_the_last_request_when_the_server_reads_again, end_test),
        cmocka_unit_test_teardown(sends_the_last_request_while_the_server_renegotiates, end_test),
    };
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
