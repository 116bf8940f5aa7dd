/*
 * handle: requests of callers, and their results.
 *
 * A handle goes to the engine by the client's list (zkl_handles_run). The engine's callbacks publish the result in the handle.
 * client_private.h says which thread may touch what.
 */
#include <stdio.h>
#include <string.h>

#include "client_private.h"

/* --- reference counts ---------------------------------------------------------------------------------------------- */

/* Mutex held, thread not exited. The list gets a reference to the handle. */
static void enqueue(zkl_handle *handle, unsigned todo)
{
    if (handle->todo == 0) {
        TAILQ_INSERT_TAIL(&handle->client->todo, handle, in_todo);
        atomic_fetch_add(&handle->references, 1);
    }
    handle->todo = (uint8_t)(handle->todo | todo);
}

static void free_question(zkl_question *question)
{
    if (question != NULL) {
        zkl_free(question->path);
        zkl_free(question);
    }
}

static void drop_question(zkl_handle *handle)
{
    zkl_question *question = handle->question;
    for (int32_t i = 0; i < question->contender_count; i++) {
        zkl_free((void *)(uintptr_t)question->contenders[i].node);
        zkl_free((void *)(uintptr_t)question->contenders[i].identity);
    }
    zkl_free(question->contenders);
    zkl_handle_drop_operation(handle);
    free_question(question);
}

void zkl_handle_drop(zkl_handle *handle)
{
    if (atomic_fetch_sub(&handle->references, 1) > 1) {
        return;
    }
    zkl_client *client = handle->client;
    if (handle->question != NULL) {
        drop_question(handle);
    }
    if (handle->writer != NULL) {
        zkl_handle_drop(handle->writer);
    }
    zkl_lock_spec_drop(handle->spec);
    zkl_free(handle->message);
    zkl_free(handle->node);
    zkl_free(handle->ahead);
    zkl_free(handle->nodes);
    zkl_free(handle);
    zkl_client_drop(client);
}

/* --- callbacks of the engine --------------------------------------------------------------------------------------- */

/* engine_mutex held. Marks a handle for reaping: its acquisition is settled and its owner has ended it. */
static void die(zkl_handle *handle)
{
    if (!handle->dead) {
        handle->dead = true;
        TAILQ_INSERT_TAIL(&handle->client->dying, handle, dying);
    }
}

void zkl_handles_reap(zkl_client *client)
{
    zkl_handle *handle;
    while ((handle = TAILQ_FIRST(&client->dying)) != NULL) {
        TAILQ_REMOVE(&client->dying, handle, dying);
        zkl_acquisition_forget(handle->acquisition, zkl_clock());
        handle->acquisition = NULL;
        zkl_handle_let_go(handle);
    }
}

void zkl_handle_notify(zkl_handle *handle)
{
    zkl_client *client = handle->client;
    if (handle == client->quiet) {
        return;
    }
    client->unsignalled = true;
    if (!handle->has_notification && !client->unread) {
        handle->has_notification = true;
        TAILQ_INSERT_TAIL(&client->notifications, handle, in_notifications);
        atomic_fetch_add(&handle->references, 1);
    }
}

/* Keeps a copy of the part of a node's path that follows the lock's path; keeps nothing if there is no node. */
static void keep_name(char **kept, const zkl_handle *handle, const char *node)
{
    const char *name = node != NULL ? node + strlen(zkl_lock_spec_settings(handle->spec)->path) + 1 : NULL;
    if (name != NULL && *kept != NULL && strcmp(name, *kept) == 0) {
        return;
    }
    zkl_free(*kept);
    *kept = name != NULL ? zkl_copy(name, strlen(name)) : NULL;
}

/* Mutex held. */
static void publish_acquisition(zkl_handle *handle, const zkl_acquisition *acquisition, zkl_acquisition_phase phase)
{
    const char *message = zkl_acquisition_message(acquisition);
    if (phase == ZKL_ACQUISITION_GRANTED) {
        /* Not reset after the grant: a reader that saw the phase before would then find a hold without an end. */
        atomic_store_explicit(&handle->hold_until, zkl_acquisition_hold_until(acquisition), memory_order_relaxed);
        handle->token = zkl_acquisition_token(acquisition);
        handle->nodes = handle->nodes != NULL ? handle->nodes : zkl_acquisition_nodes(acquisition);
    }
    if (phase == ZKL_ACQUISITION_GRANTED || phase == ZKL_ACQUISITION_WAITING) {
        keep_name(&handle->node, handle, zkl_acquisition_node(acquisition));
        keep_name(&handle->ahead, handle,
                  phase == ZKL_ACQUISITION_WAITING ? zkl_acquisition_blocker(acquisition) : NULL);
    }
    if (message[0] != '\0' && handle->message == NULL) {
        handle->message = zkl_copy(message, strlen(message));
    }
    handle->sharing = zkl_acquisition_is_sharing(acquisition);
    handle->revocations = zkl_acquisition_revocations(acquisition);
    handle->code = (int16_t)zkl_acquisition_code(acquisition);
}

