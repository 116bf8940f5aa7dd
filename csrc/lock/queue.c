/*
 * queue: a lock's directory with the entries of this client in it, and its parent directories.
 *
 * Queues are found by path. A queue is freed when its last user drops it; some are kept for what is known of them. A
 * queue makes its own parents: all directories on the way are created in one go, as container nodes where the server
 * has those. So a deep path costs one round trip. Only the answer for the queue's own directory counts. For each of the
 * directories, NODEEXISTS is as good as OK.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"
#include "queue.h"

/* The number of queues that are kept for what is known of them, beside those in use. */
#define MOST_KEPT 1024

static zkl_queue *new_queue(zkl_locks *locks, const char *path)
{
    size_t length = strlen(path);
    zkl_queue *queue = zkl_alloc(sizeof *queue + length + 1);
    if (queue == NULL) {
        return NULL;
    }
    memcpy(queue->path, path, length);
    queue->locks = locks;
    TAILQ_INIT(&queue->entries);
    zkl_table_add(&locks->queues, queue, zkl_hash_text(path, length));
    return queue;
}

static zkl_queue *find_queue(const zkl_locks *locks, const char *path)
{
    zkl_queue *queue = zkl_table_find(&locks->queues, zkl_hash_text(path, strlen(path)));
    while (queue != NULL && strcmp(queue->path, path) != 0) {
        queue = zkl_table_find_next(&locks->queues, queue);
    }
    return queue;
}

zkl_queue *zkl_queue_take(zkl_locks *locks, const char *path)
{
    zkl_queue *queue = find_queue(locks, path);
    if (queue == NULL) {
        queue = new_queue(locks, path);
    }
    if (queue != NULL) {
        queue->uses++;
    }
    return queue;
}

void zkl_queue_drop(zkl_queue *queue)
{
    if (--queue->uses > 0) {
        return;
    }
    zkl_table_remove(&queue->locks->queues, queue);
    zkl_free(queue);
}

static void let_go(zkl_queue *queue)
{
    TAILQ_REMOVE(&queue->locks->kept, queue, in_kept);
    queue->locks->kept_count--;
    queue->kept = false;
    zkl_queue_drop(queue);
}

void zkl_queue_keep(zkl_queue *queue)
{
    zkl_locks *locks = queue->locks;
    if (queue->kept) {
        return;
    }
    queue->kept = true;
    queue->uses++;
    TAILQ_INSERT_TAIL(&locks->kept, queue, in_kept);
    if (++locks->kept_count > MOST_KEPT) {
        let_go(TAILQ_FIRST(&locks->kept));
    }
}

static void forget_queue(zkl_queue *queue)
{
    queue->cleared_czxid = 0;
    queue->last_was_adjacent = false;
    queue->predecessor = (zkl_predecessor){.steady = false};
    queue->cleaned_at = 0;
    queue->limit_mzxid = 0;
    queue->limit_unwritable = false;
    queue->lost_in = 0;
    queue->warned = queue->busy = queue->no_flags = false;
}

void zkl_queues_forget(zkl_locks *locks)
{
    if (ZKL_BROKEN(ZKL_BREAK_OUTLIVED)) {
        return;
    }
    zkl_queue *queue = NULL;
    while ((queue = zkl_table_after(&locks->queues, queue)) != NULL) {
        forget_queue(queue);
    }
}

void zkl_queues_free(zkl_locks *locks)
{
    zkl_queue *queue;
    while ((queue = TAILQ_FIRST(&locks->kept)) != NULL) {
        let_go(queue);
    }
}

/* --- strays -------------------------------------------------------------------------------------------------------- */

/* Returns whether a node with this name, without the directory, was made by this client. */
static bool ours(const zkl_locks *locks, const char *name)
{
    return strncmp(name, "_c_", 3) == 0 && strncmp(name + 3, locks->uuid_stem, ZKL_UUID_STEM_LENGTH) == 0;
}

/* Returns the serial number at the end of the uuid in the name of a node of ours. */
static uint64_t serial_in(const char *name)
{
    return strtoull(name + 3 + ZKL_UUID_STEM_LENGTH, NULL, 16);
}

/* Returns an entry of the queue with this serial number; NULL: there is none. */
static zkl_entry *with_serial(const zkl_queue *queue, uint64_t serial)
{
    const zkl_table *serials = &queue->locks->serials;
    zkl_entry *entry = zkl_table_find(serials, zkl_hash_number(serial));
    while (entry != NULL && (entry->serial != serial || entry->queue != queue)) {
        entry = zkl_table_find_next(serials, entry);
    }
    return entry;
}

