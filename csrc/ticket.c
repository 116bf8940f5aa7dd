/*
 * handle: requests of callers, and their results.
 *
 * A handle goes to the engine by the client's list (zkl_tickets_run). The engine's callbacks publish the result in the handle.
 * client_private.h says which thread may touch what.
 */
#include <stdio.h>
#include <string.h>

#include "client_private.h"

/* --- reference counts ---------------------------------------------------------------------------------------------- */

/* Mutex held, thread not exited. The list gets a reference to the handle. */
static void enqueue(zkl_ticket *ticket, unsigned todo)
{
    if (ticket->todo == 0) {
        TAILQ_INSERT_TAIL(&ticket->client->todo, ticket, in_todo);
        atomic_fetch_add(&ticket->references, 1);
    }
    ticket->todo = (uint8_t)(ticket->todo | todo);
}

static void free_question(zkl_question *question)
{
    if (question != NULL) {
        zkl_free(question->path);
        zkl_free(question);
    }
}

static void drop_question(zkl_ticket *ticket)
{
    zkl_question *question = ticket->question;
    for (int32_t i = 0; i < question->contender_count; i++) {
        zkl_free((void *)(uintptr_t)question->contenders[i].node);
        zkl_free((void *)(uintptr_t)question->contenders[i].identity);
    }
    zkl_free(question->contenders);
    zkl_ticket_drop_operation(ticket);
    free_question(question);
}

void zkl_ticket_drop(zkl_ticket *ticket)
{
    if (atomic_fetch_sub(&ticket->references, 1) > 1) {
        return;
    }
    zkl_client *client = ticket->client;
    if (ticket->question != NULL) {
        drop_question(ticket);
    }
    if (ticket->writer != NULL) {
        zkl_ticket_drop(ticket->writer);
    }
    zkl_terms_drop(ticket->terms);
    zkl_free(ticket->message);
    zkl_free(ticket->node);
    zkl_free(ticket->ahead);
    zkl_free(ticket->nodes);
    zkl_free(ticket);
    zkl_client_drop(client);
}

/* --- callbacks of the engine --------------------------------------------------------------------------------------- */

/* engine_mutex held. Marks a handle for reaping: its acquisition is settled and its owner has ended it. */
static void die(zkl_ticket *ticket)
{
    if (!ticket->dead) {
        ticket->dead = true;
        TAILQ_INSERT_TAIL(&ticket->client->dying, ticket, dying);
    }
}

void zkl_tickets_bury(zkl_client *client)
{
    zkl_ticket *ticket;
    while ((ticket = TAILQ_FIRST(&client->dying)) != NULL) {
        TAILQ_REMOVE(&client->dying, ticket, dying);
        zkl_claim_forget(ticket->claim, zkl_clock());
        ticket->claim = NULL;
        zkl_ticket_let_go(ticket);
    }
}

void zkl_ticket_announce(zkl_ticket *ticket)
{
    zkl_client *client = ticket->client;
    if (ticket == client->quiet) {
        return;
    }
    client->news = true;
    if (!ticket->has_news && !client->unread) {
        ticket->has_news = true;
        TAILQ_INSERT_TAIL(&client->news_list, ticket, in_news);
        atomic_fetch_add(&ticket->references, 1);
    }
}

/* Keeps a copy of the part of a node's path that follows the lock's path; keeps nothing if there is no node. */
static void keep_name(char **kept, const zkl_ticket *ticket, const char *node)
{
    const char *name = node != NULL ? node + strlen(zkl_terms_lock(ticket->terms)->path) + 1 : NULL;
    if (name != NULL && *kept != NULL && strcmp(name, *kept) == 0) {
        return;
    }
    zkl_free(*kept);
    *kept = name != NULL ? zkl_copy(name, strlen(name)) : NULL;
}

