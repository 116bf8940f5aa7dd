/* TLS library: the functions of OpenSSL that the link uses, found at run time. */
#include "tls_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* AddressSanitizer and ThreadSanitizer refuse to load anything with RTLD_DEEPBIND. */
#if !defined(RTLD_DEEPBIND) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DEEPBIND 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DEEPBIND 0
#endif
#endif
#ifndef DEEPBIND
#define DEEPBIND RTLD_DEEPBIND
#endif

/* Without this option of OPENSSL_init_ssl, exit() would free the library's memory while I/O threads still close their sessions. */
#define INIT_NO_ATEXIT UINT64_C(0x00080000)

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
zkl_tls_library zkl_openssl;
static bool loaded;

static const char *const names[] = {"libssl.so.3", "libssl.so.1.1"};

/* Stores the address of a function in a pointer to a function, which C has no cast for. Returns whether it was found. */
static bool find_function(void *handle, const char *name, void *function, size_t size)
{
    void *address = dlsym(handle, name);
    memcpy(function, &address, size);
    return address != NULL;
}

/* Fills `zkl_openssl` from a library that is open. Returns the name of a function that it has not, or NULL. */
static const char *find_all(void *handle)
{
#define FIND(result, name, arguments)                                                                                  \
    if (!find_function(handle, #name, (void *)&zkl_openssl.name, sizeof zkl_openssl.name)) {                           \
        return #name;                                                                                                  \
    }
    ZKL_EACH_TLS_FUNCTION(FIND)
#undef FIND
    return NULL;
}

/* `loading` is locked. Returns whether the library is loaded; else `message` says why it is not. */
static bool load(char *message, size_t size)
{
    snprintf(message, size, "there is no OpenSSL: TLS needs libssl.so.3 or libssl.so.1.1");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | DEEPBIND);
        if (handle == NULL) {
            continue;
        }
        const char *missing = find_all(handle);
        if (missing == NULL && zkl_openssl.OPENSSL_init_ssl(INIT_NO_ATEXIT, NULL) == 1) {
            return true;
        }
        snprintf(message, size, missing != NULL ? "%s has no function %s" : "%s cannot be initialized", names[i],
                 missing);
        dlclose(handle);
    }
    return false;
}

bool zkl_tls_library_load(char *message, size_t size, bool *first)
{
    pthread_mutex_lock(&loading);
    *first = !loaded && load(message, size);
    loaded = loaded || *first;
    bool there = loaded;
    pthread_mutex_unlock(&loading);
    return there;
}
