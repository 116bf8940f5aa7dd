/*
 * ticket: what callers ask for, and what they are told.
 *
 * A ticket goes to the engine by way of the client's list (zkl_tickets_run), and what comes of it is published in the ticket
 * from inside the engine's callbacks. See client_private.h for who may touch what.
 */
#include <stdio.h>
#include <string.h>

#include "client_private.h"

/* --- a ticket's life ----------------------------------------------------------------------------------------------- */

/* Mutex held, thread not exited. The list has a reference to the ticket. */
static void enqueue(zkl_ticket *ticket, unsigned todo)
{
    if (ticket->todo == 0) {
        TAILQ_INSERT_TAIL(&ticket->client->todo, ticket, in_todo);
        atomic_fetch_add(&ticket->references, 1);
    }
    ticket->todo |= todo;
}

void zkl_ticket_drop(zkl_ticket *ticket)
{
    if (atomic_fetch_sub(&ticket->references, 1) > 1) {
        return;
    }
    zkl_client *client = ticket->client;
    for (int32_t i = 0; i < ticket->contender_count; i++) {
        zkl_free((void *)(uintptr_t)ticket->contenders[i].node);
        zkl_free((void *)(uintptr_t)ticket->contenders[i].identity);
    }
    zkl_free(ticket->contenders);
    zkl_ticket_drop_operation(ticket);
    zkl_acl_free(&ticket->acl);
    if (ticket->writer != NULL) {
        zkl_ticket_drop(ticket->writer);
    }
    zkl_free(ticket->identity);
    zkl_free(ticket->message);
    zkl_free(ticket->path);
    zkl_free(ticket);
    zkl_client_drop(client);
}

/* --- what the engine says ------------------------------------------------------------------------------------------ */

void zkl_ticket_announce(zkl_ticket *ticket)
{
    zkl_client *client = ticket->client;
    client->news = true;
    if (!ticket->has_news && !client->unread) {
        ticket->has_news = true;
        TAILQ_INSERT_TAIL(&client->news_list, ticket, in_news);
        atomic_fetch_add(&ticket->references, 1);
    }
}

/* A node's name relative to the ticket's path into one of its fields; nothing if there is no node. */
static void copy_name(const zkl_ticket *ticket, char *name, const char *node)
{
    size_t length = 0;
    if (node != NULL) {
        const char *relative = node + strlen(ticket->path) + 1;
        length = strnlen(relative, ZKL_NODE_NAME_SIZE - 1);
        memcpy(name, relative, length);
    }
    name[length] = '\0';
}

void zkl_ticket_claim_changed(void *context, zkl_claim *claim)
{
    zkl_client *client = context;
    zkl_ticket *ticket = zkl_claim_user(claim);
    const char *message = zkl_claim_message(claim);
    int32_t phase = (int32_t)zkl_claim_get_phase(claim);
    bool settled = zkl_claim_settled(claim);
    pthread_mutex_lock(&client->mutex);
    /* That it waits, and for whom, is to be seen, but no reason to wake anybody; nor is, to its owner, a release begun. */
    bool decided = phase != atomic_load_explicit(&ticket->phase, memory_order_relaxed) && phase != ZKL_CLAIM_RELEASED;
    bool asked = zkl_claim_revocations(claim) != ticket->revocations;
    bool news = decided || asked || settled != ticket->settled || zkl_claim_code(claim) != ticket->code;
    if (phase == ZKL_CLAIM_GRANTED) {
        /* Stays when the grant is over: who has read the phase before must not find a hold without an end now. */
        atomic_store_explicit(&ticket->hold_until, zkl_claim_hold_until(claim), memory_order_relaxed);
    }
    ticket->revocations = zkl_claim_revocations(claim);
    atomic_store_explicit(&ticket->phase, phase, memory_order_release);
    ticket->settled = settled;
    ticket->code = zkl_claim_code(claim);
    memcpy(ticket->token, zkl_claim_token(claim), sizeof ticket->token);
    copy_name(ticket, ticket->node, zkl_claim_node(claim));
    copy_name(ticket, ticket->ahead, zkl_claim_blocker(claim));
    if (message[0] != '\0' && ticket->message == NULL) {
        ticket->message = zkl_copy(message, strlen(message));
    }
    if (news) {
        zkl_ticket_announce(ticket);
    }
    pthread_mutex_unlock(&client->mutex);
}

void zkl_ticket_answer(zkl_ticket *ticket, zkl_code code, const char *message)
{
    ticket->code = code;
    if (message[0] != '\0' && ticket->message == NULL) {
        ticket->message = zkl_copy(message, strlen(message));
    }
    ticket->settled = true;
    zkl_ticket_announce(ticket);
}

