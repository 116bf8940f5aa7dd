/*
 * join: an entry gets its node, or finds the node again after the reply to its create was lost.
 *
 * Why joining takes one round trip: create and list go out together, and ZooKeeper executes one session's requests in
 * order. So the list shows the queue after the create. It counts only if the create succeeded on the same connection.
 *
 * When the list is left out is explained in adjacent.c and predict.c.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "adjacent.h"
#include "hold.h"
#include "join.h"
#include "leave.h"
#include "lose.h"
#include "place.h"
#include "predict.h"

static void on_joined(void *owner, int rc, const zkl_reply *reply);
static void on_downgraded(void *owner, int rc, const zkl_reply *reply);
static void on_looked_at(void *owner, int rc, const zkl_reply *reply);
static void on_recovery_listed(void *owner, int rc, const zkl_reply *reply);
static void on_synced(void *owner, int rc, const zkl_reply *reply);
static void on_try_listed(void *owner, int rc, const zkl_reply *reply);

/* --- creating ------------------------------------------------------------------------------------------------------ */

/*
 * Writes the start of the node's name, which ZooKeeper completes. `name` has room for ZKL_NODE_NAME_SIZE. Returns the
 * length written.
 */
static size_t prefix_of(const zkl_entry *entry, char *name)
{
    char uuid[ZKL_UUID_LENGTH + 1];
    zkl_entry_uuid(entry, uuid);
    return zkl_node_prefix(name, entry->kind->node, entry->kind->readwrite, uuid);
}

static bool send_create(zkl_entry *entry, const char *path)
{
    zkl_ask ask = zkl_entry_ask(entry, on_joined);
    ask.proof = ZKL_PROOF_QUORUM;
    const zkl_lock_spec *spec = entry->acquisition->spec;
    const char *data = spec->lock.identity;
    return zkl_entry_sent(entry, zkl_send_create(entry->locks->wire, &ask, path, data, (int32_t)strlen(data),
                                                 &spec->acl, ZOO_EPHEMERAL_SEQUENTIAL));
}

/* The memory that the C client writes into while the create of a downgraded reader's node is in flight. */
struct downgrade {
    zkl_entry *entry;
    zoo_op_result_t results[2];
    char path[];
};

/* Creates `path` if the node `writer` exists. */
static bool send_create_downgraded(zkl_entry *entry, const char *writer, const char *path)
{
    size_t size = strlen(path) + 1;
    struct downgrade *downgrade = zkl_alloc(sizeof *downgrade + size);
    if (downgrade == NULL) {
        return false;
    }
    downgrade->entry = entry;
    memcpy(downgrade->path, path, size);
    zkl_ask ask = zkl_entry_ask(entry, on_downgraded);
    ask.owner = ask.memory = downgrade;
    ask.proof = ZKL_PROOF_QUORUM;
    const zkl_lock_spec *spec = entry->acquisition->spec;
    const char *data = spec->lock.identity;
    zoo_op_t ops[2];
    zoo_check_op_init(&ops[0], writer, -1);
    zoo_create_op_init(&ops[1], path, data, (int)strlen(data), &spec->acl, ZOO_EPHEMERAL, downgrade->path, (int)size);
    int first = ZKL_BROKEN(ZKL_BREAK_WRITER) ? 1 : 0;
    return zkl_entry_sent(entry,
                          zkl_send_multi(entry->locks->wire, &ask, 2 - first, ops + first, downgrade->results + first));
}

/*
 * Sends the create of a downgraded reader's node. The node has its writer's sequence number, so a node behind the
 * writer is behind the reader.
 */
static bool send_downgrade_create(zkl_entry *entry, const char *path)
{
    const zkl_entry *writer = entry->writer;
    assert(writer != NULL && writer->state == ZKL_ENTRY_GRANTED);
    char *whole = zkl_alloc(strlen(path) + ZKL_NODE_NAME_SIZE);
    if (whole == NULL) {
        return false;
    }
    snprintf(whole, strlen(path) + ZKL_NODE_NAME_SIZE, "%s%010d", path, (int)writer->sequence);
    bool sent = send_create_downgraded(entry, writer->node, whole);
    zkl_free(whole);
    if (sent) {
        zkl_entry_set_downgrade(entry, ZKL_DOWNGRADE_MADE);
        entry->tenure.czxid = writer->tenure.czxid;
        entry->tenure.grants = ++entry->writer->tenure.grants;
    }
    return sent;
}

