/*
 * TLS context: the settings of TLS, what OpenSSL makes of them, and its errors in words.
 *
 * The files are read for each connection, so that a renewed certificate is used from the next connection on.
 */
#ifndef ZKLOCK_NET_TLS_CONTEXT_H
#define ZKLOCK_NET_TLS_CONTEXT_H

#include "base/base.h"
#include "tls_library.h"
#include "tls_options.h"

typedef struct {
    const zkl_tls_library *library;
    zkl_tls_options options; /* with copies of the strings */
} zkl_tls_settings;

/* Copies the options. Returns false if there is no memory; zkl_tls_settings_free then frees what was copied. */
bool zkl_tls_settings_init(zkl_tls_settings *settings, const zkl_tls_library *library, const zkl_tls_options *options);
void zkl_tls_settings_free(zkl_tls_settings *settings);
/* Reads the files. Returns a context, or NULL; `message` (of `size` bytes) then says which file or option is wrong, and how. */
zkl_ssl_context *zkl_tls_context_open(const zkl_tls_settings *settings, char *message, size_t size);
/* Returns the name, or the address, that the certificate of a server must have that is listed as `host`. */
const char *zkl_tls_name(const zkl_tls_settings *settings, const char *host);
/*
 * Sets the name or address that `ssl` must verify, and shows the name to the server. Returns false if it is not one that can be
 * verified, or if there is no memory.
 */
bool zkl_tls_expect(const zkl_tls_settings *settings, zkl_ssl *ssl, const char *name);
/*
 * Writes into `message` why `ssl` has failed: what happened, and what to do. `server` is its "host:port". Empties OpenSSL's queue of
 * errors of this thread.
 */
void zkl_tls_explain(const zkl_tls_settings *settings, const zkl_ssl *ssl, const char *server, char *message,
                     size_t size);

#endif
