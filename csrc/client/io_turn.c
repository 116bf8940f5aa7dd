/* I/O turn: one run of the engine between two polls, and what callers may read of a client afterwards. */
#include "client_object.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "handle.h"
#include "registry.h"

/* The most packets that are read one after the other. As long as that takes, no caller can use the engine. */
#define MOST_PACKETS 32

/* After a try in vain to read a second packet, so many occasions are left out. */
#define LEFT_OUT 4

/* --- what callers may read without engine_mutex --------------------------------------------------------------------------- */

void zkl_publish_lease(void *context, int64_t valid_until)
{
    zkl_client *client = context;
    atomic_store_explicit(&client->published.lease_until, valid_until, memory_order_release);
}

void zkl_publish_state(void *context, zkl_state state, zkl_code code, const char *problem)
{
    zkl_client *client = context;
    zkl_published *published = &client->published;
    pthread_mutex_lock(&client->desk.mutex);
    published->state = state;
    published->problem_code = code;
    snprintf(published->problem, sizeof published->problem, "%s", problem);
    zkl_notifications_changed(&client->desk.notifications);
    pthread_mutex_unlock(&client->desk.mutex);
}

void zkl_client_publish(zkl_client *client, bool silently)
{
    pthread_mutex_lock(&client->desk.mutex);
    client->published.stats = *zkl_engine_stats(client->engine);
    if (client->tls_link != NULL) {
        client->published.expiry = zkl_tls_link_expiry(client->tls_link);
    }
    bool write_it = !silently && zkl_notifications_claim_byte(&client->desk.notifications);
    pthread_mutex_unlock(&client->desk.mutex);
    if (write_it) {
        zkl_notifications_ring(
            &client->desk.notifications); /* after the unlock: a woken thread takes the mutex at once */
    }
}

zkl_state zkl_client_state(zkl_client *client, char *problem, zkl_code *code)
{
    const zkl_published *published = &client->published;
    pthread_mutex_lock(&client->desk.mutex);
    zkl_state state = published->state;
    if (zkl_life_ended(&client->desk.life)) {
        state = ZKL_STATE_CLOSED;
    } else if (state == ZKL_STATE_CLOSED) {
        state = ZKL_STATE_SUSPENDED; /* closed means that the I/O thread touches nothing any more */
    }
    *code = published->problem_code;
    memcpy(problem, published->problem, strlen(published->problem) + 1);
    pthread_mutex_unlock(&client->desk.mutex);
    return state;
}

zkl_stats zkl_client_stats(zkl_client *client, zkl_tls_expiry *expiry)
{
    pthread_mutex_lock(&client->desk.mutex);
    zkl_stats stats = client->published.stats;
    if (expiry != NULL) {
        *expiry = client->published.expiry;
    }
    pthread_mutex_unlock(&client->desk.mutex);
    return stats;
}

int32_t zkl_client_session_timeout(zkl_client *client)
{
    pthread_mutex_lock(&client->desk.mutex);
    int32_t timeout = client->published.stats.timeout_ms;
    pthread_mutex_unlock(&client->desk.mutex);
    return timeout;
}

/* --- turns --------------------------------------------------------------------------------------------------------- */

/*
 * The C client sends each request in two pieces, the length first. Corking holds all pieces back until the turn is over. They then
 * go out together: in one segment, for which the server wakes up once. A TLS link holds them back anyway, until it is flushed.
 */
void zkl_turn_sending(void *context)
{
    zkl_client *client = context;
    if (client->tls_link != NULL) {
        client->socket.corked = true;
    } else if (!client->socket.corked && client->socket.fd >= 0) {
        int on = 1;
        client->socket.corked = setsockopt(client->socket.fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on) == 0;
    }
    zkl_xid_begin();
}

void zkl_turn_sent(void *context)
{
    (void)context;
    zkl_xid_end();
}

/*
 * Ends corking at the end of a turn. If the C client has closed the socket meanwhile, its number may belong to another socket;
 * uncorking that is harmless.
 */
static void uncork(zkl_client *client)
{
    if (!client->socket.corked) {
        return;
    }
    client->socket.corked = false;
    if (client->tls_link != NULL) {
        zkl_tls_link_flush(client->tls_link);
    } else {
        int off = 0;
        setsockopt(client->socket.fd, IPPROTO_TCP, TCP_CORK, &off, sizeof off);
    }
}

