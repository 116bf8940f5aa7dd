/*
 * fuzz_tls: the TLS link against a server that lies, under libFuzzer.
 *
 * The input is a program: each byte lets time pass, moves bytes, or has the server send something: bytes as they are, records with a
 * wrong header, TLS that is right, cut off or changed, new keys, new tickets, another handshake. The C client writes, closes its socket
 * and connects again. Everything runs on one thread under one clock that this program advances.
 *
 * Checks: nothing crashes; nothing that the C client has written is on the wire unencrypted; each side reads what the other has
 * written, from its beginning, and nothing else; no turn reads more of the server than its bound; the link does not spin; and when
 * the server tells the truth again, the next connections work. At the end no memory and no descriptor is left.
 */
#include "tls_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MILLISECOND (ZKL_SECOND / 1000)
#define SESSION_TIMEOUT_MS 4000
#define MOST_ACTIONS 200
#define MOST_OF_A_TURN 32768
#define MOST_POLLS 1000 /* at one instant of the clock */

/* Turns of the end, in which the server tells the truth: many session timeouts. */
#define LAST_TURNS 4000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* These replace the C library's functions, for the link and OpenSSL too. */
#define EXPORTED __attribute__((visibility("default")))
EXPORTED int clock_gettime(clockid_t clock, struct timespec *at);
EXPORTED int poll(struct pollfd *fds, nfds_t count, int timeout);

typedef struct {
    const uint8_t *at;
    size_t left;
} input;

/* A direction: how many bytes were written and read of the sequence that `byte_at` defines. */
typedef struct {
    size_t written, read;
} flow;

static const char SECRET[] = "what the C client writes is a secret ";

static int64_t now;
static zkl_tls_link *fuzzed;
static flow up, down;
static int accepted; /* how many connections the server had accepted when the C client made its latest socket */
static int begun;    /* the connection of `down` */

int clock_gettime(clockid_t clock, struct timespec *at)
{
    if (clock != CLOCK_BOOTTIME && clock != CLOCK_MONOTONIC) {
        return (int)syscall(SYS_clock_gettime, clock, at);
    }
    at->tv_sec = now / ZKL_SECOND;
    at->tv_nsec = now % ZKL_SECOND;
    return 0;
}

/*
 * The link waits for the server in zkl_tls_link_closed. Here that takes only time of the clock above, and the server does nothing
 * meanwhile: a link that goes on without any time passing spins.
 */
int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    static int64_t last;
    static int polls;
    int ready = (int)syscall(SYS_poll, fds, count, 0);
    polls = now == last ? polls + 1 : 0;
    last = now;
    peer_must(polls < MOST_POLLS, "the link waits for what it needs");
    now += ready == 0 && timeout > 0 ? timeout * MILLISECOND : 0;
    return ready;
}

static void log_line(void *context, int level, const char *message)
{
    (void)context;
    peer_must(level > 0 && strlen(message) > 0, "a line of the log has a level and a text");
}

static uint8_t take(input *in)
{
    if (in->left == 0) {
        return 0;
    }
    in->left--;
    return *in->at++;
}

static char byte_at(size_t position)
{
    return SECRET[position % (sizeof SECRET - 1)];
}

static void check(flow *of, const char *bytes, size_t count, const char *property)
{
    peer_must(of->read + count <= of->written, property);
    for (size_t i = 0; i < count; i++) {
        peer_must(bytes[i] == byte_at(of->read + i), property);
    }
    of->read += count;
}

/* --- the C client ---------------------------------------------------------------------------------------------------- */

static void client_connects(void)
{
    peer_close_client();
    peer_connect_client();
    up = down = (flow){0};
    accepted = peer.accepted;
}

static void client_writes(size_t count)
{
    char bytes[4096];
    for (size_t i = 0; i < count; i++) {
        bytes[i] = byte_at(up.written + i);
    }
    /* Before the link has taken its socket over, the C client writes nothing: its connect has not ended. */
    int domain = AF_INET;
    socklen_t size = sizeof domain;
    getsockopt(peer.client, SOL_SOCKET, SO_DOMAIN, &domain, &size);
    ssize_t sent = domain == AF_UNIX ? send(peer.client, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT) : -1;
    up.written += sent > 0 ? (size_t)sent : 0;
}

