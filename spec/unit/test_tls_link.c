/*
 * The TLS link against a server in this thread, whose bytes pass through the test's hands: one at a time, cut off, changed, or not
 * at all. A socket stands for the C client's. The server's side of TLS is OpenSSL's, found as the link finds its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../csrc/client/tls_link.h"

#define SECRET "the session's password"
#define SESSION_TIMEOUT_MS 30000
#define IMPATIENT_MS 300 /* of a test that waits for a deadline */
#define GIVE_UP_AFTER (20 * ZKL_SECOND)
#define NO_LIMIT SIZE_MAX

/* What the server needs beside zkl_tls_library. */
static struct {
    const zkl_ssl_method *(*TLS_server_method)(void);
    void (*SSL_set_accept_state)(zkl_ssl *ssl);
    const zkl_bio_method *(*BIO_s_mem)(void);
    int (*BIO_read)(zkl_bio *bio, void *bytes, int size);
    int (*BIO_write)(zkl_bio *bio, const void *bytes, int length);
} more;

static const zkl_tls_library *tls;
static char directory[] = "/tmp/zklock-test-XXXXXX";
static char certificate[64], key[64];

/* The server, its connection, and the C client's socket. */
static struct {
    int listener, socket, client;
    zkl_ssl_context *context;
    zkl_ssl *ssl;
    zkl_bio *in, *out;
    size_t limit;        /* how many bytes pass at a time */
    size_t until_cut;    /* how many more bytes pass from the server before the connection is cut */
    size_t until_change; /* before one is changed */
    bool stalled;        /* the server says nothing */
    bool seen;           /* SECRET was on the wire */
    bool ended;          /* the client has ended the stream, by TLS */
    char wire[4096];
    size_t wire_length;
} server;

static zkl_tls_link *link_under_test;

/* --- setting up ----------------------------------------------------------------------------------------------------- */

static void find(const char *name, void *function)
{
    static void *library;
    library = library != NULL ? library : dlopen("libssl.so.3", RTLD_NOW);
    library = library != NULL ? library : dlopen("libssl.so.1.1", RTLD_NOW);
    void *address = dlsym(library, name);
    assert_non_null(address);
    memcpy(function, &address, sizeof address);
}

static int set_up_all(void **state)
{
    (void)state;
    char message[ZKL_MESSAGE_SIZE], command[512];
    bool first;
    tls = zkl_tls_library_load(message, sizeof message, &first);
    assert_non_null(tls);
    find("TLS_server_method", (void *)&more.TLS_server_method);
    find("SSL_set_accept_state", (void *)&more.SSL_set_accept_state);
    find("BIO_s_mem", (void *)&more.BIO_s_mem);
    find("BIO_read", (void *)&more.BIO_read);
    find("BIO_write", (void *)&more.BIO_write);
    assert_non_null(mkdtemp(directory));
    snprintf(certificate, sizeof certificate, "%s/certificate", directory);
    snprintf(key, sizeof key, "%s/key", directory);
    snprintf(
        command, sizeof command,
        "LD_PRELOAD= openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=zk "
        "-addext subjectAltName=IP:127.0.0.1 -keyout %s -out %s 2>/dev/null",
        key, certificate);
    assert_int_equal(0, system(command));
    return 0;
}

static int tear_down_all(void **state)
{
    (void)state;
    unlink(certificate);
    unlink(key);
    rmdir(directory);
    return 0;
}

/* Returns a socket that listens on a port of its own, or that connects to a port if there is one. It does not block. */
static int open_socket(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (port != 0) {
        assert_true(connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 || errno == EINPROGRESS);
    } else {
        assert_int_equal(0, bind(fd, (const struct sockaddr *)&address, sizeof address));
        assert_int_equal(0, listen(fd, 8));
    }
    return fd;
}

static int port_of(int fd)
{
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    assert_int_equal(0, getsockname(fd, (struct sockaddr *)&address, &size));
    return ntohs(address.sin_port);
}

/* Makes the C client's socket, as the C client would. */
static void connect_client(void)
{
    char *end;
    long port = strtol(strchr(zkl_tls_link_addresses(link_under_test), ':') + 1, &end, 10);
    assert_string_equal("/app", end);
    server.client = open_socket((int)port);
}

static void open_link(int32_t session_timeout_ms)
{
    memset(&server, 0, sizeof server);
    server.listener = open_socket(0);
    server.socket = -1;
    server.limit = server.until_cut = server.until_change = NO_LIMIT;
    server.context = tls->SSL_CTX_new(more.TLS_server_method());
    assert_int_equal(1, tls->SSL_CTX_use_certificate_chain_file(server.context, certificate));
    assert_int_equal(1, tls->SSL_CTX_use_PrivateKey_file(server.context, key, ZKL_SSL_FILETYPE_PEM));
    const zkl_tls_options options = {.ca_file = certificate, .verify = true};
    char servers[64], message[ZKL_MESSAGE_SIZE];
    zkl_code code;
    bool first;
    snprintf(servers, sizeof servers, "127.0.0.1:%d/app", port_of(server.listener));
    link_under_test = zkl_tls_link_new(&options, servers, session_timeout_ms, message, &code, &first);
    assert_non_null(link_under_test);
    connect_client();
}

