/* resolver: resolves a name, and nobody waits for it. */
#include "resolver.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "os/os.h"

struct zkl_resolution {
    _Atomic int32_t references; /* whoever began it, and the thread */
    _Atomic bool answered;      /* `answer` is constant from now on */
    bool numeric;
    char *host;
    char *port;
    int fd;
    zkl_answer answer;
};

void zkl_resolution_end(zkl_resolution *resolution)
{
    if (resolution == NULL || atomic_fetch_sub(&resolution->references, 1) > 1) {
        return;
    }
    if (resolution->answer.found != NULL) {
        freeaddrinfo(resolution->answer.found);
    }
    if (resolution->fd >= 0) {
        close(resolution->fd);
    }
    zkl_free(resolution->host);
    zkl_free(resolution->port);
    zkl_free(resolution);
}

static void give_answer(zkl_resolution *resolution, int error)
{
    resolution->answer.error = error;
    resolution->answer.system = errno;
    resolution->answer.at = zkl_clock();
    atomic_store(&resolution->answered, true);
}

static void resolve_name(zkl_resolution *resolution)
{
    const struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_NUMERICSERV | (resolution->numeric ? AI_NUMERICHOST : AI_ADDRCONFIG),
    };
    give_answer(resolution, getaddrinfo(resolution->host, resolution->port, &hints, &resolution->answer.found));
}

/* The thread. */
static void *run_resolution(void *argument)
{
    zkl_resolution *resolution = argument;
    resolve_name(resolution);
    while (eventfd_write(resolution->fd, 1) != 0 && errno == EINTR) {
    }
    zkl_resolution_end(resolution);
    return NULL;
}

/* Returns false, with errno, if there can be no thread. */
static bool start_resolution(zkl_resolution *resolution)
{
    resolution->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (resolution->fd < 0) {
        return false;
    }
    pthread_t thread;
    atomic_store(&resolution->references, 2);
    errno = zkl_thread_start(&thread, run_resolution, resolution);
    if (errno != 0) {
        atomic_store(&resolution->references, 1);
        return false;
    }
    pthread_detach(thread);
    return true;
}

zkl_resolution *zkl_resolution_begin(const char *host, const char *port, bool numeric)
{
    zkl_resolution *resolution = zkl_alloc(sizeof *resolution);
    if (resolution == NULL) {
        return NULL;
    }
    atomic_store(&resolution->references, 1);
    resolution->numeric = numeric;
    resolution->fd = -1;
    resolution->host = zkl_copy(host, strlen(host));
    resolution->port = zkl_copy(port, strlen(port));
    if (resolution->host == NULL || resolution->port == NULL) {
        zkl_resolution_end(resolution);
        return NULL;
    }
    if (numeric) {
        resolve_name(resolution);
    } else if (!start_resolution(resolution)) {
        give_answer(resolution, EAI_SYSTEM);
    }
    return resolution;
}

const zkl_answer *zkl_resolution_answer(const zkl_resolution *resolution)
{
    return atomic_load(&resolution->answered) ? &resolution->answer : NULL;
}

int zkl_resolution_fd(const zkl_resolution *resolution)
{
    return resolution->fd;
}
