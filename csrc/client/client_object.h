/*
 * client object: a client, made of the parts that the other files own.
 *
 *   client.c         opening and closing; the I/O thread; exit()
 *   life.c           the states from opening to the end
 *   registry.c       all open clients of the process: for exit() and fork()
 *   poll_owner.c     which thread polls the C client's socket, and when callers run the engine themselves
 *   io_turn.c        one run of the engine between two polls
 *   handles.c        the engine's side of handles; see handle.h
 *   published.c      what callers may read without the engine: state, figures
 *   notifications.c  the handles that their owners should look at; notify_socket.c: a socket for that, for nginx
 *   log.c            log lines, of the engine and of the C client
 *   wake.c           wakes the I/O thread
 *   xid.c            the numbers that the C client gives to requests, of all clients of the process
 *
 * Locks. Each struct says by which of these its fields are protected:
 *   - engine_mutex also protects the engine itself and its acquisitions. The I/O thread holds it except while it sleeps in poll. A
 *     caller that finds it free passes its request to the engine itself; the engine sends at once and cannot block. This saves waking
 *     the I/O thread only to send (it already polls the socket for the reply). A caller that finds it taken leaves its request on the
 *     list and writes a byte. A caller that blocks may do the I/O thread's work while it waits (poll_owner.c);
 *   - client->mutex is held for moments only. Under it no function of the engine is called that can call back;
 *   - atomics may be used by any thread, if the field says no more;
 *   - "the I/O thread" and "the owner's thread": only that thread uses the field.
 * engine_mutex is taken first, then the registry's mutex, then client->mutex, never in another order.
 */
#ifndef ZKLOCK_CLIENT_OBJECT_H
#define ZKLOCK_CLIENT_OBJECT_H

#include <pthread.h>

#include "client.h"
#include "handles.h"
#include "io_turn.h"
#include "life.h"
#include "log.h"
#include "notifications.h"
#include "poll_owner.h"
#include "published.h"
#include "registry.h"
#include "wake.h"

struct zkl_client {
    pthread_mutex_t engine_mutex;
    pthread_mutex_t mutex;
    zkl_engine *engine; /* engine_mutex; NULL once the I/O thread has ended */
    zkl_life life;
    zkl_registration registration;
    zkl_poll_owner poll_owner;
    zkl_server_socket socket;
    zkl_connector *connector; /* engine_mutex; NULL once the I/O thread has ended */
    zkl_tls_link *tls_link;   /* engine_mutex; NULL without TLS, and once the I/O thread has ended */
    zkl_wake wake;
    zkl_handles handles;
    zkl_notifications notifications;
    zkl_published published;
    zkl_log log;
};

/*
 * Returns a new client without an engine and without a thread, with one reference. Returns NULL if the system refuses memory or a
 * pipe; `message` (ZKL_MESSAGE_SIZE bytes) then says which.
 */
zkl_client *zkl_client_new(const zkl_client_options *options, char *message);
/*
 * Drops one reference. Frees the client with the last one. Any thread, client->mutex not held. Under engine_mutex it is never the
 * last one: the I/O thread has a reference as long as there is an engine.
 */
void zkl_client_drop(zkl_client *client);

#endif