/* Mutex held. */
static void publish_claim(zkl_ticket *ticket, const zkl_claim *claim, zkl_claim_phase phase)
{
    const char *message = zkl_claim_message(claim);
    if (phase == ZKL_CLAIM_GRANTED) {
        /* Not reset after the grant: a reader that saw the phase before would then find a hold without an end. */
        atomic_store_explicit(&ticket->hold_until, zkl_claim_hold_until(claim), memory_order_relaxed);
        ticket->token = zkl_claim_token(claim);
        ticket->nodes = ticket->nodes != NULL ? ticket->nodes : zkl_claim_nodes(claim);
    }
    if (phase == ZKL_CLAIM_GRANTED || phase == ZKL_CLAIM_WAITING) {
        keep_name(&ticket->node, ticket, zkl_claim_node(claim));
        keep_name(&ticket->ahead, ticket, phase == ZKL_CLAIM_WAITING ? zkl_claim_blocker(claim) : NULL);
    }
    if (message[0] != '\0' && ticket->message == NULL) {
        ticket->message = zkl_copy(message, strlen(message));
    }
    ticket->behind = zkl_claim_behind(claim);
    ticket->revocations = zkl_claim_revocations(claim);
    ticket->code = (int16_t)zkl_claim_code(claim);
}

void zkl_ticket_claim_changed(void *context, zkl_claim *claim)
{
    zkl_client *client = context;
    zkl_ticket *ticket = zkl_claim_user(claim);
    zkl_claim_phase phase = zkl_claim_get_phase(claim);
    bool settled = zkl_claim_settled(claim);
    pthread_mutex_lock(&client->mutex);
    /*
     * Waiting, and the node that it waits for, can be read, but cause no notification. The same holds for the start of a release,
     * which the owner began.
     */
    bool decided =
        (int32_t)phase != atomic_load_explicit(&ticket->phase, memory_order_relaxed) && phase != ZKL_CLAIM_RELEASED;
    bool asked = zkl_claim_revocations(claim) != ticket->revocations;
    bool news = decided || asked || settled != ticket->settled || zkl_claim_code(claim) != (zkl_code)ticket->code;
    publish_claim(ticket, claim, phase);
    atomic_store_explicit(&ticket->phase, (int32_t)phase, memory_order_release);
    atomic_store_explicit(&ticket->settled, settled, memory_order_release);
    if (news) {
        zkl_ticket_announce(ticket);
    }
    pthread_mutex_unlock(&client->mutex);
    if (settled && ticket->ended) {
        die(ticket); /* not here: the engine is using the acquisition */
    }
}

void zkl_ticket_answer(zkl_ticket *ticket, zkl_code code, const char *message)
{
    ticket->code = (int16_t)code;
    if (message[0] != '\0' && ticket->message == NULL) {
        ticket->message = zkl_copy(message, strlen(message));
    }
    atomic_store_explicit(&ticket->settled, true, memory_order_release);
    zkl_ticket_announce(ticket);
}

static bool copy_contenders(zkl_question *ticket, const zkl_contender *contenders, int32_t count)
{
    if (count == 0) {
        return true;
    }
    ticket->contenders = zkl_alloc((size_t)count * sizeof *contenders);
    if (ticket->contenders == NULL) {
        return false;
    }
    for (int32_t i = 0; i < count; i++) {
        zkl_contender *copy = &ticket->contenders[ticket->contender_count++];
        *copy = contenders[i];
        copy->node = zkl_copy(contenders[i].node, strlen(contenders[i].node));
        copy->identity = zkl_copy(contenders[i].identity, (size_t)contenders[i].identity_length);
        if (copy->node == NULL || copy->identity == NULL) {
            return false;
        }
    }
    return true;
}

void zkl_ticket_let_go(zkl_ticket *ticket)
{
    TAILQ_REMOVE(&ticket->client->tickets, ticket, all);
    atomic_store(&ticket->over, true);
    zkl_ticket_drop(ticket);
}

static void on_contenders(void *user, zkl_code code, const char *message, const zkl_contender *contenders,
                          int32_t count)
{
    zkl_ticket *ticket = user;
    zkl_client *client = ticket->client;
    if (code == ZKL_OK && !copy_contenders(ticket->question, contenders, count)) {
        code = ZKL_FAILED;
        message = "not enough memory to list the contenders";
    }
    pthread_mutex_lock(&client->mutex);
    zkl_ticket_answer(ticket, code, message);
    pthread_mutex_unlock(&client->mutex);
    zkl_ticket_let_go(ticket);
}

