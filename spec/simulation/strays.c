/*
 * strays: nodes of a client whose session lives, and of which none of its seats knows. They come of creates that the servers
 * carried out when their client had looked for them in vain.
 *
 * Nobody else may delete such a node, and whoever stands behind it waits. A client finds it when it queues in that line again and
 * has to wait there, or tries and is refused. So when all is to come to an end every client that has left one goes there once more,
 * in a way that the node is in; it must be gone then, and everybody gets what he waits for.
 */
#include <string.h>

#include "engine_private.h"
#include "schedule.h"

/* How long a client may take that has queued there: for the pauses after what was throttled, and for a lost connection. */
#define GOES_WITHIN (8 * run.timeout + 4 * SIM_SECOND)

static bool is_known(const client *of, const node_record *node)
{
    const zkl_seat *seat;
    char uuid[ZKL_UUID_LENGTH + 1];
    TAILQ_FOREACH(seat, &of->engine->seats, all)
    {
        zkl_seat_uuid(seat, uuid);
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
        return true; /* the nodes that it brings back are not there yet */
    for (const node_record *each = run.nodes; each != NULL; each = each->next) {
        *example = each->path;
        if (is_stray(each))
            return true;
    }
    *example = "a delayed create";
    return sim_delayed_writes() > 0;
}

/*
 * By a claim whose way any contender's node, or any permit, is in. Now and then by a try, which is answered whatever becomes of the
 * node; and sometimes the servers have no time for deletes just then: the client must come back to it, and not wait for itself.
 */
static void visit(client *of, node_record *node)
{
    claim_record *record = new_record(of, node->lock);
    record->try_only = sim_chance(1, 3);
    record->hasty = record->try_only && sim_chance(1, 2);
    record->handoff = 0; /* a node of its own */
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
    submit_claim(record);
}

/*
 * A try has been answered before all of its list was looked at, or a claim was refused, or granted by a node that was there already:
 * that was no visit. Nor was it one when the node came back less than a second before: the client may rely on an earlier list.
 */
static bool was_visited(const node_record *node)
{
    const claim_record *visitor = node->visitor;
    if (visitor == NULL || visitor->try_only || visitor->phase == ZKL_CLAIM_REFUSED)
        return false;
    if (node->revived && node->visited_at - run.replaced_live_at < SIM_SECOND)
        return false;
    return visitor->held_count == 0 || visitor->held[0]->made_at >= node->visited_at;
}

/*
 * A permit that is there again out of a backup, in a session that was there too, is found by its client at the head of the line
 * only, and may keep the head waiting until the session ends: see docs/reliability.md.
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
        /* A foreigner's node that a restore has brought back goes with the foreigner's session. The run does not wait for that. */
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
        /* A client that takes a node for its own which somebody has deleted may not have looked for more. */
        if (visited && !deletions_unheard())
            fail("strays", "client %d has queued where it has left %s, which is still there", of->index, each->path);
        else
            visit(of, each);
    }
}
