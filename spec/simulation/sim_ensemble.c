/*
 * sim_ensemble: the servers. One leader orders all writes in a log, and followers copy the log. A transaction is committed when a
 * majority has it. Every server applies the transactions that it knows to be committed at its own pace.
 *
 * It models these facts, which a client can notice:
 *
 * - Reads come from the tree of the server that the client is connected to, however old that tree is.
 *
 * - A follower that is cut off from its leader, or a leader that is cut off from its majority, goes on answering reads and pings
 *   until it notices. This may take longer than a session lives (LearnerSessionTracker.java, Leader.java).
 *
 * - The leader keeps the sessions. It pings each follower twice a tick. A follower reports its active sessions only in answer to
 *   such a ping (Learner.ping). A request that arrives while a report is made may be missing in it
 *   (LearnerSessionTracker.touchSession). A link between servers can be silent in one direction. A new leader restarts every
 *   session's timer with the timeout that was negotiated when the session was created.
 *
 * - The session tracker first takes a session whose time is over out of its queue, and ends it a moment later. A report in
 *   between changes nothing (SessionTrackerImpl.run).
 *
 * - A proposal that never reached a majority is forgotten or survives, depending on whether the next leader knows it.
 *
 * - sync is answered when all earlier proposals of the leader are committed. The leader does not ask a majority
 *   (Leader.java:1723).
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_internal.h"

typedef enum {
    DOWN = 0,
    LOOKING,
    FOLLOWING,
    LEADING
} role;

typedef struct {
    int id;
    role role;
    bool deposed;       /* It leads, but a majority has a newer leader. */
    bool outstanding;   /* It is deposed and has a proposal that will never be committed. Syncs wait behind it. */
    int64_t leadership; /* The epoch under which it leads or follows. */
    int64_t stamp;      /* Identifies its present stay with the leader. Messages of earlier stays are void. */
    int following;
    int logged; /* Log entries on its disk. */
    int acked;  /* Those that the leader knows. */
    int commit_known;
    int applied;
    bool noticing;
    int64_t lag_until;
    sim_tree tree;
    sim_watch_table watches;
} server;

/* Messages between servers. */
enum {
    LINK_PROPOSAL = 0, /* body: none, kind and log position */
    LINK_COMMIT,
    LINK_ACK,
    LINK_REQUEST,
    LINK_SYNCED,
    LINK_REVALIDATE,
    LINK_VALIDITY,
    LINK_PING,
    LINK_TOUCHES
};

typedef struct {
    int position;
    sim_request *request;
    bool valid;
    int session_count;
    sim_session **sessions;
    int32_t *timeouts; /* the timeout of each session, as its connection negotiated it */
} letter;

typedef struct {
    int from, to;
    sim_channel channel;
} link;

typedef struct waiting_sync {
    struct waiting_sync *next;
    sim_request *request;
    int position;
    int64_t stamp; /* stamp of the follower's stay */
} waiting_sync;

static server servers[SIM_MAX_SERVERS];
static link links[SIM_MAX_SERVERS][SIM_MAX_SERVERS];
static sim_transaction **entries; /* the log; position p is entries[p - 1] */
static int entry_count, entry_capacity;
static int committed;
static int64_t epoch, counter, stamps, leaderships;
static sim_tree prepared; /* the leader's tree, with proposals that are not committed yet */
static sim_tree truth;    /* the committed tree */
static sim_session *sessions;
static int64_t last_session;
static waiting_sync *syncs;
static bool election_planned;
static int delayed_writes;
static sim_tree backup; /* count 0: there is none */
static bool replacing;

static void plan_election(void);
static void watch_links(void);
static void apply_known(server *at);
static void drain(server *at, sim_connection *connection);
static void submit(server *leader, sim_request *request);
static bool broken(const server *leader);
static void begin_expiry(sim_session *session);

/* ---- roles ---- */

static server *active_leader(void)
{
    for (int i = 0; i < sim.options.servers; i++) {
        if (servers[i].role == LEADING && !servers[i].deposed)
            return &servers[i];
    }
    return NULL;
}

int sim_leader(void)
{
    const server *leader = active_leader();
    return leader != NULL ? leader->id : -1;
}

static bool reachable(const server *one, const server *other)
{
    return one->role != DOWN && other->role != DOWN && !sim.link_down[one->id][other->id] &&
           !sim.link_down[other->id][one->id];
}

static bool joined(const server *follower, const server *leader)
{
    return follower->role == FOLLOWING && leader->role == LEADING && !leader->deposed &&
           follower->following == leader->id && follower->leadership == leader->leadership;
}

static int majority(void)
{
    return sim.options.servers / 2 + 1;
}

static void send_letter(int from, int to, int kind, int64_t stamp, letter content)
{
    letter *copy = sim_alloc(sizeof(*copy));
    *copy = content;
    sim_channel_send(&links[from][to].channel, kind, stamp, copy);
}

/* ---- sessions ---- */

static sim_session *find_session(int64_t id)
{
    sim_session *session = sessions;
    while (session != NULL && session->id != id)
        session = session->next;
    return session;
}

static bool session_alive(const sim_session *session)
{
    return session->created_at != 0 && session->closed_at == 0 && !session->closing;
}

static sim_session *new_session(int32_t timeout_ms, int caller)
{
    sim_session *session = sim_alloc(sizeof(*session));
    session->id = ++last_session;
    session->password = sim.options.by_hand ? session->id : (int64_t)(sim_random() >> 1);
    session->timeout_ms = session->present_ms = session->told_ms = timeout_ms;
    session->caller = caller;
    session->owner = -1;
    session->next = sessions;
    sessions = session;
    return session;
}

void sim_session_told(int64_t id, int32_t timeout_ms)
{
    sim_session *session = find_session(id);
    if (session != NULL && timeout_ms < session->told_ms)
        session->told_ms = timeout_ms;
}

/*
 * The leader restarts the session's timer. This has no effect after the session tracker has taken the session out of
 * its queue. Real servers with different limits may also shorten a timer before they tell the client, or without ever
 * telling it (docs/reliability.md, "What is not promised"). Here they wait until they have told the client.
 */
static void touch(sim_session *session, int32_t timeout_ms)
{
    if (timeout_ms < session->told_ms)
        timeout_ms = session->told_ms;
    session->touched = sim.now;
    if (!session->polled)
        session->restarted = sim.now;
    session->present_ms = timeout_ms;
}

/*
 * A server notes a request of the session, to report the session. Real servers may note it in the table that is being
 * reported, too late for that report and then in no other table. Here this happens to one request in three. It never
 * happens twice in a row, since the next request is noted in the new table.
 */
static void note_touch(sim_session *session, int index)
{
    bool lost = !sim.options.by_hand && !session->missed_at[index] && sim_chance(1, 3);
    session->missed_at[index] = lost;
    session->touched_at[index] = session->touched_at[index] || !lost;
}

/* Returns the timeout that the session's latest connection to this server has negotiated. */
static int32_t timeout_at(const server *at, const sim_session *session)
{
    int32_t timeout_ms = session->present_ms;
    for (const sim_connection *each = sim.connections; each != NULL; each = each->next) {
        if (each->server == at->id && each->accepted && each->session == session)
            timeout_ms = each->timeout_ms;
    }
    return timeout_ms;
}

/*
 * Returns the leader's answer to a request of this session: ZOK or an error. The server of the request may become the
 * session's owner.
 */
static int check_session(const sim_request *request)
{
    sim_session *session = request->session;
    if (session == NULL || request->owner_server < 0)
        return session != NULL && !session_alive(session) ? ZSESSIONEXPIRED : ZOK;
    if (!session_alive(session))
        return ZSESSIONEXPIRED;
    if (session->owner < 0)
        session->owner = request->owner_server;
    if (session->owner != request->owner_server) {
        sim.statistics.moved++;
        return ZSESSIONMOVED;
    }
    return ZOK;
}

/* ---- applying the log ---- */

static void answer(server *at, sim_request *request, const sim_reply *reply)
{
    if (request->connection == NULL || !request->connection->accepted)
        return;
    request->reply = sim_alloc(sizeof(*request->reply));
    *request->reply = *reply;
    request->reply->xid = request->xid;
    request->answered = true;
    drain(at, request->connection);
}

static void send_connect_reply(sim_connection *connection, const sim_session *session)
{
    sim_reply reply = {.connect = true, .path = -1};
    if (session != NULL) {
        reply.session_id = session->id;
        reply.password = session->password;
        reply.timeout_ms = connection->timeout_ms;
    }
    sim_connection_reply(connection, &reply);
}

