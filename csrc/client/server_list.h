/*
 * server list: the servers that a link connects to, in turns, and their addresses.
 *
 * The C client chooses among its servers itself, but with TLS it knows only the link's own address (tls_link.h). So the link does the
 * same: the servers follow each other in the order of the list, which the client has shuffled. A name is resolved when its turn
 * comes, and its addresses are tried one after the other. All functions: engine_mutex.
 */
#ifndef ZKLOCK_CLIENT_SERVER_LIST_H
#define ZKLOCK_CLIENT_SERVER_LIST_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    char *host;
    char *port;   /* behind `host`, in the same memory */
    char *text;   /* "host:port", for messages */
    char *name;   /* `host` without the dot at the end of a full name, as it is in certificates */
    bool numeric; /* `host` is an address */
    char *logged; /* the link's: its latest line of the log on a problem with it; NULL: none since it was connected */
} zkl_server;

typedef struct {
    zkl_server *servers;
    int32_t count;
    int32_t next;                        /* index of the server whose turn is next */
    zkl_server *current;                 /* the one that zkl_server_list_next has chosen; NULL at first */
    struct addrinfo *addresses;          /* of `current`; NULL: not resolved, or forgotten */
    const struct addrinfo *next_address; /* to be tried next; NULL: the next server's turn */
} zkl_server_list;

/* Whether `host` is an IPv4 or an IPv6 address. Any thread. */
bool zkl_is_address(const char *host);
/* `servers`: "h1:2281,::1:2281/chroot". Returns false if there is no memory. */
bool zkl_server_list_init(zkl_server_list *list, const char *servers);
void zkl_server_list_free(zkl_server_list *list);
/*
 * Chooses the next address: *address, of list->current. Returns 0, or an error of getaddrinfo; the next call then chooses another
 * server. May block for as long as the name takes to resolve.
 */
int zkl_server_list_next(zkl_server_list *list, const struct addrinfo **address);
/* The next call of zkl_server_list_next returns this address again, which the latest one has returned. */
void zkl_server_list_again(zkl_server_list *list, const struct addrinfo *address);
/* A connection was established: the next call of zkl_server_list_next begins with the next server, and resolves its name anew. */
void zkl_server_list_connected(zkl_server_list *list);

#endif
