/*
 * entry: one znode of ours in a queue, from the wish for it to the proof that it is gone.
 *
 *   PARKED -> (LOOKING, a try) -> JOINING -> QUEUED -> CONFIRMING -> GRANTED -> LEAVING -> GONE
 *                                 JOINING -> RECOVERING -> QUEUED | PARKED      (the create's reply was lost)
 *                                 QUEUED, CONFIRMING -> PARKED                   (the node was deleted externally)
 *                                 CONFIRMING -> QUEUED                           (a queue entry: a restore put one before it)
 *                                 GRANTED -> LINGERING -> GRANTED | LEAVING      (released, and kept for the next one)
 *                                 GRANTED, LINGERING -> LEAVING -> GONE          (the session is over)
 *                                 any other -> PARKED | GONE                     (the session is over)
 *
 * This file has what all states need: names, lists, watches, requests, and the state itself. The other files have the
 * states, each file using only those behind it in this list:
 *
 *   join.c   PARKED, LOOKING, JOINING, RECOVERING: the node is created, or found again
 *   place.c  QUEUED: its place in the queue, and the watch on the node ahead
 *   hold.c   CONFIRMING, GRANTED: from the moment when no node is ahead; share.c has LINGERING
 *   lose.c   the node is gone, or must not be used: back to PARKED, or to GONE
 *   leave.c  LEAVING: the node is deleted
 *
 * zkl_entry_step sends what an entry's state requires. It may be called at any time: if requests may not go out now, the
 * entry becomes runnable and is stepped again when they may. Some replies send the next request directly: the create
 * after a try's list (zkl_entry_join), and the exists of a node that was found again (find_own). Missing directories are
 * created, and the node before ours is watched, directly too. A reply changes the state and then steps the entry. A
 * reply counts only if it carries the entry's present generation, so a reply that belongs to an earlier session or node
 * is ignored.
 *
 * The table of the entry's kind (kind.h) has what differs between kinds of locks: the name of the node and which nodes
 * block it (`node`), and what happens when none does (`ready`).
 */
#include <assert.h>
#include <string.h>

#include "entry.h"

/* Bytes that a watched path takes in SetWatches beside its directory: '/', the name, and a length. */
#define NAME_BYTES 64

/* --- names --------------------------------------------------------------------------------------------------------- */

void zkl_entry_uuid(const zkl_entry *entry, char *uuid)
{
    memcpy(uuid, entry->locks->uuid_stem, ZKL_UUID_STEM_LENGTH);
    uint64_t left = entry->serial;
    for (char *digit = uuid + ZKL_UUID_LENGTH; digit > uuid + ZKL_UUID_STEM_LENGTH; left >>= 4) {
        *--digit = "0123456789abcdef"[left & 15];
    }
    uuid[ZKL_UUID_LENGTH] = '\0';
}

const char *zkl_entry_name(const zkl_entry *entry)
{
    return entry->node + strlen(entry->queue->path) + 1;
}

bool zkl_entry_set_node(zkl_entry *entry, const char *name, int32_t sequence)
{
    char *node = zkl_child_path(entry->queue->path, name);
    if (node == NULL) {
        return false;
    }
    zkl_free(entry->node);
    entry->node = node;
    entry->sequence = sequence;
    return true;
}

/*
 * The nodes of one acquisition of a semaphore have numbers of one block, so that names tell which permits belong to the head of the queue
 * (zkl_node_acquisition): these are not held. A block has room for many more permits than an acquisition may ask for, because those that
 * are lost are made under new names.
 */
uint64_t zkl_entry_next_serial(zkl_locks *locks, zkl_acquisition *acquisition, const zkl_kind *kind)
{
    if (acquisition == NULL || acquisition->spec->lock.mode != ZKL_MODE_PERMITS) {
        return ++locks->serial;
    }
    if (kind->node == ZKL_NODE_LEASE) {
        bool full = acquisition->serial % ZKL_SERIAL_BLOCK == ZKL_SERIAL_BLOCK - 1;
        return full ? ++locks->serial : ++acquisition->serial;
    }
    acquisition->serial = (locks->serial / ZKL_SERIAL_BLOCK + 1) * ZKL_SERIAL_BLOCK;
    locks->serial = acquisition->serial + ZKL_SERIAL_BLOCK - 1;
    return acquisition->serial;
}