static void answer_transaction(server *at, const sim_transaction *transaction, const struct Stat *stats)
{
    sim_request *request = transaction->request;
    if (request == NULL || request->server != at->id || request->connection == NULL)
        return;
    if (transaction->err == ZSESSIONMOVED) {
        sim_connection_shut(request->connection);
        return;
    }
    if (request->type == SIM_CREATE_SESSION) {
        request->connection->session = request->session;
        send_connect_reply(request->connection, request->session);
        return;
    }
    sim_reply reply = {.zxid = at->tree.zxid, .err = transaction->err, .path = -1};
    if (request->type == SIM_MULTI && !transaction->malformed) {
        reply.err = ZOK; /* the errors are in the results of the operations */
        reply.changes = transaction->changes;
        reply.change_count = transaction->change_count;
        reply.stats = stats;
    } else if (transaction->change_count > 0) {
        reply.path = transaction->changes[0].path;
        const sim_node *node = sim_tree_find(&at->tree, reply.path);
        if (node != NULL)
            sim_tree_stat(&at->tree, node, &reply.stat);
    }
    answer(at, request, &reply);
}

static void take_restored(server *at, const sim_tree *data);

static void apply_one(server *at)
{
    const sim_transaction *transaction = entries[at->applied++];
    if (transaction->restores != NULL) {
        take_restored(at, transaction->restores);
        return;
    }
    const sim_request *request = transaction->request;
    struct Stat *stats = NULL;
    if (request != NULL && request->type == SIM_MULTI && request->server == at->id)
        stats = sim_alloc((size_t)(transaction->change_count + 1) * sizeof(*stats));
    for (int i = 0; i < transaction->change_count; i++) {
        const sim_change *change = &transaction->changes[i];
        if (transaction->err != ZOK)
            continue;
        const sim_node *node = sim_tree_find(&at->tree, change->path);
        const sim_acl *acl = change->kind == SIM_CHANGE_CREATE || node == NULL ? change->acl : node->acl;
        sim_tree_apply(&at->tree, change, transaction->zxid);
        const sim_node *parent = sim_tree_find(&at->tree, sim_path_parent(change->path));
        const sim_acl *parent_acl = parent != NULL ? parent->acl : NULL;
        if (stats != NULL && change->kind == SIM_CHANGE_SET)
            sim_tree_stat(&at->tree, sim_tree_find(&at->tree, change->path), &stats[i]);
        switch (change->kind) {
        case SIM_CHANGE_NONE:
            break;
        case SIM_CHANGE_CREATE:
            sim_watch_fire(&at->watches, change->path, acl, ZOO_CREATED_EVENT, true, false);
            sim_watch_fire(&at->watches, sim_path_parent(change->path), parent_acl, ZOO_CHILD_EVENT, false, true);
            break;
        case SIM_CHANGE_DELETE:
            sim_watch_fire(&at->watches, change->path, acl, ZOO_DELETED_EVENT, true, true);
            sim_watch_fire(&at->watches, sim_path_parent(change->path), parent_acl, ZOO_CHILD_EVENT, false, true);
            break;
        case SIM_CHANGE_SET:
            sim_watch_fire(&at->watches, change->path, acl, ZOO_CHANGED_EVENT, true, false);
            break;
        }
    }
    at->tree.zxid = transaction->zxid;
    answer_transaction(at, transaction, stats);
    if (transaction->closes != NULL) {
        for (sim_connection *each = sim.connections; each != NULL; each = each->next) {
            if (each->server == at->id && each->accepted && each->session == transaction->closes)
                sim_connection_shut(each);
        }
    }
    for (sim_connection *each = sim.connections; each != NULL; each = each->next) {
        if (each->server == at->id && each->queue != NULL)
            drain(at, each);
    }
}

/* A follower applies some transactions that it knows to be committed. The others follow in a later event. */
static void apply_event(void *context, int64_t stamp)
{
    server *at = context;
    if (at->role != FOLLOWING || at->stamp != stamp || at->applied >= at->commit_known)
        return;
    if (at->lag_until > sim.now) {
        sim_schedule(at->lag_until, apply_event, at, stamp);
        return;
    }
    apply_one(at);
    if (at->applied < at->commit_known)
        sim_schedule(sim.now + (sim_chance(1, 4) ? sim_delay() : 0), apply_event, at, stamp);
}

static void apply_known(server *at)
{
    if (at->role == LEADING || at->role == LOOKING) {
        while (at->applied < at->commit_known)
            apply_one(at);
    } else if (at->applied < at->commit_known) {
        sim_schedule(sim.now + (sim_chance(1, 3) ? sim_delay() : 0), apply_event, at, at->stamp);
    }
}

/* ---- the leader: proposing and committing ---- */

static void restore_truth(const sim_tree *data);

static void commit_until(int position)
{
    while (committed < position) {
        const sim_transaction *transaction = entries[committed++];
        if (transaction->restores != NULL) {
            restore_truth(transaction->restores);
            continue;
        }
        for (int i = 0; i < transaction->change_count && transaction->err == ZOK; i++) {
            const sim_change *change = &transaction->changes[i];
            const sim_node *node = sim_tree_find(&truth, change->path);
            int64_t owner = node != NULL ? node->owner : change->owner;
            int64_t by = transaction->request != NULL && transaction->request->session != NULL
                             ? transaction->request->session->id
                             : 0;
            sim_tree_apply(&truth, change, transaction->zxid);
            if (change->kind == SIM_CHANGE_CREATE)
                sim_trace("committed %llx: create %s owner %lld", (long long)transaction->zxid,
                          sim_path_text(change->path), (long long)owner);
            if (change->kind == SIM_CHANGE_DELETE)
                sim_trace("committed %llx: delete %s owner %lld by %lld", (long long)transaction->zxid,
                          sim_path_text(change->path), (long long)owner, (long long)by);
            if (change->kind == SIM_CHANGE_SET)
                sim_trace("committed %llx: set %s, %d bytes, by %lld", (long long)transaction->zxid,
                          sim_path_text(change->path), change->length, (long long)by);
            if (change->kind == SIM_CHANGE_SET && sim.hooks.changed != NULL)
                sim.hooks.changed(sim.hooks.context, sim_path_text(change->path), by);
            if (change->kind == SIM_CHANGE_CREATE && sim.hooks.created != NULL)
                sim.hooks.created(sim.hooks.context, sim_path_text(change->path), owner, transaction->zxid);
            if (change->kind == SIM_CHANGE_DELETE && sim.hooks.deleted != NULL)
                sim.hooks.deleted(sim.hooks.context, sim_path_text(change->path), owner, by, transaction->zxid);
        }
        truth.zxid = transaction->zxid;
    }
}

static void answer_syncs(server *leader)
{
    waiting_sync **place = &syncs;
    while (*place != NULL) {
        waiting_sync *each = *place;
        if (each->position > committed) {
            place = &each->next;
            continue;
        }
        *place = each->next;
        sim_request *request = each->request;
        server *origin = &servers[request->server];
        if (origin == leader) {
            request->sync_until = each->position;
            if (request->connection->accepted)
                drain(leader, request->connection);
        } else if (joined(origin, leader) && origin->stamp == each->stamp) {
            send_letter(leader->id, origin->id, LINK_SYNCED, each->stamp, (letter){.request = request});
        }
    }
}

static void recompute_commit(server *leader)
{
    int having[SIM_MAX_SERVERS] = {leader->logged};
    int count = 1;
    for (int i = 0; i < sim.options.servers; i++) {
        if (joined(&servers[i], leader))
            having[count++] = servers[i].acked;
    }
    int position = 0;
    for (int i = 0; i < count; i++) {
        int supporters = 0;
        for (int j = 0; j < count; j++)
            supporters += having[j] >= having[i];
        if (supporters >= majority() && having[i] > position)
            position = having[i];
    }
    if (position <= committed)
        return;
    commit_until(position);
    leader->commit_known = position;
    for (int i = 0; i < sim.options.servers; i++) {
        if (joined(&servers[i], leader))
            send_letter(leader->id, i, LINK_COMMIT, servers[i].stamp, (letter){.position = position});
    }
    answer_syncs(leader);
    apply_known(leader);
}

static void leader_logged(void *context, int64_t argument)
{
    server *leader = context;
    int position = (int)(argument & INT32_MAX);
    if (leader->role != LEADING || leader->deposed || leader->leadership != argument >> 32 ||
        leader->logged >= position)
        return;
    leader->logged = position;
    recompute_commit(leader);
}

static void append(sim_transaction *transaction)
{
    if (entry_count == entry_capacity) {
        int capacity = entry_capacity ? entry_capacity * 2 : 512;
        sim_transaction **larger = sim_alloc((size_t)capacity * sizeof(*larger));
        if (entry_count > 0)
            memcpy(larger, entries, (size_t)entry_count * sizeof(sim_transaction *));
        entries = larger;
        entry_capacity = capacity;
    }
    entries[entry_count++] = transaction;
    sim.statistics.transactions++;
}