zkl_entry *zkl_queue_entry_of_node(const zkl_locks *locks, const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    if (!ours(locks, name)) {
        return NULL;
    }
    zkl_entry *entry = zkl_table_find(&locks->serials, zkl_hash_number(serial_in(name)));
    while (entry != NULL && (entry->node == NULL || strcmp(entry->node, path) != 0)) {
        entry = zkl_table_find_next(&locks->serials, entry);
    }
    return entry;
}

/*
 * Reports a node of this client that no entry knows, a stray. Its create was executed after it had been given up, or
 * the servers have forgotten its deletion. A stray exists as long as our session, and no other client may remove it. So
 * it gets an entry, which repeats the delete until the node is gone: a waiter behind the stray does not list again, and
 * that waiter may be ours. Returns false when memory is short.
 */
static bool report_stray(zkl_queue *queue, const char *name)
{
    zkl_wire_log(queue->locks->wire, ZOO_LOG_LEVEL_WARN,
                 "deleting '%s/%s', left by a create or a delete whose outcome the servers lost", queue->path, name);
    return zkl_queue_events.stray_found(queue, name, serial_in(name));
}

/* Returns whether a node with this name is a stray. */
static bool is_stray(const zkl_queue *queue, const char *name)
{
    return ours(queue->locks, name) && with_serial(queue, serial_in(name)) == NULL && !ZKL_BROKEN(ZKL_BREAK_STRAYS);
}

/*
 * Removes strays anywhere in the queue. The contender right behind a stray is usually another client, which cannot
 * remove it, and our entry is further back. A comparison of the numbers of nodes and of entries is not enough: the node
 * of an entry may be gone, and the entry may end without another list.
 */
bool zkl_queue_remove_strays(zkl_queue *queue, const struct String_vector *names)
{
    queue->cleaned_at = queue->locks->wire->now;
    bool all = true;
    for (int32_t i = 0; i < names->count; i++) {
        all = (!is_stray(queue, names->data[i]) || report_stray(queue, names->data[i])) && all;
    }
    return all;
}

void zkl_queue_remove_if_stray(zkl_queue *queue, const char *name)
{
    if (is_stray(queue, name)) {
        (void)report_stray(queue, name);
    }
}

bool zkl_queue_may_have_strays(const zkl_queue *queue)
{
    return queue->lost_in != 0 && queue->lost_in == queue->locks->wire->session_id;
}

/* --- parents ------------------------------------------------------------------------------------------------------- */

/* All replies are in: reports what became of the directory. */
static void parents_decided(zkl_queue *queue)
{
    int rc = queue->parents_last;
    if (rc == ZNONODE && queue->parents_error != ZOK) {
        rc = queue->parents_error; /* a directory above could not be made: report that reason */
    } else if (rc == ZNONODE && strchr(queue->path + 1, '/') != NULL) {
        rc = ZOK; /* a directory above existed and was reaped a moment later: start again */
    }
    bool failed = rc != ZOK && rc != ZNODEEXISTS && rc != ZTHROTTLEDOP && !zkl_not_answered(rc);
    zkl_directory_outcome outcome = failed               ? ZKL_DIRECTORY_FAILED
                                    : rc == ZTHROTTLEDOP ? ZKL_DIRECTORY_LATER
                                                         : ZKL_DIRECTORY_READY;
    queue->uses++;
    zkl_queue_events.directory_ready(queue, outcome, rc);
    zkl_queue_drop(queue);
}

/*
 * Handles the answer to the creation of a container. Returns whether the servers have none, by this answer or by an earlier one: they
 * answer that they do not implement it (ZooKeeper before 3.5.3) or that it is a bad argument, or close the connection (ClickHouse
 * Keeper). A connection may be lost for another reason, so two must have been lost in this way, and no container been made. ClickHouse
 * Keeper resumes no session, and would close the connection of each new one, so the client does not ask again.
 */
static bool note_container(zkl_locks *locks, int rc, const zkl_reply *reply)
{
    bool lost = zkl_outcome_unknown(rc);
    bool again = locks->containers == ZKL_CONTAINERS_DOUBTED && reply->connection != locks->doubted_on;
    if (rc == ZUNIMPLEMENTED || rc == ZBADARGUMENTS || (lost && again)) {
        locks->containers = ZKL_CONTAINERS_NONE;
    } else if (rc == ZOK || rc == ZNODEEXISTS) {
        locks->containers = ZKL_CONTAINERS_MADE;
    } else if (lost && locks->containers == ZKL_CONTAINERS_UNKNOWN) {
        locks->containers = ZKL_CONTAINERS_DOUBTED;
        locks->doubted_on = reply->connection;
    }
    return locks->containers == ZKL_CONTAINERS_NONE;
}

