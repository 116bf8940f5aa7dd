/*
 * checks: what must hold in every run, whatever goes wrong.
 *
 *   exclusion  No two conflicting grants are valid at the same simulated instant. A grant is valid while its phase is GRANTED
 *              and its client's clock is below the last value of lease_changed. A foreign contender's grant begins when it
 *              finds its node first. It ends when the contender deletes the node, or when the node exists no longer.
 *   timer      No engine assumes a later restart of its session's timer, or a longer session timeout, than the leader's. No
 *              lease ends after the session may end.
 *   token      Valid grants of one path that conflict carry growing tokens, in the order in which they are given. No node
 *              serves more grants than a token can count. (The token of a grant on a node that an administrator has deleted
 *              is not compared. Such a token is stale, and stores refuse it.)
 *   limit      The valid grants of a semaphore and the permits of foreigners are together never more than its directory
 *              says. No acquisition is granted permits under another limit (limits.c).
 *   hold       A grant ends when its max_hold has passed on its client's clock, and the client will wake up for that.
 *   revoked    A holder with on_revoke that is asked to release is notified in bounded time while its connection is good. No
 *              other acquisition is notified.
 *
 *   handed     Acquisitions share a node only if its data would be the same for each. A node by which a grant was lost is not
 *              handed over any more. A node whose holder was notified of a revocation is not handed over either (check "revoked").
 *   fairness   While another client waits behind a client's node, at most `handoff` further turns are granted by that node.
 *              Readers that have waited together are granted together, in one turn.
 *   linger     A node by which no acquisition holds is deleted when another client waits, or when its linger time is over.
 *   requests   An acquisition that is granted by an existing node costs no request (with on_revoke: one).
 *
 *   pause      A request that a server throttles is not repeated at once.
 *
 *   reach      A client is connected within REACHED_WITHIN if one server can be reached all the time.
 *   spin       A client does not take far too many turns in a second.
 *
 *   lists      An entry that waits to be stepped is in exactly one list.
 *   owner      A grant ends with its session, at the latest when the client has a new session.
 *   listed     No grant is given by a list that does not contain the acquisition's own node.
 *   forgotten  After the faults have ended and all holders release, every waiting acquisition is granted in bounded time.
 *   orphans    In the end there is no node of a client, no watch at a server, no watcher in a handle, no entry and no watch
 *              in an engine's statistics, and not a byte of memory more than before.
 *
 *   herd       A deletion wakes the next in the queue only: with readers, those that waited only for a writer. A change among
 *              a semaphore's lease nodes wakes only the head of its queue. Events to a client further behind are excused if
 *              it has given something up a moment ago, because its watch may not be removed yet.
 *
 *   counted, latch, gate    See latches.c.
 *
 *   try        A refused try has created nothing if the path was held all the time by nodes that every server had seen.
 *   leftovers  No connection is used with requests that an earlier connection, lost in a send that failed, has left behind.
 *   strays     A node that a client has made and does not know of is deleted when that client queues there again (strays.c).
 *   final      LOST, REFUSED and RELEASED never change again. A refusal has a reason that the run can explain. A release
 *              returns "lost" only if a node by which the lock was held was deleted externally.
 *
 * Servers whose data are replaced forget what they have acknowledged. All nodes that do not exist any more count as deleted by
 * an administrator: see below. After a wipe, which ends connections and sessions, this excuses for no longer than a lease
 * lasts. Otherwise only these two cases excuse a second holder (`misled`):
 * - The data are replaced under connections that stay, and a client has given a number back less than a second ago. It may be
 *   given the next number of another history.
 * - A client's node was deleted, with its session or externally, and the backup brings it back before the client learns of
 *   the deletion. The client then takes a turn that has already passed on.
 *
 * After a wipe, or a restore of stopped servers, zxids begin again. So tokens of nodes that were made after the backup (after a
 * wipe: all tokens) are not compared with later ones. All other tokens are. If a node has outlived a restore, its client need
 * not be told of new contenders, neither while it lingers nor while its bound does not count.
 *
 * After an administrator has deleted a lock node two holders are possible for a while, because the victim cannot know. The
 * excuse begins when the deletion is committed. It ends when the victim has received one of these answers and has finished its
 * turn: a multi that names the node with ZNONODE, an exists with ZNONODE, or an exists with an impostor's Stat. It lasts at
 * most one session timeout from the deletion or from the beginning of the victim's present lease. Heartbeats are sent every T/5
 * while there is a lease, so this finds an engine that overlooks the answer or stops asking.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_private.h"
#include "lock/entry.h"
#include "lock/permits.h"
#include "schedule.h"

typedef struct {
    char path[160];
    int64_t at;
    bool committed;
    bool wiped; /* with all other nodes, by a wipe */
} admin_deletion;
#define MAX_DELETIONS 1024

/* All other servers may be dead, or hang, for which a handshake is waited for: for longer after some were not answered in time. */
#define REACHED_WITHIN (3 * SIM_SECOND + run.timeout)

/* Requests of one client with its twenty or so acquisitions, beside one for each of its entries. */
#define MOST_THROTTLED 60

static admin_deletion deletions[MAX_DELETIONS];
static int deletion_count;
static sim_replacement replacement; /* the latest kind of replacement of the servers' data */

void fail(const char *check, const char *format, ...)
{
    if (run.failed)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run.problem, sizeof(run.problem), format, arguments);
    va_end(arguments);
    snprintf(run.check, sizeof(run.check), "%s", check);
    run.failed = true;
    sim_trace("FAILED %s: %s", check, run.problem);
}

void reset_checks(void)
{
    deletion_count = 0;
    replacement = SIM_WIPED;
}

bool grant_valid(const acquisition_record *record)
{
    if (record->acquisition == NULL || record->phase != ZKL_ACQUISITION_GRANTED)
        return false;
    const client *of = &run.clients[record->client];
    if (record->acquisition == NULL || record->phase != ZKL_ACQUISITION_GRANTED)
        return false;
    int64_t now = client_clock(of, sim_now());
    return now < of->valid_until && now < record->hold_until;
}

bool excused(const acquisition_record *record)
{
    int64_t since = record->excused_since > record->lease_began ? record->excused_since : record->lease_began;
    /* Nothing that was sent after a wipe extends an old lease. The clocks may differ by 1 %. */
    int64_t most = record->wiped ? run.timeout / 2 + run.timeout / 50 : run.timeout;
    return record->excused && sim_now() < since + most;
}

/* ---- exclusion ---- */

static bool modes_conflict(zkl_mode one, zkl_mode other)
{
    return zkl_kind_conflicts(kind_of(one), kind_of(other));
}

static void check_pair(const acquisition_record *one, const acquisition_record *other)
{
    if (!modes_conflict(one->mode, other->mode) || one->writer == other || other->writer == one)
        return;
    if (excused(one) || excused(other) || one->misled || other->misled) {
        totals.excused_overlaps++;
        return;
    }
    fail("exclusion", "acquisition %d of client %d (%s) and acquisition %d of client %d (%s) both hold %s",
         other->number, other->client, other->node, one->number, one->client, one->node, run.paths[one->path]);
}

