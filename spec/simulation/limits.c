/* limits: the checks of semaphores. */
#include <stdio.h>
#include <string.h>

#include "schedule.h"

/* The creator of a semaphore's directory writes the number of permits there. Foreigners write nothing. */
static int32_t limit_of(int path, int32_t smallest)
{
    int32_t written = written_limit(path);
    return written > 0 ? written : smallest;
}

/*
 * Returns the greatest limit that was in force at `since` or later: an acquisition is granted by the limit of a list that was made
 * after its nodes.
 */
static int32_t greatest_limit(int path, int32_t now, int64_t since)
{
    for (int32_t limit = MANY_PERMITS; limit > now; limit--) {
        if (run.limit_until[path][limit] != 0 && run.limit_until[path][limit] >= since)
            return limit;
    }
    return now;
}

static void note_youngest(const node_record *node, int64_t *youngest)
{
    if (node != NULL && node->made_at > *youngest)
        *youngest = node->made_at;
}

/* Checks the permits that are held at this instant. */
void check_limit(int path)
{
    int32_t held = 0, smallest = INT32_MAX;
    int64_t youngest = 0;
    const acquisition_record *latest = NULL;
    for (const acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
        if (each->path != path || !grant_valid(each))
            continue;
        if (excused(each)) {
            totals.excused_overlaps++;
            continue;
        }
        held += each->count;
        for (int32_t i = 0; i < each->held_count; i++)
            note_youngest(each->held[i], &youngest);
        smallest = each->limit < smallest ? each->limit : smallest;
        latest = latest == NULL || each->granted_at > latest->granted_at ? each : latest;
    }
    if (latest == NULL)
        return;
    for (int i = 0; i < run.foreigner_count; i++) {
        if (run.foreigners[i].path == path && foreigner_holds(&run.foreigners[i])) {
            held++;
            note_youngest(find_node(run.foreigners[i].node), &youngest);
        }
    }
    int32_t limit = greatest_limit(path, limit_of(path, smallest), youngest);
    if (held > limit)
        fail("limit", "%d of %d permits of %s are held, the latest by acquisition %d of client %d (%s)", (int)held,
             (int)limit, run.paths[path], latest->number, latest->client, latest->node);
}

int32_t most_permits(const acquisition_record *record)
{
    int32_t now = run.limit_now[record->path];
    if (!is_resized(record->path) && (!run.resizes || record->limit > now)) {
        now = record->limit; /* an administrator may have deleted the mark */
    }
    return run.resizes ? greatest_limit(record->path, now, 1) : now;
}

uint64_t hash_limits(int path)
{
    uint64_t hash = (uint64_t)(run.limit_since[path] / SIM_MILLISECOND);
    for (int32_t limit = 0; limit <= MANY_PERMITS; limit++)
        hash = sim_mix(hash, (uint64_t)(run.limit_until[path][limit] / SIM_MILLISECOND));
    return hash;
}

void check_permits_granted(const acquisition_record *record)
{
    int32_t written = written_limit(record->path);
    if (written > 0 && written != record->limit && !run.resizes && nodes_exist(record) && !excused(record))
        fail("limit", "acquisition %d of client %d asked for %d permits in all and was granted, %s is for %d",
             record->number, record->client, (int)record->limit, run.paths[record->path], (int)written);
}

void note_limit_change(const char *server_path)
{
    for (int path = 0; path < run.path_count; path++) {
        char directory[MAX_DIRECTORY];
        lease_directory(path, directory);
        if (run.limits[path] == 0 || strcmp(server_path, directory) != 0)
            continue;
        run.limit_since[path] = run.limit_until[path][run.limit_now[path]] = sim_now();
        run.limit_now[path] = written_limit(path);
    }
}

bool mismatch_explained(const acquisition_record *record)
{
    totals.mismatches++;
    /* A try may be refused by the list of a server that lags. Others have created their nodes before their list. */
    int64_t lag = record->try_only ? HEARS_WITHIN : 0;
    bool changed = run.limit_since[record->path] + lag >= record->asked_at;
    int32_t written = written_limit(record->path);
    bool differs = is_resized(record->path) ? written < record->count : written != record->limit;
    return (run.mismatch || run.resizes) && (changed || differs);
}

