/* handle request: the owner's side of handles. */
#include "handle_request.h"

#include "handles.h"
#include "poll_owner.h"

zkl_handle *zkl_handle_submit(zkl_handle *handle, int64_t block_for)
{
    zkl_client *client = zkl_client_of(handle->desk);
    pthread_mutex_lock(&client->desk.mutex);
    handle->id = ++client->desk.last_id;
    if (zkl_life_ended(&client->desk.life)) {
        zkl_handle_refuse(handle, ZKL_CLOSED, "the client is closed");
    } else {
        zkl_handles_ask(handle, TODO_START);
    }
    pthread_mutex_unlock(&client->desk.mutex);
    zkl_client_serve(client, handle, block_for);
    return handle;
}

void zkl_handle_ask(zkl_handle *handle, unsigned todo, bool quietly, int64_t block_for)
{
    zkl_client *client = zkl_client_of(handle->desk);
    pthread_mutex_lock(&client->desk.mutex);
    if (!zkl_life_ended(&client->desk.life)) {
        zkl_handles_ask(handle, todo);
    }
    pthread_mutex_unlock(&client->desk.mutex);
    zkl_client_serve(client, quietly ? handle : NULL, block_for);
}

void zkl_handle_limit(zkl_handle *handle, int64_t nanoseconds)
{
    zkl_client *client = zkl_client_of(handle->desk);
    if (zkl_client_forked(client)) {
        return;
    }
    int64_t deadline = zkl_clock() + nanoseconds;
    pthread_mutex_lock(&client->desk.mutex);
    if (!zkl_life_ended(&client->desk.life)) {
        if ((handle->todo & TODO_LIMIT) == 0 || deadline < handle->wanted_deadline) {
            handle->wanted_deadline = deadline;
        }
        zkl_handles_ask(handle, TODO_LIMIT);
    }
    pthread_mutex_unlock(&client->desk.mutex);
    zkl_client_serve(client, NULL, 0);
}

void zkl_handle_call_owner(zkl_handle *handle)
{
    zkl_client *client = zkl_client_of(handle->desk);
    if (zkl_client_forked(client)) {
        return;
    }
    pthread_mutex_lock(&client->desk.mutex);
    zkl_handle_notify(handle);
    pthread_mutex_unlock(&client->desk.mutex);
    zkl_client_serve(client, NULL, 0); /* whichever thread ends the next turn writes the byte */
}

void zkl_handle_release(zkl_handle *handle)
{
    zkl_group_remove(handle);
    if (zkl_client_forked(zkl_client_of(handle->desk))) {
        return;
    }
    if (handle->kind->kept && !zkl_handle_has_reached(handle, ZKL_HANDLE_GONE)) {
        zkl_handle_ask(handle, TODO_FORGET, true, 0);
    }
    zkl_handle_drop(handle);
}

void zkl_handle_end(zkl_handle *handle, int64_t block_for)
{
    zkl_group_remove(handle);
    if (!zkl_client_forked(zkl_client_of(handle->desk))) {
        zkl_handle_ask(handle, TODO_END, true, block_for);
    }
}

/* --- groups -------------------------------------------------------------------------------------------------------- */

void zkl_group_add(struct zkl_handle_group *group, zkl_handle *handle)
{
    zkl_group_remove(handle);
    LIST_INSERT_HEAD(group, handle, in_group);
    handle->grouped = true;
}

void zkl_group_remove(zkl_handle *handle)
{
    if (handle->grouped) {
        LIST_REMOVE(handle, in_group);
        handle->grouped = false;
    }
}

void zkl_group_end(struct zkl_handle_group *group)
{
    zkl_handle *handle;
    while ((handle = LIST_FIRST(group)) != NULL) {
        zkl_group_remove(handle);
        if (!zkl_client_forked(zkl_client_of(handle->desk))) {
            zkl_handle_ask(handle, TODO_END, false, 0);
        }
    }
}
