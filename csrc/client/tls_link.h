/*
 * TLS link: connects the unchanged C client to a server by TLS.
 *
 * The C client has no TLS (or one that may block for ever). So it never has the address of a server. It is told to connect to a
 * listener of this process on loopback, which nothing is ever read from. As soon as the C client has begun to connect, and before it
 * has sent anything, the link puts one end of a socket pair in the place of the C client's socket (dup3). The C client then writes its
 * requests into the pair. The link reads them at the other end, encrypts them, and sends them to the server through a socket of its
 * own; and the other way round. So bytes that are not encrypted never leave the process, whatever fails: even if the C client wrote
 * to its first socket, the bytes would end in the listener, which this process alone holds. No other process can get hold of the pair.
 *
 * The threads that poll the C client's socket (poll_owner.c) poll the link's socket too. No function blocks, except that a name is
 * resolved for as long as that takes (I/O thread only, as the C client does it too), and zkl_tls_link_closed.
 *
 *   NONE -> CONNECTING            the C client has a new socket; the socket pair takes its place
 *                                 a server is chosen and the connection begun now, or after a pause if TLS has failed
 *   CONNECTING -> HANDSHAKING     the TCP connection is established
 *   HANDSHAKING -> OPEN           the server's certificate and name are verified: bytes of the C client are sent from now on
 *   CONNECTING, HANDSHAKING, OPEN -> BROKEN
 *                                 something failed, or a deadline is over, or the server has closed the connection: the pair is
 *                                 closed, which the C client takes for the end of its connection; `problem` says what happened
 *   any -> NONE                   the C client has closed its socket, or the client ends
 *
 * TCP connection and handshake may each take a third of the session timeout, but 10 s at most. The C client itself gives up after two
 * thirds without an answer, counted from its connect. From OPEN on, its pings find out that the server is silent.
 *
 * All functions: engine_mutex, and the I/O thread where this is said.
 */
#ifndef ZKLOCK_CLIENT_TLS_LINK_H
#define ZKLOCK_CLIENT_TLS_LINK_H

#include <poll.h>

#include "client.h"
#include "tls_context.h"

typedef struct zkl_tls_link zkl_tls_link;

/*
 * Called with a line for the log: why a connection with a server has failed, unless it is the same reason as before; or that there is
 * one.
 */
typedef void (*zkl_tls_log_fn)(void *context, int level, const char *message);

/*
 * Returns a new link, or NULL. `message` (ZKL_MESSAGE_SIZE bytes) and *code then say why: ZKL_UNSUPPORTED if there is no OpenSSL,
 * ZKL_TLS_FAILED if the options or their files are wrong. `servers` is the connection string, in the order in which the servers are
 * tried; *first says whether this call has loaded OpenSSL. Any thread.
 */
zkl_tls_link *zkl_tls_link_new(const zkl_tls_options *options, const char *servers, int32_t session_timeout_ms,
                               zkl_tls_log_fn log, void *log_context, char *message, zkl_code *code, bool *first);
void zkl_tls_link_free(zkl_tls_link *link);
/* The connection string for the C client: the listener's address, once for each server, and the chroot. Any thread. */
const char *zkl_tls_link_addresses(const zkl_tls_link *link);

/*
 * Call it after each zkl_engine_prepare, which has set `wanted`: takes over a new socket of the C client, and lowers wanted->wake_at to
 * the link's deadline. `connected`: the C client has the connection it had before. `may_block`: this is the I/O thread. Only then is a
 * connection begun. A socket is taken over in every turn, before it is used or shut down, which would not reach the pair later.
 */
void zkl_tls_link_prepare(zkl_tls_link *link, zkl_poll *wanted, bool connected, bool may_block);
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
/* Why the link is BROKEN, and the code for it; NULL if it is not. */
const char *zkl_tls_link_problem(const zkl_tls_link *link, zkl_code *code);

#endif
