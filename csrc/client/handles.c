/* handles: the engine's side of a client's handles. */
#include "handles.h"

void zkl_handles_ask(zkl_handle *handle, unsigned todo)
{
    if (handle->todo == 0) {
        TAILQ_INSERT_TAIL(&handle->desk->todo, handle, in_todo);
        atomic_store(&handle->desk->asked, true);
        atomic_fetch_add(&handle->references, 1);
    }
    handle->todo = (uint8_t)(handle->todo | todo);
}

/* --- deadlines ----------------------------------------------------------------------------------------------------- */

static void unlimit(zkl_handle *handle)
{
    if (handle->deadline != 0) {
        TAILQ_REMOVE(&handle->desk->limited, handle, limited);
        handle->deadline = 0;
    }
}

/* Gives a handle a deadline, unless it has an earlier one. */
static void limit_handle(zkl_handle *handle, int64_t deadline)
{
    struct zkl_handle_list *list = &handle->desk->limited;
    if (zkl_handle_has_reached(handle, ZKL_HANDLE_GONE) || (handle->deadline != 0 && handle->deadline <= deadline)) {
        return;
    }
    unlimit(handle);
    handle->deadline = deadline;
    ZKL_INSERT_SORTED(list, zkl_handle_list, handle, deadline, limited);
}

int64_t zkl_handles_expire_at(const zkl_desk *desk)
{
    const zkl_handle *first = TAILQ_FIRST(&desk->limited);
    return first != NULL ? first->deadline : ZKL_NEVER;
}

void zkl_handles_expire(zkl_desk *desk)
{
    zkl_handle *handle;
    while ((handle = TAILQ_FIRST(&desk->limited)) != NULL && handle->deadline <= zkl_clock()) {
        unlimit(handle);
        if (handle->kind->expire != NULL) {
            handle->kind->expire(handle, zkl_clock());
        } else {
            pthread_mutex_lock(&desk->mutex);
            zkl_handle_notify(handle);
            pthread_mutex_unlock(&desk->mutex);
        }
    }
}

/* --- requests ------------------------------------------------------------------------------------------------------ */

/* engine_mutex and desk->mutex held, a handle has a request. Takes the next one from the list, with the list's reference. */
static zkl_handle *take_asked(zkl_desk *desk, unsigned *todo, int64_t *deadline)
{
    zkl_handle *handle = TAILQ_FIRST(&desk->todo);
    TAILQ_REMOVE(&desk->todo, handle, in_todo);
    atomic_store(&desk->asked, !TAILQ_EMPTY(&desk->todo));
    *todo = handle->todo;
    *deadline = handle->wanted_deadline;
    handle->todo = 0;
    return handle;
}

static void begin_handle(zkl_handle *handle)
{
    atomic_store(&handle->life, ZKL_HANDLE_BEGUN);
    TAILQ_INSERT_TAIL(&handle->desk->all, handle, all);
    atomic_fetch_add(&handle->references, 1);
}

void zkl_handles_run(zkl_desk *desk)
{
    while (atomic_load(&desk->asked)) {
        unsigned todo;
        int64_t deadline;
        pthread_mutex_lock(&desk->mutex);
        zkl_handle *handle = take_asked(desk, &todo, &deadline);
        pthread_mutex_unlock(&desk->mutex);
        if ((todo & TODO_START) != 0) {
            begin_handle(handle);
        }
        handle->kind->run(handle, todo, zkl_clock());
        if ((todo & TODO_LIMIT) != 0) {
            limit_handle(handle, deadline);
        }
        zkl_handle_drop(handle); /* the list's reference */
        zkl_handles_reap(desk);
    }
}

void zkl_handles_let_go(zkl_handle *handle)
{
    unlimit(handle);
    TAILQ_REMOVE(&handle->desk->all, handle, all);
    atomic_store(&handle->life, ZKL_HANDLE_GONE);
    zkl_handle_drop(handle);
}

void zkl_handles_die(zkl_handle *handle)
{
    if (!zkl_handle_has_reached(handle, ZKL_HANDLE_DYING)) {
        atomic_store(&handle->life, ZKL_HANDLE_DYING);
        TAILQ_INSERT_TAIL(&handle->desk->dying, handle, ending);
    }
}

void zkl_handle_reap(zkl_handle *handle)
{
    TAILQ_REMOVE(&handle->desk->dying, handle, ending);
    zkl_acquisition_forget(handle->acquisition, zkl_clock());
    handle->acquisition = NULL;
    zkl_handles_let_go(handle);
}

void zkl_handles_finish_flushes(zkl_desk *desk)
{
    zkl_handle *handle;
    while ((handle = TAILQ_FIRST(&desk->flushes)) != NULL) {
        TAILQ_REMOVE(&desk->flushes, handle, ending);
        pthread_mutex_lock(&desk->mutex);
        zkl_handle_answer(handle, ZKL_OK, "");
        pthread_mutex_unlock(&desk->mutex);
        zkl_handles_let_go(handle);
    }
}

void zkl_handles_abandon(zkl_desk *desk)
{
    zkl_handle *handle;
    unsigned todo;
    int64_t deadline;
    pthread_mutex_lock(&desk->mutex);
    zkl_life_enter(&desk->life, ZKL_LIFE_ENDED);
    atomic_store(&desk->open, 0); /* they get no notifications any more */
    while (atomic_load(&desk->asked)) {
        handle = take_asked(desk, &todo, &deadline);
        if ((todo & TODO_START) != 0) {
            zkl_handle_refuse(handle, ZKL_CLOSED, "the client is closed");
        }
        pthread_mutex_unlock(&desk->mutex);
        zkl_handle_drop(handle);
        pthread_mutex_lock(&desk->mutex);
    }
    while ((handle = TAILQ_FIRST(&desk->all)) != NULL) {
        if (handle->kind->closed_code == ZKL_OK) {
            zkl_handle_answer(handle, ZKL_OK, ""); /* a flush: the session is over, and its nodes with it */
        }
        pthread_mutex_unlock(&desk->mutex);
        zkl_handles_let_go(handle);
        pthread_mutex_lock(&desk->mutex);
    }
    pthread_mutex_unlock(&desk->mutex);
}