/* Handles the reply to the create of a directory: the queue's own, if its tag is -1, or one above it. */
static void on_parent_made(void *owner, int rc, const zkl_reply *reply)
{
    zkl_queue *queue = owner;
    queue->parents_flying--;
    if (reply->tag < 0) {
        queue->parents_last = rc;
    } else if (rc != ZOK && rc != ZNODEEXISTS && queue->parents_error == ZOK && !(rc == ZNONODE && reply->tag > 0)) {
        queue->parents_error = rc; /* ZNONODE says only that the directory above was not made, or was reaped */
    }
    if (queue->parents_flying == 0) {
        parents_decided(queue);
    }
    zkl_queue_drop(queue); /* the request's */
}

static void on_container_made(void *owner, int rc, const zkl_reply *reply)
{
    const zkl_queue *queue = owner;
    bool none = note_container(queue->locks, rc, reply);
    on_parent_made(owner, none ? ZNODEEXISTS : rc, reply); /* if it is not there, a persistent node is made */
}

/* Sends the create of a directory. Returns false if it could not be sent. */
static bool send_parent(zkl_queue *queue, int32_t index, const char *path, const char *data,
                        const struct ACL_vector *acl)
{
    bool container = queue->locks->containers != ZKL_CONTAINERS_NONE;
    const zkl_ask ask = {.on_reply = container ? on_container_made : on_parent_made,
                         .owner = queue,
                         .tag = index,
                         .proof = ZKL_PROOF_QUORUM};
    int mode = container ? ZOO_CONTAINER : ZOO_PERSISTENT;
    bool sent = zkl_send_make(queue->locks->wire, &ask, path, data, acl, mode) == ZOK;
    queue->uses += sent;
    return sent;
}

void zkl_queue_make_parents(zkl_queue *queue, const char *data, const struct ACL_vector *acl)
{
    if (queue->parents_flying > 0) {
        return;
    }
    queue->parents_error = queue->parents_last = ZOK;
    size_t length = strlen(queue->path);
    char *path = zkl_copy(queue->path, length);
    if (path == NULL) {
        return;
    }
    queue->uses++;
    int32_t index = 0;
    for (size_t i = 1; i <= length; i++) {
        if (path[i] == '/' || path[i] == '\0') {
            path[i] = '\0';
            bool last = i == length;
            if (!send_parent(queue, last ? -1 : index++, path, last ? data : "", acl)) {
                break;
            }
            queue->parents_flying++;
            path[i] = queue->path[i];
        }
    }
    zkl_free(path);
    zkl_queue_drop(queue);
}

/* --- flags --------------------------------------------------------------------------------------------------------- */

char *zkl_queue_flag(const zkl_queue *queue, const char *name)
{
    const char *last = strrchr(queue->path, '/') + 1;
    size_t size = strlen(queue->path) + strlen(ZKL_FLAGS) + 1 + strlen(name) + 1;
    char *path = zkl_alloc(size);
    if (path != NULL) {
        snprintf(path, size, "%.*s" ZKL_FLAGS "%s%s%s", (int)(last - queue->path), queue->path, last,
                 name[0] != '\0' ? "/" : "", name);
    }
    return path;
}

bool zkl_queue_has_flags(const zkl_queue *queue)
{
    return queue->locks->containers != ZKL_CONTAINERS_NONE && !queue->no_flags;
}

void zkl_queue_refuse_flags(zkl_queue *queue)
{
    queue->no_flags = true;
}

static void on_flags_made(void *owner, int rc, const zkl_reply *reply)
{
    zkl_queue *queue = owner;
    (void)note_container(queue->locks, rc, reply);
    if (rc != ZOK && rc != ZNODEEXISTS && rc != ZTHROTTLEDOP && !zkl_not_answered(rc)) {
        zkl_queue_refuse_flags(queue);
    }
    zkl_queue_drop(queue);
}

bool zkl_queue_make_flags(zkl_queue *queue)
{
    const zkl_ask ask = {.on_reply = on_flags_made, .owner = queue, .proof = ZKL_PROOF_QUORUM};
    char *path = zkl_queue_flag(queue, "");
    bool sent =
        path != NULL && zkl_send_make(queue->locks->wire, &ask, path, "", &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER) == ZOK;
    queue->uses += sent;
    zkl_free(path);
    return sent;
}
