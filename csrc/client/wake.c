/* wake: wakes the I/O thread out of its sleep. */
#include "wake.h"

#include "client_object.h"

void zkl_client_unlock_and_wake(zkl_client *client)
{
    bool write_it = !client->wake.woken && !zkl_life_ended(&client->life);
    client->wake.woken = true;
    pthread_mutex_unlock(&client->mutex);
    if (write_it) {
        zkl_pipe_write(&client->wake.pipe);
    }
}

void zkl_client_wake(zkl_client *client)
{
    pthread_mutex_lock(&client->mutex);
    zkl_client_unlock_and_wake(client);
}

void zkl_client_awake(zkl_client *client)
{
    zkl_pipe_drain(&client->wake.pipe);
    pthread_mutex_lock(&client->mutex);
    client->wake.woken = false;
    pthread_mutex_unlock(&client->mutex);
}
