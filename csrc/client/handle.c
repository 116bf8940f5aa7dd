/* handle: references, results, and what a handle's owner reads; the engine's side of a client's handles. */
#include "handle.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"

/* --- references ---------------------------------------------------------------------------------------------------- */

zkl_handle *zkl_handle_new(zkl_desk *desk, const zkl_handle_kind *kind, bool is_question)
{
    zkl_handle *handle = zkl_alloc(sizeof *handle);
    zkl_question *question = is_question ? zkl_alloc(sizeof *question) : NULL;
    if (handle == NULL || (is_question && question == NULL)) {
        zkl_free(question);
        zkl_free(handle);
        return NULL;
    }
    atomic_store_explicit(&handle->references, 1, memory_order_relaxed);
    atomic_fetch_add(&desk->life.references, 1);
    handle->desk = desk;
    handle->kind = kind;
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
    zkl_lock_spec_drop(handle->request.spec);
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
    return zkl_lock_spec_settings(handle->request.spec)->path;
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
    const zkl_lock *lock = zkl_lock_spec_settings(handle->request.spec);
    if (handle->sharing) {
        snprintf(message, ZKL_MESSAGE_SIZE, "another acquisition of this client is ahead");
    } else if (handle->ahead != NULL) {
        snprintf(message, ZKL_MESSAGE_SIZE, "'%s' is ahead", handle->ahead);
    } else if (handle->node != NULL && lock->mode == ZKL_MODE_PERMITS) {
        snprintf(message, ZKL_MESSAGE_SIZE, "it has not %d of its %d permits left", (int)handle->request.count,
                 (int)lock->permits);
    }
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
    snprintf(view->node, sizeof view->node, "%s", handle->node != NULL ? handle->node : "");
    view->message[0] = '\0';
    if (handle->message != NULL) {
        snprintf(view->message, sizeof view->message, "%s", handle->message);
    } else if (view->code != ZKL_OK) {
        snprintf(view->message, sizeof view->message, "%s", unanswered ? "the client is closed" : ZKL_UNSAID);
    } else if (handle->request.spec != NULL && view->phase == ZKL_ACQUISITION_WAITING) {
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

/* --- the engine's side ---------------------------------------------------------------------------------------------- */

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
