/* TLS context: the options of TLS, what OpenSSL makes of them, and its errors in words. */
#include "tls_context.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server_list.h"

/* --- the options --------------------------------------------------------------------------------------------------- */

static bool copy(const char **to, const char *text)
{
    *to = text != NULL ? zkl_copy(text, strlen(text)) : NULL;
    return text == NULL || *to != NULL;
}

bool zkl_tls_options_copy(zkl_tls_options *own, const zkl_tls_options *options)
{
    own->verify = options->verify;
    own->only_13 = options->only_13;
    bool copied = copy(&own->ca_file, options->ca_file);
    copied = copy(&own->ca_path, options->ca_path) && copied;
    copied = copy(&own->cert_file, options->cert_file) && copied;
    copied = copy(&own->key_file, options->key_file) && copied;
    copied = copy(&own->key_password, options->key_password) && copied;
    copied = copy(&own->server_name, options->server_name) && copied;
    return copy(&own->ciphers, options->ciphers) && copied;
}

void zkl_tls_options_free(zkl_tls_options *own)
{
    const char *const texts[] = {own->ca_file,  own->ca_path,     own->cert_file,
                                 own->key_file, own->server_name, own->ciphers};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        zkl_free((void *)(uintptr_t)texts[i]);
    }
    zkl_free_secret((void *)(uintptr_t)own->key_password);
    *own = (zkl_tls_options){.ca_file = NULL};
}

/* --- errors in words ----------------------------------------------------------------------------------------------- */

/* The reason is in these bits of an error of OpenSSL 1.1 and of OpenSSL 3. */
#define REASON(error) ((int)((error)&0xfff))

/* Reasons of OpenSSL, and numbers of alerts, which OpenSSL reports as a reason from ALERT on. */
#define WRONG_VERSION_NUMBER 267
#define UNSUPPORTED_PROTOCOL 258
#define ALERT 1000
#define ALERT_HANDSHAKE_FAILURE 40
#define ALERT_BAD_CERTIFICATE 42
#define ALERT_ACCESS_DENIED 49
#define ALERT_PROTOCOL_VERSION 70
#define ALERT_CERTIFICATE_REQUIRED 116
#define ALERTS_END 256

/* Results of the verification of a certificate. */
#define V_UNABLE_TO_GET_ISSUER 2
#define V_NOT_YET_VALID 9
#define V_HAS_EXPIRED 10
#define V_SELF_SIGNED 18
#define V_SELF_SIGNED_IN_CHAIN 19
#define V_UNABLE_TO_GET_ISSUER_LOCALLY 20
#define V_UNABLE_TO_VERIFY_LEAF 21
#define V_HOSTNAME_MISMATCH 62
#define V_IP_ADDRESS_MISMATCH 64

static const char *advice_on_verification(long result)
{
    switch (result) {
    case V_HAS_EXPIRED:
        return "renew the server's certificate";
    case V_NOT_YET_VALID:
        return "check the clocks of both machines";
    case V_SELF_SIGNED:
    case V_SELF_SIGNED_IN_CHAIN:
    case V_UNABLE_TO_GET_ISSUER:
    case V_UNABLE_TO_GET_ISSUER_LOCALLY:
    case V_UNABLE_TO_VERIFY_LEAF:
        return "the option tls.ca_file must name the certificate of the authority that has signed the server's";
    case V_HOSTNAME_MISMATCH:
    case V_IP_ADDRESS_MISMATCH:
        return "list the server by a name in its certificate, or give that name in the option tls.server_name";
    default:
        return "check the server's certificate";
    }
}

static const char *advice_on_error(int reason, bool certificate)
{
    switch (reason) {
    case WRONG_VERSION_NUMBER:
        return "what answers does not speak TLS; use the server's secureClientPort";
    case UNSUPPORTED_PROTOCOL:
    case ALERT + ALERT_PROTOCOL_VERSION:
        return "the two have no version of TLS in common; see the option tls.min_version and the server's "
               "ssl.enabledProtocols";
    case ALERT + ALERT_HANDSHAKE_FAILURE:
        return certificate
                   ? "the two have no cipher in common, or the server refuses the client's certificate; see the "
                     "options tls.ciphers and tls.cert_file"
                   : "the two have no cipher in common, or the server wants a certificate of the client; see the "
                     "options tls.ciphers and tls.cert_file";
    case ALERT + ALERT_CERTIFICATE_REQUIRED:
        return "the server wants a certificate of the client; see the option tls.cert_file";
    default:
        break;
    }
    if (reason >= ALERT + ALERT_BAD_CERTIFICATE && reason <= ALERT + ALERT_ACCESS_DENIED) {
        return certificate ? "the server refuses the client's certificate; its trust store must have the authority "
                             "that signed it"
                           : "the server wants a certificate of the client; see the option tls.cert_file";
    }
    return "see the server's log";
}