void zkl_handle_acquisition_changed(void *context, zkl_acquisition *acquisition)
{
    zkl_client *client = context;
    zkl_handle *handle = zkl_acquisition_user(acquisition);
    zkl_acquisition_phase phase = zkl_acquisition_get_phase(acquisition);
    bool settled = zkl_acquisition_settled(acquisition);
    pthread_mutex_lock(&client->mutex);
    /*
     * Waiting, and the node that it waits for, can be read, but cause no notification. The same holds for the start of a release,
     * which the owner began.
     */
    bool decided = (int32_t)phase != atomic_load_explicit(&handle->phase, memory_order_relaxed) &&
                   phase != ZKL_ACQUISITION_RELEASED;
    bool asked = zkl_acquisition_revocations(acquisition) != handle->revocations;
    bool notify =
        decided || asked || settled != handle->settled || zkl_acquisition_code(acquisition) != (zkl_code)handle->code;
    publish_acquisition(handle, acquisition, phase);
    atomic_store_explicit(&handle->phase, (int32_t)phase, memory_order_release);
    atomic_store_explicit(&handle->settled, settled, memory_order_release);
    if (notify) {
        zkl_handle_notify(handle);
    }
    pthread_mutex_unlock(&client->mutex);
    if (settled && handle->ended) {
        die(handle); /* not here: the engine is using the acquisition */
    }
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

static bool copy_contenders(zkl_question *handle, const zkl_contender *contenders, int32_t count)
{
    if (count == 0) {
        return true;
    }
    handle->contenders = zkl_alloc((size_t)count * sizeof *contenders);
    if (handle->contenders == NULL) {
        return false;
    }
    for (int32_t i = 0; i < count; i++) {
        zkl_contender *copy = &handle->contenders[handle->contender_count++];
        *copy = contenders[i];
        copy->node = zkl_copy(contenders[i].node, strlen(contenders[i].node));
        copy->identity = zkl_copy(contenders[i].identity, (size_t)contenders[i].identity_length);
        if (copy->node == NULL || copy->identity == NULL) {
            return false;
        }
    }
    return true;
}

void zkl_handle_let_go(zkl_handle *handle)
{
    TAILQ_REMOVE(&handle->client->handles, handle, all);
    atomic_store(&handle->over, true);
    zkl_handle_drop(handle);
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
    zkl_handle_let_go(handle);
}

/* --- requests of callers ------------------------------------------------------------------------------------------- */

static void fail_handle(zkl_handle *handle, zkl_code code, const char *message)
{
    pthread_mutex_lock(&handle->client->mutex);
    atomic_store_explicit(&handle->phase, ZKL_ACQUISITION_REFUSED, memory_order_release);
    zkl_handle_answer(handle, code, message);
    pthread_mutex_unlock(&handle->client->mutex);
}

static void start_acquisition(zkl_handle *handle, int64_t now)
{
    const zkl_acquisition_request request = {
        .spec = handle->spec,
        .writer = handle->writer != NULL ? handle->writer->acquisition : NULL,
        .count = handle->count,
        .try_only = handle->try_only,
        .optimistic = handle->optimistic,
    };
    handle->acquisition = zkl_engine_acquire(handle->client->engine, &request, handle, now);
    if (handle->acquisition == NULL) {
        fail_handle(handle, ZKL_FAILED, "not enough memory to queue for a lock");
        zkl_handle_let_go(handle);
    } else {
        atomic_fetch_add(&handle->client->open_acquisitions, 1);
    }
    if (handle->writer != NULL) {
        zkl_handle_drop(handle->writer);
        handle->writer = NULL;
    }
}

static void start(zkl_handle *handle, int64_t now)
{
    zkl_client *client = handle->client;
    TAILQ_INSERT_TAIL(&client->handles, handle, all);
    atomic_fetch_add(&handle->references, 1);
    switch (handle->kind) {
    case HANDLE_ACQUISITION:
        start_acquisition(handle, now);
        break;
    case HANDLE_FLUSH:
        TAILQ_INSERT_TAIL(&client->flushes, handle, dying);
        break;
    case HANDLE_CONTENDERS:
        if (!zkl_engine_contenders(client->engine, handle->question->path, handle->question->identities, on_contenders,
                                   handle, now)) {
            fail_handle(handle, ZKL_FAILED, "not enough memory to list the contenders");
            zkl_handle_let_go(handle);
        }
        break;
    case HANDLE_OPERATION: /* zkl_handle_operate */
        break;
    }
}

static void do_for(zkl_handle *handle, unsigned todo, int64_t now)
{
    if ((todo & TODO_START) != 0) {
        start(handle, now);
    }
    if (handle->kind == HANDLE_OPERATION) {
        zkl_handle_operate(handle, todo, now);
        return;
    }
    if (handle->acquisition != NULL && (todo & TODO_LAPSED) != 0) {
        zkl_acquisition_lapsed(handle->acquisition, now);
    }
    if (handle->acquisition != NULL && (todo & (TODO_END | TODO_FORGET)) != 0) {
        atomic_fetch_sub(&handle->client->open_acquisitions, !handle->ended);
        handle->ended = true;
        zkl_acquisition_end(handle->acquisition, ZKL_CANCELLED, now);
        if (zkl_acquisition_settled(handle->acquisition)) {
            die(handle); /* if it was settled already, the engine makes no callback */
        }
    }
}

void zkl_handles_run(zkl_client *client)
{
    pthread_mutex_lock(&client->mutex);
    zkl_handle *handle;
    while ((handle = TAILQ_FIRST(&client->todo)) != NULL) {
        TAILQ_REMOVE(&client->todo, handle, in_todo);
        unsigned todo = handle->todo;
        handle->todo = 0;
        pthread_mutex_unlock(&client->mutex);
        do_for(handle, todo, zkl_clock());
        zkl_handle_drop(handle); /* the list's */
        zkl_handles_reap(client);
        pthread_mutex_lock(&client->mutex);
    }
    pthread_mutex_unlock(&client->mutex);
}

void zkl_handles_finish_flushes(zkl_client *client)
{
    if (TAILQ_EMPTY(&client->flushes) || !zkl_engine_drained(client->engine)) {
        return;
    }
    zkl_handle *handle;
    while ((handle = TAILQ_FIRST(&client->flushes)) != NULL) {
        TAILQ_REMOVE(&client->flushes, handle, dying);
        pthread_mutex_lock(&client->mutex);
        zkl_handle_answer(handle, ZKL_OK, "");
        pthread_mutex_unlock(&client->mutex);
        zkl_handle_let_go(handle);
    }
}

void zkl_handles_abandon(zkl_client *client)
{
    zkl_handle *handle;
    pthread_mutex_lock(&client->mutex);
    client->exited = true;
    atomic_store(&client->open_acquisitions, 0); /* they get no notifications any more */
    while ((handle = TAILQ_FIRST(&client->todo)) != NULL) {
        TAILQ_REMOVE(&client->todo, handle, in_todo);
        if ((handle->todo & TODO_START) != 0) {
            atomic_store_explicit(&handle->phase, ZKL_ACQUISITION_REFUSED, memory_order_release);
            zkl_handle_answer(handle, ZKL_CLOSED, "the client is closed");
        }
        handle->todo = 0;
        pthread_mutex_unlock(&client->mutex);
        zkl_handle_drop(handle);
        pthread_mutex_lock(&client->mutex);
    }
    while ((handle = TAILQ_FIRST(&client->handles)) != NULL) {
        if (handle->kind == HANDLE_FLUSH) {
            zkl_handle_answer(handle, ZKL_OK, ""); /* the session is over, and its nodes with it */
        }
        pthread_mutex_unlock(&client->mutex);
        zkl_handle_let_go(handle);
        pthread_mutex_lock(&client->mutex);
    }
    pthread_mutex_unlock(&client->mutex);
}

/* The fields of a handle that is not an acquisition. */
static zkl_question *new_question(const char *path)
{
    zkl_question *question = zkl_alloc(sizeof *question);
    if (question != NULL && (question->path = zkl_copy(path, strlen(path))) == NULL) {
        zkl_free(question);
        question = NULL;
    }
    return question;
}

static zkl_handle *new_handle(zkl_client *client, handle_kind kind)
{
    zkl_handle *handle = zkl_alloc(sizeof *handle);
    if (handle != NULL) {
        atomic_store_explicit(&handle->references, 1, memory_order_relaxed);
        atomic_fetch_add(&client->references, 1);
        handle->client = client;
        handle->kind = kind;
    }
    return handle;
}

zkl_handle *zkl_handle_ask(zkl_client *client, handle_kind kind, const char *path)
{
    zkl_question *question = new_question(path);
    zkl_handle *handle = question != NULL ? new_handle(client, kind) : NULL;
    if (handle == NULL) {
        free_question(question);
        return NULL;
    }
    handle->question = question;
    return handle;
}

zkl_handle *zkl_handle_submit(zkl_handle *handle, int64_t block_for)
{
    zkl_client *client = handle->client;
    pthread_mutex_lock(&client->mutex);
    handle->id = ++client->last_id;
    if (client->exited) {
        atomic_store(&handle->phase, ZKL_ACQUISITION_REFUSED);
        zkl_handle_answer(handle, ZKL_CLOSED, "the client is closed");
    } else {
        enqueue(handle, TODO_START);
    }
    pthread_mutex_unlock(&client->mutex);
    zkl_client_serve(client, handle, block_for);
    return handle;
}

zkl_handle *zkl_client_acquire(zkl_client *client, const zkl_acquisition_request *request, zkl_handle *writer,
                               int64_t block_for)
{
    zkl_handle *handle = new_handle(client, HANDLE_ACQUISITION);
    if (handle == NULL) {
        return NULL;
    }
    handle->spec = zkl_lock_spec_take(request->spec);
    handle->count = request->count;
    handle->try_only = request->try_only;
    handle->optimistic = request->optimistic;
    if (writer != NULL) {
        handle->writer = writer;
        atomic_fetch_add(&writer->references, 1);
    }
    return zkl_handle_submit(handle, block_for);
}

zkl_handle *zkl_client_contenders(zkl_client *client, const char *path, bool identities)
{
    zkl_handle *handle = zkl_handle_ask(client, HANDLE_CONTENDERS, path);
    if (handle == NULL) {
        return NULL;
    }
    handle->question->identities = identities;
    return zkl_handle_submit(handle, 0);
}

zkl_handle *zkl_client_flush(zkl_client *client)
{
    zkl_handle *handle = zkl_handle_ask(client, HANDLE_FLUSH, "");
    return handle != NULL ? zkl_handle_submit(handle, 0) : NULL;
}

/* `quietly`: the caller looks at the handle afterwards and needs no notification. */
static void ask(zkl_handle *handle, unsigned todo, bool quietly, int64_t block_for)
{
    zkl_client *client = handle->client;
    pthread_mutex_lock(&client->mutex);
    if (!client->exited) {
        enqueue(handle, todo);
    }
    pthread_mutex_unlock(&client->mutex);
    zkl_client_serve(client, quietly ? handle : NULL, block_for);
}

void zkl_handle_release(zkl_handle *handle)
{
    zkl_scope_remove(handle);
    if (zkl_client_forked(handle->client)) {
        return;
    }
    if (!atomic_load(&handle->over) && (handle->kind == HANDLE_ACQUISITION || handle->kind == HANDLE_OPERATION)) {
        ask(handle, TODO_FORGET, true, 0);
    }
    zkl_handle_drop(handle);
}

uint64_t zkl_handle_id(const zkl_handle *handle)
{
    return handle->id;
}

zkl_client *zkl_handle_client(const zkl_handle *handle)
{
    return handle->client;
}

const char *zkl_handle_path(const zkl_handle *handle)
{
    return handle->question != NULL ? handle->question->path : zkl_lock_spec_settings(handle->spec)->path;
}

/* Mutex held. Says what a waiting acquisition waits for. */
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

/* Mutex held. Without an I/O thread no result can come any more. */
static bool is_settled(const zkl_handle *handle)
{
    return handle->settled || handle->client->exited;
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
    zkl_client *client = handle->client;
    pthread_mutex_lock(&client->mutex);
    view->phase = (zkl_acquisition_phase)atomic_load_explicit(&handle->phase, memory_order_relaxed);
    view->settled = is_settled(handle);
    bool unanswered = handle->question != NULL && client->exited && !handle->settled;
    view->code = unanswered && handle->kind != HANDLE_FLUSH ? ZKL_CLOSED : (zkl_code)handle->code;
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
    pthread_mutex_unlock(&client->mutex);
    if (view->phase == ZKL_ACQUISITION_GRANTED && atomic_load(&handle->lapsed)) {
        /* Found here before the I/O thread has found it. */
        bool held_long = atomic_load_explicit(&handle->hold_until, memory_order_relaxed) <= zkl_clock();
        view->phase = ZKL_ACQUISITION_LOST;
        view->code = held_long ? ZKL_MAX_HOLD : ZKL_LOST;
        snprintf(view->message, sizeof view->message, "'%.400s' is lost: its %s", zkl_handle_path(handle),
                 held_long ? "max_hold is over" : "lease ran out");
    }
}

bool zkl_handle_nodes(zkl_handle *handle, const char **nodes)
{
    pthread_mutex_lock(&handle->client->mutex);
    *nodes = handle->nodes;
    pthread_mutex_unlock(&handle->client->mutex);
    return *nodes != NULL || handle->count <= 1;
}

bool zkl_handle_waits(const zkl_handle *handle)
{
    return atomic_load_explicit(&handle->phase, memory_order_acquire) == ZKL_ACQUISITION_WAITING;
}

bool zkl_handle_decided(const zkl_handle *handle)
{
    if (handle->kind == HANDLE_ACQUISITION && !handle->ended) {
        return !zkl_handle_waits(handle);
    }
    return atomic_load_explicit(&handle->settled, memory_order_relaxed) || handle->code != ZKL_OK;
}

bool zkl_handle_finished(zkl_handle *handle)
{
    pthread_mutex_lock(&handle->client->mutex);
    bool finished = is_settled(handle) || handle->code != ZKL_OK;
    pthread_mutex_unlock(&handle->client->mutex);
    return finished;
}

bool zkl_handle_settled(zkl_handle *handle)
{
    if (atomic_load_explicit(&handle->settled, memory_order_acquire)) {
        return true;
    }
    zkl_client *client = handle->client;
    pthread_mutex_lock(&client->mutex);
    bool settled = is_settled(handle);
    pthread_mutex_unlock(&client->mutex);
    return settled;
}

bool zkl_handle_released(zkl_handle *handle)
{
    /* The code is written before `settled`, and not after. */
    return zkl_handle_settled(handle) && handle->code != ZKL_LOST;
}

static bool is_granted(const zkl_handle *handle)
{
    return atomic_load_explicit(&handle->phase, memory_order_acquire) == ZKL_ACQUISITION_GRANTED;
}

int64_t zkl_handle_remaining(zkl_handle *handle)
{
    zkl_client *client = handle->client;
    if (!is_granted(handle)) {
        return 0;
    }
    /*
     * The lease is read between two reads of the phase. The lease is published before an acquisition is granted under it, and a
     * lapsed acquisition is marked lost before its lease begins anew.
     */
    int64_t until = atomic_load_explicit(&client->lease_until, memory_order_acquire);
    if (!is_granted(handle) || atomic_load(&handle->lapsed) || zkl_client_forked(client)) {
        return 0;
    }
    int64_t hold_until = atomic_load_explicit(&handle->hold_until, memory_order_relaxed); /* written before the phase */
    until = hold_until < until ? hold_until : until;
    if (until == ZKL_NEVER) {
        return ZKL_NEVER;
    }
    int64_t left = until - zkl_clock();
    if (left > 0) {
        return left;
    }
    atomic_store(&handle->lapsed, true); /* final, whatever the I/O thread receives next */
    ask(handle, TODO_LAPSED, false, 0);
    return 0;
}

bool zkl_handle_held(zkl_handle *handle)
{
    return zkl_handle_remaining(handle) > 0;
}

void zkl_handle_end(zkl_handle *handle, int64_t block_for)
{
    zkl_scope_remove(handle);
    if (!zkl_client_forked(handle->client)) {
        ask(handle, TODO_END, true, block_for);
    }
}

void zkl_handle_cut(zkl_handle *handle)
{
    if (!zkl_client_forked(handle->client)) {
        ask(handle, TODO_END, false, 0);
    }
}

const zkl_contender *zkl_handle_contenders(const zkl_handle *handle, int32_t *count)
{
    *count = handle->question->contender_count;
    return handle->question->contenders;
}
