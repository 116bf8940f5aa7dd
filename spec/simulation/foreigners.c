/*
 * foreigners: what Curator does, as seen by the leader: mutexes, read/write locks with their downgrades, semaphores.
 *
 * A semaphore's permit is taken as Curator takes it. The foreigner waits until it is the head of the queue, and then
 * makes its lease node. With both nodes it waits for room. When there is room it deletes its node in the queue.
 */
#include <stdio.h>
#include <string.h>

#include "schedule.h"

static const char *marker_of(zkl_mode mode)
{
    static const char *const markers[] = {[ZKL_MODE_MUTEX] = "-lock-",
                                          [ZKL_MODE_READ] = "-__READ__",
                                          [ZKL_MODE_WRITE] = "-__WRIT__",
                                          [ZKL_MODE_PERMITS] = "-lease-"};
    return markers[mode];
}

bool foreigner_holds(const foreigner *who)
{
    return (who->state == FOREIGNER_HOLDING || who->state == FOREIGNER_DOWNGRADING) && sim_exists(who->node);
}

bool foreigner_busy(const foreigner *who)
{
    return who->state != FOREIGNER_IDLE || who->other[0] != '\0';
}

static void make_directory(const char *directory)
{
    char above[MAX_DIRECTORY];
    for (const char *slash = strchr(directory + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(above, sizeof(above), "%.*s", (int)(slash - directory), directory);
        if (!sim_exists(above))
            sim_foreign_create(0, above, "", ZOO_CONTAINER);
    }
    sim_foreign_create(0, directory, "", ZOO_CONTAINER);
}

/* Returns whether no node of another contender is in the foreigner's way in its queue. */
static bool foreign_first(const foreigner *who)
{
    char directory[MAX_DIRECTORY];
    queue_directory(who->path, directory);
    zkl_node own = zkl_node_parse(strrchr(who->node, '/') + 1);
    int count = sim_child_count(directory);
    for (int i = 0; i < count; i++) {
        zkl_node node = zkl_node_parse(sim_child(directory, i));
        if (zkl_kind_conflicts(own.kind, node.kind) && node.sequence < own.sequence)
            return false;
    }
    return true;
}

/*
 * Sends a create of its own node. Returns false if it must be tried again later. Without a session the node would never
 * be deleted.
 */
static bool create_own(const foreigner *who, const char *path, int mode)
{
    return who->session != 0 && sim_foreign_create(who->session, path, "10.1.1.1", mode);
}

/* Sends a create of a node in the directory. Stores the prefix of its name in `node`. */
static bool foreign_create(foreigner *who, const char *directory, const char *marker)
{
    if (!sim_exists(directory))
        make_directory(directory);
    snprintf(who->node, sizeof(who->node), "%s/_c_f0000000-0000-4000-800%d-%012d%s", directory, who->index,
             ++who->serial, marker);
    who->hold_until = sim_now() + run.timeout;
    return create_own(who, who->node, ZOO_EPHEMERAL_SEQUENTIAL);
}

static void foreign_join(foreigner *who)
{
    char directory[MAX_DIRECTORY];
    if (who->session == 0)
        who->session = sim_foreign_session();
    if (who->session == 0)
        return;
    who->path = (int)sim_below(run.path_count);
    who->mode = random_mode(who->path);
    queue_directory(who->path, directory);
    bool permit = who->mode == ZKL_MODE_PERMITS;
    if (foreign_create(who, directory, marker_of(permit ? ZKL_MODE_MUTEX : who->mode)))
        who->state = FOREIGNER_JOINING;
}

static void give_up_session(foreigner *who)
{
    if (who->session == 0 || sim_foreign_expire(who->session)) {
        who->session = 0;
        who->state = FOREIGNER_IDLE;
    }
}

/* Looks for the node that it has created. The answer may have been lost. */
static void foreign_find(foreigner *who, foreigner_state found)
{
    char directory[MAX_DIRECTORY], path[320];
    if (found == FOREIGNER_NO_ROOM)
        lease_directory(who->path, directory);
    else
        queue_directory(who->path, directory);
    int count = sim_child_count(directory);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/%s", directory, sim_child(directory, i));
        if (strncmp(path, who->node, strlen(who->node)) == 0) {
            snprintf(who->node, sizeof(who->node), "%.159s", path);
            who->state = found;
            if (zkl_node_parse(sim_child(directory, i)).sequence == INT32_MAX)
                give_up_session(who); /* all nodes have this number now, so two foreigners might wait for each other */
            return;
        }
    }
    if (sim_now() > who->hold_until)
        give_up_session(who);
}

static void hold(foreigner *who)
{
    who->state = FOREIGNER_HOLDING;
    who->hold_until = sim_now() + sim_below(run.timeout / 2);
    sim_trace("foreigner %d: holds by %s", who->index, who->node);
    check_foreign_grant(who);
}

/* The foreigner at the head of a semaphore's queue makes its lease node. */
static void foreign_take(foreigner *who)
{
    char directory[MAX_DIRECTORY];
    lease_directory(who->path, directory);
    memcpy(who->other, who->node, sizeof(who->other));
    if (foreign_create(who, directory, marker_of(ZKL_MODE_PERMITS))) {
        who->state = FOREIGNER_TAKING;
    } else {
        memcpy(who->node, who->other, sizeof(who->node));
        who->other[0] = '\0';
    }
}

