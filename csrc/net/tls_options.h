/* TLS options: the option `tls` of a client. */
#ifndef ZKLOCK_NET_TLS_OPTIONS_H
#define ZKLOCK_NET_TLS_OPTIONS_H

#include <stdbool.h>

/* docs/security.md says what they mean. A string is NULL if it is not given. */
typedef struct {
    const char *ca_file;
    const char *ca_path;
    const char *cert_file;
    const char *key_file;
    const char *key_password;
    const char *server_name;
    const char *ciphers;
    bool verify;  /* the server's chain and name */
    bool only_13; /* no version before TLS 1.3; false: none before TLS 1.2 */
} zkl_tls_options;

#endif