static void check_foreigners(const acquisition_record *record)
{
    for (int i = 0; i < run.foreigner_count; i++) {
        const foreigner *who = &run.foreigners[i];
        if (who->path != record->path || !foreigner_holds(who) || !modes_conflict(who->mode, record->mode))
            continue;
        /*
         * The node was deleted, and a restore has brought it back: other contenders may have been granted in between.
         */
        const node_record *node = find_node(who->node);
        if (excused(record) || record->misled || (node != NULL && node->revived))
            totals.excused_overlaps++;
        else
            fail("exclusion", "acquisition %d of client %d (%s) holds %s, and so does the foreigner's %s",
                 record->number, record->client, record->node, run.paths[record->path], who->node);
    }
}

void check_exclusion(void)
{
    if (!run.leases)
        return;
    for (const acquisition_record *one = run.acquisitions; one != NULL; one = one->next) {
        if (one->mode == ZKL_MODE_PERMITS || !grant_valid(one))
            continue;
        for (const acquisition_record *other = one->next; other != NULL; other = other->next) {
            if (other->path == one->path && grant_valid(other))
                check_pair(one, other);
        }
        check_foreigners(one);
    }
    for (int path = 0; path < run.path_count; path++) {
        if (run.limits[path] > 0)
            check_limit(path);
    }
}

static void check_state(void)
{
    check_exclusion();
    check_latches();
}

void check_foreign_grant(const foreigner *who)
{
    (void)who;
    totals.foreign_grants++;
    check_exclusion();
}

/* ---- the owner of a node ---- */

node_record *find_node(const char *path)
{
    for (node_record *each = run.nodes; each != NULL; each = each->next) {
        if (strcmp(each->path, path) == 0)
            return each;
    }
    return NULL;
}

/* The data of a client's node contain the client's number. */
static int client_of(const char *data, int length)
{
    return length > 7 && strncmp(data, "client-", 7) == 0 ? data[7] - '0' : -1;
}

/* A node of this name exists again: the same node, out of a backup, or else an impostor's node. */
static void note_revived(node_record *node, int64_t zxid)
{
    if (!sim_replacing() || node->czxid != zxid)
        return;
    node->gone = false;
    node->revived = true;
    node->visitor = NULL;
    node->visited_at = 0;
}

/*
 * Returns whether the client may rely on a number of its own that it gave back less than a second before, by its clock,
 * if the data were replaced in between under connections that stay. A number counts for that long: see adjacent.c. The
 * client's conclusion about its node holds as long as the node. Its conclusion from that node's number holds for no
 * more than a second after the first number.
 */
static bool adjacent_to_old_number(node_record *node, const zkl_queue *queue)
{
    const client *of = &run.clients[node->client];
    if (run.replaced_live_at == 0 || queue->cleared_czxid == 0)
        return false;
    const node_record *before = run.nodes;
    while (before != NULL && (before->czxid != queue->cleared_czxid || before->client != node->client))
        before = before->next;
    if (before == NULL || before == node || node->made_at <= run.replaced_live_at)
        return false;
    bool old = before->made_at < run.replaced_live_at && !before->outlived;
    int64_t since = old ? queue->cleared_at : before->misled_since;
    if ((!old && !before->misleads) ||
        (client_clock(of, node->made_at) - since > ZKL_SECOND && of->last_read - since > ZKL_SECOND))
        return false;
    node->misled_since = since;
    return true;
}

static bool made_on_old_number(node_record *node)
{
    for (const acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
        if (each->client == node->client && each->path == node->lock && each->acquisition != NULL &&
            adjacent_to_old_number(node, each->acquisition->queue))
            return true;
    }
    return false;
}

static void node_created(void *context, const char *path, int64_t session, int64_t zxid)
{
    (void)context;
    (void)session;
    note_limit_change(path);
    note_latch_created(path);
    zkl_node node = zkl_node_parse(strrchr(path, '/') + 1);
    if (node.kind == ZKL_NODE_STRANGER || path_index(path) < 0)
        return; /* not a contender's node */
    if (find_node(path) != NULL) {
        note_revived(find_node(path), zxid);
        return;
    }
    node_record *fresh = calloc(1, sizeof(*fresh));
    if (fresh == NULL)
        abort();
    int length;
    const char *data = sim_data(path, &length);
    snprintf(fresh->path, sizeof(fresh->path), "%s", path);
    snprintf(fresh->identity, sizeof(fresh->identity), "%.*s", length > 0 ? length : 0, data);
    fresh->czxid = zxid;
    fresh->client = client_of(data, length);
    fresh->lock = path_index(path);
    fresh->kind = node.kind;
    fresh->number = node.sequence;
    fresh->made_at = sim_now();
    fresh->misleads = fresh->client >= 0 && made_on_old_number(fresh);
    fresh->next = run.nodes;
    run.nodes = fresh;
}

/* Returns whether the acquisition holds, or has held, by the node. */
static bool owns(const acquisition_record *record, const char *path)
{
    for (int32_t i = 0; i < record->held_count; i++) {
        if (strcmp(record->held[i]->path, path) == 0)
            return true;
    }
    return false;
}

bool is_clients_node(const char *path)
{
    const node_record *node = find_node(path);
    return node != NULL && node->client >= 0 && !node->gone;
}

/* Returns whether all nodes by which a granted acquisition holds exist. */
bool nodes_exist(const acquisition_record *record)
{
    for (int32_t i = 0; i < record->held_count; i++) {
        if (record->held[i]->gone || !sim_exists(record->held[i]->path))
            return false;
    }
    return record->held_count == (record->mode == ZKL_MODE_PERMITS ? record->count : 1);
}

/* The acquisition is granted by the node of this path. */
static void note_held_node(acquisition_record *record, const char *path)
{
    node_record *node = find_node(path);
    if (node != NULL && record->held_count < MANY_PERMITS)
        record->held[record->held_count++] = node;
}

/* Records the nodes by which the acquisition is granted. The engine says which, since acquisitions share nodes. */
static void note_held(acquisition_record *record, const zkl_acquisition *acquisition)
{
    const zkl_entry *entry;
    char path[160];
    record->held_count = 0;
    if (record->mode != ZKL_MODE_PERMITS) {
        note_held_node(record, record->node);
        return;
    }
    LIST_FOREACH(entry, &acquisition->entries, in_acquisition)
    {
        if (entry->kind != &zkl_permit_kind || !entry->wanted)
            continue;
        server_path_of(entry->node, path, sizeof(path));
        note_held_node(record, path);
    }
}

/* ---- administrators ---- */

void note_admin_delete(const char *server_path)
{
    if (deletion_count == MAX_DELETIONS)
        return;
    admin_deletion *fresh = &deletions[deletion_count++];
    snprintf(fresh->path, sizeof(fresh->path), "%s", server_path);
    fresh->committed = false;
}

bool deletions_unheard(void)
{
    return !run.leases && deletion_count > 0;
}

