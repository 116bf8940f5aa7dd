/* tls peer: a TLS server and a socket of the C client's, on both sides of a TLS link, in the thread of the test. */
#include "tls_peer.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

tls_peer peer;
peer_functions peer_tls;

static char directory[] = "/tmp/zklock-test-XXXXXX";

void peer_must(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "violated: %s\n", what);
        abort();
    }
}

/* --- setting up ----------------------------------------------------------------------------------------------------- */

static void find(void *library, const char *name, void *function, bool needed)
{
    void *address = dlsym(library, name);
    peer_must(address != NULL || !needed, name);
    memcpy(function, &address, sizeof address);
}

void peer_load(void)
{
    char message[ZKL_MESSAGE_SIZE];
    bool first;
    peer_must(zkl_tls_library_load(message, sizeof message, &first), message);
    void *library = dlopen("libssl.so.3", RTLD_NOW);
    library = library != NULL ? library : dlopen("libssl.so.1.1", RTLD_NOW);
    find(library, "TLS_server_method", (void *)&peer_tls.TLS_server_method, true);
    find(library, "SSL_set_accept_state", (void *)&peer_tls.SSL_set_accept_state, true);
    find(library, "BIO_s_mem", (void *)&peer_tls.BIO_s_mem, true);
    find(library, "BIO_read", (void *)&peer_tls.BIO_read, true);
    find(library, "BIO_write", (void *)&peer_tls.BIO_write, true);
    find(library, "SSL_session_reused", (void *)&peer_tls.SSL_session_reused, true);
    find(library, "SSL_renegotiate", (void *)&peer_tls.SSL_renegotiate, true);
    find(library, "SSL_key_update", (void *)&peer_tls.SSL_key_update, true);
    find(library, "SSL_new_session_ticket", (void *)&peer_tls.SSL_new_session_ticket, false);
    peer_must(mkdtemp(directory) != NULL, "mkdtemp");
}

