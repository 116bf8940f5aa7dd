/* handle kinds: what the owners of handles ask for, any thread, no mutex held; and what the engine's side does for each kind. */
#include <string.h>

#include "base/base.h"
#include "client_object.h"
#include "handle.h"

/* --- requests ------------------------------------------------------------------------------------------------------ */

/*
 * Passes a new handle to the engine's side, or answers it here if the client has ended. Returns the handle. `block_for` as in
 * zkl_client_acquire.
 */
static zkl_handle *submit_handle(zkl_handle *handle, int64_t block_for)
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

/*
 * Asks the engine's side to do something for the handle, a set of TODO_*. `quietly`: the caller looks at the handle afterwards and
 * needs no notification. `block_for` as in zkl_client_acquire. In the child of a fork nothing happens.
 */
static void ask_handle(zkl_handle *handle, unsigned todo, bool quietly, int64_t block_for)
{
    zkl_client *client = zkl_client_of(handle->desk);
    if (zkl_client_forked(client)) {
        return;
    }
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
        ask_handle(handle, TODO_FORGET, true, 0);
    }
    zkl_handle_drop(handle);
}

void zkl_handle_end(zkl_handle *handle, int64_t block_for)
{
    zkl_group_remove(handle);
    ask_handle(handle, TODO_END, true, block_for);
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
        ask_handle(handle, TODO_END, false, 0);
    }
}

/* --- acquisitions, the engine's side --------------------------------------------------------------------------------------------- */

/* Keeps a copy of the part of a node's path that follows the lock's path; keeps nothing if there is no node. */
static void keep_name(char **kept, const zkl_handle *handle, const char *node)
{
    const char *name = node != NULL ? node + strlen(zkl_lock_spec_settings(handle->request.spec)->path) + 1 : NULL;
    if (name != NULL && *kept != NULL && strcmp(name, *kept) == 0) {
        return;
    }
    zkl_free(*kept);
    *kept = name != NULL ? zkl_copy(name, strlen(name)) : NULL;
}

/* client->desk.mutex held. */
static void publish_acquisition(zkl_handle *handle, const zkl_acquisition *acquisition,
                                const zkl_acquisition_view *view)
{
    if (view->phase == ZKL_ACQUISITION_GRANTED &&
        atomic_load_explicit(&handle->phase, memory_order_relaxed) != ZKL_ACQUISITION_GRANTED) {
        /*
         * From the grant on, the owner changes it. Not reset after the grant: a reader that saw the phase before would
         * then find a hold without an end.
         */
        atomic_store_explicit(&handle->hold_until, view->hold_until, memory_order_relaxed);
        handle->waited = view->waited;
    }
    if (view->phase == ZKL_ACQUISITION_GRANTED) {
        handle->token = view->token;
        handle->nodes = handle->nodes != NULL ? handle->nodes : zkl_acquisition_nodes(acquisition);
    }
    if (view->phase == ZKL_ACQUISITION_GRANTED || view->phase == ZKL_ACQUISITION_WAITING) {
        keep_name(&handle->node, handle, view->node);
        keep_name(&handle->ahead, handle, view->phase == ZKL_ACQUISITION_WAITING ? view->blocker : NULL);
    }
    if (view->message[0] != '\0' && handle->message == NULL) {
        handle->message = zkl_copy(view->message, strlen(view->message));
    }
    handle->sharing = view->sharing;
    handle->revocations = view->revocations;
    handle->code = (int16_t)view->code;
    atomic_store_explicit(&handle->phase, (int32_t)view->phase, memory_order_release);
    atomic_store_explicit(&handle->settled, view->settled, memory_order_release);
}