/*
 * Returns the latest deletion of a node by which the acquisition holds, NULL if there was none. The node that an
 * impostor has put in its place may be deleted as well.
 */
static const admin_deletion *admin_deleted(const acquisition_record *record)
{
    const admin_deletion *latest = NULL;
    for (int i = 0; i < deletion_count; i++) {
        if (deletions[i].committed && owns(record, deletions[i].path) &&
            (latest == NULL || deletions[i].at > latest->at))
            latest = &deletions[i];
    }
    return latest;
}

static void excuse(acquisition_record *record, const admin_deletion *deletion, int64_t since)
{
    record->excused = true;
    record->wiped = deletion->wiped;
    record->excuse_ending = false;
    record->excused_since = since;
}

static void node_deleted(void *context, const char *path, int64_t session, int64_t by, int64_t zxid)
{
    (void)context;
    (void)zxid;
    note_limit_change(path);
    note_latch_deleted(path);
    node_record *node = find_node(path);
    if (node != NULL) {
        if (node->gone || node->revived)
            node->replaced_until = sim_now();
        node->taken = node->taken || (!node->gone && by != session);
        node->gone = true;
    }
    if (by != 0)
        return;
    if (sim_replacing() && node != NULL)
        note_admin_delete(path);
    for (int i = 0; i < deletion_count; i++) {
        if (strcmp(deletions[i].path, path) == 0) { /* the second time it is the impostor's node */
            deletions[i].committed = true;
            deletions[i].at = sim_now();
            deletions[i].wiped = sim_replacing() && replacement == SIM_WIPED;
            if (node != NULL && node->client >= 0)
                run.clients[node->client].disturbed_at = sim_now();
            for (acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
                if (!owns(each, path))
                    continue;
                excuse(each, &deletions[i], sim_now());
                run.clients[each->client].disturbed_at = sim_now();
            }
        }
    }
}

/* ---- replaced data ---- */

void note_replacing(sim_replacement how)
{
    replacement = how;
}

/* Nodes with higher zxids are not in the data any more, and these zxids will be given again. */
static void forget_tokens(int64_t zxid)
{
    for (acquisition_record *each = run.acquisitions; each != NULL; each = each->next)
        each->comparable = each->comparable && strtoll(each->token, NULL, 10) <= zxid;
}

void note_replaced(sim_replacement how)
{
    if (how != SIM_RESTORED_LIVE)
        forget_tokens(sim_last_zxid());
    else
        run.replaced_live_at = sim_now();
    for (node_record *each = run.nodes; each != NULL; each = each->next)
        each->outlived = each->outlived || !each->gone;
    for (int i = 0; i < run.client_count; i++)
        run.clients[i].disturbed_at = sim_now();
}

/* The client was told that the node does not exist, or is not its own. */
static void end_excuse(int caller, const char *path)
{
    for (acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
        if (each->client == caller && each->excused && owns(each, path))
            each->excuse_ending = true;
    }
}

static void multi_answered(void *context, int caller, const char *path, int err)
{
    (void)context;
    if (err == ZNONODE)
        end_excuse(caller, path);
}

static void looked(void *context, int caller, const char *path, int err, int64_t czxid)
{
    (void)context;
    const node_record *node = find_node(path);
    if (err == ZNONODE || (err == ZOK && node != NULL && node->czxid != czxid))
        end_excuse(caller, path);
}

/* ---- revocations ---- */

static void node_changed(void *context, const char *path, int64_t by)
{
    (void)context;
    (void)by;
    note_limit_change(path);
    int length;
    const char *data = sim_data(path, &length);
    bool asks = length == 10 && memcmp(data, "__REVOKE__", 10) == 0;
    node_record *node = find_node(path);
    if (node == NULL)
        return;
    if (!asks) {
        node->asked_since = 0; /* a client that reads the data only now does not see the request */
    } else if (node->asked_since == 0) {
        totals.asked_to_let_go += !node->asked;
        node->asked = true;
        node->asked_since = sim_now();
    }
}

static int64_t earliest_request(const acquisition_record *record)
{
    int64_t asked_at = 0;
    for (int32_t i = 0; i < record->held_count; i++) {
        /* Of several lease nodes the client watches only one. */
        if (strcmp(record->held[i]->path, record->node) == 0)
            asked_at = record->held[i]->asked_since;
    }
    return asked_at;
}

static void check_told(const client *of, const acquisition_record *record)
{
    int64_t since = record->revocable && record->revocations == 0 ? earliest_request(record) : 0;
    if (since == 0 || run.short_of_memory)
        return; /* no request; or no memory for the watch, which is no reason to lose the lock */
    if (since < record->granted_at)
        since = record->granted_at;
    if (since < of->unheard_until)
        since = of->unheard_until;
    if (of->state == ZKL_STATE_CONNECTED && of->paused_until < sim_now() && sim_now() > since + HEARS_WITHIN &&
        sim_exists(record->node))
        fail("revoked", "acquisition %d of client %d was asked to let go and has not heard of it", record->number,
             record->client);
}

/* ---- shared nodes ---- */

static bool stands_behind(const node_record *other, const node_record *node)
{
    return other->lock == node->lock && other->number > node->number && zkl_kind_conflicts(other->kind, node->kind) &&
           !other->gone;
}

/*
 * Returns whether the grant by the node begins another turn. Readers that have waited for the same turn are granted
 * together.
 */
static bool begins_turn(const acquisition_record *record, node_record *node)
{
    bool together =
        record->mode == ZKL_MODE_READ && node->readers_at == sim_now() && record->number <= node->readers_to;
    if (!together) {
        node->readers_at = record->mode == ZKL_MODE_READ ? sim_now() : 0;
        node->readers_to = run.acquisition_count;
    }
    return !together;
}

/* A watch on a directory that is armed anew after a reconnect only reports zxids higher than those that were seen. */
static bool may_not_be_told(const node_record *node, const node_record *other)
{
    return node->outlived || other->outlived;
}

/* A waiter of another client waits for a bounded number of turns of one client's acquisitions. */
static void check_fairness(const acquisition_record *record, node_record *node)
{
    const client *of = &run.clients[record->client];
    int64_t handed_over = node->turns - 1;
    node->hand_overs[handed_over % MOST_HAND_OVERS] = sim_now();
    if (handed_over <= run.handoff)
        return;
    totals.beyond++;
    int64_t first = node->hand_overs[(handed_over - run.handoff) % MOST_HAND_OVERS];
    /* Servers that lag behind may list fewer nodes than there are. */
    int64_t lag = run.options.servers > 1 ? HEARS_WITHIN : 0;
    for (const node_record *each = run.nodes; each != NULL; each = each->next) {
        /* A watch tells of later contenders, which takes time. */
        bool listed = !node->lingered && each->made_at + lag < node->shared_since;
        if (!listed && (first < of->unheard_until + HEARS_WITHIN || of->state != ZKL_STATE_CONNECTED))
            continue;
        int64_t told_from = each->made_at > node->lingered_since ? each->made_at : node->lingered_since;
        if (each->client != node->client && told_from + (listed ? 0 : HEARS_WITHIN) < first &&
            stands_behind(each, node) && !may_not_be_told(node, each))
            fail("fairness", "%s waits, and %d acquisitions of client %d were handed %s, the latest is %d", each->path,
                 (int)run.handoff + 1, record->client, node->path, record->number);
    }
}

