/*
 * sim_network: streams that delay messages and keep their order, and the connections between clients and servers. Each connection
 * consists of two streams.
 *
 * There are three faults:
 * - Silence: a cut channel holds everything back, and delivers it late when it is mended, even to a connection that its client
 *   has given up.
 * - A reset: the messages under way are lost from some point on, independently in each direction. Both ends learn of it.
 * - An orderly shutdown.
 */
#include <assert.h>
#include <poll.h>
#include <string.h>

#include "sim_internal.h"

/* Connections have descriptors from here. */
#define FIRST_DESCRIPTOR 1000

/* Kinds of messages from a server to a client. */
enum {
    DOWN_REPLY = 0,
    DOWN_RESET
};

/* ---- channels ---- */

static void pump(void *context, int64_t argument)
{
    sim_channel *channel = context;
    (void)argument;
    while (!channel->cut && channel->head != NULL && channel->head->at <= sim.now) {
        sim_message *message = channel->head;
        channel->head = message->next;
        if (channel->head == NULL)
            channel->tail = NULL;
        channel->deliver(channel->owner, message);
    }
}

void sim_channel_send(sim_channel *channel, int kind, int64_t stamp, void *body)
{
    sim_message *message = sim_alloc(sizeof(*message));
    message->kind = kind;
    message->stamp = stamp;
    message->body = body;
    message->at = sim.now + sim_delay() + channel->extra;
    if (message->at <= channel->last_at && !sim.options.by_hand)
        message->at = channel->last_at + 1;
    channel->last_at = message->at;
    if (channel->tail != NULL)
        channel->tail->next = message;
    else
        channel->head = message;
    channel->tail = message;
    if (!channel->by_hand)
        sim_schedule(message->at, pump, channel, 0);
}

void sim_channel_set_cut(sim_channel *channel, bool cut)
{
    if (channel->cut && !cut && !channel->by_hand)
        sim_schedule(sim.now + sim_delay(), pump, channel, 0);
    channel->cut = cut;
}

int sim_channel_length(const sim_channel *channel)
{
    int length = 0;
    for (const sim_message *each = channel->head; each != NULL; each = each->next)
        length++;
    return length;
}

int sim_channel_drop(sim_channel *channel, int keep)
{
    int length = sim_channel_length(channel);
    if (length <= keep)
        return 0;
    sim_message **link = &channel->head;
    sim_message *last = NULL;
    for (int i = 0; i < keep; i++) {
        last = *link;
        link = &last->next;
    }
    *link = NULL;
    channel->tail = last;
    return length - keep;
}

/* ---- connections ---- */

void sim_connection_tell(sim_connection *connection)
{
    if (connection->handle != NULL && sim.hooks.readable != NULL)
        sim.hooks.readable(sim.hooks.context, connection->caller);
}

static bool is_ephemeral(const sim_operation *operation)
{
    return operation->type == ZOO_CREATE_OP &&
           (operation->mode == ZOO_EPHEMERAL || operation->mode == ZOO_EPHEMERAL_SEQUENTIAL);
}

/* Returns whether a request creates a node that is deleted with its session. */
static bool makes_node(const sim_request *request)
{
    bool makes = (request->type == SIM_CREATE || request->type == SIM_CREATE2) && is_ephemeral(&request->operation);
    for (int i = 0; request->type == SIM_MULTI && i < request->operation_count; i++)
        makes = makes || is_ephemeral(&request->operations[i]);
    return makes;
}

/* The request arrives, but its answer will not. */
static void lose_reply(sim_connection *connection, sim_request *request)
{
    int64_t after = sim.write_after[connection->caller];
    sim.write_lost[connection->caller] = false;
    sim.statistics.lost_creates += request->type != SIM_DELETE;
    sim.statistics.lost_deletes += request->type == SIM_DELETE;
    sim_trace("fault: what client %d hears of its request %d is lost with the connection", connection->caller,
              request->xid);
    if (after > 0)
        sim_server_delay(connection, request, after);
    else
        sim_server_receive(connection, request);
    sim_connection_abort(connection, true);
}

