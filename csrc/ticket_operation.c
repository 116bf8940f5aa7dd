/*
 * handle_operation: handles of the program's own reads and writes, and of their watches.
 *
 * One handle serves an operation from its request to the end of its watch. It is settled when the operation is answered, and gets
 * another notification when the watch fires. The engine's side keeps it until the caller drops it.
 */
#include <string.h>

#include "client_private.h"

static void on_done(void *user, zkl_code code, const char *message, zkl_operation_result *result, int32_t failed_part)
{
    zkl_ticket *ticket = user;
    pthread_mutex_lock(&ticket->client->mutex);
    ticket->question->result = result;
    ticket->question->failed_part = failed_part;
    zkl_ticket_answer(ticket, code, message);
    pthread_mutex_unlock(&ticket->client->mutex);
}

static void on_fired(void *user, zkl_node_event event, zkl_code code)
{
    zkl_ticket *ticket = user;
    pthread_mutex_lock(&ticket->client->mutex);
    ticket->question->event = event;
    ticket->question->watch_code = code;
    zkl_ticket_announce(ticket);
    pthread_mutex_unlock(&ticket->client->mutex);
}

static const zkl_operation_host host = {.done = on_done, .fired = on_fired};

void zkl_ticket_operate(zkl_ticket *ticket, unsigned todo, int64_t now)
{
    if ((todo & TODO_START) != 0) {
        ticket->question->operation = ticket->question->request;
        ticket->question->request = NULL;
        zkl_engine_operate(ticket->client->engine, ticket->question->operation, &host, ticket, now);
    }
    if ((todo & TODO_END) != 0) {
        zkl_operation_cancel(ticket->question->operation, now);
    }
    if ((todo & TODO_FORGET) != 0) {
        zkl_operation_forget(ticket->question->operation, now);
        ticket->question->operation = NULL;
        zkl_ticket_let_go(ticket);
    }
}

void zkl_ticket_drop_operation(zkl_ticket *ticket)
{
    if (ticket->question->request != NULL) {
        zkl_operation_forget(ticket->question->request, 0);
    }
    zkl_operation_result_free(ticket->question->result);
}

zkl_ticket *zkl_client_operate(zkl_client *client, const zkl_operation_request *request)
{
    zkl_ticket *ticket = zkl_ticket_ask(client, TICKET_OPERATION, "");
    if (ticket == NULL) {
        return NULL;
    }
    ticket->question->failed_part = -1;
    ticket->question->request = zkl_operation_new(request);
    if (ticket->question->request == NULL) {
        zkl_ticket_drop(ticket);
        return NULL;
    }
    return zkl_ticket_submit(ticket, 0);
}

const zkl_operation_result *zkl_ticket_operation_result(const zkl_ticket *ticket)
{
    return ticket->question->result;
}

void zkl_ticket_drop_result(zkl_ticket *ticket)
{
    zkl_operation_result_free(ticket->question->result);
    ticket->question->result = NULL;
}

int32_t zkl_ticket_failed_part(const zkl_ticket *ticket)
{
    return ticket->question->failed_part;
}

zkl_node_event zkl_ticket_event(zkl_ticket *ticket, zkl_code *code)
{
    zkl_client *client = ticket->client;
    pthread_mutex_lock(&client->mutex);
    zkl_node_event event = ticket->question->event;
    *code = event == ZKL_EVENT_NONE && client->exited ? ZKL_CLOSED : ticket->question->watch_code;
    pthread_mutex_unlock(&client->mutex);
    return event;
}