static bool reader_with_readers(const acquisition_record *record, const node_record *node)
{
    for (const acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
        if (each != record && each->phase == ZKL_ACQUISITION_GRANTED && each->acquisition != NULL &&
            owns(each, node->path))
            return each->mode == ZKL_MODE_READ && record->mode == ZKL_MODE_READ;
    }
    return false;
}

/* Checks a grant by a node by which another acquisition has held before. */
static void check_shared(acquisition_record *record, node_record *node)
{
    totals.shared++;
    if (record->mode == ZKL_MODE_PERMITS) {
        if (record->handoff == 0)
            fail("fairness", "acquisition %d of client %d was handed permits and wanted its own", record->number,
                 record->client);
    } else if (node->idle_since != 0 && (node->idle_since < sim_now() || record->asked_at == sim_now()) &&
               !reader_with_readers(record, node)) {
        totals.lingered++;
        if (!node->lingered)
            node->lingered_since = node->idle_since;
        node->lingered = true;
    } else if (record->handoff == 0) {
        fail("fairness", "acquisition %d of client %d wanted a node of its own and was handed %s", record->number,
             record->client, node->path);
    }
    if (node->told)
        fail("revoked", "acquisition %d of client %d was handed %s, which others had asked for", record->number,
             record->client, node->path);
    if (node->lost)
        fail("handed", "acquisition %d of client %d was handed %s, which was not released", record->number,
             record->client, node->path);
}

/* Checks permits that were handed over from another acquisition. */
static void check_inherited(const acquisition_record *record)
{
    int64_t handed_over = strtol(record->token + ZKL_TOKEN_NUMBER_DIGITS + 1, NULL, 10);
    totals.inherited += handed_over > 0;
    if (handed_over > record->handoff)
        fail("fairness", "acquisition %d of client %d was handed permits that had been handed over %d times before",
             record->number, record->client, (int)handed_over - 1);
}

static void note_node_granted(acquisition_record *record)
{
    totals.overheard += record->revocable;
    for (int32_t i = 0; i < record->held_count; i++) {
        node_record *node = record->held[i];
        assert(node != NULL && "only nodes that are known are held");
        if (strcmp(node->identity, record->identity) != 0)
            fail("handed", "acquisition %d of client %d, by %s, was granted by %s, which says %s", record->number,
                 record->client, record->identity, node->path, node->identity);
        bool turn = begins_turn(record, node);
        node->grants++;
        node->turns += turn;
        if (node->grants > 1)
            check_shared(record, node);
        if (turn && node->turns > 1 && record->mode != ZKL_MODE_PERMITS)
            check_fairness(record, node);
        node->idle_since = 0;
        node->overheard = node->overheard || record->revocable;
        if (record->mode != ZKL_MODE_PERMITS && record->linger > node->linger)
            node->linger = record->linger;
    }
    if (record->mode == ZKL_MODE_PERMITS)
        check_inherited(record);
}

/* A grant has ended. */
static void note_node_left(const acquisition_record *record)
{
    for (int32_t i = 0; i < record->held_count; i++) {
        node_record *node = record->held[i];
        bool held = false;
        for (const acquisition_record *each = run.acquisitions; each != NULL && !held; each = each->next)
            held = each->phase == ZKL_ACQUISITION_GRANTED && each->acquisition != NULL && owns(each, node->path);
        node->lost = node->lost || record->phase == ZKL_ACQUISITION_LOST;
        node->idle_since = held ? 0 : sim_now();
    }
}

void note_forgotten(const acquisition_record *record)
{
    if (record->phase == ZKL_ACQUISITION_GRANTED)
        note_node_left(record); /* the engine will not report it */
}

/* Checks a node by which no acquisition holds. It may linger, but not too long, and not while another client waits. */
static void check_idle(const client *of, const node_record *node)
{
    int64_t since = node->idle_since > of->unheard_until ? node->idle_since : of->unheard_until;
    if (run.short_for_long && since < run.quiet_at)
        since = run.quiet_at; /* until then there may be no memory for the delete request */
    if (node->revived || of->state != ZKL_STATE_CONNECTED || of->paused_until >= sim_now() ||
        sim_now() < since + HEARS_WITHIN || of->closing || sim_owner(node->path) != sim_client_session(of->index))
        return;
    if (sim_now() > node->idle_since + node->linger + HEARS_WITHIN && sim_now() > since + HEARS_WITHIN)
        fail("linger", "nobody holds by %s of client %d for longer than it may linger", node->path, of->index);
    for (const node_record *each = run.nodes; each != NULL; each = each->next) {
        if (sim_now() > each->made_at + HEARS_WITHIN && each != node && stands_behind(each, node) &&
            !may_not_be_told(node, each))
            fail("linger", "%s of client %d lingers although %s waits", node->path, of->index, each->path);
    }
}

static void check_nodes(const client *of)
{
    for (const node_record *each = run.nodes; each != NULL; each = each->next) {
        if (each->client == of->index && each->idle_since != 0 && !each->gone)
            check_idle(of, each);
    }
}

void check_no_requests(const client *of, const char *what, int64_t before, int64_t revocable)
{
    int64_t sent = zkl_engine_stats(of->engine)->requests - before;
    if (sent > revocable)
        fail("requests", "client %d sent %d requests %s", of->index, (int)sent, what);
}

/* ---- max_hold ---- */

/* Checks that the grant ends by the engine's own reading of the clock, and that the client will wake up in time. */
static void check_hold(const client *of, const acquisition_record *record)
{
    if (record->hold_until <= of->last_read)
        fail("hold", "acquisition %d of client %d is still granted after its max_hold", record->number, record->client);
    if (record->hold_until < of->poll.wake_at && of->poll.wake_at != ZKL_NEVER)
        fail("hold", "client %d will not wake up for the max_hold of acquisition %d", record->client, record->number);
}

/* An entry that waits to be stepped is in the list that it names, and in no other. */
static void check_waiting(const client *of)
{
    const zkl_locks *locks = &of->engine->locks;
    const struct zkl_entry_list *const lists[] = {&locks->runnable, &locks->over_watch_budget, &locks->backing_off};
    const zkl_entry *entry;
    int32_t said = 0, there = 0;
    TAILQ_FOREACH(entry, &locks->entries, all)
    {
        said += entry->wait_list != NULL;
        totals.over_watch_budget += entry->wait_list == &locks->over_watch_budget;
    }
    for (size_t list = 0; list < sizeof lists / sizeof *lists && !run.failed; list++) {
        TAILQ_FOREACH(entry, lists[list], in_wait_list)
        {
            there++;
            if (entry->wait_list != lists[list])
                fail("lists", "an entry of client %d is in list %d, and says that it is in another one", of->index,
                     (int)list);
        }
    }
    if (said != there)
        fail("lists", "%d entries of client %d say that they wait in a list, and %d do", (int)said, of->index,
             (int)there);
}