static void propose(server *leader, sim_transaction *transaction)
{
    transaction->zxid = (epoch << 32) | ++counter;
    append(transaction);
    if (transaction->creates != NULL)
        transaction->creates->created_at = entry_count;
    if (transaction->closes != NULL)
        transaction->closes->closed_at = entry_count;
    prepared.zxid = transaction->zxid;
    if (sim.options.in_order && sim.options.servers == 1)
        leader_logged(leader, (leader->leadership << 32) | entry_count);
    else
        sim_schedule(sim.now + sim_delay() / 4, leader_logged, leader, (leader->leadership << 32) | entry_count);
    for (int i = 0; i < sim.options.servers; i++) {
        if (joined(&servers[i], leader))
            send_letter(leader->id, i, LINK_PROPOSAL, servers[i].stamp, (letter){.position = entry_count});
    }
}

/* ---- the leader: preparing requests ---- */

static void prepare_close(sim_transaction *transaction, sim_session *session)
{
    if (session == NULL || session->closed_at != 0 || session->created_at == 0)
        return;
    session->closing = true;
    transaction->closes = session;
    transaction->changes = sim_alloc((size_t)prepared.count * sizeof(*transaction->changes));
    for (int i = 0; i < prepared.count; i++) {
        const sim_node *node = &prepared.nodes[i];
        if (node->owner == session->id)
            transaction->changes[transaction->change_count++] =
                (sim_change){.kind = SIM_CHANGE_DELETE, .path = node->path};
    }
}

static void submit(server *leader, sim_request *request)
{
    if (leader->deposed) {
        leader->outstanding = true;
        return;
    }
    sim_transaction *transaction = sim_alloc(sizeof(*transaction));
    transaction->request = request;
    int session_error = ZOK;
    if (request->type != SIM_CREATE_SESSION && request->type != SIM_CLOSE)
        session_error = check_session(request);
    if (request->type == SIM_CREATE_SESSION) {
        transaction->creates = request->session;
        touch(request->session, request->session->timeout_ms);
        request->session->owner = request->owner_server;
    } else if (request->type == SIM_CLOSE) {
        prepare_close(transaction, request->session);
    } else if (request->type == SIM_MULTI) {
        sim_prepare_multi(&prepared, transaction, request, session_error, (epoch << 32) | (counter + 1));
        if (session_error == ZSESSIONMOVED)
            transaction->err = ZSESSIONMOVED;
    } else {
        transaction->err = session_error;
        transaction->changes = sim_alloc(sizeof(*transaction->changes));
        if (session_error == ZOK)
            transaction->err = sim_prepare_operation(&prepared, &request->operation, request, transaction->changes);
        transaction->change_count = transaction->err == ZOK ? 1 : 0;
    }
    if (transaction->err == ZOK && request->type != SIM_MULTI) {
        for (int i = 0; i < transaction->change_count; i++)
            sim_tree_apply(&prepared, &transaction->changes[i], (epoch << 32) | (counter + 1));
    }
    propose(leader, transaction);
}

static void submit_sync(server *leader, sim_request *request, int64_t stamp)
{
    if (leader->deposed) {
        if (!leader->outstanding) {
            request->sync_until = leader->applied;
            drain(leader, request->connection);
        }
        return;
    }
    waiting_sync *fresh = sim_alloc(sizeof(*fresh));
    *fresh = (waiting_sync){NULL, request, entry_count, stamp};
    waiting_sync **place = &syncs;
    while (*place != NULL)
        place = &(*place)->next;
    *place = fresh;
    answer_syncs(leader);
}

/* Returns whether a reconnecting client's session lives. If so, it belongs to the new server from now on. */
static bool revalidate(const sim_request *request)
{
    sim_session *session = request->session;
    if (session == NULL || !session_alive(session))
        return false;
    session->owner = request->server;
    touch(session, request->connection->timeout_ms);
    return true;
}

/* ---- a server and its clients ---- */

bool sim_server_accepts(int index)
{
    return servers[index].role == FOLLOWING || servers[index].role == LEADING;
}

static bool cut_off(const server *at)
{
    const server *leader = active_leader();
    return leader == NULL || (leader != at && !(joined(at, leader) && reachable(at, leader)));
}

unsigned sim_serving(void)
{
    unsigned serving = 0;
    int count = 0;
    for (int i = 0; i < sim.options.servers; i++) {
        if (!cut_off(&servers[i]) && servers[i].lag_until <= sim.now) {
            serving |= 1U << i;
            count++;
        }
    }
    return count >= majority() ? serving : 0;
}

bool sim_would_serve(int caller, int index)
{
    return !sim.network_down[caller][index] && !sim.names_fail[caller] && !sim.name_silent[caller][index] &&
           !sim.send_fails[caller] && sim.throttles[caller] == 0 && sim_client_zxid(caller) <= servers[index].tree.zxid;
}

static int by_name(const void *one, const void *other)
{
    return strcmp(sim_path_text(*(const int *)one), sim_path_text(*(const int *)other));
}

static void fill_children(const server *at, int path, sim_reply *reply)
{
    int count = sim_tree_children(&at->tree, path);
    reply->children = sim_alloc((size_t)(count + 1) * sizeof(*reply->children));
    for (int i = 0; i < at->tree.count; i++) {
        if (at->tree.nodes[i].parent != path)
            continue;
        /* A real server's order is that of a hash set. */
        int place = (int)sim_below(reply->child_count + 1);
        reply->children[reply->child_count++] = reply->children[place];
        reply->children[place] = at->tree.nodes[i].path;
    }
    if (sim.options.by_hand)
        qsort(reply->children, (size_t)reply->child_count, sizeof(*reply->children), by_name);
}

static void execute_read(server *at, sim_request *request)
{
    sim_reply reply = {.xid = request->xid, .zxid = at->tree.zxid, .path = -1};
    sim_connection *connection = request->connection;
    const sim_node *node = sim_tree_find(&at->tree, request->operation.path);
    if (cut_off(at))
        sim.statistics.deposed_reads++;
    /* Only the leader knows whether a session is over or has moved. */
    if (at == active_leader() && request->type != SIM_SET_WATCHES) {
        reply.err = check_session(request);
        if (reply.err == ZSESSIONMOVED) {
            sim_connection_shut(connection);
            return;
        }
    }
    if (reply.err != ZOK) {
        sim_connection_reply(connection, &reply);
        return;
    }
    switch (request->type) {
    case SIM_GET:
        if (node == NULL) {
            reply.err = ZNONODE;
        } else if (!sim_permits(node, ZOO_PERM_READ, request)) {
            reply.err = ZNOAUTH;
        } else {
            reply.data = node->data;
            reply.length = node->length;
            sim_tree_stat(&at->tree, node, &reply.stat);
            if (request->watch)
                sim_watch_add(&at->watches, connection, node->path, false);
        }
        break;
    case SIM_EXISTS:
        if (node == NULL) {
            reply.err = ZNONODE;
        } else if (sim_hidden(node) || (sim.exists_needs_read && !sim_permits(node, ZOO_PERM_READ, request))) {
            reply.err = ZNOAUTH;
            break;
        } else {
            sim_tree_stat(&at->tree, node, &reply.stat);
        }
        if (request->watch)
            sim_watch_add(&at->watches, connection, request->operation.path, false);
        break;
    case SIM_CHILDREN:
    case SIM_CHILDREN2:
        if (node == NULL) {
            reply.err = ZNONODE;
        } else if (!sim_permits(node, ZOO_PERM_READ, request)) {
            reply.err = ZNOAUTH;
        } else {
            fill_children(at, node->path, &reply);
            sim_tree_stat(&at->tree, node, &reply.stat);
            if (request->watch)
                sim_watch_add(&at->watches, connection, node->path, true);
        }
        break;
    case SIM_REMOVE_WATCHES:
        reply.err = sim_watch_remove(&at->watches, connection, request->operation.path, request->watch_type) > 0
                        ? ZOK
                        : ZNOWATCHER;
        break;
    case SIM_SET_WATCHES:
        sim_watch_restore(&at->watches, request);
        reply.xid = SIM_XID_SET_WATCHES;
        break;
    default:
        assert(false && "not a read");
    }
    sim_connection_reply(connection, &reply);
}

static bool is_write(const sim_request *request)
{
    return request->type == SIM_CREATE || request->type == SIM_CREATE2 || request->type == SIM_DELETE ||
           request->type == SIM_SET || request->type == SIM_MULTI || request->type == SIM_CLOSE;
}