void zkl_entry_set_serial(zkl_entry *entry, uint64_t serial)
{
    zkl_table_remove(&entry->locks->serials, entry);
    entry->serial = serial;
    zkl_table_add(&entry->locks->serials, entry, zkl_hash_number(serial));
}

void zkl_entry_set_downgrade(zkl_entry *entry, zkl_downgrade downgrade)
{
    entry->queue->downgraded += (downgrade != ZKL_DOWNGRADE_NO) - (entry->downgrade != ZKL_DOWNGRADE_NO);
    entry->downgrade = downgrade;
}

/* --- beginning and end --------------------------------------------------------------------------------------------- */

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
    TAILQ_INIT(&entry->sharers);
    entry->state = ZKL_ENTRY_PARKED;
    entry->serial = serial;
    TAILQ_INSERT_TAIL(&locks->entries, entry, all);
    TAILQ_INSERT_TAIL(&entry->queue->entries, entry, in_queue);
    zkl_table_add(&locks->serials, entry, zkl_hash_number(serial));
    locks->wire->stats.entries++;
    return entry;
}

zkl_entry *zkl_entry_new(zkl_acquisition *acquisition, zkl_queue *queue, const zkl_kind *kind)
{
    zkl_entry *entry = new_entry(queue, kind, zkl_entry_next_serial(queue->locks, acquisition, kind));
    if (entry != NULL) {
        entry->acquisition = acquisition;
        entry->wanted = true;
        LIST_INSERT_HEAD(&acquisition->entries, entry, in_acquisition);
    }
    return entry;
}

/* The kind of an entry that only deletes a stray. No acquisition wants it, so none of its functions is called. */
static const zkl_kind stray_kind = {.node = ZKL_NODE_STRANGER};

zkl_entry *zkl_entry_new_stray(zkl_queue *queue, uint64_t serial)
{
    zkl_entry *entry = new_entry(queue, &stray_kind, serial);
    if (entry != NULL) {
        queue->locks->wire->cleaning++;
    }
    return entry;
}

/* --- the lists in which entries wait to be stepped ----------------------------------------------------------------- */

/* Puts the entry at the end of a list. The entry must be in none. */
static void enter_wait_list(zkl_entry *entry, struct zkl_entry_list *list)
{
    assert(entry->wait_list == NULL);
    entry->wait_list = list;
    TAILQ_INSERT_TAIL(list, entry, in_wait_list);
}

void zkl_entry_leave_wait_list(zkl_entry *entry)
{
    if (entry->wait_list != NULL) {
        TAILQ_REMOVE(entry->wait_list, entry, in_wait_list);
        entry->wait_list = NULL;
    }
}

void zkl_entry_make_runnable(zkl_entry *entry)
{
    if (entry->wait_list == NULL) {
        enter_wait_list(entry, &entry->locks->runnable);
    }
}

void zkl_entry_back_off(zkl_entry *entry)
{
    if (entry->wait_list == NULL) {
        enter_wait_list(entry, &entry->locks->backing_off);
        zkl_try_later(entry->locks->wire);
    }
}

void zkl_entry_wait_for_budget(zkl_entry *entry)
{
    if (entry->wait_list != &entry->locks->over_watch_budget) {
        zkl_entry_leave_wait_list(entry);
        enter_wait_list(entry, &entry->locks->over_watch_budget);
    }
}

void zkl_entries_end_backoff(void *owner)
{
    zkl_locks *locks = owner;
    zkl_entry *entry;
    while ((entry = TAILQ_FIRST(&locks->backing_off)) != NULL) {
        zkl_entry_leave_wait_list(entry);
        zkl_entry_make_runnable(entry);
    }
}

