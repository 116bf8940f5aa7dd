/*
 * server list: the servers that a client connects to, and their addresses.
 *
 * They are in the order of the connection string, which the client has shuffled. All functions: engine_mutex.
 */
#ifndef ZKLOCK_NET_SERVER_LIST_H
#define ZKLOCK_NET_SERVER_LIST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "resolver.h"

typedef struct {
    struct sockaddr_storage address;
    socklen_t size;
    int64_t late_until; /* It did not answer in time, and has its turn behind those that did. */
} zkl_address;

typedef struct zkl_server {
    char *host;
    char *port;   /* It is behind `host`, in the same memory. */
    char *text;   /* "host:port", for messages. */
    char *name;   /* `host` without the dot at the end of a full name, as certificates have it. */
    bool numeric; /* `host` is an address. */
    char *logged; /* The latest line of the log about a problem. NULL: there was none since it was connected. */
    zkl_address *addresses;     /* The latest resolution of `host`. */
    int32_t count;              /* The number of addresses. */
    zkl_resolution *resolution; /* The next one. NULL: `host` is not being resolved. */
    int64_t asked_at;           /* Its beginning. */
} zkl_server;

typedef struct {
    zkl_server *servers;
    int32_t count;
} zkl_server_list;

/* Whether `host` is an IPv4 or an IPv6 address. Any thread. */
bool zkl_is_address(const char *host);
/* `servers`: "h1:2281,[::1]:2281/chroot". Returns false if there is no memory. */
bool zkl_server_list_init(zkl_server_list *list, const char *servers);
void zkl_server_list_free(zkl_server_list *list);
/*
 * Begins to resolve the server's name anew, unless it is being resolved. Returns false if there is no memory. An answer that has come
 * before, and some time ago, is forgotten.
 */
bool zkl_server_resolve(zkl_server *server, int64_t now);
/* The answer is there. Takes its addresses, and returns NULL; or why there are none, and keeps those of last time. */
const char *zkl_server_resolved(zkl_server *server, int64_t now);
/* Returns whether `line`, about a problem with the server, is another one than last time. */
bool zkl_server_has_news(zkl_server *server, const char *line);
/* The server is connected: the next problem is news. */
void zkl_server_forget_news(zkl_server *server);

#endif