/* Answers the requests whose answers are known, in the order of arrival (CommitProcessor). */
static void drain(server *at, sim_connection *connection)
{
    while (connection->accepted && connection->queue != NULL) {
        sim_request *first = connection->queue;
        sim_reply synced = {.xid = first->xid, .zxid = at->tree.zxid, .path = first->operation.path};
        if (first->throttled) {
            /* answered when it is first in the queue */
        } else if (is_write(first)) {
            if (!first->answered)
                return;
        } else if (first->type == SIM_SYNC) {
            if (first->sync_until < 0 || at->applied < first->sync_until)
                return;
        }
        connection->queue = first->next;
        if (connection->queue == NULL)
            connection->queue_last = NULL;
        if (first->throttled) {
            synced.err = ZTHROTTLEDOP;
            sim_connection_reply(connection, &synced);
        } else if (is_write(first))
            sim_connection_reply(connection, first->reply);
        else if (first->type == SIM_SYNC)
            sim_connection_reply(connection, &synced);
        else
            execute_read(at, first);
    }
}

static void forward(server *at, sim_request *request, int kind)
{
    if (at->role == LEADING) {
        if (kind == LINK_REQUEST && request->type == SIM_SYNC)
            submit_sync(at, request, 0);
        else if (kind == LINK_REQUEST)
            submit(at, request);
    } else {
        send_letter(at->id, at->following, kind, at->stamp, (letter){.request = request});
    }
}

static void receive_connect(server *at, sim_connection *connection, sim_request *request)
{
    if (request->last_zxid > at->tree.zxid) {
        sim.statistics.stale_refusals++;
        sim_trace("server %d: refuses client %d, which has seen more", at->id, connection->caller);
        sim_connection_shut(connection);
        return;
    }
    int32_t timeout = request->timeout_ms;
    if (timeout < sim.least_timeout_ms[at->id])
        timeout = sim.least_timeout_ms[at->id];
    if (timeout > sim.most_timeout_ms[at->id])
        timeout = sim.most_timeout_ms[at->id];
    connection->timeout_ms = timeout;
    if (request->session_id == 0) {
        request->type = SIM_CREATE_SESSION;
        request->session = new_session(timeout, connection->caller);
        forward(at, request, LINK_REQUEST);
        return;
    }
    for (sim_connection *each = sim.connections; each != NULL; each = each->next) {
        if (each != connection && each->server == at->id && each->accepted && each->session != NULL &&
            each->session->id == request->session_id)
            sim_connection_shut(each);
    }
    request->session = find_session(request->session_id);
    if (request->session != NULL && request->session->password != request->password)
        request->session = NULL;
    if (at->role == LEADING) {
        /* A deposed leader's own table still has the sessions that it had. */
        bool valid = at->deposed ? request->session != NULL : revalidate(request);
        connection->session = valid ? request->session : NULL;
        send_connect_reply(connection, connection->session);
        if (!valid)
            sim_connection_shut(connection);
    } else {
        forward(at, request, LINK_REVALIDATE);
    }
}

/*
 * Returns whether a request is throttled. RequestThrottler.java: a request that has waited too long is answered in its
 * turn, and is not executed.
 */
static bool is_throttled(int caller, const sim_request *request)
{
    bool throttled = caller >= 0 && (sim.throttles[caller] >> request->type & 1U) != 0;
    bool probe = request->type == SIM_EXISTS || request->type == SIM_SYNC;
    bool plain_get = request->type == SIM_GET && !request->watch;
    if (throttled && sim.hooks.throttled != NULL)
        sim.hooks.throttled(sim.hooks.context, caller, probe,
                            plain_get ? sim_path_text(request->operation.path) : NULL);
    return throttled;
}

void sim_throttle(int caller, bool throttle)
{
    static const sim_type types[] = {SIM_CREATE2,   SIM_DELETE, SIM_GET,  SIM_EXISTS,        SIM_CHILDREN,
                                     SIM_CHILDREN2, SIM_SET,    SIM_SYNC, SIM_REMOVE_WATCHES};
    sim.throttles[caller] = throttle ? 1U << types[sim_below((int64_t)(sizeof(types) / sizeof(types[0])))] : 0;
}

void sim_throttle_deletes(int caller)
{
    sim.throttles[caller] = 1U << SIM_DELETE;
}

void sim_server_receive(sim_connection *connection, sim_request *request)
{
    server *at = &servers[connection->server];
    if (!connection->accepted) {
        sim.statistics.lost_requests++;
        return;
    }
    if (!sim_server_accepts(at->id)) {
        sim_connection_shut(connection);
        return;
    }
    request->connection = connection;
    request->server = request->owner_server = at->id;
    request->sync_until = -1;
    request->answered = false;
    request->next = NULL;
    if (request->type == SIM_CONNECT) {
        receive_connect(at, connection, request);
        return;
    }
    request->session = connection->session;
    request->identities = connection->identities;
    if (request->session == NULL)
        return;
    if (request->operation.type == ZOO_CREATE_OP && request->operation.mode == ZOO_CONTAINER && request->lacks == 0)
        request->lacks = sim.options.no_containers;
    if (request->lacks == ZCONNECTIONLOSS) {
        sim_connection_shut(connection);
        return;
    }
    if (at->role == LEADING && !at->deposed)
        touch(request->session, connection->timeout_ms);
    else
        note_touch(request->session, at->id);
    if (request->type == SIM_PING) {
        sim_reply reply = {.xid = SIM_XID_PING, .zxid = at->tree.zxid, .path = -1};
        sim_connection_reply(connection, &reply);
        return;
    }
    if (request->type == SIM_AUTH) {
        bool accepted = !sim.options.auth_fails && sim_add_identity(&connection->identities, request->scheme,
                                                                    request->credential, request->credential_length);
        sim_reply reply = {.xid = SIM_XID_AUTH, .err = accepted ? ZOK : ZAUTHFAILED, .path = -1};
        sim_connection_reply(connection, &reply);
        if (!accepted)
            sim_connection_shut(connection);
        return;
    }
    if (connection->queue_last != NULL)
        connection->queue_last->next = request;
    else
        connection->queue = request;
    connection->queue_last = request;
    request->throttled = is_throttled(connection->caller, request);
    if (!request->throttled && (is_write(request) || request->type == SIM_SYNC))
        forward(at, request, LINK_REQUEST);
    drain(at, connection);
}

/* By now the write is committed and known to all servers. */
static void carried_out(void *context, int64_t argument)
{
    (void)context;
    (void)argument;
    delayed_writes--;
}

static void carry_out(void *context, int64_t argument)
{
    sim_request *request = context;
    server *leader = active_leader();
    (void)argument;
    sim_schedule(sim.now + SIM_SECOND, carried_out, NULL, 0);
    if (leader == NULL || broken(leader) || !session_alive(request->session))
        return; /* lost for good */
    sim_trace("leader: carries out request %d of a lost connection, of session %lld", request->xid,
              (long long)request->session->id);
    sim.statistics.late_creates += request->type != SIM_DELETE;
    submit(leader, request);
}

void sim_server_delay(sim_connection *connection, sim_request *request, int64_t after)
{
    request->session = connection->session;
    request->identities = connection->identities;
    request->connection = NULL;
    /* Otherwise the leader would refuse a request from the session's former server. */
    request->server = request->owner_server = -1;
    delayed_writes++;
    sim_schedule(sim.now + after, carry_out, request, 0);
}

int sim_delayed_writes(void)
{
    return delayed_writes;
}

void sim_server_forget(sim_connection *connection)
{
    if (!connection->accepted)
        return;
    connection->accepted = false;
    for (const sim_request *each = connection->queue; each != NULL; each = each->next)
        sim.statistics.lost_replies += is_write(each);
    connection->queue = connection->queue_last = NULL;
    sim_watch_remove(&servers[connection->server].watches, connection, -1, ZWATCHTYPE_ANY);
}

/* ---- between servers ---- */

static void receive_as_leader(server *leader, server *from, const sim_message *message, const letter *content)
{
    sim_request *request = content->request;
    switch (message->kind) {
    case LINK_ACK:
        from->acked = content->position;
        recompute_commit(leader);
        break;
    case LINK_REQUEST:
        if (request->type == SIM_SYNC)
            submit_sync(leader, request, message->stamp);
        else
            submit(leader, request);
        break;
    case LINK_REVALIDATE: {
        letter verdict = {.request = request, .valid = revalidate(request)};
        send_letter(leader->id, from->id, LINK_VALIDITY, message->stamp, verdict);
        break;
    }
    case LINK_TOUCHES:
        for (int i = 0; i < content->session_count; i++)
            touch(content->sessions[i], content->timeouts[i]);
        break;
    default:
        assert(false && "not for a leader");
    }
}

