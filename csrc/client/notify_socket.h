/* notify socket: a unix stream socket that carries a client's notifications in place of its pipe, for nginx. */
#ifndef ZKLOCK_CLIENT_NOTIFY_SOCKET_H
#define ZKLOCK_CLIENT_NOTIFY_SOCKET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    /* The connection, -1 if none. Written under desk.mutex. Once set, the number stays until the end. Any thread sends to it. */
    _Atomic int fd;
    int listener;       /* desk.mutex: the listening socket; -1 if none */
    char directory[96]; /* desk.mutex: the directory of the listening socket; "" if none */
} zkl_notify_socket;

/* No socket yet. */
void zkl_notify_socket_init(zkl_notify_socket *notify);
/* No other thread knows the client. Closes the connection and removes what listening has made. */
void zkl_notify_socket_close(zkl_notify_socket *notify);
/* desk.mutex held, or no other thread knows the client. Removes what listening has made. */
void zkl_notify_socket_forget(zkl_notify_socket *notify);
/*
 * Listens at a new place. Returns its path, "" for the abstract name of zero bytes only; or false and the error. `over`: the client has
 * ENDED. desk.mutex held.
 */
bool zkl_notify_socket_listen(zkl_notify_socket *notify, bool over, char *path, size_t size);
/* Takes the connection of this process, if there is one, and removes what listening has made. desk.mutex held. */
bool zkl_notify_socket_accept(zkl_notify_socket *notify);
/* Sends a byte; returns false if there is no connection. Any thread. */
bool zkl_notify_socket_ring(const zkl_notify_socket *notify);

#endif