static void client_reads(void)
{
    char bytes[4096];
    ssize_t count;
    while ((count = recv(peer.client, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
        check(&down, bytes, (size_t)count, "the C client reads what the server has written");
    }
}

/* --- the server ------------------------------------------------------------------------------------------------------ */

static void server_writes(size_t count)
{
    char bytes[4096];
    for (size_t i = 0; i < count; i++) {
        bytes[i] = byte_at(down.written + i);
    }
    int written = peer.ssl != NULL ? zkl_openssl.SSL_write(peer.ssl, bytes, (int)count) : 0;
    zkl_openssl.ERR_clear_error();
    down.written += written > 0 ? (size_t)written : 0;
}

static void server_reads(void)
{
    char bytes[4096];
    int count;
    while (peer.ssl != NULL && (count = zkl_openssl.SSL_read(peer.ssl, bytes, sizeof bytes)) > 0) {
        if (peer.accepted > accepted) { /* not what is left of the connection before */
            check(&up, bytes, (size_t)count, "the server reads what the C client has written");
        }
    }
    zkl_openssl.ERR_clear_error();
}

static void send_as_it_is(const void *bytes, size_t count)
{
    if (peer.socket >= 0) {
        send(peer.socket, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

static void server_sends_bytes(input *in)
{
    size_t count = take(in);
    count = count < in->left ? count : in->left;
    send_as_it_is(in->at, count);
    in->at += count;
    in->left -= count;
}

/* A record: its type, its version, its length (which may be a lie), and its bytes, over and over. */
static void server_sends_records(input *in)
{
    static const uint8_t types[] = {20, 21, 22, 23, 24, 0, 128};
    uint8_t record[5 + 255];
    record[0] = types[take(in) % sizeof types];
    record[1] = 3;
    record[2] = take(in) % 5;
    uint8_t length = take(in);
    uint8_t lie = take(in);
    record[3] = lie >= 250 ? lie : 0;
    record[4] = lie % 16 == 15 ? lie : length;
    for (int i = 0; i < length; i++) {
        record[5 + i] = i < 16 ? take(in) : (uint8_t)i;
    }
    for (int times = lie % 16 == 14 ? 500 : 1; times > 0; times--) {
        send_as_it_is(record, 5 + (size_t)length);
    }
}

static void server_does(input *in)
{
    if (peer.ssl == NULL) {
        return;
    }
    switch (take(in) % 6) {
    case 0:
        peer_tls.SSL_key_update(peer.ssl, take(in) % 2);
        break;
    case 1:
        if (peer_tls.SSL_new_session_ticket != NULL) {
            peer_tls.SSL_new_session_ticket(peer.ssl);
        }
        break;
    case 2:
        peer_tls.SSL_renegotiate(peer.ssl);
        break;
    case 3:
        zkl_openssl.SSL_shutdown(peer.ssl);
        break;
    case 4:
        shutdown(peer.socket, SHUT_WR);
        break;
    default:
        peer_end_connection();
        break;
    }
    zkl_openssl.ERR_clear_error();
}

/* --- the program ----------------------------------------------------------------------------------------------------- */

static int unread(int fd)
{
    int count = 0;
    return fd >= 0 && ioctl(fd, FIONREAD, &count) == 0 ? count : 0;
}

/* A turn of the driver. */
static void turn(void)
{
    peer_drive(fuzzed);
    zkl_tls_link_prepare(fuzzed);
    zkl_tls_link_flush_rest(fuzzed);
    struct pollfd polled = zkl_tls_link_poll(fuzzed);
    poll(&polled, 1, 0);
    int before = unread(polled.fd);
    zkl_tls_link_process(fuzzed, polled.fd >= 0 ? polled.revents : 0);
    if (zkl_tls_link_poll(fuzzed).fd == polled.fd) {
        peer_must(before - unread(polled.fd) <= MOST_OF_A_TURN, "a turn reads no more of the server than its bound");
    }
    zkl_code code;
    if (zkl_tls_link_problem(fuzzed, &code) != NULL) {
        peer_must(code != ZKL_OK && zkl_tls_link_poll(fuzzed).fd == -1, "a broken link has a code and no socket");
    }
    client_reads();
    peer_must(!peer.seen, "nothing of the C client is on the wire unencrypted");
    now += MILLISECOND;
}

static void server_turn(void)
{
    peer_move();
    if (peer.accepted != begun) {
        down.written = 0;
        begun = peer.accepted;
    }
    server_reads();
    if (peer.ended) {
        peer_end_connection();
        peer.ended = false;
    }
}

/* The C client closes its socket as zookeeper_close does. */
static void client_says_goodbye(void)
{
    zkl_tls_link_closing(fuzzed);
    client_writes(40);
    peer_close_client();
    zkl_tls_link_closed(fuzzed);
    server_turn();
    client_connects();
}

static void act(input *in)
{
    uint8_t action = take(in);
    switch (action % 16) {
    case 0:
        server_sends_bytes(in);
        break;
    case 1:
        server_sends_records(in);
        break;
    case 2:
        server_does(in);
        break;
    case 3:
        server_writes(take(in) * 16U);
        break;
    case 4:
        client_writes(take(in) * 16U);
        break;
    case 5:
        client_connects();
        break;
    case 6:
        client_says_goodbye();
        break;
    case 7:
        peer.limit = take(in) % 2 == 0 ? PEER_NO_LIMIT : 1U + take(in);
        break;
    case 8:
        peer.until_change = take(in) * 4U;
        break;
    case 9:
        peer.until_cut = take(in) * 4U;
        break;
    case 10:
        peer.stalled = !peer.stalled;
        break;
    case 11:
        now += take(in) * 20 * MILLISECOND;
        break;
    default:
        turn();
        server_turn();
        break;
    }
}

/* The server tells the truth again. A connection must be made soon, and bytes must pass in both directions. */
static void finish(void)
{
    peer_end_connection();
    peer.limit = peer.until_cut = peer.until_change = PEER_NO_LIMIT;
    peer.stalled = false;
    client_connects();
    bool sent = false;
    for (int turns = 0; up.read == 0 || down.read < up.read; turns++) {
        peer_must(turns < LAST_TURNS, "a connection is made when the server tells the truth again");
        turn();
        server_turn();
        zkl_code code;
        if (zkl_tls_link_problem(fuzzed, &code) !=
            NULL) { /* of the connection before, which was still in the server's list */
            peer_end_connection();
            client_connects();
            sent = false;
        } else if (!sent) {
            client_writes(100);
            sent = up.written > 0;
        } else if (up.read == up.written && down.written == 0) {
            server_writes(up.read);
        }
    }
}

static void remove_files(void)
{
    peer_remove_files();
}

static void set_up(void)
{
    static bool done;
    if (!done) {
        done = true;
        peer_load();
        peer_certify("server", "zk", "IP:127.0.0.1");
        atexit(remove_files);
    }
}

/* Returns the lowest descriptor that is free. */
static int free_descriptor(void)
{
    int fd = dup(STDERR_FILENO);
    close(fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    set_up();
    now = 1000 * ZKL_SECOND;
    begun = 0;
    int descriptor = free_descriptor();
    uint8_t options = take(&in);
    char message[ZKL_MESSAGE_SIZE];
    zkl_code code;
    bool first;
    int port = peer_listen("server", NULL);
    peer.secret = SECRET;
    if (options % 2 == 1) {
        zkl_openssl.SSL_CTX_ctrl(peer.context, PEER_CTRL_SET_MAX_PROTO_VERSION, ZKL_TLS_1_2, NULL);
    }
    const zkl_tls_options how = {.ca_file = peer_file("server"), .verify = true};
    fuzzed = zkl_tls_link_new(&how, log_line, NULL, message, &code, &first);
    peer_must(fuzzed != NULL, message);
    peer_must(peer_connector("127.0.0.1", port, SESSION_TIMEOUT_MS, log_line, NULL), "a connector");
    client_connects();
    for (int turns = options % 4 < 2 ? 0 : 8; turns > 0; turns--) { /* half of the programs begin with a connection */
        turn();
        server_turn();
    }
    for (int actions = 0; in.left > 0 && actions < MOST_ACTIONS; actions++) {
        act(&in);
    }
    finish();
    zkl_tls_link_free(fuzzed);
    peer_end();
    peer_must(zkl_memory_in_use() == 0, "all memory is given back");
    peer_must(free_descriptor() == descriptor, "all descriptors are closed");
    return 0;
}
