/*
 * strays: nodes of a client whose session lives, but which belong to none of its entries. They are caused by creates
 * that the servers executed after the client had looked for the node in vain.
 *
 * No other client may delete such a node, and all nodes behind it wait. A client finds the node when it queues in that
 * queue again and has to wait there, or when it tries and is refused. So in the drain each client that has left such a
 * node queues there once more, for a mode with which the node conflicts. The node must be deleted then, and every
 * waiter must be granted.
 */
#include <string.h>

#include "engine/engine_private.h"
#include "lock/entry.h"
#include "schedule.h"

/*
 * How long a client may take after it has queued there. It covers the pauses after throttled requests, and a lost
 * connection.
 */
#define GOES_WITHIN (8 * run.timeout + 4 * SIM_SECOND)

static bool is_known(const client *of, const node_record *node)
{
    const zkl_entry *entry;
    char uuid[ZKL_UUID_LENGTH + 1];
    TAILQ_FOREACH(entry, &of->engine->locks.entries, all)
    {
        zkl_entry_uuid(entry, uuid);
        if (zkl_node_has_uuid(strrchr(node->path, '/') + 1, uuid))
            return true;
    }
    return false;
}

static bool is_stray(const node_record *node)
{
    if (node->client < 0 || node->gone)
        return false;
    const client *of = &run.clients[node->client];
    int64_t session = of->engine != NULL && !of->closing ? sim_client_session(of->index) : 0;
    return session != 0 && sim_owner(node->path) == session && !is_known(of, node);
}

bool strays_left(const char **example)
{
    *example = "data that are being replaced";
    if (run.replaced_live_at != 0 && sim_now() < run.replaced_live_at + run.timeout)
        return true; /* the nodes that the restore brings back do not exist yet */
    for (const node_record *each = run.nodes; each != NULL; each = each->next) {
        *example = each->path;
        if (is_stray(each))
            return true;
    }
    *example = "a delayed create";
    return sim_delayed_writes() > 0;
}

/*
 * Queues with an acquisition that conflicts with any contender's node, and with any permit. Now and then it is a try,
 * which is answered whether or not the node is deleted. Sometimes the servers throttle deletes at that moment: then the
 * client must delete the node later, and must not wait for its own node.
 */
static void visit(client *of, node_record *node)
{
    acquisition_record *record = new_record(of, node->lock);
    record->try_only = sim_chance(1, 3);
    record->optimistic = record->try_only && sim_chance(1, 2);
    record->handoff = 0; /* with a node of its own */
    record->linger = record->max_hold = 0;
    if (run.limits[node->lock] > 0) {
        int32_t written = written_limit(node->lock);
        record->mode = ZKL_MODE_PERMITS;
        record->count = record->limit = written > 0 ? written : run.limits[node->lock];
    } else {
        record->mode = ZKL_MODE_MUTEX;
    }
    node->visited_at = sim_now();
    node->visitor = record;
    totals.visits++;
    sim_trace("client %d: queues where it has left %s", of->index, node->path);
    if (!record->try_only && sim_chance(1, 2))
        throttle_deletes(of);
    submit_acquisition(record);
}

/*
 * Returns whether the client must have seen the node. It need not have if the acquisition was a try (which may be
 * answered before the whole list was examined), was refused, or was granted by an existing node. It need not either if
 * a restore brought the node back less than a second before, because the client may rely on an earlier list.
 */
static bool was_visited(const node_record *node)
{
    const acquisition_record *visitor = node->visitor;
    if (visitor == NULL || visitor->try_only || visitor->phase == ZKL_ACQUISITION_REFUSED)
        return false;
    if (node->revived && node->visited_at - run.replaced_live_at < SIM_SECOND)
        return false;
    return visitor->held_count == 0 || visitor->held[0]->made_at >= node->visited_at;
}

/*
 * Starts the client again. A backup brought back its lease node together with its session. The client finds such a node
 * only when it is at the head of the queue. Until the session ends the node may keep the head waiting: see
 * docs/reliability.md.
 */
static void restart(client *of)
{
    if (of->closing)
        return;
    sim_trace("client %d: is started again, since it has permits that it does not know", of->index);
    drop_client(of, true);
    open_client(of);
}

void visit_strays(void)
{
    for (node_record *each = run.nodes; each != NULL && !run.failed; each = each->next) {
        /*
         * A foreigner's node that a restore has brought back is deleted with the foreigner's session. The run does not
         * wait for that.
         */
        if (each->client < 0 && each->revived && !each->gone && !foreigners_know(each->path))
            sim_foreign_delete(0, each->path);
        if (!is_stray(each) || run.clients[each->client].state != ZKL_STATE_CONNECTED)
            continue;
        client *of = &run.clients[each->client];
        if (each->revived && run.limits[each->lock] > 0) {
            restart(of);
            continue;
        }
        totals.strays += each->visitor == NULL;
        bool visited = was_visited(each);
        if (sim_now() < each->visited_at + (visited ? GOES_WITHIN : 2 * run.timeout))
            continue;
        /*
         * If the node that a client takes for its own was deleted externally, the client may not have looked for
         * strays.
         */
        if (visited && !deletions_unheard())
            fail("strays", "client %d has queued where it has left %s, which is still there", of->index, each->path);
        else
            visit(of, each);
    }
}
