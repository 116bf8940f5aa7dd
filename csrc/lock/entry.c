/*
 * entry: one znode of ours in a queue, from the wish for it to the proof that it is gone.
 *
 *   PARKED -> (LOOKING, a try) -> JOINING -> QUEUED -> CONFIRMING -> GRANTED -> LEAVING -> GONE
 *                                 JOINING -> RECOVERING -> QUEUED | PARKED      (the create's reply was lost)
 *                                 QUEUED, CONFIRMING -> PARKED                   (the node was deleted externally)
 *                                 CONFIRMING -> QUEUED                           (a queue entry: a restore put one before it)
 *                                 any -> PARKED | GONE                           (the session is over)
 *
 * zkl_entry_step sends what an entry's state requires. It may be called at any time: if requests may not go out now, the
 * entry becomes runnable and is stepped again when they may. Some replies send the next request directly: the create
 * after a try's list (zkl_entry_join), and the exists of a node that was found again (find_own). Missing directories are
 * created, and the node before ours is watched, directly too. A reply changes the state and then steps the entry. A
 * reply counts only if it carries the entry's present generation, so a reply that belongs to an earlier session or node
 * is ignored.
 *
 * Why joining takes one round trip: create and list go out together, and ZooKeeper executes one session's requests in
 * order. So the list shows the queue after the create. It counts only if the create succeeded on the same connection.
 *
 * Why deletions alone may lead to a grant: one leader gives out the sequence numbers, so no later node can get a
 * smaller number than ours.
 *
 * When the list is left out is explained in adjacent.c and predict.c.
 *
 * What differs between kinds of locks is in the table of the entry's kind (kind.h): the name of the node and which nodes
 * block it (`node`), and what happens when none does (`ready`).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adjacent.h"
#include "entry.h"
#include "predict.h"

/* Bytes that a watched path takes in SetWatches beside its directory: '/', the name, and a length. */
#define NAME_BYTES 64

/* --- names --------------------------------------------------------------------------------------------------------- */

void zkl_entry_uuid(const zkl_entry *entry, char *uuid)
{
    snprintf(uuid, ZKL_UUID_LENGTH + 1, "%s%012llx", entry->locks->uuid_stem, (unsigned long long)entry->serial);
}

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

const char *zkl_entry_name(const zkl_entry *entry)
{
    return entry->node + strlen(entry->queue->directory.path) + 1;
}

static bool set_node(zkl_entry *entry, const char *name)
{
    char *node = zkl_child_path(entry->queue->directory.path, name);
    if (node == NULL) {
        return false;
    }
    zkl_free(entry->node);
    entry->node = node;
    entry->sequence = zkl_node_parse(name).sequence;
    return true;
}

/* --- bookkeeping --------------------------------------------------------------------------------------------------- */

/* Makes an entry that is linked into its queue and that no acquisition wants. Returns NULL when memory is short. */
static zkl_entry *new_entry(zkl_queue *queue, const zkl_kind *kind, uint64_t serial)
{
    zkl_locks *locks = queue->locks;
    zkl_entry *entry = zkl_alloc(sizeof *entry);
    if (entry == NULL) {
        return NULL;
    }
    entry->locks = locks;
    entry->queue = queue;
    entry->queue->uses++;
    entry->kind = kind;
    entry->turns = 1;
    entry->linger_until = ZKL_NEVER;
    TAILQ_INIT(&entry->sharers);
    entry->state = ZKL_ENTRY_PARKED;
    entry->serial = serial;
    TAILQ_INSERT_TAIL(&locks->entries, entry, all);
    TAILQ_INSERT_TAIL(&entry->queue->entries, entry, in_queue);
    locks->session->stats.seats++;
    return entry;
}

zkl_entry *zkl_entry_new(zkl_acquisition *acquisition, zkl_queue *queue, const zkl_kind *kind)
{
    zkl_entry *entry = new_entry(queue, kind, queue->locks->serial + 1);
    if (entry != NULL) {
        queue->locks->serial++;
        entry->acquisition = acquisition;
        entry->wanted = true;
        LIST_INSERT_HEAD(&acquisition->entries, entry, in_acquisition);
    }
    return entry;
}

static int64_t watch_bytes(const zkl_entry *entry)
{
    return entry->locks->session->chroot_length + (int64_t)strlen(entry->queue->directory.path) + NAME_BYTES;
}

bool zkl_entry_fits(const zkl_entry *entry)
{
    return entry->reserved ||
           entry->locks->session->watches.watched_bytes + watch_bytes(entry) <= ZKL_MAX_WATCHED_BYTES;
}

void zkl_entry_reserve(zkl_entry *entry, bool reserved)
{
    if (entry->reserved != reserved) {
        entry->reserved = reserved;
        entry->locks->session->watches.watched_bytes += reserved ? watch_bytes(entry) : -watch_bytes(entry);
    }
}

void zkl_entry_make_runnable(zkl_entry *entry)
{
    if (!entry->runnable && !entry->backing_off && !entry->over_watch_budget) {
        entry->runnable = true;
        TAILQ_INSERT_TAIL(&entry->locks->runnable, entry, in_wait_list);
    }
}

void zkl_entry_back_off(zkl_entry *entry)
{
    zkl_locks *locks = entry->locks;
    if (!entry->runnable && !entry->backing_off && !entry->over_watch_budget) {
        entry->backing_off = true;
        TAILQ_INSERT_TAIL(&locks->backing_off, entry, in_wait_list);
        zkl_try_later(locks->session);
    }
}

void zkl_entries_end_backoff(zkl_locks *locks)
{
    zkl_entry *entry;
    while ((entry = TAILQ_FIRST(&locks->backing_off)) != NULL) {
        TAILQ_REMOVE(&locks->backing_off, entry, in_wait_list);
        entry->backing_off = false;
        zkl_entry_make_runnable(entry);
    }
}

/* Takes the entry off the list in which it waits to be stepped, if it is in one. */
static void leave_wait_list(zkl_entry *entry)
{
    if (entry->backing_off) {
        entry->backing_off = false;
        TAILQ_REMOVE(&entry->locks->backing_off, entry, in_wait_list);
    }
    if (entry->runnable) {
        entry->runnable = false;
        TAILQ_REMOVE(&entry->locks->runnable, entry, in_wait_list);
    }
    if (entry->over_watch_budget) {
        entry->over_watch_budget = false;
        TAILQ_REMOVE(&entry->locks->over_watch_budget, entry, in_wait_list);
    }
}

