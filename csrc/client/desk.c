/* desk: where a client's handles leave their requests and get their results. */
#include "desk.h"

#include <assert.h>
#include <poll.h>
#include <time.h>

#include "registry.h"

/* A client that is OPEN and has one reference. */
static void begin_life(zkl_life *life)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&life->gone, &attributes);
    pthread_condattr_destroy(&attributes);
    life->forks = zkl_registry_forks();
    atomic_store(&life->references, 1);
    atomic_store(&life->state, ZKL_LIFE_OPEN);
}

void zkl_life_enter(zkl_life *life, zkl_client_life next)
{
    assert((int)next == (int)atomic_load_explicit(&life->state, memory_order_relaxed) + 1);
    atomic_store_explicit(&life->state, next, memory_order_relaxed);
}

/* --- the byte for the owner ----------------------------------------------------------------------------------------- */

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

/* --- the desk ------------------------------------------------------------------------------------------------------ */

bool zkl_desk_init(zkl_desk *desk, void (*free)(zkl_desk *desk))
{
    pthread_mutex_init(&desk->mutex, NULL);
    begin_life(&desk->life);
    desk->free = free;
    TAILQ_INIT(&desk->notified);
    TAILQ_INIT(&desk->todo);
    TAILQ_INIT(&desk->all);
    TAILQ_INIT(&desk->flushes);
    TAILQ_INIT(&desk->dying);
    TAILQ_INIT(&desk->limited);
    desk->wake_pipe = ZKL_NO_PIPE;
    zkl_notify_socket_init(&desk->notifications.socket);
    return zkl_pipe_open(&desk->notifications.pipe) && zkl_pipe_open(&desk->wake_pipe);
}

void zkl_desk_free(zkl_desk *desk)
{
    zkl_pipe_close(&desk->wake_pipe);
    zkl_pipe_close(&desk->notifications.pipe);
    zkl_notify_socket_close(&desk->notifications.socket);
    pthread_cond_destroy(&desk->life.gone);
    pthread_mutex_destroy(&desk->mutex);
}

void zkl_desk_drop(zkl_desk *desk)
{
    if (atomic_fetch_sub(&desk->life.references, 1) == 1) {
        desk->free(desk);
    }
}

bool zkl_client_forked(const zkl_client *client)
{
    return zkl_desk_of(client)->life.forks != zkl_registry_forks();
}

bool zkl_client_busy(const zkl_client *client)
{
    return atomic_load(&zkl_desk_of(client)->open) > 0;
}

/* --- notifications ------------------------------------------------------------------------------------------------- */

int zkl_client_fd(const zkl_client *client)
{
    return zkl_desk_of(client)->notifications.pipe.ends[0];
}

bool zkl_client_has_notifications(zkl_client *client)
{
    return zkl_notifications_any(&zkl_desk_of(client)->notifications);
}

bool zkl_client_listen(zkl_client *client, char *path, size_t size)
{
    zkl_desk *desk = zkl_desk_of(client);
    pthread_mutex_lock(&desk->mutex);
    bool listening = zkl_notify_socket_listen(&desk->notifications.socket, zkl_life_ended(&desk->life), path, size);
    pthread_mutex_unlock(&desk->mutex);
    return listening;
}

bool zkl_client_accept(zkl_client *client)
{
    zkl_desk *desk = zkl_desk_of(client);
    pthread_mutex_lock(&desk->mutex);
    bool accepted = zkl_notify_socket_accept(&desk->notifications.socket);
    pthread_mutex_unlock(&desk->mutex);
    return accepted;
}

bool zkl_client_ring(zkl_client *client)
{
    return zkl_notify_socket_ring(&zkl_desk_of(client)->notifications.socket);
}

/* --- waking the I/O thread ----------------------------------------------------------------------------------------- */

void zkl_desk_unlock_and_wake(zkl_desk *desk)
{
    bool write_it = !desk->woken && !zkl_life_ended(&desk->life);
    desk->woken = desk->woken || write_it;
    pthread_mutex_unlock(&desk->mutex);
    if (write_it) {
        zkl_pipe_write(&desk->wake_pipe);
    }
}

void zkl_desk_wake(zkl_desk *desk)
{
    pthread_mutex_lock(&desk->mutex);
    zkl_desk_unlock_and_wake(desk);
}

/*
 * A thread that has claimed the byte writes it without the mutex. If the pipe were closed meanwhile, the byte would go to whatever
 * has got the descriptor's number. `woken` is true from the claim until the byte was read, and no thread claims it once the client
 * has ENDED: so at most one thread is about to write, and it is done when its byte has come.
 */
void zkl_desk_end_wakes(zkl_desk *desk)
{
    struct pollfd byte = {.fd = desk->wake_pipe.ends[0], .events = POLLIN};
    while (desk->woken && poll(&byte, 1, -1) < 0) {
    }
    zkl_pipe_drain(&desk->wake_pipe);
    zkl_pipe_close(&desk->wake_pipe);
}

void zkl_desk_awake(zkl_desk *desk)
{
    zkl_pipe_drain(&desk->wake_pipe);
    pthread_mutex_lock(&desk->mutex);
    desk->woken = false;
    pthread_mutex_unlock(&desk->mutex);
}