void note_servers(void)
{
    unsigned serving = sim_serving();
    for (int i = 0; i < run.client_count; i++) {
        for (int j = 0; j < run.options.servers; j++) {
            if ((serving >> j & 1) == 0 || !sim_would_serve(i, j))
                run.clients[i].serves_since[j] = sim_now();
        }
    }
}

/* The other servers may do what they want: swallow, refuse, hang, or close. */
static void check_reach(const client *of)
{
    if (of->connector == NULL || of->closing || run.short_of_memory ||
        (of->state != ZKL_STATE_CONNECTING && of->state != ZKL_STATE_SUSPENDED))
        return;
    int64_t awake = of->paused_until > of->unheard_until ? of->paused_until : of->unheard_until;
    for (int i = 0; i < run.options.servers; i++) {
        int64_t since = of->serves_since[i] > awake ? of->serves_since[i] : awake;
        int64_t waited = sim_now() - since;
        totals.longest_reach = waited > totals.longest_reach ? waited : totals.longest_reach;
        if (waited > REACHED_WITHIN)
            fail("reach", "client %d has had no connection for %d ms, in which server %d could be reached", of->index,
                 (int)(waited / SIM_MILLISECOND), i);
    }
}

void check_after_call(client *of)
{
    check_reach(of);
    check_waiting(of);
    for (acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
        if (each->client != of->index)
            continue;
        if (each->excuse_ending)
            each->excused = each->excuse_ending = false;
        int64_t session = sim_client_session(of->index);
        if (each->acquisition != NULL && each->phase == ZKL_ACQUISITION_GRANTED && session != 0 &&
            session != each->session && !is_latch(each->path))
            fail("owner", "acquisition %d of client %d is still granted under a session that is over", each->number,
                 of->index);
        if (each->acquisition != NULL && each->phase == ZKL_ACQUISITION_GRANTED) {
            check_told(of, each);
            check_hold(of, each);
        }
        const char *node = each->acquisition != NULL ? zkl_acquisition_look(each->acquisition).node : NULL;
        if (node != NULL && strcmp(each->node + strlen(run.prefix), node) != 0)
            server_path_of(node, each->node, sizeof(each->node));
    }
    check_nodes(of);
    check_state();
}

/* ---- acquisitions ---- */

/*
 * Returns whether an impostor's node, or one out of a backup, exists. It may be where a waiter assumes its own node to
 * be, or between two nodes of which each is known to the other's client.
 */
static bool has_impostor(int lock)
{
    for (const node_record *each = run.nodes; each != NULL; each = each->next) {
        if (each->lock == lock && (each->gone || each->revived) && sim_exists(each->path))
            return true;
    }
    return false;
}

/* Returns whether there was such a node a short time ago. Servers may tell of it only now. */
static bool had_impostor(int lock)
{
    for (const node_record *each = run.nodes; each != NULL; each = each->next) {
        if (each->lock == lock && each->replaced_until > 0 && sim_now() - each->replaced_until < run.timeout)
            return true;
    }
    return false;
}

bool meddled_with(int lock)
{
    return has_impostor(lock) || had_impostor(lock);
}

static bool refusal_explained(const acquisition_record *record, zkl_code code)
{
    const client *of = &run.clients[record->client];
    switch (code) {
    case ZKL_FAILED:
        totals.refused_for_memory += run.short_of_memory;
        return run.short_of_memory;
    case ZKL_TIMEOUT:
    case ZKL_DISCONNECTED:
        return record->try_only;
    case ZKL_CANCELLED:
        return record->ended && record->end_code == code;
    case ZKL_CLOSED:
        return of->closing;
    case ZKL_NO_AUTH:
        return run.denied;
    case ZKL_AUTH_FAILED:
        return run.options.auth_fails;
    case ZKL_EXHAUSTED: /* an impostor's node keeps its number when the directory is created again */
        return run.exhausting || has_impostor(record->path);
    case ZKL_NO_NODE:
        return is_latch(record->path) && latch_refusal_explained(record, code);
    case ZKL_MISMATCH:
        return is_latch(record->path) ? latch_refusal_explained(record, code) : mismatch_explained(record);
    default:
        return false;
    }
}

static bool still_taken(const acquisition_record *record)
{
    if (record->mode == ZKL_MODE_PERMITS)
        return semaphore_is_taken(record);
    return record->blocker_count > 0 && still_blocks(record, 0);
}

static void check_refused_try(const acquisition_record *record, zkl_code code)
{
    if (code != ZKL_TIMEOUT || !record->try_only || record->optimistic)
        return;
    totals.refused_tries++;
    if (!still_taken(record))
        return;
    /* Other acquisitions of this client may create nodes there meanwhile. Later tries that are refused may not. */
    for (const acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
        bool writes_nothing = each->try_only && !each->optimistic && each->settled && each->granted_at == 0;
        if (each != record && each->client == record->client && each->path == record->path &&
            !(writes_nothing && each->asked_at > record->asked_at) &&
            !(each->settled && each->settled_at < record->asked_at))
            return;
    }
    totals.checked_tries++;
    int64_t created = run.clients[record->client].creates[record->path] - record->creates_before;
    if (created != 0)
        fail("try", "acquisition %d of client %d was a refused try, yet created %d nodes in %s, which was taken by %s",
             record->number, record->client, (int)created, run.paths[record->path], record->blockers[0]);
}

static void check_lost(const acquisition_record *record, zkl_acquisition *acquisition)
{
    totals.losses++;
    const client *of = &run.clients[record->client];
    if (zkl_acquisition_look(acquisition).code == ZKL_MAX_HOLD) {
        totals.held_too_long++;
        if (of->last_read < record->hold_until)
            fail("hold", "acquisition %d of client %d was lost before its max_hold", record->number, record->client);
        return;
    }
    bool lease_over = client_clock(of, sim_now()) >= of->valid_until;
    if (!lease_over && !of->closing && !of->expired && nodes_exist(record) && run.leases && !record->excused)
        fail("final", "acquisition %d of client %d was lost (%s) although its lease and its node %s are good",
             record->number, record->client, zkl_acquisition_look(acquisition).message, record->node);
}

/* Checks a release that has found no node to delete. */
static void check_deleted_externally(const acquisition_record *record)
{
    bool taken = false;
    for (int32_t i = 0; i < record->held_count; i++)
        taken = taken || record->held[i]->taken;
    totals.deleted_externally++;
    if (!taken)
        fail("final",
             "acquisition %d of client %d is said to have been lost before its release, and nobody else has deleted %s",
             record->number, record->client, record->node);
}

