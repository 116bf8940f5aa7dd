/*
 * TLS link: TLS between the unchanged C client and a server.
 *
 * docs/design.md, "TLS", has the way of the bytes. The threads that poll the C client's socket (poll_owner.c) poll the
 * link's socket too. No function blocks, except zkl_tls_link_closed. The connector limits the time for TCP connection and handshakes.
 * From OPEN on, the C client's pings find out that the server is silent.
 *
 * All functions: engine_mutex, and the I/O thread where this is said.
 */
#ifndef ZKLOCK_NET_TLS_LINK_H
#define ZKLOCK_NET_TLS_LINK_H

#include <poll.h>

#include "base/base.h"
#include "connector.h"
#include "tls_options.h"

typedef struct zkl_tls_link zkl_tls_link;

/*
 * Returns a new link, or NULL. `message` (ZKL_MESSAGE_SIZE bytes) and *code then say why: ZKL_UNSUPPORTED if there is no OpenSSL,
 * ZKL_TLS_FAILED if the options or their files are wrong. *first says whether this call has loaded OpenSSL. Any thread.
 */
zkl_tls_link *zkl_tls_link_new(const zkl_tls_options *options, zkl_connector_log_fn log, void *log_context,
                               char *message, zkl_code *code, bool *first);
void zkl_tls_link_free(zkl_tls_link *link);

/* The connector has reached a server, and the C client has begun to connect by its socket `fd`: begins the TLS handshake. */
void zkl_tls_link_begin(zkl_tls_link *link, zkl_connector *connector, int fd);
/* The C client has no connection any more. */
void zkl_tls_link_end(zkl_tls_link *link);
/* The time for handshakes is over. Returns whether the TLS handshake was not finished; the link is BROKEN then. */
bool zkl_tls_link_late(zkl_tls_link *link);
/* Call it after each zkl_engine_prepare: passes on what the C client had no room for. */
void zkl_tls_link_prepare(zkl_tls_link *link);
/* Sends what the C client has written. */
void zkl_tls_link_flush(zkl_tls_link *link);
/*
 * The same before the link is polled, without a system call if nothing can have been written since the latest flush. Requests are flushed
 * by zkl_tls_link_flush. If that has sent some since the latest zkl_tls_link_process, the C client can only have written a ping, and it
 * sends pings only where it was silent.
 */
void zkl_tls_link_flush_rest(zkl_tls_link *link);
/* Returns what to poll for the link; its fd is -1 if there is nothing to poll. */
struct pollfd zkl_tls_link_poll(const zkl_tls_link *link);
/* Handles the result of that poll, 0 after a timeout. Returns whether the C client has something to read now. */
bool zkl_tls_link_process(zkl_tls_link *link, short revents);
/*
 * Call them before and after zookeeper_close. It waits until its socket is readable, so that the server has read the request that
 * closes the session. But nothing can come through the link meanwhile. So the first function lets the C client read the end of the
 * stream at once. The second one sends the request, and waits until the server closes the connection, which it does after its answer;
 * for 1.5 s at most, as the C client does. I/O thread.
 */
void zkl_tls_link_closing(zkl_tls_link *link);
void zkl_tls_link_closed(zkl_tls_link *link);
/* Until when certificates are valid, on zkl_clock; 0: unknown, or there is none. */
typedef struct {
    int64_t server; /* Of the server of the latest handshake that succeeded. */
    int64_t own;    /* Of the option cert_file, as of the latest connection. */
} zkl_tls_expiry;
zkl_tls_expiry zkl_tls_link_expiry(const zkl_tls_link *link);
/* Why the link is BROKEN, and the code for it; NULL if it is not. */
const char *zkl_tls_link_problem(const zkl_tls_link *link, zkl_code *code);

#endif
