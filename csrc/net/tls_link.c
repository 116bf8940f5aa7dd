/* TLS link: connects the unchanged C client to a server by TLS. */
#include "tls_link.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/os.h"
#include "server_list.h"
#include "tls_context.h"

/* One TLS record holds so many bytes at most. */
#define RECORD 16384

/*
 * The most bytes of the server that are received in a turn. Some need nothing of this side (requests to renegotiate in a handshake, new
 * tickets), so OpenSSL would read on for as long as they come. The next turn, which follows at once, receives the rest.
 */
#define TURN (2 * RECORD)

/* How long zkl_tls_link_closed waits for the server. */
#define GOODBYE_WITHIN (ZKL_SECOND * 3 / 2)

/*
 * For so long after a flush the C client sends no ping of its own: it does so after a third of the session timeout, which is at least
 * 100 ms.
 */
#define FLUSHED_FOR (ZKL_SECOND / 100)

/* Of a certificate's remaining time, more is not told. */
#define DAY INT64_C(86400)
#define LONGEST_DAYS 36500

/* `enter_link` makes every transition. */
typedef enum {
    ZKL_TLS_LINK_NONE,        /* At first, and when the C client has closed its socket. */
    ZKL_TLS_LINK_HANDSHAKING, /* The connector has reached a server. */
    ZKL_TLS_LINK_OPEN,        /* Certificate and name are verified. Bytes pass in both directions. */
    ZKL_TLS_LINK_BROKEN /* A failure, a deadline, or the server's end. The pair is closed: the C client will notice. */
} zkl_tls_link_state;

/* Bytes on their way: those from `from` on, `length` of them. */
typedef struct {
    int32_t from;
    int32_t length;
    char bytes[RECORD];
} stretch;

struct zkl_tls_link {
    zkl_tls_options options; /* with copies of the strings */
    zkl_server *server;      /* The latest connection is with it. */
    zkl_tls_link_state state;
    int end;      /* The link's end of the socket pair, or -1. */
    int fd;       /* The socket to the server, or -1. */
    short events; /* `fd` is polled for these. */
    zkl_ssl_context *context;
    zkl_ssl *ssl;
    int32_t left; /* How many more bytes of the server may be received in this turn. */
    bool flushed; /* The C client's latest bytes were taken after the latest zkl_tls_link_process. */
    int64_t flushed_at;
    bool eof;     /* The server has ended the TCP stream. */
    bool fatal;   /* OpenSSL must not be called any more for this connection. */
    bool closing; /* zkl_tls_link_closing was called, and zkl_tls_link_closed was not. */
    int error;    /* The errno of the latest failure to send or to receive, or 0. */
    stretch up;   /* From the C client to the server. Not encrypted. */
    stretch down; /* From the server to the C client. Decrypted. */
    zkl_connector_log_fn log;
    void *log_context;
    zkl_code code;
    char problem[ZKL_MESSAGE_SIZE];
    zkl_tls_expiry expiry;
};

/* --- states -------------------------------------------------------------------------------------------------------- */