/* The token must be greater than that of every earlier acquisition which could not have held at the same time. */
static void check_token(acquisition_record *record)
{
    if (strlen(record->token) != ZKL_TOKEN_SIZE - 1)
        fail("token", "acquisition %d has the token '%s'", record->number, record->token);
    int64_t grants = strtol(record->token + ZKL_TOKEN_NUMBER_DIGITS + 1, NULL, 10);
    if (grants > zkl_most_grants && record->mode != ZKL_MODE_PERMITS && record->writer == NULL)
        fail("token", "acquisition %d of client %d got token %s, by a node for %d grants", record->number,
             record->client, record->token, (int)zkl_most_grants);
    if (!run.leases || excused(record))
        return;
    for (const acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
        bool conflicts = record->mode == ZKL_MODE_PERMITS ? each->count + record->count > most_permits(record)
                                                          : modes_conflict(each->mode, record->mode);
        if (each->comparable && each->path == record->path && conflicts && strcmp(each->token, record->token) >= 0)
            fail("token", "acquisition %d of client %d got token %s for %s, after acquisition %d got %s",
                 record->number, record->client, record->token, run.paths[record->path], each->number, each->token);
    }
    record->comparable = true;
}

static void note_grant(acquisition_record *record, zkl_acquisition *acquisition)
{
    zkl_token_format(zkl_acquisition_look(acquisition).token, record->token);
    record->granted_at = sim_now();
    note_held(record, acquisition);
    record->hold_until = zkl_acquisition_look(acquisition).hold_until;
    record->session = sim_client_session(record->client);
    totals.grants++;
    totals.grants_by_mode[record->mode]++;
    char directory[MAX_DIRECTORY];
    queue_directory(record->path, directory);
    totals.contended_grants += sim_child_count(directory) > 1;
    totals.handed_over += record->writer != NULL && record->writer->phase == ZKL_ACQUISITION_GRANTED;
}

/* Returns when the node first granted an acquisition. */
static int64_t first_grant(const node_record *node)
{
    int64_t first = sim_now();
    for (const acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
        if (each->granted_at != 0 && each->granted_at < first && owns(each, node->path))
            first = each->granted_at;
    }
    return first;
}

static void check_granted(acquisition_record *record, zkl_acquisition *acquisition)
{
    note_grant(record, acquisition);
    if (is_latch(record->path)) {
        check_latch_granted(record);
        return;
    }
    const client *of = &run.clients[record->client];
    if (record->max_hold > 0 && record->hold_until > client_clock(of, sim_now()) + record->max_hold)
        fail("hold", "acquisition %d of client %d may hold for longer than its max_hold", record->number,
             record->client);
    if (sim_list_lacks(record->node))
        fail("listed", "acquisition %d of client %d was granted by a list that does not contain its node %s",
             record->number, record->client, record->node);
    if (client_clock(of, sim_now()) >= of->valid_until)
        return; /* the thread slept meanwhile, so the grant was void from the start */
    node_record *node = record->held_count > 0 ? record->held[0] : NULL;
    const admin_deletion *gone = admin_deleted(record);
    if (gone != NULL) {
        /* The node of a waiter may be replaced by the node of another session. The waiter notices only when it holds. */
        int64_t learns_from = node != NULL && sim_exists(record->node) ? first_grant(node) : gone->at;
        excuse(record, gone, learns_from > gone->at ? learns_from : gone->at);
    }
    bool beside_revived = record->writer != NULL && record->writer->held_count > 0 && record->writer->held[0]->revived;
    if (node != NULL && !node->misleads)
        node->misleads = adjacent_to_old_number(node, acquisition->queue);
    record->misled = beside_revived || (node != NULL && (node->revived || node->misleads));
    totals.misled += record->misled;
    if (!record->misled)
        check_token(record);
    if (record->mode == ZKL_MODE_PERMITS)
        check_permits_granted(record);
}

static void note_revocations(acquisition_record *record, const zkl_acquisition *acquisition)
{
    int32_t revocations = zkl_acquisition_look(acquisition).revocations;
    if (revocations == record->revocations)
        return;
    totals.told += record->revocations == 0;
    record->revocations = revocations;
    bool asked = false;
    for (int32_t i = 0; i < record->held_count; i++) {
        asked = asked || record->held[i]->asked;
        record->held[i]->told = true;
    }
    if (!record->revocable || !asked)
        fail("revoked", "acquisition %d of client %d heard that it was asked to let go, and was not", record->number,
             record->client);
}

void check_acquisition_changed(acquisition_record *record, zkl_acquisition *acquisition)
{
    const zkl_acquisition_view view = zkl_acquisition_look(acquisition);
    zkl_acquisition_phase phase = view.phase;
    zkl_code code = view.code;
    bool settled = view.settled;
    const char *node = view.node;
    if (node != NULL)
        server_path_of(node, record->node, sizeof(record->node));
    sim_trace("client %d: acquisition %d on %s is %s%s%s %s", record->client, record->number, run.paths[record->path],
              zkl_acquisition_phase_name(phase), settled ? ", settled" : "", node != NULL ? "," : "",
              node != NULL ? node : "");
    run.clients[record->client].disturbed_at = sim_now();
    if (record->settled && !settled)
        fail("final", "acquisition %d of client %d was settled and is not any more", record->number, record->client);
    if (settled && (phase == ZKL_ACQUISITION_WAITING || (phase == ZKL_ACQUISITION_GRANTED && !is_latch(record->path))))
        fail("final", "acquisition %d of client %d is settled while %s", record->number, record->client,
             zkl_acquisition_phase_name(phase));
    if (settled && !record->settled && phase == ZKL_ACQUISITION_RELEASED && code == ZKL_LOST)
        check_deleted_externally(record);
    zkl_acquisition_phase before = record->phase;
    record->phase = phase;
    if (settled && !record->settled)
        record->settled_at = sim_now();
    record->settled = settled;
    note_revocations(record, acquisition);
    if (phase == before)
        return;
    if (before == ZKL_ACQUISITION_LOST || before == ZKL_ACQUISITION_REFUSED || before == ZKL_ACQUISITION_RELEASED ||
        (before == ZKL_ACQUISITION_GRANTED && phase != ZKL_ACQUISITION_LOST && phase != ZKL_ACQUISITION_RELEASED))
        fail("final", "acquisition %d of client %d went from %s to %s", record->number, record->client,
             zkl_acquisition_phase_name(before), zkl_acquisition_phase_name(phase));
    if (phase == ZKL_ACQUISITION_RELEASED && !record->ended && !run.clients[record->client].closing)
        fail("final", "acquisition %d of client %d was released by nobody", record->number, record->client);
    if ((phase == ZKL_ACQUISITION_REFUSED || phase == ZKL_ACQUISITION_LOST) && view.message[0] == '\0')
        fail("final", "acquisition %d of client %d ended with %s and without a word", record->number, record->client,
             zkl_code_name(code));
    if (phase == ZKL_ACQUISITION_REFUSED && !refusal_explained(record, code))
        fail("final", "acquisition %d of client %d was refused with %s: %s", record->number, record->client,
             zkl_code_name(code), view.message);
    if (phase == ZKL_ACQUISITION_REFUSED && is_latch(record->path))
        check_latch_try(record, code);
    else if (phase == ZKL_ACQUISITION_REFUSED)
        check_refused_try(record, code);
    if (phase == ZKL_ACQUISITION_LOST)
        check_lost(record, acquisition);
    if (phase == ZKL_ACQUISITION_GRANTED) {
        check_granted(record, acquisition);
        note_node_granted(record);
    } else if (before == ZKL_ACQUISITION_GRANTED) {
        note_node_left(record);
    }
}