void zkl_handle_acquisition_changed(void *context, zkl_acquisition *acquisition)
{
    zkl_client *client = context;
    zkl_handle *handle = zkl_acquisition_user(acquisition);
    const zkl_acquisition_view view = zkl_acquisition_look(acquisition);
    pthread_mutex_lock(&client->desk.mutex);
    /*
     * Waiting, and the node that it waits for, can be read, but cause no notification. The same holds for the start of a release,
     * which the owner began.
     */
    bool decided = (int32_t)view.phase != atomic_load_explicit(&handle->phase, memory_order_relaxed) &&
                   view.phase != ZKL_ACQUISITION_RELEASED;
    bool notify = decided || view.revocations != handle->revocations || view.settled != handle->settled ||
                  view.code != (zkl_code)handle->code;
    publish_acquisition(handle, acquisition, &view);
    if (notify) {
        zkl_handle_notify(handle);
    }
    pthread_mutex_unlock(&client->desk.mutex);
    if (view.settled && zkl_handle_has_reached(handle, ZKL_HANDLE_ENDED)) {
        zkl_handles_die(handle); /* it is not reaped here: the engine is using the acquisition */
    }
}

int64_t zkl_handle_hold_over(void *context, const zkl_acquisition *acquisition, int64_t now)
{
    zkl_client *client = context;
    zkl_handle *handle = zkl_acquisition_user(acquisition);
    pthread_mutex_lock(&client->desk.mutex);
    int64_t until = atomic_load_explicit(&handle->hold_until, memory_order_relaxed);
    if (until <= now) {
        atomic_store(&handle->lapsed, true); /* the owner cannot extend it any more */
    }
    pthread_mutex_unlock(&client->desk.mutex);
    return until;
}

static void start_acquisition(zkl_handle *handle, int64_t now)
{
    zkl_client *client = zkl_client_of(handle->desk);
    const zkl_acquisition *writer = handle->writer != NULL ? handle->writer->acquisition : NULL;
    handle->acquisition = zkl_engine_acquire(client->engine, &handle->request, writer, handle, now);
    if (handle->acquisition == NULL) {
        pthread_mutex_lock(&client->desk.mutex);
        zkl_handle_refuse(handle, ZKL_FAILED, "not enough memory to queue for a lock");
        pthread_mutex_unlock(&client->desk.mutex);
        zkl_handles_let_go(handle);
    } else {
        atomic_fetch_add(&client->desk.open, 1);
    }
    if (handle->writer != NULL) {
        zkl_handle_drop(handle->writer);
        handle->writer = NULL;
    }
}

static void end_acquisition(zkl_handle *handle, int64_t now)
{
    if (!zkl_handle_has_reached(handle, ZKL_HANDLE_ENDED)) {
        atomic_store(&handle->life, ZKL_HANDLE_ENDED);
        atomic_fetch_sub(&handle->desk->open, 1);
    }
    zkl_acquisition_end(handle->acquisition, ZKL_CANCELLED, now);
    if (zkl_acquisition_settled(handle->acquisition)) {
        zkl_handles_die(handle); /* if it was settled already, the engine makes no callback */
    }
}

static void run_acquisition(zkl_handle *handle, unsigned todo, int64_t now)
{
    if ((todo & TODO_START) != 0) {
        start_acquisition(handle, now);
    }
    if (handle->acquisition != NULL && (todo & TODO_HOLD) != 0) {
        zkl_acquisition_end_at(handle->acquisition, atomic_load_explicit(&handle->hold_until, memory_order_relaxed));
    }
    if (handle->acquisition != NULL && (todo & TODO_LAPSED) != 0) {
        zkl_acquisition_lapsed(handle->acquisition, now);
    }
    if (handle->acquisition != NULL && (todo & (TODO_END | TODO_FORGET)) != 0) {
        end_acquisition(handle, now);
    }
}

/* Refuses the acquisition if it still waits. The message says for what it has waited. */
static void expire_acquisition(zkl_handle *handle, int64_t now)
{
    if (!zkl_handle_waits(handle) || handle->acquisition == NULL) {
        return;
    }
    zkl_handle_view view;
    zkl_handle_look(handle, &view);
    const char *message = view.message[0] != '\0' ? view.message : "it was not decided in time";
    pthread_mutex_lock(&handle->desk->mutex);
    if (handle->message == NULL) {
        handle->message = zkl_copy(message, strlen(message));
    }
    pthread_mutex_unlock(&handle->desk->mutex);
    zkl_acquisition_end(handle->acquisition, ZKL_TIMEOUT, now);
}

