/* wake: wakes the I/O thread out of its sleep. */
#include "wake.h"

#include <poll.h>

#include "client_object.h"

void zkl_client_unlock_and_wake(zkl_client *client)
{
    bool write_it = !client->wake.woken && !zkl_life_ended(&client->life);
    client->wake.woken = client->wake.woken || write_it;
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

/*
 * A thread that has claimed the byte writes it without the mutex. If the pipe were closed meanwhile, the byte would go to whatever
 * has got the descriptor's number. `woken` is true from the claim until the byte was read, and no thread claims it once the client
 * has ENDED: so at most one thread is about to write, and it is done when its byte has come.
 */
void zkl_client_end_wakes(zkl_client *client)
{
    struct pollfd byte = {.fd = client->wake.pipe.ends[0], .events = POLLIN};
    while (client->wake.woken && poll(&byte, 1, -1) < 0) {
    }
    zkl_pipe_drain(&client->wake.pipe);
    zkl_pipe_close(&client->wake.pipe);
}

void zkl_client_awake(zkl_client *client)
{
    zkl_pipe_drain(&client->wake.pipe);
    pthread_mutex_lock(&client->mutex);
    client->wake.woken = false;
    pthread_mutex_unlock(&client->mutex);
}