void sim_connection_pass_up(sim_connection *connection, sim_request *request)
{
    bool loses = sim.write_lost[connection->caller] && connection->accepted && connection->session != NULL &&
                 connection->handle != NULL && (request->type == SIM_DELETE || makes_node(request));
    if (request->type == SIM_FIN)
        sim_server_forget(connection);
    else if (loses)
        lose_reply(connection, request);
    else
        sim_server_receive(connection, request);
}

static void deliver_up(void *owner, sim_message *message)
{
    sim_connection_pass_up(owner, message->body);
}

void sim_connection_pass_down(sim_connection *connection, const sim_reply *reply)
{
    if (connection->handle == NULL)
        return;
    if (reply->eof)
        connection->fragile = true;
    sim_message *copy = sim_alloc(sizeof(*copy));
    memcpy(&copy->body, &reply, sizeof(copy->body));
    if (connection->inbox_last != NULL)
        connection->inbox_last->next = copy;
    else
        connection->inbox = copy;
    connection->inbox_last = copy;
    sim_connection_tell(connection);
}

static void deliver_down(void *owner, sim_message *message)
{
    sim_connection *connection = owner;
    if (message->kind != DOWN_RESET) {
        sim_connection_pass_down(connection, message->body);
        return;
    }
    if (connection->handle == NULL)
        return;
    connection->reset = true;
    /* The kernel discards what was not read yet, or keeps it, at random. */
    if (connection->inbox != NULL && sim_chance(1, 2)) {
        connection->inbox = connection->inbox_last = NULL;
        sim.statistics.lost_replies++;
    }
    sim_connection_tell(connection);
}

static void establish(void *context, int64_t argument)
{
    sim_connection *connection = context;
    (void)argument;
    if (connection->handle == NULL)
        return;
    bool swallowed = connection->up.cut && !sim.hangs[connection->server];
    connection->waiting = swallowed && sim.options.by_hand;
    if (connection->waiting)
        return;
    if (swallowed) {
        sim_schedule(sim.now + 50 * SIM_MILLISECOND, establish, connection, 0);
        return;
    }
    if (connection->passage != NULL)
        connection->established = sim_link_accept(connection);
    else
        connection->established = connection->accepted = sim_server_accepts(connection->server);
    connection->refused = !connection->established;
    sim_note(connection->caller, connection->established ? 2 : 3);
    sim_connection_tell(connection);
}

void sim_slow_down(int caller, int64_t extra)
{
    sim.slow[caller] = extra;
}

sim_connection *sim_connect(struct _zhandle *handle, int caller, int server, int link)
{
    sim_connection *connection = sim_alloc(sizeof(*connection));
    connection->id = ++sim.last_connection;
    connection->ordinal = ++sim.connections_of[caller];
    connection->descriptor = FIRST_DESCRIPTOR + connection->id;
    connection->handle = handle;
    connection->caller = caller;
    connection->server = server;
    connection->up.deliver = deliver_up;
    connection->down.deliver = deliver_down;
    connection->up.owner = connection->down.owner = connection;
    connection->up.by_hand = connection->down.by_hand = sim.options.by_hand;
    if (link != 0)
        sim_link_attach(connection, link);
    connection->up.cut = connection->down.cut = sim.network_down[caller][connection->server];
    connection->up.extra = connection->down.extra = sim.slow[caller];
    connection->next = sim.connections;
    sim.connections = connection;
    sim.statistics.connections++;
    sim_schedule(sim.now + sim_delay(), establish, connection, 0);
    return connection;
}

/* ---- connections that a client makes before the C client uses one of them ---- */

/* Their owner in place of a handle, until one is handed over. */
static struct _zhandle *const dialing = (struct _zhandle *)&sim;

/* So many descriptors after the first connection's, those of sim_dials_descriptor begin. */
#define DIALS 500000

sim_name sim_resolve(const char *host)
{
    sim_host *found;
    bool known = sim_find_hosts(host, &found) == 1, fails = sim.names_fail[sim.caller];
    sim.statistics.name_failures += fails;
    if (fails || (sim_hosts_matter(host) && !known))
        return SIM_NAME_UNKNOWN;
    bool silent = known && found->link == 0 && sim.name_silent[sim.caller][found->server];
    return silent ? SIM_NAME_PENDING : SIM_NAME_FOUND;
}

