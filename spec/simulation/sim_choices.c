/*
 * sim_choices: worlds that are run by hand. The caller decides which message arrives next. Two worlds in which the same
 * can happen from now on have the same hash.
 *
 * The hash covers the servers, their sessions, watches, trees and logs, all messages under way and every connection, as
 * they are. It does not cover the inside of a client (an engine and the handle of the C client). A client is
 * deterministic, so its state follows from its inputs in their order. Each input is added to the hash when it is given
 * (sim_note). Two clients that reach the same state on different ways are therefore taken for different, which costs
 * time and misses nothing. The hash leaves out addresses, the global numbers of connections (each is numbered within
 * its client), and fractions of a millisecond, which neither clients nor servers read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_internal.h"

uint64_t sim_mix(uint64_t hash, uint64_t value)
{
    hash ^= value + UINT64_C(0x9e3779b97f4a7c15) + (hash << 6) + (hash >> 2);
    hash = (hash ^ (hash >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ (hash >> 27)) * UINT64_C(0x94d049bb133111eb);
    return hash ^ (hash >> 31);
}

static uint64_t hash_bytes(uint64_t hash, const char *bytes, int64_t length)
{
    for (int64_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

uint64_t sim_hash_text(const char *text)
{
    return hash_bytes(UINT64_C(14695981039346656037), text, (int64_t)strlen(text));
}

void sim_note(int caller, uint64_t what)
{
    if (sim.options.by_hand)
        sim.inputs[caller] = sim_mix(sim.inputs[caller], what);
}

/* ---- messages under way ---- */

uint64_t sim_hash_connection(const sim_connection *connection)
{
    return (uint64_t)(connection->caller + 1) << 16 | (uint64_t)connection->ordinal;
}

static uint64_t hash_operation(uint64_t hash, const sim_operation *operation)
{
    hash = sim_mix(hash, sim_path_hash(operation->path) ^ (uint64_t)operation->type);
    hash = sim_mix(hash, (uint64_t)(uint32_t)operation->mode << 32 ^ (uint64_t)(uint32_t)operation->version);
    if (operation->acl != NULL)
        hash = sim_mix(hash, sim_acl_hash(operation->acl));
    return hash_bytes(hash, operation->data, operation->length);
}

uint64_t sim_hash_request(const sim_request *request)
{
    uint64_t hash = sim_mix((uint64_t)request->type, (uint64_t)request->xid);
    hash = hash_operation(hash, &request->operation);
    for (int i = 0; i < request->operation_count; i++)
        hash = hash_operation(hash, &request->operations[i]);
    hash = sim_mix(hash, (uint64_t)request->session_id ^ (uint64_t)request->watch << 63);
    hash = sim_mix(hash, (uint64_t)request->last_zxid ^ (uint64_t)request->watch_type << 48);
    for (int kind = 0; kind < 3; kind++) {
        uint64_t paths = 0;
        for (int i = 0; i < request->path_count[kind]; i++)
            paths += sim_mix(7, sim_path_hash(request->paths[kind][i]));
        hash = sim_mix(hash, paths);
    }
    if (request->identities != NULL)
        hash = sim_mix(hash, sim_identities_hash(request->identities));
    if (request->scheme != NULL)
        hash = hash_bytes(sim_mix(hash, sim_hash_text(request->scheme)), request->credential,
                          (int64_t)request->credential_length);
    if (request->connection != NULL)
        hash = sim_mix(hash, sim_hash_connection(request->connection));
    if (request->answered && request->reply != NULL)
        hash = sim_mix(hash, sim_hash_reply(request->reply));
    return sim_mix(hash, (uint64_t)request->answered ^ (uint64_t)(uint32_t)request->sync_until << 32);
}

