/*
 * TLS library: the functions of OpenSSL that the link uses, found at run time.
 *
 * Installing zklock needs no OpenSSL, and neither do programs without TLS. The first client with the option `tls` loads the library by
 * dlopen: libssl.so.3, or else libssl.so.1.1. Only functions that both have, with the same arguments, are declared here.
 *
 * In a process that has an OpenSSL of its own, such as nginx, dlopen of the same file name returns the same library. If the program
 * has another OpenSSL linked in statically, RTLD_DEEPBIND prevents the loaded library from calling functions of that one.
 */
#ifndef ZKLOCK_NET_TLS_LIBRARY_H
#define ZKLOCK_NET_TLS_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* OpenSSL's own tags of its types. */
typedef struct ssl_st zkl_ssl;
typedef struct ssl_ctx_st zkl_ssl_context;
typedef struct ssl_method_st zkl_ssl_method;
typedef struct ssl_cipher_st zkl_ssl_cipher;
typedef struct bio_st zkl_bio;
typedef struct bio_method_st zkl_bio_method;
typedef struct X509_VERIFY_PARAM_st zkl_verify_param;
typedef struct x509_st zkl_certificate;
typedef struct stack_st zkl_stack;
typedef struct asn1_string_st zkl_asn1_time;

typedef int (*zkl_ssl_password_fn)(char *buffer, int size, int writing, void *user);
typedef int (*zkl_bio_write_fn)(zkl_bio *bio, const char *bytes, int length);
typedef int (*zkl_bio_read_fn)(zkl_bio *bio, char *bytes, int size);
typedef long (*zkl_bio_control_fn)(zkl_bio *bio, int command, long number, void *pointer);

/* FUNCTION(RESULT, NAME, ARGUMENTS) */
#define ZKL_EACH_TLS_FUNCTION(FUNCTION)                                                                                \
    FUNCTION(int, OPENSSL_init_ssl, (uint64_t options, const void *settings))                                          \
    FUNCTION(const zkl_ssl_method *, TLS_client_method, (void))                                                        \
    FUNCTION(zkl_ssl_context *, SSL_CTX_new, (const zkl_ssl_method *method))                                           \
    FUNCTION(void, SSL_CTX_free, (zkl_ssl_context * context))                                                          \
    FUNCTION(long, SSL_CTX_ctrl, (zkl_ssl_context * context, int command, long number, void *pointer))                 \
    FUNCTION(int, SSL_CTX_set_cipher_list, (zkl_ssl_context * context, const char *list))                              \
    FUNCTION(int, SSL_CTX_set_ciphersuites, (zkl_ssl_context * context, const char *list))                             \
    FUNCTION(int, SSL_CTX_load_verify_locations, (zkl_ssl_context * context, const char *file, const char *path))      \
    FUNCTION(int, SSL_CTX_set_default_verify_paths, (zkl_ssl_context * context))                                       \
    FUNCTION(int, SSL_CTX_use_certificate_chain_file, (zkl_ssl_context * context, const char *file))                   \
    FUNCTION(int, SSL_CTX_use_PrivateKey_file, (zkl_ssl_context * context, const char *file, int type))                \
    FUNCTION(int, SSL_CTX_check_private_key, (const zkl_ssl_context *context))                                         \
    FUNCTION(void, SSL_CTX_set_default_passwd_cb, (zkl_ssl_context * context, zkl_ssl_password_fn password))           \
    FUNCTION(void, SSL_CTX_set_default_passwd_cb_userdata, (zkl_ssl_context * context, void *user))                    \
    FUNCTION(void, SSL_CTX_set_verify, (zkl_ssl_context * context, int mode, void *callback))                          \
    FUNCTION(zkl_ssl *, SSL_new, (zkl_ssl_context * context))                                                          \
    FUNCTION(void, SSL_free, (zkl_ssl * ssl))                                                                          \
    FUNCTION(void, SSL_set_bio, (zkl_ssl * ssl, zkl_bio * reading, zkl_bio * writing))                                 \
    FUNCTION(void, SSL_set_connect_state, (zkl_ssl * ssl))                                                             \
    FUNCTION(long, SSL_ctrl, (zkl_ssl * ssl, int command, long number, void *pointer))                                 \
    FUNCTION(void, SSL_set_hostflags, (zkl_ssl * ssl, unsigned int flags))                                             \
    FUNCTION(int, SSL_set1_host, (zkl_ssl * ssl, const char *name))                                                    \
    FUNCTION(const zkl_ssl_cipher *, SSL_get_current_cipher, (const zkl_ssl *ssl))                                     \
    FUNCTION(int, SSL_CIPHER_get_bits, (const zkl_ssl_cipher *cipher, int *algorithm_bits))                            \
    FUNCTION(int, SSL_CIPHER_get_auth_nid, (const zkl_ssl_cipher *cipher))                                             \
    FUNCTION(const char *, SSL_CIPHER_get_name, (const zkl_ssl_cipher *cipher))                                        \
    FUNCTION(const char *, SSL_get_version, (const zkl_ssl *ssl))                                                      \
    FUNCTION(zkl_stack *, SSL_get_peer_cert_chain, (const zkl_ssl *ssl))                                               \
    FUNCTION(zkl_certificate *, SSL_get_certificate, (const zkl_ssl *ssl))                                             \
    FUNCTION(void *, OPENSSL_sk_value, (const zkl_stack *stack, int index))                                            \
    FUNCTION(const zkl_asn1_time *, X509_get0_notAfter, (const zkl_certificate *certificate))                          \
    FUNCTION(int, ASN1_TIME_diff, (int *days, int *seconds, const zkl_asn1_time *from, const zkl_asn1_time *to))       \
    FUNCTION(zkl_verify_param *, SSL_get0_param, (zkl_ssl * ssl))                                                      \
    FUNCTION(int, X509_VERIFY_PARAM_set_flags, (zkl_verify_param * param, unsigned long flags))                        \
    FUNCTION(int, X509_VERIFY_PARAM_set1_ip_asc, (zkl_verify_param * param, const char *address))                      \
    FUNCTION(long, SSL_get_verify_result, (const zkl_ssl *ssl))                                                        \
    FUNCTION(const char *, X509_verify_cert_error_string, (long result))                                               \
    FUNCTION(int, SSL_do_handshake, (zkl_ssl * ssl))                                                                   \
    FUNCTION(int, SSL_read, (zkl_ssl * ssl, void *bytes, int size))                                                    \
    FUNCTION(int, SSL_write, (zkl_ssl * ssl, const void *bytes, int length))                                           \
    FUNCTION(int, SSL_shutdown, (zkl_ssl * ssl))                                                                       \
    FUNCTION(int, SSL_get_error, (const zkl_ssl *ssl, int result))                                                     \
    FUNCTION(zkl_bio_method *, BIO_meth_new, (int type, const char *name))                                             \
    FUNCTION(int, BIO_meth_set_write, (zkl_bio_method * method, zkl_bio_write_fn write))                               \
    FUNCTION(int, BIO_meth_set_read, (zkl_bio_method * method, zkl_bio_read_fn read))                                  \
    FUNCTION(int, BIO_meth_set_ctrl, (zkl_bio_method * method, zkl_bio_control_fn control))                            \
    FUNCTION(int, BIO_get_new_index, (void))                                                                           \
    FUNCTION(zkl_bio *, BIO_new, (const zkl_bio_method *method))                                                       \
    FUNCTION(void, BIO_set_data, (zkl_bio * bio, void *data))                                                          \
    FUNCTION(void *, BIO_get_data, (zkl_bio * bio))                                                                    \
    FUNCTION(void, BIO_set_init, (zkl_bio * bio, int init))                                                            \
    FUNCTION(void, BIO_set_flags, (zkl_bio * bio, int flags))                                                          \
    FUNCTION(void, BIO_clear_flags, (zkl_bio * bio, int flags))                                                        \
    FUNCTION(void, ERR_clear_error, (void))                                                                            \
    FUNCTION(unsigned long, ERR_get_error, (void))                                                                     \
    FUNCTION(const char *, ERR_reason_error_string, (unsigned long error))