static void end_server_connection(void)
{
    if (server.ssl != NULL) {
        tls->SSL_free(server.ssl);
        server.ssl = NULL;
        close(server.socket);
        server.socket = -1;
    }
}

static void close_link(void)
{
    end_server_connection();
    if (server.client >= 0) {
        close(server.client);
    }
    close(server.listener);
    tls->SSL_CTX_free(server.context);
    zkl_tls_link_free(link_under_test);
    assert_int_equal(0, zkl_memory_in_use());
}

/* --- the wire ------------------------------------------------------------------------------------------------------- */

static void accept_link(void)
{
    server.socket = accept4(server.listener, NULL, NULL, SOCK_NONBLOCK);
    if (server.socket >= 0) {
        server.ssl = tls->SSL_new(server.context);
        server.in = tls->BIO_new(more.BIO_s_mem());
        server.out = tls->BIO_new(more.BIO_s_mem());
        tls->SSL_set_bio(server.ssl, server.in, server.out);
        more.SSL_set_accept_state(server.ssl);
        tls->SSL_do_handshake(server.ssl);
    }
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Notes what is on the wire from the client, and looks for SECRET in it. */
static void listen_in(const char *bytes, size_t length)
{
    size_t room = sizeof server.wire - server.wire_length;
    if (length > room) {
        memmove(server.wire, server.wire + sizeof server.wire / 2, sizeof server.wire / 2);
        server.wire_length = sizeof server.wire / 2;
        length = least(length, sizeof server.wire / 2);
    }
    memcpy(server.wire + server.wire_length, bytes, length);
    server.wire_length += length;
    server.seen = server.seen || memmem(server.wire, server.wire_length, SECRET, strlen(SECRET)) != NULL;
}

/* Moves bytes between the socket and the server's TLS, within the limits. */
static void move_wire(void)
{
    char bytes[2048];
    ssize_t received = recv(server.socket, bytes, least(server.limit, sizeof bytes), MSG_DONTWAIT);
    if (received > 0) {
        listen_in(bytes, (size_t)received);
        more.BIO_write(server.in, bytes, (int)received);
    }
    server.ended = server.ended || received == 0;
    tls->SSL_do_handshake(server.ssl);
    tls->ERR_clear_error();
    if (server.stalled) {
        return;
    }
    int count = more.BIO_read(server.out, bytes, (int)least(least(server.limit, server.until_cut), sizeof bytes));
    if (count > 0) {
        if ((size_t)count > server.until_change) {
            bytes[server.until_change] ^= 1;
            server.until_change = NO_LIMIT;
        }
        assert_int_equal(count, send(server.socket, bytes, (size_t)count, MSG_NOSIGNAL));
        server.until_change -= server.until_change != NO_LIMIT ? (size_t)count : 0;
        server.until_cut -= server.until_cut != NO_LIMIT ? (size_t)count : 0;
    }
    if (server.until_cut == 0) {
        end_server_connection();
    }
}

/* One turn of the driver, and of the server. `connected` as in zkl_tls_link_prepare. */
static void turn(bool connected)
{
    zkl_poll wanted = {.fd = server.client, .wake_at = zkl_clock() + ZKL_SECOND / 100};
    zkl_tls_link_prepare(link_under_test, &wanted, connected);
    struct pollfd polled = zkl_tls_link_poll(link_under_test);
    poll(&polled, 1, server.limit == NO_LIMIT ? 1 : 0);
    zkl_tls_link_process(link_under_test, polled.fd >= 0 ? polled.revents : 0);
    if (server.ssl == NULL) {
        accept_link();
    } else {
        move_wire();
    }
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
        turn(false);
        problem = zkl_tls_link_problem(link_under_test, &code);
    }
    assert_non_null(problem);
    if (strstr(problem, text) == NULL) {
        fail_msg("%s", problem);
    }
    assert_int_equal(expected, code);
    assert_int_equal(-1, zkl_tls_link_poll(link_under_test).fd);
    assert_false(server.seen);
}

/* The C client writes SECRET; takes turns until the server has read it. */
static void pass_up(void)
{
    char bytes[64];
    size_t have = 0;
    turn(false); /* the pair takes the place of the socket */
    assert_int_equal(strlen(SECRET), send(server.client, SECRET, strlen(SECRET), MSG_NOSIGNAL));
    for (int64_t until = zkl_clock() + GIVE_UP_AFTER; have < strlen(SECRET) && zkl_clock() < until;) {
        turn(false);
        int count = server.ssl != NULL ? tls->SSL_read(server.ssl, bytes + have, (int)(sizeof bytes - have)) : 0;
        have += count > 0 ? (size_t)count : 0;
    }
    assert_int_equal(strlen(SECRET), have);
    assert_memory_equal(SECRET, bytes, have);
    assert_false(server.seen);
}

