/* wake: wakes the I/O thread out of its sleep. */
#ifndef ZKLOCK_CLIENT_WAKE_H
#define ZKLOCK_CLIENT_WAKE_H

#include "client.h"
#include "os/os.h"

typedef struct {
    zkl_pipe pipe; /* callers write, the I/O thread reads; constant from the opening until the client is JOINED */
    bool woken;    /* client->mutex: a byte is in the pipe, or will be at once */
} zkl_wake;

/* Wakes the I/O thread. Any thread. */
void zkl_client_wake(zkl_client *client);
/*
 * client->mutex held. Unlocks it, and then wakes the I/O thread if necessary: a byte that is written before the unlock would make
 * the thread run into the locked mutex. One byte is enough until it has been read. Any thread.
 */
void zkl_client_unlock_and_wake(zkl_client *client);
/* I/O thread: empties the pipe that woke it. */
void zkl_client_awake(zkl_client *client);
/* The client is JOINED, and its I/O thread has returned. Closes the pipe, as soon as no thread is about to write to it. */
void zkl_client_end_wakes(zkl_client *client);

#endif