struct pollfd zkl_client_link_poll(const zkl_client *client)
{
    if (client->socket.connecting) {
        return zkl_connector_poll(client->connector);
    }
    return client->tls_link != NULL ? zkl_tls_link_poll(client->tls_link) : (struct pollfd){.fd = -1};
}

void zkl_client_end_turn(zkl_client *client, bool silently)
{
    uncork(client);
    zkl_handles_reap(&client->desk);
    if (zkl_handles_flushing(&client->desk)) {
        /* A flush's answer says that nothing is left, so the figures must show that before it. */
        zkl_client_publish(client, true);
        if (zkl_engine_drained(client->engine)) {
            zkl_handles_finish_flushes(&client->desk);
        }
    }
    zkl_client_publish(client, silently);
}

/* Does what is due in the engine, and asks it what to wait for next. `by_caller` as in zkl_client_turn. */
static void prepare(zkl_client *client, zkl_poll *wanted, bool by_caller)
{
    client->socket.connecting = false;
    client->socket.may_block = !by_caller;
    bool leave = !by_caller && zkl_servers_take(client);
    zkl_engine_prepare(client->engine, zkl_clock(), wanted);
    if (client->tls_link != NULL) {
        zkl_tls_link_prepare(client->tls_link);
    }
    if (wanted->fd >= 0 && zkl_connector_overdue(client->connector, &wanted->wake_at) &&
        !(client->tls_link != NULL && zkl_tls_link_late(client->tls_link))) {
        zkl_connector_give_up(client->connector);
        wanted->must_disconnect = true;
    }
    wanted->must_disconnect = wanted->must_disconnect || (leave && wanted->fd >= 0);
    if (wanted->must_disconnect) {
        shutdown(wanted->fd, SHUT_RDWR);
    }
    if (wanted->fd >= 0 && (wanted->fd != client->socket.fd || !zkl_engine_may_call(client->engine))) {
        /* The C client may have been built without SOCK_CLOEXEC, and a new socket may have the number of the last. */
        fcntl(wanted->fd, F_SETFD, FD_CLOEXEC);
    }
    client->socket.fd = wanted->fd;
}

short zkl_client_arrived(zkl_client *client, const struct pollfd *polled, const struct pollfd *link)
{
    /* The thread has not held engine_mutex while it polled: the socket may be another one, with another number. */
    bool current = client->socket.fd == polled->fd;
    bool moved = client->tls_link != NULL && zkl_tls_link_process(client->tls_link, link->revents);
    return (short)(current ? polled->revents | (moved ? POLLIN : 0) : 0);
}

/*
 * The C client reads one packet in each call, and packets often arrive together. Polling before each of them would be one system call
 * more for each, and one byte more for the owner's event loop. As far as the engine can tell, this is a poll that returns at once:
 * it is prepared before each packet. Where no more has arrived, that costs a read in vain. So nothing is tried if no reply is due, or
 * a moment after replies have come one by one.
 */
void zkl_client_read(zkl_client *client, short revents)
{
    zkl_engine_process(client->engine, zkl_clock(), revents);
    if (client->socket.singles > 0) {
        client->socket.singles--;
        return;
    }
    for (int32_t packets = 1; packets < MOST_PACKETS && zkl_engine_may_read_on(client->engine); packets++) {
        zkl_poll wanted;
        prepare(client, &wanted, false);
        if (!zkl_engine_may_read_on(client->engine)) {
            return; /* the connection was lost meanwhile */
        }
        if (!zkl_engine_process(client->engine, zkl_clock(), POLLIN) && packets == 1) {
            client->socket.singles = LEFT_OUT;
        }
    }
}

bool zkl_client_turn(zkl_client *client, zkl_poll *wanted, bool by_caller)
{
    zkl_handles_run(&client->desk);
    zkl_handles_expire(&client->desk);
    uncork(client); /* at once: what follows takes no longer than the server needs */
    if (!zkl_engine_may_call(client->engine)) {
        zkl_client_publish(client, by_caller); /* closing a session, in the next call, may take long */
        if (by_caller) {
            return false;
        }
    }
    prepare(client, wanted, by_caller);
    if (client->tls_link != NULL) {
        zkl_tls_link_flush_rest(client->tls_link);
    }
    zkl_client_end_turn(client, by_caller);
    int64_t expire_at = zkl_handles_expire_at(&client->desk);
    wanted->wake_at = expire_at < wanted->wake_at ? expire_at : wanted->wake_at;
    return true;
}
