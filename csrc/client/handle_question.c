/* handle question: handles of questions, and of flushes. */
#include <string.h>

#include "base/base.h"
#include "client_object.h"
#include "handle_request.h"

/* --- questions for the contenders ---------------------------------------------------------------------------------- */

static bool copy_contenders(zkl_question *question, const zkl_contender *contenders, int32_t count)
{
    if (count == 0) {
        return true;
    }
    question->contenders = zkl_alloc((size_t)count * sizeof *contenders);
    if (question->contenders == NULL) {
        return false;
    }
    for (int32_t i = 0; i < count; i++) {
        zkl_contender *copy = &question->contenders[question->contender_count++];
        *copy = contenders[i];
        copy->node = zkl_copy(contenders[i].node, strlen(contenders[i].node));
        copy->identity = zkl_copy(contenders[i].identity, (size_t)contenders[i].identity_length);
        if (copy->node == NULL || copy->identity == NULL) {
            return false;
        }
    }
    return true;
}

static void free_contenders(zkl_handle *handle)
{
    zkl_question *question = handle->question;
    for (int32_t i = 0; i < question->contender_count; i++) {
        zkl_free((void *)(uintptr_t)question->contenders[i].node);
        zkl_free((void *)(uintptr_t)question->contenders[i].identity);
    }
    zkl_free(question->contenders);
}

static void on_contenders(void *user, zkl_code code, const char *message, const zkl_contender *contenders,
                          int32_t count)
{
    zkl_handle *handle = user;
    zkl_client *client = handle->client;
    if (code == ZKL_OK && !copy_contenders(handle->question, contenders, count)) {
        code = ZKL_FAILED;
        message = "not enough memory to list the contenders";
    }
    pthread_mutex_lock(&client->mutex);
    zkl_handle_answer(handle, code, message);
    pthread_mutex_unlock(&client->mutex);
    zkl_handles_let_go(handle);
}

static void run_contenders(zkl_handle *handle, unsigned todo, int64_t now)
{
    zkl_client *client = handle->client;
    const zkl_question *question = handle->question;
    if ((todo & TODO_START) == 0 ||
        zkl_engine_contenders(client->engine, question->path, question->identities, on_contenders, handle, now)) {
        return;
    }
    pthread_mutex_lock(&client->mutex);
    zkl_handle_refuse(handle, ZKL_FAILED, "not enough memory to list the contenders");
    pthread_mutex_unlock(&client->mutex);
    zkl_handles_let_go(handle);
}

static const zkl_handle_kind contenders_kind = {
    .run = run_contenders, .free = free_contenders, .closed_code = ZKL_CLOSED};

zkl_handle *zkl_client_contenders(zkl_client *client, const char *path, bool identities)
{
    zkl_handle *handle = zkl_handle_new_question(client, &contenders_kind, path);
    if (handle == NULL) {
        return NULL;
    }
    handle->question->identities = identities;
    return zkl_handle_submit(handle, 0);
}

const zkl_contender *zkl_handle_contenders(const zkl_handle *handle, int32_t *count)
{
    *count = handle->question->contender_count;
    return handle->question->contenders;
}

/* --- flushes ------------------------------------------------------------------------------------------------------- */

static void run_flush(zkl_handle *handle, unsigned todo, int64_t now)
{
    (void)now;
    if ((todo & TODO_START) != 0) {
        TAILQ_INSERT_TAIL(&handle->client->handles.flushes, handle, ending); /* zkl_handles_finish_flushes answers it */
    }
}

static const zkl_handle_kind flush_kind = {.run = run_flush, .closed_code = ZKL_OK};

zkl_handle *zkl_client_flush(zkl_client *client)
{
    zkl_handle *handle = zkl_handle_new_question(client, &flush_kind, "");
    return handle != NULL ? zkl_handle_submit(handle, 0) : NULL;
}
