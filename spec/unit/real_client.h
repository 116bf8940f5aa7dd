/*
 * real_client: helpers of C tests for a client. To be included after real_server.h, by one file of a program that defines
 * `wait_for_notification(client)` and PATIENCE.
 */
#ifndef ZKLOCK_REAL_CLIENT_H
#define ZKLOCK_REAL_CLIENT_H

static void wait_for_state(zkl_client *client, zkl_state wanted)
{
    char problem[ZKL_MESSAGE_SIZE];
    zkl_code code;
    for (int64_t until = zkl_clock() + PATIENCE; zkl_client_state(client, problem, &code) != wanted;) {
        assert_true(zkl_clock() < until);
        wait_for_notification(client);
    }
}

static void close_client(zkl_client *client)
{
    zkl_client_close(client);
    wait_for_state(client, ZKL_STATE_CLOSED);
    zkl_client_join(client);
    zkl_client_release(client);
}

#endif