static void send_join(zkl_entry *entry)
{
    char name[ZKL_NODE_NAME_SIZE];
    size_t length = prefix_of(entry, name);
    size_t stem = strlen(entry->queue->path);
    char small[256];
    char *path = stem + 1 + length < sizeof small ? small : zkl_alloc(stem + 1 + length + 1);
    if (path == NULL) {
        zkl_entry_make_runnable(entry);
        return;
    }
    memcpy(path, entry->queue->path, stem);
    path[stem] = '/';
    memcpy(path + stem + 1, name, length + 1);
    bool sent =
        entry->downgrade == ZKL_DOWNGRADE_TO_BE_MADE ? send_downgrade_create(entry, path) : send_create(entry, path);
    if (path != small) {
        zkl_free(path);
    }
    if (!sent) {
        zkl_entry_make_runnable(entry);
        return;
    }
    zkl_entry_move(entry, ZKL_ENTRY_JOINING);
    if (entry->downgrade == ZKL_DOWNGRADE_MADE) {
        zkl_entry_note_request(entry, ZKL_REQUEST_LIST, zkl_entry_look_at_writer(entry));
    } else if (entry->kind->queues && !zkl_entry_is_likely_adjacent(entry) && !zkl_entry_can_predict(entry)) {
        zkl_entry_note_request(entry, ZKL_REQUEST_LIST, zkl_entry_list_joined(entry));
    }
    if (entry->kind->joining != NULL) {
        entry->kind->joining(entry);
    }
}

void zkl_entry_step_parked(zkl_entry *entry)
{
    if (entry->queue->parents_flying > 0) {
        return; /* the last of those replies steps the entries */
    }
    if (entry->kind->asks != NULL) {
        zkl_entry_leave_wait_list(entry);
        entry->kind->asks(entry);
        return;
    }
    if (entry->kind->queues && !zkl_entry_fits(entry)) {
        zkl_entry_wait_for_budget(entry);
        return;
    }
    zkl_entry_leave_wait_list(entry);
    zkl_entry_reserve(entry, entry->kind->queues);
    bool look = entry->acquisition->try_only && !entry->acquisition->optimistic &&
                entry->downgrade == ZKL_DOWNGRADE_NO && entry->kind->queues;
    if (!look || ZKL_BROKEN(ZKL_BREAK_TRY)) {
        send_join(entry);
    } else if (zkl_entry_list(entry, on_try_listed, 0) && (entry->kind->look == NULL || entry->kind->look(entry))) {
        zkl_entry_move(entry, ZKL_ENTRY_LOOKING);
    } else {
        zkl_entry_make_runnable(entry);
    }
}

void zkl_entry_join(zkl_entry *entry)
{
    zkl_entry_move(entry, ZKL_ENTRY_PARKED);
    send_join(entry);
}

/* --- tries --------------------------------------------------------------------------------------------------------- */

void zkl_entry_try_again(zkl_entry *entry)
{
    /* The reply to another list may still arrive; it must not count. */
    entry->generation++;
    zkl_entry_move(entry, ZKL_ENTRY_PARKED);
    zkl_entry_node_lost(entry, ZKL_LOSS_NODE);
    zkl_entry_back_off(entry);
}

/* Handles the list that precedes the first write of a try. */
static void decide_try(zkl_entry *entry, int rc, const struct String_vector *names)
{
    if (rc == ZOK) {
        zkl_standing standing = zkl_names_standing(names->data, names->count, "", zkl_entry_kind_in_queue(entry));
        if (standing.blocking > 0) {
            zkl_queue_remove_strays(entry->queue, names);
            zkl_entry_refuse_try(entry, names->data[standing.nearest]);
            return;
        }
    } else if (rc == ZTHROTTLEDOP) {
        zkl_entry_try_again(entry);
        return;
    } else if (rc != ZNONODE) {
        zkl_entry_refuse(entry, rc, "listing");
        return;
    }
    if (entry->kind->look == NULL) {
        zkl_entry_join(entry);
    }
}

static void on_try_listed(void *owner, int rc, const zkl_reply *reply)
{
    zkl_entry *entry = owner;
    if (reply->generation == entry->generation && entry->state == ZKL_ENTRY_LOOKING) {
        decide_try(entry, zkl_names_rc(rc, reply->names), reply->names);
    }
}

/* --- created ------------------------------------------------------------------------------------------------------- */