static void enter_link(zkl_tls_link *link, zkl_tls_link_state next)
{
#define TO(state) (1U << ZKL_TLS_LINK_##state)
    static const uint32_t legal[] = {
        [ZKL_TLS_LINK_NONE] = TO(HANDSHAKING),
        [ZKL_TLS_LINK_HANDSHAKING] = TO(OPEN) | TO(BROKEN) | TO(NONE),
        [ZKL_TLS_LINK_OPEN] = TO(BROKEN) | TO(NONE),
        [ZKL_TLS_LINK_BROKEN] = TO(NONE),
    };
#undef TO
    assert((legal[link->state] & 1U << next) != 0);
    link->state = next;
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

/*
 * Ends what there is of a connection. The sockets are shut down and not only closed: a child that the program has forked meanwhile may
 * have a copy of them.
 */
static void drop_link(zkl_tls_link *link)
{
    if (link->ssl != NULL) {
        if (link->state == ZKL_TLS_LINK_OPEN && !link->fatal) {
            zkl_openssl.SSL_shutdown(link->ssl); /* tells the server that this is the end, and not a truncated stream */
        }
        zkl_openssl.SSL_free(link->ssl);
        link->ssl = NULL;
    }
    if (link->context != NULL) {
        zkl_openssl.SSL_CTX_free(link->context);
        link->context = NULL;
    }
    zkl_openssl.ERR_clear_error();
    if (link->fd >= 0) {
        shutdown(link->fd, SHUT_RDWR);
    }
    if (link->end >= 0) {
        shutdown(link->end, SHUT_RDWR);
    }
    close_fd(&link->fd);
    close_fd(&link->end);
    link->events = 0;
    link->eof = link->fatal = link->closing = false;
    link->error = 0;
    link->up.length = link->down.length = 0;
}

static void end_connection(zkl_tls_link *link)
{
    drop_link(link);
    enter_link(link, ZKL_TLS_LINK_NONE);
}

static void fail_link(zkl_tls_link *link, zkl_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void fail_link(zkl_tls_link *link, zkl_code code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(link->problem, sizeof link->problem, format, args);
    va_end(args);
    link->code = code;
    if (zkl_server_has_news(link->server, link->problem)) {
        link->log(link->log_context, ZOO_LOG_LEVEL_WARN, link->problem);
    }
    drop_link(link);
    enter_link(link, ZKL_TLS_LINK_BROKEN);
}

/* --- OpenSSL's way to the socket ----------------------------------------------------------------------------------- */

/* Returns the result for OpenSSL of a call that failed with errno. */
static int failed_io(zkl_tls_link *link, zkl_bio *bio, int flags)
{
    if (errno == EAGAIN || errno == EINTR) {
        zkl_openssl.BIO_set_flags(bio, flags | ZKL_BIO_FLAGS_SHOULD_RETRY);
    } else {
        link->error = errno;
    }
    return -1;
}

/* OpenSSL's own functions for sockets do not use MSG_NOSIGNAL: with them, SIGPIPE could end the program. */
static int send_bytes(zkl_bio *bio, const char *bytes, int length)
{
    zkl_tls_link *link = zkl_openssl.BIO_get_data(bio);
    zkl_openssl.BIO_clear_flags(bio, ZKL_BIO_FLAGS_READ | ZKL_BIO_FLAGS_WRITE | ZKL_BIO_FLAGS_SHOULD_RETRY);
    ssize_t sent = send(link->fd, bytes, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent >= 0 ? (int)sent : failed_io(link, bio, ZKL_BIO_FLAGS_WRITE);
}

static int receive_bytes(zkl_bio *bio, char *bytes, int size)
{
    zkl_tls_link *link = zkl_openssl.BIO_get_data(bio);
    zkl_openssl.BIO_clear_flags(bio, ZKL_BIO_FLAGS_READ | ZKL_BIO_FLAGS_WRITE | ZKL_BIO_FLAGS_SHOULD_RETRY);
    ssize_t received = -1;
    errno = EAGAIN;
    if (link->left > 0) {
        received = recv(link->fd, bytes, (size_t)(size < link->left ? size : link->left), MSG_DONTWAIT);
    }
    if (received < 0) {
        return failed_io(link, bio, ZKL_BIO_FLAGS_READ);
    }
    /* If there was less than was asked for, there is no more now: poll tells when there is. */
    link->left = received < size ? 0 : link->left - (int32_t)received;
    link->eof = link->eof || received == 0;
    return (int)received;
}

static long control_bytes(zkl_bio *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == ZKL_BIO_CTRL_FLUSH ? 1 : 0;
}

static zkl_bio_method *make_method(void)
{
    zkl_bio_method *method =
        zkl_openssl.BIO_meth_new(zkl_openssl.BIO_get_new_index() | ZKL_BIO_TYPE_SOURCE_SINK, "zklock");
    if (method != NULL) {
        zkl_openssl.BIO_meth_set_write(method, send_bytes);
        zkl_openssl.BIO_meth_set_read(method, receive_bytes);
        zkl_openssl.BIO_meth_set_ctrl(method, control_bytes);
    }
    return method;
}

/*
 * All links of the process share one method, which stays until the process ends: the number of types is limited. Returns NULL if there is
 * no memory.
 */
static zkl_bio_method *shared_method(void)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    static zkl_bio_method *method;
    pthread_mutex_lock(&making);
    if (method == NULL) {
        method = make_method();
    }
    zkl_bio_method *made = method;
    pthread_mutex_unlock(&making);
    return made;
}

/* --- failures ------------------------------------------------------------------------------------------------------ */

/* Returns whether a function of OpenSSL with this error waits for the socket: it is to be called again after link->events. */
static bool waits(zkl_tls_link *link, int error)
{
    switch (error) {
    case ZKL_SSL_ERROR_WANT_WRITE:
        link->events |= POLLOUT;
        return true;
    case ZKL_SSL_ERROR_WANT_READ:
        return true;
    default:
        link->fatal = error != ZKL_SSL_ERROR_ZERO_RETURN;
        return false;
    }
}

/*
 * Handles the result of a function of OpenSSL that did not succeed. Returns true if it is to be called again after link->events.
 * Otherwise the link is BROKEN.
 */
static bool may_go_on(zkl_tls_link *link, int result)
{
    bool open = link->state == ZKL_TLS_LINK_OPEN;
    int error = zkl_openssl.SSL_get_error(link->ssl, result);
    if (waits(link, error)) {
        return true;
    }
    const char *server = link->server->text;
    if (!open && (link->eof || link->error != 0)) {
        fail_link(
            link, ZKL_TLS_FAILED,
            "'%s' closed the connection during the TLS handshake; use the server's secureClientPort, and see its log",
            server);
    } else if (link->error != 0) {
        fail_link(link, ZKL_DISCONNECTED, "the connection to '%s' is lost: %s", server, strerror(link->error));
    } else if (link->eof || error == ZKL_SSL_ERROR_ZERO_RETURN) {
        fail_link(link, ZKL_DISCONNECTED, "'%s' closed the connection", server);
    } else {
        char message[ZKL_MESSAGE_SIZE];
        zkl_tls_explain(&link->options, link->ssl, server, message, sizeof message);
        fail_link(link, ZKL_TLS_FAILED, "%s", message);
    }
    return false;
}

/* --- moving bytes -------------------------------------------------------------------------------------------------- */

static void consume(stretch *bytes, int32_t count)
{
    bytes->from += count;
    bytes->length -= count;
}

/* OPEN. From the server to the C client, until nothing comes or the C client's buffer is full. Returns whether a byte came through. */
static bool move_down(zkl_tls_link *link)
{
    stretch *down = &link->down;
    bool moved = false;
    for (;;) {
        if (down->length == 0) {
            zkl_openssl.ERR_clear_error();
            int count = zkl_openssl.SSL_read(link->ssl, down->bytes, sizeof down->bytes);
            if (count <= 0) {
                may_go_on(link, count);
                return moved;
            }
            down->from = 0;
            down->length = count;
        }
        ssize_t sent = send(link->end, down->bytes + down->from, (size_t)down->length, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0) {
            return moved; /* full: the C client reads first. Or the C client has closed its end: move_up finds that out. */
        }
        consume(down, (int32_t)sent);
        moved = true;
    }
}

/* OPEN. Handles the result of SSL_write. If the server has closed the connection, it may have said why. */
static void not_written(zkl_tls_link *link, int result)
{
    int error = link->error;
    if (error == 0) {
        may_go_on(link, result);
        return;
    }
    link->error = 0;
    link->left = TURN;
    move_down(link);
    if (link->state == ZKL_TLS_LINK_OPEN) {
        link->fatal = true;
        fail_link(link, ZKL_DISCONNECTED, "the connection to '%s' is lost: %s", link->server->text, strerror(error));
    }
}

/* OPEN. From the C client to the server, until nothing is left or the server's buffer is full. Returns how many bytes were taken. */
static int64_t move_up(zkl_tls_link *link)
{
    stretch *up = &link->up;
    int64_t taken = 0;
    bool more = true;
    while (more || up->length > 0) {
        if (up->length == 0) {
            ssize_t received = recv(link->end, up->bytes, sizeof up->bytes, MSG_DONTWAIT);
            if (received == 0 && !link->closing) {
                end_connection(link); /* the C client has closed its socket */
            }
            if (received <= 0) {
                return taken;
            }
            up->from = 0;
            up->length = (int32_t)received;
            taken += received;
            more = received == sizeof up->bytes || link->closing;
        }
        zkl_openssl.ERR_clear_error();
        int count = zkl_openssl.SSL_write(link->ssl, up->bytes + up->from, up->length);
        if (count <= 0) {
            not_written(link, count);
            return taken;
        }
        consume(up, count);
    }
    return taken;
}

/* --- the handshake ---------------------------------------------------------------------------------------------------- */

/* Returns until when a certificate is valid, on zkl_clock; 0: there is none, or it does not say that. */
static int64_t valid_until(const zkl_certificate *certificate)
{
    int days = 0;
    int seconds = 0;
    if (certificate == NULL ||
        zkl_openssl.ASN1_TIME_diff(&days, &seconds, NULL, zkl_openssl.X509_get0_notAfter(certificate)) != 1) {
        return 0;
    }
    days = days < LONGEST_DAYS ? days : LONGEST_DAYS;
    return zkl_clock() + (days * DAY + seconds) * ZKL_SECOND;
}

/* Makes what OpenSSL needs for the connection. Returns false if the link is BROKEN instead. */
static bool make_ssl(zkl_tls_link *link)
{
    char message[ZKL_MESSAGE_SIZE];
    link->context = zkl_tls_context_open(&link->options, message, sizeof message);
    if (link->context == NULL) {
        fail_link(link, ZKL_TLS_FAILED, "%s", message);
        return false;
    }
    link->ssl = zkl_openssl.SSL_new(link->context);
    zkl_bio *bio = link->ssl != NULL ? zkl_openssl.BIO_new(shared_method()) : NULL;
    if (bio == NULL) {
        fail_link(link, ZKL_FAILED, "not enough memory for a TLS connection");
        return false;
    }
    zkl_openssl.BIO_set_data(bio, link);
    zkl_openssl.BIO_set_init(bio, 1);
    zkl_openssl.SSL_set_bio(link->ssl, bio, bio);
    zkl_openssl.SSL_set_connect_state(link->ssl);
    link->expiry.own = valid_until(zkl_openssl.SSL_get_certificate(link->ssl));
    const char *name = link->options.server_name != NULL ? link->options.server_name : link->server->name;
    if (!zkl_tls_expect(link->ssl, name)) {
        fail_link(link, ZKL_TLS_FAILED, "'%s' is no name that TLS can verify", name);
        return false;
    }
    return true;
}

/* After the handshake. A list of ciphers, of the option or of OpenSSL's configuration, may name some without encryption. */
static bool is_protected(zkl_tls_link *link)
{
    const zkl_ssl_cipher *cipher = zkl_openssl.SSL_get_current_cipher(link->ssl);
    if (zkl_openssl.SSL_CIPHER_get_bits(cipher, NULL) > 0 &&
        zkl_openssl.SSL_CIPHER_get_auth_nid(cipher) != ZKL_NID_AUTH_NULL) {
        return true;
    }
    link->fatal = true;
    fail_link(link, ZKL_TLS_FAILED,
              "the cipher %s, which '%s' chose, does not encrypt, or needs no certificate; see the option tls.ciphers",
              zkl_openssl.SSL_CIPHER_get_name(cipher), link->server->text);
    return false;
}

/* HANDSHAKING. */
static void shake_hands(zkl_tls_link *link)
{
    link->events = POLLIN;
    zkl_openssl.ERR_clear_error();
    int result = zkl_openssl.SSL_do_handshake(link->ssl);
    if (result != 1) {
        may_go_on(link, result);
    } else if (is_protected(link)) {
        char message[ZKL_MESSAGE_SIZE];
        snprintf(message, sizeof message, "connected to '%s' by %s", link->server->text,
                 zkl_openssl.SSL_get_version(link->ssl));
        link->log(link->log_context, ZOO_LOG_LEVEL_INFO, message);
        const zkl_stack *chain = zkl_openssl.SSL_get_peer_cert_chain(link->ssl);
        link->expiry.server = valid_until(zkl_openssl.OPENSSL_sk_value(chain, 0));
        enter_link(link, ZKL_TLS_LINK_OPEN);
    }
}

/* --- for the driver ------------------------------------------------------------------------------------------------ */

/* Puts one end of a new pair in the place of the C client's socket. Returns false, with errno, if that fails. */
static bool take_over(zkl_tls_link *link, zkl_connector *connector, int fd)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
        shutdown(fd, SHUT_RDWR);
        return false;
    }
    link->end = ends[1];
    return zkl_connector_replace(connector, fd, ends[0]);
}