void zkl_tls_explain(const zkl_tls_options *options, const zkl_ssl *ssl, const char *server, char *message, size_t size)
{
    unsigned long error = zkl_openssl.ERR_get_error();
    long result = zkl_openssl.SSL_get_verify_result(ssl);
    int reason = REASON(error);
    bool is_alert = reason >= ALERT && reason < ALERT + ALERTS_END;
    const char *text = zkl_openssl.ERR_reason_error_string(error);
    text = text != NULL ? text : "unknown error";
    if (options->verify && result != ZKL_X509_V_OK && !is_alert) {
        snprintf(message, size, "the certificate of '%s' is not accepted: %s; %s", server,
                 zkl_openssl.X509_verify_cert_error_string(result), advice_on_verification(result));
    } else {
        snprintf(message, size, "%s '%s' %s: %s; %s", is_alert ? "the server" : "TLS with", server,
                 is_alert ? "refuses TLS with this client" : "failed", text,
                 advice_on_error(reason, options->cert_file != NULL));
    }
    zkl_openssl.ERR_clear_error();
}

/* --- contexts ------------------------------------------------------------------------------------------------------ */

/* OpenSSL asks the terminal for a password if there is no such function. */
static int give_password(char *buffer, int size, int writing, void *user)
{
    (void)writing;
    const char *password = user;
    size_t length = password != NULL ? strlen(password) : 0;
    if (length == 0 || length > (size_t)size) {
        return -1;
    }
    memcpy(buffer, password, length);
    return (int)length;
}

/* OpenSSL would wait for somebody to write into a named pipe. `type`: S_IFREG or S_IFDIR. */
static bool is_readable(const char *option, const char *name, mode_t type, char *message, size_t size)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat file;
    bool there = fd >= 0 && fstat(fd, &file) == 0;
    bool readable = there && (file.st_mode & S_IFMT) == type;
    if (!there) {
        snprintf(message, size, "cannot read '%s' of the option tls.%s: %s", name, option, strerror(errno));
    } else if (!readable) {
        snprintf(message, size, "'%s' of the option tls.%s is no %s", name, option,
                 type == S_IFDIR ? "directory" : "regular file");
    }
    if (fd >= 0) {
        close(fd);
    }
    return readable;
}

/* Writes what is wrong with the value of an option, from OpenSSL's error. Returns false. */
static bool refuse_file(const char *option, const char *value, const char *advice, char *message, size_t size)
{
    const char *reason = zkl_openssl.ERR_reason_error_string(zkl_openssl.ERR_get_error());
    snprintf(message, size, "cannot use '%s' of the option tls.%s: %s%s%s", value, option,
             reason != NULL ? reason : "unknown error", advice[0] != '\0' ? "; " : "", advice);
    return false;
}

static bool load_authorities(const zkl_tls_options *options, zkl_ssl_context *context, char *message, size_t size)
{
    if (options->ca_file == NULL && options->ca_path == NULL) {
        zkl_openssl.SSL_CTX_set_default_verify_paths(context);
        return true;
    }
    if ((options->ca_file != NULL && !is_readable("ca_file", options->ca_file, S_IFREG, message, size)) ||
        (options->ca_path != NULL && !is_readable("ca_path", options->ca_path, S_IFDIR, message, size))) {
        return false;
    }
    const char *option = options->ca_file != NULL ? "ca_file" : "ca_path";
    const char *value = options->ca_file != NULL ? options->ca_file : options->ca_path;
    return zkl_openssl.SSL_CTX_load_verify_locations(context, options->ca_file, options->ca_path) == 1 ||
           refuse_file(option, value, "it must hold certificates in PEM", message, size);
}

static bool load_certificate(const zkl_tls_options *options, zkl_ssl_context *context, char *message, size_t size)
{
    if (options->cert_file == NULL) {
        return true;
    }
    const char *key_file = options->key_file != NULL ? options->key_file : options->cert_file;
    const char *key_option = options->key_file != NULL ? "key_file" : "cert_file";
    if (!is_readable("cert_file", options->cert_file, S_IFREG, message, size) ||
        !is_readable(key_option, key_file, S_IFREG, message, size)) {
        return false;
    }
    if (zkl_openssl.SSL_CTX_use_certificate_chain_file(context, options->cert_file) != 1) {
        return refuse_file("cert_file", options->cert_file, "it must hold a certificate in PEM", message, size);
    }
    if (zkl_openssl.SSL_CTX_use_PrivateKey_file(context, key_file, ZKL_SSL_FILETYPE_PEM) != 1) {
        return refuse_file(key_option, key_file,
                           options->key_password != NULL
                               ? "it must hold the key of tls.cert_file in PEM, with the password tls.key_password"
                               : "it must hold the key of tls.cert_file in PEM; an encrypted key needs "
                                 "tls.key_password",
                           message, size);
    }
    return zkl_openssl.SSL_CTX_check_private_key(context) == 1 ||
           refuse_file(key_option, key_file, "it is not the key of tls.cert_file", message, size);
}