/* The follower reports the sessions that have sent a request since its last report. */
static void report_clients(server *follower)
{
    letter touches = {0};
    for (sim_session *each = sessions; each != NULL; each = each->next)
        touches.session_count += each->touched_at[follower->id];
    touches.sessions = sim_alloc((size_t)(touches.session_count + 1) * sizeof(sim_session *));
    touches.timeouts = sim_alloc((size_t)(touches.session_count + 1) * sizeof(int32_t));
    touches.session_count = 0;
    for (sim_session *each = sessions; each != NULL; each = each->next) {
        if (each->touched_at[follower->id]) {
            touches.timeouts[touches.session_count] = timeout_at(follower, each);
            touches.sessions[touches.session_count++] = each;
        }
        each->touched_at[follower->id] = false;
    }
    if (touches.session_count > 0)
        send_letter(follower->id, follower->following, LINK_TOUCHES, follower->stamp, touches);
}

static void receive_as_follower(server *at, const sim_message *message, const letter *content)
{
    sim_request *request = content->request;
    switch (message->kind) {
    case LINK_PROPOSAL:
        at->logged = content->position;
        send_letter(at->id, at->following, LINK_ACK, at->stamp, (letter){.position = content->position});
        break;
    case LINK_PING:
        report_clients(at);
        break;
    case LINK_COMMIT:
        at->commit_known = content->position;
        apply_known(at);
        break;
    case LINK_SYNCED:
        request->sync_until = at->commit_known;
        if (request->connection->accepted)
            drain(at, request->connection);
        break;
    case LINK_VALIDITY:
        if (!request->connection->accepted)
            break;
        request->connection->session = content->valid ? request->session : NULL;
        send_connect_reply(request->connection, request->connection->session);
        if (!content->valid)
            sim_connection_shut(request->connection);
        break;
    default:
        assert(false && "not for a follower");
    }
}

static void deliver_letter(void *owner, sim_message *message)
{
    const link *over = owner;
    server *from = &servers[over->from], *to = &servers[over->to];
    const letter *content = message->body;
    if (to->role == LEADING && joined(from, to) && from->stamp == message->stamp)
        receive_as_leader(to, from, message, content);
    else if (to->role == FOLLOWING && to->stamp == message->stamp && joined(to, from))
        receive_as_follower(to, message, content);
}

/* ---- leader changes ---- */

static void leave(server *at, role next)
{
    sim_trace("server %d: no longer %s", at->id, at->role == LEADING ? "leading" : "following");
    at->role = next;
    at->deposed = at->outstanding = false;
    at->stamp = ++stamps;
    for (sim_connection *each = sim.connections; each != NULL; each = each->next) {
        if (each->server != at->id || !each->accepted)
            continue;
        if (next == DOWN || sim_chance(1, 2))
            sim_connection_abort(each, true);
        else
            sim_connection_shut(each);
    }
    at->watches.count = 0;
    for (sim_session *each = sessions; each != NULL; each = each->next)
        each->touched_at[at->id] = each->missed_at[at->id] = false;
    plan_election();
    watch_links();
}

static bool broken(const server *at)
{
    if (at->role == FOLLOWING) {
        const server *leader = &servers[at->following];
        return !joined(at, leader) || !reachable(at, leader);
    }
    if (at->role == LEADING) {
        int supporters = 1;
        for (int i = 0; i < sim.options.servers; i++)
            supporters += joined(&servers[i], at) && reachable(&servers[i], at);
        return supporters < majority();
    }
    return false;
}

static void notice(void *context, int64_t stamp)
{
    server *at = context;
    if (at->stamp != stamp)
        return;
    at->noticing = false;
    if (broken(at))
        leave(at, LOOKING);
}

/*
 * Servers that have lost contact notice it some time later: soon if a connection was closed, else perhaps only after
 * sessions have expired.
 */
static void watch_links(void)
{
    for (int i = 0; i < sim.options.servers; i++) {
        server *at = &servers[i];
        if (at->noticing || !broken(at))
            continue;
        int64_t timeout = sim.options.max_session_timeout_ms * SIM_MILLISECOND;
        int64_t delay = timeout * 3 / 10 + sim_below(timeout * 5 / 2);
        if (at->role == FOLLOWING && !sim.link_down[i][at->following] && !sim.link_down[at->following][i])
            delay = SIM_MILLISECOND + sim_below(100 * SIM_MILLISECOND);
        at->noticing = true;
        sim_schedule(sim.now + delay, notice, at, at->stamp);
    }
}

static void join(server *at, server *leader)
{
    at->role = FOLLOWING;
    at->following = leader->id;
    at->leadership = leader->leadership;
    at->stamp = ++stamps;
    at->noticing = false;
    at->logged = at->acked = leader->logged;
    at->commit_known = committed;
    /* Log entries that are still on their way to the leader's disk are sent to this follower again. */
    while (at->applied < at->commit_known)
        apply_one(at);
    for (int position = leader->logged + 1; position <= entry_count; position++)
        send_letter(leader->id, at->id, LINK_PROPOSAL, at->stamp, (letter){.position = position});
    sim_trace("server %d: follows %d", at->id, leader->id);
    recompute_commit(leader);
}

static void lead(server *at)
{
    /* A single server continues in the epoch in which it stopped. */
    if (sim.options.servers > 1 || epoch == 0) {
        epoch++;
        counter = 0;
    } else {
        counter = at->logged > 0 ? entries[at->logged - 1]->zxid & UINT32_MAX : sim.options.last_zxid & UINT32_MAX;
    }
    sim.statistics.elections++;
    for (int i = 0; i < sim.options.servers; i++) {
        if (servers[i].role == LEADING)
            servers[i].deposed = true;
        if (servers[i].logged > at->logged)
            servers[i].logged = at->logged;
    }
    sim.statistics.truncated += entry_count - at->logged;
    sim_trace("server %d: leads, epoch %d, %d of %d transactions", at->id, (int)epoch, at->logged, entry_count);
    entry_count = at->logged;
    syncs = NULL;
    for (sim_session *each = sessions; each != NULL; each = each->next) {
        if (each->created_at > entry_count)
            each->created_at = 0;
        if (each->closed_at > entry_count)
            each->closed_at = 0;
        if (each->closed_at == 0)
            each->closing = false;
        each->owner = -1;
        each->polled = false;
        touch(each, each->timeout_ms);
        memset(each->touched_at, 0, sizeof(each->touched_at));
        memset(each->missed_at, 0, sizeof(each->missed_at));
    }
    at->role = LEADING;
    at->deposed = at->outstanding = false;
    at->leadership = ++leaderships;
    at->stamp = ++stamps;
    at->noticing = false;
    commit_until(entry_count);
    at->commit_known = entry_count;
    apply_known(at);
    sim_tree_copy(&prepared, &at->tree);
}

static void elect(void *context, int64_t argument)
{
    (void)context;
    (void)argument;
    election_planned = false;
    server *leader = active_leader();
    if (leader == NULL) {
        for (int i = 0; i < sim.options.servers; i++) {
            server *candidate = &servers[i];
            int supporters = 0;
            bool best = candidate->role == LOOKING;
            for (int j = 0; j < sim.options.servers; j++) {
                if (servers[j].role != LOOKING || (j != i && !reachable(candidate, &servers[j])))
                    continue;
                supporters++;
                best = best && servers[j].logged <= candidate->logged;
            }
            if (best && supporters >= majority()) {
                leader = candidate;
                lead(candidate);
                break;
            }
        }
    }
    bool looking = false;
    for (int i = 0; i < sim.options.servers; i++) {
        if (leader != NULL && servers[i].role == LOOKING && reachable(&servers[i], leader))
            join(&servers[i], leader);
        looking = looking || servers[i].role == LOOKING;
    }
    watch_links();
    if (looking)
        plan_election();
}

static void plan_election(void)
{
    if (election_planned)
        return;
    election_planned = true;
    sim_schedule(sim.now + 20 * SIM_MILLISECOND + sim_below(400 * SIM_MILLISECOND), elect, NULL, 0);
}

/* ---- the leader's clock: sessions are touched and expire ---- */

static void expire(void *context, int64_t argument)
{
    sim_session *session = context;
    (void)argument;
    server *leader = active_leader();
    if (leader == NULL || !session->closing || session->closed_at != 0)
        return;
    sim_request *request = sim_alloc(sizeof(*request));
    request->type = SIM_CLOSE;
    request->server = request->owner_server = -1;
    request->session = session;
    sim_transaction *transaction = sim_alloc(sizeof(*transaction));
    prepare_close(transaction, session);
    for (int i = 0; i < transaction->change_count; i++)
        sim_tree_apply(&prepared, &transaction->changes[i], (epoch << 32) | (counter + 1));
    propose(leader, transaction);
}