/* Remembers the nodes in the way of a try. */
void check_asked(acquisition_record *record)
{
    const client *of = &run.clients[record->client];
    record->creates_before = of->creates[record->path];
    for (node_record *node = run.nodes; node != NULL; node = node->next) {
        if (node->client == record->client && node->lock == record->path && !node->gone && node->shared_since == 0)
            node->shared_since = sim_now();
    }
    if (!record->try_only || record->writer != NULL)
        return;
    if (is_latch(record->path)) {
        note_latch_asked(record);
        return;
    }
    if (record->mode == ZKL_MODE_PERMITS) {
        note_lease_blockers(record);
        return;
    }
    char directory[MAX_DIRECTORY];
    queue_directory(record->path, directory);
    int count = sim_child_count(directory);
    for (int i = 0; i < count && record->blocker_count == 0; i++) {
        const char *name = sim_child(directory, i);
        if (!zkl_kind_conflicts(kind_of(record->mode), zkl_node_parse(name).kind))
            continue;
        snprintf(record->blockers[0], sizeof(record->blockers[0]), "%s/%s", directory, name);
        record->blocker_czxids[0] = sim_czxid(record->blockers[0]);
        record->blocker_count = sim_exists_everywhere(record->blockers[0]);
    }
}

/*
 * A lease is made of two facts: the leader restarted the session's timer at some instant or later, and the session timeout. Both must
 * be true, even where no other client would get a lock too early.
 */
static void check_timer(const client *of, int64_t valid_until)
{
    int64_t restarted_at;
    int32_t timeout_ms;
    if (valid_until == ZKL_NEVER || valid_until <= of->valid_until || !run.leases ||
        !sim_session_timer(of->index, &restarted_at, &timeout_ms))
        return;
    int64_t timeout, claimed = zkl_engine_restarted_at(of->engine, &timeout), truth = client_clock(of, restarted_at);
    if (claimed > truth)
        fail("timer", "client %d believes that its session's timer was restarted %lld us after it was", of->index,
             (long long)((claimed - truth) / SIM_MICROSECOND));
    if (timeout > timeout_ms * SIM_MILLISECOND)
        fail("timer", "client %d believes in a session timeout of %lld ms, but it may be %d ms", of->index,
             (long long)(timeout / SIM_MILLISECOND), (int)timeout_ms);
    if (valid_until > truth + timeout_ms * SIM_MILLISECOND)
        fail("timer", "the lease of client %d ends %lld us after its session may", of->index,
             (long long)((valid_until - truth) / SIM_MICROSECOND - timeout_ms * INT64_C(1000)));
}

void check_lease_changed(client *of, int64_t valid_until)
{
    check_timer(of, valid_until);
    int64_t now = client_clock(of, sim_now());
    sim_trace("client %d: lease until %+lld us", of->index, (long long)((valid_until - now) / 1000));
    /*
     * Compares with the time that the engine was given, because its thread may have slept since. An engine that noticed
     * a lapse has already reported its acquisitions as lost.
     */
    if (run.leases && of->last_read >= of->valid_until && valid_until > of->last_read) {
        for (acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
            if (each->client == of->index)
                each->lease_began = sim_now();
            if (each->client == of->index && each->acquisition != NULL && each->phase == ZKL_ACQUISITION_GRANTED &&
                each->granted_at < sim_now() && !is_latch(each->path)) /* a latch is granted without a lease */
                fail("exclusion",
                     "the lease of client %d lapsed and began anew, acquisition %d was not reported lost between",
                     of->index, each->number);
        }
    }
    of->valid_until = valid_until;
}

/* ---- hooks ---- */

/* A client with on_revoke watches its own node. */
static bool is_own(int caller, const char *path)
{
    const node_record *node = find_node(path);
    return node != NULL && node->client == caller && node->overheard;
}

static void notified(void *context, int caller, const char *path, int type, bool successor, bool later)
{
    (void)context;
    if (type == ZOO_CHILD_EVENT)
        check_child_event(caller, path);
    if (type != ZOO_DELETED_EVENT || successor || !later || is_own(caller, path))
        return;
    totals.wasted_wakes++;
    if (meddled_with(path_index(path)))
        return;
    if (deletions_unheard() || run.short_of_memory)
        return; /* a waiter whose node was deleted keeps its watch until its predecessor's node is deleted */
    if (sim_now() - run.clients[caller].disturbed_at > 2 * run.timeout)
        fail("herd", "the deletion of %s woke client %d, which is not next in line", path, caller);
}

static void create_requested(void *context, int caller, const char *path)
{
    (void)context;
    int index = path_index(path);
    if (index >= 0)
        run.clients[caller].creates[index]++;
}

/*
 * A client repeats a throttled request after a second: perhaps once for each of its nodes, but not as fast as answers
 * arrive. It sends heartbeats nevertheless, every T/5, each with an exists for each of its nodes. The
 * reads of holders' own nodes after a reconnect do not count.
 */
static void throttled(void *context, int caller, bool probe, const char *path)
{
    (void)context;
    client *of = &run.clients[caller];
    if (sim_now() > of->throttled_at + SIM_SECOND) {
        of->throttled_at = sim_now();
        of->throttled = of->throttled_probes = of->throttled_entries = 0;
        of->throttled_nodes = 0;
    }
    of->disturbed_at = sim_now();
    if (of->engine != NULL && of->engine->session.heartbeat.nodes > of->throttled_nodes)
        of->throttled_nodes = of->engine->session.heartbeat.nodes;
    if (of->engine != NULL && zkl_engine_stats(of->engine)->entries > of->throttled_entries)
        of->throttled_entries = zkl_engine_stats(of->engine)->entries;
    if (path != NULL && zkl_node_parse(strrchr(path, '/') + 1).kind != ZKL_NODE_STRANGER)
        return;
    int64_t heartbeats = 5 * SIM_SECOND / run.timeout + 1;
    int64_t count = probe ? ++of->throttled_probes : ++of->throttled;
    if (count > MOST_THROTTLED + (probe ? heartbeats * of->throttled_nodes : of->throttled_entries))
        fail("pause", "%d requests of client %d were throttled within a second", (int)count, caller);
}

static void expired(void *context, int caller, int64_t session)
{
    (void)context;
    if (sim_client_session(caller) == session)
        run.clients[caller].expired = true;
    run.clients[caller].disturbed_at = sim_now();
}

static void readable(void *context, int caller)
{
    (void)context;
    client *of = &run.clients[caller];
    if (of->engine == NULL)
        return;
    int64_t latency = run.options.by_hand ? 0 : 5 * SIM_MICROSECOND + sim_below(60 * SIM_MICROSECOND);
    if (sim_chance(1, 60))
        latency += sim_below(20 * SIM_MILLISECOND);
    wake_client(of, sim_now() + latency);
}

