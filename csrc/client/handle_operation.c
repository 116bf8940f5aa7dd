/*
 * handle operation: handles of the program's own reads and writes, and of their watches; of flushes, and of timers.
 *
 * One handle serves an operation from its request to the end of its watch. It is settled when the operation is answered, and gets
 * another notification when the watch fires. The engine's side keeps it until its owner drops it.
 */
#include "base/base.h"
#include "client_object.h"
#include "handle_request.h"
#include "handles.h"

/* --- the engine's side --------------------------------------------------------------------------------------------- */

static void on_operation_done(void *user, zkl_code code, const char *message, zkl_operation_result *result,
                              int32_t failed_part)
{
    zkl_handle *handle = user;
    pthread_mutex_lock(&handle->desk->mutex);
    handle->question->result = result;
    handle->question->failed_part = failed_part;
    zkl_handle_answer(handle, code, message);
    pthread_mutex_unlock(&handle->desk->mutex);
}

static void on_fired(void *user, zkl_node_event event, zkl_code code)
{
    zkl_handle *handle = user;
    pthread_mutex_lock(&handle->desk->mutex);
    handle->question->event = event;
    handle->question->watch_code = code;
    zkl_handle_notify(handle);
    pthread_mutex_unlock(&handle->desk->mutex);
}

static const zkl_operation_host host = {.done = on_operation_done, .fired = on_fired};

static void run_operation(zkl_handle *handle, unsigned todo, int64_t now)
{
    zkl_question *question = handle->question;
    if ((todo & TODO_START) != 0) {
        question->operation = question->request;
        question->request = NULL;
        zkl_engine_operate(zkl_client_of(handle->desk)->engine, question->operation, &host, handle, now);
    }
    if ((todo & TODO_END) != 0) {
        zkl_operation_cancel(question->operation, now);
    }
    if ((todo & TODO_FORGET) != 0) {
        zkl_operation_forget(question->operation, now);
        question->operation = NULL;
        zkl_handles_let_go(handle);
    }
}

static void free_operation_handle(zkl_handle *handle)
{
    if (handle->question->request != NULL) {
        zkl_operation_forget(handle->question->request, 0);
    }
    zkl_operation_result_free(handle->question->result);
}

static const zkl_handle_kind operation_kind = {
    .run = run_operation, .free = free_operation_handle, .closed_code = ZKL_CLOSED, .kept = true};

/* --- the owner's side ---------------------------------------------------------------------------------------------- */

zkl_handle *zkl_client_operate(zkl_client *client, const zkl_operation_request *request)
{
    zkl_handle *handle = zkl_handle_new_question(&client->desk, &operation_kind);
    if (handle == NULL) {
        return NULL;
    }
    handle->question->failed_part = -1;
    handle->question->request = zkl_operation_new(request);
    if (handle->question->request == NULL) {
        zkl_handle_drop(handle);
        return NULL;
    }
    return zkl_handle_submit(handle, 0);
}

const zkl_operation_result *zkl_handle_operation_result(const zkl_handle *handle)
{
    return handle->question->result;
}

void zkl_handle_drop_result(zkl_handle *handle)
{
    zkl_operation_result_free(handle->question->result);
    handle->question->result = NULL;
}

int32_t zkl_handle_failed_part(const zkl_handle *handle)
{
    return handle->question->failed_part;
}

zkl_node_event zkl_handle_event(zkl_handle *handle, zkl_code *code)
{
    zkl_client *client = zkl_client_of(handle->desk);
    pthread_mutex_lock(&client->desk.mutex);
    zkl_node_event event = handle->question->event;
    *code = event == ZKL_EVENT_NONE && zkl_life_ended(&client->desk.life) ? ZKL_CLOSED : handle->question->watch_code;
    pthread_mutex_unlock(&client->desk.mutex);
    return event;
}

/* --- flushes and timers -------------------------------------------------------------------------------------------- */

static zkl_handle *begin_question(zkl_client *client, const zkl_handle_kind *kind)
{
    zkl_handle *handle = zkl_handle_new_question(&client->desk, kind);
    return handle != NULL ? zkl_handle_submit(handle, 0) : NULL;
}

static void run_flush(zkl_handle *handle, unsigned todo, int64_t now)
{
    (void)now;
    if ((todo & TODO_START) != 0) {
        TAILQ_INSERT_TAIL(&handle->desk->flushes, handle, ending); /* zkl_handles_finish_flushes answers it */
    }
}

zkl_handle *zkl_client_flush(zkl_client *client)
{
    static const zkl_handle_kind flush_kind = {.run = run_flush, .closed_code = ZKL_OK};
    return begin_question(client, &flush_kind);
}

static void run_timer(zkl_handle *handle, unsigned todo, int64_t now)
{
    (void)now;
    if ((todo & TODO_FORGET) != 0) {
        zkl_handles_let_go(handle);
    }
}

zkl_handle *zkl_client_timer(zkl_client *client)
{
    static const zkl_handle_kind timer_kind = {.run = run_timer, .closed_code = ZKL_CLOSED, .kept = true};
    return begin_question(client, &timer_kind);
}
