/*
 * notify socket: a unix stream socket that carries a client's notifications in place of its pipe.
 *
 * It is for nginx, whose event loop cannot watch our file descriptors but connects sockets of its own. zkl_client_listen makes a
 * socket in a directory that only this user may enter (nginx does not support abstract names). Once the event loop has connected,
 * zkl_client_accept takes the connection and removes the name and the directory. From then on a byte for each notification goes to
 * the connection. A byte is dropped if the buffer is full or the peer is gone: one unread byte has the same effect as two, and the
 * next peer looks at the state first. The I/O thread never removes the name: it may exit while the event loop is about to connect.
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

#include "client_object.h"

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

/* client->mutex held. Sets errno on failure. */
static bool start_listening(zkl_notify_socket *notify, struct sockaddr_un *address)
{
    const char *parent = secure_getenv("TMPDIR"); /* ignored in set-user-ID programs */
    if (parent == NULL || parent[0] != '/' || strlen(parent) > 64) {
        parent = "/tmp";
    }
    char directory[sizeof notify->directory];
    snprintf(directory, sizeof directory, "%s/zklock-XXXXXX", parent);
    if (mkdtemp(directory) == NULL) { /* with mode 0700 */
        return false;
    }
    memcpy(notify->directory, directory, sizeof directory);
    snprintf(address->sun_path, sizeof address->sun_path, "%s%s", directory, NAME);
    notify->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return notify->listener >= 0 && bind(notify->listener, (struct sockaddr *)address, sizeof *address) == 0 &&
           listen(notify->listener, 1) == 0;
}

bool zkl_client_listen(zkl_client *client, char *path, size_t size)
{
    zkl_notify_socket *notify = &client->notifications.socket;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    pthread_mutex_lock(&client->mutex);
    zkl_notify_socket_forget(notify);
    errno = ESHUTDOWN;
    bool listening = !zkl_life_ended(&client->life) && start_listening(notify, &address);
    int error = errno;
    if (!listening) {
        zkl_notify_socket_forget(notify);
    }
    pthread_mutex_unlock(&client->mutex);
    snprintf(path, size, "%s", listening ? address.sun_path : strerror(error));
    return listening;
}

bool zkl_client_accept(zkl_client *client)
{
    zkl_notify_socket *notify = &client->notifications.socket;
    pthread_mutex_lock(&client->mutex);
    int fd = notify->listener >= 0 ? accept4(notify->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
    zkl_notify_socket_forget(notify);
    int old = atomic_load(&notify->fd);
    if (fd >= 0 && old >= 0) {
        /* The number stays the same: another thread may be sending to it, without the mutex. */
        dup3(fd, old, O_CLOEXEC);
        close(fd);
    } else if (fd >= 0) {
        atomic_store(&notify->fd, fd);
    }
    pthread_mutex_unlock(&client->mutex);
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

bool zkl_client_ring(zkl_client *client)
{
    return zkl_notify_socket_ring(&client->notifications.socket);
}
