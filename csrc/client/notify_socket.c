/*
 * notify socket: a unix stream socket that carries a client's notifications in place of its pipe.
 *
 * It is for nginx, whose event loop cannot watch our file descriptors but connects sockets of its own. zkl_client_listen makes a
 * socket in a directory that only this user may enter. Where none can be made, as in a read-only container, the socket gets an
 * abstract name: the one of zero bytes only, because nginx copies a name up to its first zero byte. That name exists once in a
 * network namespace, so it is taken only from the call until the connection. Once the event loop has connected, zkl_client_accept
 * takes the connection, which must be of this process, and removes the name and the directory. From then on a byte for each
 * notification goes to the connection. A byte is dropped if the buffer is full or the peer is gone: one unread byte has the same
 * effect as two, and the next peer looks at the state first. The I/O thread never removes the name: it may exit while the event
 * loop is about to connect.
 */
#include "notify_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char NAME[] = "/notify";

void zkl_notify_socket_init(zkl_notify_socket *notify)
{
    atomic_store(&notify->fd, -1);
    notify->listener = -1;
}

void zkl_notify_socket_forget(zkl_notify_socket *notify)
{
    if (notify->directory[0] != '\0') {
        char name[sizeof notify->directory + sizeof NAME];
        snprintf(name, sizeof name, "%s%s", notify->directory, NAME);
        unlink(name);
        rmdir(notify->directory);
        notify->directory[0] = '\0';
    }
    if (notify->listener >= 0) {
        close(notify->listener);
        notify->listener = -1;
    }
}

void zkl_notify_socket_close(zkl_notify_socket *notify)
{
    zkl_notify_socket_forget(notify);
    if (notify->fd >= 0) {
        close(notify->fd);
    }
}

/* Returns the directory for temporary files. */
static const char *temporary(void)
{
    const char *parent = secure_getenv("TMPDIR"); /* ignored in set-user-ID programs */
    return parent != NULL && parent[0] == '/' && strlen(parent) <= 64 ? parent : "/tmp";
}

/* desk.mutex held. Listens at an address; sets errno on failure. */
static bool start_listening(zkl_notify_socket *notify, const struct sockaddr_un *address)
{
    notify->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return notify->listener >= 0 && bind(notify->listener, (const struct sockaddr *)address, sizeof *address) == 0 &&
           listen(notify->listener, 1) == 0;
}

/* desk.mutex held. Listens in a new directory; sets errno on failure. */
static bool listen_in_directory(zkl_notify_socket *notify, struct sockaddr_un *address)
{
    char directory[sizeof notify->directory];
    snprintf(directory, sizeof directory, "%s/zklock-XXXXXX", temporary());
    if (mkdtemp(directory) == NULL) { /* with mode 0700 */
        return false;
    }
    memcpy(notify->directory, directory, sizeof directory);
    snprintf(address->sun_path, sizeof address->sun_path, "%s%s", directory, NAME);
    return start_listening(notify, address);
}

bool zkl_notify_socket_listen(zkl_notify_socket *notify, bool over, char *path, size_t size)
{
    const struct sockaddr_un abstract = {.sun_family = AF_UNIX};
    struct sockaddr_un address = abstract;
    zkl_notify_socket_forget(notify);
    bool listening = !over && listen_in_directory(notify, &address);
    int error = over ? ESHUTDOWN : errno;
    if (!listening) {
        zkl_notify_socket_forget(notify);
        address = abstract;
        listening = !over && start_listening(notify, &address);
    }
    if (!listening) {
        zkl_notify_socket_forget(notify);
        snprintf(path, size, "no socket in %s: %s", temporary(), strerror(error));
    } else {
        snprintf(path, size, "%s", address.sun_path);
    }
    return listening;
}

/* Accepts the connection that this process has made, and closes those of others. Returns -1 if there is none. */
static int accept_own(int listener)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct ucred peer;
        socklen_t size = sizeof peer;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == getpid()) {
            break;
        }
        close(fd);
    }
    return fd;
}

bool zkl_notify_socket_accept(zkl_notify_socket *notify)
{
    int fd = notify->listener >= 0 ? accept_own(notify->listener) : -1;
    zkl_notify_socket_forget(notify);
    int old = atomic_load(&notify->fd);
    if (fd >= 0 && old >= 0) {
        /* The number stays the same: another thread may be sending to it, without the mutex. */
        int put = dup3(fd, old, O_CLOEXEC);
        close(fd);
        fd = put;
    } else if (fd >= 0) {
        atomic_store(&notify->fd, fd);
    }
    return fd >= 0;
}

bool zkl_notify_socket_ring(const zkl_notify_socket *notify)
{
    int fd = atomic_load(&notify->fd);
    if (fd < 0) {
        return false;
    }
    while (send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
    return true;
}