static const zkl_handle_kind acquisition_kind = {
    .run = run_acquisition, .expire = expire_acquisition, .closed_code = ZKL_CLOSED, .kept = true};

/* --- acquisitions, the owner's side ---------------------------------------------------------------------------------------------- */

zkl_handle *zkl_client_acquire(zkl_client *client, const zkl_acquisition_request *request, zkl_handle *writer,
                               int64_t block_for)
{
    zkl_handle *handle = zkl_handle_new(&client->desk, &acquisition_kind, false);
    if (handle == NULL) {
        return NULL;
    }
    handle->request = *request;
    zkl_lock_spec_take(request->spec);
    if (writer != NULL) {
        handle->writer = writer;
        atomic_fetch_add(&writer->references, 1);
    }
    return submit_handle(handle, block_for);
}

bool zkl_handle_nodes(zkl_handle *handle, const char **nodes)
{
    pthread_mutex_lock(&handle->desk->mutex);
    *nodes = handle->nodes;
    pthread_mutex_unlock(&handle->desk->mutex);
    return *nodes != NULL || handle->request.count <= 1;
}

static bool is_granted(const zkl_handle *handle)
{
    return atomic_load_explicit(&handle->phase, memory_order_acquire) == ZKL_ACQUISITION_GRANTED;
}

int64_t zkl_handle_remaining(zkl_handle *handle)
{
    zkl_client *client = zkl_client_of(handle->desk);
    if (!is_granted(handle)) {
        return 0;
    }
    /*
     * The lease is read between two reads of the phase. The lease is published before an acquisition is granted under it, and a
     * lapsed acquisition is marked lost before its lease begins anew.
     */
    int64_t until = atomic_load_explicit(&client->published.lease_until, memory_order_acquire);
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
    ask_handle(handle, TODO_LAPSED, false, 0);
    return 0;
}

bool zkl_handle_held(zkl_handle *handle)
{
    return zkl_handle_remaining(handle) > 0;
}

bool zkl_handle_extend(zkl_handle *handle, int64_t nanoseconds)
{
    zkl_client *client = zkl_client_of(handle->desk);
    if (!zkl_handle_held(handle)) {
        return false;
    }
    /* Under the mutex it is either before the engine's question whether the hold is over, or after it. */
    pthread_mutex_lock(&client->desk.mutex);
    int64_t now = zkl_clock();
    int64_t before = atomic_load_explicit(&handle->hold_until, memory_order_relaxed);
    int64_t until = nanoseconds < ZKL_NEVER / 2 ? now + nanoseconds : ZKL_NEVER;
    bool held = is_granted(handle) && !atomic_load(&handle->lapsed) && before > now;
    if (held) {
        atomic_store_explicit(&handle->hold_until, until, memory_order_relaxed);
    }
    pthread_mutex_unlock(&client->desk.mutex);
    /* A later end need not be told: the engine asks when the first one has come. */
    if (held && until < before) {
        ask_handle(handle, TODO_HOLD, false, 0);
    }
    return held;
}

int64_t zkl_handle_waited(const zkl_handle *handle)
{
    return is_granted(handle) ? handle->waited : 0;
}

/* --- operations and their watches, the engine's side --------------------------------------------------------------------------------------------- */

/*
 * One handle serves an operation from its request to the end of its watch. It is settled when the operation is answered, and gets
 * another notification when the watch fires. The engine's side keeps it until its owner drops it.
 */
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

/* --- operations, the owner's side ---------------------------------------------------------------------------------------------- */

zkl_handle *zkl_client_operate(zkl_client *client, const zkl_operation_request *request)
{
    zkl_handle *handle = zkl_handle_new(&client->desk, &operation_kind, true);
    if (handle == NULL) {
        return NULL;
    }
    handle->question->failed_part = -1;
    handle->question->request = zkl_operation_new(request);
    if (handle->question->request == NULL) {
        zkl_handle_drop(handle);
        return NULL;
    }
    return submit_handle(handle, 0);
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
    zkl_handle *handle = zkl_handle_new(&client->desk, kind, true);
    return handle != NULL ? submit_handle(handle, 0) : NULL;
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