static bool copy_contenders(zkl_ticket *ticket, const zkl_contender *contenders, int32_t count)
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
    zkl_ticket_drop(ticket);
}

static void on_contenders(void *user, zkl_code code, const char *message, const zkl_contender *contenders,
                          int32_t count)
{
    zkl_ticket *ticket = user;
    zkl_client *client = ticket->client;
    if (code == ZKL_OK && !copy_contenders(ticket, contenders, count)) {
        code = ZKL_FAILED;
        message = "not enough memory to list the contenders";
    }
    pthread_mutex_lock(&client->mutex);
    zkl_ticket_answer(ticket, code, message);
    pthread_mutex_unlock(&client->mutex);
    zkl_ticket_let_go(ticket);
}

/* --- what callers want --------------------------------------------------------------------------------------------- */

static void fail_ticket(zkl_ticket *ticket, zkl_code code, const char *message)
{
    pthread_mutex_lock(&ticket->client->mutex);
    atomic_store_explicit(&ticket->phase, ZKL_CLAIM_REFUSED, memory_order_release);
    zkl_ticket_answer(ticket, code, message);
    pthread_mutex_unlock(&ticket->client->mutex);
}

static void start_claim(zkl_ticket *ticket, int64_t now)
{
    zkl_claim_request request = ticket->wanted;
    request.path = ticket->path;
    request.identity = ticket->identity;
    request.acl = &ticket->acl;
    request.writer = ticket->writer != NULL ? ticket->writer->claim : NULL;
    ticket->claim = zkl_engine_claim(ticket->client->engine, &request, ticket, now);
    if (ticket->claim == NULL) {
        fail_ticket(ticket, ZKL_FAILED, "not enough memory to queue for a lock");
    }
    zkl_acl_free(&ticket->acl);
    zkl_free(ticket->identity);
    ticket->identity = NULL;
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
        TAILQ_INSERT_TAIL(&client->flushes, ticket, flushing);
        break;
    case TICKET_CONTENDERS:
        if (!zkl_engine_contenders(client->engine, ticket->path, ticket->identities, on_contenders, ticket, now)) {
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
    if (ticket->claim != NULL && (todo & TODO_END) != 0) {
        zkl_claim_end(ticket->claim, ZKL_CANCELLED, now);
    }
    if ((todo & TODO_FORGET) != 0 && ticket->kind == TICKET_CLAIM) {
        if (ticket->claim != NULL) {
            zkl_claim_forget(ticket->claim, now);
            ticket->claim = NULL;
        }
        zkl_ticket_let_go(ticket);
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
        TAILQ_REMOVE(&client->flushes, ticket, flushing);
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
            zkl_ticket_answer(ticket, ZKL_OK, ""); /* the session is over, and all that it had with it */
        }
        pthread_mutex_unlock(&client->mutex);
        zkl_ticket_let_go(ticket);
        pthread_mutex_lock(&client->mutex);
    }
    pthread_mutex_unlock(&client->mutex);
}

zkl_ticket *zkl_ticket_new(zkl_client *client, ticket_kind kind, const char *path)
{
    zkl_ticket *ticket = zkl_alloc(sizeof *ticket);
    if (ticket == NULL) {
        return NULL;
    }
    atomic_store(&ticket->references, 1);
    atomic_fetch_add(&client->references, 1);
    ticket->client = client;
    ticket->kind = kind;
    ticket->path = zkl_copy(path, strlen(path));
    if (ticket->path == NULL) {
        zkl_ticket_drop(ticket);
        return NULL;
    }
    return ticket;
}

zkl_ticket *zkl_ticket_submit(zkl_ticket *ticket)
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
    zkl_client_serve(client);
    return ticket;
}

zkl_ticket *zkl_client_claim(zkl_client *client, const zkl_claim_request *request, zkl_ticket *writer)
{
    zkl_ticket *ticket = zkl_ticket_new(client, TICKET_CLAIM, request->path);
    if (ticket == NULL) {
        return NULL;
    }
    ticket->wanted = *request;
    if (writer != NULL) {
        ticket->writer = writer;
        atomic_fetch_add(&writer->references, 1);
    }
    ticket->identity = zkl_copy(request->identity, strlen(request->identity));
    if (ticket->identity == NULL || !zkl_acl_copy(&ticket->acl, request->acl)) {
        zkl_ticket_drop(ticket);
        return NULL;
    }
    return zkl_ticket_submit(ticket);
}