void zkl_tls_link_begin(zkl_tls_link *link, zkl_connector *connector, int fd)
{
    zkl_tls_link_end(link);
    link->fd = zkl_connector_take(connector, &link->server);
    link->left = TURN;
    enter_link(link, ZKL_TLS_LINK_HANDSHAKING);
    if (!take_over(link, connector, fd)) {
        fail_link(link, ZKL_FAILED, "cannot make sockets for TLS: %s", strerror(errno));
    } else if (make_ssl(link)) {
        shake_hands(link);
    }
}

void zkl_tls_link_end(zkl_tls_link *link)
{
    if (link->state != ZKL_TLS_LINK_NONE) {
        end_connection(link);
    }
}

bool zkl_tls_link_late(zkl_tls_link *link)
{
    if (link->state != ZKL_TLS_LINK_HANDSHAKING) {
        return false;
    }
    fail_link(link, ZKL_TLS_FAILED,
              "'%s' did not finish the TLS handshake in time; use the server's secureClientPort, and see its log",
              link->server->text);
    return true;
}

void zkl_tls_link_flush(zkl_tls_link *link)
{
    if (link->state == ZKL_TLS_LINK_OPEN && move_up(link) > 0) {
        link->flushed = true;
        link->flushed_at = zkl_clock();
    }
}

