/*
 * TLS context: the options of TLS, what OpenSSL makes of them, and its errors in words.
 *
 * The files are read for each connection, so that a renewed certificate is used from the next connection on.
 */
#ifndef ZKLOCK_NET_TLS_CONTEXT_H
#define ZKLOCK_NET_TLS_CONTEXT_H

#include "base/base.h"
#include "tls_library.h"
#include "tls_options.h"

/* Copies the options. Returns false if there is no memory; zkl_tls_options_free then frees what was copied. */
bool zkl_tls_options_copy(zkl_tls_options *copy, const zkl_tls_options *options);
void zkl_tls_options_free(zkl_tls_options *copy);
/* Reads the files. Returns a context, or NULL; `message` (of `size` bytes) then says which file or option is wrong, and how. */
zkl_ssl_context *zkl_tls_context_open(const zkl_tls_options *options, char *message, size_t size);
/*
 * Sets the name or address that `ssl` must verify, and shows the name to the server. Returns false if it is not one that can be
 * verified, or if there is no memory.
 */
bool zkl_tls_expect(zkl_ssl *ssl, const char *name);
/*
 * Writes into `message` why `ssl` has failed: what happened, and what to do. `server` is its "host:port". Empties OpenSSL's queue of
 * errors of this thread.
 */
void zkl_tls_explain(const zkl_tls_options *options, const zkl_ssl *ssl, const char *server, char *message,
                     size_t size);

#endif
