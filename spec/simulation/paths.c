/* paths: the locks of a run. Some paths are locks, others are semaphores. A semaphore has two directories. */
#include <stdio.h>
#include <string.h>

#include "schedule.h"

#define LOCKS "/locks"
#define LEASES "/leases"

static void choose_weights(bool mutexes)
{
    if (mutexes) {
        run.weights[ZKL_MODE_MUTEX] = 1;
        return;
    }
    for (int i = 0; i < 3; i++)
        run.weights[i] = (int)sim_below(4);
    if (run.weights[0] + run.weights[1] + run.weights[2] == 0)
        run.weights[ZKL_MODE_READ] = run.weights[ZKL_MODE_WRITE] = 1;
}

void choose_paths(void)
{
    bool mutexes = sim_chance(1, 3); /* only mutexes: they have the most conflicts */
    int semaphores = mutexes || sim_chance(1, 3) ? 0 : 1 + (int)sim_below(MAX_SEMAPHORES);
    int locks = sim_chance(1, 2) ? 1 : 1 + (int)sim_below(MAX_LOCKS);
    if (semaphores > 0 && sim_chance(1, 2))
        locks = 0;
    run.prefix = sim_chance(1, 6) ? "/app" : "";
    for (int i = 0; i < locks; i++)
        snprintf(run.paths[run.path_count++], sizeof(run.paths[0]), i == 1 ? "/locks/deep/l%d" : "/locks/l%d", i);
    for (int i = 0; i < semaphores; i++) {
        run.limits[run.path_count] = 1 + (int32_t)sim_below(sim_chance(1, 8) ? MANY_PERMITS : MOST_PERMITS);
        snprintf(run.paths[run.path_count++], sizeof(run.paths[0]), i == 1 ? "/sems/deep/s%d" : "/sems/s%d", i);
    }
    run.mismatch = sim_chance(1, 4);
    run.handoff = sim_chance(1, 3) ? 0 : 1 + (int32_t)sim_below(6);
    run.keen = locks > 0 && run.handoff > 0 && sim_chance(1, 3);
    run.in_turns = locks > 0 && sim_chance(1, 8);
    run.calm = run.keen && sim_chance(1, 2);
    run.most_open = run.handoff > 0 && sim_chance(1, 2) ? 8 : 3;
    choose_weights(mutexes);
}

void server_path_of(const char *client_path, char *out, size_t size)
{
    snprintf(out, size, "%s%s", run.prefix, client_path);
}

/*
 * Returns whether `rest`, the text behind a path, names a child of the path or, for a semaphore, of one of its two
 * directories.
 */
static bool is_child(int path, const char *rest)
{
    if (run.limits[path] > 0) {
        size_t skip = strncmp(rest, LOCKS "/", sizeof(LOCKS)) == 0     ? sizeof(LOCKS) - 1
                      : strncmp(rest, LEASES "/", sizeof(LEASES)) == 0 ? sizeof(LEASES) - 1
                                                                       : strlen(rest);
        rest += skip;
    }
    return rest[0] == '/' && strchr(rest + 1, '/') == NULL;
}

int path_index(const char *server_path)
{
    size_t skip = strlen(run.prefix);
    if (strncmp(server_path, run.prefix, skip) != 0)
        return -1;
    for (int i = 0; i < run.path_count; i++) {
        size_t length = strlen(run.paths[i]);
        if (strncmp(server_path + skip, run.paths[i], length) == 0 && is_child(i, server_path + skip + length))
            return i;
    }
    return -1;
}

void queue_directory(int path, char *out)
{
    snprintf(out, MAX_DIRECTORY, "%s%s%s", run.prefix, run.paths[path], run.limits[path] > 0 ? LOCKS : "");
}

void lease_directory(int path, char *out)
{
    snprintf(out, MAX_DIRECTORY, "%s%s%s", run.prefix, run.paths[path], LEASES);
}

void some_directory(char *out)
{
    int path = (int)sim_below(run.path_count);
    if (run.limits[path] > 0 && sim_chance(1, 2))
        lease_directory(path, out);
    else
        queue_directory(path, out);
}

int32_t written_limit(int path)
{
    char directory[MAX_DIRECTORY];
    lease_directory(path, directory);
    int length;
    const char *data = sim_data(directory, &length);
    int32_t limit = 0;
    for (int i = 0; data != NULL && i < length; i++)
        limit = limit * 10 + (data[i] - '0');
    return limit;
}

bool is_resized(int path)
{
    char mark[160];
    snprintf(mark, sizeof(mark), "%s%s%s/" ZKL_RESIZED, run.prefix, run.paths[path], LEASES);
    return sim_exists(mark);
}

sim_part contender_name(const char *name, int32_t *number)
{
    zkl_node node = zkl_node_parse(name);
    *number = node.sequence;
    return node.kind == ZKL_NODE_EXCLUSIVE ? SIM_EXCLUSIVE : node.kind == ZKL_NODE_SHARED ? SIM_SHARED : SIM_NO_PART;
}

zkl_node_kind kind_of(zkl_mode mode)
{
    return mode == ZKL_MODE_LATCH || mode == ZKL_MODE_COUNT ? ZKL_NODE_STRANGER
           : mode == ZKL_MODE_READ                          ? ZKL_NODE_SHARED
                                                            : ZKL_NODE_EXCLUSIVE;
}