void zkl_tls_link_flush_rest(zkl_tls_link *link)
{
    if (!link->flushed || zkl_clock() - link->flushed_at > FLUSHED_FOR) {
        zkl_tls_link_flush(link);
    }
}

void zkl_tls_link_prepare(zkl_tls_link *link)
{
    link->left = TURN;
    if (link->state == ZKL_TLS_LINK_OPEN && link->down.length > 0) {
        move_down(link); /* the C client may have read meanwhile */
    }
}

struct pollfd zkl_tls_link_poll(const zkl_tls_link *link)
{
    return (struct pollfd){.fd = link->fd, .events = link->events};
}

bool zkl_tls_link_process(zkl_tls_link *link, short revents)
{
    zkl_tls_link_state was = link->state;
    link->left = TURN;
    if (revents != 0 && link->state == ZKL_TLS_LINK_HANDSHAKING) {
        shake_hands(link);
    }
    bool moved = false;
    if (revents != 0 && link->state == ZKL_TLS_LINK_OPEN) {
        bool waiting = was != ZKL_TLS_LINK_OPEN || link->up.length > 0;
        link->events = POLLIN;
        moved = move_down(link);
        if (waiting) {
            zkl_tls_link_flush(link);
        }
    }
    link->flushed = false;
    return moved;
}