static void begin_expiry(sim_session *session)
{
    sim_trace("leader: session %lld of client %d expires", (long long)session->id, session->caller);
    session->closing = true;
    sim.statistics.expiries += session->caller >= 0;
    if (session->caller >= 0 && sim.hooks.expired != NULL)
        sim.hooks.expired(sim.hooks.context, session->caller, session->id);
    sim_schedule(sim.now + sim_below(sim.options.delay * 2 + 1), expire, session, 0);
}

/* Returns slightly more than half a tick: the thread that pings waits half a tick after each round, and may be late. */
static int64_t until_next_ping(void)
{
    int64_t half = sim.options.tick_ms * SIM_MILLISECOND / 2;
    if (sim.options.by_hand || sim_chance(3, 4))
        return half;
    return half + sim_below(sim.options.min_session_timeout_ms * SIM_MILLISECOND / 25);
}

/*
 * The leader pings its followers. Only a follower's answer to that ping keeps its clients' sessions alive. A write that
 * a follower forwards does not touch its session at the leader (LeaderZooKeeperServer.submitLearnerRequest,
 * SessionTrackerImpl.checkSession).
 */
static void ping_followers(void *context, int64_t argument)
{
    (void)context;
    (void)argument;
    server *leader = active_leader();
    for (int i = 0; i < sim.options.servers && leader != NULL; i++) {
        if (joined(&servers[i], leader))
            send_letter(leader->id, i, LINK_PING, servers[i].stamp, (letter){0});
    }
    sim_schedule(sim.now + until_next_ping(), ping_followers, NULL, 0);
}

/*
 * Returns how long the session tracker takes between taking a session out of its queue and ending it. This is seldom
 * long.
 */
static int64_t until_ended(void)
{
    if (sim.options.by_hand)
        return 0;
    return sim_chance(1, 4) ? sim_below(sim.options.min_session_timeout_ms * SIM_MILLISECOND / 4)
                            : sim_below(sim.options.delay * 2 + 1);
}

/* Ends the session, unless a new leader was elected: it has a queue of its own. */
static void end_polled(void *context, int64_t under)
{
    sim_session *session = context;
    if (session->polled && session_alive(session) && under == epoch && active_leader() != NULL)
        begin_expiry(session);
}

/* A session ends at the first whole tick after its time is over (ExpiryQueue.roundToNextInterval). */
static void expire_sessions(void *context, int64_t argument)
{
    (void)context;
    (void)argument;
    int64_t interval = sim.options.tick_ms * SIM_MILLISECOND;
    for (sim_session *each = sessions; each != NULL && active_leader() != NULL; each = each->next) {
        int64_t end = ((each->touched + each->present_ms * SIM_MILLISECOND) / interval + 1) * interval;
        if (!session_alive(each) || each->polled || (!each->doomed && (each->caller < 0 || sim.now < end)))
            continue;
        each->polled = true;
        sim_schedule(sim.now + until_ended(), end_polled, each, epoch);
    }
    sim_schedule((sim.now / interval + 1) * interval, expire_sessions, NULL, 0);
}

/* ---- faults ---- */

void sim_crash_server(int index)
{
    server *at = &servers[index];
    if (at->role == DOWN)
        return;
    sim_trace("fault: server %d crashes", index);
    leave(at, DOWN);
    at->noticing = false;
}

void sim_restart_server(int index)
{
    if (servers[index].role != DOWN)
        return;
    sim_trace("server %d: starts", index);
    servers[index].role = LOOKING;
    servers[index].stamp = ++stamps;
    plan_election();
}

bool sim_server_up(int index)
{
    return servers[index].role != DOWN;
}

static void set_way(int from, int to, bool up)
{
    sim.link_down[from][to] = !up;
    sim_channel_set_cut(&links[from][to].channel, !up);
}

void sim_set_link(int one, int other, bool up)
{
    if (one == other)
        return;
    set_way(one, other, up);
    set_way(other, one, up);
    watch_links();
    plan_election();
}

void sim_set_way(int from, int to, bool up)
{
    if (from == to)
        return;
    set_way(from, to, up);
    watch_links();
    plan_election();
}

void sim_set_limits(int index, int32_t least_ms, int32_t most_ms)
{
    sim.least_timeout_ms[index] = least_ms;
    sim.most_timeout_ms[index] = most_ms;
}

void sim_set_lag(int index, int64_t until)
{
    servers[index].lag_until = until;
}

void sim_drop_leader(void)
{
    server *leader = active_leader();
    if (leader != NULL)
        leave(leader, LOOKING);
}

void sim_heal(void)
{
    sim_trace("all faults end");
    sim_set_network(-1, -1, true);
    memset(sim.hangs, 0, sizeof(sim.hangs));
    for (int i = 0; i < sim.options.servers; i++) {
        for (int j = 0; j < i; j++)
            sim_set_link(i, j, true);
        sim_restart_server(i);
        servers[i].lag_until = 0;
    }
    for (int i = 0; i < SIM_MAX_CALLERS; i++) {
        sim.names_fail[i] = sim.send_fails[i] = sim.write_lost[i] = false;
        for (int j = 0; j < sim.options.servers; j++)
            sim_silence_name(i, j, false);
    }
    memset(sim.throttles, 0, sizeof(sim.throttles));
}

/* ---- replacing the data ---- */

bool sim_replacing(void)
{
    return replacing;
}

bool sim_restored_everywhere(void)
{
    for (int i = 0; i < sim.options.servers; i++) {
        for (int position = servers[i].applied; position < entry_count; position++) {
            if (entries[position]->restores != NULL)
                return false;
        }
    }
    return true;
}

bool sim_has_backup(void)
{
    return backup.count > 0;
}

void sim_back_up(void)
{
    sim_trace("an administrator makes a backup, of zxid %llx", (long long)truth.zxid);
    sim_tree_copy(&backup, &truth);
    for (sim_session *each = sessions; each != NULL; each = each->next) {
        bool created = each->created_at != 0 && each->created_at <= committed;
        each->backed_up = created && (each->closed_at == 0 || each->closed_at > committed);
    }
}

static bool same_node(const sim_tree *tree, const sim_node *node)
{
    const sim_node *other = sim_tree_find(tree, node->path);
    return other != NULL && other->czxid == node->czxid;
}

/* Replaces the committed tree. Reports the nodes that are deleted, that exist again, and that are different. */
static void restore_truth(const sim_tree *data)
{
    sim_tree before = {0};
    sim_tree_copy(&before, &truth);
    sim_tree_copy(&truth, data);
    replacing = true;
    for (int i = 1; i < before.count; i++) {
        const sim_node *node = &before.nodes[i];
        if (!same_node(&truth, node)) {
            sim_trace("replaced: %s is gone", sim_path_text(node->path));
            if (sim.hooks.deleted != NULL)
                sim.hooks.deleted(sim.hooks.context, sim_path_text(node->path), node->owner, 0, truth.zxid);
        }
    }
    for (int i = 1; i < truth.count; i++) {
        const sim_node *node = &truth.nodes[i];
        if (!same_node(&before, node)) {
            sim_trace("replaced: %s is there again", sim_path_text(node->path));
            sim.statistics.revived++;
            if (sim.hooks.created != NULL)
                sim.hooks.created(sim.hooks.context, sim_path_text(node->path), node->owner, node->czxid);
        } else if (sim_tree_find(&before, node->path)->mzxid != node->mzxid && sim.hooks.changed != NULL) {
            sim.hooks.changed(sim.hooks.context, sim_path_text(node->path), 0);
        }
    }
    replacing = false;
}

/* A server takes over the new data. Its table of watches belonged to the old data, and is cleared. */
static void take_restored(server *at, const sim_tree *data)
{
    sim_tree_copy(&at->tree, data);
    at->watches.count = 0;
    for (sim_connection *each = sim.connections; each != NULL; each = each->next) {
        if (each->server == at->id && each->accepted && each->session != NULL && !session_alive(each->session))
            sim_connection_shut(each);
    }
}

/* Replaces the sessions. `position`: the log position at which the data are replaced. */
static void replace_sessions(sim_replacement how, int position)
{
    for (sim_session *each = sessions; each != NULL; each = each->next) {
        if (each->created_at == 0)
            continue;
        bool lived = session_alive(each);
        if (how != SIM_WIPED && each->backed_up) {
            each->closed_at = 0;
            each->closing = each->polled = false;
            touch(each, each->timeout_ms);
            memset(each->touched_at, 0, sizeof(each->touched_at));
            each->doomed = each->caller < 0;
            continue;
        }
        each->closing = true;
        if (each->closed_at == 0)
            each->closed_at = position;
        if (lived && each->caller >= 0 && sim.hooks.expired != NULL)
            sim.hooks.expired(sim.hooks.context, each->caller, each->id);
    }
}

