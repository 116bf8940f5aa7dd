/* handle: references, results, and what a handle's owner reads. */
#include "handle.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"

/* --- references ---------------------------------------------------------------------------------------------------- */

zkl_handle *zkl_handle_new(zkl_desk *desk, const zkl_handle_kind *kind)
{
    zkl_handle *handle = zkl_alloc(sizeof *handle);
    if (handle != NULL) {
        atomic_store_explicit(&handle->references, 1, memory_order_relaxed);
        atomic_fetch_add(&desk->life.references, 1);
        handle->desk = desk;
        handle->kind = kind;
    }
    return handle;
}

zkl_handle *zkl_handle_new_question(zkl_desk *desk, const zkl_handle_kind *kind)
{
    zkl_question *question = zkl_alloc(sizeof *question);
    zkl_handle *handle = question != NULL ? zkl_handle_new(desk, kind) : NULL;
    if (handle == NULL) {
        zkl_free(question);
        return NULL;
    }
    handle->question = question;
    return handle;
}

void zkl_handle_drop(zkl_handle *handle)
{
    if (atomic_fetch_sub(&handle->references, 1) > 1) {
        return;
    }
    zkl_desk *desk = handle->desk;
    if (handle->kind->free != NULL) {
        handle->kind->free(handle);
    }
    zkl_free(handle->question);
    if (handle->writer != NULL) {
        zkl_handle_drop(handle->writer);
    }
    zkl_lock_spec_drop(handle->spec);
    zkl_free(handle->message);
    zkl_free(handle->node);
    zkl_free(handle->ahead);
    zkl_free(handle->nodes);
    zkl_free(handle);
    zkl_desk_drop(desk);
}

uint64_t zkl_handle_id(const zkl_handle *handle)
{
    return handle->id;
}

zkl_client *zkl_handle_client(const zkl_handle *handle)
{
    return (zkl_client *)handle->desk;
}

const char *zkl_handle_path(const zkl_handle *handle)
{
    return zkl_lock_spec_settings(handle->spec)->path;
}

/* --- results ------------------------------------------------------------------------------------------------------- */

void zkl_handle_notify(zkl_handle *handle)
{
    zkl_desk *desk = handle->desk;
    if (handle == desk->quiet) {
        return;
    }
    zkl_notifications_due(&desk->notifications);
    if (!desk->life.released && !handle->has_notification) {
        handle->has_notification = true;
        TAILQ_INSERT_TAIL(&desk->notified, handle, in_notifications);
        atomic_fetch_add(&handle->references, 1);
    }
}

uint64_t zkl_client_next(zkl_client *client, bool *changed)
{
    zkl_desk *desk = zkl_desk_of(client);
    pthread_mutex_lock(&desk->mutex);
    zkl_handle *handle = TAILQ_FIRST(&desk->notified);
    *changed = false;
    if (handle != NULL) {
        TAILQ_REMOVE(&desk->notified, handle, in_notifications);
        handle->has_notification = false;
    } else {
        *changed = zkl_notifications_read(&desk->notifications);
    }
    pthread_mutex_unlock(&desk->mutex);
    if (handle == NULL) {
        return 0;
    }
    uint64_t id = handle->id;
    zkl_handle_drop(handle);
    return id;
}

void zkl_handle_answer(zkl_handle *handle, zkl_code code, const char *message)
{
    handle->code = (int16_t)code;
    if (message[0] != '\0' && handle->message == NULL) {
        handle->message = zkl_copy(message, strlen(message));
    }
    atomic_store_explicit(&handle->settled, true, memory_order_release);
    zkl_handle_notify(handle);
}

void zkl_handle_refuse(zkl_handle *handle, zkl_code code, const char *message)
{
    atomic_store_explicit(&handle->phase, ZKL_ACQUISITION_REFUSED, memory_order_release);
    zkl_handle_answer(handle, code, message);
}

/* --- what its owner reads ------------------------------------------------------------------------------------------ */

/* desk.mutex held. Without an I/O thread no result can come any more. */
static bool is_settled(const zkl_handle *handle)
{
    return handle->settled || zkl_life_ended(&handle->desk->life);
}