void zkl_tls_link_closing(zkl_tls_link *link)
{
    zkl_tls_link_flush(link);
    if (link->state == ZKL_TLS_LINK_OPEN) {
        link->closing = true;
        shutdown(link->end, SHUT_WR);
    }
}

/*
 * OPEN. Reads what the server has sent, for which there is no reader any more. OpenSSL may need it before it can write: another
 * handshake, https://github.com/openssl/openssl/issues/25676. And a socket that is closed with bytes unread drops what it has not sent.
 */
static void discard_down(zkl_tls_link *link)
{
    int count;
    do {
        zkl_openssl.ERR_clear_error();
        count = zkl_openssl.SSL_read(link->ssl, link->down.bytes, sizeof link->down.bytes);
    } while (count > 0);
    link->down.length = 0;
    if (!waits(link, zkl_openssl.SSL_get_error(link->ssl, count))) {
        end_connection(link);
    }
}

/* OPEN. The C client has closed its socket. Returns how many bytes were taken; link->events says what the rest waits for, if OPEN. */
static int64_t send_rest(zkl_tls_link *link)
{
    link->left = TURN;
    link->events = POLLIN;
    discard_down(link);
    return link->state == ZKL_TLS_LINK_OPEN ? move_up(link) : 0;
}

void zkl_tls_link_closed(zkl_tls_link *link)
{
    if (link->state != ZKL_TLS_LINK_OPEN) {
        return;
    }
    int64_t until = zkl_clock() + GOODBYE_WITHIN;
    bool asked = link->up.length > 0;
    asked = send_rest(link) > 0 || asked;
    while (link->state == ZKL_TLS_LINK_OPEN && asked && zkl_clock() < until) {
        struct pollfd server = {.fd = link->fd, .events = link->events};
        poll(&server, 1, zkl_poll_timeout(until, zkl_clock()));
        send_rest(link);
    }
    if (link->state == ZKL_TLS_LINK_OPEN) {
        end_connection(link);
    }
}