void install_hooks(sim_hooks *hooks)
{
    *hooks = (sim_hooks){.readable = readable,
                         .created = node_created,
                         .deleted = node_deleted,
                         .changed = node_changed,
                         .notified = notified,
                         .contender = contender_name,
                         .multi_answered = multi_answered,
                         .looked = looked,
                         .create_requested = create_requested,
                         .throttled = throttled,
                         .expired = expired};
}

/* ---- the end of a run ---- */

void check_quiet(void)
{
    const char *example = "";
    totals.final_checks++;
    if (sim_stats().inconsistencies > 0)
        fail("leftovers", "an answer was not that to the first request that waited for one");
    int nodes = sim_client_nodes(&example);
    if (nodes > 0)
        fail("orphans", "%d nodes are left, %s for one", nodes, example);
    int watches = sim_server_watches(&example);
    if (watches > 0)
        fail("orphans", "%d watches are left on the servers, on %s for one", watches, example);
    for (int i = 0; i < run.client_count; i++) {
        const client *of = &run.clients[i];
        if (of->engine == NULL)
            continue;
        zkl_stats stats = *zkl_engine_stats(of->engine);
        if (sim_client_watches(i) > 0)
            fail("orphans", "%d watchers are left in the handle of client %d", sim_client_watches(i), i);
        if ((stats.entries != 0 && !run.unreadable) || stats.watches != 0)
            fail("orphans", "client %d counts %d entries and %d watches", i, (int)stats.entries, (int)stats.watches);
    }
}

/* ---- for worlds that are run by hand ---- */

static uint64_t millis(int64_t at)
{
    return (uint64_t)(at / SIM_MILLISECOND);
}

/* Hashes the order of instants within one millisecond. It matters only in check_fairness. */
static uint64_t hash_order(const node_record *node)
{
    uint64_t sum = 0;
    for (const node_record *other = run.nodes; other != NULL && node->shared_since != 0; other = other->next) {
        uint64_t before = other->made_at < node->shared_since;
        for (int i = 0; i < MOST_HAND_OVERS; i++)
            before = before << 1 | (uint64_t)(other->made_at < node->hand_overs[i]);
        sum += sim_mix(sim_hash_text(other->path), before);
    }
    return sum;
}

static uint64_t hash_node(const node_record *node)
{
    uint64_t flags = (uint64_t)node->gone | (uint64_t)node->asked << 1 | (uint64_t)node->told << 2 |
                     (uint64_t)node->overheard << 3 | (uint64_t)node->lost << 4 | (uint64_t)node->lingered << 5 |
                     (uint64_t)node->taken << 6 | (uint64_t)node->outlived << 7;
    flags = sim_mix(flags, (uint64_t)node->revived | (uint64_t)node->misleads << 1);
    uint64_t hash =
        sim_mix(sim_hash_text(node->path), flags ^ (uint64_t)node->grants << 8 ^ (uint64_t)node->turns << 32);
    hash = sim_mix(hash, millis(node->lingered_since) ^ millis(node->replaced_until) << 32);
    hash = sim_mix(hash, millis(node->made_at) ^ millis(node->shared_since) << 32);
    hash = sim_mix(hash, millis(node->asked_since) ^ millis(node->idle_since) << 32);
    return sim_mix(hash, hash_order(node) ^ (uint64_t)node->linger);
}

/*
 * Returns how many acquisitions of its client were settled before this one was made. check_refused_try depends on it.
 */
static uint64_t settled_before(const acquisition_record *record)
{
    uint64_t count = 0;
    for (const acquisition_record *each = run.acquisitions; each != NULL; each = each->next)
        count += each->client == record->client && each->settled && each->settled_at < record->asked_at;
    return count;
}

static uint64_t hash_record(const acquisition_record *record)
{
    uint64_t flags = (uint64_t)record->settled | (uint64_t)record->ended << 1 | (uint64_t)record->comparable << 2 |
                     (uint64_t)record->excused << 3 | (uint64_t)record->excuse_ending << 4 |
                     (uint64_t)(record->acquisition != NULL) << 5 | (uint64_t)record->wiped << 6 |
                     (uint64_t)record->misled << 7 | settled_before(record) << 8 | (uint64_t)record->counted << 40 |
                     (uint64_t)record->open_when_asked << 41;
    uint64_t hash = sim_mix((uint64_t)record->client << 32 ^ (uint64_t)record->phase, flags);
    /* The first half of the token is the czxid of the node. */
    const char *grants = record->token[0] != '\0' ? record->token + ZKL_TOKEN_NUMBER_DIGITS : "";
    hash = sim_mix(hash, sim_hash_text(grants) ^ sim_hash_text(record->node));
    hash = sim_mix(hash, millis(record->asked_at) ^ millis(record->granted_at) << 32);
    hash = sim_mix(hash, millis(record->excused_since) ^ millis(record->lease_began) << 32);
    hash = sim_mix(hash, (uint64_t)record->end_code << 32 ^ (uint64_t)record->revocations);
    hash = sim_mix(hash, (uint64_t)record->session ^ (uint64_t)record->held_count << 56);
    for (int32_t i = 0; i < record->held_count; i++)
        hash = sim_mix(hash, sim_hash_text(record->held[i]->path));
    for (int i = 0; i < record->blocker_count; i++)
        hash = sim_mix(hash, sim_hash_text(record->blockers[i]) ^ (uint64_t)still_blocks(record, i));
    return sim_mix(hash, (uint64_t)record->creates_before);
}

uint64_t hash_checks(void)
{
    uint64_t sum = 0, nodes = 0;
    for (const acquisition_record *each = run.acquisitions; each != NULL; each = each->next)
        sum += hash_record(each);
    for (const node_record *each = run.nodes; each != NULL; each = each->next)
        nodes = sim_mix(nodes, hash_node(each)); /* in the order of creation */
    sum += nodes;
    for (int i = 0; i < deletion_count; i++)
        sum += sim_mix(sim_hash_text(deletions[i].path), millis(deletions[i].at) ^ deletions[i].committed);
    for (int i = 0; i < run.client_count; i++) {
        const client *of = &run.clients[i];
        uint64_t hash = sim_mix((uint64_t)i, millis(of->disturbed_at) ^ millis(of->unheard_until) << 32);
        hash = sim_mix(hash, (uint64_t)of->expired ^ (uint64_t)(of->engine != NULL) << 1 ^ (uint64_t)of->killed << 2);
        hash = sim_mix(hash, (uint64_t)of->valid_until);
        for (int path = 0; path < run.path_count; path++)
            hash = sim_mix(hash, (uint64_t)of->creates[path]);
        sum += hash;
    }
    for (int path = 0; path < run.path_count; path++)
        sum += sim_mix((uint64_t)path, hash_limits(path));
    sum += sim_mix((uint64_t)replacement, millis(run.replaced_live_at));
    return sum + hash_latches();
}
