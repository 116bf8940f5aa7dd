/* notifications: the byte that makes the owner's event loop ask what is new. */
#ifndef ZKLOCK_CLIENT_NOTIFICATIONS_H
#define ZKLOCK_CLIENT_NOTIFICATIONS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "notify_socket.h"
#include "os/os.h"

/* The byte for the owner. */
typedef enum {
    ZKL_SIGNAL_NONE, /* there is nothing that the owner has not asked for */
    ZKL_SIGNAL_DUE,  /* there is something, and no byte for it was written yet */
    ZKL_SIGNAL_GIVEN /* a byte is in the pipe or was sent by the socket, or will be at once */
} zkl_signal;

typedef struct {
    zkl_pipe
        pipe; /* constant until the client is freed: the I/O thread writes, callers read. zkl_client_fd is its end. */
    zkl_notify_socket socket;
    _Atomic zkl_signal signal; /* written under desk.mutex, read by any thread */
    bool changed;              /* desk.mutex: new state or log lines that zkl_client_next has not reported */
} zkl_notifications;

/* Returns false if the system refuses a pipe; errno then says why. */
bool zkl_notifications_open(zkl_notifications *notifications);
void zkl_notifications_close(zkl_notifications *notifications);

/* In the functions below, desk.mutex is held. */

/* There is something that the owner should ask for. */
void zkl_notifications_due(zkl_notifications *notifications);
/* The same, for a new state or a new log line. */
void zkl_notifications_changed(zkl_notifications *notifications);
/*
 * No handle is on the list. Empties the pipe, and returns whether the state or the log may have changed since the last time that it was
 * called.
 */
bool zkl_notifications_read(zkl_notifications *notifications);
/* Whether a byte is due; it then counts as given: the caller must call zkl_notifications_ring after it has unlocked the mutex. */
bool zkl_notifications_claim_byte(zkl_notifications *notifications);
/* The last notification: the I/O thread ends. */
void zkl_notifications_end(zkl_notifications *notifications);

/* Any thread, no mutex is needed. Whether there is something that the owner has not asked for. */
static inline bool zkl_notifications_any(const zkl_notifications *notifications)
{
    return atomic_load(&notifications->signal) != ZKL_SIGNAL_NONE;
}
/* Any thread, no mutex. Writes the byte. */
void zkl_notifications_ring(const zkl_notifications *notifications);

#endif