/* --- watches ------------------------------------------------------------------------------------------------------- */

static int64_t watch_bytes(const zkl_entry *entry)
{
    return entry->locks->wire->chroot_length + (int64_t)strlen(entry->queue->path) + NAME_BYTES;
}

bool zkl_entry_fits(const zkl_entry *entry)
{
    return entry->reserved || zkl_watches_have_room(&entry->locks->session->watches, watch_bytes(entry));
}

void zkl_entry_reserve(zkl_entry *entry, bool reserved)
{
    if (entry->reserved != reserved) {
        entry->reserved = reserved;
        zkl_watches_reserve(&entry->locks->session->watches, reserved ? watch_bytes(entry) : -watch_bytes(entry));
    }
}

void zkl_entry_watch_node(zkl_entry *entry, const char *name)
{
    zkl_queue_remove_if_stray(entry->queue, name); /* else the entry would wait for it until the session ends */
    zkl_watches *watches = &entry->locks->session->watches;
    zkl_watch_node(watches, &entry->item, entry->queue->path, name);
    /* The end of the only node ahead is proof by itself. */
    if (entry->tenure.ahead == 1 || !entry->kind->passes || !zkl_lock_spec_is_open(entry->acquisition->spec) ||
        !zkl_queue_has_flags(entry->queue)) {
        return;
    }
    entry->tenure.passes = true;
    if (zkl_node_may_pass(name) && entry->item.watch != NULL) {
        char *flag = zkl_queue_flag(entry->queue, name);
        if (flag != NULL) {
            zkl_watch_flag(watches, &entry->item, flag);
        }
        zkl_free(flag);
    }
}

bool zkl_entry_watch_children(zkl_entry *entry, zkl_queue *queue)
{
    return zkl_watch_children(&entry->locks->session->watches, &entry->item, queue->path);
}

void zkl_entry_watch_own(zkl_entry *entry)
{
    zkl_watch_own(&entry->locks->session->watches, &entry->item, entry->node);
}

/* --- the state ----------------------------------------------------------------------------------------------------- */

/*
 * The states that may follow each state. docs/design.md has a table with the event of each transition; tools/states.lua compares
 * that table with this one.
 */
#define TO(state) (UINT32_C(1) << ZKL_ENTRY_##state)
static const uint32_t next_states[] = {
    [ZKL_ENTRY_PARKED] = TO(LOOKING) | TO(JOINING) | TO(LEAVING) | TO(GONE),
    [ZKL_ENTRY_LOOKING] = TO(PARKED) | TO(GONE),
    [ZKL_ENTRY_JOINING] = TO(PARKED) | TO(RECOVERING) | TO(QUEUED) | TO(LEAVING) | TO(GONE),
    [ZKL_ENTRY_RECOVERING] = TO(PARKED) | TO(QUEUED) | TO(LEAVING) | TO(GONE),
    [ZKL_ENTRY_QUEUED] = TO(PARKED) | TO(RECOVERING) | TO(CONFIRMING) | TO(LEAVING) | TO(GONE),
    [ZKL_ENTRY_CONFIRMING] = TO(PARKED) | TO(QUEUED) | TO(GRANTED) | TO(LEAVING) | TO(GONE),
    [ZKL_ENTRY_GRANTED] = TO(LINGERING) | TO(LEAVING),
    [ZKL_ENTRY_LINGERING] = TO(GRANTED) | TO(LEAVING),
    [ZKL_ENTRY_LEAVING] = TO(GONE),
    [ZKL_ENTRY_GONE] = 0,
};

