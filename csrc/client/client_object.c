/* client object: a client, made of the parts that the other files own. */
#include "client_object.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

static void free_client(zkl_desk *desk)
{
    zkl_client *client = zkl_client_of(desk);
    zkl_alarm_close(&client->poll_owner.alarm);
    zkl_log_close(&client->log);
    zkl_tls_link_free(client->tls_link);
    zkl_connector_free(client->connector);
    zkl_desk_free(desk);
    pthread_mutex_destroy(&client->engine_mutex);
    zkl_free(client);
}

zkl_client *zkl_client_new(const zkl_client_options *options, char *message)
{
    snprintf(message, ZKL_MESSAGE_SIZE, "not enough memory for a client"); /* unless another message is written below */
    zkl_client *client = zkl_alloc(sizeof *client);
    if (client == NULL) {
        return NULL;
    }
    pthread_mutex_init(&client->engine_mutex, NULL);
    zkl_alarm_open(&client->poll_owner.alarm);
    client->socket.fd = -1;
    client->published.waiting_since = ZKL_NEVER;
    atomic_store(&client->published.lease_until, options->lease ? 0 : ZKL_NEVER);
    bool able = zkl_desk_init(&client->desk, free_client);
    if (!able) {
        snprintf(message, ZKL_MESSAGE_SIZE, "cannot make a pipe: %s", strerror(errno));
    }
    if (!able || !zkl_log_open(&client->log, &client->desk, options->log)) {
        free_client(&client->desk);
        return NULL;
    }
    return client;
}