/* --- requests of callers ------------------------------------------------------------------------------------------- */

static void fail_ticket(zkl_ticket *ticket, zkl_code code, const char *message)
{
    pthread_mutex_lock(&ticket->client->mutex);
    atomic_store_explicit(&ticket->phase, ZKL_CLAIM_REFUSED, memory_order_release);
    zkl_ticket_answer(ticket, code, message);
    pthread_mutex_unlock(&ticket->client->mutex);
}

static void start_claim(zkl_ticket *ticket, int64_t now)
{
    const zkl_claim_request request = {
        .terms = ticket->terms,
        .writer = ticket->writer != NULL ? ticket->writer->claim : NULL,
        .count = ticket->count,
        .try_only = ticket->try_only,
        .hasty = ticket->hasty,
    };
    ticket->claim = zkl_engine_claim(ticket->client->engine, &request, ticket, now);
    if (ticket->claim == NULL) {
        fail_ticket(ticket, ZKL_FAILED, "not enough memory to queue for a lock");
        zkl_ticket_let_go(ticket);
    } else {
        atomic_fetch_add(&ticket->client->open_claims, 1);
    }
    if (ticket->writer != NULL) {
        zkl_ticket_drop(ticket->writer);
        ticket->writer = NULL;
    }
}

static void start(zkl_ticket *ticket, int64_t now)
{
    zkl_client *client = ticket->client;
    TAILQ_INSERT_TAIL(&client->tickets, ticket, all);
    atomic_fetch_add(&ticket->references, 1);
    switch (ticket->kind) {
    case TICKET_CLAIM:
        start_claim(ticket, now);
        break;
    case TICKET_FLUSH:
        TAILQ_INSERT_TAIL(&client->flushes, ticket, dying);
        break;
    case TICKET_CONTENDERS:
        if (!zkl_engine_contenders(client->engine, ticket->question->path, ticket->question->identities, on_contenders,
                                   ticket, now)) {
            fail_ticket(ticket, ZKL_FAILED, "not enough memory to list the contenders");
            zkl_ticket_let_go(ticket);
        }
        break;
    case TICKET_OPERATION: /* zkl_ticket_operate */
        break;
    }
}

static void do_for(zkl_ticket *ticket, unsigned todo, int64_t now)
{
    if ((todo & TODO_START) != 0) {
        start(ticket, now);
    }
    if (ticket->kind == TICKET_OPERATION) {
        zkl_ticket_operate(ticket, todo, now);
        return;
    }
    if (ticket->claim != NULL && (todo & TODO_LAPSED) != 0) {
        zkl_claim_lapsed(ticket->claim, now);
    }
    if (ticket->claim != NULL && (todo & (TODO_END | TODO_FORGET)) != 0) {
        atomic_fetch_sub(&ticket->client->open_claims, !ticket->ended);
        ticket->ended = true;
        zkl_claim_end(ticket->claim, ZKL_CANCELLED, now);
        if (zkl_claim_settled(ticket->claim)) {
            die(ticket); /* if it was settled already, the engine makes no callback */
        }
    }
}

void zkl_tickets_run(zkl_client *client)
{
    pthread_mutex_lock(&client->mutex);
    zkl_ticket *ticket;
    while ((ticket = TAILQ_FIRST(&client->todo)) != NULL) {
        TAILQ_REMOVE(&client->todo, ticket, in_todo);
        unsigned todo = ticket->todo;
        ticket->todo = 0;
        pthread_mutex_unlock(&client->mutex);
        do_for(ticket, todo, zkl_clock());
        zkl_ticket_drop(ticket); /* the list's */
        zkl_tickets_bury(client);
        pthread_mutex_lock(&client->mutex);
    }
    pthread_mutex_unlock(&client->mutex);
}

