/* I/O turn: one run of the engine between two polls. */
#ifndef ZKLOCK_CLIENT_IO_TURN_H
#define ZKLOCK_CLIENT_IO_TURN_H

#include <poll.h>

#include "client_object.h"

/*
 * engine_mutex held. Does everything that is due, and returns in `wanted` what to wait for next. `by_caller`: called by another
 * thread than the I/O thread. Then no byte is written for notifications, and if there is no connection, the rest is left to the I/O
 * thread because it may block; the function then returns false.
 */
bool zkl_client_turn(zkl_client *client, zkl_poll *wanted, bool by_caller);
/* engine_mutex held. What to poll for the TLS link, beside the C client's socket; its fd is -1 if there is no such link. */
struct pollfd zkl_client_link_poll(const zkl_client *client);
/*
 * engine_mutex held. Handles the results of poll: of the C client's socket, as wanted by the latest turn, and of zkl_client_link_poll.
 * Returns the events of the C client's socket, for the engine.
 */
short zkl_client_arrived(zkl_client *client, const struct pollfd *polled, const struct pollfd *link);
/*
 * engine_mutex held. I/O thread. Passes the result of a poll to the engine: `revents` of the C client's socket. Reads on as long as
 * replies have arrived, up to a bound. The turn that follows tells the owner of all of them together.
 */
void zkl_client_read(zkl_client *client, short revents);
/*
 * engine_mutex held. Ends a turn that has nothing else to do: sends what was held back and publishes what changed. `silently`: no
 * byte is written for notifications.
 */
void zkl_client_end_turn(zkl_client *client, bool silently);
/* engine_mutex held. The same for a caller that does not block: what is held back stays so if zkl_client_hold has said so. */
void zkl_client_end_call(zkl_client *client);
/* The engine's callbacks `sending` and `sent` (zkl_host); `context` is the client. */
void zkl_turn_sending(void *context);
void zkl_turn_sent(void *context);

#endif
