/*
 * notify socket: a unix stream socket that carries a client's notifications in place of its pipe.
 *
 * It is for nginx, whose event loop cannot watch our file descriptors but connects sockets of its own. zkl_client_listen makes a
 * socket in a directory that only this user may enter (nginx does not support abstract names). Once the event loop has connected,
 * zkl_client_accept takes the connection and removes the name and the directory. From then on a byte for each notification goes to
 * the connection. A byte is dropped if the buffer is full or the peer is gone: one unread byte has the same effect as two, and the
 * next peer looks at the state first. The I/O thread never removes the name: it may exit while the event loop is about to connect.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client_private.h"

static const char NAME[] = "/notify";

void zkl_notify_socket_forget(zkl_client *client)
{
    if (client->notify_directory[0] != '\0') {
        char name[sizeof client->notify_directory + sizeof NAME];
        snprintf(name, sizeof name, "%s%s", client->notify_directory, NAME);
        unlink(name);
        rmdir(client->notify_directory);
        client->notify_directory[0] = '\0';
    }
    if (client->listener >= 0) {
        close(client->listener);
        client->listener = -1;
    }
}

/* Mutex held. Sets errno on failure. */
static bool start_listening(zkl_client *client, struct sockaddr_un *address)
{
    const char *parent = secure_getenv("TMPDIR"); /* ignored in set-user-ID programs */
    if (parent == NULL || parent[0] != '/' || strlen(parent) > 64) {
        parent = "/tmp";
    }
    char directory[sizeof client->notify_directory];
    snprintf(directory, sizeof directory, "%s/zklock-XXXXXX", parent);
    if (mkdtemp(directory) == NULL) { /* with mode 0700 */
        return false;
    }
    memcpy(client->notify_directory, directory, sizeof directory);
    snprintf(address->sun_path, sizeof address->sun_path, "%s%s", directory, NAME);
    client->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return client->listener >= 0 && bind(client->listener, (struct sockaddr *)address, sizeof *address) == 0 &&
           listen(client->listener, 1) == 0;
}

bool zkl_client_listen(zkl_client *client, char *path, size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    pthread_mutex_lock(&client->mutex);
    zkl_notify_socket_forget(client);
    errno = ESHUTDOWN;
    bool listening = !client->exited && start_listening(client, &address);
    int error = errno;
    if (!listening) {
        zkl_notify_socket_forget(client);
    }
    pthread_mutex_unlock(&client->mutex);
    snprintf(path, size, "%s", listening ? address.sun_path : strerror(error));
    return listening;
}

bool zkl_client_accept(zkl_client *client)
{
    pthread_mutex_lock(&client->mutex);
    int fd = client->listener >= 0 ? accept4(client->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
    zkl_notify_socket_forget(client);
    int old = atomic_load(&client->notify_socket);
    if (fd >= 0 && old >= 0) {
        /* The number stays the same: another thread may be sending to it, without the mutex. */
        dup3(fd, old, O_CLOEXEC);
        close(fd);
    } else if (fd >= 0) {
        atomic_store(&client->notify_socket, fd);
    }
    pthread_mutex_unlock(&client->mutex);
    return fd >= 0;
}

bool zkl_client_ring(zkl_client *client)
{
    int fd = atomic_load(&client->notify_socket);
    if (fd < 0) {
        return false;
    }
    while (send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
    return true;
}