static void check_sequence(zkl_entry *entry)
{
    zkl_queue *queue = entry->queue;
    if (entry->sequence >= ZKL_SEQUENCE_WARN && !queue->warned) {
        queue->warned = true;
        zkl_wire_log(entry->locks->wire, ZOO_LOG_LEVEL_WARN,
                     "the sequence numbers of '%s' have reached %d of 2147483647: use another path before they end",
                     queue->path, entry->sequence);
    }
}

void zkl_entry_make_directory(zkl_entry *entry, const char *data)
{
    const struct ACL_vector *acl = &entry->acquisition->spec->acl;
    int32_t perms = 0;
    for (int32_t i = 0; i < acl->count; i++) {
        perms |= acl->data[i].perms;
    }
    if ((perms & ZOO_PERM_CREATE) == 0) {
        zkl_entry_refuse_all(
            entry, ZKL_NO_AUTH,
            "'%.300s' does not exist, and with this acl no client could create a node in it: create it "
            "beforehand, with another acl",
            entry->queue->path);
        return;
    }
    zkl_queue_make_parents(entry->queue, data, acl);
    zkl_entry_step(entry);
}

static void not_created(zkl_entry *entry, int rc)
{
    if (!zkl_entry_begin_anew(entry)) {
        return;
    }
    if (rc == ZNONODE) {
        char data[ZKL_DIRECTORY_DATA_SIZE];
        bool has_data = entry->kind->directory_data != NULL;
        zkl_entry_make_directory(entry, has_data ? entry->kind->directory_data(entry, data) : "");
    } else if (rc == ZTHROTTLEDOP) {
        zkl_entry_back_off(entry);
    } else if (rc == ZSESSIONEXPIRED || rc == ZINVALIDSTATE) {
        zkl_entry_make_runnable(entry);
    } else {
        zkl_entry_refuse(entry, rc, "creating a node in");
    }
}

/* Watches the predicted predecessor; its end reaches the entry as after a list. Returns false if the queue must be listed. */
static bool watch_predicted(zkl_entry *entry)
{
    char name[ZKL_NODE_NAME_SIZE];
    bool predicted = zkl_entry_predict(entry, name);
    if (predicted) {
        zkl_entry_watch_node(entry, name);
    }
    return predicted;
}

/* The node exists and is ours. `elsewhere` is passed to zkl_entry_most_ahead. */
static void entry_seated(zkl_entry *entry, int64_t czxid, int64_t elsewhere)
{
    if (entry->downgrade != ZKL_DOWNGRADE_MADE) {
        entry->tenure.czxid = czxid;
    }
    zkl_entry_move(entry, entry->wanted ? ZKL_ENTRY_QUEUED : ZKL_ENTRY_LEAVING);
    entry->create_retries = false;
    check_sequence(entry);
    entry->tenure.ahead = zkl_entry_most_ahead(entry, czxid, elsewhere);
    bool adjacent = entry->tenure.ahead == 0;
    entry->queue->last_was_adjacent = adjacent;
    entry->tenure.place = adjacent ? ZKL_PLACE_HEAD_BY_NUMBER : ZKL_PLACE_UNKNOWN;
    if (entry->wanted && zkl_entry_refuse_exhausted(entry)) {
        return;
    }
    if (entry->wanted && adjacent) {
        zkl_entry_nothing_conflicts(entry);
    } else if (!entry->wanted || entry->downgrade == ZKL_DOWNGRADE_MADE || !watch_predicted(entry)) {
        zkl_entry_step(entry);
    }
}

/*
 * Whether the reply can describe the node that the entry's create made. `node` is what its name says. A faulty server may answer
 * anything.
 */
static bool may_be_created(const zkl_entry *entry, const char *path, const struct Stat *stat, zkl_node *node)
{
    size_t stem = strlen(entry->queue->path);
    if (path == NULL || strncmp(path, entry->queue->path, stem) != 0 || path[stem] != '/') {
        return false;
    }
    char uuid[ZKL_UUID_LENGTH + 1];
    zkl_entry_uuid(entry, uuid);
    const char *name = path + stem + 1;
    *node = zkl_node_parse(name);
    return strchr(name, '/') == NULL && zkl_node_has_uuid(name, uuid) && node->kind == entry->kind->node &&
           (stat == NULL || (stat->ephemeralOwner == entry->locks->wire->session_id && stat->czxid > 0));
}

