/*
 * tls peer: a TLS server and a socket of the C client's, on both sides of a TLS link, in the thread of the test.
 *
 * All bytes between the link and the server pass through peer_move, which can hold them back, change them, or cut the connection. The
 * server's side of TLS is OpenSSL's, found as the link finds its own. A function that fails ends the program.
 */
#ifndef ZKLOCK_UNIT_TLS_PEER_H
#define ZKLOCK_UNIT_TLS_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/connector.h"
#include "net/server_list.h"
#include "net/tls_library.h"
#include "net/tls_link.h"

#define PEER_NO_LIMIT SIZE_MAX

/* Values of OpenSSL's headers. */
#define PEER_CTRL_SET_MAX_PROTO_VERSION 124
#define PEER_KEY_UPDATE_REQUESTED 1

/* What the server needs beside zkl_tls_library. NULL: this OpenSSL does not have it. */
typedef struct {
    const zkl_ssl_method *(*TLS_server_method)(void);
    void (*SSL_set_accept_state)(zkl_ssl *ssl);
    const zkl_bio_method *(*BIO_s_mem)(void);
    int (*BIO_read)(zkl_bio *bio, void *bytes, int size);
    int (*BIO_write)(zkl_bio *bio, const void *bytes, int length);
    int (*SSL_session_reused)(const zkl_ssl *ssl);
    int (*SSL_renegotiate)(zkl_ssl *ssl);
    int (*SSL_key_update)(zkl_ssl *ssl, int kind);
    int (*SSL_new_session_ticket)(zkl_ssl *ssl); /* OpenSSL 3 */
} peer_functions;

/* The server, its connection, and the C client's socket. */
typedef struct {
    int listener, socket, client; /* -1: none */
    zkl_ssl_context *context;
    zkl_ssl *ssl; /* NULL: no connection */
    zkl_bio *in, *out;
    size_t limit;        /* how many bytes pass at a time */
    size_t until_cut;    /* how many more bytes pass from the server before the connection is cut */
    size_t until_change; /* before one is changed */
    bool stalled;        /* the server says nothing */
    bool seen;           /* `secret` was on the wire */
    bool ended;          /* the client has ended the TCP connection */
    int accepted;        /* how many connections there were */
    bool replaced;       /* a new connection has begun with `client`, whose place the link's socket pair has taken */
    zkl_connector *connector;
    const char *secret;
    char wire[4096];
    size_t wire_length;
} tls_peer;

extern tls_peer peer;
extern peer_functions peer_tls;

/* Ends the program with a message if a condition does not hold. */
void peer_must(bool condition, const char *what);
/* Loads OpenSSL. Call it once. */
void peer_load(void);
/* Makes a directory with key.pem, and <name>.pem for this subject and, if it is not NULL, these names ("IP:127.0.0.1"). */
void peer_certify(const char *name, const char *subject, const char *names);
/* Returns the path of a file in that directory; valid until the next call but three. */
const char *peer_file(const char *name);
void peer_remove_files(void);

/* Begins to listen with the certificate <name>.pem; returns the port. `ciphers`: NULL for OpenSSL's own. */
int peer_listen(const char *name, const char *ciphers);
/* Makes the connector for this host, where the peer listens. Returns false if there is no memory. */
bool peer_connector(const char *host, int port, int32_t session_timeout_ms, zkl_connector_log_fn log,
                    void *log_context);
/* Makes the C client's socket, as the C client would: connected to the first of the connector's addresses. */
void peer_connect_client(void);
/* Does a turn's work of the driver, as long as the C client has no connection, or the server has not answered the handshake. */
void peer_drive(zkl_tls_link *link);
void peer_close_client(void);
void peer_end_connection(void);
void peer_end(void);

/* Takes the link's connection if there is one, and moves bytes between its socket and the server's TLS, within the limits. */
void peer_move(void);

#endif
