/*
 * dial: the sockets of a connector (connector.h): connections that are being made, and the listener for the C client.
 *
 * Nothing here decides anything. In virtual time this file is replaced (spec/simulation/dials.c). All functions: engine_mutex.
 */
#ifndef ZKLOCK_NET_DIAL_H
#define ZKLOCK_NET_DIAL_H

#include "server_list.h"

/* Enough for the address of a listener, "127.0.0.1:65535". */
#define ZKL_LISTENER_SIZE 24

/*
 * Opens a listener on loopback, from which nothing is read, and writes its address, with its port. Returns its descriptor, or -1 with
 * errno.
 */
int zkl_listener_open(char address[ZKL_LISTENER_SIZE]);
/*
 * Puts `socket`, which it closes, in the place of `fd`, which connects to the listener. Returns false if that fails: then the connection
 * of `fd` is ended, and errno says why.
 */
bool zkl_listener_replace(int listener, int fd, int socket);

/* Returns a descriptor for connections that are being made, to be polled and closed; -1 with errno. */
int zkl_dials_open(void);
/* A connection that is being made. Its owner keeps the struct in its place until the connection is taken or ended. */
typedef struct {
    int fd;      /* -1: none */
    void *owner; /* for the caller of zkl_dials_next */
} zkl_dial;

/* The descriptor of zkl_dials_open is readable with `fd`, too, until zkl_dials_remove. Returns false, with errno, if that fails. */
bool zkl_dials_add(int dials, int fd);
void zkl_dials_remove(int dials, int fd);
/* Begins a connection. Returns false, with errno, if that fails at once. */
bool zkl_dial_begin(zkl_dial *dial, int dials, const zkl_address *address);
/*
 * Returns a connection that is established (*error 0) or has failed; NULL if there is none, or if what zkl_dials_add has added is
 * readable. It is told again until taken or ended.
 */
zkl_dial *zkl_dials_next(int dials, int *error);
/* An established connection is going to be used: returns its socket, which is the caller's from now on. */
int zkl_dial_take(zkl_dial *dial, int dials);
/*
 * Ends a connection, or the attempt. The socket is shut down and not only closed: a child that the program has forked meanwhile may
 * have a copy. What is not established yet is never accepted by the server.
 */
void zkl_dial_end(zkl_dial *dial);
/* Closes what zkl_dials_open or zkl_listener_open has returned, if it is no -1. Keeps errno. */
void zkl_dials_close(int fd);

#endif