zkl_tls_expiry zkl_tls_link_expiry(const zkl_tls_link *link)
{
    return link->expiry;
}

const char *zkl_tls_link_problem(const zkl_tls_link *link, zkl_code *code)
{
    *code = link->code;
    return link->state == ZKL_TLS_LINK_BROKEN ? link->problem : NULL;
}

/* --- the object ---------------------------------------------------------------------------------------------------- */

zkl_tls_link *zkl_tls_link_new(const zkl_tls_options *options, zkl_connector_log_fn log, void *log_context,
                               char *message, zkl_code *code, bool *first)
{
    *code = ZKL_UNSUPPORTED;
    if (!zkl_tls_library_load(message, ZKL_MESSAGE_SIZE, first)) {
        return NULL;
    }
    *code = ZKL_FAILED;
    snprintf(message, ZKL_MESSAGE_SIZE, "not enough memory for a client"); /* unless another message is written below */
    zkl_tls_link *link = zkl_alloc(sizeof *link);
    if (link == NULL) {
        return NULL;
    }
    link->end = link->fd = -1;
    link->log = log;
    link->log_context = log_context;
    if (shared_method() == NULL || !zkl_tls_options_copy(&link->options, options)) {
        goto fail;
    }
    zkl_ssl_context *trial = zkl_tls_context_open(&link->options, message, ZKL_MESSAGE_SIZE);
    if (trial == NULL) {
        *code = ZKL_TLS_FAILED;
        goto fail;
    }
    zkl_openssl.SSL_CTX_free(trial);
    return link;
fail:
    zkl_tls_link_free(link);
    return NULL;
}

void zkl_tls_link_free(zkl_tls_link *link)
{
    if (link == NULL) {
        return;
    }
    drop_link(link);
    zkl_tls_options_free(&link->options);
    explicit_bzero(link, sizeof *link); /* its buffers had the bytes that went through it */
    zkl_free(link);
}