/* Hashes the parts of an answer that the engine reads. */
static uint64_t hash_answer(const sim_reply *reply)
{
    const struct Stat *stat = &reply->stat;
    uint64_t hash = sim_mix((uint64_t)reply->xid, (uint64_t)reply->err);
    hash = sim_mix(hash, sim_path_hash(reply->path) ^ (uint64_t)(uint32_t)stat->version);
    hash = sim_mix(sim_mix(hash, (uint64_t)stat->ephemeralOwner), (uint64_t)stat->czxid);
    hash = hash_bytes(hash, reply->data, reply->data != NULL ? reply->length : 0);
    for (int i = 0; i < reply->child_count; i++)
        hash = sim_mix(hash, sim_path_hash(reply->children[i]));
    for (int i = 0; i < reply->change_count; i++) {
        const sim_change *change = &reply->changes[i];
        hash =
            sim_mix(hash, sim_path_hash(change->path) ^ (uint64_t)change->kind ^ (uint64_t)(uint32_t)change->err << 8);
    }
    hash = sim_mix(hash, (uint64_t)reply->event_type << 8 ^ (uint64_t)reply->connect << 1 ^ (uint64_t)reply->eof);
    return sim_mix(hash, (uint64_t)reply->session_id ^ (uint64_t)(uint32_t)reply->timeout_ms << 40);
}

uint64_t sim_hash_reply(const sim_reply *reply)
{
    return sim_mix(hash_answer(reply), (uint64_t)reply->zxid);
}

static uint64_t hash_one_connection(const sim_connection *connection)
{
    uint64_t flags = (uint64_t)connection->accepted | (uint64_t)connection->established << 1 |
                     (uint64_t)connection->refused << 2 | (uint64_t)connection->reset << 3 |
                     (uint64_t)connection->fragile << 4 | (uint64_t)connection->send_fails << 5 |
                     (uint64_t)connection->up.cut << 6 | (uint64_t)connection->down.cut << 7 |
                     (uint64_t)(connection->handle != NULL) << 8 | (uint64_t)connection->waiting << 9;
    uint64_t hash = sim_mix(sim_hash_connection(connection), flags << 8 | (uint64_t)connection->server);
    hash = sim_mix(hash, connection->session != NULL ? 1 : 0);
    if (connection->identities != NULL)
        hash = sim_mix(hash, sim_identities_hash(connection->identities));
    if (connection->accepted) {
        for (const sim_message *each = connection->up.head; each != NULL; each = each->next)
            hash = sim_mix(hash, sim_hash_request(each->body));
        hash = sim_mix(hash, 1);
        for (const sim_request *each = connection->queue; each != NULL; each = each->next)
            hash = sim_mix(hash, sim_hash_request(each));
    }
    if (connection->handle != NULL) {
        hash = sim_mix(hash, 2);
        for (const sim_message *each = connection->inbox; each != NULL; each = each->next)
            hash = sim_mix(hash, sim_hash_reply(each->body));
        for (const sim_message *each = connection->down.head; each != NULL; each = each->next)
            hash = sim_mix(hash, each->body != NULL ? sim_hash_reply(each->body) : 3);
    }
    return hash;
}

uint64_t sim_hash(sim_counts_fn counts)
{
    uint64_t hash = sim_mix((uint64_t)(sim.now / SIM_MILLISECOND), sim_ensemble_hash());
    uint64_t sum = sim_handles_hash();
    for (const sim_connection *each = sim.connections; each != NULL; each = each->next) {
        if (each->handle != NULL || each->accepted)
            sum += hash_one_connection(each);
    }
    hash = sim_mix(hash, sum);
    for (int i = 0; i < SIM_MAX_CALLERS_BY_HAND; i++) {
        uint64_t down = 0;
        for (int j = 0; j < sim.options.servers; j++)
            down = down << 1 | (uint64_t)sim.network_down[i][j];
        hash = sim_mix(hash, sim.inputs[i] ^ down ^ (uint64_t)sim.send_fails[i] << 8);
    }
    return sim_mix(hash, sim_events_hash(counts));
}

/* ---- possible deliveries ---- */