bool zkl_handle_waits(const zkl_handle *handle)
{
    return atomic_load_explicit(&handle->phase, memory_order_acquire) == ZKL_ACQUISITION_WAITING;
}

bool zkl_handle_decided(const zkl_handle *handle)
{
    if (handle->question == NULL && !zkl_handle_has_reached(handle, ZKL_HANDLE_ENDED)) {
        return !zkl_handle_waits(handle);
    }
    return atomic_load_explicit(&handle->settled, memory_order_relaxed) || handle->code != ZKL_OK;
}

bool zkl_handle_finished(zkl_handle *handle)
{
    pthread_mutex_lock(&handle->desk->mutex);
    bool finished = is_settled(handle) || handle->code != ZKL_OK;
    pthread_mutex_unlock(&handle->desk->mutex);
    return finished;
}

bool zkl_handle_settled(zkl_handle *handle)
{
    if (atomic_load_explicit(&handle->settled, memory_order_acquire)) {
        return true;
    }
    zkl_desk *desk = handle->desk;
    pthread_mutex_lock(&desk->mutex);
    bool settled = is_settled(handle);
    pthread_mutex_unlock(&desk->mutex);
    return settled;
}

bool zkl_handle_released(zkl_handle *handle)
{
    /* The code is written before `settled`, and not after. */
    return zkl_handle_settled(handle) && handle->code != ZKL_LOST;
}

/* desk.mutex held. Says what a waiting acquisition waits for. */
static void describe_wait(const zkl_handle *handle, char *message)
{
    const zkl_lock *lock = zkl_lock_spec_settings(handle->spec);
    if (handle->sharing) {
        snprintf(message, ZKL_MESSAGE_SIZE, "another acquisition of this client is ahead");
    } else if (handle->ahead != NULL) {
        snprintf(message, ZKL_MESSAGE_SIZE, "'%s' is ahead", handle->ahead);
    } else if (handle->node != NULL && lock->mode == ZKL_MODE_PERMITS) {
        snprintf(message, ZKL_MESSAGE_SIZE, "it has not %d of its %d permits left", (int)handle->count,
                 (int)lock->permits);
    }
}

static void copy_node(char *copy, const char *name)
{
    size_t length = name != NULL ? strnlen(name, ZKL_NODE_NAME_SIZE - 1) : 0;
    if (length > 0) {
        memcpy(copy, name, length);
    }
    copy[length] = '\0';
}

void zkl_handle_look(zkl_handle *handle, zkl_handle_view *view)
{
    zkl_desk *desk = handle->desk;
    pthread_mutex_lock(&desk->mutex);
    view->phase = (zkl_acquisition_phase)atomic_load_explicit(&handle->phase, memory_order_relaxed);
    view->settled = is_settled(handle);
    bool unanswered = handle->question != NULL && view->settled && !handle->settled;
    view->code = unanswered ? handle->kind->closed_code : (zkl_code)handle->code;
    view->revocations = handle->revocations;
    view->token = handle->token;
    copy_node(view->node, handle->node);
    view->message[0] = '\0';
    if (handle->message != NULL) {
        snprintf(view->message, sizeof view->message, "%s", handle->message);
    } else if (view->code != ZKL_OK) {
        snprintf(view->message, sizeof view->message, "%s", unanswered ? "the client is closed" : ZKL_UNSAID);
    } else if (handle->spec != NULL && view->phase == ZKL_ACQUISITION_WAITING) {
        describe_wait(handle, view->message);
    }
    pthread_mutex_unlock(&desk->mutex);
    if (view->phase == ZKL_ACQUISITION_GRANTED && atomic_load(&handle->lapsed)) {
        /* Found here before the I/O thread has found it. */
        bool held_long = atomic_load_explicit(&handle->hold_until, memory_order_relaxed) <= zkl_clock();
        view->phase = ZKL_ACQUISITION_LOST;
        view->code = held_long ? ZKL_MAX_HOLD : ZKL_LOST;
        snprintf(view->message, sizeof view->message, "'%.400s' is lost: its %s", zkl_handle_path(handle),
                 held_long ? "max_hold is over" : "lease ran out");
    }
}