const char *peer_file(const char *name)
{
    static char paths[4][128];
    static unsigned int used;
    char *path = paths[used++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s.pem", directory, name);
    return path;
}

void peer_certify(const char *name, const char *subject, const char *names)
{
    char command[512];
    bool first = access(peer_file("key"), F_OK) != 0;
    snprintf(command, sizeof command,
             "cd %s && LD_PRELOAD= openssl req -x509 %s -nodes -days 2 -subj /CN=%s %s%s -out %s.pem 2>/dev/null",
             directory, first ? "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -keyout key.pem" : "-key key.pem",
             subject, names != NULL ? "-addext subjectAltName=" : "", names != NULL ? names : "", name);
    peer_must(system(command) == 0, command); /* NOLINT(cert-env33-c,concurrency-mt-unsafe) */
}

void peer_remove_files(void)
{
    char command[128];
    snprintf(command, sizeof command, "LD_PRELOAD= rm -r %s", directory);
    peer_must(system(command) == 0, command); /* NOLINT(cert-env33-c,concurrency-mt-unsafe) */
}

/* Returns a socket that listens on a port of its own, or that connects to a port if there is one. It does not block. */
static int open_socket(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (port != 0) {
        peer_must(connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 || errno == EINPROGRESS,
                  "connect");
    } else {
        peer_must(bind(fd, (const struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 8) == 0, "listen");
    }
    return fd;
}

int peer_listen(const char *name, const char *ciphers)
{
    peer = (tls_peer){.listener = open_socket(0),
                      .socket = -1,
                      .client = -1,
                      .context = zkl_openssl.SSL_CTX_new(peer_tls.TLS_server_method()),
                      .limit = PEER_NO_LIMIT,
                      .until_cut = PEER_NO_LIMIT,
                      .until_change = PEER_NO_LIMIT};
    peer_must(zkl_openssl.SSL_CTX_use_certificate_chain_file(peer.context, peer_file(name)) == 1, name);
    peer_must(zkl_openssl.SSL_CTX_use_PrivateKey_file(peer.context, peer_file("key"), ZKL_SSL_FILETYPE_PEM) == 1,
              "key");
    peer_must(ciphers == NULL || zkl_openssl.SSL_CTX_set_cipher_list(peer.context, ciphers) == 1, "ciphers");
    struct sockaddr_in address = {0};
    socklen_t size = sizeof address;
    peer_must(getsockname(peer.listener, (struct sockaddr *)&address, &size) == 0, "getsockname");
    return ntohs(address.sin_port);
}

bool peer_connector(const char *host, int port, int32_t session_timeout_ms, zkl_connector_log_fn log, void *log_context)
{
    char servers[64], message[ZKL_MESSAGE_SIZE];
    snprintf(servers, sizeof servers, "%s:%d/app", host, port);
    peer.connector = zkl_connector_new(servers, session_timeout_ms, 1, log, log_context, message);
    return peer.connector != NULL;
}

void peer_connect_client(void)
{
    const char *port = strchr(zkl_connector_addresses(peer.connector), ':') + 1;
    peer.client = open_socket((int)strtol(port, NULL, 10));
    peer.replaced = false;
}

void peer_drive(zkl_tls_link *link)
{
    int64_t wake_at = ZKL_NEVER;
    if (peer.client >= 0 && !peer.replaced) {
        zkl_tls_link_end(link);
        peer.replaced = zkl_connector_reach(peer.connector, &wake_at);
        if (peer.replaced) {
            zkl_tls_link_begin(link, peer.connector, peer.client);
        }
    } else if (zkl_connector_overdue(peer.connector, &wake_at)) {
        zkl_tls_link_late(link);
    }
}

void peer_close_client(void)
{
    if (peer.client >= 0) {
        close(peer.client);
        peer.client = -1;
    }
}

void peer_end_connection(void)
{
    if (peer.ssl != NULL) {
        zkl_openssl.SSL_free(peer.ssl);
        peer.ssl = NULL;
        close(peer.socket);
        peer.socket = -1;
    }
}

void peer_end(void)
{
    peer_end_connection();
    peer_close_client();
    zkl_connector_free(peer.connector);
    close(peer.listener);
    zkl_openssl.SSL_CTX_free(peer.context);
}

/* --- the wire ------------------------------------------------------------------------------------------------------- */

static void accept_link(void)
{
    peer.socket = accept4(peer.listener, NULL, NULL, SOCK_NONBLOCK);
    if (peer.socket >= 0) {
        peer.accepted++;
        int on = 1;
        setsockopt(peer.socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        peer.ssl = zkl_openssl.SSL_new(peer.context);
        peer.in = zkl_openssl.BIO_new(peer_tls.BIO_s_mem());
        peer.out = zkl_openssl.BIO_new(peer_tls.BIO_s_mem());
        zkl_openssl.SSL_set_bio(peer.ssl, peer.in, peer.out);
        peer_tls.SSL_set_accept_state(peer.ssl);
        zkl_openssl.SSL_do_handshake(peer.ssl);
        zkl_openssl.ERR_clear_error();
    }
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Notes what is on the wire from the client, and looks for the secret in it. */
static void listen_in(const char *bytes, size_t length)
{
    size_t room = sizeof peer.wire - peer.wire_length;
    if (length > room) {
        memmove(peer.wire, peer.wire + sizeof peer.wire / 2, sizeof peer.wire / 2);
        peer.wire_length = sizeof peer.wire / 2;
        length = least(length, sizeof peer.wire / 2);
    }
    memcpy(peer.wire + peer.wire_length, bytes, length);
    peer.wire_length += length;
    peer.seen = peer.seen || memmem(peer.wire, peer.wire_length, peer.secret, strlen(peer.secret)) != NULL;
}

static void move_up(void)
{
    char bytes[2048];
    ssize_t received = recv(peer.socket, bytes, least(peer.limit, sizeof bytes), MSG_DONTWAIT);
    if (received > 0) {
        if (peer.secret != NULL) {
            listen_in(bytes, (size_t)received);
        }
        peer_tls.BIO_write(peer.in, bytes, (int)received);
    }
    peer.ended = peer.ended || received == 0 || (received < 0 && errno != EAGAIN);
    zkl_openssl.SSL_do_handshake(peer.ssl);
    zkl_openssl.ERR_clear_error();
}

static void move_down(void)
{
    char bytes[2048];
    int count = peer_tls.BIO_read(peer.out, bytes, (int)least(least(peer.limit, peer.until_cut), sizeof bytes));
    if (count <= 0) {
        return;
    }
    if ((size_t)count > peer.until_change) {
        bytes[peer.until_change] ^= 1;
        peer.until_change = PEER_NO_LIMIT;
    }
    ssize_t sent = send(peer.socket, bytes, (size_t)count, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent != count) { /* the link has closed its end, or reads nothing: bytes are missing from here on */
        peer.until_cut = 0;
        return;
    }
    peer.until_change -= peer.until_change != PEER_NO_LIMIT ? (size_t)count : 0;
    peer.until_cut -= peer.until_cut != PEER_NO_LIMIT ? (size_t)count : 0;
}

void peer_move(void)
{
    if (peer.ssl == NULL) {
        accept_link();
        return;
    }
    move_up();
    if (!peer.stalled) {
        move_down();
    }
    if (peer.until_cut == 0) {
        peer_end_connection();
    }
}