static sim_tree *new_data(sim_replacement how, const char *keep)
{
    sim_tree *data = sim_alloc(sizeof(*data));
    if (how != SIM_WIPED) {
        sim_tree_copy(data, &backup);
        return data;
    }
    sim_tree_plant(data);
    if (keep[0] != '\0') {
        const sim_change create = {.kind = SIM_CHANGE_CREATE, .path = sim_path(keep), .data = ""};
        sim_tree_apply(data, &create, 0);
    }
    return data;
}

static void replace_live(server *leader, sim_transaction *transaction)
{
    sim_tree_copy(&prepared, transaction->restores);
    propose(leader, transaction);
    replace_sessions(SIM_RESTORED_LIVE, entry_count);
    sim.statistics.restored_live++;
}

/* Replaces the data of stopped servers. Transactions that were not committed are forgotten. */
static void replace_stopped(sim_replacement how, sim_transaction *transaction)
{
    for (int i = 0; i < sim.options.servers; i++)
        sim_crash_server(i);
    entry_count = committed;
    for (sim_session *each = sessions; each != NULL; each = each->next) {
        each->created_at = each->created_at > committed ? 0 : each->created_at;
        each->closed_at = each->closed_at > committed ? 0 : each->closed_at;
    }
    transaction->zxid = transaction->restores->zxid;
    append(transaction);
    replace_sessions(how, entry_count);
    commit_until(entry_count);
    for (int i = 0; i < sim.options.servers; i++) {
        take_restored(&servers[i], transaction->restores);
        servers[i].logged = servers[i].acked = servers[i].commit_known = servers[i].applied = entry_count;
    }
    epoch = transaction->zxid >> 32;
    counter = transaction->zxid & UINT32_MAX;
    sim.statistics.wiped += how == SIM_WIPED;
    sim.statistics.restored += how == SIM_RESTORED;
}

bool sim_replace_data(sim_replacement how, const char *keep)
{
    static const char *const names[] = {"wiped", "restored", "restored live"};
    server *leader = active_leader();
    if (leader == NULL || broken(leader) || (how != SIM_WIPED && !sim_has_backup()))
        return false;
    sim_trace("fault: the servers' data are %s", names[how]);
    sim_transaction *transaction = sim_alloc(sizeof(*transaction));
    transaction->restores = new_data(how, keep);
    if (how == SIM_RESTORED_LIVE)
        replace_live(leader, transaction);
    else
        replace_stopped(how, transaction);
    return true;
}

bool sim_session_lives(int64_t session)
{
    const sim_session *found = find_session(session);
    return found != NULL && session_alive(found);
}

/* ---- foreigners and administrators ---- */

static bool submit_foreign(int64_t session_id, int type, const char *path, const char *data, int mode)
{
    server *leader = active_leader();
    sim_session *session = session_id != 0 ? find_session(session_id) : NULL;
    if (leader == NULL || broken(leader) || (session_id != 0 && (session == NULL || !session_alive(session))))
        return false;
    sim_request *request = sim_alloc(sizeof(*request));
    request->type = type == ZOO_CREATE_OP ? SIM_CREATE : type == ZOO_DELETE_OP ? SIM_DELETE : SIM_SET;
    request->server = request->owner_server = -1;
    request->unchecked = true;
    request->session = session;
    request->operation = (sim_operation){.type = type, .path = sim_path(path), .mode = mode, .version = -1};
    request->operation.data = data != NULL ? sim_copy(data, strlen(data)) : "";
    request->operation.length = data != NULL ? (int32_t)strlen(data) : 0;
    submit(leader, request);
    return true;
}

int64_t sim_foreign_session(void)
{
    server *leader = active_leader();
    if (leader == NULL || broken(leader))
        return 0;
    sim_request *request = sim_alloc(sizeof(*request));
    request->type = SIM_CREATE_SESSION;
    request->server = request->owner_server = -1;
    request->session = new_session(sim.options.max_session_timeout_ms, -1);
    submit(leader, request);
    return request->session->id;
}

bool sim_foreign_create(int64_t session, const char *path, const char *data, int mode)
{
    return submit_foreign(session, ZOO_CREATE_OP, path, data, mode);
}

bool sim_foreign_delete(int64_t session, const char *path)
{
    return submit_foreign(session, ZOO_DELETE_OP, path, NULL, 0);
}

bool sim_foreign_set(int64_t session, const char *path, const char *data)
{
    return submit_foreign(session, ZOO_SETDATA_OP, path, data, 0);
}

bool sim_foreign_resize(const char *directory, const char *data, const char *mark)
{
    server *leader = active_leader();
    if (leader == NULL || broken(leader))
        return false;
    sim_request *request = sim_alloc(sizeof(*request));
    request->type = SIM_MULTI;
    request->server = request->owner_server = -1;
    request->unchecked = true;
    request->operations = sim_alloc(3 * sizeof(*request->operations));
    sim_operation *next = request->operations;
    *next++ = (sim_operation){.type = ZOO_SETDATA_OP,
                              .path = sim_path(directory),
                              .version = -1,
                              .data = sim_copy(data, strlen(data)),
                              .length = (int32_t)strlen(data)};
    if (sim_exists(mark))
        *next++ = (sim_operation){.type = ZOO_DELETE_OP, .path = sim_path(mark), .version = -1};
    *next++ = (sim_operation){.type = ZOO_CREATE_OP, .path = sim_path(mark), .version = -1, .data = ""};
    request->operation_count = (int)(next - request->operations);
    submit(leader, request);
    return true;
}

bool sim_foreign_expire(int64_t id)
{
    server *leader = active_leader();
    sim_session *session = find_session(id);
    if (leader == NULL || broken(leader))
        return false;
    if (session == NULL || !session_alive(session))
        return true;
    session->doomed = true;
    begin_expiry(session);
    return true;
}

/* Does what ContainerManager does: deletes containers that have had a child and have none now. */
void sim_reap_containers(void)
{
    server *leader = active_leader();
    if (leader == NULL)
        return;
    for (int i = 0; i < prepared.count; i++) {
        const sim_node *node = &prepared.nodes[i];
        if (!node->container || !node->used || sim_tree_children(&prepared, node->path) > 0)
            continue;
        sim.statistics.reaped += submit_foreign(0, ZOO_DELETE_OP, sim_path_text(node->path), NULL, 0);
        return;
    }
}

/* ---- the observer ---- */

bool sim_exists(const char *path)
{
    return sim_tree_find(&truth, sim_path(path)) != NULL;
}

bool sim_exists_everywhere(const char *path)
{
    const sim_node *now = sim_tree_find(&truth, sim_path(path));
    for (int i = 0; now != NULL && i < sim.options.servers; i++) {
        const sim_node *shown = sim_tree_find(&servers[i].tree, sim_path(path));
        if (shown == NULL || shown->czxid != now->czxid)
            return false;
    }
    return now != NULL;
}

/* Returns whether the server has not heard yet that the node was deleted. It may show the node on its way to that. */
static bool has_yet_to_delete(const server *at, int path)
{
    for (int position = at->applied; position < entry_count; position++) {
        const sim_transaction *transaction = entries[position];
        for (int i = 0; i < transaction->change_count; i++) {
            if (transaction->changes[i].kind == SIM_CHANGE_DELETE && transaction->changes[i].path == path)
                return true;
        }
    }
    return false;
}

bool sim_is_outdated_somewhere(const char *path, bool in_data)
{
    const sim_node *now = sim_tree_find(&truth, sim_path(path));
    for (int i = 0; i < sim.options.servers; i++) {
        const sim_node *shown = sim_tree_find(&servers[i].tree, sim_path(path));
        if (shown != NULL && (now == NULL || now->czxid != shown->czxid || (in_data && now->mzxid != shown->mzxid)))
            return true;
        if (has_yet_to_delete(&servers[i], sim_path(path)))
            return true;
    }
    return false;
}

int64_t sim_owner(const char *path)
{
    const sim_node *node = sim_tree_find(&truth, sim_path(path));
    return node != NULL ? node->owner : 0;
}

int64_t sim_czxid(const char *path)
{
    const sim_node *node = sim_tree_find(&truth, sim_path(path));
    return node != NULL ? node->czxid : 0;
}

const char *sim_data(const char *path, int *length)
{
    const sim_node *node = sim_tree_find(&truth, sim_path(path));
    *length = node != NULL ? node->length : 0;
    return node != NULL ? node->data : NULL;
}