/*
 * OpenSSL keeps the ciphers of TLS 1.3 in a list of their own; all their names begin with TLS_. Ciphers of a version that the list does
 * not name stay as they are.
 */
static bool set_ciphers(const zkl_tls_options *options, zkl_ssl_context *context, char *message, size_t size)
{
    const char *list = options->ciphers;
    if (list == NULL) {
        return true;
    }
    size_t room = strlen(list) + 2;
    char *parts = zkl_alloc(2 * room);
    if (parts == NULL) {
        snprintf(message, size, "not enough memory for a TLS connection");
        return false;
    }
    char *suites = parts;
    char *ciphers = parts + room;
    size_t length;
    for (const char *name = list; *name != '\0'; name += length + (name[length] == ':')) {
        length = strcspn(name, ":");
        char *part = strncmp(name, "TLS_", 4) == 0 ? suites : ciphers;
        size_t end = strlen(part);
        if (end > 0) {
            part[end++] = ':';
        }
        memcpy(part + end, name, length);
    }
    bool set = (suites[0] == '\0' || zkl_openssl.SSL_CTX_set_ciphersuites(context, suites) == 1) &&
               (ciphers[0] == '\0' || zkl_openssl.SSL_CTX_set_cipher_list(context, ciphers) == 1);
    zkl_free(parts);
    return set || refuse_file("ciphers", list, "it must hold names of ciphers that encrypt, separated by colons",
                              message, size);
}

static bool set_up(const zkl_tls_options *options, zkl_ssl_context *context, char *message, size_t size)
{
    long version = options->only_13 ? ZKL_TLS_1_3 : ZKL_TLS_1_2;
    if (zkl_openssl.SSL_CTX_ctrl(context, ZKL_SSL_CTRL_SET_MIN_PROTO_VERSION, version, NULL) != 1) {
        snprintf(message, size, "OpenSSL has no %s here", options->only_13 ? "TLS 1.3" : "TLS 1.2");
        return false;
    }
    zkl_openssl.SSL_CTX_ctrl(context, ZKL_SSL_CTRL_MODE,
                             ZKL_SSL_MODE_ENABLE_PARTIAL_WRITE | ZKL_SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, NULL);
    zkl_openssl.SSL_CTX_ctrl(context, ZKL_SSL_CTRL_SET_READ_AHEAD, 1,
                             NULL); /* a record in one system call, not in two */
    zkl_openssl.SSL_CTX_set_verify(context, options->verify ? ZKL_SSL_VERIFY_PEER : ZKL_SSL_VERIFY_NONE, NULL);
    zkl_openssl.SSL_CTX_set_default_passwd_cb(context, give_password);
    zkl_openssl.SSL_CTX_set_default_passwd_cb_userdata(context, (void *)(uintptr_t)options->key_password);
    return load_authorities(options, context, message, size) && load_certificate(options, context, message, size) &&
           set_ciphers(options, context, message, size);
}

zkl_ssl_context *zkl_tls_context_open(const zkl_tls_options *options, char *message, size_t size)
{
    zkl_openssl.ERR_clear_error();
    zkl_ssl_context *context = zkl_openssl.SSL_CTX_new(zkl_openssl.TLS_client_method());
    if (context == NULL) {
        snprintf(message, size, "not enough memory for a TLS connection");
    } else if (!set_up(options, context, message, size)) {
        zkl_openssl.SSL_CTX_free(context);
        context = NULL;
    }
    zkl_openssl.ERR_clear_error();
    return context;
}

bool zkl_tls_expect(zkl_ssl *ssl, const char *name)
{
    /* An authority of the options is trusted, also if another one has signed its certificate. */
    zkl_openssl.X509_VERIFY_PARAM_set_flags(zkl_openssl.SSL_get0_param(ssl), ZKL_X509_V_FLAG_PARTIAL_CHAIN);
    if (zkl_is_address(name)) { /* an address is not sent as a server name (RFC 6066) */
        return zkl_openssl.X509_VERIFY_PARAM_set1_ip_asc(zkl_openssl.SSL_get0_param(ssl), name) == 1;
    }
    /* For OpenSSL ".example" stands for every name below it, and "*.example" for a certificate of that name. */
    if (name[0] == '.' || strchr(name, '*') != NULL) {
        return false;
    }
    zkl_openssl.SSL_set_hostflags(ssl,
                                  ZKL_X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | ZKL_X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return zkl_openssl.SSL_set1_host(ssl, name) == 1 &&
           zkl_openssl.SSL_ctrl(ssl, ZKL_SSL_CTRL_SET_TLSEXT_HOSTNAME, 0, (void *)(uintptr_t)name) == 1;
}
