/* notifications: the handles whose owners are to look at them, and the byte that makes the owner's event loop ask for them. */
#include "notifications.h"

#include "client_object.h"

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

void zkl_notifications_add(zkl_notifications *notifications, zkl_handle *handle)
{
    if (!handle->has_notification) {
        handle->has_notification = true;
        TAILQ_INSERT_TAIL(&notifications->list, handle, in_notifications);
        atomic_fetch_add(&handle->references, 1);
    }
}

zkl_handle *zkl_notifications_take(zkl_notifications *notifications, bool *changed)
{
    *changed = false;
    zkl_handle *handle = TAILQ_FIRST(&notifications->list);
    if (handle != NULL) {
        TAILQ_REMOVE(&notifications->list, handle, in_notifications);
        handle->has_notification = false;
        return handle;
    }
    *changed = notifications->changed;
    notifications->changed = false;
    if (notifications->signal != ZKL_SIGNAL_GIVEN || notifications->socket.fd >= 0 ||
        zkl_pipe_drain(&notifications->pipe)) {
        notifications->signal = ZKL_SIGNAL_NONE; /* if the pipe's byte is not written yet, the next call reads it */
    }
    return NULL;
}

bool zkl_notifications_any(const zkl_notifications *notifications)
{
    return notifications->signal != ZKL_SIGNAL_NONE || !TAILQ_EMPTY(&notifications->list);
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

bool zkl_client_has_notifications(zkl_client *client)
{
    pthread_mutex_lock(&client->mutex);
    bool any = zkl_notifications_any(&client->notifications);
    pthread_mutex_unlock(&client->mutex);
    return any;
}
