/* notifications: the byte that makes the owner's event loop ask what is new. */
#include "notifications.h"

bool zkl_notifications_open(zkl_notifications *notifications)
{
    zkl_notify_socket_init(&notifications->socket);
    return zkl_pipe_open(&notifications->pipe);
}

void zkl_notifications_close(zkl_notifications *notifications)
{
    zkl_pipe_close(&notifications->pipe);
    zkl_notify_socket_close(&notifications->socket);
}

void zkl_notifications_due(zkl_notifications *notifications)
{
    if (notifications->signal == ZKL_SIGNAL_NONE) {
        notifications->signal = ZKL_SIGNAL_DUE; /* a byte that was given already is enough */
    }
}

void zkl_notifications_changed(zkl_notifications *notifications)
{
    notifications->changed = true;
    zkl_notifications_due(notifications);
}

bool zkl_notifications_read(zkl_notifications *notifications)
{
    bool changed = notifications->changed;
    notifications->changed = false;
    if (notifications->signal != ZKL_SIGNAL_GIVEN || notifications->socket.fd >= 0 ||
        zkl_pipe_drain(&notifications->pipe)) {
        notifications->signal = ZKL_SIGNAL_NONE; /* if the pipe's byte is not written yet, the next call reads it */
    }
    return changed;
}

bool zkl_notifications_claim_byte(zkl_notifications *notifications)
{
    bool due = notifications->signal == ZKL_SIGNAL_DUE;
    if (due) {
        notifications->signal = ZKL_SIGNAL_GIVEN;
    }
    return due;
}

void zkl_notifications_end(zkl_notifications *notifications)
{
    notifications->signal = ZKL_SIGNAL_GIVEN;
    notifications->changed = true;
    zkl_pipe_write(&notifications->pipe);
    zkl_notify_socket_ring(&notifications->socket);
}

void zkl_notifications_ring(const zkl_notifications *notifications)
{
    if (!zkl_notify_socket_ring(&notifications->socket)) {
        zkl_pipe_write(&notifications->pipe);
    }
}