static bool has_node(zkl_entry_state state)
{
    return state == ZKL_ENTRY_QUEUED || state == ZKL_ENTRY_CONFIRMING || state == ZKL_ENTRY_GRANTED ||
           state == ZKL_ENTRY_LEAVING;
}

void zkl_entry_detach_readers(const zkl_entry *writer, bool unsent_only)
{
    zkl_entry *entry;
    TAILQ_FOREACH(entry, &writer->queue->entries, in_queue)
    {
        if (entry->writer == writer && !(unsent_only && entry->downgraded)) {
            entry->writer = NULL;
        }
    }
}

void zkl_entry_stop_lingering(zkl_entry *entry)
{
    if (entry->linger_until != ZKL_NEVER) {
        TAILQ_REMOVE(&entry->locks->lingering, entry, in_lingering);
        entry->linger_until = ZKL_NEVER;
    }
}

void zkl_entry_move(zkl_entry *entry, zkl_entry_state state)
{
    zkl_locks *locks = entry->locks;
    if (entry->kind->weaker != NULL && entry->state == ZKL_ENTRY_GRANTED) {
        zkl_entry_detach_readers(entry, false);
    }
    locks->session->lease.nodes += (int32_t)has_node(state) - (int32_t)has_node(entry->state);
    if (state != ZKL_ENTRY_GRANTED) {
        zkl_entry_stop_lingering(entry);
    }
    entry->state = state;
    bool cleaning = !entry->wanted && state != ZKL_ENTRY_GONE;
    locks->session->cleaning += (int32_t)cleaning - (int32_t)entry->cleaning;
    entry->cleaning = cleaning;
}

static void unlink_entry(zkl_entry *entry)
{
    leave_wait_list(entry);
    zkl_entry_reserve(entry, false);
    zkl_entry_leave_watch(entry);
    zkl_entry_leave_own_watch(entry);
    zkl_lock_spec_drop(entry->spec);
    entry->spec = NULL;
    TAILQ_REMOVE(&entry->locks->entries, entry, all);
    TAILQ_REMOVE(&entry->queue->entries, entry, in_queue);
    entry->locks->session->stats.seats--;
}

static void free_entry(zkl_entry *entry)
{
    zkl_queue *queue = entry->queue;
    zkl_free(entry->node);
    zkl_free(entry);
    zkl_queue_drop(queue);
}

void zkl_entry_request_completed(zkl_entry *entry)
{
    if (--entry->flying == 0 && entry->state == ZKL_ENTRY_GONE) {
        free_entry(entry);
    }
}

/*
 * Nothing of the entry is left on the server. The caller must not use the entry afterwards unless a request in flight
 * holds it.
 */
static void gone(zkl_entry *entry)
{
    zkl_acquisition *acquisition = entry->acquisition;
    entry->acquisition = NULL;
    entry->wanted = false;
    entry->generation++;
    zkl_entry_move(entry, ZKL_ENTRY_GONE);
    unlink_entry(entry);
    if (acquisition != NULL) {
        zkl_acquisition_entry_gone(acquisition, entry);
    }
    if (entry->flying == 0) {
        free_entry(entry);
    }
}

void zkl_entry_destroy(zkl_entry *entry)
{
    zkl_acquisition *sharer;
    while ((sharer = TAILQ_FIRST(&entry->sharers)) != NULL) {
        TAILQ_REMOVE(&entry->sharers, sharer, in_entry);
        sharer->entry = NULL;
        sharer->sharing = false;
    }
    if (entry->acquisition != NULL) {
        LIST_REMOVE(entry, in_acquisition);
        entry->acquisition->entry = NULL;
        entry->acquisition = NULL;
    }
    entry->wanted = false;
    zkl_entry_move(entry, ZKL_ENTRY_GONE);
    unlink_entry(entry);
    free_entry(entry);
}

static void tell_kind(zkl_entry *entry, zkl_loss loss)
{
    if (entry->kind->node_lost != NULL) {
        entry->kind->node_lost(entry, loss);
    }
}

/* Starts over under a new name. Replies to earlier requests do not count any more. */
static void start_over(zkl_entry *entry, zkl_loss loss)
{
    zkl_locks *locks = entry->locks;
    zkl_entry_leave_watch(entry);
    zkl_entry_leave_own_watch(entry);
    entry->generation++;
    entry->serial = ++locks->serial;
    entry->listing = entry->deleting = entry->downgraded = entry->granted = entry->none_ahead = entry->predicting =
        entry->delete_outcome_unknown = false;
    entry->revoked = entry->grant_lost = entry->contested = entry->alone = entry->handoff_used_up = false;
    entry->grants = 0;
    zkl_free(entry->node);
    entry->node = NULL;
    zkl_entry_move(entry, ZKL_ENTRY_PARKED);
    tell_kind(entry, loss);
}

