/* handle question: handles of flushes, and of timers. */
#include "base/base.h"
#include "client_object.h"
#include "handle_request.h"

static zkl_handle *begin(zkl_client *client, const zkl_handle_kind *kind)
{
    zkl_handle *handle = zkl_handle_new_question(client, kind);
    return handle != NULL ? zkl_handle_submit(handle, 0) : NULL;
}

static void run_flush(zkl_handle *handle, unsigned todo, int64_t now)
{
    (void)now;
    if ((todo & TODO_START) != 0) {
        TAILQ_INSERT_TAIL(&handle->client->handles.flushes, handle, ending); /* zkl_handles_finish_flushes answers it */
    }
}

zkl_handle *zkl_client_flush(zkl_client *client)
{
    static const zkl_handle_kind kind = {.run = run_flush, .closed_code = ZKL_OK};
    return begin(client, &kind);
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
    static const zkl_handle_kind kind = {.run = run_timer, .closed_code = ZKL_CLOSED, .kept = true};
    return begin(client, &kind);
}