static void created(zkl_entry *entry, int rc, const char *path, const zkl_reply *reply)
{
    const struct Stat *stat = reply->stat;
    zkl_locks *locks = entry->locks;
    if (rc == ZOK) {
        zkl_session_prove(locks->session, reply->sent_at);
        locks->writes++;
        entry->queue->creates++;
        if (locks->containers == ZKL_CONTAINERS_DOUBTED && zkl_outcome_unknown(entry->queue->parents_last)) {
            locks->containers = ZKL_CONTAINERS_UNKNOWN; /* the directory is there */
        }
    }
    if (reply->generation != entry->generation || entry->state != ZKL_ENTRY_JOINING) {
        return;
    }
    entry->tenure.writes = locks->writes - entry->queue->creates;
    entry->connection = reply->connection;
    zkl_node node;
    bool ours_now = rc == ZOK && may_be_created(entry, path, stat, &node);
    if (entry->downgrade == ZKL_DOWNGRADE_MADE && rc == ZNONODE) {
        if (entry->writer != NULL) {
            /* The writer's node was deleted externally. The reader queues like any other. */
            zkl_entry_deleted_externally(entry->writer);
        }
        not_created(entry, ZINVALIDSTATE);
    } else if (ours_now && zkl_entry_set_node(entry, path + strlen(entry->queue->path) + 1, node.sequence)) {
        entry_seated(entry, stat != NULL ? stat->czxid : entry->tenure.czxid,
                     entry->tenure.writes - entry->queue->cleared_writes);
    } else if (rc == ZOK || zkl_outcome_unknown(rc)) {
        locks->wire->stats.unknown_outcomes++;
        if (ZKL_BROKEN(ZKL_BREAK_RECOVERY)) {
            not_created(entry, ZINVALIDSTATE);
            return;
        }
        zkl_entry_note_request(entry, ZKL_REQUEST_LIST, false);
        zkl_entry_move(entry, ZKL_ENTRY_RECOVERING);
        if (entry->wanted) {
            zkl_entry_node_lost(entry, ZKL_LOSS_REPLY);
        }
        /*
         * Not stepped here: a request that is sent from inside a failing completion would go out on another connection.
         */
        zkl_entry_make_runnable(entry);
    } else {
        not_created(entry, rc);
    }
}

static void on_joined(void *owner, int rc, const zkl_reply *reply)
{
    created(owner, rc, reply->path, reply);
}

static void on_downgraded(void *owner, int rc, const zkl_reply *reply)
{
    const struct downgrade *downgrade = owner;
    bool passed = zkl_all_succeeded(downgrade->results, 2);
    created(downgrade->entry, rc == ZOK && !passed ? ZRUNTIMEINCONSISTENCY : rc, downgrade->path, reply);
}

void zkl_entries_directory_ready(zkl_queue *queue, zkl_directory_outcome outcome, int rc)
{
    zkl_entry *entry = TAILQ_FIRST(&queue->entries);
    while (entry != NULL) {
        zkl_entry *next = TAILQ_NEXT(entry, in_queue);
        if (entry->state == ZKL_ENTRY_PARKED && outcome == ZKL_DIRECTORY_FAILED) {
            zkl_entry_refuse(entry, rc, "creating the directory of");
            next = TAILQ_FIRST(&queue->entries); /* other entries of the same acquisition may be gone too */
        } else if (entry->state == ZKL_ENTRY_PARKED && outcome == ZKL_DIRECTORY_LATER) {
            zkl_entry_back_off(entry);
        } else if (entry->state == ZKL_ENTRY_PARKED) {
            zkl_entry_step(entry);
        }
        entry = next;
    }
}

/* --- recovering ---------------------------------------------------------------------------------------------------- */

static bool send_sync(zkl_entry *entry)
{
    zkl_ask ask = zkl_entry_ask(entry, on_synced);
    ask.proof = ZKL_PROOF_LEADER;
    return zkl_entry_sent(entry, zkl_send_sync(entry->locks->wire, &ask, entry->queue->path));
}

static bool send_look(zkl_entry *entry)
{
    zkl_ask ask = zkl_entry_ask(entry, on_looked_at);
    return zkl_entry_sent(entry, zkl_send_exists(entry->locks->wire, &ask, entry->node, NULL, NULL));
}

void zkl_entry_step_recovering(zkl_entry *entry)
{
    if (zkl_entry_has_sent(entry, ZKL_REQUEST_LIST) || entry->node != NULL) {
        return; /* the list or the exists is in flight */
    }
    if (send_sync(entry) && zkl_entry_list(entry, on_recovery_listed, 0)) {
        zkl_entry_note_request(entry, ZKL_REQUEST_LIST, true);
    } else {
        zkl_entry_make_runnable(entry);
    }
}