/* Returns what the state means for heartbeats. */
static zkl_item_state item_state(const zkl_kind *kind, zkl_entry_state state)
{
    static const zkl_item_state states[] = {
        [ZKL_ENTRY_PARKED] = ZKL_ITEM_NONE,     [ZKL_ENTRY_LOOKING] = ZKL_ITEM_NONE,
        [ZKL_ENTRY_JOINING] = ZKL_ITEM_PENDING, [ZKL_ENTRY_RECOVERING] = ZKL_ITEM_PENDING,
        [ZKL_ENTRY_QUEUED] = ZKL_ITEM_PRESENT,  [ZKL_ENTRY_CONFIRMING] = ZKL_ITEM_HELD,
        [ZKL_ENTRY_GRANTED] = ZKL_ITEM_HELD,    [ZKL_ENTRY_LINGERING] = ZKL_ITEM_HELD,
        [ZKL_ENTRY_LEAVING] = ZKL_ITEM_LEAVING, [ZKL_ENTRY_GONE] = ZKL_ITEM_NONE,
    };
    return state == ZKL_ENTRY_CONFIRMING && kind->needs_lease ? ZKL_ITEM_READY : states[state];
}

void zkl_entry_detach_readers(const zkl_entry *writer, bool unsent_only)
{
    if (writer->queue->downgraded == 0) {
        return;
    }
    zkl_entry *entry;
    TAILQ_FOREACH(entry, &writer->queue->entries, in_queue)
    {
        if (entry->writer == writer && !(unsent_only && entry->downgrade == ZKL_DOWNGRADE_MADE)) {
            entry->writer = NULL;
            if (entry->downgrade == ZKL_DOWNGRADE_TO_BE_MADE) {
                zkl_entry_set_downgrade(entry, ZKL_DOWNGRADE_NO);
            }
        }
    }
}

static void enter_entry(zkl_entry *entry, zkl_entry_state state)
{
    zkl_locks *locks = entry->locks;
    if (entry->kind->weaker != NULL && entry->state == ZKL_ENTRY_GRANTED) {
        zkl_entry_detach_readers(entry, false);
    }
    zkl_heartbeat_enter(&locks->session->heartbeat, &entry->item, item_state(entry->kind, state));
    if (entry->state == ZKL_ENTRY_LINGERING) {
        TAILQ_REMOVE(&locks->lingering, entry, in_lingering);
    }
    entry->queue->lingering += (state == ZKL_ENTRY_LINGERING) - (entry->state == ZKL_ENTRY_LINGERING);
    if (!entry->wanted) {
        locks->wire->cleaning += (state != ZKL_ENTRY_GONE) - (entry->state != ZKL_ENTRY_GONE);
    }
    entry->state = state;
}

void zkl_entry_move(zkl_entry *entry, zkl_entry_state state)
{
    /* Under ZKL_BREAK_PAIRING an entry without a node may be granted. */
    assert(state == entry->state || (next_states[entry->state] >> state & 1) != 0 || ZKL_BROKEN(ZKL_BREAK_PAIRING));
    enter_entry(entry, state);
}

void zkl_entry_linger(zkl_entry *entry, int64_t until)
{
    assert(entry->state == ZKL_ENTRY_GRANTED && entry->acquisition == NULL && TAILQ_EMPTY(&entry->sharers));
    zkl_entry_move(entry, ZKL_ENTRY_LINGERING);
    entry->linger_until = until;
    ZKL_INSERT_SORTED(&entry->locks->lingering, zkl_entry_list, entry, linger_until, in_lingering);
}

bool zkl_entry_is_granted(const zkl_entry *entry)
{
    return entry->state == ZKL_ENTRY_GRANTED || entry->state == ZKL_ENTRY_LINGERING;
}

void zkl_entry_not_wanted(zkl_entry *entry)
{
    if (entry->wanted) {
        entry->wanted = false;
        entry->locks->wire->cleaning += entry->state != ZKL_ENTRY_GONE;
    }
}

