/*
 * members: the servers that an ensemble's own configuration names, the node /zookeeper/config, as a connection string.
 */
#ifndef ZKLOCK_NET_MEMBERS_H
#define ZKLOCK_NET_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Returns "host:port,host:port" of the servers of a configuration, "" if it names none, NULL if there is no memory. zkl_free frees it.
 * `port`: NULL: each server's own port for clients; a server without one is left out. Otherwise this port, of all servers. `local`:
 * whether addresses of the machine that asks count: elsewhere there may be a server of another ensemble. Any thread.
 */
char *zkl_members(const char *configuration, int32_t length, const char *port, bool local);
/* Returns whether a connection string has a server on the machine that asks: localhost, 127.0.0.1, [::1]. Any thread. */
bool zkl_has_loopback(const char *servers);
/* Returns whether a connection string has the server "host:port", a text of `length` bytes. Any thread. */
bool zkl_has_member(const char *servers, const char *server, size_t length);

#endif