/* The server writes so many bytes; takes turns until the C client has read them, unless the link breaks. Returns how many it has read. */
static size_t pass_down(size_t size)
{
    char *bytes = calloc(1, size), buffer[512];
    size_t have = 0;
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (char)(i * 31);
    }
    assert_int_equal(size, tls->SSL_write(server.ssl, bytes, (int)size));
    for (int64_t until = zkl_clock() + GIVE_UP_AFTER; have < size && !is_broken() && zkl_clock() < until;) {
        turn(true);
        ssize_t received;
        while ((received = recv(server.client, buffer, sizeof buffer, MSG_DONTWAIT)) > 0) {
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
    ssize_t received = recv(server.client, &byte, 1, MSG_DONTWAIT);
    assert_true(received == 0 || (received < 0 && errno == ECONNRESET));
}

/* --- the tests ------------------------------------------------------------------------------------------------------ */

static void passes_bytes_in_both_directions(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    assert_non_null(strstr(zkl_tls_link_addresses(link_under_test), "/app"));
    pass_up();
    assert_int_equal(1000000, pass_down(1000000)); /* more than the socket pair takes */
    pass_up();
    close_link();
}

static void passes_one_byte_at_a_time(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    server.limit = 1;
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
    server.until_cut = 600; /* the tickets, if the server sends any, and a part of the record */
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
    server.until_change = 5000;
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
        server.until_cut = length;
        assert_breaks(ZKL_TLS_FAILED, "closed the connection during the TLS handshake");
        assert_client_sees_the_end();
        close(server.client);
        connect_client();
        turn(false);
    }
    server.until_cut = NO_LIMIT;
    pass_up();
    close_link();
}

static void breaks_at_anything_else_than_a_handshake(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    server.stalled = true;
    while (server.ssl == NULL) {
        turn(false);
    }
    static const char plain[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    assert_int_equal(sizeof plain, send(server.socket, plain, sizeof plain, 0));
    assert_breaks(ZKL_TLS_FAILED, "secureClientPort");
    close_link();
}

static void breaks_when_the_server_says_nothing(void **state)
{
    (void)state;
    open_link(IMPATIENT_MS);
    server.stalled = true;
    assert_breaks(ZKL_TLS_FAILED, "did not finish the TLS handshake within 0.1 s");
    close_link();
}

static void breaks_without_a_signal_when_it_writes_to_a_closed_connection(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    pass_up();
    end_server_connection(); /* the first bytes are answered by a reset, and the next ones by EPIPE */
    for (int i = 0; i < 3; i++) {
        send(server.client, SECRET, strlen(SECRET), MSG_NOSIGNAL);
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
    close(server.client);
    server.client = -1;
    for (int64_t until = zkl_clock() + GIVE_UP_AFTER; !server.ended && zkl_clock() < until;) {
        turn(true);
    }
    assert_true(server.ended);
    assert_false(is_broken());
    close_link();
}

static void sends_the_last_request_before_the_end(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    pass_up();
    zkl_tls_link_closing(link_under_test);
    struct pollfd client = {.fd = server.client, .events = POLLIN};
    assert_int_equal(1, poll(&client, 1, 0)); /* zookeeper_close does not wait */
    assert_int_equal(7, send(server.client, "goodbye", 7, MSG_NOSIGNAL));
    close(server.client);
    server.client = -1;
    zkl_tls_link_closed(link_under_test);
    move_wire();
    char bytes[16];
    assert_int_equal(7, tls->SSL_read(server.ssl, bytes, sizeof bytes));
    assert_memory_equal("goodbye", bytes, 7);
    assert_int_equal(0, tls->SSL_read(server.ssl, bytes, sizeof bytes)); /* the end, and not a truncated stream */
    close_link();
}

static void resumes_its_session_with_the_server(void **state)
{
    (void)state;
    open_link(SESSION_TIMEOUT_MS);
    for (int i = 0; i < 3; i++) {
        pass_up();
        assert_int_equal(i > 0, tls->SSL_session_reused(server.ssl));
        assert_int_equal(100, pass_down(100)); /* and with it the server's ticket */
        close(server.client);
        connect_client();
        for (int64_t until = zkl_clock() + GIVE_UP_AFTER; !server.ended && zkl_clock() < until;) {
            turn(false);
        }
        end_server_connection();
        server.ended = false;
    }
    close_link();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_bytes_in_both_directions),
        cmocka_unit_test(passes_one_byte_at_a_time),
        cmocka_unit_test(breaks_at_a_truncated_record),
        cmocka_unit_test(breaks_at_a_changed_record),
        cmocka_unit_test(breaks_where_the_handshake_is_cut),
        cmocka_unit_test(breaks_at_anything_else_than_a_handshake),
        cmocka_unit_test(breaks_when_the_server_says_nothing),
        cmocka_unit_test(breaks_without_a_signal_when_it_writes_to_a_closed_connection),
        cmocka_unit_test(ends_the_connection_with_the_socket_of_the_c_client),
        cmocka_unit_test(sends_the_last_request_before_the_end),
        cmocka_unit_test(resumes_its_session_with_the_server),
    };
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