/* ---- resizes ---- */

void resize(int path, int32_t limit)
{
    char directory[MAX_DIRECTORY], mark[160], data[12];
    lease_directory(path, directory);
    snprintf(mark, sizeof(mark), "%s/" ZKL_RESIZED, directory);
    snprintf(data, sizeof(data), "%d", (int)limit);
    sim_trace("%s gets %s permits", run.paths[path], data);
    totals.resizes += sim_exists(directory) && sim_foreign_resize(directory, data, mark);
}

static void resize_now_and_then(void *context, int64_t path)
{
    if (run.draining || run.failed)
        return;
    resize((int)path, 1 + (int32_t)sim_below(MOST_PERMITS));
    sim_schedule(sim_now() + 1 + sim_below(run.timeout), resize_now_and_then, context, path);
}

void start_resizes(void)
{
    for (int path = 0; path < run.path_count && run.resizes; path++) {
        if (run.limits[path] > 0)
            sim_schedule(sim_now() + sim_below(run.timeout), resize_now_and_then, NULL, path);
    }
}

/* ---- tries ---- */

/* Remembers the nodes in the way of a try: lease nodes that exist on every server, and nodes in the queue. */
void note_lease_blockers(acquisition_record *record)
{
    char directory[MAX_DIRECTORY];
    lease_directory(record->path, directory);
    for (int pass = 0; pass < 2; pass++) {
        int count = sim_child_count(directory);
        for (int i = 0; i < count && record->blocker_count < MOST_BLOCKERS; i++) {
            char *blocker = record->blockers[record->blocker_count];
            snprintf(blocker, sizeof(record->blockers[0]), "%s/%s", directory, sim_child(directory, i));
            if (zkl_node_parse(sim_child(directory, i)).kind != ZKL_NODE_STRANGER && sim_exists_everywhere(blocker)) {
                record->blocker_czxids[record->blocker_count] = sim_czxid(blocker);
                record->blocker_count++;
            }
        }
        queue_directory(record->path, directory);
    }
}

bool still_blocks(const acquisition_record *record, int blocker)
{
    return sim_exists(record->blockers[blocker]) &&
           sim_czxid(record->blockers[blocker]) == record->blocker_czxids[blocker];
}

bool semaphore_is_taken(const acquisition_record *record)
{
    int32_t permits = 0;
    for (int i = 0; i < record->blocker_count; i++) {
        if (!still_blocks(record, i))
            continue;
        if (zkl_node_parse(strrchr(record->blockers[i], '/') + 1).kind != ZKL_NODE_LEASE)
            return true;
        permits++;
    }
    if (is_resized(record->path) && run.limit_since[record->path] + HEARS_WITHIN >= record->asked_at)
        return false; /* there may have been room, as of the server that it asked */
    return permits + record->count > (is_resized(record->path) ? written_limit(record->path) : record->limit);
}

/* ---- wake-ups ---- */

static bool heads_queue(int caller, int path)
{
    char directory[MAX_DIRECTORY], node[160];
    queue_directory(path, directory);
    int32_t number, first = INT32_MAX;
    int count = sim_child_count(directory);
    bool mine = false;
    for (int i = 0; i < count; i++) {
        const char *name = sim_child(directory, i);
        if (contender_name(name, &number) != SIM_EXCLUSIVE || number > first)
            continue;
        first = number;
        snprintf(node, sizeof(node), "%s/%s", directory, name);
        mine = sim_owner(node) == sim_client_session(caller);
    }
    return mine;
}

void check_child_event(int caller, const char *server_path)
{
    for (int path = 0; path < run.path_count; path++) {
        char directory[MAX_DIRECTORY];
        lease_directory(path, directory);
        if (run.limits[path] == 0 || strcmp(directory, server_path) != 0 || heads_queue(caller, path))
            continue;
        totals.wasted_wakes++;
        /*
         * Without a heartbeat, or memory for one, the client does not learn that its node in the queue was deleted
         * externally.
         */
        if (sim_now() - run.clients[caller].disturbed_at > 2 * run.timeout && !run.short_of_memory &&
            !deletions_unheard() && !meddled_with(path))
            fail("herd", "a change among the permits of %s woke client %d, which is not at the head of the line",
                 run.paths[path], caller);
    }
}
