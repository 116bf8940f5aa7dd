/* dial: the sockets of a connector. */
#include "dial.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

/* How many connections to the listener the system keeps until they are closed. More are ignored, which does no harm. */
#define BACKLOG 4

typedef union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} loopback;

void zkl_dials_close(int fd)
{
    int error = errno;
    if (fd >= 0) {
        close(fd);
    }
    errno = error;
}

/* --- the listener --------------------------------------------------------------------------------------------------- */

/* Listens on a port of its own, which it stores in `address`. Returns -1, with errno, on failure. */
static int listen_at(loopback *address, socklen_t size)
{
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, &address->any, size) == 0 && listen(fd, BACKLOG) == 0 &&
        getsockname(fd, &address->any, &size) == 0) {
        return fd;
    }
    zkl_dials_close(fd);
    return -1;
}

int zkl_listener_open(char address[ZKL_LISTENER_SIZE])
{
    loopback v4 = {.v4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}}};
    int fd = listen_at(&v4, sizeof v4.v4);
    if (fd >= 0) {
        snprintf(address, ZKL_LISTENER_SIZE, "127.0.0.1:%d", ntohs(v4.v4.sin_port));
        return fd;
    }
    loopback v6 = {.v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT}};
    fd = listen_at(&v6, sizeof v6.v6);
    snprintf(address, ZKL_LISTENER_SIZE, "::1:%d", ntohs(v6.v6.sin6_port));
    return fd;
}

bool zkl_listener_replace(int listener, int fd, int socket)
{
    bool replaced = dup3(socket, fd, O_CLOEXEC) == fd;
    zkl_dials_close(socket);
    int error = errno;
    int begun = 0;
    for (int i = 0; i < BACKLOG && begun >= 0; i++) {
        begun = accept4(listener, NULL, NULL, SOCK_CLOEXEC); /* the connection that the C client had begun */
        zkl_dials_close(begun);
    }
    if (!replaced) {
        shutdown(fd, SHUT_RDWR);
    }
    errno = error;
    return replaced;
}

/* --- connections ---------------------------------------------------------------------------------------------------- */

int zkl_dials_open(void)
{
    return epoll_create1(EPOLL_CLOEXEC);
}

bool zkl_dials_add(int dials, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    return epoll_ctl(dials, EPOLL_CTL_ADD, fd, &event) == 0;
}

void zkl_dials_remove(int dials, int fd)
{
    epoll_ctl(dials, EPOLL_CTL_DEL, fd, NULL); /* not only closed: a forked child may have a copy */
}

bool zkl_dial_begin(zkl_dial *dial, int dials, const zkl_address *address)
{
    const struct sockaddr *to = (const struct sockaddr *)&address->address;
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;
    struct epoll_event event = {.events = EPOLLOUT, .data.ptr = dial};
    bool begun = fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
                 (connect(fd, to, address->size) == 0 || errno == EINPROGRESS) &&
                 epoll_ctl(dials, EPOLL_CTL_ADD, fd, &event) == 0;
    if (!begun) {
        zkl_dials_close(fd);
    }
    dial->fd = begun ? fd : -1;
    return begun;
}

zkl_dial *zkl_dials_next(int dials, int *error)
{
    struct epoll_event ready;
    if (epoll_wait(dials, &ready, 1, 0) != 1 || ready.data.ptr == NULL) {
        return NULL;
    }
    zkl_dial *dial = ready.data.ptr;
    socklen_t size = sizeof *error;
    if (getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, error, &size) != 0) {
        *error = errno;
    }
    return dial;
}

int zkl_dial_take(zkl_dial *dial, int dials)
{
    int fd = dial->fd;
    epoll_ctl(dials, EPOLL_CTL_DEL, fd, NULL); /* the socket outlives this descriptor */
    dial->fd = -1;
    return fd;
}

void zkl_dial_end(zkl_dial *dial)
{
    if (dial->fd >= 0) {
        shutdown(dial->fd, SHUT_RDWR);
        close(dial->fd);
        dial->fd = -1;
    }
}