/*
 * Looks in a list for the node of a create whose reply was lost. The list counts only behind a sync on the same
 * connection.
 */
static void find_own(zkl_entry *entry, int rc, const zkl_reply *reply)
{
    char uuid[ZKL_UUID_LENGTH + 1];
    const struct String_vector *names = reply->names;
    zkl_entry_uuid(entry, uuid);
    if ((rc != ZOK && rc != ZNONODE) || reply->connection != entry->connection) {
        if (zkl_outcome_unknown(rc)) {
            zkl_entry_make_runnable(entry);
            return;
        }
        bool transient = rc == ZOK || rc == ZNONODE || rc == ZTHROTTLEDOP || zkl_not_answered(rc);
        if (entry->wanted && !transient) {
            /*
             * The directory may not be listed. The node may exist, so the search goes on, but no acquisition waits for
             * it.
             */
            zkl_entry_refuse_all(entry, zkl_code_of(rc), "listing '%s' after a lost reply: %s", entry->queue->path,
                                 zerror(rc));
        }
        zkl_entry_back_off(entry);
        return;
    }
    for (int32_t i = 0; rc == ZOK && i < names->count; i++) {
        if (zkl_node_has_uuid(names->data[i], uuid)) {
            if (!zkl_entry_set_node(entry, names->data[i], zkl_node_parse(names->data[i]).sequence) ||
                !send_look(entry)) {
                zkl_free(entry->node);
                entry->node = NULL;
                zkl_entry_make_runnable(entry);
            }
            return;
        }
    }
    if (!ZKL_BROKEN(ZKL_BREAK_SEARCH)) {
        entry->queue->lost_in = entry->locks->wire->session_id;
    }
    bool again = entry->create_retries;
    entry->create_retries = true;
    if (!zkl_entry_begin_anew(entry)) {
        return;
    }
    if (again) {
        /* If a server has lost the directory, it answers no create, however often the create is repeated. */
        zkl_entry_back_off(entry);
    } else {
        zkl_entry_make_runnable(entry);
    }
}

static void on_recovery_listed(void *owner, int rc, const zkl_reply *reply)
{
    zkl_entry *entry = owner;
    if (reply->generation == entry->generation && entry->state == ZKL_ENTRY_RECOVERING) {
        zkl_entry_note_request(entry, ZKL_REQUEST_LIST, false);
        find_own(entry, zkl_names_rc(rc, reply->names), reply);
    }
}

static void on_synced(void *owner, int rc, const zkl_reply *reply)
{
    zkl_entry *entry = owner;
    if (reply->generation == entry->generation && entry->state == ZKL_ENTRY_RECOVERING) {
        entry->connection = rc == ZOK ? reply->connection : 0;
    }
}

/*
 * The create whose reply was lost has made its node: the node has the entry's uuid, so it belongs to this session. But
 * the client may not read the node, so its czxid, which becomes the token, is unknown. Servers since 3.8.4 and 3.9.2
 * want READ for exists.
 */
static void found_unreadable(zkl_entry *entry)
{
    zkl_wire_log(entry->locks->wire, ZOO_LOG_LEVEL_WARN,
                 "deleting '%s', since the reply to its create was lost and the acl does not let the client read it",
                 entry->node);
    zkl_entry_drop_node(entry);
}

static void on_looked_at(void *owner, int rc, const zkl_reply *reply)
{
    zkl_entry *entry = owner;
    const struct Stat *stat = reply->stat;
    if (reply->generation != entry->generation || entry->state != ZKL_ENTRY_RECOVERING) {
        return;
    }
    if (rc == ZOK && stat->ephemeralOwner == entry->locks->wire->session_id && stat->czxid > 0) {
        /*
         * The node was made some time ago. Our writes that were acknowledged since may have been executed after its
         * create.
         */
        entry->tenure.writes = entry->locks->writes - entry->queue->creates;
        entry_seated(entry, stat->czxid, 0);
    } else if (rc == ZOK || rc == ZNONODE) {
        not_created(entry, ZINVALIDSTATE); /* deleted meanwhile, or of another session and removed with it */
    } else if (rc == ZNOAUTH && !ZKL_BROKEN(ZKL_BREAK_UNREADABLE)) {
        found_unreadable(entry);
    } else {
        zkl_free(entry->node);
        entry->node = NULL;
        if (rc == ZTHROTTLEDOP) {
            zkl_entry_back_off(entry);
        } else {
            zkl_entry_make_runnable(entry);
        }
    }
}