zkl_ticket *zkl_client_contenders(zkl_client *client, const char *path, bool identities)
{
    zkl_ticket *ticket = zkl_ticket_new(client, TICKET_CONTENDERS, path);
    if (ticket == NULL) {
        return NULL;
    }
    ticket->identities = identities;
    return zkl_ticket_submit(ticket);
}

zkl_ticket *zkl_client_flush(zkl_client *client)
{
    zkl_ticket *ticket = zkl_ticket_new(client, TICKET_FLUSH, "");
    return ticket != NULL ? zkl_ticket_submit(ticket) : NULL;
}

static void ask(zkl_ticket *ticket, unsigned todo)
{
    zkl_client *client = ticket->client;
    pthread_mutex_lock(&client->mutex);
    if (!client->exited) {
        enqueue(ticket, todo);
    }
    pthread_mutex_unlock(&client->mutex);
    zkl_client_serve(client);
}

void zkl_ticket_release(zkl_ticket *ticket)
{
    if (zkl_client_forked(ticket->client)) {
        return;
    }
    if (ticket->kind == TICKET_CLAIM || ticket->kind == TICKET_OPERATION) {
        ask(ticket, TODO_FORGET);
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
    return ticket->path;
}

void zkl_ticket_look(zkl_ticket *ticket, zkl_ticket_view *view)
{
    zkl_client *client = ticket->client;
    pthread_mutex_lock(&client->mutex);
    view->phase = (zkl_claim_phase)atomic_load_explicit(&ticket->phase, memory_order_relaxed);
    view->settled = ticket->settled || client->exited;
    bool question = ticket->kind == TICKET_CONTENDERS || ticket->kind == TICKET_OPERATION;
    bool unanswered = question && client->exited && !ticket->settled;
    view->code = unanswered ? ZKL_CLOSED : ticket->code;
    view->revocations = ticket->revocations;
    memcpy(view->token, ticket->token, sizeof view->token);
    memcpy(view->node, ticket->node, sizeof view->node);
    view->message[0] = '\0';
    if (ticket->message != NULL) {
        snprintf(view->message, sizeof view->message, "%s", ticket->message);
    } else if (view->phase == ZKL_CLAIM_WAITING && ticket->ahead[0] != '\0') {
        snprintf(view->message, sizeof view->message, "'%s' is ahead", ticket->ahead);
    } else if (view->phase == ZKL_CLAIM_WAITING && ticket->node[0] != '\0' && ticket->wanted.mode == ZKL_MODE_PERMITS) {
        snprintf(view->message, sizeof view->message, "it has not %d of its %d permits left", (int)ticket->wanted.count,
                 (int)ticket->wanted.permits);
    }
    pthread_mutex_unlock(&client->mutex);
    if (view->phase == ZKL_CLAIM_GRANTED && atomic_load(&ticket->lapsed)) {
        /* Seen here before the I/O thread has seen it. */
        bool held_long = atomic_load_explicit(&ticket->hold_until, memory_order_relaxed) <= zkl_clock();
        view->phase = ZKL_CLAIM_LOST;
        view->code = held_long ? ZKL_MAX_HOLD : ZKL_LOST;
        snprintf(view->message, sizeof view->message, "'%.400s' is lost: its %s", ticket->path,
                 held_long ? "max_hold is over" : "lease ran out");
    }
}

int64_t zkl_ticket_remaining(zkl_ticket *ticket)
{
    zkl_client *client = ticket->client;
    /* The lease before the phase: a lapsed claim is marked lost before its lease begins anew. */
    int64_t until = atomic_load_explicit(&client->lease_until, memory_order_acquire);
    if (atomic_load_explicit(&ticket->phase, memory_order_acquire) != ZKL_CLAIM_GRANTED ||
        atomic_load(&ticket->lapsed) || zkl_client_forked(client)) {
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
    atomic_store(&ticket->lapsed, true); /* for good, whatever the I/O thread is about to learn */
    ask(ticket, TODO_LAPSED);
    return 0;
}

bool zkl_ticket_held(zkl_ticket *ticket)
{
    return zkl_ticket_remaining(ticket) > 0;
}

void zkl_ticket_end(zkl_ticket *ticket)
{
    if (!zkl_client_forked(ticket->client)) {
        ask(ticket, TODO_END);
    }
}

const zkl_contender *zkl_ticket_contenders(const zkl_ticket *ticket, int32_t *count)
{
    *count = ticket->contender_count;
    return ticket->contenders;
}
