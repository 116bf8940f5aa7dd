/* notifications: the handles whose owners are to look at them, and the byte that makes the owner's event loop ask for them. */
#ifndef ZKLOCK_CLIENT_NOTIFICATIONS_H
#define ZKLOCK_CLIENT_NOTIFICATIONS_H

#include "handle.h"
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
    struct zkl_handle_list list; /* client->mutex; each handle is in it once, and has a reference */
    zkl_signal signal;           /* client->mutex */
    bool changed;                /* client->mutex: new state or log lines that zkl_client_next has not reported */
    /*
     * engine_mutex. The handle that gets no notification, because its owner is the caller that runs the engine and will look at it.
     * NULL: none; always NULL while no thread holds that mutex, and once the client has ENDED.
     */
    const zkl_handle *quiet;
} zkl_notifications;

/* In all functions below, client->mutex is held. */

/* There is something that the owner should ask for. */
void zkl_notifications_due(zkl_notifications *notifications);
/* The same, for a new state or a new log line. */
void zkl_notifications_changed(zkl_notifications *notifications);
/* Puts the handle on the list, unless it is there, and adds a reference. */
void zkl_notifications_add(zkl_notifications *notifications, zkl_handle *handle);
/*
 * Takes the first handle from the list and returns it with the list's reference; NULL if the list is empty. Then the pipe is
 * emptied, and `changed` says whether the state or the log may have changed since the last time that it returned NULL.
 */
zkl_handle *zkl_notifications_take(zkl_notifications *notifications, bool *changed);
/* Whether zkl_notifications_take may have something to return. */
bool zkl_notifications_any(const zkl_notifications *notifications);
/* Whether a byte is due; it then counts as given: the caller must call zkl_notifications_ring after it has unlocked the mutex. */
bool zkl_notifications_claim_byte(zkl_notifications *notifications);
/* The last notification: the I/O thread ends. */
void zkl_notifications_end(zkl_notifications *notifications);

/* Any thread, no mutex. Writes the byte. */
void zkl_notifications_ring(const zkl_notifications *notifications);

#endif