typedef struct {
#define ZKL_DECLARE(result, name, arguments) result(*name) arguments; /* NOLINT(bugprone-macro-parentheses) */
    ZKL_EACH_TLS_FUNCTION(ZKL_DECLARE)
#undef ZKL_DECLARE
} zkl_tls_library;

/* Values of OpenSSL's headers, the same in all its versions from 1.1 on. */
enum {
    ZKL_SSL_ERROR_WANT_READ = 2,
    ZKL_SSL_ERROR_WANT_WRITE = 3,
    ZKL_SSL_ERROR_ZERO_RETURN = 6,
    ZKL_SSL_VERIFY_NONE = 0,
    ZKL_SSL_VERIFY_PEER = 1,
    ZKL_SSL_FILETYPE_PEM = 1,
    ZKL_SSL_CTRL_MODE = 33,
    ZKL_SSL_CTRL_SET_READ_AHEAD = 41,
    ZKL_SSL_CTRL_SET_TLSEXT_HOSTNAME = 55,
    ZKL_SSL_CTRL_SET_MIN_PROTO_VERSION = 123,
    ZKL_SSL_MODE_ENABLE_PARTIAL_WRITE = 1,
    ZKL_SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER = 2,
    ZKL_TLS_1_2 = 0x0303,
    ZKL_TLS_1_3 = 0x0304,
    ZKL_BIO_TYPE_SOURCE_SINK = 0x0400,
    ZKL_BIO_CTRL_FLUSH = 11,
    ZKL_BIO_FLAGS_READ = 1,
    ZKL_BIO_FLAGS_WRITE = 2,
    ZKL_BIO_FLAGS_SHOULD_RETRY = 8,
    ZKL_NID_AUTH_NULL = 1053,
    ZKL_X509_V_OK = 0,
    ZKL_X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS = 4,
    ZKL_X509_CHECK_FLAG_NEVER_CHECK_SUBJECT = 0x20,
    ZKL_X509_V_FLAG_PARTIAL_CHAIN = 0x80000,
};

/* OpenSSL's functions, once zkl_tls_library_load has returned true. Any thread. */
extern zkl_tls_library zkl_openssl;

/*
 * Loads the library, unless it is loaded. Any thread. Returns false if there is none that fits, and writes the reason into `message` (of
 * `size` bytes). Once loaded it stays until the process ends. `first` says whether this call has loaded it.
 */
bool zkl_tls_library_load(char *message, size_t size, bool *first);

#endif