void zkl_tickets_finish_flushes(zkl_client *client)
{
    if (TAILQ_EMPTY(&client->flushes) || !zkl_engine_drained(client->engine)) {
        return;
    }
    zkl_ticket *ticket;
    while ((ticket = TAILQ_FIRST(&client->flushes)) != NULL) {
        TAILQ_REMOVE(&client->flushes, ticket, dying);
        pthread_mutex_lock(&client->mutex);
        zkl_ticket_answer(ticket, ZKL_OK, "");
        pthread_mutex_unlock(&client->mutex);
        zkl_ticket_let_go(ticket);
    }
}

void zkl_tickets_abandon(zkl_client *client)
{
    zkl_ticket *ticket;
    pthread_mutex_lock(&client->mutex);
    client->exited = true;
    atomic_store(&client->open_claims, 0); /* they get no notifications any more */
    while ((ticket = TAILQ_FIRST(&client->todo)) != NULL) {
        TAILQ_REMOVE(&client->todo, ticket, in_todo);
        if ((ticket->todo & TODO_START) != 0) {
            atomic_store_explicit(&ticket->phase, ZKL_CLAIM_REFUSED, memory_order_release);
            zkl_ticket_answer(ticket, ZKL_CLOSED, "the client is closed");
        }
        ticket->todo = 0;
        pthread_mutex_unlock(&client->mutex);
        zkl_ticket_drop(ticket);
        pthread_mutex_lock(&client->mutex);
    }
    while ((ticket = TAILQ_FIRST(&client->tickets)) != NULL) {
        if (ticket->kind == TICKET_FLUSH) {
            zkl_ticket_answer(ticket, ZKL_OK, ""); /* the session is over, and its nodes with it */
        }
        pthread_mutex_unlock(&client->mutex);
        zkl_ticket_let_go(ticket);
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

static zkl_ticket *new_ticket(zkl_client *client, ticket_kind kind)
{
    zkl_ticket *ticket = zkl_alloc(sizeof *ticket);
    if (ticket != NULL) {
        atomic_store_explicit(&ticket->references, 1, memory_order_relaxed);
        atomic_fetch_add(&client->references, 1);
        ticket->client = client;
        ticket->kind = kind;
    }
    return ticket;
}

zkl_ticket *zkl_ticket_ask(zkl_client *client, ticket_kind kind, const char *path)
{
    zkl_question *question = new_question(path);
    zkl_ticket *ticket = question != NULL ? new_ticket(client, kind) : NULL;
    if (ticket == NULL) {
        free_question(question);
        return NULL;
    }
    ticket->question = question;
    return ticket;
}

zkl_ticket *zkl_ticket_submit(zkl_ticket *ticket, int64_t patience)
{
    zkl_client *client = ticket->client;
    pthread_mutex_lock(&client->mutex);
    ticket->id = ++client->last_id;
    if (client->exited) {
        atomic_store(&ticket->phase, ZKL_CLAIM_REFUSED);
        zkl_ticket_answer(ticket, ZKL_CLOSED, "the client is closed");
    } else {
        enqueue(ticket, TODO_START);
    }
    pthread_mutex_unlock(&client->mutex);
    zkl_client_serve(client, ticket, patience);
    return ticket;
}

zkl_ticket *zkl_client_claim(zkl_client *client, const zkl_claim_request *request, zkl_ticket *writer, int64_t patience)
{
    zkl_ticket *ticket = new_ticket(client, TICKET_CLAIM);
    if (ticket == NULL) {
        return NULL;
    }
    ticket->terms = zkl_terms_take(request->terms);
    ticket->count = request->count;
    ticket->try_only = request->try_only;
    ticket->hasty = request->hasty;
    if (writer != NULL) {
        ticket->writer = writer;
        atomic_fetch_add(&writer->references, 1);
    }
    return zkl_ticket_submit(ticket, patience);
}

zkl_ticket *zkl_client_contenders(zkl_client *client, const char *path, bool identities)
{
    zkl_ticket *ticket = zkl_ticket_ask(client, TICKET_CONTENDERS, path);
    if (ticket == NULL) {
        return NULL;
    }
    ticket->question->identities = identities;
    return zkl_ticket_submit(ticket, 0);
}

zkl_ticket *zkl_client_flush(zkl_client *client)
{
    zkl_ticket *ticket = zkl_ticket_ask(client, TICKET_FLUSH, "");
    return ticket != NULL ? zkl_ticket_submit(ticket, 0) : NULL;
}

/* `quietly`: the caller looks at the handle afterwards and needs no notification. */
static void ask(zkl_ticket *ticket, unsigned todo, bool quietly, int64_t patience)
{
    zkl_client *client = ticket->client;
    pthread_mutex_lock(&client->mutex);
    if (!client->exited) {
        enqueue(ticket, todo);
    }
    pthread_mutex_unlock(&client->mutex);
    zkl_client_serve(client, quietly ? ticket : NULL, patience);
}

void zkl_ticket_release(zkl_ticket *ticket)
{
    zkl_scope_remove(ticket);
    if (zkl_client_forked(ticket->client)) {
        return;
    }
    if (!atomic_load(&ticket->over) && (ticket->kind == TICKET_CLAIM || ticket->kind == TICKET_OPERATION)) {
        ask(ticket, TODO_FORGET, true, 0);
    }
    zkl_ticket_drop(ticket);
}

uint64_t zkl_ticket_id(const zkl_ticket *ticket)
{
    return ticket->id;
}

zkl_client *zkl_ticket_client(const zkl_ticket *ticket)
{
    return ticket->client;
}

const char *zkl_ticket_path(const zkl_ticket *ticket)
{
    return ticket->question != NULL ? ticket->question->path : zkl_terms_lock(ticket->terms)->path;
}

/* Mutex held. Says what a waiting acquisition waits for. */
static void describe_wait(const zkl_ticket *ticket, char *message)
{
    const zkl_lock *lock = zkl_terms_lock(ticket->terms);
    if (ticket->behind) {
        snprintf(message, ZKL_MESSAGE_SIZE, "another acquisition of this client is ahead");
    } else if (ticket->ahead != NULL) {
        snprintf(message, ZKL_MESSAGE_SIZE, "'%s' is ahead", ticket->ahead);
    } else if (ticket->node != NULL && lock->mode == ZKL_MODE_PERMITS) {
        snprintf(message, ZKL_MESSAGE_SIZE, "it has not %d of its %d permits left", (int)ticket->count,
                 (int)lock->permits);
    }
}

/* Mutex held. Without an I/O thread no result can come any more. */
static bool is_settled(const zkl_ticket *ticket)
{
    return ticket->settled || ticket->client->exited;
}

static void copy_node(char *copy, const char *name)
{
    size_t length = name != NULL ? strnlen(name, ZKL_NODE_NAME_SIZE - 1) : 0;
    if (length > 0) {
        memcpy(copy, name, length);
    }
    copy[length] = '\0';
}

void zkl_ticket_look(zkl_ticket *ticket, zkl_ticket_view *view)
{
    zkl_client *client = ticket->client;
    pthread_mutex_lock(&client->mutex);
    view->phase = (zkl_claim_phase)atomic_load_explicit(&ticket->phase, memory_order_relaxed);
    view->settled = is_settled(ticket);
    bool unanswered = ticket->question != NULL && client->exited && !ticket->settled;
    view->code = unanswered && ticket->kind != TICKET_FLUSH ? ZKL_CLOSED : (zkl_code)ticket->code;
    view->revocations = ticket->revocations;
    view->token = ticket->token;
    copy_node(view->node, ticket->node);
    view->message[0] = '\0';
    if (ticket->message != NULL) {
        snprintf(view->message, sizeof view->message, "%s", ticket->message);
    } else if (view->code != ZKL_OK) {
        snprintf(view->message, sizeof view->message, "%s", unanswered ? "the client is closed" : ZKL_UNSAID);
    } else if (ticket->terms != NULL && view->phase == ZKL_CLAIM_WAITING) {
        describe_wait(ticket, view->message);
    }
    pthread_mutex_unlock(&client->mutex);
    if (view->phase == ZKL_CLAIM_GRANTED && atomic_load(&ticket->lapsed)) {
        /* Found here before the I/O thread has found it. */
        bool held_long = atomic_load_explicit(&ticket->hold_until, memory_order_relaxed) <= zkl_clock();
        view->phase = ZKL_CLAIM_LOST;
        view->code = held_long ? ZKL_MAX_HOLD : ZKL_LOST;
        snprintf(view->message, sizeof view->message, "'%.400s' is lost: its %s", zkl_ticket_path(ticket),
                 held_long ? "max_hold is over" : "lease ran out");
    }
}

bool zkl_ticket_nodes(zkl_ticket *ticket, const char **nodes)
{
    pthread_mutex_lock(&ticket->client->mutex);
    *nodes = ticket->nodes;
    pthread_mutex_unlock(&ticket->client->mutex);
    return *nodes != NULL || ticket->count <= 1;
}

bool zkl_ticket_waits(const zkl_ticket *ticket)
{
    return atomic_load_explicit(&ticket->phase, memory_order_acquire) == ZKL_CLAIM_WAITING;
}

bool zkl_ticket_decided(const zkl_ticket *ticket)
{
    if (ticket->kind == TICKET_CLAIM && !ticket->ended) {
        return !zkl_ticket_waits(ticket);
    }
    return atomic_load_explicit(&ticket->settled, memory_order_relaxed) || ticket->code != ZKL_OK;
}

bool zkl_ticket_finished(zkl_ticket *ticket)
{
    pthread_mutex_lock(&ticket->client->mutex);
    bool finished = is_settled(ticket) || ticket->code != ZKL_OK;
    pthread_mutex_unlock(&ticket->client->mutex);
    return finished;
}

bool zkl_ticket_settled(zkl_ticket *ticket)
{
    if (atomic_load_explicit(&ticket->settled, memory_order_acquire)) {
        return true;
    }
    zkl_client *client = ticket->client;
    pthread_mutex_lock(&client->mutex);
    bool settled = is_settled(ticket);
    pthread_mutex_unlock(&client->mutex);
    return settled;
}

bool zkl_ticket_released(zkl_ticket *ticket)
{
    /* The code is written before `settled`, and not after. */
    return zkl_ticket_settled(ticket) && ticket->code != ZKL_LOST;
}

static bool is_granted(const zkl_ticket *ticket)
{
    return atomic_load_explicit(&ticket->phase, memory_order_acquire) == ZKL_CLAIM_GRANTED;
}

int64_t zkl_ticket_remaining(zkl_ticket *ticket)
{
    zkl_client *client = ticket->client;
    if (!is_granted(ticket)) {
        return 0;
    }
    /*
     * The lease is read between two reads of the phase. The lease is published before an acquisition is granted under it, and a
     * lapsed acquisition is marked lost before its lease begins anew.
     */
    int64_t until = atomic_load_explicit(&client->lease_until, memory_order_acquire);
    if (!is_granted(ticket) || atomic_load(&ticket->lapsed) || zkl_client_forked(client)) {
        return 0;
    }
    int64_t hold_until = atomic_load_explicit(&ticket->hold_until, memory_order_relaxed); /* written before the phase */
    until = hold_until < until ? hold_until : until;
    if (until == ZKL_NEVER) {
        return ZKL_NEVER;
    }
    int64_t left = until - zkl_clock();
    if (left > 0) {
        return left;
    }
    atomic_store(&ticket->lapsed, true); /* final, whatever the I/O thread receives next */
    ask(ticket, TODO_LAPSED, false, 0);
    return 0;
}

bool zkl_ticket_held(zkl_ticket *ticket)
{
    return zkl_ticket_remaining(ticket) > 0;
}

void zkl_ticket_end(zkl_ticket *ticket, int64_t patience)
{
    zkl_scope_remove(ticket);
    if (!zkl_client_forked(ticket->client)) {
        ask(ticket, TODO_END, true, patience);
    }
}

void zkl_ticket_cut(zkl_ticket *ticket)
{
    if (!zkl_client_forked(ticket->client)) {
        ask(ticket, TODO_END, false, 0);
    }
}

const zkl_contender *zkl_ticket_contenders(const zkl_ticket *ticket, int32_t *count)
{
    *count = ticket->question->contender_count;
    return ticket->question->contenders;
}