static bool has_room(const foreigner *who)
{
    char directory[MAX_DIRECTORY];
    lease_directory(who->path, directory);
    int32_t limit = written_limit(who->path);
    int32_t taken = 0;
    int count = sim_child_count(directory);
    for (int i = 0; i < count; i++) /* Curator also counts nodes of other names, and would wait for them for ever */
        taken += zkl_node_parse(sim_child(directory, i)).kind == ZKL_NODE_LEASE;
    return taken <= (limit > 0 ? limit : run.limits[who->path]);
}

/*
 * Creates a reader's node with the writer's number. Afterwards the writer's node is deleted
 * (InterProcessReadWriteLock).
 */
static void begin_downgrade(foreigner *who)
{
    snprintf(who->other, sizeof(who->other), "%s", who->node);
    char *marker = strstr(who->other, marker_of(ZKL_MODE_WRITE));
    memcpy(marker, marker_of(ZKL_MODE_READ), strlen(marker_of(ZKL_MODE_READ)));
    who->state = FOREIGNER_DOWNGRADING;
}

static void downgrade(foreigner *who)
{
    if (!sim_exists(who->other)) {
        create_own(who, who->other, ZOO_EPHEMERAL);
        return;
    }
    char writer[sizeof(who->node)];
    memcpy(writer, who->node, sizeof(writer));
    memcpy(who->node, who->other, sizeof(who->node));
    memcpy(who->other, writer, sizeof(who->other));
    who->mode = ZKL_MODE_READ;
    hold(who);
}

static void delete_other(foreigner *who)
{
    if (sim_exists(who->other))
        sim_foreign_delete(who->session, who->other);
    else
        who->other[0] = '\0';
}

/* Its node is gone: deleted by an administrator, or by the foreigner. */
static void begin_again(foreigner *who)
{
    if (who->state == FOREIGNER_DOWNGRADING)
        give_up_session(who); /* the reader's node may still be created */
    else
        who->state = FOREIGNER_IDLE;
}

static void go_on(foreigner *who)
{
    switch (who->state) {
    case FOREIGNER_IDLE:
        if (!run.draining && who->other[0] == '\0' && sim_chance(1, 30))
            foreign_join(who);
        break;
    case FOREIGNER_JOINING:
        foreign_find(who, FOREIGNER_WAITING);
        break;
    case FOREIGNER_WAITING:
        if (foreign_first(who) && who->mode == ZKL_MODE_PERMITS)
            foreign_take(who);
        else if (foreign_first(who))
            hold(who);
        break;
    case FOREIGNER_TAKING:
        foreign_find(who, FOREIGNER_NO_ROOM);
        break;
    case FOREIGNER_NO_ROOM:
        if (has_room(who))
            hold(who);
        else if (!sim_exists(who->other) || (run.exhausting && sim_now() > who->hold_until))
            give_up_session(who); /* out of order or tied now: it and the head of the queue might wait for each other */
        break;
    case FOREIGNER_HOLDING:
        if (sim_now() > who->hold_until && who->mode == ZKL_MODE_WRITE && sim_chance(1, 3))
            begin_downgrade(who);
        else if (sim_now() > who->hold_until)
            who->state = FOREIGNER_LEAVING;
        break;
    case FOREIGNER_DOWNGRADING:
        downgrade(who);
        break;
    case FOREIGNER_LEAVING:
        sim_foreign_delete(who->session, who->node);
        break;
    }
}

static void foreign_act(void *context, int64_t argument)
{
    foreigner *who = context;
    if (run.failed)
        return;
    sim_schedule(sim_now() + 1 + sim_below(run.timeout / 20), foreign_act, who, argument);
    if (who->session != 0 && !sim_session_lives(who->session))
        who->session = 0; /* its nodes are gone with it */
    bool has_node = who->state > FOREIGNER_JOINING && who->state != FOREIGNER_TAKING;
    if (has_node && !sim_exists(who->node))
        begin_again(who);
    bool kept =
        who->state == FOREIGNER_TAKING || who->state == FOREIGNER_NO_ROOM || who->state == FOREIGNER_DOWNGRADING;
    if (who->other[0] != '\0' && !kept)
        delete_other(who);
    go_on(who);
}

bool foreigners_know(const char *path)
{
    for (int i = 0; i < run.foreigner_count; i++) {
        const foreigner *who = &run.foreigners[i];
        if ((who->state != FOREIGNER_IDLE && strcmp(who->node, path) == 0) || strcmp(who->other, path) == 0)
            return true;
    }
    return false;
}

void foreign_crash(void)
{
    if (run.foreigner_count == 0)
        return;
    give_up_session(&run.foreigners[sim_below(run.foreigner_count)]);
}

void start_foreigners(void)
{
    for (int i = 0; i < run.foreigner_count; i++) {
        run.foreigners[i].index = i;
        sim_schedule(sim_now() + sim_below(run.timeout), foreign_act, &run.foreigners[i], 0);
    }
}