int sim_child_count(const char *directory)
{
    return sim_tree_children(&truth, sim_path(directory));
}

const char *sim_child(const char *directory, int index)
{
    int path = sim_path(directory);
    for (int i = 0; i < truth.count; i++) {
        if (truth.nodes[i].parent == path && index-- == 0)
            return sim_path_name(truth.nodes[i].path);
    }
    return NULL;
}

bool sim_session_timer(int caller, int64_t *restarted_at, int32_t *timeout_ms)
{
    const sim_session *session = find_session(sim_client_session(caller));
    if (session == NULL)
        return false;
    *restarted_at = session->restarted;
    *timeout_ms = session->timeout_ms < session->present_ms ? session->timeout_ms : session->present_ms;
    return true;
}

int sim_client_nodes(const char **example)
{
    int count = 0;
    for (int i = 0; i < truth.count; i++) {
        const sim_node *node = &truth.nodes[i];
        const sim_session *session = node->owner != 0 ? find_session(node->owner) : NULL;
        if (session == NULL || session->caller < 0)
            continue;
        count++;
        *example = sim_path_text(node->path);
    }
    return count;
}

int sim_server_watches(const char **example)
{
    int count = 0;
    for (int i = 0; i < sim.options.servers; i++) {
        count += servers[i].watches.count;
        if (servers[i].watches.count > 0)
            *example = sim_path_text(servers[i].watches.watches[0].path);
    }
    return count;
}

bool sim_watch_at(int index, int nth, sim_watch_entry *out)
{
    const sim_watch_table *table = &servers[index].watches;
    if (nth >= table->count)
        return false;
    const sim_watch *watch = &table->watches[nth];
    *out = (sim_watch_entry){.path = sim_path_text(watch->path),
                             .children = watch->children,
                             .session = watch->connection->session != NULL ? watch->connection->session->id : 0};
    return true;
}

int64_t sim_last_zxid(void)
{
    return truth.zxid;
}

/* ---- for worlds that are run by hand ---- */

static uint64_t hash_transaction(const sim_transaction *transaction)
{
    uint64_t hash = sim_mix((uint64_t)transaction->zxid, (uint64_t)transaction->err);
    if (transaction->restores != NULL)
        hash = sim_mix(hash, sim_tree_hash(transaction->restores));
    for (int i = 0; i < transaction->change_count; i++) {
        const sim_change *change = &transaction->changes[i];
        hash = sim_mix(hash, sim_path_hash(change->path) ^ (uint64_t)change->kind);
        hash = sim_mix(hash, (uint64_t)change->owner ^ (uint64_t)(uint32_t)change->err << 32);
        if (change->acl != NULL)
            hash = sim_mix(hash, sim_acl_hash(change->acl));
    }
    return transaction->request != NULL ? sim_mix(hash, sim_hash_request(transaction->request)) : hash;
}

/* Only differences between log positions count. */
static uint64_t distance(int position)
{
    return (uint64_t)(uint32_t)(position - committed);
}

static uint64_t hash_letters(const link *over)
{
    uint64_t hash = over->channel.cut;
    for (const sim_message *each = over->channel.head; each != NULL; each = each->next) {
        const letter *content = each->body;
        hash = sim_mix(hash, (uint64_t)each->kind << 32 ^ distance(content->position));
        hash = sim_mix(hash, (uint64_t)each->stamp ^ (uint64_t)content->valid << 60);
        if (content->request != NULL)
            hash = sim_mix(hash, sim_hash_request(content->request));
        for (int i = 0; i < content->session_count; i++)
            hash = sim_mix(hash, (uint64_t)content->sessions[i]->id);
    }
    return hash;
}

static uint64_t hash_server(const server *at)
{
    uint64_t hash = sim_mix((uint64_t)at->role, (uint64_t)at->leadership);
    hash = sim_mix(hash, (uint64_t)at->stamp << 8 ^ (uint64_t)at->deposed << 2 ^ (uint64_t)at->outstanding << 1 ^
                             (uint64_t)at->noticing);
    hash = sim_mix(hash, (uint64_t)at->following << 32 ^ distance(at->logged));
    hash = sim_mix(hash, distance(at->acked) << 32 ^ distance(at->commit_known));
    hash = sim_mix(hash, distance(at->applied) ^ (uint64_t)at->lag_until << 32);
    for (int position = at->applied; position < entry_count; position++)
        hash = sim_mix(hash, hash_transaction(entries[position]));
    uint64_t watches = 0;
    for (int i = 0; i < at->watches.count; i++) {
        const sim_watch *each = &at->watches.watches[i];
        watches += sim_mix(sim_path_hash(each->path) ^ (uint64_t)each->children, sim_hash_connection(each->connection));
    }
    hash = sim_mix(hash, watches);
    hash = sim_mix(hash, sim_tree_hash(&at->tree));
    for (int i = 0; i < sim.options.servers; i++)
        hash = sim_mix(hash, hash_letters(&links[at->id][i]) ^ (uint64_t)sim.link_down[at->id][i]);
    return hash;
}

static uint64_t hash_session(const sim_session *session)
{
    uint64_t hash = sim_mix((uint64_t)session->id, (uint64_t)(session->touched / SIM_MILLISECOND));
    uint64_t created = session->created_at > committed ? distance(session->created_at) : session->created_at > 0;
    uint64_t closed = session->closed_at > committed ? distance(session->closed_at) : session->closed_at > 0;
    hash = sim_mix(hash, created << 32 ^ closed ^ (uint64_t)session->backed_up << 63);
    hash = sim_mix(hash, (uint64_t)session->timeout_ms << 32 ^ (uint64_t)session->closing << 1 ^
                             (uint64_t)session->doomed ^ (uint64_t)(session->caller + 1) << 8 ^
                             (uint64_t)session->polled << 2 ^ (uint64_t)session->present_ms << 16);
    for (int i = 0; i < sim.options.servers; i++)
        hash = sim_mix(hash, (uint64_t)session->touched_at[i] ^ (uint64_t)session->missed_at[i] << 1);
    return sim_mix(hash, (uint64_t)session->owner + 1);
}

uint64_t sim_ensemble_hash(void)
{
    uint64_t hash = sim_mix((uint64_t)epoch << 32 ^ distance(entry_count), (uint64_t)stamps);
    hash = sim_mix(hash, (uint64_t)last_session ^ (uint64_t)election_planned << 63);
    hash = sim_mix(hash, sim_tree_hash(&prepared));
    hash = sim_mix(hash, sim_tree_hash(&truth));
    hash = sim_mix(hash, sim_tree_hash(&backup));
    for (const sim_session *each = sessions; each != NULL; each = each->next)
        hash = sim_mix(hash, hash_session(each));
    for (int i = 0; i < sim.options.servers; i++)
        hash = sim_mix(hash, hash_server(&servers[i]));
    for (const waiting_sync *each = syncs; each != NULL; each = each->next)
        hash = sim_mix(hash, sim_hash_request(each->request) ^ distance(each->position) ^ (uint64_t)each->stamp << 32);
    return hash;
}

/* ---- beginning and end ---- */

void sim_ensemble_begin(void)
{
    memset(servers, 0, sizeof(servers));
    memset(links, 0, sizeof(links));
    entries = NULL;
    entry_count = entry_capacity = committed = 0;
    epoch = sim.options.last_zxid >> 32;
    counter = stamps = leaderships = 0;
    backup = (sim_tree){0};
    replacing = false;
    sessions = NULL;
    last_session = INT64_C(0x100000000) * (1 + sim_below(100));
    syncs = NULL;
    sim_prepare_begin();
    election_planned = false;
    delayed_writes = 0;
    sim_tree_clear(&prepared);
    sim_tree_clear(&truth);
    for (int i = 0; i < sim.options.servers; i++) {
        servers[i].id = i;
        sim_set_limits(i, sim.options.min_session_timeout_ms, sim.options.max_session_timeout_ms);
        servers[i].role = LOOKING;
        servers[i].watches.server = i;
        servers[i].watches.tree = &servers[i].tree;
        sim_tree_clear(&servers[i].tree);
        for (int j = 0; j < sim.options.servers; j++) {
            links[i][j].from = i;
            links[i][j].to = j;
            links[i][j].channel.owner = &links[i][j];
            links[i][j].channel.deliver = deliver_letter;
        }
    }
    plan_election();
    sim_schedule(sim.now, ping_followers, NULL, 0);
    sim_schedule(sim.now, expire_sessions, NULL, 0);
}

void sim_ensemble_end(void)
{
    memset(servers, 0, sizeof(servers));
}