void zkl_entry_step(zkl_entry *entry)
{
    bool sends = !zkl_entry_is_granted(entry) && entry->state != ZKL_ENTRY_GONE &&
                 (entry->state != ZKL_ENTRY_CONFIRMING || !entry->kind->needs_lease);
    if (!sends) {
        return;
    }
    if (!entry->locks->wire->usable || entry->locks->wire->in_flight >= ZKL_MAX_IN_FLIGHT ||
        (entry->state == ZKL_ENTRY_PARKED && zkl_heartbeat_holds_back(&entry->locks->session->heartbeat))) {
        zkl_entry_make_runnable(entry);
        return;
    }
    if (zkl_entry_senders[entry->state] != NULL) {
        zkl_entry_senders[entry->state](entry);
    }
}

/* --- the acquisitions in it ---------------------------------------------------------------------------------------- */

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

void zkl_entry_close(zkl_entry *entry)
{
    if (entry->kind->closed != NULL) {
        entry->kind->closed(entry);
    }
}

void zkl_entry_end_handover(zkl_entry *entry, zkl_handover why)
{
    assert(why != ZKL_HANDOVER_ALLOWED);
    if (entry->tenure.handover == ZKL_HANDOVER_ALLOWED) {
        entry->tenure.handover = why;
    }
}

void zkl_entry_node_lost(zkl_entry *entry, zkl_loss loss)
{
    if (entry->kind->node_lost != NULL) {
        entry->kind->node_lost(entry, loss);
    }
}

/* --- requests ------------------------------------------------------------------------------------------------------ */

bool zkl_entry_has_sent(const zkl_entry *entry, zkl_entry_request request)
{
    return (entry->tenure.requests & (unsigned)request) != 0;
}

bool zkl_entry_note_request(zkl_entry *entry, zkl_entry_request request, bool in_flight)
{
    unsigned others = entry->tenure.requests & ~(unsigned)request;
    entry->tenure.requests = (uint8_t)(in_flight ? others | (unsigned)request : others);
    return in_flight;
}

zkl_ask zkl_entry_ask(zkl_entry *entry, zkl_on_reply on_reply)
{
    return (zkl_ask){.on_reply = on_reply,
                     .owner = entry,
                     .release = zkl_entry_release,
                     .kept = entry,
                     .generation = entry->generation};
}

bool zkl_entry_sent(zkl_entry *entry, int rc)
{
    entry->flying += rc == ZOK;
    return rc == ZOK;
}

bool zkl_entry_list(zkl_entry *entry, zkl_on_reply on_reply, int32_t tag)
{
    zkl_ask ask = zkl_entry_ask(entry, on_reply);
    ask.tag = tag;
    return zkl_entry_sent(entry, zkl_send_names(entry->locks->wire, &ask, entry->queue->path));
}

/* --- freeing ------------------------------------------------------------------------------------------------------- */

static void unlink_entry(zkl_entry *entry)
{
    zkl_entry_leave_wait_list(entry);
    zkl_entry_reserve(entry, false);
    zkl_watch_leave(&entry->item);
    zkl_watch_leave_own(&entry->item);
    zkl_lock_spec_drop(entry->spec);
    entry->spec = NULL;
    zkl_entry_set_downgrade(entry, ZKL_DOWNGRADE_NO);
    TAILQ_REMOVE(&entry->locks->entries, entry, all);
    TAILQ_REMOVE(&entry->queue->entries, entry, in_queue);
    zkl_table_remove(&entry->locks->serials, entry);
    entry->locks->wire->stats.entries--;
}

static void free_entry(zkl_entry *entry)
{
    zkl_queue *queue = entry->queue;
    zkl_free(entry->node);
    zkl_free(entry);
    zkl_queue_drop(queue);
}

void zkl_entry_release(void *kept)
{
    zkl_entry *entry = kept;
    if (--entry->flying == 0 && entry->state == ZKL_ENTRY_GONE) {
        free_entry(entry);
    }
}

void zkl_entry_gone(zkl_entry *entry)
{
    zkl_acquisition *acquisition = entry->acquisition;
    entry->acquisition = NULL;
    zkl_entry_not_wanted(entry);
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
    zkl_entry_not_wanted(entry);
    enter_entry(entry, ZKL_ENTRY_GONE);
    unlink_entry(entry);
    free_entry(entry);
}