void sim_silence_name(int caller, int server, bool silent)
{
    bool answered = sim.name_silent[caller][server] && !silent;
    sim.name_silent[caller][server] = silent;
    sim.names_answered[caller] = sim.names_answered[caller] || answered;
    if (answered && sim.hooks.readable != NULL)
        sim.hooks.readable(sim.hooks.context, caller);
}

void sim_note_answers(void)
{
    sim.names_answered[sim.caller] = false;
}

int sim_dial(const char *host)
{
    sim_host *found = NULL;
    sim_find_hosts(host, &found);
    sim_connection *connection = sim_connect(dialing, sim.caller, found->server, found->link);
    sim_trace("client %d: connects to %s", sim.caller, host);
    return connection->descriptor;
}

static sim_connection *dialed(int descriptor)
{
    sim_connection *connection = sim_connection_of(descriptor);
    assert(connection != NULL && connection->handle == dialing);
    return connection;
}

static sim_dialed state_of(const sim_connection *connection)
{
    return connection->refused || connection->reset ? SIM_DIAL_FAILED
           : connection->established                ? SIM_DIAL_CONNECTED
                                                    : SIM_DIAL_PENDING;
}

sim_dialed sim_dial_state(int descriptor)
{
    return state_of(dialed(descriptor));
}

void sim_hang_up(int descriptor)
{
    sim_connection *connection = dialed(descriptor);
    if (sim.handed_over[connection->caller] == connection)
        sim.handed_over[connection->caller] = NULL;
    sim_connection_close(connection);
}

bool sim_dial_is_of(int descriptor, int dials)
{
    return dialed(descriptor)->caller == dials - FIRST_DESCRIPTOR - DIALS;
}

void sim_hand_over(int descriptor)
{
    sim_connection *connection = dialed(descriptor);
    sim.handed_over[connection->caller] = connection;
}

sim_connection *sim_handed_over(int caller)
{
    sim_connection *connection = sim.handed_over[caller];
    sim.handed_over[caller] = NULL;
    return connection;
}

int sim_dials_descriptor(void)
{
    return FIRST_DESCRIPTOR + DIALS + sim.caller;
}

static bool has_dialed(int caller)
{
    if (sim.names_answered[caller])
        return true;
    for (const sim_connection *each = sim.connections; each != NULL; each = each->next) {
        if (each->caller == caller && each->handle == dialing && state_of(each) != SIM_DIAL_PENDING)
            return true;
    }
    return false;
}

sim_connection *sim_connections(void)
{
    return sim.connections;
}

sim_connection *sim_connection_of(int descriptor)
{
    sim_connection *connection = sim.connections;
    while (connection != NULL && connection->descriptor != descriptor)
        connection = connection->next;
    return connection;
}

bool sim_connection_send(sim_connection *connection, sim_request *request)
{
    if (sim.send_fails[connection->caller]) {
        sim.send_fails[connection->caller] = false;
        connection->send_fails = true;
    }
    if (connection->reset || connection->refused || connection->send_fails) {
        sim.statistics.send_failures++;
        return false;
    }
    if (connection->fragile) {
        /* The peer has closed its end: it answers this message by a reset, and the message is lost. */
        connection->send_fails = true;
        sim.statistics.lost_requests++;
        return true;
    }
    sim_channel_send(&connection->up, 0, 0, request);
    return true;
}

/* Forgets closed connections that have no messages under way. */
static void forget_finished(void)
{
    sim_connection **link = &sim.connections;
    while (*link != NULL) {
        sim_connection *each = *link;
        if (each->handle == NULL && !each->accepted && each->up.head == NULL && !sim_link_has(each))
            *link = each->next;
        else
            link = &each->next;
    }
}

void sim_connection_close(sim_connection *connection)
{
    connection->handle = NULL;
    connection->inbox = connection->inbox_last = NULL;
    if (connection->accepted || sim_link_has(connection)) {
        sim_request *fin = sim_alloc(sizeof(*fin));
        fin->type = SIM_FIN;
        sim_channel_send(&connection->up, 0, 0, fin);
    }
    forget_finished();
}

