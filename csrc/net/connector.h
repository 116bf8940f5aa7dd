/*
 * connector: connects the unchanged C client to the server that can be reached first.
 *
 * docs/design.md, "Connecting", says why and how. The C client connects to a listener of this process on loopback, which nothing is
 * ever read from, and the connector puts a connected socket in the place of the C client's (dup3), or with TLS one end of a pair.
 *
 * The connector outlives the C client's handles: the next handle does not begin with the server that has just failed.
 * Nothing here waits, not for names either (resolver.h). All functions: engine_mutex.
 */
#ifndef ZKLOCK_NET_CONNECTOR_H
#define ZKLOCK_NET_CONNECTOR_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct zkl_connector zkl_connector;
typedef struct zkl_server zkl_server; /* server_list.h */

/*
 * Called with a line for the log: why a connection with a server has failed, unless it is the same reason as before; or that there is
 * one.
 */
typedef void (*zkl_connector_log_fn)(void *context, int level, const char *message);

/*
 * Returns a new connector, or NULL; `message` (ZKL_MESSAGE_SIZE bytes) then says why. `servers` is the connection string, in the order
 * in which the servers are tried. Any thread.
 */
zkl_connector *zkl_connector_new(const char *servers, int32_t session_timeout_ms, uint64_t random,
                                 zkl_connector_log_fn log, void *log_context, char *message);
void zkl_connector_free(zkl_connector *connector);
/*
 * Replaces the servers. A connection with one that is in the new list goes on. Sets *leave to true if the C client's connection must be
 * ended because its server is not; the next race is about the new ones. Returns false if there is no memory: nothing has changed. I/O
 * thread.
 */
bool zkl_connector_set_servers(zkl_connector *connector, const char *servers, bool *leave);
/* Returns whether the C client's connection is with one of the servers, which has answered. */
bool zkl_connector_connected(const zkl_connector *connector);
/* The connection string for the C client: the listener's address, and the chroot. Any thread. */
const char *zkl_connector_addresses(const zkl_connector *connector);

/*
 * The C client has no connection, and wants one. Returns true if a server is reached: then zkl_connector_take must follow in this turn.
 * Otherwise lowers *wake_at to the instant of the next call, which is also due when zkl_connector_poll is ready. I/O thread.
 */
bool zkl_connector_reach(zkl_connector *connector, int64_t *wake_at);
/* The C client has begun to connect. Returns the connected socket, which is the caller's from now on, and the server. */
int zkl_connector_take(zkl_connector *connector, zkl_server **server);
/*
 * Puts `socket`, which it closes, in the place of the C client's socket `fd`. Returns false if that fails: then the C client's
 * connection is ended, and errno says why.
 */
bool zkl_connector_replace(zkl_connector *connector, int fd, int socket);
/* The server has answered the C client's handshake, and granted this session timeout. Does nothing if that is known. */
void zkl_connector_answered(zkl_connector *connector, int32_t timeout_ms);
/*
 * Returns whether the server that the C client's handshake was sent to has not answered in time, and lowers *wake_at to the instant by
 * which it must have. Then its connection must be ended.
 */
bool zkl_connector_overdue(const zkl_connector *connector, int64_t *wake_at);
/* Logs that the server has not answered in time, and makes it the problem. */
void zkl_connector_give_up(zkl_connector *connector);
/* Returns the descriptor to poll while connections are being made. Its fd is -1 otherwise. */
struct pollfd zkl_connector_poll(const zkl_connector *connector);
/* Why no server is reached; NULL: not known yet, or one is. */
const char *zkl_connector_problem(const zkl_connector *connector);
/* Returns whether a line of the C client's log is about the listener, or the wait for a server. engine_mutex. */
bool zkl_connector_hides(const zkl_connector *connector, const char *line);

#endif