static bool may_arrive(const sim_connection *connection, bool up)
{
    const sim_channel *channel = up ? &connection->up : &connection->down;
    return channel->head != NULL && !channel->cut && (up ? connection->accepted : connection->handle != NULL);
}

/* Connections are listed newest first. */
static sim_connection *find(int caller, int ordinal)
{
    sim_connection *connection = sim.connections;
    while (connection != NULL && (connection->caller != caller || connection->ordinal != ordinal))
        connection = connection->next;
    return connection;
}

int sim_deliveries(sim_delivery *out, int most)
{
    int count = 0;
    for (int caller = 0; caller < SIM_MAX_CALLERS_BY_HAND; caller++) {
        for (int ordinal = 1; ordinal <= sim.connections_of[caller]; ordinal++) {
            const sim_connection *connection = find(caller, ordinal);
            for (int up = 1; up >= 0 && connection != NULL; up--) {
                if (may_arrive(connection, up) && count < most)
                    out[count++] = (sim_delivery){caller, ordinal, up, connection->handle == NULL};
            }
        }
    }
    return count;
}

void sim_deliver(const sim_delivery *delivery)
{
    sim_connection *connection = find(delivery->caller, delivery->ordinal);
    if (connection == NULL)
        return;
    sim_channel *channel = delivery->up ? &connection->up : &connection->down;
    sim_message *message = channel->head;
    if (message == NULL)
        return;
    channel->head = message->next;
    if (channel->head == NULL)
        channel->tail = NULL;
    if (!delivery->up)
        sim_note(delivery->caller, message->body != NULL ? hash_answer(message->body) : 4);
    channel->deliver(channel->owner, message);
}

static const char *request_name(const sim_request *request)
{
    static const char *const names[] = {"connect",   "ping",   "auth",  "set watches", "create",  "create2",
                                        "delete",    "set",    "multi", "get",         "exists",  "children",
                                        "children2", "remove", "sync",  "close",       "session", "fin"};
    return names[request->type];
}

void sim_describe(const sim_delivery *delivery, char *out, size_t size)
{
    const sim_connection *connection = find(delivery->caller, delivery->ordinal);
    const sim_message *first = delivery->up ? connection->up.head : connection->down.head;
    if (delivery->up) {
        const sim_request *request = first->body;
        snprintf(out, size, "server %d takes client %d's %s (xid %d) of %s", connection->server, delivery->caller,
                 request_name(request), request->xid, sim_path_text(request->operation.path));
    } else {
        const sim_reply *reply = first->body;
        if (reply != NULL && reply->xid == SIM_XID_EVENT)
            snprintf(out, size, "client %d hears of event %d on %s", delivery->caller, reply->event_type,
                     sim_path_text(reply->path));
        else if (reply != NULL && !reply->eof)
            snprintf(out, size, "client %d gets the answer to xid %d", delivery->caller, reply->xid);
        else
            snprintf(out, size, "client %d finds its connection closed", delivery->caller);
    }
}

/* ---- lost connections ---- */

static sim_connection *live_connection(int caller)
{
    sim_connection *connection = sim.connections;
    while (connection != NULL && (connection->caller != caller || connection->handle == NULL ||
                                  !connection->established || connection->reset))
        connection = connection->next;
    return connection;
}

bool sim_can_lose_connection(int caller)
{
    return live_connection(caller) != NULL;
}

void sim_lose_connection(int caller, bool arrives)
{
    sim_connection *connection = live_connection(caller);
    if (connection == NULL)
        return;
    sim_trace("fault: client %d loses its connection %d", caller, connection->ordinal);
    sim_note(caller, 5);
    connection->down.head = connection->down.tail = NULL;
    connection->inbox = connection->inbox_last = NULL;
    if (!arrives) {
        connection->up.head = connection->up.tail = NULL;
        sim_server_forget(connection);
    }
    connection->reset = true;
    sim_connection_tell(connection);
}
