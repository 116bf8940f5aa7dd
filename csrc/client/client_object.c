/* client object: a client, made of the parts that the other files own. */
#include "client_object.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

static void free_client(zkl_client *client)
{
    zkl_pipe_close(&client->wake.pipe);
    zkl_pipe_close(&client->notifications.pipe);
    zkl_alarm_close(&client->poll_owner.alarm);
    zkl_notify_socket_close(&client->notifications.socket);
    zkl_log_close(&client->log);
    zkl_tls_link_free(client->tls_link);
    zkl_connector_free(client->connector);
    zkl_life_free(&client->life);
    pthread_mutex_destroy(&client->mutex);
    pthread_mutex_destroy(&client->engine_mutex);
    zkl_free(client);
}

void zkl_client_drop(zkl_client *client)
{
    if (atomic_fetch_sub(&client->life.references, 1) == 1) {
        free_client(client);
    }
}

zkl_client *zkl_client_new(const zkl_client_options *options, char *message)
{
    snprintf(message, ZKL_MESSAGE_SIZE, "not enough memory for a client"); /* unless another message is written below */
    zkl_client *client = zkl_alloc(sizeof *client);
    if (client == NULL) {
        return NULL;
    }
    pthread_mutex_init(&client->mutex, NULL);
    pthread_mutex_init(&client->engine_mutex, NULL);
    zkl_life_begin(&client->life);
    zkl_alarm_open(&client->poll_owner.alarm);
    client->socket.fd = -1;
    client->wake.pipe = client->notifications.pipe = ZKL_NO_PIPE;
    zkl_handles_init(&client->handles);
    TAILQ_INIT(&client->notifications.list);
    zkl_notify_socket_init(&client->notifications.socket);
    zkl_published_init(&client->published, options->lease);
    if (!zkl_log_open(&client->log, options->log)) {
        goto fail;
    }
    if (!zkl_pipe_open(&client->wake.pipe) || !zkl_pipe_open(&client->notifications.pipe)) {
        snprintf(message, ZKL_MESSAGE_SIZE, "cannot make a pipe: %s", strerror(errno));
        goto fail;
    }
    return client;
fail:
    free_client(client);
    return NULL;
}

bool zkl_client_forked(const zkl_client *client)
{
    return client->life.forks != zkl_registry_forks();
}