/* Refuses all acquisitions that wait for the entry. The entry then leaves. */
static void refuse_all(zkl_entry *entry, zkl_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void refuse_all(zkl_entry *entry, zkl_code code, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    zkl_acquisition *acquisition;
    while ((acquisition = TAILQ_FIRST(&entry->sharers)) != NULL) {
        zkl_acquisition_finish(acquisition, ZKL_ACQUISITION_REFUSED, code, "%s", message);
        zkl_acquisition_leave(acquisition);
    }
    zkl_acquisition_finish(entry->acquisition, ZKL_ACQUISITION_REFUSED, code, "%s", message);
    zkl_acquisition_leave(entry->acquisition);
}

void zkl_entry_refuse(zkl_entry *entry, int rc, const char *what)
{
    refuse_all(entry, zkl_code_of(rc), "%s '%s': %s%s", what, entry->queue->directory.path, zkl_words_of(rc),
               rc == ZNONODE && strchr(entry->locks->session->servers, '/') != NULL ? " (does the chroot exist?)" : "");
}

/* --- granting ------------------------------------------------------------------------------------------------------ */

void zkl_entry_hold(zkl_entry *entry)
{
    zkl_entry_leave_watch(entry);
    zkl_entry_reserve(entry, false);
    zkl_entry_move(entry, ZKL_ENTRY_GRANTED);
}

void zkl_entry_confirm(zkl_entry *entry)
{
    if (entry->state != ZKL_ENTRY_CONFIRMING) {
        return;
    }
    if (entry->kind->needs_lease && !zkl_lease_valid(entry->locks->session)) {
        zkl_lease_want(entry->locks->session);
    } else {
        entry->kind->ready(entry);
    }
}

/* No node that conflicts with this entry's is before it, and none ever will be. */
static void nothing_conflicts(zkl_entry *entry)
{
    entry->ahead = 0;
    entry->none_ahead = entry->none_ahead || entry->kind->node == ZKL_NODE_EXCLUSIVE;
    zkl_entry_leave_watch(entry);
    zkl_entry_move(entry, ZKL_ENTRY_CONFIRMING);
    zkl_entry_confirm(entry);
}

void zkl_entry_blocker_changed(const zkl_entry *entry)
{
    if (entry->acquisition == NULL) {
        return;
    }
    if (entry->acquisition->phase == ZKL_ACQUISITION_WAITING) {
        zkl_acquisition_blocker_changed(entry->acquisition);
    }
    zkl_acquisition *sharer;
    TAILQ_FOREACH(sharer, &entry->sharers, in_entry)
    {
        if (sharer->phase == ZKL_ACQUISITION_WAITING) {
            zkl_acquisition_blocker_changed(sharer);
        }
    }
}

/* --- requests ------------------------------------------------------------------------------------------------------ */

zkl_ask zkl_entry_ask(zkl_entry *entry, zkl_on_reply on_reply)
{
    return (zkl_ask){.on_reply = on_reply, .owner = entry, .generation = entry->generation};
}

bool zkl_entry_sent(zkl_entry *entry, int rc)
{
    entry->flying += rc == ZOK;
    return rc == ZOK;
}

static void on_created(void *owner, int rc, const zkl_reply *reply);
static void on_downgraded(void *owner, int rc, const zkl_reply *reply);
static void on_listed(void *owner, int rc, const zkl_reply *reply);
static void on_synced(void *owner, int rc, const zkl_reply *reply);
static void on_looked_at(void *owner, int rc, const zkl_reply *reply);
static void on_writer_looked_at(void *owner, int rc, const zkl_reply *reply);
static void on_deleted(void *owner, int rc, const zkl_reply *reply);

static bool send_create(zkl_entry *entry, const char *path)
{
    zkl_ask ask = zkl_entry_ask(entry, on_created);
    ask.proof = ZKL_PROOF_QUORUM;
    const zkl_lock_spec *spec = entry->acquisition->spec;
    const char *data = spec->lock.identity;
    return zkl_entry_sent(entry, zkl_send_create(entry->locks->session, &ask, path, data, (int32_t)strlen(data),
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
    downgrade->results[1].err = ZRUNTIMEINCONSISTENCY; /* stays if the answer says nothing about this part */
    downgrade->results[0].err = first == 0 ? ZRUNTIMEINCONSISTENCY : ZOK;
    return zkl_entry_sent(
        entry, zkl_send_multi(entry->locks->session, &ask, 2 - first, ops + first, downgrade->results + first));
}

bool zkl_entry_list(zkl_entry *entry, zkl_list_purpose purpose)
{
    zkl_ask ask = zkl_entry_ask(entry, on_listed);
    ask.tag = (int32_t)purpose;
    return zkl_entry_sent(entry, zkl_send_names(entry->locks->session, &ask, entry->queue->directory.path));
}

static bool send_sync(zkl_entry *entry)
{
    zkl_ask ask = zkl_entry_ask(entry, on_synced);
    ask.proof = ZKL_PROOF_LEADER;
    return zkl_entry_sent(entry, zkl_send_sync(entry->locks->session, &ask, entry->queue->directory.path));
}

static bool send_look(zkl_entry *entry)
{
    zkl_ask ask = zkl_entry_ask(entry, on_looked_at);
    return zkl_entry_sent(entry, zkl_send_exists(entry->locks->session, &ask, entry->node, NULL, NULL));
}

static bool send_look_at_writer(zkl_entry *reader)
{
    zkl_ask ask = zkl_entry_ask(reader, on_writer_looked_at);
    return zkl_entry_sent(reader, zkl_send_exists(reader->locks->session, &ask, reader->writer->node, NULL, NULL));
}

static bool send_delete(zkl_entry *entry)
{
    zkl_ask ask = zkl_entry_ask(entry, on_deleted);
    ask.proof = ZKL_PROOF_QUORUM;
    return zkl_entry_sent(entry, zkl_send_delete(entry->locks->session, &ask, entry->node, -1));
}

/* --- what each state sends ----------------------------------------------------------------------------------------- */

/*
 * Sends the create of a downgraded reader's node. The node has its writer's sequence number, so a node behind the
 * writer is behind the reader.
 */
static bool send_downgrade_create(zkl_entry *entry, const char *path)
{
    const zkl_entry *writer = entry->writer;
    char *whole = zkl_alloc(strlen(path) + ZKL_NODE_NAME_SIZE);
    if (whole == NULL) {
        return false;
    }
    snprintf(whole, strlen(path) + ZKL_NODE_NAME_SIZE, "%s%010d", path, (int)writer->sequence);
    bool sent = send_create_downgraded(entry, writer->node, whole);
    zkl_free(whole);
    if (sent) {
        entry->downgraded = true;
        entry->czxid = writer->czxid;
        entry->grants = ++entry->writer->grants;
    }
    return sent;
}

static void send_join(zkl_entry *entry)
{
    char name[ZKL_NODE_NAME_SIZE];
    size_t length = prefix_of(entry, name);
    size_t stem = strlen(entry->queue->directory.path);
    char small[256];
    char *path = stem + 1 + length < sizeof small ? small : zkl_alloc(stem + 1 + length + 1);
    if (path == NULL) {
        zkl_entry_make_runnable(entry);
        return;
    }
    memcpy(path, entry->queue->directory.path, stem);
    path[stem] = '/';
    memcpy(path + stem + 1, name, length + 1);
    bool sent = entry->writer != NULL ? send_downgrade_create(entry, path) : send_create(entry, path);
    if (path != small) {
        zkl_free(path);
    }
    if (!sent) {
        zkl_entry_make_runnable(entry);
        return;
    }
    zkl_entry_move(entry, ZKL_ENTRY_JOINING);
    if (entry->downgraded) {
        entry->listing = send_look_at_writer(entry);
    } else if (entry->kind->queues && !zkl_entry_is_likely_adjacent(entry) && !zkl_entry_can_predict(entry)) {
        entry->listing = zkl_entry_list(entry, ZKL_LIST_JOIN);
    }
    if (entry->kind->joining != NULL) {
        entry->kind->joining(entry);
    }
}

static void step_parked(zkl_entry *entry)
{
    if (entry->queue->parents_flying > 0) {
        return; /* the last of those replies steps the entries */
    }
    if (entry->kind->queues && !zkl_entry_fits(entry)) {
        if (!entry->over_watch_budget) {
            leave_wait_list(entry); /* the entry may be runnable or backing off */
            entry->over_watch_budget = true;
            TAILQ_INSERT_TAIL(&entry->locks->over_watch_budget, entry, in_wait_list);
        }
        return;
    }
    leave_wait_list(entry);
    zkl_entry_reserve(entry, entry->kind->queues);
    bool look =
        entry->acquisition->try_only && !entry->acquisition->optimistic && entry->writer == NULL && entry->kind->queues;
    if (!look || ZKL_BROKEN(ZKL_BREAK_TRY)) {
        send_join(entry);
    } else if (zkl_entry_list(entry, ZKL_LIST_TRY) && (entry->kind->look == NULL || entry->kind->look(entry))) {
        zkl_entry_move(entry, ZKL_ENTRY_LOOKING);
    } else {
        zkl_entry_make_runnable(entry);
    }
}

static void step_recovering(zkl_entry *entry)
{
    if (entry->listing || entry->node != NULL) {
        return; /* the list or the exists is in flight */
    }
    if (send_sync(entry) && zkl_entry_list(entry, ZKL_LIST_RECOVER)) {
        entry->listing = true;
    } else {
        zkl_entry_make_runnable(entry);
    }
}

static void drop_node(zkl_entry *entry);
static void evict(zkl_entry *entry, const char *how);

static void step_queued(zkl_entry *entry)
{
    if (entry->kind->queued != NULL) {
        entry->kind->queued(entry);
    }
    if (!entry->kind->queues || entry->listing || entry->watcher.watch != NULL) {
        return;
    }
    if (entry->downgraded && entry->writer == NULL) {
        drop_node(entry); /* the writer's entry is not granted any more, so its node cannot be looked at */
        return;
    }
    entry->listing = entry->downgraded ? send_look_at_writer(entry) : zkl_entry_list(entry, ZKL_LIST_LOOK);
    if (!entry->listing) {
        zkl_entry_make_runnable(entry);
    }
}

static void step_leaving(zkl_entry *entry)
{
    if (entry->deleting) {
        return;
    }
    entry->deleting = send_delete(entry);
    if (!entry->deleting) {
        entry->delete_outcome_unknown = true;
        zkl_entry_make_runnable(entry);
    }
}

void zkl_entry_step(zkl_entry *entry)
{
    bool waits = entry->state == ZKL_ENTRY_GRANTED || entry->state == ZKL_ENTRY_GONE ||
                 (entry->state == ZKL_ENTRY_CONFIRMING && entry->kind->needs_lease);
    if (waits) {
        return;
    }
    if (!zkl_session_usable(entry->locks->session) || entry->locks->session->requests.in_flight >= ZKL_MAX_IN_FLIGHT ||
        (entry->state == ZKL_ENTRY_PARKED && zkl_lease_holds_back(entry->locks->session))) {
        zkl_entry_make_runnable(entry);
        return;
    }
    switch (entry->state) {
    case ZKL_ENTRY_PARKED:
        step_parked(entry);
        break;
    case ZKL_ENTRY_RECOVERING:
        step_recovering(entry);
        break;
    case ZKL_ENTRY_QUEUED:
        step_queued(entry);
        break;
    case ZKL_ENTRY_LEAVING:
        step_leaving(entry);
        break;
    case ZKL_ENTRY_CONFIRMING:
        zkl_entry_confirm(entry);
        break;
    case ZKL_ENTRY_LOOKING:
    case ZKL_ENTRY_JOINING:
    case ZKL_ENTRY_GRANTED:
    case ZKL_ENTRY_GONE:
        break;
    }
}

/* --- leaving ------------------------------------------------------------------------------------------------------- */

void zkl_entry_leave(zkl_entry *entry)
{
    if (!entry->wanted) {
        return;
    }
    entry->wanted = false;
    switch (entry->state) {
    case ZKL_ENTRY_PARKED:
    case ZKL_ENTRY_LOOKING:
        gone(entry);
        break;
    case ZKL_ENTRY_JOINING:
    case ZKL_ENTRY_RECOVERING:
        /* The entry will arm no watch, and the fate of its node may never be known. */
        zkl_entry_reserve(entry, false);
        zkl_entry_move(entry, entry->state); /* counts as cleaning from now on; the reply decides */
        break;
    case ZKL_ENTRY_GRANTED:
        entry->held = true;
        zkl_watch_leave_directory(&entry->watcher);
        __attribute__((fallthrough));
    case ZKL_ENTRY_QUEUED:
    case ZKL_ENTRY_CONFIRMING:
        zkl_entry_leave_watch(entry);
        zkl_entry_leave_own_watch(entry);
        zkl_entry_reserve(entry, false);
        zkl_entry_move(entry, ZKL_ENTRY_LEAVING);
        zkl_entry_step(entry);
        break;
    case ZKL_ENTRY_LEAVING:
    case ZKL_ENTRY_GONE:
        break;
    }
}

void zkl_entries_leave(zkl_acquisition *acquisition)
{
    zkl_entry *entry, *next;
    for (entry = LIST_FIRST(&acquisition->entries); entry != NULL; entry = next) {
        next = LIST_NEXT(entry, in_acquisition);
        zkl_entry_leave(entry);
    }
}

/* The kind of an entry that only deletes a stray. No acquisition wants it, so none of its functions is called. */
static const zkl_kind stray_kind = {.node = ZKL_NODE_STRANGER};

bool zkl_entry_adopt(zkl_queue *queue, const char *name, uint64_t serial)
{
    zkl_entry *entry = new_entry(queue, &stray_kind, serial);
    if (entry == NULL) {
        return false;
    }
    if (!set_node(entry, name)) {
        gone(entry);
        return false;
    }
    zkl_entry_move(entry, ZKL_ENTRY_LEAVING);
    zkl_entry_step(entry);
    return true;
}

static void deleted(zkl_entry *entry, int rc, const zkl_reply *reply)
{
    if (rc == ZOK) {
        zkl_lease_prove(entry->locks->session, reply->sent_at);
        entry->locks->writes++;
    }
    if (reply->generation != entry->generation || entry->state != ZKL_ENTRY_LEAVING) {
        return;
    }
    entry->deleting = false;
    if (rc == ZOK) {
        zkl_entry_note_cleared(entry, reply);
    } else if (rc == ZNONODE && entry->held && entry->acquisition != NULL &&
               (!entry->delete_outcome_unknown || ZKL_BROKEN(ZKL_BREAK_REPEATED))) {
        /* this was our only delete of the node, so it was deleted externally */
        zkl_acquisition_deleted_externally(entry->acquisition, entry->node);
    }
    entry->delete_outcome_unknown =
        entry->delete_outcome_unknown || zkl_outcome_unknown(rc) || rc == ZSESSIONEXPIRED || rc == ZINVALIDSTATE;
    if (rc == ZOK || rc == ZNONODE || (entry->acquisition == NULL && ZKL_BROKEN(ZKL_BREAK_ONCE))) {
        gone(entry);
    } else if (zkl_outcome_unknown(rc)) {
        entry->locks->session->stats.unknown_outcomes++;
        if (ZKL_BROKEN(ZKL_BREAK_CLEANUP)) {
            gone(entry);
        } else {
            zkl_entry_step(entry);
        }
    } else {
        /* The server refuses the delete (ZNOAUTH) or throttles it. Keep trying, but give the server time. */
        if (rc != ZSESSIONEXPIRED && rc != ZINVALIDSTATE) {
            zkl_session_log(entry->locks->session, ZOO_LOG_LEVEL_ERROR, "cannot delete '%s': %s", entry->node,
                            zerror(rc));
            if (entry->acquisition != NULL) {
                zkl_acquisition_delete_refused(entry->acquisition, rc, entry->node);
            }
        }
        zkl_entry_back_off(entry);
    }
}

/* --- joining ------------------------------------------------------------------------------------------------------- */

static void check_sequence(zkl_entry *entry)
{
    zkl_queue *queue = entry->queue;
    if (entry->sequence >= ZKL_SEQUENCE_WARN && !queue->warned) {
        queue->warned = true;
        zkl_session_log(entry->locks->session, ZOO_LOG_LEVEL_WARN,
                        "the sequence numbers of '%s' have reached %d of 2147483647: use another path before they end",
                        queue->directory.path, entry->sequence);
    }
}

static bool exhausted(const zkl_entry *entry)
{
    return entry->sequence < 0 || entry->sequence >= ZKL_SEQUENCE_LIMIT;
}

static void refuse_exhausted(zkl_entry *entry)
{
    refuse_all(entry, ZKL_EXHAUSTED,
               "the sequence numbers of '%s' are used up (%d): delete the empty directory, or use another path",
               entry->queue->directory.path, entry->sequence);
}

/*
 * Another node has the same number, although the numbers are not near their end. This was seen when servers had lost
 * acknowledged transactions (ZOOKEEPER-4785) and gave out numbers a second time. Neither node is before the other.
 */
static void refuse_tied(zkl_entry *entry)
{
    if (exhausted(entry)) {
        refuse_exhausted(entry);
    } else {
        refuse_all(entry, ZKL_EXHAUSTED,
                   "another node of '%s' has the sequence number %d too: the servers have given it twice",
                   entry->queue->directory.path, entry->sequence);
    }
}

/* The entry has no node. Returns false if no acquisition wants the entry any more; the entry is then gone. */
static bool begin_anew(zkl_entry *entry)
{
    if (!entry->wanted) {
        gone(entry);
        return false;
    }
    start_over(entry, ZKL_LOSS_NODE);
    return true;
}

static void not_created(zkl_entry *entry, int rc)
{
    if (!begin_anew(entry)) {
        return;
    }
    if (rc == ZNONODE) {
        char data[ZKL_DIRECTORY_DATA_SIZE];
        bool has_data = entry->kind->directory_data != NULL;
        zkl_queue_make_parents(entry->queue, has_data ? entry->kind->directory_data(entry, data) : "",
                               &entry->acquisition->spec->acl);
        zkl_entry_step(entry);
    } else if (rc == ZTHROTTLEDOP) {
        zkl_entry_back_off(entry);
    } else if (rc == ZSESSIONEXPIRED || rc == ZINVALIDSTATE) {
        zkl_entry_make_runnable(entry);
    } else {
        zkl_entry_refuse(entry, rc, "creating a node in");
    }
}

/*
 * A node with the entry's uuid exists in this session, but the entry must not go on with it. Deletes the node. If the
 * entry is still wanted, it gets another node.
 */
static void drop_node(zkl_entry *entry)
{
    if (!entry->wanted) {
        zkl_entry_move(entry, ZKL_ENTRY_LEAVING);
        zkl_entry_step(entry);
    } else if (zkl_entry_adopt(entry->queue, entry->node + strlen(entry->queue->directory.path) + 1, entry->serial)) {
        not_created(entry, ZINVALIDSTATE);
    } else {
        zkl_free(entry->node);
        entry->node = NULL;
        zkl_entry_move(entry, ZKL_ENTRY_RECOVERING);
        zkl_entry_back_off(entry); /* memory is short: looks for the node again */
    }
}

/* The node exists and is ours. `elsewhere` is passed to zkl_entry_most_ahead. */
static void seated(zkl_entry *entry, int64_t czxid, int64_t elsewhere)
{
    if (!entry->downgraded) {
        entry->czxid = czxid;
    }
    zkl_entry_move(entry, entry->wanted ? ZKL_ENTRY_QUEUED : ZKL_ENTRY_LEAVING);
    entry->create_retries = false;
    check_sequence(entry);
    entry->ahead = zkl_entry_most_ahead(entry, czxid, elsewhere);
    entry->queue->last_was_adjacent = entry->none_ahead = entry->ahead == 0;
    entry->unlisted = true;
    if (entry->wanted && exhausted(entry)) {
        refuse_exhausted(entry);
    } else if (entry->wanted && entry->none_ahead) {
        nothing_conflicts(entry);
    } else if (!entry->wanted || entry->downgraded || !zkl_entry_watch_predicted(entry)) {
        zkl_entry_step(entry);
    }
}

/* Whether the reply can describe the node that the entry's create made. A faulty server may answer anything. */
static bool may_be_created(const zkl_entry *entry, const char *path, const struct Stat *stat)
{
    size_t stem = strlen(entry->queue->directory.path);
    if (path == NULL || strncmp(path, entry->queue->directory.path, stem) != 0 || path[stem] != '/') {
        return false;
    }
    char uuid[ZKL_UUID_LENGTH + 1];
    zkl_entry_uuid(entry, uuid);
    const char *name = path + stem + 1;
    return strchr(name, '/') == NULL && zkl_node_has_uuid(name, uuid) &&
           zkl_node_parse(name).kind == entry->kind->node &&
           (stat == NULL || (stat->ephemeralOwner == entry->locks->session->session_id && stat->czxid > 0));
}

static void created(zkl_entry *entry, int rc, const char *path, const zkl_reply *reply)
{
    const struct Stat *stat = reply->stat;
    zkl_locks *locks = entry->locks;
    if (rc == ZOK) {
        zkl_lease_prove(locks->session, reply->sent_at);
        locks->writes++;
        entry->queue->creates++;
    }
    if (reply->generation != entry->generation || entry->state != ZKL_ENTRY_JOINING) {
        return;
    }
    entry->writes = locks->writes - entry->queue->creates;
    entry->connection = reply->connection;
    bool ours_now = rc == ZOK && may_be_created(entry, path, stat);
    if (entry->downgraded && rc == ZNONODE) {
        if (entry->writer != NULL) {
            /* The writer's node was deleted externally. The reader queues like any other. */
            zkl_entry_deleted_externally(entry->writer);
        }
        not_created(entry, ZINVALIDSTATE);
    } else if (ours_now && set_node(entry, path + strlen(entry->queue->directory.path) + 1)) {
        seated(entry, stat != NULL ? stat->czxid : entry->czxid, entry->writes - entry->queue->cleared_writes);
    } else if (rc == ZOK || zkl_outcome_unknown(rc)) {
        locks->session->stats.unknown_outcomes++;
        if (ZKL_BROKEN(ZKL_BREAK_RECOVERY)) {
            not_created(entry, ZINVALIDSTATE);
            return;
        }
        entry->listing = false;
        zkl_entry_move(entry, ZKL_ENTRY_RECOVERING);
        if (entry->wanted) {
            tell_kind(entry, ZKL_LOSS_REPLY);
        }
        /*
         * Not stepped here: a request that is sent from inside a failing completion would go out on another connection.
         */
        zkl_entry_make_runnable(entry);
    } else {
        not_created(entry, rc);
    }
}

/* --- the position in the queue ------------------------------------------------------------------------------------- */

/*
 * A writer of Curator's read/write lock may become a reader. It creates a reader's node with its own number and then
 * deletes the writer's node. So the deletion of a writer's node alone proves nothing (CURATOR-276).
 */
static bool may_downgrade(const char *name)
{
    return strstr(name, "-__WRIT__") != NULL;
}

static void refuse_try(zkl_entry *entry, const char *name)
{
    zkl_acquisition_finish(entry->acquisition, ZKL_ACQUISITION_REFUSED, ZKL_TIMEOUT, "'%s' is taken: '%s' is ahead",
                           zkl_acquisition_path(entry->acquisition), name);
    zkl_acquisition_leave(entry->acquisition);
}

/* The node kind by which other nodes block the entry. Not that of its kind only if ZKL_BREAK_READERS is set. */
static zkl_node_kind kind_in_queue(const zkl_entry *entry)
{
    return ZKL_BROKEN(ZKL_BREAK_READERS) && entry->kind->readwrite ? ZKL_NODE_SHARED : entry->kind->node;
}

/* Acts on the entry's position in a list that was made when its node existed. */
static void stand(zkl_entry *entry, const struct String_vector *names)
{
    zkl_standing standing = zkl_names_standing(names->data, names->count, zkl_entry_name(entry), kind_in_queue(entry));
    entry->predicting = entry->unlisted = false;
    if (!standing.listed && !ZKL_BROKEN(ZKL_BREAK_LISTED)) {
        zkl_entry_deleted_externally(entry);
        return;
    }
    if (standing.tied) {
        refuse_tied(entry);
        return;
    }
    if (standing.blocking == 0) {
        entry->none_ahead = standing.earlier == 0;
        nothing_conflicts(entry);
        return;
    }
    bool removed = zkl_queue_remove_strays(entry->queue, names);
    if (entry->acquisition->try_only) {
        refuse_try(entry, names->data[standing.nearest]);
        return;
    }
    if (entry->kind->blocked != NULL) {
        entry->kind->blocked(entry);
    }
    entry->ahead = standing.blocking + (int32_t)may_downgrade(names->data[standing.nearest]);
    if (removed) {
        zkl_entry_note_predecessor(entry, names->data[standing.nearest]);
        zkl_entry_watch_node(entry, names->data[standing.nearest]);
    } else {
        zkl_entry_back_off(entry); /* lists again later: the node before it may be a stray */
    }
    zkl_entry_blocker_changed(entry);
}

void zkl_entry_check_place(zkl_entry *entry, const struct String_vector *names)
{
    zkl_standing standing = zkl_names_standing(names->data, names->count, zkl_entry_name(entry), kind_in_queue(entry));
    if (!standing.listed || standing.tied || standing.blocking > 0) {
        zkl_entry_leave_watch(entry);
        entry->none_ahead = false;
        zkl_entry_move(entry, ZKL_ENTRY_QUEUED);
        stand(entry, names);
    }
}

void zkl_entry_try_again(zkl_entry *entry)
{
    /* The reply to another list may still arrive; it must not count. */
    entry->generation++;
    zkl_entry_move(entry, ZKL_ENTRY_PARKED);
    tell_kind(entry, ZKL_LOSS_NODE);
    zkl_entry_back_off(entry);
}

/* Handles the list that precedes the first write of a try. */
static void decide_try(zkl_entry *entry, int rc, const struct String_vector *names)
{
    if (rc == ZOK) {
        zkl_standing standing = zkl_names_standing(names->data, names->count, "", kind_in_queue(entry));
        if (standing.blocking > 0) {
            zkl_queue_remove_strays(entry->queue, names);
            refuse_try(entry, names->data[standing.nearest]);
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

void zkl_entry_join(zkl_entry *entry)
{
    zkl_entry_move(entry, ZKL_ENTRY_PARKED);
    send_join(entry);
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
        bool transient =
            rc == ZOK || rc == ZNONODE || rc == ZTHROTTLEDOP || rc == ZSESSIONEXPIRED || rc == ZINVALIDSTATE;
        if (entry->wanted && !transient) {
            /*
             * The directory may not be listed. The node may exist, so the search goes on, but no acquisition waits for
             * it.
             */
            refuse_all(entry, zkl_code_of(rc), "listing '%s' after a lost reply: %s", entry->queue->directory.path,
                       zerror(rc));
        }
        zkl_entry_back_off(entry);
        return;
    }
    for (int32_t i = 0; rc == ZOK && i < names->count; i++) {
        if (zkl_node_has_uuid(names->data[i], uuid)) {
            if (!set_node(entry, names->data[i]) || !send_look(entry)) {
                zkl_free(entry->node);
                entry->node = NULL;
                zkl_entry_make_runnable(entry);
            }
            return;
        }
    }
    if (!ZKL_BROKEN(ZKL_BREAK_SEARCH)) {
        entry->queue->lost_in = entry->locks->session->session_id;
    }
    bool again = entry->create_retries;
    entry->create_retries = true;
    if (!begin_anew(entry)) {
        return;
    }
    if (again) {
        /* If a server has lost the directory, it answers no create, however often the create is repeated. */
        zkl_entry_back_off(entry);
    } else {
        zkl_entry_make_runnable(entry);
    }
}

static void synced(zkl_entry *entry, int rc, const zkl_reply *reply)
{
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
    zkl_session_log(entry->locks->session, ZOO_LOG_LEVEL_WARN,
                    "deleting '%s', since the reply to its create was lost and the acl does not let the client read it",
                    entry->node);
    drop_node(entry);
}

static void looked_at(zkl_entry *entry, int rc, const zkl_reply *reply)
{
    const struct Stat *stat = reply->stat;
    if (reply->generation != entry->generation) {
        return;
    }
    if (entry->state != ZKL_ENTRY_RECOVERING) {
        return;
    }
    if (rc == ZOK && stat->ephemeralOwner == entry->locks->session->session_id && stat->czxid > 0) {
        /*
         * The node was made some time ago. Our writes that were acknowledged since may have been executed after its
         * create.
         */
        entry->writes = entry->locks->writes - entry->queue->creates;
        seated(entry, stat->czxid, 0);
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

/*
 * Handles the exists of the writer's node, which was sent behind the create of the downgraded reader's node. If its
 * czxid is the writer's, the writer's node existed without a break until then, so every contender behind it has seen
 * one of the two nodes. The create does not prove that: it only checks that a node of that name exists. The writer's
 * node may have been deleted, another writer granted, and a node of the same name made.
 */
static void writer_looked_at(zkl_entry *entry, int rc, const zkl_reply *reply)
{
    if (reply->generation != entry->generation || entry->state != ZKL_ENTRY_QUEUED || !entry->downgraded) {
        return;
    }
    entry->listing = false;
    bool same = rc == ZOK && reply->stat->czxid == entry->czxid;
    bool unreadable = rc == ZNOAUTH; /* servers since 3.8.4 and 3.9.2 want READ for exists */
    bool broken = ZKL_BROKEN(ZKL_BREAK_LOST_WRITER) || ZKL_BROKEN(ZKL_BREAK_WRITER);
    if (same || unreadable || broken) {
        nothing_conflicts(entry);
    } else if (rc == ZOK || rc == ZNONODE) {
        if (entry->writer != NULL) {
            evict(entry->writer, rc == ZOK ? "deleted, and made anew," : "deleted");
        }
        drop_node(entry);
    } else if (rc == ZTHROTTLEDOP) {
        zkl_entry_back_off(entry);
    } else {
        zkl_entry_make_runnable(entry);
    }
}

static void listed(zkl_entry *entry, int rc, const zkl_reply *reply)
{
    const struct String_vector *names = reply->names;
    rc = zkl_names_rc(rc, names);
    if (ZKL_BROKEN(ZKL_BREAK_PAIRING) && reply->tag == ZKL_LIST_JOIN && rc == ZOK && entry->wanted &&
        entry->state == ZKL_ENTRY_PARKED &&
        zkl_names_standing(names->data, names->count, "", kind_in_queue(entry)).blocking == 0) {
        nothing_conflicts(entry);
        return;
    }
    if (reply->generation != entry->generation) {
        return;
    }
    if (reply->tag == ZKL_LIST_TRY) {
        if (entry->state == ZKL_ENTRY_LOOKING) {
            decide_try(entry, rc, names);
        }
        return;
    }
    if (reply->tag == ZKL_LIST_RECOVER) {
        if (entry->state == ZKL_ENTRY_RECOVERING) {
            entry->listing = false;
            find_own(entry, rc, reply);
        }
        return;
    }
    if (entry->state != ZKL_ENTRY_QUEUED) {
        return; /* its create failed, or it is leaving */
    }
    entry->listing = false;
    if (rc == ZOK && (reply->tag == ZKL_LIST_LOOK || reply->connection == entry->connection)) {
        stand(entry, names);
    } else if (rc == ZNONODE) {
        zkl_entry_deleted_externally(entry); /* the whole directory is gone */
    } else if (rc == ZTHROTTLEDOP) {
        zkl_entry_back_off(entry);
    } else if (rc == ZOK || zkl_outcome_unknown(rc) || rc == ZSESSIONEXPIRED || rc == ZINVALIDSTATE) {
        if (!ZKL_BROKEN(ZKL_BREAK_REARM)) {
            zkl_entry_make_runnable(entry);
        }
    } else {
        zkl_entry_refuse(entry, rc, "listing");
    }
}

/* --- replies ------------------------------------------------------------------------------------------------------- */

static void on_created(void *owner, int rc, const zkl_reply *reply)
{
    created(owner, rc, reply->path, reply);
    zkl_entry_request_completed(owner);
}

/* The C client reports success even if parts of the answer say otherwise, or are missing. */
static void on_downgraded(void *owner, int rc, const zkl_reply *reply)
{
    const struct downgrade *downgrade = owner;
    bool passed = downgrade->results[0].err == ZOK && downgrade->results[1].err == ZOK;
    created(downgrade->entry, rc == ZOK && !passed ? ZRUNTIMEINCONSISTENCY : rc, downgrade->path, reply);
    zkl_entry_request_completed(downgrade->entry);
}

static void on_listed(void *owner, int rc, const zkl_reply *reply)
{
    listed(owner, rc, reply);
    zkl_entry_request_completed(owner);
}

static void on_synced(void *owner, int rc, const zkl_reply *reply)
{
    synced(owner, rc, reply);
    zkl_entry_request_completed(owner);
}

static void on_looked_at(void *owner, int rc, const zkl_reply *reply)
{
    looked_at(owner, rc, reply);
    zkl_entry_request_completed(owner);
}

static void on_writer_looked_at(void *owner, int rc, const zkl_reply *reply)
{
    writer_looked_at(owner, rc, reply);
    zkl_entry_request_completed(owner);
}

static void on_deleted(void *owner, int rc, const zkl_reply *reply)
{
    deleted(owner, rc, reply);
    zkl_entry_request_completed(owner);
}

/* --- watches ------------------------------------------------------------------------------------------------------- */

void zkl_entry_watch_node(zkl_entry *entry, const char *name)
{
    zkl_queue_remove_if_stray(entry->queue, name); /* else the entry would wait for it until the session ends */
    zkl_watch_node(entry->locks->session, &entry->watcher, &entry->queue->directory, name);
}

bool zkl_entry_watch_children(zkl_entry *entry, zkl_queue *queue)
{
    return zkl_watch_children(entry->locks->session, &entry->watcher, &queue->directory);
}

void zkl_entry_watch_own(zkl_entry *entry)
{
    zkl_watch_own(entry->locks->session, &entry->watcher, &entry->queue->directory, entry->node);
}

void zkl_entry_leave_watch(zkl_entry *entry)
{
    zkl_watch_leave(&entry->watcher);
}

void zkl_entry_leave_own_watch(zkl_entry *entry)
{
    zkl_watch_leave_own(&entry->watcher);
}

/* --- what watches report ------------------------------------------------------------------------------------------- */

void zkl_entry_blocker_gone(zkl_entry *entry)
{
    if (entry->state == ZKL_ENTRY_CONFIRMING || entry->state == ZKL_ENTRY_GRANTED) {
        entry->kind->directory_changed(entry); /* no node is ahead, so the watch is on a directory */
        return;
    }
    if (entry->state != ZKL_ENTRY_QUEUED) {
        return;
    }
    entry->ahead--;
    if (entry->ahead <= 0 || ZKL_BROKEN(ZKL_BREAK_AHEAD)) {
        nothing_conflicts(entry);
    } else {
        zkl_entry_step(entry);
    }
}

void zkl_entry_look_later(zkl_entry *entry)
{
    if (entry->state == ZKL_ENTRY_QUEUED) {
        zkl_entry_back_off(entry);
    }
}

void zkl_entry_look_again(zkl_entry *entry)
{
    if (entry->state == ZKL_ENTRY_GRANTED) {
        entry->kind->directory_changed(entry);
    } else if (entry->state == ZKL_ENTRY_QUEUED ||
               (entry->state == ZKL_ENTRY_CONFIRMING && !entry->kind->needs_lease)) {
        zkl_entry_make_runnable(entry);
    }
}

/* --- what other sessions do to our nodes --------------------------------------------------------------------------- */

/* The entry serves no more acquisitions: those that wait in it get others. */
static void close_entry(zkl_entry *entry)
{
    if (entry->kind->closed != NULL) {
        entry->kind->closed(entry);
    }
}

void zkl_entry_revoked(zkl_entry *entry)
{
    entry->revoked = true;
    zkl_acquisition *acquisition;
    TAILQ_FOREACH(acquisition, &entry->sharers, in_entry)
    {
        zkl_acquisition_revoked(acquisition);
    }
    if (entry->acquisition != NULL) {
        zkl_acquisition_revoked(entry->acquisition);
        close_entry(entry);
    } else {
        zkl_entry_leave(entry); /* the entry lingers */
    }
}

/*
 * The node of a granted entry is gone. The acquisitions that hold by it are lost; those that wait for it get another
 * entry.
 */
static void vanish(zkl_entry *entry, const char *why)
{
    close_entry(entry);
    zkl_entry_move(entry, ZKL_ENTRY_LEAVING); /* there is nothing left to delete */
    entry->wanted = false;
    zkl_acquisition *acquisition;
    while ((acquisition = TAILQ_FIRST(&entry->sharers)) != NULL) {
        zkl_acquisition_lose(acquisition, ZKL_LOST, "'%s' is lost: %s", zkl_acquisition_path(acquisition), why);
    }
    if (entry->acquisition != NULL) {
        zkl_acquisition_lose(entry->acquisition, ZKL_LOST, "'%s' is lost: %s", zkl_acquisition_path(entry->acquisition),
                             why);
    }
    gone(entry);
}

/* The entry's node was deleted externally. `how` completes the message "somebody ... its node". */
static void evict(zkl_entry *entry, const char *how)
{
    if (ZKL_BROKEN(ZKL_BREAK_EVICTED) && entry->state == ZKL_ENTRY_GRANTED) {
        return;
    }
    if (entry->state == ZKL_ENTRY_GRANTED) {
        char why[512];
        snprintf(why, sizeof why, "somebody %s its node '%.400s'", how, entry->node);
        vanish(entry, why);
    } else if (entry->wanted) {
        zkl_session_log(entry->locks->session, ZOO_LOG_LEVEL_WARN, "somebody %s '%s': queueing again", how,
                        entry->node);
        start_over(entry, ZKL_LOSS_NODE);
        zkl_entry_step(entry);
    } else {
        gone(entry);
    }
}

void zkl_entry_deleted_externally(zkl_entry *entry)
{
    evict(entry, "deleted");
}

void zkl_entry_replaced(zkl_entry *entry)
{
    evict(entry, "deleted, and made anew,");
}

void zkl_entry_session_over(zkl_entry *entry, const char *why)
{
    if (entry->state == ZKL_ENTRY_GRANTED) {
        if (ZKL_BROKEN(ZKL_BREAK_OWNER)) {
            return;
        }
        vanish(entry, why);
    } else if (entry->wanted && entry->kind->queues) {
        start_over(entry, ZKL_LOSS_SESSION);
        zkl_entry_make_runnable(entry);
    } else {
        gone(entry);
    }
}