void sim_connection_reply(sim_connection *connection, const sim_reply *reply)
{
    if (!connection->accepted)
        return;
    sim_reply *copy = sim_alloc(sizeof(*copy));
    *copy = *reply;
    sim_channel_send(&connection->down, DOWN_REPLY, 0, copy);
}

void sim_connection_shut(sim_connection *connection)
{
    if (!connection->accepted)
        return;
    sim_reply eof = {.path = -1, .eof = true};
    sim_connection_reply(connection, &eof);
    sim_server_forget(connection);
}

void sim_connection_abort(sim_connection *connection, bool lose_replies)
{
    /* The link still receives the requests that are under way to it. */
    if (!sim_link_has(connection))
        sim.statistics.lost_requests += sim_channel_drop(&connection->up, 0);
    if (lose_replies) {
        int keep = (int)sim_below(sim_channel_length(&connection->down) + 1);
        sim.statistics.lost_replies += sim_channel_drop(&connection->down, keep);
    }
    if (connection->accepted)
        sim_server_forget(connection);
    if (connection->handle != NULL || sim_link_has(connection))
        sim_channel_send(&connection->down, DOWN_RESET, 0, NULL);
}

/* ---- faults ---- */

void sim_reset_connections(int caller)
{
    for (sim_connection *each = sim.connections; each != NULL; each = each->next) {
        if ((caller >= 0 && each->caller != caller) || !each->established || each->handle == NULL || each->reset)
            continue;
        sim_trace("fault: reset connection %d of client %d", each->id, each->caller);
        /* The server first reads the requests up to some point: they are executed, but not answered. */
        int arrive = each->up.cut ? 0 : (int)sim_below(sim_channel_length(&each->up) + 1);
        while (arrive-- > 0 && each->up.head != NULL) {
            sim_message *message = each->up.head;
            each->up.head = message->next;
            if (each->up.head == NULL)
                each->up.tail = NULL;
            each->up.deliver(each, message);
        }
        sim_connection_abort(each, true);
    }
}

void sim_set_network(int caller, int server, bool up)
{
    for (int i = 0; i < SIM_MAX_CALLERS; i++) {
        for (int j = 0; j < SIM_MAX_SERVERS; j++) {
            if ((caller < 0 || caller == i) && (server < 0 || server == j))
                sim.network_down[i][j] = !up;
        }
    }
    for (sim_connection *each = sim.connections; each != NULL; each = each->next) {
        bool cut = sim.network_down[each->caller][each->server];
        if (cut != each->up.cut) {
            sim_channel_set_cut(&each->up, cut);
            sim_channel_set_cut(&each->down, cut);
        }
        if (each->waiting && !cut)
            sim_schedule(sim.now, establish, each, 0);
    }
}

void sim_hang_server(int server, bool hangs)
{
    sim.hangs[server] = hangs;
    sim_set_network(-1, server, !hangs);
}

void sim_stall_requests(int caller, bool stall)
{
    for (sim_connection *each = sim.connections; each != NULL; each = each->next) {
        if (each->caller == caller && !sim.network_down[caller][each->server])
            sim_channel_set_cut(&each->up, stall);
    }
}

void sim_fail_next_send(int caller)
{
    sim.send_fails[caller] = true;
}

void sim_shut_down(int descriptor)
{
    sim_connection *connection = sim_connection_of(descriptor);
    if (connection != NULL)
        connection->reset = true;
}

void sim_lose_next_write(int caller, int64_t after)
{
    sim.write_lost[caller] = true;
    sim.write_after[caller] = after;
}

short sim_poll(int descriptor, short events)
{
    if (descriptor >= FIRST_DESCRIPTOR + DIALS)
        return has_dialed(descriptor - FIRST_DESCRIPTOR - DIALS) ? POLLIN : 0;
    const sim_connection *connection = sim_connection_of(descriptor);
    if (connection == NULL || connection->handle == NULL)
        return POLLNVAL;
    if (connection->refused)
        return (short)(POLLERR | POLLHUP | (events & (POLLIN | POLLOUT)));
    int found = 0;
    if (connection->established)
        found |= events & POLLOUT;
    if (connection->inbox != NULL || connection->reset)
        found |= events & POLLIN;
    if (connection->reset)
        found |= POLLERR | POLLHUP;
    return (short)found;
}
