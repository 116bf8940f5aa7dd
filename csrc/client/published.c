/* published: what callers may read of a client without engine_mutex. */
#include "published.h"

#include <stdio.h>
#include <string.h>

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
    int32_t in_flight = zkl_engine_in_flight(client->engine);
    atomic_store_explicit(&client->published.in_flight, in_flight, memory_order_relaxed);
    pthread_mutex_lock(&client->desk.mutex);
    if (in_flight == 0) {
        client->published.waiting_since = ZKL_NEVER;
    } else if (client->published.waiting_since == ZKL_NEVER) {
        client->published.waiting_since = zkl_clock();
    }
    client->published.read_at = zkl_engine_read_at(client->engine);
    client->published.stats = *zkl_engine_stats(client->engine);
    client->published.timeout_ms = zkl_engine_session_timeout(client->engine);
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

int64_t zkl_client_unanswered(zkl_client *client)
{
    pthread_mutex_lock(&client->desk.mutex);
    int64_t since = client->published.waiting_since;
    since = since < client->published.read_at ? client->published.read_at : since;
    pthread_mutex_unlock(&client->desk.mutex);
    int64_t now = zkl_clock();
    return since < now ? now - since : 0;
}

zkl_stats zkl_client_stats(zkl_client *client)
{
    pthread_mutex_lock(&client->desk.mutex);
    zkl_stats stats = client->published.stats;
    pthread_mutex_unlock(&client->desk.mutex);
    return stats;
}

int32_t zkl_client_session_timeout(zkl_client *client)
{
    pthread_mutex_lock(&client->desk.mutex);
    int32_t timeout = client->published.timeout_ms;
    pthread_mutex_unlock(&client->desk.mutex);
    return timeout;
}
