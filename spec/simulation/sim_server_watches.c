/*
 * sim_server_watches: the watches of one server (WatchManager.java, DataTree.setWatches).
 *
 * A server stores which connections watch a path, not how often. Watches fire once and belong to a connection. Watches
 * of get and exists are one kind, those of lists are the other. They are deleted with their connection. The client
 * sends them again on its next connection.
 */
#include <stdlib.h>
#include <string.h>

#include "sim_internal.h"

void sim_watch_add(sim_watch_table *table, sim_connection *connection, int path, bool children)
{
    for (int i = 0; i < table->count; i++) {
        const sim_watch *each = &table->watches[i];
        if (each->path == path && each->children == children && each->connection == connection)
            return;
    }
    if (table->count == table->capacity) {
        int capacity = table->capacity ? table->capacity * 2 : 32;
        sim_watch *larger = sim_alloc((size_t)capacity * sizeof(*larger));
        if (table->count > 0)
            memcpy(larger, table->watches, (size_t)table->count * sizeof(*larger));
        table->watches = larger;
        table->capacity = capacity;
    }
    table->watches[table->count++] = (sim_watch){path, children, connection};
}

static sim_part numbered(const char *name, int32_t *number)
{
    if (sim.hooks.contender != NULL)
        return sim.hooks.contender(name, number);
    size_t length = strlen(name);
    if (length < 10)
        return SIM_NO_PART;
    *number = (int32_t)strtol(name + length - 10, NULL, 10);
    return SIM_EXCLUSIVE;
}

/* The first node behind a deleted node, and the first exclusive one. */
typedef struct {
    int32_t any, exclusive;
} followers;

static followers find_followers(const sim_tree *tree, int directory, int32_t own)
{
    followers found = {INT32_MAX, INT32_MAX};
    for (int i = 0; i < tree->count; i++) {
        int32_t number;
        sim_part part =
            tree->nodes[i].parent == directory ? numbered(sim_path_name(tree->nodes[i].path), &number) : SIM_NO_PART;
        if (part == SIM_NO_PART || number <= own)
            continue;
        if (number < found.any)
            found.any = number;
        if (part == SIM_EXCLUSIVE && number < found.exclusive)
            found.exclusive = number;
    }
    return found;
}

/* Tells the checks which client a deletion wakes: one that may be next, or one further behind. */
static void report_notification(const sim_tree *tree, const sim_connection *connection, int path, int type)
{
    sim.statistics.notifications++;
    if (sim.hooks.notified == NULL || connection->session == NULL)
        return;
    bool later = false, successor = false;
    int32_t own = 0;
    sim_part deleted = type == ZOO_DELETED_EVENT ? numbered(sim_path_name(path), &own) : SIM_NO_PART;
    if (deleted != SIM_NO_PART) {
        followers behind = find_followers(tree, sim_path_parent(path), own);
        for (int i = 0; i < tree->count; i++) {
            const sim_node *node = &tree->nodes[i];
            int32_t number;
            if (node->owner != connection->session->id || node->parent != sim_path_parent(path))
                continue;
            sim_part part = numbered(sim_path_name(node->path), &number);
            if (part == SIM_NO_PART || number <= own)
                continue;
            later = true;
            successor = successor || (part == SIM_EXCLUSIVE ? number == behind.any
                                                            : deleted == SIM_EXCLUSIVE && number < behind.exclusive);
        }
    }
    sim.hooks.notified(sim.hooks.context, connection->caller, sim_path_text(path), type, successor, later);
}

static void send_event(const sim_watch_table *table, sim_connection *connection, int path, int type)
{
    sim_trace("server %d: event %d on %s for client %d", table->server, type, sim_path_text(path), connection->caller);
    sim_reply event = {.xid = SIM_XID_EVENT, .zxid = -1, .path = path, .event_type = type};
    report_notification(table->tree, connection, path, type);
    sim_connection_reply(connection, &event);
}

void sim_watch_fire(sim_watch_table *table, int path, const sim_acl *acl, int type, bool data, bool children)
{
    for (int i = 0; i < table->count;) {
        sim_watch *each = &table->watches[i];
        if (each->path != path || !(each->children ? children : data)) {
            i++;
            continue;
        }
        sim_connection *connection = each->connection;
        int kept = i;
        for (int j = i; j < table->count; j++) {
            const sim_watch *other = &table->watches[j];
            bool hit = other->path == path && other->connection == connection && (other->children ? children : data);
            if (!hit)
                table->watches[kept++] = *other;
        }
        table->count = kept;
        if (!sim.events_need_read || sim_acl_permits(acl, ZOO_PERM_READ, connection->identities))
            send_event(table, connection, path, type);
    }
}

int sim_watch_remove(sim_watch_table *table, const sim_connection *connection, int path, ZooWatcherType type)
{
    int kept = 0, removed = 0;
    for (int i = 0; i < table->count; i++) {
        const sim_watch *each = &table->watches[i];
        bool meant = type == ZWATCHTYPE_ANY || (type == ZWATCHTYPE_CHILD) == each->children;
        if (each->connection == connection && (path < 0 || each->path == path) && meant)
            removed++;
        else
            table->watches[kept++] = *each;
    }
    table->count = kept;
    return removed;
}

void sim_watch_restore(sim_watch_table *table, const sim_request *request)
{
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < request->path_count[kind]; i++) {
            int path = request->paths[kind][i];
            const sim_node *node = sim_tree_find(table->tree, path);
            if (kind == 1) { /* exists */
                if (node != NULL)
                    send_event(table, request->connection, path, ZOO_CREATED_EVENT);
                else
                    sim_watch_add(table, request->connection, path, false);
            } else if (node == NULL) {
                send_event(table, request->connection, path, ZOO_DELETED_EVENT);
            } else if ((kind == 0 ? node->mzxid : node->pzxid) > request->last_zxid) {
                send_event(table, request->connection, path, kind == 0 ? ZOO_CHANGED_EVENT : ZOO_CHILD_EVENT);
            } else {
                sim_watch_add(table, request->connection, path, kind == 2);
            }
        }
    }
}
